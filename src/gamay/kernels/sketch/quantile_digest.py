"""Quantile digests of many groups at once: ranges of 64-bit integers, how many values each stands for.

A range, or node, of level k is 2**k integers, beginning at a multiple of that in the order of Java's longs; it is kept as
its upper bound (int64), its level (uint8) and its weight (float64). Nodes of a group lie in post-order: by upper bound, then
by level. The rules by which nodes are merged into their parents are those of Shrivastava et al., "Medians and Beyond: New
Aggregation Techniques for Sensor Networks" (2004), as the QuantileDigest of Airlift and of Pinot applies them.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

_SIGN = np.uint64(1 << 63)
_ONE = np.uint64(1)
_DEPTH = 130  # subtrees without parent, and more
_NO_LEVEL = 65
_FEW = 24  # nodes that are sorted by insertion


@kernel
def _bits(value: Any) -> Any:
    """The unsigned number whose order is that of signed ones."""
    return np.uint64(value) ^ _SIGN


@kernel
def _mask(level: Any) -> Any:
    return ~np.uint64(0) if level >= 64 else (_ONE << np.uint64(level)) - _ONE


@kernel
def _common_level(a: Any, b: Any) -> Any:
    """The level of the smallest range that holds both numbers."""
    rest = a ^ b
    wide = np.uint64(rest >> np.uint64(32) != 0) << np.uint64(5)
    rest >>= wide
    level = wide
    wide = np.uint64(rest >> np.uint64(16) != 0) << np.uint64(4)
    rest >>= wide
    level += wide
    wide = np.uint64(rest >> np.uint64(8) != 0) << np.uint64(3)
    rest >>= wide
    level += wide
    wide = np.uint64(rest >> np.uint64(4) != 0) << np.uint64(2)
    rest >>= wide
    level += wide
    wide = np.uint64(rest >> np.uint64(2) != 0) << np.uint64(1)
    rest >>= wide
    return np.int64(level + wide + (rest >> _ONE) + (rest != 0))


@kernel
def sort_nodes(starts: Array, uppers: Array, levels: Array, weights: Array) -> None:
    """Put the nodes of each group in post-order."""
    for group in range(len(starts) - 1):
        first, last = starts[group], starts[group + 1]
        if last - first > _FEW:
            order = np.argsort(uppers[first:last])
            uppers[first:last] = uppers[first:last][order]
            levels[first:last] = levels[first:last][order]
            weights[first:last] = weights[first:last][order]
        # what is left is to order the levels of equal bounds, or few nodes
        for i in range(first + 1, last):
            upper, level, weight = uppers[i], levels[i], weights[i]
            j = i - 1
            while j >= first and (uppers[j] > upper or (uppers[j] == upper and levels[j] > level)):
                uppers[j + 1], levels[j + 1], weights[j + 1] = uppers[j], levels[j], weights[j]
                j -= 1
            uppers[j + 1], levels[j + 1], weights[j + 1] = upper, level, weight


@kernel
def _least_weight(uppers: Array, levels: Array, weights: Array, first: Any, last: Any, max_error: float) -> Any:
    """The weight that a node must have together with its children, for these not to be merged into it."""
    total = 0.0
    level = np.int64(0)
    differing = np.uint64(0)
    one = np.uint64(uppers[first])
    for i in range(first, last):
        total += weights[i]
        level = max(level, np.int64(levels[i]))
        differing |= np.uint64(uppers[i]) ^ one
    root = max(level, _common_level(differing, np.uint64(0)))
    return np.floor(total / max(np.floor((root + 1) / max_error), 1.0))


@kernel
def _write(uppers: Array, levels: Array, weights: Array, place: Any, bits: Any, level: Any, weight: Any) -> None:
    uppers[place] = np.int64(bits ^ _SIGN)
    levels[place] = level
    weights[place] = weight


@kernel
def _without_holes(uppers: Array, levels: Array, weights: Array, first: Any, last: Any) -> Any:
    """Close the gaps that merged nodes have left, which have no weight; return the end."""
    end = first
    for i in range(first, last):
        if weights[i] > 0.0:
            uppers[end], levels[end], weights[end] = uppers[i], levels[i], weights[i]
            end += 1
    return end


@kernel
def _compress_group(nodes: Any, first: Any, last: Any, least: float, new: Any, end: Any, stack: Any) -> Any:
    """Write the nodes first to last that remain, from `end` on, and return the new end.

    nodes, new: upper bounds, levels and weights, as read and as written. stack: the subtrees that are still without parent:
    bits and weight of their tops, where these are written, and the level at which each joins the one before.
    """
    uppers, levels, weights = nodes
    new_uppers, new_levels, new_weights = new
    bits_of, weight_of, place_of, joins_at = stack
    i = first
    top = 0
    while True:
        closing = i == last
        bits = np.uint64(0)
        level = np.int64(_NO_LEVEL)
        weight = 0.0
        if not closing:
            bits, level, weight = _bits(uppers[i]), np.int64(levels[i]), weights[i]
            i += 1
            while i < last and uppers[i] == uppers[i - 1] and levels[i] == level:
                weight += weights[i]
                i += 1
        # Two subtrees get their parent when nothing can come between them and it any more.
        while top >= 2:
            parent = joins_at[top - 1]
            inside = parent >= 64 or (bits >> np.uint64(parent)) == (bits_of[top - 1] >> np.uint64(parent))
            if level <= parent and inside:
                break
            together = weight_of[top - 2] + weight_of[top - 1]
            top -= 1
            if together < least:
                for child in range(top - 1, top + 1):
                    if weight_of[child] > 0.0:
                        new_weights[place_of[child]] = 0.0
            else:
                together = 0.0
            bits_of[top - 1] = bits_of[top] | _mask(parent)
            weight_of[top - 1] = together
            if together > 0.0:
                # The right child, when it had weight, lies at the end and is not needed any more.
                if weight_of[top] > 0.0:
                    end -= 1
                place_of[top - 1] = end
                _write(new_uppers, new_levels, new_weights, end, bits_of[top - 1], parent, together)
                end += 1
        if closing:
            return end
        # A node's children are the subtrees within its range.
        lower = bits & ~_mask(level)
        together = weight
        parentless = top
        while parentless > 0 and bits_of[parentless - 1] >= lower:
            parentless -= 1
            together += weight_of[parentless]
        if together < least:
            weight = together
            for child in range(parentless, top):
                if weight_of[child] > 0.0:
                    new_weights[place_of[child]] = 0.0
        top = parentless
        bits_of[top], weight_of[top], place_of[top] = bits, weight, end
        if top > 0:
            joins_at[top] = _common_level(bits_of[top - 1], bits)
        _write(new_uppers, new_levels, new_weights, end, bits, level, weight)
        end += 1
        top += 1


@kernel
def _add_equal(nodes: Any, first: Any, last: Any, new: Any, end: Any) -> Any:
    """Write the nodes first to last, from `end` on, each once with its whole weight; return the new end."""
    uppers, levels, weights = nodes
    new_uppers, new_levels, new_weights = new
    for i in range(first, last):
        if i > first and uppers[i] == uppers[i - 1] and levels[i] == levels[i - 1]:
            new_weights[end - 1] += weights[i]
        else:
            new_uppers[end], new_levels[end], new_weights[end] = uppers[i], levels[i], weights[i]
            end += 1
    return end


@kernel
def compress_nodes(
    starts: Array,
    uppers: Array,
    levels: Array,
    weights: Array,
    max_error: float,
    new_starts: Array,
    new_uppers: Array,
    new_levels: Array,
    new_weights: Array,
) -> None:
    """Merge nodes as far as the error allows; the rank of what is found is off by `max_error` (0 to 1) at most.

    starts .. weights: nodes of each group in post-order, which may occur twice. new_starts .. new_weights: written, in
    post-order; with room for twice as many nodes.
    """
    stack = (
        np.empty(_DEPTH, np.uint64),
        np.empty(_DEPTH, np.float64),
        np.empty(_DEPTH, np.int64),
        np.empty(_DEPTH, np.int64),
    )
    nodes, new = (uppers, levels, weights), (new_uppers, new_levels, new_weights)
    end = np.int64(0)
    for group in range(len(starts) - 1):
        new_starts[group] = start = end
        first, last = starts[group], starts[group + 1]
        if first == last:
            continue
        least = _least_weight(uppers, levels, weights, first, last, max_error)
        if least > 1.0:
            end = _compress_group(nodes, first, last, least, new, end, stack)
            end = _without_holes(new_uppers, new_levels, new_weights, start, end)
        else:
            end = _add_equal(nodes, first, last, new, end)
    new_starts[len(starts) - 1] = end


@kernel
def node_quantiles(starts: Array, uppers: Array, weights: Array, maxima: Array, p: float, out: Array) -> None:
    """Write, for each group that has nodes, the upper bound of the first node behind `p` percent of the weight (int64)."""
    for group in range(len(out)):
        first, last = starts[group], starts[group + 1]
        if last == first:
            continue
        total = 0.0
        for i in range(first, last):
            total += weights[i]
        passed = 0.0
        out[group] = maxima[group]
        for i in range(first, last):
            passed += weights[i]
            if passed > total * p / 100.0:
                out[group] = min(uppers[i], maxima[group])
                break

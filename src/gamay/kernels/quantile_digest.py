"""Quantile digests of many groups at once: ranges of 64-bit integers, how many values each stands for.

A range, or node, of level k is 2**k integers, beginning at a multiple of that in the order of Java's longs; it is kept as
its upper bound (int64), its level (uint8) and its weight (float64). Nodes of a group lie in post-order: by upper bound, then
by level. The rules by which nodes are merged into their parents are those of Shrivastava et al., "Medians and Beyond: New
Aggregation Techniques for Sensor Networks" (2004), as the QuantileDigest of Airlift and of Pinot applies them.
"""

from typing import Any, TypeAlias

import numpy as np

from gamay.kernels.jit import kernel

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_SIGN = np.uint64(1 << 63)
_ONE = np.uint64(1)
_DEPTH = 130  # subtrees that can be open at once, and more


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
    level = 0
    for step in (32, 16, 8, 4, 2, 1):
        if rest >> np.uint64(step):
            rest >>= np.uint64(step)
            level += step
    return level + np.int64(rest)


@kernel
def sort_nodes(starts: Array, uppers: Array, levels: Array, weights: Array) -> None:
    """Put the nodes of each group in post-order."""
    for group in range(len(starts) - 1):
        first, last = starts[group], starts[group + 1]
        sorted_already = True
        for i in range(first + 1, last):
            if uppers[i] < uppers[i - 1] or (uppers[i] == uppers[i - 1] and levels[i] < levels[i - 1]):
                sorted_already = False
                break
        if sorted_already:
            continue
        order = np.argsort(uppers[first:last])
        uppers[first:last] = uppers[first:last][order]
        levels[first:last] = levels[first:last][order]
        weights[first:last] = weights[first:last][order]
        for i in range(first + 1, last):
            level, weight = levels[i], weights[i]
            j = i - 1
            while j >= first and uppers[j] == uppers[i] and levels[j] > level:
                levels[j + 1], weights[j + 1] = levels[j], weights[j]
                j -= 1
            levels[j + 1], weights[j + 1] = level, weight


@kernel
def _unite(uppers: Array, levels: Array, weights: Array, first: Any, last: Any, to: Any) -> Any:
    """Move the nodes to `to`, equal ones made one; return the end."""
    end = to
    for i in range(first, last):
        if end > to and uppers[end - 1] == uppers[i] and levels[end - 1] == levels[i]:
            weights[end - 1] += weights[i]
        else:
            uppers[end], levels[end], weights[end] = uppers[i], levels[i], weights[i]
            end += 1
    return end


@kernel
def _least_weight(uppers: Array, levels: Array, weights: Array, first: Any, last: Any, max_error: float) -> Any:
    """The weight that a node must have together with its children, for these not to be merged into it."""
    total = 0.0
    root = 0
    one = _bits(uppers[first])
    for i in range(first, last):
        total += weights[i]
        root = max(root, np.int64(levels[i]), _common_level(_bits(uppers[i]), one))
    return np.floor(total / max(np.floor((root + 1) / max_error), 1.0))


@kernel
def compress_nodes(starts: Array, uppers: Array, levels: Array, weights: Array, max_error: float, new_starts: Array) -> None:
    """Merge nodes in place as far as the error allows; the rank of what is found is off by `max_error` (0 to 1) at most.

    new_starts: written, as `starts` of what is left.
    """
    open_uppers = np.empty(_DEPTH, np.uint64)
    open_levels = np.empty(_DEPTH, np.int64)
    open_weights = np.empty(_DEPTH, np.float64)
    end = np.int64(0)
    for group in range(len(starts) - 1):
        new_starts[group] = end
        first, last = end, _unite(uppers, levels, weights, starts[group], starts[group + 1], end)
        end = last
        if last - first < 2:
            continue
        least = _least_weight(uppers, levels, weights, first, last, max_error)
        if least <= 1.0:
            continue
        end = first
        top = 0
        for i in range(first, last + 1):
            closing = i == last
            upper = np.uint64(0) if closing else _bits(uppers[i])
            level = np.int64(65) if closing else np.int64(levels[i])
            weight = 0.0 if closing else weights[i]
            # Two open subtrees are closed when nothing can come between them and their parent any more.
            while top >= 2:
                parent = _common_level(open_uppers[top - 2], open_uppers[top - 1])
                inside = parent >= 64 or (upper >> np.uint64(parent)) == (open_uppers[top - 1] >> np.uint64(parent))
                if level <= parent and inside:
                    break
                together = open_weights[top - 2] + open_weights[top - 1]
                if together >= least:
                    for child in range(top - 2, top):
                        if open_weights[child] > 0.0:
                            uppers[end] = np.int64(open_uppers[child] ^ _SIGN)
                            levels[end], weights[end] = open_levels[child], open_weights[child]
                            end += 1
                    together = 0.0
                top -= 1
                open_uppers[top - 1] = open_uppers[top] | _mask(parent)
                open_levels[top - 1] = parent
                open_weights[top - 1] = together
            if closing:
                break
            # Its children are the open subtrees within its range.
            lower = upper & ~_mask(level)
            together = weight
            children = 0
            while children < top and open_uppers[top - 1 - children] >= lower:
                together += open_weights[top - 1 - children]
                children += 1
            if children and together >= least:
                for child in range(top - children, top):
                    if open_weights[child] > 0.0:
                        uppers[end] = np.int64(open_uppers[child] ^ _SIGN)
                        levels[end], weights[end] = open_levels[child], open_weights[child]
                        end += 1
                together = weight
            top -= children
            open_uppers[top], open_levels[top], open_weights[top] = upper, level, together
            top += 1
        if open_weights[0] > 0.0:
            uppers[end] = np.int64(open_uppers[0] ^ _SIGN)
            levels[end], weights[end] = open_levels[0], open_weights[0]
            end += 1
    new_starts[len(starts) - 1] = end


@kernel
def node_quantiles(starts: Array, uppers: Array, weights: Array, maxima: Array, q: float, out: Array) -> None:
    """Write, for each group that has nodes, the upper bound of the first node behind the share `q` of the weight (int64)."""
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
            if passed > q * total:
                out[group] = min(uppers[i], maxima[group])
                break

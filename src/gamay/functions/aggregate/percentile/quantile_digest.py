"""PERCENTILEEST and PERCENTILERAWEST: percentiles from quantile digests, with a rank error of at most 0.05.

Values are truncated to whole numbers, and NaN is skipped. PERCENTILEEST is a LONG; PERCENTILERAWEST is the digest itself,
in hexadecimal, in the format of Pinot's QuantileDigest. An argument of BYTES holds such digests, which are merged. Until
nodes have to be merged, the percentile is exact: the value at index floor(n * p / 100). Empty: -2^63, and a digest
without values.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.percentile.digest_state import DigestState
from gamay.functions.aggregate.percentile.points import SortedPoints, bring_together, groups_of, starts_of
from gamay.functions.aggregate.percentile.sorted_values import percentile_of
from gamay.functions.aggregate.totals.numeric import require_arguments, require_number
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.vector import Vector
from gamay.kernels.sketch.quantile_digest import compress_nodes, node_quantiles, sort_nodes
from gamay.model.types import DataType

MAX_ERROR = 0.05
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_SIGN = 1 << 63
_UNSIGNED_MAX = (1 << 64) - 1
_TOP_LEVEL = 64
_HEAD = struct.Struct(">ddqqqi")
_NODE = np.dtype([("children", "u1"), ("level", "u1"), ("bits", ">i8"), ("weight", ">f8")])


@dataclass(frozen=True, slots=True, eq=False)
class QuantileDigests:
    """Nodes of groups in post-order, see gamay.kernels.sketch.quantile_digest.

    starts: int64 [num_groups + 1]; uppers int64, levels uint8, weights float64 [number of nodes]; bounds: int64
    [num_groups, 2], smallest and largest value, 2^63 - 1 and -2^63 for empty groups.
    """

    starts: Array
    uppers: Array
    levels: Array
    weights: Array
    bounds: Array

    @property
    def num_groups(self) -> int:
        return len(self.bounds)


def no_digests(num_groups: int) -> QuantileDigests:
    """Return the digests of groups without values."""
    bounds = np.tile(np.array([_LONG_MAX, _LONG_MIN]), (num_groups, 1))
    nothing = np.zeros(num_groups + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0)
    return QuantileDigests(*nothing, bounds)


def whole_numbers(values: Array) -> Array:
    """Return numbers truncated to LONGs, clamped to the range."""
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    cut = np.trunc(values.astype(np.float64))
    inside = np.clip(cut, float(_LONG_MIN), float(_LONG_MAX - 1023)).astype(np.int64)
    inside[cut >= float(_LONG_MAX)] = _LONG_MAX  # 2^63 itself is not a LONG
    return inside


def _compressed(starts: Array, uppers: Array, levels: Array, weights: Array, bounds: Array) -> QuantileDigests:
    """Return digests of nodes in post-order."""
    new_starts = np.empty_like(starts)
    room = 2 * len(uppers)
    columns = np.empty(room, np.int64), np.empty(room, np.uint8), np.empty(room)
    compress_nodes(starts, uppers, levels, weights, MAX_ERROR, new_starts, *columns)
    stop = int(new_starts[-1])
    return QuantileDigests(new_starts, columns[0][:stop].copy(), columns[1][:stop].copy(), columns[2][:stop].copy(), bounds)


def merge_digests(partials: Sequence[QuantileDigests], maps: Sequence[GroupIds], num_groups: int) -> QuantileDigests:
    """Merge: entry i of partials[k] goes to group maps[k][i]."""
    bounds = no_digests(num_groups).bounds
    for partial, groups in zip(partials, maps, strict=True):
        np.minimum.at(bounds[:, 0], groups, partial.bounds[:, 0])
        np.maximum.at(bounds[:, 1], groups, partial.bounds[:, 1])
    filled = [k for k, partial in enumerate(partials) if len(partial.uppers)]
    if not filled:
        return no_digests(num_groups)
    groups = np.concatenate([maps[k][groups_of(partials[k].starts)] for k in filled]).astype(np.int32)
    starts = starts_of(groups, num_groups)
    uppers, levels, weights = (
        bring_together(groups, starts, np.concatenate([getattr(partials[k], column) for k in filled]))
        for column in ("uppers", "levels", "weights")
    )
    sort_nodes(starts, uppers, levels, weights)
    return _compressed(starts, uppers, levels, weights, bounds)


# -- as bytes


def serialize(digests: QuantileDigests) -> list[bytes]:
    """Return each digest in Java's format, big-endian.

    That is: maximal error, decay (0), landmark (0), smallest and largest value, number of nodes, then the nodes in
    post-order: flags of the children (1 left, 2 right), level, bits, weight.
    """
    serialized = []
    bounds, starts = digests.bounds.tolist(), digests.starts.tolist()
    for group, (low, high) in enumerate(bounds):
        nodes = slice(starts[group], starts[group + 1])
        columns = (column[nodes].tolist() for column in (digests.uppers, digests.levels, digests.weights))
        tree = _tree(list(zip(*columns, strict=True)))
        head = _HEAD.pack(MAX_ERROR, 0.0, 0, low, high, len(tree))
        serialized.append(head + b"".join(tree))
    return serialized


def parse(data: bytes) -> QuantileDigests:
    """Deserialise the digest of one group; empty bytes are an empty digest. Raises ValueError for invalid bytes."""
    if not data:
        return no_digests(1)
    if len(data) < _HEAD.size:
        raise ValueError("it is too short")
    _, decay, _, low, high, count = _HEAD.unpack_from(data)
    if decay:
        raise ValueError("its weights decay with time")
    if count < 0 or len(data) != _HEAD.size + _NODE.itemsize * count:
        raise ValueError("its length does not match its header")
    nodes = np.frombuffer(data[_HEAD.size :], _NODE)
    levels, weights = nodes["level"], nodes["weight"].astype(np.float64)
    if not (np.isfinite(weights) & (weights >= 0) & (levels <= _TOP_LEVEL)).all():
        raise ValueError("a node has an impossible weight or level")
    ones = np.uint64(_UNSIGNED_MAX) >> np.minimum(_TOP_LEVEL - levels, _TOP_LEVEL - 1).astype(np.uint64)
    bits = nodes["bits"].astype(np.int64).view(np.uint64) | np.where(levels > 0, ones, np.uint64(0))
    uppers = (bits ^ np.uint64(_SIGN)).view(np.int64)
    heavy = weights > 0  # the others only branch
    if not heavy.any():
        return no_digests(1)
    starts = np.array([0, np.count_nonzero(heavy)])
    return QuantileDigests(starts, uppers[heavy], levels[heavy], weights[heavy], np.array([(low, high)]))


def _tree(nodes: Sequence[tuple[int, int, float]]) -> list[bytes]:
    """Return the nodes (upper bound, level, weight) in post-order, with the weightless branches between them."""
    written: list[bytes] = []
    opened: list[tuple[int, int]] = []  # bits and level of the tops of the subtrees so far

    def close(bits: int, level: int, weight: float, children: Sequence[tuple[int, int]]) -> None:
        flags = sum(2 if child >> (level - 1) & 1 else 1 for child, _ in children)
        written.append(struct.pack(">BBqd", flags, level, _signed(bits), weight))
        opened.append((bits, level))

    for upper, level, weight in [*nodes, (_LONG_MAX, _TOP_LEVEL + 1, 0.0)]:
        bits = upper + _SIGN
        while len(opened) >= 2:
            parent = (opened[-1][0] ^ opened[-2][0]).bit_length()
            if level <= parent and bits >> parent == opened[-1][0] >> parent:
                break
            right, left = opened.pop(), opened.pop()
            close(right[0] | ((1 << parent) - 1), parent, 0.0, (left, right))
        if level > _TOP_LEVEL:
            break
        lower = bits & ~((1 << level) - 1)
        children = [child for child in opened if child[0] >= lower]
        del opened[len(opened) - len(children) :]
        close(bits, level, weight, children)
    return written


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >= _SIGN else bits


# -- the aggregate


class QuantileKind:
    """Quantile digests of LONGs."""

    name = "quantile digest"
    points = staticmethod(whole_numbers)
    merged = staticmethod(merge_digests)
    parse = staticmethod(parse)

    def grown(self, digests: QuantileDigests | None, num_groups: int) -> QuantileDigests:
        grown = no_digests(num_groups)
        if digests is None:
            return grown
        grown.bounds[: digests.num_groups] = digests.bounds
        starts = np.concatenate([digests.starts, np.full(num_groups - digests.num_groups, digests.starts[-1])])
        return QuantileDigests(starts, digests.uppers, digests.levels, digests.weights, grown.bounds)

    def of_points(self, points: SortedPoints) -> QuantileDigests:
        starts = points.starts
        digests = no_digests(len(starts) - 1)
        occupied = np.flatnonzero(np.diff(starts))
        digests.bounds[occupied, 0] = points.values[starts[:-1][occupied]]
        digests.bounds[occupied, 1] = points.values[starts[1:][occupied] - 1]
        levels = np.zeros(len(points.values), np.uint8)
        return _compressed(starts, points.values, levels, points.weights, digests.bounds)

    def side_by_side(self, parsed: Sequence[QuantileDigests]) -> QuantileDigests:
        starts = np.concatenate([[0], np.cumsum([len(digest.uppers) for digest in parsed])])
        uppers, levels = np.concatenate([d.uppers for d in parsed]), np.concatenate([d.levels for d in parsed])
        weights, bounds = np.concatenate([d.weights for d in parsed]), np.concatenate([d.bounds for d in parsed])
        return QuantileDigests(starts, uppers, levels, weights, bounds)


_KIND = QuantileKind()


@dataclass(frozen=True, slots=True)
class EstimatedPercentile(KeepsState):
    """A percentile from quantile digests, or with `raw` the digests themselves. The partial is `QuantileDigests`."""

    percentile: float
    raw: bool
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> DigestState:
        return DigestState(_KIND, num_groups)

    def seal(self, state: DigestState) -> QuantileDigests:
        digests: QuantileDigests = state.digests()
        return digests

    def select(self, partial: QuantileDigests, groups: Array) -> QuantileDigests:
        lengths = np.diff(partial.starts)[groups]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        nodes = np.repeat(partial.starts[:-1][groups] - starts[:-1], lengths) + np.arange(starts[-1])
        columns = partial.uppers[nodes], partial.levels[nodes], partial.weights[nodes]
        return QuantileDigests(starts, *columns, partial.bounds[groups])

    def merge(self, partials: Sequence[QuantileDigests], maps: Sequence[GroupIds], num_groups: int) -> QuantileDigests:
        return merge_digests(partials, maps, num_groups)

    def finish(self, partial: QuantileDigests) -> Vector:
        if self.raw:
            return Vector(DataType.STRING, pa.array([data.hex() for data in serialize(partial)], pa.string()))
        results = np.full(partial.num_groups, _LONG_MIN, np.int64)
        node_quantiles(
            partial.starts, partial.uppers, partial.weights, partial.bounds[:, 1].copy(), self.percentile, results
        )
        return Vector(DataType.LONG, results)

    def encode(self, partial: QuantileDigests) -> list[pa.Array]:
        offsets = pa.array(partial.starts.astype(np.int32))
        columns = (partial.uppers, partial.levels, partial.weights)
        lists = [pa.ListArray.from_arrays(offsets, pa.array(column)) for column in columns]
        return [*lists, *(pa.array(np.ascontiguousarray(column)) for column in partial.bounds.T)]

    def decode(self, arrays: Sequence[pa.Array]) -> QuantileDigests:
        uppers, levels, weights, lows, highs = arrays
        starts = np.concatenate([[0], np.cumsum(uppers.value_lengths().to_numpy(), dtype=np.int64)])
        columns = uppers.flatten().to_numpy(), levels.flatten().to_numpy(), weights.flatten().to_numpy()
        return QuantileDigests(starts, *columns, np.stack([lows.to_numpy(), highs.to_numpy()], axis=1))


# -- binding


def _bind(call: Call, arg_types: Sequence[ValueType]) -> EstimatedPercentile:
    percentile = percentile_of(call)
    require_arguments(call, 2, 2)
    if [data_type for data_type, _ in arg_types] != [DataType.BYTES]:
        require_number(call, arg_types, 1)
    raw = "raw" in call.name
    traits = AggregateTraits(DataType.STRING if raw else DataType.LONG, "quantile digest")
    return EstimatedPercentile(percentile, raw, traits)


register_aggregate(["percentileEst", "percentileEstMV"], _bind, suffixed=True)
register_aggregate(["percentileRawEst", "percentileRawEstMV"], _bind, suffixed=True)

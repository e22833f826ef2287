"""PERCENTILETDIGEST, PERCENTILERAWTDIGEST and PERCENTILESMARTTDIGEST: percentiles from t-digests, exacter at the tails.

A third argument is the compression, 100 by default and at least 10. PERCENTILERAWTDIGEST is the digest itself, in
hexadecimal, in the format of t-digest's MergingDigest. PERCENTILESMARTTDIGEST is exact, as PERCENTILE, for groups of up
to 100000 values; its third argument is 'threshold=100000;compression=100', and a threshold of 0 or less means that it is
always exact. The other two also merge digests serialised as BYTES. NaN is skipped. Empty: NaN, a digest without values,
and -Infinity for PERCENTILESMARTTDIGEST.
"""

import math
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
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.parameters import Number, checked, text_parameters
from gamay.functions.sketch.tdigest import TDigest, parse
from gamay.functions.vector import Vector
from gamay.kernels.group.points import sort_weighted_runs
from gamay.kernels.sketch.digest import compress_centroids, digest_quantiles
from gamay.model.types import DataType

_COMPRESSION = Number(100.0, 1, 10_000)
_COMPRESSION_MIN = 10.0  # smaller ones are accepted and raised to this
_THRESHOLD = Number(100_000, -(1 << 31), (1 << 31) - 1)
_PIECES = 4  # of a heavy point, per unit of compression


@dataclass(frozen=True, slots=True, eq=False)
class Digests:
    """Centroids in ascending order of group, then mean.

    groups: int32 [m]; means, weights: float64 [m]; bounds: float64 [num_groups, 2], smallest and largest value.
    """

    groups: Array
    means: Array
    weights: Array
    bounds: Array

    @property
    def num_groups(self) -> int:
        return len(self.bounds)


@dataclass(frozen=True, slots=True)
class DigestShape:
    """t-digests of a compression. exact_until: groups of up to this many values keep them all."""

    compression: float
    exact_until: float = 0.0
    name = "t-digest"
    parse = staticmethod(parse)

    def points(self, values: Array) -> Array:
        return values.astype(np.float64, copy=False)

    def grown(self, digests: Digests | None, num_groups: int) -> Digests:
        known = Digests(np.empty(0, np.int32), np.empty(0), np.empty(0), no_bounds(0)) if digests is None else digests
        bounds = no_bounds(num_groups)
        bounds[: known.num_groups] = known.bounds
        return Digests(known.groups, known.means, known.weights, bounds)

    def of_points(self, points: SortedPoints) -> Digests:
        starts, values = points.starts, points.values
        bounds = no_bounds(len(starts) - 1)
        occupied = np.flatnonzero(np.diff(starts))
        bounds[occupied, 0] = values[starts[:-1][occupied]]
        bounds[occupied, 1] = values[starts[1:][occupied] - 1]
        groups, means, weights = _in_pieces(groups_of(starts), values, points.weights, self)
        return _compressed(groups, means, weights, bounds, self)

    def merged(self, parts: Sequence[Digests], maps: Sequence[GroupIds], num_groups: int) -> Digests:
        return merge_digests(parts, maps, num_groups, self)

    def side_by_side(self, parsed: Sequence[TDigest]) -> Digests:
        groups = np.repeat(np.arange(len(parsed), dtype=np.int32), [len(digest.means) for digest in parsed])
        means, weights = np.concatenate([d.means for d in parsed]), np.concatenate([d.weights for d in parsed])
        return Digests(groups, means, weights, np.array([(digest.low, digest.high) for digest in parsed]))


def _compressed(groups: Array, means: Array, weights: Array, bounds: Array, shape: DigestShape) -> Digests:
    """Return digests of weighted points that ascend by group and mean; overwrites the arrays."""
    totals = np.bincount(groups, weights=weights, minlength=len(bounds))
    left = int(compress_centroids(groups, means, weights, totals, shape.compression, shape.exact_until))
    return Digests(groups[:left].copy(), means[:left].copy(), weights[:left].copy(), bounds)


def no_bounds(num_groups: int) -> Array:
    """Return the bounds of groups without values."""
    return np.tile(np.array([np.inf, -np.inf]), (num_groups, 1))


def _in_pieces(groups: Array, values: Array, weights: Array, shape: DigestShape) -> tuple[Array, Array, Array]:
    """Return weighted points with the heavy ones split into several, as if their rows had arrived one by one.

    Percentiles are interpolated between the midpoints of neighbours: a single point with a third of all rows would
    distort the percentiles of the values beside it.
    """
    if weights.max(initial=1) == 1:
        return groups, values, weights
    largest = np.bincount(groups, weights) / (_PIECES * shape.compression)
    pieces = np.clip(np.ceil(weights / largest[groups]), 1, weights).astype(np.int64)
    if pieces.max(initial=1) == 1:
        return groups, values, weights
    source = np.repeat(np.arange(len(pieces)), pieces)
    number = np.arange(len(source)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    whole, parts = weights.astype(np.int64)[source], pieces[source]
    cut = (number + 1) * whole // parts - number * whole // parts
    return groups[source], values[source], cut.astype(np.float64)


def merge_digests(partials: Sequence[Digests], maps: Sequence[GroupIds], num_groups: int, shape: DigestShape) -> Digests:
    """Merge: entry i of partials[k] goes to group maps[k][i]."""
    bounds = no_bounds(num_groups)
    for partial, groups in zip(partials, maps, strict=True):
        np.minimum.at(bounds[:, 0], groups, partial.bounds[:, 0])
        np.maximum.at(bounds[:, 1], groups, partial.bounds[:, 1])
    groups = np.concatenate([groups[partial.groups] for partial, groups in zip(partials, maps, strict=True)])
    groups = groups.astype(np.int32, copy=False)
    starts = starts_of(groups, num_groups)
    means = bring_together(groups, starts, np.concatenate([partial.means for partial in partials]))
    weights = bring_together(groups, starts, np.concatenate([partial.weights for partial in partials]))
    sort_weighted_runs(starts, means, weights)
    return _compressed(groups_of(starts), means, weights, bounds, shape)


@dataclass(frozen=True, slots=True)
class DigestPercentile(KeepsState):
    """A percentile from digests, or with `raw` the digests themselves. The partial is `Digests`."""

    percentile: float
    shape: DigestShape
    empty: float
    raw: bool
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> DigestState:
        return DigestState(self.shape, num_groups)

    def seal(self, state: DigestState) -> Digests:
        digests: Digests = state.digests()
        return digests

    def select(self, partial: Digests, groups: Array) -> Digests:
        places = np.full(partial.num_groups, -1, np.int32)
        places[groups] = np.arange(len(groups), dtype=np.int32)
        moved = places[partial.groups]
        kept = np.flatnonzero(moved >= 0)
        kept = kept[np.argsort(moved[kept], kind="stable")]
        return Digests(moved[kept], partial.means[kept], partial.weights[kept], partial.bounds[groups])

    def merge(self, partials: Sequence[Digests], maps: Sequence[GroupIds], num_groups: int) -> Digests:
        return merge_digests(partials, maps, num_groups, self.shape)

    def finish(self, partial: Digests) -> Vector:
        starts = starts_of(partial.groups, partial.num_groups)
        if self.raw:
            digests = serialize(starts, partial, self.shape.compression)
            return Vector(DataType.STRING, pa.array([data.hex() for data in digests], pa.string()))
        results = np.full(partial.num_groups, self.empty)
        bounds, p = partial.bounds, self.percentile
        digest_quantiles(starts, partial.means, partial.weights, bounds, p, self.shape.exact_until, results)
        return Vector(DataType.DOUBLE, results)

    def encode(self, partial: Digests) -> list[pa.Array]:
        offsets = pa.array(starts_of(partial.groups, partial.num_groups).astype(np.int32))
        lists = [pa.ListArray.from_arrays(offsets, pa.array(part)) for part in (partial.means, partial.weights)]
        return [*lists, pa.array(partial.bounds[:, 0]), pa.array(partial.bounds[:, 1])]

    def decode(self, arrays: Sequence[pa.Array]) -> Digests:
        means, weights, lows, highs = arrays
        groups = np.repeat(np.arange(len(means), dtype=np.int32), np.diff(means.offsets.to_numpy()))
        bounds = np.stack([lows.to_numpy(), highs.to_numpy()], axis=1)
        return Digests(groups, means.flatten().to_numpy(), weights.flatten().to_numpy(), bounds)


def serialize(starts: Array, digests: Digests, compression: float) -> list[bytes]:
    """Return each digest in the format of t-digest's MergingDigest, big-endian.

    That is: encoding (1), smallest and largest value, compression, number of centroids, then weight and mean of each.
    """
    serialized = []
    for group, (low, high) in enumerate(digests.bounds.tolist()):
        nodes = slice(int(starts[group]), int(starts[group + 1]))
        centroids = np.stack([digests.weights[nodes], digests.means[nodes]], axis=1).astype(">f8")
        serialized.append(struct.pack(">idddi", 1, low, high, compression, len(centroids)) + centroids.tobytes())
    return serialized


# -- binding


def _bind_digest(call: Call, arg_types: Sequence[ValueType]) -> DigestPercentile:
    percentile = percentile_of(call)
    require_arguments(call, 2, 3)
    if [data_type for data_type, _ in arg_types] != [DataType.BYTES]:
        require_number(call, arg_types, 2)
    given = call.args[2] if len(call.args) > 2 else Literal(_COMPRESSION.default, DataType.DOUBLE)
    given_value = given.value if isinstance(given, Literal) else None
    compression = max(checked(call, "compression", given_value, _COMPRESSION), _COMPRESSION_MIN)
    raw = "raw" in call.name
    traits = AggregateTraits(DataType.STRING if raw else DataType.DOUBLE, f"digest {compression}")
    return DigestPercentile(percentile, DigestShape(compression), math.nan, raw, traits)


def _bind_smart(call: Call, arg_types: Sequence[ValueType]) -> DigestPercentile:
    percentile = percentile_of(call)
    require_arguments(call, 2, 3)
    require_number(call, arg_types, 2)
    settings = text_parameters(call, 2, {"threshold": _THRESHOLD, "compression": _COMPRESSION})
    threshold = settings["threshold"]
    shape = DigestShape(max(settings["compression"], _COMPRESSION_MIN), threshold if threshold > 0 else math.inf)
    return DigestPercentile(percentile, shape, -math.inf, False, AggregateTraits(DataType.DOUBLE, f"digest {shape}"))


register_aggregate(["percentileTDigest", "percentileTDigestMV"], _bind_digest, suffixed=True)
register_aggregate(["percentileRawTDigest", "percentileRawTDigestMV"], _bind_digest, suffixed=True)
register_aggregate(["percentileSmartTDigest", "percentileSmartTDigestMV"], _bind_smart, suffixed=True)

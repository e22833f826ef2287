"""PERCENTILETDIGEST and PERCENTILEEST: percentiles from t-digests, close at the ends and coarser in the middle.

PERCENTILEEST takes the values cut to whole numbers and returns a LONG. NaN is passed over. Empty: NaN, and -2^63 for
PERCENTILEEST.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.distinct import percentile_of
from gamay.functions.aggregate.lookup import lookup_values, numbers
from gamay.functions.aggregate.numeric import require_number
from gamay.functions.aggregate.spi import GroupIds
from gamay.functions.aggregate.totals import flatten, unsigned
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.vector import EncodedVector, Operand, Values, Vector
from gamay.kernels.aggregation import count_groups, tally_coded
from gamay.kernels.digest import compress_centroids, digest_quantiles
from gamay.kernels.tuning import DIGEST_BUFFER_ROWS, TALLY_CELLS_MAX
from gamay.model.types import DataType

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

DEFAULT_COMPRESSION = 100.0
_ESTIMATE_COMPRESSION = 200.0
_NO_LONG = -(1 << 63)
_POINTS_WORTH_A_SORT = 200


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


def _compressed(groups: Array, means: Array, weights: Array, bounds: Array, compression: float) -> Digests:
    """Return digests of weighted points that ascend by group and mean; the arrays are used up."""
    totals = np.bincount(groups, weights=weights, minlength=len(bounds))
    left = int(compress_centroids(groups, means, weights, totals, compression))
    return Digests(groups[:left].copy(), means[:left].copy(), weights[:left].copy(), bounds)


def sort_points(groups: Array, values: Array, num_groups: int) -> tuple[Array, Array]:
    """Return points in ascending order of group (int32), then value.

    Sorting values alone is several times as fast as sorting by two keys, so groups with many values are sorted one by one.
    """
    if num_groups == 1:
        return groups, np.sort(values)
    if num_groups * _POINTS_WORTH_A_SORT > len(values):
        order = np.lexsort((values, groups))
        return groups[order], values[order]
    order = np.argsort(groups.astype(np.uint16) if num_groups <= 1 << 16 else groups, kind="stable")
    groups, values = groups[order], values[order]
    for start, end in pairwise([0, *np.cumsum(np.bincount(groups, minlength=num_groups)).tolist()]):
        values[start:end].sort()
    return groups, values


def no_bounds(num_groups: int) -> Array:
    """Return the bounds of groups without values."""
    return np.tile(np.array([np.inf, -np.inf]), (num_groups, 1))


class DigestState:
    """Points that wait to be digested, and the digests so far.

    Ids of one dictionary are only counted while the table of groups and ids is small.
    """

    def __init__(self, compression: float, whole_numbers: bool, num_groups: int) -> None:
        self.digests = Digests(np.empty(0, np.int32), np.empty(0), np.empty(0), no_bounds(num_groups))
        self._compression = compression
        self._whole_numbers = whole_numbers
        self._waiting: list[tuple[Array, Array]] = []
        self._waiting_rows = 0
        self._dictionary: Values = None
        self._lut: Array = np.empty(0)
        self._tally: Array | None = None

    def grow(self, num_groups: int) -> None:
        self._flush_tally()
        bounds = no_bounds(num_groups)
        bounds[: self.digests.num_groups] = self.digests.bounds
        self.digests = Digests(self.digests.groups, self.digests.means, self.digests.weights, bounds)

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        groups, values = flatten(None if groups is None else unsigned(groups), operand, num_rows)
        if not isinstance(values, EncodedVector):
            self._wait(groups, self._points(numbers(values.type, values.values).astype(np.float64)))
            return
        if values.dictionary.values is not self._dictionary:
            self._flush_tally()
            self._dictionary = values.dictionary.values
            self._lut = self._points(lookup_values(values.dictionary).astype(np.float64))
        cells = self.digests.num_groups * len(self._lut)
        if cells > TALLY_CELLS_MAX:
            self._wait(groups, self._lut[values.ids])
            return
        if self._tally is None:
            self._tally = np.zeros(cells, np.int64)
        if groups is None:
            count_groups(values.ids, self._tally, 0)
        else:
            tally_coded(groups, values.ids, len(self._lut), self._tally)

    def add(self, other: "DigestState") -> None:
        groups = np.arange(self.digests.num_groups, dtype=np.int32)
        self.digests = merge_digests([self.flushed(), other.flushed()], [groups, groups], len(groups), self._compression)

    def flushed(self) -> Digests:
        """Return the digests of everything that was added."""
        self._flush_tally()
        self._flush_waiting()
        return self.digests

    def _points(self, values: Array) -> Array:
        return np.trunc(values) if self._whole_numbers else values

    def _wait(self, groups: GroupIds | None, values: Array) -> None:
        of_rows = np.zeros(len(values), np.int32) if groups is None else groups.astype(np.int32)
        self._waiting.append((of_rows, values))
        self._waiting_rows += len(values)
        if self._waiting_rows > DIGEST_BUFFER_ROWS:
            self._flush_waiting()

    def _flush_waiting(self) -> None:
        if self._waiting:
            groups = np.concatenate([part for part, _ in self._waiting])
            values = np.concatenate([part for _, part in self._waiting])
            self._waiting, self._waiting_rows = [], 0
            numbers_only = ~np.isnan(values)
            if not numbers_only.all():
                groups, values = groups[numbers_only], values[numbers_only]
            groups, values = sort_points(groups, values, self.digests.num_groups)
            self._add_sorted(groups, values, np.ones(len(values)))

    def _flush_tally(self) -> None:
        if self._tally is not None:
            cells = np.flatnonzero(self._tally)
            groups, ids = np.divmod(cells, max(len(self._lut), 1))
            weights = self._tally[cells].astype(np.float64)
            self._tally = None
            values = self._lut[ids]  # ascending within a group, as the dictionary ascends, NaN last
            numbers_only = ~np.isnan(values)
            self._add_sorted(groups[numbers_only].astype(np.int32), values[numbers_only], weights[numbers_only])

    def _add_sorted(self, groups: Array, values: Array, weights: Array) -> None:
        """Add weighted points that ascend by group and value."""
        num_groups = self.digests.num_groups
        ends = np.cumsum(np.bincount(groups, minlength=num_groups))
        starts = np.concatenate([[0], ends[:-1]]) if num_groups else ends
        occupied = np.flatnonzero(ends > starts)
        bounds = no_bounds(num_groups)
        bounds[occupied, 0] = values[starts[occupied]]
        bounds[occupied, 1] = values[ends[occupied] - 1]
        added = _compressed(groups, values, weights, bounds, self._compression)
        every = np.arange(num_groups, dtype=np.int32)
        self.digests = merge_digests([self.digests, added], [every, every], num_groups, self._compression)


def merge_digests(partials: Sequence[Digests], maps: Sequence[GroupIds], num_groups: int, compression: float) -> Digests:
    """Merge: entry i of partials[k] goes to group maps[k][i]."""
    bounds = no_bounds(num_groups)
    for partial, groups in zip(partials, maps, strict=True):
        np.minimum.at(bounds[:, 0], groups, partial.bounds[:, 0])
        np.maximum.at(bounds[:, 1], groups, partial.bounds[:, 1])
    groups = np.concatenate([groups[partial.groups] for partial, groups in zip(partials, maps, strict=True)])
    means = np.concatenate([partial.means for partial in partials])
    weights = np.concatenate([partial.weights for partial in partials])
    order = np.lexsort((means, groups))
    return _compressed(groups[order].astype(np.int32), means[order], weights[order], bounds, compression)


@dataclass(frozen=True, slots=True)
class DigestPercentile:
    """A percentile from digests. The partial is `Digests`."""

    percentile: float
    compression: float
    result_type: DataType
    state_kind: str
    result_is_multi_value: bool = False

    def allocate(self, num_groups: int) -> DigestState:
        return DigestState(self.compression, self.result_type is DataType.LONG, num_groups)

    def grow(self, state: DigestState, num_groups: int) -> DigestState:
        state.grow(num_groups)
        return state

    def update(self, state: DigestState, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        state.update(groups, args[0], num_rows)

    def combine(self, state: DigestState, other: DigestState) -> DigestState:
        state.add(other)
        return state

    def seal(self, state: DigestState) -> Digests:
        return state.flushed()

    def select(self, partial: Digests, groups: Array) -> Digests:
        places = np.full(partial.num_groups, -1, np.int32)
        places[groups] = np.arange(len(groups), dtype=np.int32)
        moved = places[partial.groups]
        kept = np.flatnonzero(moved >= 0)
        kept = kept[np.argsort(moved[kept], kind="stable")]
        return Digests(moved[kept], partial.means[kept], partial.weights[kept], partial.bounds[groups])

    def merge(self, partials: Sequence[Digests], maps: Sequence[GroupIds], num_groups: int) -> Digests:
        return merge_digests(partials, maps, num_groups, self.compression)

    def finish(self, partial: Digests) -> Vector:
        results = np.full(partial.num_groups, np.nan)
        starts = _starts(partial)
        digest_quantiles(starts, partial.means, partial.weights, partial.bounds, self.percentile / 100, results)
        if self.result_type is DataType.DOUBLE:
            return Vector(DataType.DOUBLE, results)
        longs = np.full(partial.num_groups, _NO_LONG, np.int64)
        found = ~np.isnan(results)
        # 2^63 itself is no LONG, and the largest double below it is 2^63 - 1024.
        longs[found] = np.clip(results[found], float(_NO_LONG), float((1 << 63) - 1024)).astype(np.int64)
        return Vector(DataType.LONG, longs)

    def encode(self, partial: Digests) -> list[pa.Array]:
        offsets = pa.array(_starts(partial).astype(np.int32))
        lists = [pa.ListArray.from_arrays(offsets, pa.array(part)) for part in (partial.means, partial.weights)]
        return [*lists, pa.array(partial.bounds[:, 0]), pa.array(partial.bounds[:, 1])]

    def decode(self, arrays: Sequence[pa.Array]) -> Digests:
        means, weights, lows, highs = arrays
        groups = np.repeat(np.arange(len(means), dtype=np.int32), np.diff(means.offsets.to_numpy()))
        bounds = np.stack([lows.to_numpy(), highs.to_numpy()], axis=1)
        return Digests(groups, means.flatten().to_numpy(), weights.flatten().to_numpy(), bounds)


def _starts(partial: Digests) -> Array:
    starts = np.zeros(partial.num_groups + 1, np.int64)
    np.cumsum(np.bincount(partial.groups, minlength=partial.num_groups), out=starts[1:])
    return starts


# -- binding


def _bind_digest(call: Call, arg_types: Sequence[ValueType]) -> DigestPercentile:
    require_number(call, arg_types)
    compression: object = DEFAULT_COMPRESSION
    if len(call.args) > 2:
        compression = call.args[2].value if isinstance(call.args[2], Literal) else None
    if isinstance(compression, bool) or not isinstance(compression, int | float) or not 10 <= compression <= 10_000:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION, f"The third argument of '{call.name}' is the compression, a number from 10 to 10000"
        )
    return DigestPercentile(percentile_of(call), float(compression), DataType.DOUBLE, f"digest {compression}")


def _bind_estimate(call: Call, arg_types: Sequence[ValueType]) -> DigestPercentile:
    require_number(call, arg_types)
    return DigestPercentile(percentile_of(call), _ESTIMATE_COMPRESSION, DataType.LONG, "whole number digest")


register_aggregate(["percentileTDigest", "percentileTDigestMV"], _bind_digest, suffixed=True)
register_aggregate(["percentileEst", "percentileEstMV"], _bind_estimate, suffixed=True)

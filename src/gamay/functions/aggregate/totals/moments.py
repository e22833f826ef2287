"""VARPOP, VARSAMP, STDDEVPOP, STDDEVSAMP, SKEWNESS, KURTOSIS, FOURTHMOMENT, COVARPOP and COVARSAMP.

All are computed from deviations from the mean, so that large means cost no precision. SKEWNESS and KURTOSIS are the
sample versions (adjusted Fisher-Pearson; excess kurtosis). Empty, or a sample of one: -Infinity; SKEWNESS of less than
three and KURTOSIS of less than four values are NaN, both are 0 if the variance is below 1e-19. FOURTHMOMENT is the state
itself, as hexadecimal text of the count (a LONG), the mean and the sums of the second, third and fourth power of the
deviations (DOUBLEs), big-endian.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.lookup import lookup_values, numbers
from gamay.functions.aggregate.totals.numeric import require_numbers
from gamay.functions.aggregate.totals.totals import flatten, unsigned
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState, Sent
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.vector import EncodedVector, Operand, Values, Vector, take
from gamay.kernels.group.aggregation import count_add_values, count_groups, tally_coded
from gamay.kernels.group.moments import (
    add_powers,
    add_products,
    add_shifted,
    add_squares,
    comoments_of_sums,
    merge_comoments,
    merge_moments,
    moments_of_sums,
    total_squares,
)
from gamay.kernels.tuning import TALLY_CELLS_MAX
from gamay.model.types import DataType

_VARIANCE_MIN = 1e-19
_CHUNK_ROWS = 1 << 16  # small enough for both passes to find the values in the cache
# from this number of groups, a pass over all of them per chunk costs more than shifted sums, which need only one pass
_PASSED_GROUPS = 1 << 12
_SQUARES, _POWERS = 3, 5  # the number of cells of a group
_COMOMENTS = 4


class MomentsState:
    """Moments of groups: float64 [num_groups, width]. Ids of a small dictionary are only counted, see `TALLY_CELLS_MAX`."""

    def __init__(self, width: int, num_groups: int) -> None:
        self._cells = np.zeros((num_groups, width))
        self._dictionary: Values = None
        self._lut: Array = np.empty(0)
        self._tally: Array | None = None
        self._shifted: Array | None = None

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        self._flush_tally()
        self._dictionary = None
        self._cells = _longer(self._cells, num_groups)
        if self._shifted is not None:
            self._shifted = _longer(self._shifted, num_groups)

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        """Add a batch of rows."""
        groups, values = flatten(None if groups is None else unsigned(groups), operand, num_rows)
        if not isinstance(values, EncodedVector):
            self._add(groups, numbers(values.type, values.values).astype(np.float64, copy=False))
            return
        if values.dictionary.values is not self._dictionary:
            self._flush_tally()
            self._dictionary = values.dictionary.values
            self._lut = lookup_values(values.dictionary).astype(np.float64, copy=False)
            cells = len(self._cells) * len(self._lut)
            if cells <= min(TALLY_CELLS_MAX, len(values)):
                self._tally = np.zeros(cells, np.int64)
        if self._tally is None:
            self._add(groups, take(self._lut, values.ids))
        elif groups is None:
            count_groups(values.ids, self._tally, 0)
        else:
            tally_coded(groups, values.ids, len(self._lut), self._tally)

    def combine(self, other: "MomentsState") -> None:
        """Add the moments of another thread over the same groups."""
        part = other.moments()
        merge_moments(np.arange(len(part), dtype=np.int32), part, self.moments())

    def moments(self) -> Array:
        """Return the moments of all rows added."""
        self._flush_tally()
        self._flush_shifted()
        self._dictionary = None
        return self._cells

    def _add(self, groups: GroupIds | None, values: Array) -> None:
        if groups is not None and len(self._cells) > _PASSED_GROUPS and self._cells.shape[1] == _SQUARES:
            if self._shifted is None:
                self._shifted = np.zeros((len(self._cells), 4))
            add_shifted(groups, values, self._shifted)
            return
        # each chunk costs a pass over the groups
        rows = max(_CHUNK_ROWS, len(self._cells))
        for start in range(0, len(values), rows):
            chunk = values[start : start + rows]
            with np.errstate(all="ignore"):  # infinities make NaN
                if groups is None:
                    self._add_chunk_to_one(chunk)
                else:
                    self._add_chunk(groups[start : start + rows], chunk)

    def _add_chunk_to_one(self, values: Array) -> None:
        if self._cells.shape[1] == _SQUARES:
            mean = float(values.mean())
            sums = np.zeros((1, 2))
            total_squares(values, mean, sums[0])
            self._merge(np.array([len(values)]), np.array([mean]), sums)
        else:
            self._add_chunk(np.zeros(len(values), np.uint8), values)

    def _add_chunk(self, groups: Array, values: Array) -> None:
        num_groups, width = self._cells.shape
        pairs = np.zeros(2 * num_groups)
        count_add_values(groups, values, pairs, 0)
        counts, totals = pairs[::2], pairs[1::2]
        means = totals / np.maximum(counts, 1)
        sums = np.zeros((num_groups, width - 1))
        if width == _SQUARES:
            add_squares(groups, values, means, sums)
        else:
            add_powers(groups, values, means, sums)
        self._merge(counts, means, sums)

    def _merge(self, counts: Array, means: Array, sums: Array) -> None:
        part = np.zeros((len(counts), self._cells.shape[1]))
        moments_of_sums(counts, means, sums, part)
        merge_moments(np.arange(len(part), dtype=np.int32), part, self._cells)

    def _flush_shifted(self) -> None:
        if self._shifted is None:
            return
        shifted, self._shifted = self._shifted, None
        with np.errstate(all="ignore"):  # infinities make NaN
            self._merge(shifted[:, 0].copy(), shifted[:, 1].copy(), np.ascontiguousarray(shifted[:, 2:]))

    def _flush_tally(self) -> None:
        if self._tally is None:
            return
        cells = np.flatnonzero(self._tally)
        groups, ids = np.divmod(cells, max(len(self._lut), 1))
        weights, values = self._tally[cells].astype(np.float64), self._lut[ids]
        self._tally = None
        num_groups, width = self._cells.shape
        with np.errstate(all="ignore"):  # infinities make NaN
            counts = np.bincount(groups, weights, num_groups)
            means = np.bincount(groups, weights * values, num_groups) / np.maximum(counts, 1)
            deviations = values - means[groups]
            powers = [np.bincount(groups, weights * deviations**k, num_groups) for k in range(1, width)]
            self._merge(counts, means, np.stack(powers, axis=1))


class ComomentsState:
    """Comoments of groups: float64 [num_groups, 4]."""

    def __init__(self, num_groups: int) -> None:
        self.cells = np.zeros((num_groups, _COMOMENTS))

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        self.cells = _longer(self.cells, num_groups)

    def update(self, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        """Add a batch of rows."""
        xs, ys = (_doubles(arg, num_rows) for arg in args)
        of_rows = np.zeros(num_rows, np.uint8) if groups is None else unsigned(groups)
        rows = max(_CHUNK_ROWS, len(self.cells))
        for start in range(0, num_rows, rows):
            chunk = slice(start, start + rows)
            with np.errstate(all="ignore"):  # infinities make NaN
                self._add(of_rows[chunk], xs[chunk], ys[chunk])

    def combine(self, other: "ComomentsState") -> None:
        """Add the comoments of another thread over the same groups."""
        merge_comoments(np.arange(len(other.cells), dtype=np.int32), other.cells, self.cells)

    def _add(self, groups: Array, xs: Array, ys: Array) -> None:
        num_groups = len(self.cells)
        pairs = np.zeros((2, 2 * num_groups))
        count_add_values(groups, xs, pairs[0], 0)
        count_add_values(groups, ys, pairs[1], 0)
        counts = pairs[0, ::2]
        means = (pairs[:, 1::2] / np.maximum(counts, 1)).T.copy()
        sums = np.zeros((num_groups, 3))
        add_products(groups, xs, ys, means, sums)
        part = np.zeros_like(self.cells)
        comoments_of_sums(counts, means, sums, part)
        merge_comoments(np.arange(num_groups, dtype=np.int32), part, self.cells)


def _longer(cells: Array, num_groups: int) -> Array:
    longer = np.zeros((num_groups, cells.shape[1]))
    longer[: len(cells)] = cells
    return longer


def _doubles(operand: Operand, num_rows: int) -> Array:
    _, values = flatten(None, operand, num_rows)
    if isinstance(values, EncodedVector):
        return np.asarray(take(lookup_values(values.dictionary).astype(np.float64, copy=False), values.ids))
    return numbers(values.type, values.values).astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True)
class OfMoments(KeepsState):
    """An aggregate computed from moments or comoments. The partial is an array with a row for each group."""

    width: int
    result: Callable[[Array], Any]
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> MomentsState | ComomentsState:
        return ComomentsState(num_groups) if self.width == _COMOMENTS else MomentsState(self.width, num_groups)

    def update(
        self, state: MomentsState | ComomentsState, groups: GroupIds | None, args: Sequence[Operand], num_rows: int
    ) -> None:
        if isinstance(state, ComomentsState):
            state.update(groups, args, num_rows)
        else:
            state.update(groups, args[0], num_rows)

    def seal(self, state: MomentsState | ComomentsState) -> Array:
        return state.cells if isinstance(state, ComomentsState) else state.moments()

    def select(self, partial: Array, groups: Array) -> Array:
        return np.asarray(partial[groups])

    def merge(self, partials: Sequence[Array], maps: Sequence[GroupIds], num_groups: int) -> Array:
        merged = np.zeros((num_groups, self.width))
        merge = merge_comoments if self.width == _COMOMENTS else merge_moments
        for partial, groups in zip(partials, maps, strict=True):
            merge(groups, partial, merged)
        return merged

    def finish(self, partial: Array) -> Vector:
        with np.errstate(all="ignore"):  # NaN is a result
            return Vector(self.traits.result_type, self.result(partial))

    def encode(self, partial: Array) -> list[Sent]:
        return list(partial.T)

    def decode(self, arrays: Sequence[Sent]) -> Array:
        return np.stack(arrays, axis=1)


# -- results


def _spread(column: int, sample: bool) -> Callable[[Array], Array]:
    """Return a function that divides a sum of squares or products by the number of values, or by one less for samples."""

    def result(cells: Array) -> Array:
        divisor = cells[:, 0] - sample
        return np.where(divisor > 0, cells[:, column] / np.maximum(divisor, 1), -np.inf)

    return result


def _deviation(sample: bool) -> Callable[[Array], Array]:
    variance = _spread(2, sample)

    def result(cells: Array) -> Array:
        variances = variance(cells)
        return np.where(np.isneginf(variances), -np.inf, np.sqrt(variances))

    return result


def _skewness(cells: Array) -> Array:
    n, _, m2, m3, _ = cells.T
    variance = m2 / (n - 1)
    skewness = n * m3 / ((n - 1) * (n - 2) * np.sqrt(variance) * variance)
    return np.where(n < 3, np.nan, np.where(variance < _VARIANCE_MIN, 0.0, skewness))


def _kurtosis(cells: Array) -> Array:
    n, _, m2, _, m4 = cells.T
    variance = m2 / (n - 1)
    scaled = n * (n + 1) * m4 - 3 * m2 * m2 * (n - 1)
    kurtosis = scaled / ((n - 1) * (n - 2) * (n - 3) * variance * variance)
    return np.where(n < 4, np.nan, np.where(variance < _VARIANCE_MIN, 0.0, kurtosis))


def _as_hex(cells: Array) -> pa.Array:
    rows = np.empty(len(cells), [("count", ">i8"), ("moments", ">f8", 4)])
    rows["count"], rows["moments"] = cells[:, 0], cells[:, 1:]
    return pa.array([row.tobytes().hex() for row in rows], pa.string())


# -- binding

_OF_SQUARES = AggregateTraits(DataType.DOUBLE, "moments 2")
_OF_POWERS = AggregateTraits(DataType.DOUBLE, "moments 4")
_OF_COMOMENTS = AggregateTraits(DataType.DOUBLE, "comoments")
_OF_ONE: dict[str, OfMoments] = {
    "varpop": OfMoments(_SQUARES, _spread(2, False), _OF_SQUARES),
    "varsamp": OfMoments(_SQUARES, _spread(2, True), _OF_SQUARES),
    "stddevpop": OfMoments(_SQUARES, _deviation(False), _OF_SQUARES),
    "stddevsamp": OfMoments(_SQUARES, _deviation(True), _OF_SQUARES),
    "skewness": OfMoments(_POWERS, _skewness, _OF_POWERS),
    "kurtosis": OfMoments(_POWERS, _kurtosis, _OF_POWERS),
    "fourthmoment": OfMoments(_POWERS, _as_hex, AggregateTraits(DataType.STRING, "moments 4")),
}
_OF_TWO: dict[str, OfMoments] = {
    "covarpop": OfMoments(_COMOMENTS, _spread(3, False), _OF_COMOMENTS),
    "covarsamp": OfMoments(_COMOMENTS, _spread(3, True), _OF_COMOMENTS),
}


def _bind_one(call: Call, arg_types: Sequence[ValueType]) -> OfMoments:
    require_numbers(call, arg_types, 1)
    return _OF_ONE[call.name]


def _bind_two(call: Call, arg_types: Sequence[ValueType]) -> OfMoments:
    require_numbers(call, arg_types, 2)
    if any(is_multi_value for _, is_multi_value in arg_types):
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"Aggregate '{call.name}' takes single values, not lists")
    return _OF_TWO[call.name]


register_aggregate(
    ["varPop", "varSamp", "stddevPop", "stddevSamp", "skewness", "kurtosis", "fourthMoment"],
    _bind_one,
)
register_aggregate(["covarPop", "covarSamp"], _bind_two, arguments=lambda call: call.args)

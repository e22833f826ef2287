"""Running totals of numbers: the basis of COUNT, SUM, MIN, MAX, AVG and MINMAXRANGE.

Aggregates over one argument can share one `Totals`, which then reads each row once for all of them.
"""

from dataclasses import dataclass
from enum import Flag
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.lookup import INTEGERS, Lookup, largest_magnitude, numbers
from gamay.functions.aggregate.totals.packed import Packed
from gamay.functions.aggregate_spi import GroupIds
from gamay.functions.convert import placeholder
from gamay.functions.frame import Frame, FramedVector, frame_of_ids
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, numpy_dtype, take
from gamay.kernels.group.aggregation import (
    add_coded,
    add_values,
    bound_coded,
    bound_values,
    count_add_coded,
    count_add_values,
    count_groups,
    total_values_kept,
)
from gamay.kernels.group.grouping import expand_groups
from gamay.kernels.group.programs import ADD, COUNT_ADD, FRAMES, LOWER, RAISE, REGISTER_ROWS, SINKS, run_program
from gamay.kernels.tuning import FRAME_ROWS, LANED_GROUPS_MAX, LANES, PACKED_ROWS_PER_GROUP
from gamay.model.types import DataType

# Integers are summed exactly until this bound could be exceeded; from then on the sums are doubles.
_EXACT_SUM_MAX = 1 << 62
_NOTHING = np.empty(0)
# above this ratio of entries to rows, looking up the dictionary costs more than decoding the rows
_ENTRIES_PER_ROW = 16


class Needs(Flag):
    """The totals kept for each group."""

    COUNT = 1
    SUM = 2
    LOW = 4
    HIGH = 8

    __hash__ = object.__hash__


# the members of each combination, in the order of the kinds: testing a Flag takes a Python call
_ASKED = {Needs(bits): tuple(bool(bits & kind.value) for kind in Needs) for bits in range(16)}


@dataclass(slots=True, eq=False)  # not frozen: small queries make several, and freezing takes five times as long
class TotalsPartial:
    """The totals of groups, as arrays with an entry for each group; None for those not kept.

    counts: int64. sums: int64 while exact, else float64. lows, highs: float64, +inf and -inf for groups without rows.
    """

    counts: Array | None
    sums: Array | None
    lows: Array | None
    highs: Array | None


def unsigned(groups: GroupIds) -> GroupIds:
    """Return int32 groups as uint32, so that compiled loops exist for unsigned groups only."""
    return groups.view(np.uint32) if groups.dtype == np.int32 else groups


def flatten(groups: GroupIds | None, operand: Operand, num_rows: int) -> tuple[GroupIds | None, Vector | EncodedVector]:
    """Return single values, and the group of each: lists are flattened, a constant is repeated."""
    if isinstance(operand, Scalar):
        return groups, Vector(operand.type, repeat(operand, num_rows))
    if operand.offsets is None:
        return groups, operand
    offsets = operand.offsets
    first, last = int(offsets[0]), int(offsets[-1])
    if groups is not None:
        expanded = np.empty(last - first, groups.dtype)
        expand_groups(groups, offsets, expanded)
        groups = expanded
    if isinstance(operand, EncodedVector):
        return groups, EncodedVector(operand.ids[first:last], operand.dictionary)
    return groups, Vector(operand.type, operand.values[first:last])


def mask_of(operand: Operand, num_rows: int) -> Array:
    """Return the rows for which a condition is true, bool [num_rows]; false where it is null."""
    if isinstance(operand, Scalar):
        return np.full(num_rows, operand.value is not None and bool(operand.value))
    vector = operand.decode() if isinstance(operand, EncodedVector) else operand
    mask = np.asarray(vector.values).view(np.bool_)
    return mask if vector.nulls is None else mask & ~vector.nulls


def repeat(scalar: Scalar, count: int) -> Values:
    """Return a constant repeated `count` times, as values of its type; None becomes the type's placeholder for null."""
    value = placeholder(scalar.type) if scalar.value is None else scalar.value
    if scalar.type.is_text or scalar.type.is_binary:
        return pa.repeat(pa.scalar(value, pa.string() if scalar.type.is_text else pa.binary()), count)
    dtype = numpy_dtype(scalar.type)
    if dtype == np.dtype(object):
        values = np.empty(count, object)
        values[:] = value
        return values
    return np.full(count, value, dtype)


def whole_total(operand: Vector | EncodedVector) -> int | None:
    """Return the sum of few single integers, as `Totals` computes it without groups; None if it may exceed 64 bits."""
    if isinstance(operand, EncodedVector):
        ids = operand.ids
        if len(ids) * _ENTRIES_PER_ROW >= len(operand.dictionary):
            lookup = Lookup.of(operand.dictionary)
            return int(lookup.total(ids)) if lookup.magnitude * len(ids) <= _EXACT_SUM_MAX else None
        operand = operand.decode()
    values = numbers(operand.type, operand.values)
    if values.dtype.itemsize == 8 and largest_magnitude(values) * len(values) > _EXACT_SUM_MAX:
        return None
    return int(values.sum(dtype=np.int64))


class Totals:
    """Counts, sums and bounds of groups, for values of one type."""

    def __init__(self, needs: Needs, data_type: DataType | None, num_groups: int) -> None:
        self.needs = needs
        self.num_groups = num_groups
        self._counts, self._sums, has_lows, has_highs = _ASKED[needs]
        self._integers = data_type in INTEGERS
        self._exact = self._integers
        self._magnitude = 0  # an upper bound of any sum
        self._lookup: Lookup | None = None
        self._packed: Packed | None = None
        self._packed_of: Lookup | None = None
        self._width = int(self._counts) + int(self._sums)
        self._lanes = LANES if 1 < num_groups <= LANED_GROUPS_MAX else 1
        dtype = np.int64 if self._exact or not self._sums else np.float64
        self._cells: Array = np.zeros(self._lanes * num_groups * self._width, dtype)
        self._lows = np.full(num_groups, np.inf) if has_lows else _NOTHING
        self._highs = np.full(num_groups, -np.inf) if has_highs else _NOTHING

    @property
    def _stride(self) -> int:
        return self.num_groups * self._width if self._lanes > 1 else 0

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        cells = np.zeros(num_groups * self._width, self._cells.dtype)
        folded = self._folded()
        cells[: folded.size] = folded.reshape(-1)
        self._cells, self._lanes = cells, 1
        self._packed = self._packed_of = None
        self._lows = _extended(self._lows, num_groups, np.inf)
        self._highs = _extended(self._highs, num_groups, -np.inf)
        self.num_groups = num_groups

    def update(self, groups: GroupIds | None, operand: Operand | None, num_rows: int) -> None:
        """Add a batch; `operand`: None if rows are only counted."""
        if groups is not None:
            groups = unsigned(groups)
        if operand is None:
            self._count(groups, num_rows)
            return
        groups, values = flatten(groups, operand, num_rows)
        if self.needs is Needs.COUNT:
            self._count(groups, len(values))
        elif isinstance(values, FramedVector):
            self._update_framed(groups, values)
        elif isinstance(values, EncodedVector) and groups is not None and (frame := frame_of_ids(values)) is not None:
            self._update_framed(groups, FramedVector(frame))
        elif isinstance(values, EncodedVector) and len(values.ids) * _ENTRIES_PER_ROW >= len(values.dictionary):
            self._update_coded(groups, values)
        else:
            plain = values.decode() if isinstance(values, EncodedVector) else values
            self._update_values(groups, numbers(plain.type, plain.values))

    def update_kept(self, mask: Array, kept: int, operand: Operand | None) -> None:
        """Add those rows of a batch of single values whose `mask` (uint8) is 1, not 0, to the only group.

        kept: the number of ones. Only if nothing but COUNT and SUM is needed.
        """
        if operand is None or not self._sums:
            self._add_to_one(kept, 0)
            return
        if isinstance(operand, EncodedVector):
            lookup = self._look_up(operand.dictionary, kept)
            self._add_to_one(kept, lookup.total_kept(operand.ids, mask, kept))
            return
        if isinstance(operand, FramedVector):
            self._watch_framed(operand)
            self._add_to_one(kept, operand.total_kept(mask, kept))
            return
        assert isinstance(operand, Vector)
        values = numbers(operand.type, operand.values)
        self._watch_values(values)
        self._add_to_one(kept, total_values_kept(values, mask, self._cells.dtype.type(0)))

    def receive(self) -> tuple[Array, int, Array, Array]:
        """Return cells, the stride between lanes, lows and highs, for a kernel that adds values of DOUBLE itself.

        Bounds that are not kept are empty. The arrays belong to the state, and are valid until it grows.
        """
        return self._cells, self._stride, self._lows, self._highs

    def forget(self, first: int, last: int) -> None:
        """Reset the groups [first, last)."""
        folded = self._folded().copy()
        folded[first:last] = 0
        self._cells, self._lanes = folded.reshape(-1), 1
        self._lows[first:last] = np.inf
        self._highs[first:last] = -np.inf

    def combine(self, other: "Totals") -> None:
        """Add totals of the same kind over the same groups."""
        if self._exact and (not other._exact or self._magnitude + other._magnitude > _EXACT_SUM_MAX):
            self._give_up_exactness()
        self._magnitude += other._magnitude
        folded = self._folded() + other._folded()
        self._cells, self._lanes = folded.reshape(-1), 1
        self._lows = np.minimum(self._lows, other._lows)
        self._highs = np.maximum(self._highs, other._highs)

    def partial(self, needs: Needs) -> TotalsPartial:
        """Return the totals that `needs` names."""
        folded = self._folded()
        counts, sums, lows, highs = _ASKED[needs]
        return TotalsPartial(
            folded[:, 0].astype(np.int64) if counts else None,
            folded[:, -1].copy() if sums else None,
            self._lows if lows else None,
            self._highs if highs else None,
        )

    def _folded(self) -> Array:
        """Return the sums of the cells of all lanes: [num_groups, width]."""
        self._unpack()
        if self._lanes == 1:
            return self._cells.reshape(self.num_groups, self._width)
        with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs make NaN
            folded: Array = self._cells.reshape(self._lanes, self.num_groups, self._width).sum(axis=0)
        return folded

    def _count(self, groups: GroupIds | None, num_rows: int) -> None:
        if groups is None:
            self._cells[0] += num_rows
        else:
            count_groups(groups, self._cells, self._stride)

    def _update_coded(self, groups: GroupIds | None, values: EncodedVector) -> None:
        ids = values.ids
        lookup = self._look_up(values.dictionary, len(ids))
        if groups is None:
            self._update_one_coded(ids, lookup)
            return
        if self._width == 2:
            self._count_and_add(groups, ids, lookup)
        elif self._sums:
            add_coded(groups, ids, lookup.values, self._cells, self._stride)
        elif self._width:
            self._count(groups, len(ids))
        if len(self._lows) or len(self._highs):
            bound_coded(groups, ids, lookup.values, self._lows, self._highs)

    def _count_and_add(self, groups: GroupIds, ids: Array, lookup: Lookup) -> None:
        packed = self._packing(lookup) if len(ids) >= PACKED_ROWS_PER_GROUP * self.num_groups else None
        if packed is not None and not packed.has_room(len(ids)):
            self._unpack()
        if packed is not None and packed.has_room(len(ids)):
            packed.add(groups, ids)
        else:
            count_add_coded(groups, ids, lookup.values, self._cells, self._stride)

    def _packing(self, lookup: Lookup) -> Packed | None:
        if self._packed_of is not lookup:
            self._unpack()
            self._packed_of, self._packed = lookup, Packed.of(lookup, self.num_groups, self._lanes)
        return self._packed

    def _unpack(self) -> None:
        """Add the packed totals to the cells."""
        if self._packed is not None and self._packed.rows:
            self._cells.reshape(self._lanes, self.num_groups, 2)[0] += self._packed.take()

    def _look_up(self, dictionary: Vector, count: int) -> Lookup:
        """Return the values of a dictionary's ids, in the dtype that the sums have once `count` of them are added."""
        if self._lookup is None or dictionary.values is not self._lookup.dictionary:
            self._lookup = Lookup.of(dictionary)
        if self._sums:
            self._watch_magnitude(self._lookup.magnitude, count)
        if not self._exact:
            self._lookup = self._lookup.as_doubles()
        return self._lookup

    def _update_values(self, groups: GroupIds | None, values: Array) -> None:
        if self._sums:
            self._watch_values(values)
        if groups is None:
            self._add_to_one(len(values), self._sum(values) if self._sums else 0)
            if len(values):
                self._bound_one(values.min, values.max)
            return
        if self._width == 2:
            count_add_values(groups, values, self._cells, self._stride)
        elif self._sums:
            add_values(groups, values, self._cells, self._stride)
        elif self._width:
            self._count(groups, len(values))
        if len(self._lows) or len(self._highs):
            bound_values(groups, values, self._lows, self._highs)

    def _update_framed(self, groups: GroupIds | None, values: FramedVector) -> None:
        """Add values in a frame; if each must be visited, they are decoded in parts that fit the cache."""
        bounds = len(self._lows) or len(self._highs)
        if groups is not None and values.is_plain_double:
            self._run_framed(groups, values.frame)
            return
        if groups is not None or (bounds and len(values.patches)):
            for start, part in values.parts(FRAME_ROWS):
                self._update_values(None if groups is None else groups[start : start + len(part)], part)
            return
        if self._sums:
            self._watch_framed(values)
        self._add_to_one(len(values), values.total() if self._sums else 0)
        if bounds and len(values):
            self._bound_one(values.frame.least, values.frame.greatest)

    def _run_framed(self, groups: GroupIds, frame: Frame) -> None:
        """Add decimals to groups: one kernel call decodes and adds them, some at a time."""
        if self._counts and not self._sums:
            self._count(groups, len(frame))
        register, groups = np.empty(REGISTER_ROWS), np.ascontiguousarray(groups)
        place, numbers_at = register.ctypes.data, groups.ctypes.data
        sinks = [(COUNT_ADD if self._counts else ADD, self._cells, self._stride)] if self._sums else []
        sinks += [(kind, array, 0) for kind, array in ((LOWER, self._lows), (RAISE, self._highs)) if len(array)]
        steps = [[FRAMES + frame.kind, place, 0, *frame.addresses, frame.base, frame.places]]
        for kind, array, stride in sinks:
            steps.append([SINKS * (1 + kind) + groups.itemsize, array.ctypes.data, stride, place, 0, numbers_at, 0])
        run_program(np.array(steps, np.int64), len(frame))

    def _watch_framed(self, values: FramedVector) -> None:
        if self._integers:
            frame = values.frame
            magnitude = max(abs(frame.base), abs(frame.base + (1 << frame.bits)), largest_magnitude(values.patches))
            self._watch_magnitude(magnitude, len(values))

    def _sum(self, values: Array) -> Any:
        if self._exact:
            return values.sum(dtype=np.int64)
        with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs make NaN
            return values.sum(dtype=np.float64)

    def _update_one_coded(self, ids: Array, lookup: Lookup) -> None:
        if len(ids) == 0:
            return
        self._add_to_one(len(ids), lookup.total(ids) if self._sums else 0)
        if len(self._lows) or len(self._highs):
            if not lookup.ascends:
                found = take(lookup.values, ids)
                self._bound_one(found.min, found.max)
                return
            lut = lookup.values
            low, high = lut[ids.min()], lut[ids.max()]  # NaN is last
            self._bound_one(lambda: high if np.isnan(high) else low, lambda: high)

    def _add_to_one(self, count: int, total: Any) -> None:
        if self._sums:
            self._cells[self._width - 1] += total
        if self._counts:
            self._cells[0] += count

    def _bound_one(self, low: Any, high: Any) -> None:
        """Update the bounds of the only group, where NaN is kept, as in Pinot: `minimum` and `maximum` propagate it."""
        if len(self._lows):
            self._lows[0] = np.minimum(self._lows[0], low())
        if len(self._highs):
            self._highs[0] = np.maximum(self._highs[0], high())

    def _watch_magnitude(self, magnitude: int, count: int) -> None:
        self._magnitude += magnitude * count
        if self._exact and self._magnitude > _EXACT_SUM_MAX:
            self._give_up_exactness()

    def _watch_values(self, values: Array) -> None:
        if self._integers:
            # only 64-bit values need to be scanned; the bound of smaller types is known
            self._watch_magnitude(largest_magnitude(values) if values.dtype.itemsize == 8 else 1 << 31, len(values))

    def _give_up_exactness(self) -> None:
        self._unpack()
        self._exact = False
        self._cells = self._cells.astype(np.float64)


def _extended(array: Array, length: int, fill: float) -> Array:
    if len(array) == 0:
        return array
    longer = np.full(length, fill)
    longer[: len(array)] = array
    return longer

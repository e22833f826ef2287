"""SUMARRAYLONG and SUMARRAYDOUBLE: element-wise sums of the arrays of each group, shorter ones padded with 0.

Empty: an empty array. A sum that does not fit a LONG is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds
from gamay.functions.convert import convert, to_vector
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.vector import Operand, Vector, numpy_dtype
from gamay.model.types import DataType


@dataclass(slots=True, eq=False)
class ArraySums:
    """Element-wise sums: int64 (may have wrapped) or float64 [num_groups, width]; near: in float64; lengths: of groups."""

    sums: Array
    near: Array
    lengths: Array

    @staticmethod
    def empty(dtype: Any, num_groups: int, width: int = 0) -> "ArraySums":
        return ArraySums(np.zeros((num_groups, width), dtype), np.zeros((num_groups, width)), np.zeros(num_groups, np.int64))

    def resized(self, num_groups: int, width: int) -> "ArraySums":
        """Return the sums, enlarged for more groups and elements."""
        grown = ArraySums.empty(self.sums.dtype, num_groups, max(width, self.sums.shape[1]))
        rows, columns = self.sums.shape
        grown.sums[:rows, :columns] = self.sums
        grown.near[:rows, :columns] = self.near
        grown.lengths[:rows] = self.lengths
        return grown

    def add(self, groups: Array, other: "ArraySums") -> None:
        """Add the sums of other groups: row i is added to groups[i], which must be in range."""
        width = other.sums.shape[1]
        np.add.at(self.sums, (groups[:, None], np.arange(width)), other.sums)
        np.add.at(self.near, (groups[:, None], np.arange(width)), other.near)
        np.maximum.at(self.lengths, groups, other.lengths)


@dataclass(frozen=True, slots=True)
class ArraySum:
    """Aggregate that adds arrays element-wise. element_type: LONG or DOUBLE."""

    element_type: DataType

    @property
    def traits(self) -> AggregateTraits:
        return AggregateTraits(self.element_type, result_is_multi_value=True)

    def allocate(self, num_groups: int) -> ArraySums:
        return ArraySums.empty(numpy_dtype(self.element_type), num_groups)

    def grow(self, state: ArraySums, num_groups: int) -> ArraySums:
        return state.resized(num_groups, 0)

    def update(self, state: ArraySums, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        vector = to_vector(convert(args[0], self.element_type), num_rows)
        assert vector.offsets is not None
        first, last = int(vector.offsets[0]), int(vector.offsets[-1])
        lengths = np.diff(vector.offsets).astype(np.int64)
        width = int(lengths.max()) if len(lengths) else 0
        if width > state.sums.shape[1]:
            grown = state.resized(len(state.lengths), width)
            state.sums, state.near = grown.sums, grown.near
        of_rows = np.zeros(num_rows, np.int64) if groups is None else groups.astype(np.int64)
        np.maximum.at(state.lengths, of_rows, lengths)
        places = np.arange(first, last) - np.repeat(vector.offsets[:-1].astype(np.int64), lengths)
        cells = np.repeat(of_rows, lengths) * state.sums.shape[1] + places
        values = vector.values[first:last]
        np.add.at(state.sums.reshape(-1), cells, values)
        if self.element_type is DataType.LONG:
            state.near.reshape(-1)[:] += np.bincount(cells, values.astype(np.float64), state.near.size)

    def combine(self, state: ArraySums, other: ArraySums) -> ArraySums:
        return self.merge([state, other], [np.arange(len(part.lengths)) for part in (state, other)], len(state.lengths))

    def seal(self, state: ArraySums) -> ArraySums:
        return state

    def select(self, partial: ArraySums, groups: Array) -> ArraySums:
        return ArraySums(partial.sums[groups], partial.near[groups], partial.lengths[groups])

    def merge(self, partials: Sequence[ArraySums], maps: Sequence[GroupIds], num_groups: int) -> ArraySums:
        width = max((partial.sums.shape[1] for partial in partials), default=0)
        merged = ArraySums.empty(numpy_dtype(self.element_type), num_groups, width)
        for partial, groups in zip(partials, maps, strict=True):
            merged.add(groups.astype(np.int64), partial)
        return merged

    def finish(self, partial: ArraySums) -> Vector:
        inside = np.arange(partial.sums.shape[1]) < partial.lengths[:, None]
        # a wrapped sum is off by at least 2^64, so it is far from its double
        if self.element_type is DataType.LONG and np.any(np.abs(partial.near - partial.sums) > 2.0**63):
            raise QueryError(
                ErrorCode.QUERY_EXECUTION, "Aggregate 'sumArrayLong': a sum does not fit a LONG; use sumArrayDouble"
            )
        offsets = np.concatenate([[0], np.cumsum(partial.lengths)])
        return Vector(self.element_type, partial.sums[inside], offsets)

    def encode(self, partial: ArraySums) -> list[pa.Array]:
        inside = np.arange(partial.sums.shape[1]) < partial.lengths[:, None]
        offsets = pa.array(np.concatenate([[0], np.cumsum(partial.lengths)]), pa.int64())
        return [pa.LargeListArray.from_arrays(offsets, pa.array(part[inside])) for part in (partial.sums, partial.near)]

    def decode(self, arrays: Sequence[pa.Array]) -> ArraySums:
        lengths = np.diff(np.asarray(arrays[0].offsets))
        partial = ArraySums.empty(numpy_dtype(self.element_type), len(lengths), int(lengths.max()) if len(lengths) else 0)
        inside = np.arange(partial.sums.shape[1]) < lengths[:, None]
        partial.sums[inside], partial.near[inside] = (array.flatten().to_numpy() for array in arrays)
        partial.lengths[:] = lengths
        return partial


def _bind(call: Call, arg_types: Sequence[ValueType]) -> ArraySum:
    if len(call.args) != 1 or len(arg_types) != 1:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION, f"Aggregate '{call.name}' takes 1 argument, a multi-value one, not {len(call.args)}"
        )
    data_type, multi_value = arg_types[0]
    if not multi_value or not data_type.is_numeric:
        shown = f"{data_type.value}{'_ARRAY' if multi_value else ''}"
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"Aggregate '{call.name}' adds multi-value numbers, not {shown}")
    if call.name == "sumarraylong" and data_type not in (DataType.INT, DataType.LONG):
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Aggregate 'sumArrayLong' adds INT and LONG, not {data_type.value}; use sumArrayDouble",
        )
    return ArraySum(DataType.LONG if call.name == "sumarraylong" else DataType.DOUBLE)


register_aggregate(["sumArrayLong", "sumArrayDouble"], _bind)

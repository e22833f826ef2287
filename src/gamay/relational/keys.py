"""The condition that a column has one of the keys that another table was found to have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.expression import Call, Column, Expression, Literal, LiteralValue
from gamay.functions.scalar.table.joined import encoded_flags, encoded_keys, flags_of, found_in
from gamay.model.types import DataType

# of which IN has a constant each; more are one constant
_LISTED = 64
# of the whole numbers of a span, how many may be keys so that asking for them leaves out more than asking for the span
_DENSE = 0.75


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys of a type. number: how many there are.

    listed: all of them, where they are few. bounds: the least and the greatest. constant: all of them, where they are many.
    fills: whether nearly all whole numbers between the bounds are keys.
    """

    data_type: DataType
    number: int
    listed: tuple[LiteralValue, ...] = ()
    bounds: tuple[Any, Any] | None = None
    constant: bytes = b""
    fills: bool = False

    @classmethod
    def of(cls, keys: pa.Array, data_type: DataType) -> "KeySet":
        """Return the keys of an array, which are not null and may repeat."""
        found = flags_of(keys) if len(keys) else None
        if found is not None:
            first, flags = found
            number = int(np.count_nonzero(flags))
            if number <= _LISTED:
                return cls(data_type, number, tuple((np.flatnonzero(flags) + first).tolist()))
            bounds = first, first + len(flags) - 1
            return cls(data_type, number, (), bounds, encoded_flags(first, flags), number > _DENSE * len(flags))
        keys = pc.unique(keys)
        if len(keys) <= _LISTED:
            return cls(data_type, len(keys), tuple(keys.to_pylist()))
        ends = pc.min_max(keys).as_py()
        return cls(data_type, len(keys), (), (ends["min"], ends["max"]), encoded_keys(keys))

    def holds(self, column: Column) -> Expression:
        """Return the condition that a column has one of the keys; by their span segments are pruned."""
        if self.bounds is None:
            return Call("in", (column, *self._literals(self.listed))) if self.listed else Literal(False, DataType.BOOLEAN)
        return Call("and", (self._between(column, self.bounds), found_in(self.constant, column)))

    def may_hold(self, column: Column) -> Expression:
        """Return the same, or what is easier to tell and holds for few others."""
        return self._between(column, self.bounds) if self.fills and self.bounds is not None else self.holds(column)

    def _between(self, column: Column, bounds: tuple[Any, Any]) -> Expression:
        return Call("between", (column, *self._literals(bounds)))

    def _literals(self, values: Sequence[LiteralValue]) -> list[Literal]:
        return [Literal(value, self.data_type) for value in values]

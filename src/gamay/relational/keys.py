"""The condition that a column has one of the keys read from another table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.expression import Call, Column, Expression, Literal, LiteralValue
from gamay.functions.scalar.table.joined import encoded_flags, encoded_keys, flags_of, found_in
from gamay.model.types import DataType

# maximum number of keys written as constants of IN; more become one binary constant
_LISTED = 64
# share of keys in an integer range above which the range alone is tested
_DENSE = 0.75


@dataclass(frozen=True, slots=True)
class KeySet:
    """A set of keys of one type. number: how many.

    listed: all keys, if they are few. bounds: the smallest and the greatest. constant: all keys, if they are many. fills:
    whether nearly all integers between the bounds are keys.
    """

    data_type: DataType
    number: int
    listed: tuple[LiteralValue, ...] = ()
    bounds: tuple[Any, Any] | None = None
    constant: bytes = b""
    fills: bool = False

    @classmethod
    def of(cls, keys: pa.Array, data_type: DataType) -> "KeySet":
        """Return the set of the keys in an array without nulls, which may contain duplicates."""
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
        """Return the condition that a column has one of the keys; its range prunes segments."""
        if self.bounds is None:
            return Call("in", (column, *self._literals(self.listed))) if self.listed else Literal(False, DataType.BOOLEAN)
        return Call("and", (self._between(column, self.bounds), found_in(self.constant, column)))

    def may_hold(self, column: Column) -> Expression:
        """Return that condition, or a cheaper one that holds for few other values."""
        return self._between(column, self.bounds) if self.fills and self.bounds is not None else self.holds(column)

    def _between(self, column: Column, bounds: tuple[Any, Any]) -> Expression:
        return Call("between", (column, *self._literals(bounds)))

    def _literals(self, values: Sequence[LiteralValue]) -> list[Literal]:
        return [Literal(value, self.data_type) for value in values]

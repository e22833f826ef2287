"""FREQUENTSTRINGSSKETCH and FREQUENTLONGSSKETCH: the most frequent values, as a sketch in base64.

    FREQUENTSTRINGSSKETCH(x [, maxMapSize = 256])

`gamay.functions.sketch.frequent` documents the format. Over BYTES, serialised sketches are merged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.distinct.distinct import COUNTED_VALUES
from gamay.functions.aggregate.distinct.pairs import Pairs, PairsPartial, decode_pairs, encode_pairs, select_pairs
from gamay.functions.aggregate.lookup import INTEGERS
from gamay.functions.aggregate.totals.numeric import require_one_argument
from gamay.functions.aggregate.totals.totals import flatten
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.convert import convert_values
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.compact import base64_texts
from gamay.functions.sketch.frequent import FrequentItems, capacity, limited, merged, parse, serialize
from gamay.functions.sketch.parameters import Number, number_parameter
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.model.types import DataType

_MAX_MAP_SIZE = Number(256, 8, 1 << 20)


class MergedItems:
    """The sketches of groups, merged from serialised sketches."""

    def __init__(self, item_type: DataType, most: int, num_groups: int) -> None:
        self.num_groups = num_groups
        self._most = most
        self._item_type = item_type
        self._merged = [parse(b"", item_type)]
        self._maps = [np.zeros(min(1, num_groups), np.int32)]  # an empty sketch, dropped if there is no group yet

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        self.num_groups = num_groups

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        """Add sketches, as BYTES."""
        groups, values = flatten(groups, operand, num_rows)
        data = (values.decode() if isinstance(values, EncodedVector) else values).values.to_pylist()
        known = {one: parse(one, self._item_type) for one in set(data)}
        of_rows = np.zeros(len(data), np.int32) if groups is None else groups.astype(np.int32)
        self._merged += [known[one] for one in data]
        self._maps += np.split(of_rows, len(of_rows)) if len(of_rows) else []
        self.finished()

    def combine(self, other: "MergedItems") -> None:
        """Add the sketches of another state."""
        self._merged.append(other.finished())
        self._maps.append(np.arange(other.num_groups, dtype=np.int32))

    def finished(self) -> FrequentItems:
        """Return the sketches of all rows added."""
        sketches = merged(self._merged, self._maps, self.num_groups, self._most)
        self._merged, self._maps = [sketches], [np.arange(self.num_groups, dtype=np.int32)]
        return sketches


@dataclass(frozen=True, slots=True)
class FrequentSketch(KeepsState):
    """A sketch of the most frequent items. The partial is `FrequentItems`. The state of values is their shared counts.

    item_type: LONG or STRING, the sketch's items; argument_type: BYTES if sketches are merged.
    """

    max_map_size: int
    item_type: DataType
    argument_type: DataType
    traits: AggregateTraits

    @property
    def _most(self) -> int:
        return capacity(self.max_map_size)

    def allocate(self, num_groups: int) -> Pairs | MergedItems:
        if self.argument_type is DataType.BYTES:
            return MergedItems(self.item_type, self._most, num_groups)
        return Pairs(self.argument_type, num_groups, True)

    def seal(self, state: Pairs | MergedItems) -> FrequentItems:
        if isinstance(state, MergedItems):
            return state.finished()
        pairs = state.partial()
        counts = pairs.counts if pairs.counts is not None else np.empty(0, np.int64)
        totals = np.bincount(pairs.groups, weights=counts, minlength=pairs.num_groups).astype(np.int64)
        few = limited(pairs, totals, np.zeros(pairs.num_groups, np.int64), self._most)
        values = few.pairs.values.decode() if isinstance(few.pairs.values, EncodedVector) else few.pairs.values
        converted = Vector(self.item_type, convert_values(values.values, values.type, self.item_type))
        return FrequentItems(
            PairsPartial(few.pairs.groups, converted, few.pairs.counts, pairs.num_groups), few.totals, few.offsets
        )

    def select(self, partial: FrequentItems, groups: Array) -> FrequentItems:
        return FrequentItems(select_pairs(partial.pairs, groups), partial.totals[groups], partial.offsets[groups])

    def merge(self, partials: Sequence[FrequentItems], maps: Sequence[GroupIds], num_groups: int) -> FrequentItems:
        return merged(partials, maps, num_groups, self._most)

    def finish(self, partial: FrequentItems) -> Vector:
        return Vector(DataType.STRING, base64_texts(serialize(partial, self.max_map_size)))

    def encode(self, partial: FrequentItems) -> list[pa.Array]:
        return [*encode_pairs(partial.pairs), pa.array(partial.totals), pa.array(partial.offsets)]

    def decode(self, arrays: Sequence[pa.Array]) -> FrequentItems:
        return FrequentItems(decode_pairs(self.item_type, arrays[:-2]), arrays[-2].to_numpy(), arrays[-1].to_numpy())


def _frequent(item_type: DataType) -> Callable[[Call, Sequence[ValueType]], FrequentSketch]:
    def bind(call: Call, arg_types: Sequence[ValueType]) -> FrequentSketch:
        data_type, _ = require_one_argument(call, arg_types, 1)
        size = number_parameter(call, 1, "maxMapSize", _MAX_MAP_SIZE)
        if size & (size - 1):
            raise QueryError(
                ErrorCode.QUERY_VALIDATION, f"Aggregate '{call.name}': maxMapSize must be a power of 2, not {size}"
            )
        if item_type is DataType.LONG and data_type is not DataType.BYTES and data_type not in INTEGERS:
            raise QueryError(
                ErrorCode.QUERY_VALIDATION,
                f"Aggregate '{call.name}' takes whole numbers, or BYTES of sketches, not {data_type.value}",
            )
        kind = f"frequent {item_type.value} {size}" if data_type is DataType.BYTES else COUNTED_VALUES
        return FrequentSketch(size, item_type, data_type, AggregateTraits(DataType.STRING, kind))

    return bind


register_aggregate(["frequentStringsSketch"], _frequent(DataType.STRING))
register_aggregate(["frequentLongsSketch"], _frequent(DataType.LONG))

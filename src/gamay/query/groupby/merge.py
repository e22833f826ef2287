"""Tables of groups to one table: keys are matched by value, partials are merged.

merge_group_tables(tables, aggregates) -> GroupTable
merge_partials(per_segment, aggregates) -> (partial of each aggregate, one group each)
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.functions.aggregate.spi import Partial
from gamay.functions.vector import EncodedVector, Vector
from gamay.query.groupby.coding import CODES_MAX, Coder, DictionaryCoder, coder_of
from gamay.query.groupby.growing import numbering_of
from gamay.query.groupby.table import AggregateCall, GroupTable, Key

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def merge_group_tables(tables: Sequence[GroupTable], aggregates: Sequence[AggregateCall]) -> GroupTable:
    """Merge tables of the same query; at least one must be given. A single table is returned as it is."""
    if len(tables) == 1:
        return tables[0]
    coders: list[Coder] = []
    codes: list[list[Array]] = []
    for position in range(len(tables[0].keys)):
        coder, of_tables = _common_codes([table.keys[position] for table in tables])
        coders.append(coder)
        codes.append(of_tables)
    numbering = numbering_of([coder.cardinality for coder in coders], CODES_MAX)
    maps = [numbering.number([key[i] for key in codes]) for i in range(len(tables))]
    num_groups = numbering.num_groups
    merged = numbering.codes(np.arange(num_groups))
    keys = tuple(coder.decode(part) for coder, part in zip(coders, merged, strict=True))
    partials = tuple(
        call.aggregate.merge([table.partials[i] for table in tables], maps, num_groups) for i, call in enumerate(aggregates)
    )
    return GroupTable(keys, partials, num_groups, any(table.limit_reached for table in tables))


def merge_partials(per_segment: Sequence[Sequence[Partial]], aggregates: Sequence[AggregateCall]) -> tuple[Partial, ...]:
    """Merge the partials of aggregations without groups; with no segment at all the result is that of no rows."""
    maps = [np.zeros(1, np.int32)] * len(per_segment)
    return tuple(
        call.aggregate.merge([partials[i] for partials in per_segment], maps, 1) for i, call in enumerate(aggregates)
    )


def _common_codes(keys: Sequence[Key]) -> tuple[Coder, list[Array]]:
    """Return codes of the keys of several tables in one coding."""
    first = keys[0]
    if isinstance(first, EncodedVector) and all(_same_dictionary(first, key) for key in keys):
        return DictionaryCoder(first.dictionary), [key.ids for key in keys if isinstance(key, EncodedVector)]
    coder = coder_of(first.type)
    return coder, [coder.codes(key, len(key)) for key in keys]


def _same_dictionary(first: EncodedVector, other: Key) -> bool:
    if not isinstance(other, EncodedVector) or len(first.dictionary) != len(other.dictionary):
        return False
    mine, theirs = first.dictionary.values, other.dictionary.values
    if mine is theirs:
        return True
    return bool(mine.equals(theirs)) if isinstance(mine, pa.Array) else _same_values(first.dictionary, mine, theirs)


def _same_values(dictionary: Vector, mine: Array, theirs: Array) -> bool:
    if mine.dtype == np.dtype(object):
        # Decimals that are equal as numbers may differ as keys.
        return [str(value) for value in mine] == [str(value) for value in theirs]
    return np.array_equal(mine, theirs)

"""Serializes tables of rows and of groups to buffers, for other processes and spill files."""

from collections.abc import Sequence

import msgspec

from gamay.functions.aggregate_spi import Sent
from gamay.functions.vector import EncodedVector, Vector
from gamay.query.buffers.columns import ColumnShape, from_arrays, pack_arrays, to_arrays, unpack_arrays
from gamay.query.groupby.table import AggregateCall, GroupTable


class TableShape(msgspec.Struct, array_like=True, frozen=True):
    """The shape of a table of rows or groups. kinds, lengths: of its arrays. positions: of the keys of a grouping set.

    arrays: number of arrays of each aggregate's partial.
    """

    columns: tuple[ColumnShape, ...]
    kinds: str
    lengths: tuple[int, ...]
    num_groups: int = 0
    limit_reached: bool = False
    arrays: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()


def put_groups(
    aggregates: Sequence[AggregateCall],
    table: GroupTable,
    positions: tuple[int, ...],
    buffers: "list[bytes | memoryview]",
) -> TableShape:
    """Append the buffers of a table of groups; return its shape."""
    partials = [call.aggregate.encode(partial) for call, partial in zip(aggregates, table.partials, strict=True)]
    return put_columns(table.keys, partials, table.num_groups, buffers, table.limit_reached, positions)


def put_columns(
    columns: Sequence[Vector | EncodedVector],
    partials: Sequence[Sequence[Sent]],
    num_groups: int,
    buffers: "list[bytes | memoryview]",
    limit_reached: bool = False,
    positions: tuple[int, ...] = (),
) -> TableShape:
    """Append the buffers of a table; return its shape."""
    arrays: list[Sent] = []
    shapes = tuple([to_arrays(column, arrays) for column in columns])
    for partial in partials:
        arrays += partial
    kinds, packed = pack_arrays(arrays)
    buffers += packed
    counts = tuple([len(partial) for partial in partials])
    return TableShape(shapes, kinds, tuple(map(len, arrays)), num_groups, limit_reached, counts, positions)


def groups_of(aggregates: Sequence[AggregateCall], shape: TableShape, buffers: Sequence[memoryview]) -> GroupTable:
    """Return the table of groups written by `put_groups`."""
    return read_groups(aggregates, shape, unpack_arrays(shape.kinds, shape.lengths, buffers))


def read_groups(aggregates: Sequence[AggregateCall], shape: TableShape, arrays: list[Sent]) -> GroupTable:
    """Return the table of groups for the given arrays."""
    keys = tuple([from_arrays(column, arrays) for column in shape.columns])
    partials = []
    start = 0
    for call, count in zip(aggregates, shape.arrays, strict=True):
        partials.append(call.aggregate.decode(arrays[start : start + count]))
        start += count
    return GroupTable(keys, tuple(partials), shape.num_groups, shape.limit_reached)

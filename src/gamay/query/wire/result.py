"""What a server found, on its way to the broker.

    buffers = `ResultHeader` as MessagePack, then a schema and a record batch for each table

Rows and the keys of groups are columns; the partial of each aggregate is what its `encode` returns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import msgspec
import pyarrow as pa

from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, QueryError
from gamay.query.bind import BoundQuery
from gamay.query.execute import ServerResult
from gamay.query.explain import Operator, SegmentPlans
from gamay.query.groupby.table import GroupTable
from gamay.query.stats import QueryStats
from gamay.query.trace import Trace
from gamay.query.wire.columns import ColumnShape, from_arrays, pack_arrays, to_arrays, unpack_arrays

_STATS = {field.name: field.default for field in fields(QueryStats)}


class TableShape(msgspec.Struct, array_like=True, frozen=True):
    """One table: rows, or groups. positions: of the keys of a grouping set; arrays: of each aggregate's partial."""

    columns: tuple[ColumnShape, ...]
    num_groups: int = 0
    limit_reached: bool = False
    arrays: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()


class ResultHeader(msgspec.Struct, array_like=True, frozen=True):
    """kind: `rows`, `groups`, `sets`, `plans` or empty. stats: the counters that are not 0. missing: segments not there.

    plans: (operator, number of segments), an operator being [text, child, …]. spans: of the trace.
    """

    kind: str
    stats: dict[str, int | bool]
    tables: tuple[TableShape, ...] = ()
    missing: tuple[str, ...] = ()
    plans: tuple[tuple[Any, int], ...] = ()
    spans: list[dict[str, Any]] | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ResultHeader).decode


def encode_result(bound: BoundQuery, result: ServerResult, missing: Sequence[str]) -> "list[bytes | memoryview]":
    """Return the buffers of a result and of the names of the segments that it lacks."""
    tables: list[TableShape] = []
    buffers: list[bytes | memoryview] = [b""]
    kind = ""
    if result.rows is not None:
        kind = "rows"
        arrays: list[pa.Array] = []
        tables.append(TableShape(tuple([to_arrays(column, arrays) for column in result.rows])))
        buffers += pack_arrays(arrays)
    elif result.groups is not None:
        kind = "groups"
        tables.append(_put_groups(bound, result.groups, (), buffers))
    elif result.sets is not None:
        kind = "sets"
        tables = [_put_groups(bound, table, positions, buffers) for positions, table in result.sets.items()]
    elif result.plans is not None:
        kind = "plans"
    header = ResultHeader(
        kind,
        {name: value for name, zero in _STATS.items() if (value := getattr(result.stats, name)) != zero},
        tuple(tables),
        tuple(missing),
        () if result.plans is None else tuple((_operator(plan), count) for plan, count in result.plans.plans),
        None if result.trace is None else result.trace.spans(),
    )
    buffers[0] = _encode(header)
    return buffers


def _put_groups(
    bound: BoundQuery, table: GroupTable, positions: tuple[int, ...], buffers: "list[bytes | memoryview]"
) -> TableShape:
    arrays: list[pa.Array] = []
    columns = tuple([to_arrays(key, arrays) for key in table.keys])
    counts = []
    for call, partial in zip(bound.aggregates, table.partials, strict=True):
        encoded = call.aggregate.encode(partial)
        counts.append(len(encoded))
        arrays += encoded
    buffers += pack_arrays(arrays)
    return TableShape(columns, table.num_groups, table.limit_reached, tuple(counts), positions)


@dataclass(frozen=True, slots=True)
class Received:
    """What came from a server: the header is read, the columns not yet."""

    header: ResultHeader
    tables: Sequence[memoryview]

    @property
    def missing(self) -> Sequence[str]:
        """Return the segments that the server does not have."""
        return self.header.missing

    @property
    def num_bytes(self) -> int:
        """Return the size of the columns."""
        return sum(buffer.nbytes for buffer in self.tables)

    def result(self, bound: BoundQuery, clock: Clock) -> ServerResult:
        """Read the columns. bound: the query that was sent. Raises QueryError 450 for nonsense."""
        header = self.header
        try:
            result = ServerResult(QueryStats(**header.stats))  # type: ignore[arg-type]
            parts = list(zip(header.tables, self.tables[::2], self.tables[1::2], strict=True))
            if header.kind == "rows":
                ((shape, schema, batch),) = parts
                arrays = unpack_arrays(schema, batch)
                result.rows = tuple([from_arrays(column, arrays) for column in shape.columns])
            elif header.kind == "groups":
                ((shape, schema, batch),) = parts
                result.groups = _groups(bound, shape, unpack_arrays(schema, batch))
            elif header.kind == "sets":
                result.sets = {s.positions: _groups(bound, s, unpack_arrays(schema, batch)) for s, schema, batch in parts}
            elif header.kind == "plans":
                result.plans = SegmentPlans(tuple((_planned(plan), count) for plan, count in header.plans))
            if header.spans is not None:
                result.trace = Trace(clock, "", header.spans)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise QueryError(ErrorCode.INTERNAL, f"A server sent what is no result of the query: {error!r}") from error
        return result


def receive(buffers: Sequence[memoryview]) -> Received:
    """Read the header of a result. Raises QueryError 450 for what is none."""
    try:
        return Received(_decode(buffers[0]), buffers[1:])
    except (msgspec.MsgspecError, IndexError) as error:
        raise QueryError(ErrorCode.INTERNAL, f"A server sent what is no result: {error!r}") from error


def _groups(bound: BoundQuery, shape: TableShape, arrays: list[pa.Array]) -> GroupTable:
    keys = tuple([from_arrays(column, arrays) for column in shape.columns])
    partials = []
    start = 0
    for call, count in zip(bound.aggregates, shape.arrays, strict=True):
        partials.append(call.aggregate.decode(arrays[start : start + count]))
        start += count
    return GroupTable(keys, tuple(partials), shape.num_groups, shape.limit_reached)


def _operator(plan: Operator) -> list[Any]:
    return [plan.text, *map(_operator, plan.children)]


def _planned(node: Any) -> Operator:
    return Operator(node[0], tuple(map(_planned, node[1:])))

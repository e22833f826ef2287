"""The result of a server on its way to the broker: partial results to merge with those of others, or rows of the answer.

    buffers = `ResultHeader` as MessagePack, then those of each table (`gamay.query.buffers.columns`)
            | `ResultHeader` as MessagePack, then rows of the answer as JSON

Rows and the keys of groups are columns; the partial of each aggregate is what its `encode` returns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import msgspec

from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate_spi import Sent
from gamay.functions.vector import EncodedVector, Vector
from gamay.query.answer.response import BrokerResponse, EncodedTable, ResultTable, encode_rows, is_long
from gamay.query.bind.binder import BoundQuery
from gamay.query.buffers.columns import from_arrays, num_buffers, unpack_arrays
from gamay.query.buffers.tables import TableShape, put_columns, put_groups, read_groups
from gamay.query.execute.explain import Operator, SegmentPlans
from gamay.query.execute.server_result import ServerResult
from gamay.query.groupby.table import KeySet
from gamay.query.partitioned.groups import PartitionedGroups
from gamay.query.reduce.merge import Answer, types_of
from gamay.query.stats import QueryStats
from gamay.query.trace import Trace

_STATS = attrgetter(*(field.name for field in fields(QueryStats) if not field.metadata.get("of_broker")))


class ResultHeader(msgspec.Struct, array_like=True, frozen=True):
    """kind: `rows`, `groups`, `parts`, `sets`, `parts of sets`, `plans`, `answer`, `text` or empty.

    stats: the counters of `QueryStats`. missing: segments not there. tables: of `sets` their positions are those of their
    keys; of `parts` and `parts of sets` the last position is the number of a partition.
    plans: (operator, number of segments), an operator being [text, child, …]. spans: of the trace. num_rows: of a text.
    """

    kind: str
    stats: tuple[int | bool, ...]
    tables: tuple[TableShape, ...] = ()
    missing: tuple[str, ...] = ()
    plans: tuple[tuple[Any, int], ...] = ()
    spans: list[dict[str, Any]] | None = None
    num_rows: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ResultHeader).decode


def encode_result(
    bound: BoundQuery,
    result: ServerResult,
    missing: Sequence[str],
    takes_parts: bool = True,
    takes_set_parts: bool = True,
) -> "list[bytes | memoryview]":
    """Return the buffers of a result and of the names of the segments that it lacks.

    takes_parts, takes_set_parts: whether the receiver can read groups, and those of grouping sets, by partition; else they
    are merged into one table. Raises QueryError 245 where that takes more memory than the query may have.
    """
    tables: list[TableShape] = []
    buffers: list[bytes | memoryview] = [b""]
    kind = ""
    if result.rows is not None:
        kind = "rows"
        tables.append(put_columns(result.rows, [], 0, buffers))
    elif isinstance(result.groups, PartitionedGroups) and takes_parts:
        kind = "parts"
        tables, parts = result.groups.encoded()
        buffers += parts
    elif result.groups is not None:
        kind = "groups"
        whole = result.groups.merged() if isinstance(result.groups, PartitionedGroups) else result.groups
        tables.append(put_groups(bound.aggregates, whole, (), buffers))
    elif result.sets is not None:
        is_divided = takes_set_parts and any(isinstance(groups, PartitionedGroups) for groups in result.sets.values())
        kind = "parts of sets" if is_divided else "sets"
        for keys, groups in result.sets.items():
            if is_divided:
                shapes, parts = PartitionedGroups.joined([groups], bound.aggregates).encoded(keys)
                tables += shapes
                buffers += parts
            else:
                whole = groups.merged() if isinstance(groups, PartitionedGroups) else groups
                tables.append(put_groups(bound.aggregates, whole, keys, buffers))
    elif result.plans is not None:
        kind = "plans"
    header = ResultHeader(
        kind,
        _STATS(result.stats),
        tuple(tables),
        tuple(missing),
        () if result.plans is None else tuple((_operator(plan), count) for plan, count in result.plans.plans),
        None if result.trace is None else result.trace.spans(),
    )
    buffers[0] = _encode(header)
    return buffers


def encode_answer(answer: Answer, *, as_text: bool) -> "list[bytes | memoryview]":
    """Return the buffers of an answer that needs no results of other servers. as_text: as JSON, unless that is long."""
    assert answer.table is not None
    if as_text and not is_long(answer.table.columns):
        header = ResultHeader("text", _STATS(answer.stats), num_rows=answer.table.num_rows)
        return [_encode(header), encode_rows(answer.table.columns)]
    buffers: list[bytes | memoryview] = [b""]
    shape = put_columns(answer.table.columns, [], 0, buffers)
    buffers[0] = _encode(ResultHeader("answer", _STATS(answer.stats), (shape,)))
    return buffers


def encode_done(stats: QueryStats) -> bytes:
    """Return the work done for a query that failed; the inverse is `done_of`."""
    return _encode(ResultHeader("", _STATS(stats)))


def done_of(buffer: memoryview) -> QueryStats:
    """Return the work that a server did for a query that failed there. Raises QueryError 450 for invalid data."""
    return QueryStats(*receive([buffer]).header.stats)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Received:
    """A response from a server: the header is decoded, the columns not yet."""

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
        """Decode the columns. bound: the query that was sent. Raises QueryError 450 for invalid data."""
        header = self.header
        try:
            result = ServerResult(QueryStats(*header.stats))  # type: ignore[arg-type]
            if header.kind == "rows":
                ((shape, arrays),) = self._arrays()
                result.rows = tuple([_values(from_arrays(column, arrays)) for column in shape.columns])
            elif header.kind == "groups":
                ((shape, arrays),) = self._arrays()
                result.groups = read_groups(bound.aggregates, shape, arrays)
            elif header.kind == "parts":
                result.groups = PartitionedGroups.received(bound.aggregates, self._shapes())
            elif header.kind == "sets":
                sets = ((shape.positions, read_groups(bound.aggregates, shape, arrays)) for shape, arrays in self._arrays())
                result.sets = dict(sets)
            elif header.kind == "parts of sets":
                by_keys: dict[KeySet, list[tuple[TableShape, Sequence[memoryview]]]] = {
                    keys: [] for keys in bound.grouping_sets
                }
                for shape, buffers in self._shapes():
                    by_keys[shape.positions[:-1]].append((shape, buffers))
                result.sets = {
                    keys: PartitionedGroups.received(bound.aggregates, iter(tables)) for keys, tables in by_keys.items()
                }
            elif header.kind == "plans":
                result.plans = SegmentPlans(tuple((_planned(plan), count) for plan, count in header.plans))
            if header.spans is not None:
                result.trace = Trace(clock, "", header.spans)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise QueryError(ErrorCode.INTERNAL, f"A server sent an invalid result of the query: {error!r}") from error
        return result

    def response(self, bound: BoundQuery) -> BrokerResponse | None:
        """Return the answer to a query; None if it is a partial result after all, or if segments were missing.

        Raises QueryError 450 for invalid data.
        """
        if self.header.kind not in ("answer", "text"):
            return None
        types = types_of(bound)
        try:
            stats = QueryStats(*self.header.stats)  # type: ignore[arg-type]
            if self.header.kind == "text":
                (text,) = self.tables
                encoded = EncodedTable(bound.names, types, self.header.num_rows, bytes(text))
                return BrokerResponse(encoded=encoded, stats=stats)
            ((shape, arrays),) = self._arrays()
            columns = tuple([_values(from_arrays(column, arrays)) for column in shape.columns])
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise QueryError(ErrorCode.INTERNAL, f"A server sent an invalid answer to the query: {error!r}") from error
        if len(columns) != len(bound.names):
            raise QueryError(ErrorCode.INTERNAL, f"A server sent {len(columns)} columns, not {len(bound.names)}")
        return BrokerResponse(ResultTable(bound.names, types, columns), stats=stats)

    def _arrays(self) -> Iterator[tuple[TableShape, list[Sent]]]:
        for shape, buffers in self._shapes():
            yield shape, unpack_arrays(shape.kinds, shape.lengths, buffers)

    def _shapes(self) -> Iterator[tuple[TableShape, Sequence[memoryview]]]:
        start = 0
        for shape in self.header.tables:
            end = start + num_buffers(shape.kinds)
            yield shape, self.tables[start:end]
            start = end
        if start != len(self.tables):
            raise ValueError(f"{len(self.tables)} buffers of {len(self.header.tables)} tables")


def receive(buffers: Sequence[memoryview]) -> Received:
    """Decode the header of a result. Raises QueryError 450 for invalid data."""
    try:
        return Received(_decode(buffers[0]), buffers[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, IndexError) as error:
        raise QueryError(ErrorCode.INTERNAL, f"A server sent an invalid result: {error!r}") from error


def _values(column: Vector | EncodedVector) -> Vector:
    return column.decode() if isinstance(column, EncodedVector) else column


def _operator(plan: Operator) -> list[Any]:
    return [plan.text, *map(_operator, plan.children)]


def _planned(node: Any) -> Operator:
    return Operator(node[0], tuple(map(_planned, node[1:])))

"""A query on its way to a server: the template that all queries of its shape share, and the literals of WHERE.

    buffers = `RequestHeader` as MessagePack, template, values
            | `RequestHeader` as MessagePack, with a `KnownQuery`

The broker sends what it bound, not the text: `now()` is computed already, subqueries are answered, the half of a hybrid
table has its time boundary, and the columns are those of the broker's schema. The server binds that again, and
caches the result by the digest of the *template* (everything but WHERE's literals, LIMIT and OFFSET). A query whose
template the server had before can be sent by its digest (`gamay.query.wire.known`).

    template = MessagePack of [table, schema's name, columns, select, distinct, where, group by, having, order by, options,
               explain, grouping sets]
    values   = MessagePack of [limit, offset, types of the literals, literals]

    expression = name of a column | [function, argument, …] | {type: literal} | true for `*` | nil: WHERE's next literal
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from gamay.base.errors import ErrorCode, QueryError
from gamay.base.recently_used import RecentlyUsed
from gamay.functions.expression import Call, Column, Expression, Literal, LiteralValue, Star, column_names
from gamay.model.schema.default_null import null_value_from_json, null_value_to_json
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType, FieldRole
from gamay.query.bind.binder import BoundQuery
from gamay.query.bind.predicate import Filter
from gamay.query.bind.scope import Scope
from gamay.query.limits.budget import Budget, ProcessBudget, ScanLimits
from gamay.query.limits.deadline import Deadline
from gamay.query.prepared.statements import STATEMENTS_WEIGHT_MAX, PreparedStatement, Statements
from gamay.query.wire.known import KnownQuery, digest_of, packed, unpacked
from gamay.sql.query import OrderBy, Query, SelectItem, Shape

Json: TypeAlias = Any  # any value that MessagePack can encode


class _SentTemplate(msgspec.Struct, array_like=True, frozen=True):
    """A template, as read: where and having contain at most one expression."""

    table: str | None
    schema: str
    columns: list[list[Json]]
    select: list[tuple[Json, str]]
    distinct: bool
    where: list[Json]
    group_by: list[Json]
    having: list[Json]
    order_by: list[tuple[Json, bool, bool | None]]
    options: dict[str, str]
    explain: bool
    grouping_sets: list[tuple[int, ...]]


class _SentValues(msgspec.Struct, array_like=True, frozen=True):
    """The values of a query, as read. types: a byte for each literal."""

    limit: int
    offset: int
    types: bytes
    literals: list[Json]


_encode = msgspec.msgpack.Encoder().encode
_decode_template = msgspec.msgpack.Decoder(_SentTemplate).decode
_decode_values = msgspec.msgpack.Decoder(_SentValues).decode
_TYPES = tuple(DataType)
_TYPE_NUMBERS = {data_type: number for number, data_type in enumerate(_TYPES)}
_TEMPLATE, _DIGEST = "template", "digest"  # their keys in `BoundQuery.shared`
_TEMPLATE_BYTES_MAX = 100_000  # larger ones are not cached
_WEIGHT_LEAST = 500
_ASKED_BYTES_MAX = 4000
_LITERALS: dict[DataType, tuple[type, ...]] = {  # in their plain form; numbers that are too large are texts
    DataType.INT: (int, str), DataType.LONG: (int, str), DataType.FLOAT: (int, float), DataType.DOUBLE: (int, float),
    DataType.BIG_DECIMAL: (str,), DataType.BOOLEAN: (bool,), DataType.STRING: (str,), DataType.BYTES: (bytes,),
    DataType.TIMESTAMP: (int,), DataType.JSON: (str,),
}  # fmt: skip
_PLAIN = (int, float, str, bytes, type(None))
_NO_CHILDREN: Mapping[str, Any] = MappingProxyType({})
_WHOLE = range(-(1 << 63), 1 << 63)


class RequestHeader(msgspec.Struct, array_like=True, frozen=True):
    """The header of a request: a query's limits and segments. id: the broker's id of the query.

    timeout_ms: the limit of the whole query, for error messages.
    memory_bytes: what the query may hold at a server; None leaves it to the server. scan: (rows, values in WHERE, values
    after WHERE, whether exceeding them ends the query); None without limits on reads.
    known: replaces template and values; the server then merges its results, and sends the rows of the answer.
    latest: those of `segments` that are the last of their partitions in the broker's route; the server also reads the rows
    that follow them. takes_parts, takes_set_parts: whether the broker can read groups, and those of grouping sets, by
    partition; earlier versions cannot.
    """

    id: str
    table: str
    segments: tuple[str, ...]
    timeout_ms: float
    memory_bytes: int | None = None
    scan: tuple[int | None, int | None, int | None, bool] | None = None
    known: KnownQuery | None = None
    latest: tuple[str, ...] = ()
    takes_parts: bool = False
    takes_set_parts: bool = False

    def budget(self, process: ProcessBudget) -> Budget:
        """Return the query's budget in a process."""
        return Budget(
            self.memory_bytes or process.query_bytes, process, None if self.scan is None else ScanLimits(*self.scan)
        )


_decode_header = msgspec.msgpack.Decoder(RequestHeader).decode


def encode_request(
    query_id: str, table: str, bound: BoundQuery, segments: Sequence[str], deadline: Deadline, latest: Collection[str] = ()
) -> "list[bytes]":
    """Return the buffers of a query over segments of a typed table. latest: see `RequestHeader`; others are left out."""
    budget, memory, scan = deadline.budget, None, None
    if budget is not None:
        if budget.limit != budget.process.query_bytes:  # the limit was set explicitly; otherwise each server uses its own
            memory = budget.limit
        if (limits := budget.scan) is not None:
            scan = (limits.docs, limits.entries_in_filter, limits.entries_post_filter, limits.is_enforced)
    last = tuple([name for name in segments if name in latest]) if latest else ()
    header = RequestHeader(query_id, table, tuple(segments), deadline.timeout_ms, memory, scan, None, last, True, True)
    return [encode_header(header), *encode_query(bound)]


encode_header: Callable[[RequestHeader], bytes] = _encode


def decode_request_header(data: memoryview) -> RequestHeader:
    """Read the first buffer of a request. Raises QueryError 450 for invalid data."""
    try:
        return _decode_header(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise QueryError(ErrorCode.INTERNAL, f"The broker sent an invalid request: {error}") from error


def encode_query(bound: BoundQuery) -> tuple[bytes, bytes]:
    """Return the template and the values of a query."""
    query = bound.query
    literals: list[Literal] = []
    where = None if query.where is None else _lifted(query.where, literals)
    template = bound.shared.get(_TEMPLATE)
    if template is None:
        template = bound.shared[_TEMPLATE] = _template(bound, where)
    types = bytes([_TYPE_NUMBERS[literal.type] for literal in literals])
    values = (query.limit, query.offset, types, [_sendable(literal.value) for literal in literals])
    return template, _encode(values)


def encode_known(
    query_id: str, table: str, bound: BoundQuery, filter_: Filter, segments: Sequence[str], timeout_ms: float,
    memory: int | None,
) -> list[bytes]:  # fmt: skip
    """Return the buffers of a query that differs from `bound` only in its filter, which a `PreparedStatement` created.

    memory: in bytes; None leaves it to the server. The rows are requested in the text form that clients read, so that the
    broker need not decode and encode them.
    not read and write them again.
    """
    digest = bound.shared.get(_DIGEST)
    if digest is None:
        digest = bound.shared[_DIGEST] = digest_of(encode_query(bound)[0])
    known = KnownQuery(digest, bound.limit, bound.offset, packed(filter_), as_text=True)
    return [encode_header(RequestHeader(query_id, table, tuple(segments), timeout_ms, memory, None, known))]


def _template(bound: BoundQuery, where: Json) -> bytes:
    query = bound.query
    return _encode(
        (
            query.table,
            bound.schema.name,
            [_column(field) for field in _columns(bound)],
            [(_plain(item.expression), item.name) for item in query.select],
            query.distinct,
            (where,) if query.where is not None else (),
            [_plain(key) for key in query.group_by],
            () if query.having is None else (_plain(query.having),),
            [(_plain(key.expression), key.descending, key.nulls_last) for key in query.order_by],
            dict(query.options),
            query.explain,
            query.grouping_sets,
        )
    )


def _columns(bound: BoundQuery) -> list[FieldSpec]:
    """Return the columns that the query reads, and those that it only mentions (`COUNT(x)` without null handling)."""
    query, scope = bound.query, Scope(bound.schema, bound.query.table)
    written = [
        *(item.expression for item in query.select),
        *(() if query.where is None else (query.where,)),
        *query.group_by,
        *(() if query.having is None else (query.having,)),
        *(key.expression for key in query.order_by),
    ]
    named = []
    for name in (name for expression in written for name in column_names(expression)):
        with contextlib.suppress(QueryError):  # the text may turn out not to be a condition
            named.append(scope.resolve(name))
    if any(isinstance(item.expression, Star) for item in query.select):
        named += scope.star()
    return list({**bound.fields, **scope.fields(named)}.values())


def _column(field: FieldSpec) -> Json:
    """Return the properties of a column that binding and executing a query need."""
    default = null_value_to_json(field.default_null_value, field.data_type)
    known = field.name, field.data_type.value, field.role.value, field.single_value, default
    children = field.child_fields
    return (*known, {name: _column(child) for name, child in children.items()}) if children else known


def _field(
    name: str, type_name: str, role: str, single_value: bool, default: Any, children: Mapping[str, Any] = _NO_CHILDREN
) -> FieldSpec:
    data_type = DataType(type_name)
    null_value = null_value_from_json(default, data_type)
    child_fields = {child: _field(*column) for child, column in children.items()}
    return FieldSpec(name, data_type, FieldRole(role), single_value, null_value, child_fields=child_fields)


def _plain(expression: Expression) -> Json:
    """Return an expression with its literals."""
    if isinstance(expression, Column):
        return expression.name
    if isinstance(expression, Call):
        return [expression.name, *map(_plain, expression.args)]
    if isinstance(expression, Star):
        return True
    return {expression.type.value: _sendable(expression.value)}


def _lifted(expression: Expression, literals: list[Literal]) -> Json:
    """Return an expression with placeholders for its literals, which are appended to `literals`."""
    if isinstance(expression, Column):
        return expression.name
    if isinstance(expression, Literal):
        literals.append(expression)
        return None
    if isinstance(expression, Call):
        return [expression.name, *[_lifted(arg, literals) for arg in expression.args]]
    return True


def _sendable(value: LiteralValue) -> LiteralValue:
    if isinstance(value, Decimal) or (type(value) is int and value not in _WHOLE):
        return str(value)
    return value


def _literal(data_type: DataType, value: Any) -> Literal:
    if not isinstance(value, _LITERALS.get(data_type, _PLAIN)):
        raise TypeError(f"{value!r} is no {data_type.value}")
    if isinstance(value, str) and not data_type.is_text:
        if data_type is DataType.BIG_DECIMAL:
            return Literal(Decimal(value), data_type)
        if data_type in (DataType.INT, DataType.LONG):
            return Literal(int(value), data_type)
    return Literal(value, data_type)


_Fill: TypeAlias = Callable[[Iterator[Literal]], Expression]


def _filler(node: Json) -> _Fill:
    """Return a function that builds an expression from the next literals."""
    if node is None:
        return next
    if isinstance(node, list):
        name, parts = _name(node), [_filler(part) for part in node[1:]]
        return lambda literals: Call(name, tuple([part(literals) for part in parts]))
    expression = _expression(node)
    return lambda _: expression


def _name(node: list[Json]) -> str:
    """Return the name of the called function. Raises TypeError, IndexError."""
    name = node[0]
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no name of a function")
    return name


def _expression(node: Json) -> Expression:
    if isinstance(node, str):
        return Column(node)
    if isinstance(node, list):
        return Call(_name(node), tuple(map(_expression, node[1:])))
    if isinstance(node, dict):
        ((name, value),) = node.items()
        return _literal(DataType(name), value)
    return Star()


class _Template:
    """A template that was read: the common parts of its queries, and their statements."""

    def __init__(self, data: bytes) -> None:
        self.weight = _WEIGHT_LEAST + len(data)
        sent = _decode_template(data)
        self.statements = Statements(Schema(sent.schema, tuple(_field(*column) for column in sent.columns)))
        self._where = _filler(sent.where[0]) if sent.where else None
        self._fixed: dict[str, Any] = {
            "table": sent.table,
            "select": tuple(SelectItem(_expression(node), name) for node, name in sent.select),
            "distinct": sent.distinct,
            "group_by": tuple(map(_expression, sent.group_by)),
            "having": _expression(sent.having[0]) if sent.having else None,
            "order_by": tuple(OrderBy(_expression(node), down, last) for node, down, last in sent.order_by),
            "options": sent.options,
            "explain": sent.explain,
            "grouping_sets": tuple(sent.grouping_sets),
            "varies_only_in_where": True,
        }

    def query(self, data: bytes) -> Query:
        sent = _decode_values(data)
        literals = iter([_literal(_TYPES[number], value) for number, value in zip(sent.types, sent.literals, strict=True)])
        where = None if self._where is None else self._where(literals)
        return Query(
            where=where,
            limit=sent.limit,
            offset=sent.offset,
            shape=self.shape(sent.limit, sent.offset),
            **self._fixed,
        )

    def shape(self, limit: int, offset: int) -> Shape:
        """Return the shape of its queries with this LIMIT and OFFSET."""
        return Shape(self, (limit, offset))

    def known(self, limit: int, offset: int) -> PreparedStatement | None:
        """Return the statement of its queries with this LIMIT and OFFSET."""
        return self.statements.find(self.shape(limit, offset), self._fixed["options"])


class ReceivedStatements:
    """The statements of the queries that a server received, by the digests of their templates.

    Safe to share between threads.
    """

    def __init__(self) -> None:
        self._templates: RecentlyUsed[bytes, _Template] = RecentlyUsed(STATEMENTS_WEIGHT_MAX)

    def bind(self, template: bytes, values: bytes) -> tuple[PreparedStatement, BoundQuery]:
        """Return a query with its statement; raises QueryError: 450 for invalid data, and the errors of binding."""
        digest = digest_of(template)
        try:
            known = self._templates.get(digest)
            if known is None:
                known = _Template(template)
                if len(template) <= _TEMPLATE_BYTES_MAX:
                    self._templates.put(digest, known, known.weight)
            query = known.query(values)
        except (msgspec.MsgspecError, ValueError, TypeError, KeyError, IndexError, StopIteration) as error:
            raise QueryError(ErrorCode.INTERNAL, f"The broker sent an invalid query: {error!r}") from error
        return known.statements.bind(query)

    def known(self, query: KnownQuery) -> tuple[PreparedStatement, BoundQuery]:
        """Return a query of known shape and its statement; raises QueryError 450 if it is not known (any more)."""
        template, filter_ = self._templates.peek(query.digest), unpacked(query.filter)
        statement = None if template is None else template.known(query.limit, query.offset)
        if statement is None or not statement.takes(filter_):
            raise QueryError(ErrorCode.INTERNAL, "The server does not know the query; send it completely")
        return statement, statement.bound.with_filter(statement.bound.query, filter_)

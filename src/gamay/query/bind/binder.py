"""Binds a `Query` to a `BoundQuery`: resolves columns, infers types, binds aggregates, determines the kind.

Expressions after grouping (SELECT, HAVING, ORDER BY) refer to columns of the grouped table: `key:0`, … for the GROUP BY
expressions and `agg:0`, `agg:1`, … for the aggregates; each is listed once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import compiling, result_type
from gamay.functions.expression import (
    FILTERED,
    GROUPING,
    LOOKUP,
    Call,
    Column,
    Expression,
    Literal,
    Star,
    column_names,
    replaced,
    walk,
)
from gamay.functions.registry import is_aggregate
from gamay.functions.scalar.text.text_match import Searched
from gamay.functions.text import to_text
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.query.bind.aggregates import (
    AggregateBinder,
    BoundAggregate,
    counting_rows,
    with_exact_forms,
    with_linear_forms,
)
from gamay.query.bind.conditions import with_conditions
from gamay.query.bind.filters import FilterBinder, fold
from gamay.query.bind.predicate import EVERYTHING, Filter, filter_columns
from gamay.query.bind.rebind import WherePattern
from gamay.query.bind.scope import NULL_FLAG_PREFIX, Scope, ValueType, with_null_defaults, with_null_flags
from gamay.sql.options.option_values import NULL_HANDLING, flag
from gamay.sql.query import OrderBy, Query, SelectItem
from gamay.sql.translate.expressions import canonical
from gamay.sql.translate.linear import linear_form

_GROUPING_ARGS_MAX = 31
NO_SCHEMA = Schema("", ())
"""The schema of queries without a table."""


class QueryKind(Enum):
    """The five kinds of single-table queries, which differ in execution and statistics."""

    SELECTION = "selection"
    SELECTION_ORDER_BY = "selection with ORDER BY"
    DISTINCT = "distinct"
    AGGREGATION = "aggregation"
    GROUP_BY = "group by"


@dataclass(frozen=True, slots=True)
class SortKey:
    """One sort key. For selections `expression` refers to the table's columns, otherwise to the grouped ones."""

    expression: Expression
    descending: bool
    nulls_last: bool


@dataclass(slots=True)  # not frozen: one is created for each query, and freezing so many fields would take 2 µs
class BoundQuery:
    """An executable query; immutable by convention.

    names, types: of the result's columns.
    rows: the distinct expressions evaluated per row: the output of a selection; the keys of DISTINCT and GROUP BY.
    row_types: their types.
    outputs: one expression per result column: over the table's columns in a selection, else over the grouped table.
    order_by, having: over the same columns as `outputs`.
    fields: the schema's fields of the stored columns that the query reads.
    grouping_sets: of GROUPING SETS, ROLLUP and CUBE: positions in `rows`, ascending; a set may occur twice. Empty for a
    plain GROUP BY. groupings: the arguments of GROUPING calls, as such positions; number i is the result's column
    `grouping:i`.
    scores: the searches of the textScore calls that are read, by column name.
    filters: of FILTER clauses: the flags of number i are the column `filter_column(i)`.
    null_handling: whether nulls are nulls (three-valued logic, skipped by aggregates) rather than the columns' default
    values.
    schema: that the query was bound to. shared: derived data, by consumer, that is independent of WHERE's literals and is
    reused for later queries of the shape.
    """

    query: Query
    kind: QueryKind
    filter: Filter
    names: tuple[str, ...]
    types: tuple[ValueType, ...]
    rows: tuple[Expression, ...]
    row_types: tuple[ValueType, ...]
    aggregates: tuple[BoundAggregate, ...]
    outputs: tuple[Expression, ...]
    having: Expression | None
    order_by: tuple[SortKey, ...]
    limit: int
    offset: int
    fields: Mapping[str, FieldSpec]
    null_handling: bool = False
    filters: tuple[Filter, ...] = ()
    grouping_sets: tuple[tuple[int, ...], ...] = ()
    groupings: tuple[tuple[int, ...], ...] = ()
    schema: Schema = NO_SCHEMA
    scores: Mapping[str, Searched] = field(default_factory=dict)
    shared: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def limit_with_offset(self) -> int:
        """The number of rows that each segment or server must be able to contribute."""
        return self.limit + self.offset

    def with_filter(self, query: Query, filter_: Filter) -> "BoundQuery":
        """Return a copy with the query and filter of a query with other literals in WHERE."""
        return BoundQuery(query, self.kind, filter_, *_BEHIND_FILTER(self))

    def with_constants(self) -> "BoundQuery":
        """Return a copy with the query's constants in place of their placeholders, throughout."""
        constants = dict(self.query.constants or {})

        def put(expressions: tuple[Expression, ...]) -> tuple[Expression, ...]:
            return tuple([replaced(each, constants) for each in expressions])

        def filled(each: BoundAggregate) -> BoundAggregate:
            call = replaced(each.call, constants)
            assert isinstance(call, Call)
            return BoundAggregate(call, each.aggregate, put(each.arguments), each.filter)

        return replace(
            self,
            query=self.query.whole,
            rows=put(self.rows),
            outputs=put(self.outputs),
            aggregates=tuple(map(filled, self.aggregates)),
            having=None if self.having is None else replaced(self.having, constants),
            order_by=tuple([replace(key, expression=replaced(key.expression, constants)) for key in self.order_by]),
            shared={},
        )


# takes half the time of `dataclasses.replace`, which matters for queries of 100 µs
_BEHIND_FILTER = attrgetter(*(part.name for part in fields(BoundQuery)[3:]))


def bind(query: Query, schema: Schema) -> BoundQuery:
    """Bind a query to a table's schema; raises QueryError 710 for an unknown column and 700 for an invalid query."""
    with compiling():
        return _Binder(query.whole, schema).bind()


def where_pattern(bound: BoundQuery, schema: Schema) -> WherePattern | None:
    """Return the pattern of WHERE that queries of a shape share, if it is simple enough; else None."""
    if any(aggregate.call.name == FILTERED for aggregate in bound.aggregates):
        return None
    scope = Scope(schema, bound.query.table)
    where = bound.query.where
    if where is not None and any(map(scope.timestamp_column, column_names(where))):
        return None
    pattern = WherePattern.of(where, scope.resolve, scope.type_of, bound.null_handling)
    return None if pattern is None or pattern.bind(where) is None else pattern


def bind_like(bound: BoundQuery, query: Query, schema: Schema) -> BoundQuery | None:
    """Quickly bind a query that differs from `bound.query` only in WHERE's literals.

    The schema must be that of `bound`. Returns None if the new literals affect more than the filter (a condition that
    becomes constant no longer reads its columns), or if there is a FILTER clause, which may narrow WHERE; raises like
    `bind`.
    """
    if any(aggregate.call.name == FILTERED for aggregate in bound.aggregates):
        return None
    binder = _Binder(query, schema)
    with compiling():
        filter_ = binder.bind_filter()
    if binder.null_handling != bound.null_handling or filter_columns(filter_) != filter_columns(bound.filter):
        return None
    return bound.with_filter(query, filter_)


@cache
def key_column(index: int) -> Column:
    """Return the grouped table's column for a GROUP BY or DISTINCT expression."""
    return Column(f"key:{index}")


@cache
def aggregate_column(index: int) -> Column:
    """Return the grouped table's column for an aggregate."""
    return Column(f"agg:{index}")


def grouping_column(index: int) -> Column:
    """Return the grouped table's column for the result of a GROUPING call."""
    return Column(f"grouping:{index}")


class _Binder:
    def __init__(self, query: Query, schema: Schema) -> None:
        self._query = query
        self._schema = schema
        self._scope = Scope(schema, query.table)
        self.null_handling = flag(query.options, NULL_HANDLING)
        self._keeps_types = flag(query.options, "autoRewriteAggregationType")
        self._keys: dict[Expression, int] = {}  # expression -> position
        self._key_types: list[ValueType] = []
        self._sets: tuple[tuple[int, ...], ...] = ()
        self._groupings: dict[tuple[int, ...], int] = {}
        self._aggregates = AggregateBinder(self._type, self._condition, self.null_handling, bool(query.group_by))

    def bind(self) -> BoundQuery:
        query = self._query
        items = self._select_items()
        order_by = [(self._row_expression(key.expression), key) for key in query.order_by]
        having = None if query.having is None else self._row_expression(query.having)
        group_by = [self._row_expression(expression) for expression in query.group_by]
        written = (
            [item.expression for item in items] + [expression for expression, _ in order_by] + ([having] if having else [])
        )
        aggregated = any(_has_aggregate(expression) for expression in written)
        if query.distinct and (aggregated or group_by):
            raise _invalid("DISTINCT cannot be combined with aggregates or GROUP BY; group by the selected columns instead")
        if aggregated or group_by:
            kind = QueryKind.GROUP_BY if group_by else QueryKind.AGGREGATION
            return self._grouped(kind, items, group_by, having, [] if not group_by else order_by)
        if having is not None:
            raise _invalid("HAVING needs GROUP BY or an aggregate; use WHERE to filter rows")
        if query.distinct:
            return self._distinct(items, order_by)
        return self._selection(items, order_by)

    # -- the parts of a query

    def _select_items(self) -> list[SelectItem]:
        items: list[SelectItem] = []
        for item in self._query.select:
            if isinstance(item.expression, Star):
                if self._query.distinct:
                    raise _invalid("DISTINCT * is not supported; list the columns")
                items.extend(SelectItem(Column(name), name) for name in self._scope.star())
            else:
                items.append(SelectItem(self._item_expression(item), self._name(item)))
        return items

    def _name(self, item: SelectItem) -> str:
        """Return the name of a result column; without null handling COUNT(x) is shown as COUNT(*)."""
        if item.shown is None:
            return item.name
        counted = self._with_exact_forms(item.shown)
        counted = counted if self.null_handling else counting_rows(counted)
        return item.name if counted is item.shown else to_text(counted)

    def _item_expression(self, item: SelectItem) -> Expression:
        """Return the expression of a select item; integers are kept if its name shows that, as in `add(sumlong(a),…)`."""
        linear = linear_form(item.expression) if self._keeps_types else None
        is_shown = linear is not None and item.name == to_text(linear)  # servers know only the name
        return self._row_expression(canonical(linear) if linear is not None and is_shown else item.expression)

    def _row_expression(self, expression: Expression) -> Expression:
        bound = self._scope.bind(with_conditions(self._with_exact_forms(expression)))
        bound = fold(with_linear_forms(bound, self._type))
        return with_null_defaults(bound) if self.null_handling else with_null_flags(counting_rows(bound))

    def _with_exact_forms(self, expression: Expression) -> Expression:
        if not self._keeps_types:
            return expression
        return with_exact_forms(expression, lambda argument: self._type(self._scope.bind(argument)))

    def bind_filter(self) -> Filter:
        """Bind the WHERE condition."""
        if self._query.where is None:
            return EVERYTHING
        try:
            where = self._scope.bind(self._query.where)
        except QueryError as error:
            raise self._alias_error(self._query.where) or error from None
        if self.null_handling:
            where = with_null_defaults(where)
        if _has_aggregate(where):
            raise _invalid("An aggregate is not allowed in WHERE; use HAVING")
        return self._condition(where)

    def _alias_error(self, where: Expression) -> QueryError | None:
        """Return the error for a WHERE condition that refers to an alias; None if it does not."""
        aliases = {item.name.lower() for item in self._query.select if not isinstance(item.expression, Column)}
        for name in column_names(where):
            if name.lower() in aliases and not self._scope.knows(name):
                message = f"Unknown columnName '{name}' found in the query: it is an alias, which WHERE cannot use"
                return QueryError(
                    ErrorCode.UNKNOWN_COLUMN, f"{message}; repeat its expression, or filter groups with HAVING"
                )
        return None

    def _condition(self, expression: Expression) -> Filter:
        return FilterBinder(self._scope.type_of, self.null_handling).bind(expression)

    def _type(self, expression: Expression) -> ValueType:
        if isinstance(expression, Column):
            return self._scope.type_of(expression.name)
        return result_type(expression, self._scope.type_of)

    # -- the kinds of queries

    def _selection(self, items: Sequence[SelectItem], order_by: "_OrderBy") -> BoundQuery:
        outputs = tuple(item.expression for item in items)
        keys = _sort_keys([(expression, key.descending, key.nulls_last) for expression, key in order_by])
        _check_sortable(order_by, self._type)
        rows = tuple(dict.fromkeys((*outputs, *(key.expression for key in keys))))
        kind = QueryKind.SELECTION_ORDER_BY if keys else QueryKind.SELECTION
        return self._bound(kind, items, rows, tuple(self._type(output) for output in outputs), outputs, None, keys)

    def _distinct(self, items: Sequence[SelectItem], order_by: "_OrderBy") -> BoundQuery:
        if self._query.limit == 0:
            raise _invalid("DISTINCT with LIMIT 0 is not supported")
        self._set_keys([item.expression for item in items])
        for expression, _ in order_by:
            if expression not in self._keys:
                raise _invalid(
                    f"DISTINCT can be ordered only by selected expressions; {to_text(expression)} is not selected"
                )
        outputs = tuple(self._after_grouping(item.expression) for item in items)
        keys = _sort_keys([(self._after_grouping(e), key.descending, key.nulls_last) for e, key in order_by])
        types = tuple(self._grouped_type(output) for output in outputs)
        return self._bound(QueryKind.DISTINCT, items, tuple(self._keys), types, outputs, None, keys)

    def _grouped(
        self,
        kind: QueryKind,
        items: Sequence[SelectItem],
        group_by: Sequence[Expression],
        having: Expression | None,
        order_by: "_OrderBy",
    ) -> BoundQuery:
        for expression in group_by:
            if _has_aggregate(expression):
                raise _invalid(f"An aggregate is not allowed in GROUP BY: {to_text(expression)}")
        self._set_keys(group_by)
        places = [self._keys[key] for key in group_by]
        self._sets = tuple(tuple(sorted({places[i] for i in part})) for part in self._query.grouping_sets)
        outputs = tuple(self._after_grouping(item.expression) for item in items)
        keys = _sort_keys([(self._after_grouping(e), key.descending, key.nulls_last) for e, key in order_by])
        _check_sortable(order_by, lambda expression: self._grouped_type(self._after_grouping(expression)))
        condition = None if having is None else self._after_grouping(having)
        if condition is not None and self._grouped_type(condition) != (DataType.BOOLEAN, False):
            raise _invalid(f"HAVING must be a condition: {to_text(having) if having else ''}")
        types = tuple(self._grouped_type(output) for output in outputs)
        return self._bound(kind, items, tuple(self._keys), types, outputs, condition, keys)

    def _bound(
        self,
        kind: QueryKind,
        items: Sequence[SelectItem],
        rows: tuple[Expression, ...],
        types: tuple[ValueType, ...],
        outputs: tuple[Expression, ...],
        having: Expression | None,
        order_by: tuple[SortKey, ...],
    ) -> BoundQuery:
        row_types = tuple(self._type(row) for row in rows)
        skips = flag(self._query.options, "filteredAggregationsSkipEmptyGroups")
        filter_, aggregates, filters = self._aggregates.narrowed(
            self.bind_filter(), only_matching=skips or kind is QueryKind.AGGREGATION
        )
        arguments = [argument for aggregate in aggregates for argument in aggregate.arguments]
        tested = [name for part in (filter_, *filters) for name in filter_columns(part)]
        read = dict.fromkeys((*physical_columns([*rows, *arguments]), *tested))
        return BoundQuery(
            self._query,
            kind,
            filter_,
            tuple(item.name for item in items),
            types,
            rows,
            row_types,
            tuple(aggregates),
            outputs,
            having,
            order_by,
            self._query.limit,
            self._query.offset,
            self._scope.fields(read),
            self.null_handling,
            filters,
            self._sets,
            tuple(self._groupings),
            self._schema,
            self._scope.scores_in(read),
        )

    # -- grouping

    def _set_keys(self, keys: Sequence[Expression]) -> None:
        """Set the keys in the order written, without duplicates; a multi-value key groups by each of its values."""
        self._keys = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        self._key_types = [(self._type(key)[0], False) for key in self._keys]

    def _after_grouping(self, expression: Expression) -> Expression:
        """Return the expression over the grouped table."""
        place = self._keys.get(expression)
        if place is not None:
            return key_column(place)
        if isinstance(expression, Call):
            if is_aggregate(expression.name):
                return aggregate_column(self._aggregates.number(expression))
            if expression.name in GROUPING:
                return self._grouping(expression)
            if expression.name == LOOKUP:
                return self._looked_up(expression)
            return Call(expression.name, tuple(self._after_grouping(arg) for arg in expression.args))
        if isinstance(expression, Column):
            if self._sets and expression.name.startswith(NULL_FLAG_PREFIX):
                key = self._after_grouping(Column(expression.name.removeprefix(NULL_FLAG_PREFIX)))
                return Call("isnull", (key,))
            raise _invalid(
                f"Column '{expression.name}' is neither in GROUP BY nor inside an aggregate; group by it or aggregate it"
            )
        return expression

    def _looked_up(self, call: Call) -> Column:
        """Add a lookup to the keys, since it is evaluated per row; no group is split if each has one key."""
        data_type, is_multi_value = self._type(call)
        if self._sets or is_multi_value or not self._keys or not self._is_of_group(call):
            raise _invalid(
                "Function 'lookUp': values are looked up per row, not per group; add the same call to GROUP BY, "
                "which does not change the groups if its key is in GROUP BY"
            )
        self._keys[call] = len(self._key_types)
        self._key_types.append((data_type, False))
        return key_column(self._keys[call])

    def _is_of_group(self, expression: Expression) -> bool:
        """Whether an expression has the same value in all rows of a group."""
        if expression in self._keys:
            return not self._type(expression)[1]
        if isinstance(expression, Call):
            return not is_aggregate(expression.name) and all(map(self._is_of_group, expression.args))
        return isinstance(expression, Literal)

    def _grouping(self, call: Call) -> Column:
        """Bind `GROUPING(a, b)`: one bit per key, the first is the most significant, set if the key is rolled up."""
        if not 1 <= len(call.args) <= _GROUPING_ARGS_MAX:
            raise _invalid(f"{call.name} takes 1 to {_GROUPING_ARGS_MAX} expressions of GROUP BY, not {len(call.args)}")
        for argument in call.args:
            if argument not in self._keys:
                raise _invalid(f"{to_text(call)}: {to_text(argument)} is not in GROUP BY")
        keys = tuple(self._keys[argument] for argument in call.args)
        return grouping_column(self._groupings.setdefault(keys, len(self._groupings)))

    def _grouped_type(self, expression: Expression) -> ValueType:
        return result_type(expression, self._grouped_column_type, post_aggregation=True)

    def _grouped_column_type(self, name: str) -> ValueType:
        kind, index = name.split(":")
        if kind == "key":
            return self._key_types[int(index)]
        if kind == "grouping":
            return DataType.INT, False
        return self._aggregates.result_type(int(index))


_OrderBy: TypeAlias = Sequence[tuple[Expression, OrderBy]]
_TypeOf: TypeAlias = Callable[[Expression], ValueType]


def _check_sortable(order_by: _OrderBy, type_of: _TypeOf) -> None:
    for expression, _ in order_by:
        if type_of(expression)[1]:
            raise _invalid(f"ORDER BY a multi-value expression is not defined: {to_text(expression)}")


def _sort_keys(keys: Sequence[tuple[Expression, bool, bool | None]]) -> tuple[SortKey, ...]:
    """Return the sort keys without duplicates and constants; nulls are greatest by default."""
    distinct: dict[Expression, SortKey] = {}
    for expression, descending, nulls_last in keys:
        if expression not in distinct and not isinstance(expression, Literal):
            last = not descending if nulls_last is None else nulls_last
            distinct[expression] = SortKey(expression, descending, last)
    return tuple(distinct.values())


def _has_aggregate(expression: Expression) -> bool:
    return any(isinstance(part, Call) and is_aggregate(part.name) for part in walk(expression))


def _invalid(message: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, message)


def physical_columns(expressions: Sequence[Expression]) -> list[str]:
    """Return the distinct names of the columns that expressions read."""
    return list(dict.fromkeys(name for expression in expressions for name in column_names(expression)))

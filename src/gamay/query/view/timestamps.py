"""Queries over the columns of timestamp indexes: `dateTrunc('DAY', ts)` is read from `$ts$DAY` in segments that have it.

The query of a segment is rewritten (`QuerySegment.asks`); in other segments the function is computed, so that the answer
does not depend on which segments have the column. Other functions of days or longer units, such as `year(ts)`, are computed
from the days instead of the times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gamay.functions.expression import Call, Column, Expression, Literal, column_names, walk
from gamay.functions.scalar.time.time_units import UnitRead, dividing, unit_read
from gamay.model.index.timestamp_index import MILLIS_SUFFIX, TimestampColumn
from gamay.model.types import DataType
from gamay.query.bind.binder import BoundQuery, QueryKind
from gamay.query.bind.literal_predicates import MIRRORED, literal_predicate
from gamay.query.bind.one_column import merged_conjunction
from gamay.query.bind.predicate import And, Filter, In, Match, Not, Or, Range, Test, disjunction, negation
from gamay.query.view.virtual import QuerySegment
from gamay.segment.encode.metadata import TIMESTAMP_COLUMNS
from gamay.segment.spi import KnowsMillis

# a column with more values than one per this many rows is as costly to compute with as the times
_ROWS_PER_VALUE = 4
_WHOLE = (DataType.INT, DataType.LONG)
_SELECTIONS = (QueryKind.SELECTION, QueryKind.SELECTION_ORDER_BY)


@dataclass(frozen=True)
class _Available:
    """The timestamp columns of a segment that a query can use. units: the available granularities, by time column.

    few: those with far fewer values than rows. positive: time columns without any time before 1970.
    """

    units: frozenset[tuple[str, str]]
    few: frozenset[tuple[str, str]]
    positive: frozenset[str]

    def unit_for(self, base: str, read: UnitRead) -> str | None:
        """Return the longest granularity that is precise enough."""
        if read.since_epoch and base not in self.positive:
            return None
        found = (unit for unit in dividing(read.unit) if (base, unit) in (self.units if unit == read.unit else self.few))
        return next(found, None)


def use_timestamp_columns(bound: BoundQuery, segments: Sequence[QuerySegment]) -> None:
    """Rewrite the query of each segment to its timestamp-index columns, where they contain what the query computes."""
    reads: set[tuple[str, UnitRead]] | None = None
    asked: dict[_Available, BoundQuery] = {}
    for segment in segments:
        derived = segment.metadata.get(TIMESTAMP_COLUMNS)
        if not derived:
            continue
        if reads is None:
            reads = {found for expression in _expressions(bound) for found in _reads(expression)}
        if not reads:
            return
        available = _available(segment, [TimestampColumn(*of) for of in derived.values()], {base for base, _ in reads})
        if available not in asked:
            asked[available] = _Rewriter(available, bound).query()
        if asked[available] is not bound:
            segment.asks = asked[available]


def _expressions(bound: BoundQuery) -> list[Expression]:
    """Return the expressions that a query computes for rows."""
    arguments = [argument for call in bound.aggregates for argument in call.arguments]
    tested = [expression for part in (bound.filter, *bound.filters) for expression in _tested(part)]
    return [*bound.rows, *arguments, *tested]


def _tested(part: Filter) -> list[Expression]:
    if isinstance(part, And | Or):
        return [expression for inner in part.parts for expression in _tested(inner)]
    if isinstance(part, Not):
        return _tested(part.part)
    return [part.expression] if isinstance(part, Match | Test) else []


def _reads(expression: Expression) -> list[tuple[str, UnitRead]]:
    calls = (part for part in walk(expression) if isinstance(part, Call))
    return [found for call in calls if (found := _read(call)) is not None]


def _read(call: Call) -> tuple[str, UnitRead] | None:
    """Return the column whose units a call reads, and how."""
    read = unit_read(call)
    times = None if read is None else call.args[read.position]
    return None if read is None or not isinstance(times, Column) else (times.name, read)


def _available(segment: QuerySegment, derived: Sequence[TimestampColumn], bases: set[str]) -> _Available:
    units: set[tuple[str, str]] = set()
    few: set[tuple[str, str]] = set()
    positive: set[str] = set()
    for column in derived:
        if column.base not in bases:
            continue
        stored = segment.column(column.name)
        assert isinstance(stored, KnowsMillis)
        segment.attach(stored.millis)
        unit = column.base, column.granularity
        units.add(unit)
        if (stored.stats.cardinality or 0) * _ROWS_PER_VALUE <= segment.num_docs:
            few.add(unit)
        least = segment.column(column.base).stats.minimum
        if isinstance(least, int) and least >= 0:
            positive.add(column.base)
    return _Available(frozenset(units), frozenset(few), frozenset(positive))


class _Rewriter:
    """Rewriter of a query to the columns that a segment has."""

    def __init__(self, available: _Available, bound: BoundQuery) -> None:
        self._available = available
        self._bound = bound

    def query(self) -> BoundQuery:
        """Return the query for segments; the same object if nothing changes."""
        bound = self._bound
        rows = tuple(map(self._expression, bound.rows))
        filter_, *filters = map(self._filter, (bound.filter, *bound.filters))
        aggregates = tuple(
            [replace(call, arguments=tuple(map(self._expression, call.arguments))) for call in bound.aggregates]
        )
        if (rows, filter_, *filters, *aggregates) == (bound.rows, bound.filter, *bound.filters, *bound.aggregates):
            return bound
        asks = replace(bound, rows=rows, filter=filter_, filters=tuple(filters), aggregates=aggregates)
        if bound.kind in _SELECTIONS:
            asks.outputs = tuple(map(self._expression, bound.outputs))
            asks.order_by = tuple([replace(key, expression=self._expression(key.expression)) for key in bound.order_by])
        return asks

    def _expression(self, expression: Expression) -> Expression:
        if not isinstance(expression, Call):
            return expression
        if (stored := self._stored(expression)) is not None:
            return stored
        found = _read(expression)
        unit = None if found is None else self._available.unit_for(*found)
        if found is None or unit is None:
            args = tuple(map(self._expression, expression.args))
            return expression if args == expression.args else Call(expression.name, args)
        base, read = found
        column = Column(TimestampColumn(base, unit).millis_name)
        if read.is_start and unit == read.unit:
            return column
        args = (*expression.args[: read.position], column, *expression.args[read.position + 1 :])
        return Call(expression.name, args)

    def _stored(self, call: Call) -> Column | None:
        """Return the column of the segment, such as `$ts$DAY`, with its own type."""
        found = _read(call.args[0]) if call.name == "totimestamp" and isinstance(call.args[0], Call) else None
        if found is None or not found[1].is_start:
            return None
        base, unit = found[0], found[1].unit
        return Column(TimestampColumn(base, unit).name) if (base, unit) in self._available.units else None

    def _filter(self, part: Filter) -> Filter:
        if isinstance(part, And):
            return merged_conjunction([self._filter(inner) for inner in part.parts], self._is_multi_value)
        if isinstance(part, Or):
            return disjunction([self._filter(inner) for inner in part.parts])
        if isinstance(part, Not):
            return negation(self._filter(part.part))
        if not isinstance(part, Match | Test):
            return part
        expression = self._expression(part.expression)
        names = tuple(column_names(expression))
        if isinstance(part, Test):
            return Test(expression, names)
        if names == (part.column,) or len(names) > 1:
            return part
        return _compared(expression) or Match(names[0], expression)

    def _is_multi_value(self, column: str) -> bool:
        field = self._bound.fields.get(column)
        return field is not None and not field.single_value


def _compared(condition: Expression) -> Filter | None:
    """Return the predicate equivalent to a condition on one column; None if it computes something from the column.

    It holds for the same values as the expression: whole numbers are compared as such, and a text with a TIMESTAMP is read
    as one, in both.
    """
    if not isinstance(condition, Call) or not condition.args:
        return None
    name, args = condition.name, condition.args
    if name in MIRRORED and len(args) == 2 and isinstance(args[0], Literal):
        name, args = MIRRORED[name], (args[1], args[0])
    if not isinstance(args[0], Column):
        return None
    is_millis = args[0].name.endswith(MILLIS_SUFFIX)
    data_type = DataType.LONG if is_millis else DataType.TIMESTAMP
    accepted = _WHOLE if is_millis else (*_WHOLE, DataType.STRING)
    if not all(isinstance(arg, Literal) and arg.type in accepted for arg in args[1:]):
        return None
    found = literal_predicate(name, args[0].name, data_type, args[1:])
    return negation(_as_range(found.part)) if isinstance(found, Not) else found and _as_range(found)


def _as_range(part: Filter) -> Filter:
    """Return an equality as a range, which the range index can answer."""
    if not isinstance(part, In) or len(part.values) > 1:
        return part
    (value,) = part.values
    return Range(part.column, value, value, lower_inclusive=True, upper_inclusive=True)

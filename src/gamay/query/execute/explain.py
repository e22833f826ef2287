"""EXPLAIN PLAN FOR: the execution plan of a query, as a table of operators.

`explain_segments` runs on a server and describes each distinct plan once; `explain_table` builds the rows of the answer: the
reduce at the broker (id 1), the combine of the servers (id 2), and below it the plan of the segments (ids from 3).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gamay.functions.expression import TEXT_MATCH, TEXT_PART, Call, Column, Expression, Literal, LiteralValue, walk
from gamay.functions.text import condition_text, literal_text, to_text
from gamay.functions.vector import Vector
from gamay.model.index.timestamp_index import MILLIS_SUFFIX
from gamay.model.table.secondary_indexes import SECONDARY_KINDS
from gamay.model.types import DataType
from gamay.query.answer.response import ResultTable
from gamay.query.bind.aggregates import BoundAggregate, filter_column
from gamay.query.bind.binder import BoundQuery, QueryKind, physical_columns
from gamay.query.bind.predicate import (
    And,
    Constant,
    Filter,
    In,
    IsNull,
    Leaf,
    Match,
    Near,
    Not,
    Or,
    Range,
    Test,
    narrowed,
)
from gamay.query.columns.constants import values_of
from gamay.query.execute.distinct import answering_dictionary
from gamay.query.execute.groups import known_partials
from gamay.query.execute.nearest_first import indexed_search
from gamay.query.filter.apply import apply_filter
from gamay.query.filter.compound import Together
from gamay.query.filter.nearest import NearScan
from gamay.query.filter.resolve import Indexed, Narrowed, Resolver
from gamay.query.filter.zoned import ZONE_MAP, ZonedScan
from gamay.query.startree.choose import CuboidView
from gamay.query.stats import QueryStats
from gamay.query.view.counters import EntryCounter
from gamay.query.view.scores import ScoreColumn
from gamay.query.view.virtual import QuerySegment
from gamay.sql.options.option_values import flag
from gamay.sql.translate.linear import linear_form


@dataclass(frozen=True, slots=True)
class Operator:
    """A node of a plan."""

    text: str
    children: tuple["Operator", ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentPlans:
    """The distinct plans of a server's segments, each with the number of segments that use it."""

    plans: tuple[tuple[Operator, int], ...]


_COMBINE = {
    QueryKind.SELECTION: "COMBINE_SELECT",
    QueryKind.SELECTION_ORDER_BY: "COMBINE_SELECT_ORDERBY",
    QueryKind.AGGREGATION: "COMBINE_AGGREGATE",
    QueryKind.GROUP_BY: "COMBINE_GROUP_BY",
    QueryKind.DISTINCT: "COMBINE_DISTINCT",
}
_INDEX_OPERATORS = {
    "sorted_index": "FILTER_SORTED_INDEX",
    "inverted_index": "FILTER_INVERTED_INDEX",
    "range_index": "FILTER_RANGE_INDEX",
    **{f"{kind}_index": f"FILTER_{kind.upper()}_INDEX" for kind in SECONDARY_KINDS},
    "bitmap": "FILTER_BITMAP",
    ZONE_MAP: "FILTER_ZONE_MAP",
}
_MATCH_ALL = "FILTER_MATCH_ENTIRE_SEGMENT"
_EMPTY = Operator("FILTER_EMPTY")
# the predicate type of a comparison of an expression with a constant, and its sign
_COMPARISONS = {
    "equals": ("EQ", "="),
    "notequals": ("NOT_EQ", "!="),
    "lessthan": ("RANGE", "<"),
    "lessthanorequal": ("RANGE", "<="),
    "greaterthan": ("RANGE", ">"),
    "greaterthanorequal": ("RANGE", ">="),
}
_LISTS = {"in": ("IN", "IN"), "notin": ("NOT_IN", "NOT IN")}
_NAMED_PREDICATES = {
    "like": "REGEXP_LIKE",
    "regexplike": "REGEXP_LIKE",
    "jsonmatch": "JSON_MATCH",
    "textmatch": "TEXT_MATCH",
}


def explain_segments(bound: BoundQuery, segments: Sequence[QuerySegment], stats: QueryStats) -> SegmentPlans:
    """Return the plans of the segments left after pruning; counts those with an empty or match-all filter."""
    counted: dict[Operator, int] = {}
    for segment in segments:
        plan = _plan(bound, segment)
        counted[plan] = counted.get(plan, 0) + 1
    for plan, count in counted.items():
        stats.explain_plan_num_empty_filter_segments += count * _holds(plan, _is_empty)
        stats.explain_plan_num_match_all_filter_segments += count * _holds(plan, _is_match_all)
    return SegmentPlans(tuple(counted.items()))


def explain_table(bound: BoundQuery, servers: Sequence[SegmentPlans]) -> ResultTable:
    """Return the answer to EXPLAIN: the most informative plan, or all of them with the option `explainPlanVerbose`."""
    if bound.query.table is None:
        return _table([("BROKER_EVALUATE", 0, -1)])
    verbose = flag(bound.query.options, "explainPlanVerbose")
    counted: dict[Operator, int] = {}
    for server in servers:
        for plan, count in server.plans:
            counted[plan] = counted.get(plan, 0) + count
    rows = [(_reduce_text(bound), 1, 0)]
    if not counted:
        return _table([*rows, ("ALL_SEGMENTS_PRUNED_ON_SERVER", 2, 1)])
    rows.append((_COMBINE[bound.kind], 2, 1))
    shown = list(counted) if verbose else [max(counted, key=_interest)]
    for plan in shown:
        rows.append((f"PLAN_START(numSegmentsForThisPlan:{counted[plan]})", -1, -1))
        rows.extend(_numbered(plan))
    return _table(rows)


def _table(rows: Sequence[tuple[str, int, int]]) -> ResultTable:
    types = (DataType.STRING, DataType.INT, DataType.INT)
    columns = (
        Vector(data_type, values_of(data_type, list(values)))
        for values, data_type in zip(zip(*rows, strict=True), types, strict=True)
    )
    return ResultTable(("Operator", "Operator_Id", "Parent_Id"), tuple(t.value for t in types), tuple(columns))


def _numbered(plan: Operator) -> Iterator[tuple[str, int, int]]:
    """Yield the operators in pre-order, with ids from 3."""
    next_id = 3

    def visit(operator: Operator, parent: int) -> Iterator[tuple[str, int, int]]:
        nonlocal next_id
        own, next_id = next_id, next_id + 1
        yield operator.text, own, parent
        for child in operator.children:
            yield from visit(child, own)

    yield from visit(plan, 2)


def _interest(plan: Operator) -> tuple[bool, int]:
    """Return the sort key of plans: a filter that is neither empty nor match-all outranks any depth."""
    return not (_holds(plan, _is_empty) or _holds(plan, _is_match_all)), _depth(plan)


def _holds(plan: Operator, test: Callable[[Operator], bool]) -> bool:
    return test(plan) or any(_holds(child, test) for child in plan.children)


def _is_empty(operator: Operator) -> bool:
    return operator == _EMPTY


def _is_match_all(operator: Operator) -> bool:
    return operator.text.startswith(_MATCH_ALL)


def _depth(plan: Operator) -> int:
    return 1 + max((_depth(child) for child in plan.children), default=0)


def _reduce_text(bound: BoundQuery) -> str:
    query = bound.query
    parts = []
    if query.having is not None:
        parts.append(f"havingFilter:{condition_text(query.having)}")
    if query.order_by and bound.order_by:
        keys = [f"{to_text(key.expression)} {'DESC' if key.descending else 'ASC'}" for key in query.order_by]
        parts.append(f"sort:[{', '.join(keys)}]")
    parts.append(f"limit:{bound.limit}")
    if bound.kind in (QueryKind.GROUP_BY, QueryKind.AGGREGATION):
        after = [
            name if item.shown is not None else to_text(linear_form(item.expression) or item.expression)
            for item, name, output in zip(query.select, bound.names, bound.outputs, strict=False)
            if isinstance(output, Call)
        ]
        if after:
            parts.append(f"postAggregations:{', '.join(after)}")
    return f"BROKER_REDUCE({','.join(parts)})"


# -- the plan of one segment


def _plan(bound: BoundQuery, segment: QuerySegment) -> Operator:
    if isinstance(segment, CuboidView):
        return _tree_plan(bound, segment)
    plan = _own_plan(bound, segment) if segment.asks is None else _by_stored_names(_own_plan(segment.asks, segment))
    if segment.unused_trees is None:
        return plan
    return Operator(f"{plan.text.removesuffix(')')}, noStarTree:'{segment.unused_trees}')", plan.children)


def _by_stored_names(plan: Operator) -> Operator:
    """Return a plan in which columns of timestamp indexes have their stored names, whatever they are read as."""
    text = plan.text.replace(MILLIS_SUFFIX, "")
    return Operator(text, tuple(map(_by_stored_names, plan.children)))


def _tree_plan(bound: BoundQuery, segment: CuboidView) -> Operator:
    """Return the plan of a segment answered from a star-tree, whose records are filtered and merged."""
    filter_ = _filter(segment.asks.filter, segment)
    children = () if _is_match_all(filter_) else (filter_,)
    kept = ", ".join(segment.dimensions)
    tree = Operator(f"FILTER_STARTREE_INDEX(dimensions:[{kept}], records:{segment.num_docs})", children)
    return Operator(_top(bound), (Operator(f"PROJECT({kept})", (Operator("DOC_ID_SET", (tree,)),)),))


def _own_plan(bound: BoundQuery, segment: QuerySegment) -> Operator:
    filter_ = _filter(bound.filter, segment)
    if segment.visible is not None:
        filter_ = _and((filter_, Operator("FILTER_BITMAP(validDocIds)")), segment)
    if (search := indexed_search(bound, segment)) is not None:
        filter_ = _and((filter_, _near(search, segment)), segment)
    if (unread := _unread(bound, segment, filter_)) is not None:
        return unread
    if not bound.filters:
        return Operator(_top(bound), (_projection(bound, bound.aggregates, filter_, segment),))
    branches: dict[Column | None, list[BoundAggregate]] = {None: []} if bound.rows else {}
    for aggregate in bound.aggregates:
        branches.setdefault(aggregate.filter, []).append(aggregate)
    conditions = {filter_column(i): narrowed(bound.filter, part) for i, part in enumerate(bound.filters)}
    children = [
        _projection(bound, aggregates, filter_ if column is None else _filter(conditions[column], segment), segment)
        for column, aggregates in branches.items()
    ]
    return Operator(_top(bound), tuple(children))


def _unread(bound: BoundQuery, segment: QuerySegment, filter_: Operator) -> Operator | None:
    """Return the plan of a segment that is answered without reading rows; None if rows are read."""
    if bound.kind is QueryKind.AGGREGATION:
        if known_partials(bound, segment, apply_filter(bound.filter, segment)) is None:
            return None
        counts_filtered = not bound.filters and not any(call.arguments for call in bound.aggregates)
        if counts_filtered and not _is_match_all(filter_):
            return Operator("FAST_FILTERED_COUNT", (filter_,))
        return Operator("AGGREGATE_NO_SCAN")
    if bound.kind is QueryKind.DISTINCT and _is_match_all(filter_) and answering_dictionary(bound, segment) is not None:
        return Operator(f"DISTINCT_DICTIONARY(keyColumns:{to_text(bound.rows[0])})")
    return None


def _top(bound: BoundQuery) -> str:
    listed = ", ".join(to_text(row) for row in bound.rows)
    filtered = "_FILTERED" if bound.filters else ""
    if bound.kind is QueryKind.AGGREGATION:
        return f"AGGREGATE{filtered}(aggregations:{_aggregations(bound)})"
    if bound.kind is QueryKind.GROUP_BY:
        return f"GROUP_BY{filtered}(groupKeys:{listed}{_sets(bound)}, aggregations:{_aggregations(bound)})"
    if bound.kind is QueryKind.DISTINCT:
        return f"DISTINCT(keyColumns:{listed})"
    selected = ", ".join(dict.fromkeys(to_text(output) for output in bound.outputs))
    name = "SELECT_EMPTY" if bound.limit == 0 else "SELECT_ORDERBY" if bound.order_by else "SELECT"
    return f"{name}(selectList:{selected})"


def _sets(bound: BoundQuery) -> str:
    sets = [f"({', '.join(to_text(bound.rows[i]) for i in keys)})" for keys in bound.grouping_sets]
    return f", groupingSets:[{', '.join(sets)}]" if sets else ""


def _aggregations(bound: BoundQuery) -> str:
    return ", ".join(to_text(aggregate.call) for aggregate in bound.aggregates)


def _projection(
    bound: BoundQuery, aggregates: Sequence[BoundAggregate], filter_: Operator, segment: QuerySegment
) -> Operator:
    read: list[Expression] = [*bound.rows]
    for aggregate in aggregates:
        read.extend(aggregate.arguments)
    names = physical_columns(read)
    scores = [_score(segment, name) for name in names if name in bound.scores]
    project = Operator(f"PROJECT({', '.join(names)})", (Operator("DOC_ID_SET", (filter_,)), *scores))
    if any(isinstance(part, Call) for expression in read for part in walk(expression)):
        return Operator(f"TRANSFORM({', '.join(dict.fromkeys(map(to_text, read)))})", (project,))
    return project


def _score(segment: QuerySegment, name: str) -> Operator:
    """Return the operator of a text score column, which shows what the scores are computed from."""
    column = segment.column(name)
    assert isinstance(column, ScoreColumn)
    return Operator(f"TEXT_SCORE_{column.source}({name})")


# -- filters


def _filter(filter_: Filter | Together, segment: QuerySegment) -> Operator:
    if isinstance(filter_, And):
        found = Resolver(segment, EntryCounter()).together(filter_.parts)
        return _and([_filter(part, segment) for part in found], segment)
    if isinstance(filter_, Or):
        parts = Resolver(segment, EntryCounter()).denied_together(filter_.parts)
        return _or([_filter(part, segment) for part in parts], segment)
    if isinstance(filter_, Together):
        return _together(filter_)
    if isinstance(filter_, Not):
        if isinstance(filter_.part, In | IsNull):
            return _leaf(filter_.part, segment, negated=True)
        part = _filter(filter_.part, segment)
        if _is_empty(part) or _is_match_all(part):
            return _constant(segment, matches=_is_empty(part))
        return Operator("FILTER_NOT", (part,))
    if isinstance(filter_, Constant):
        return _constant(segment, matches=filter_.matches)
    return _leaf(filter_, segment, negated=False)


def _and(parts: Sequence[Operator], segment: QuerySegment) -> Operator:
    """Return a conjunction without the parts that match all rows of the segment; empty if a part matches none."""
    if any(map(_is_empty, parts)):
        return _EMPTY
    left = tuple(part for part in parts if not _is_match_all(part))
    return _joined("FILTER_AND", left) if left else _constant(segment, matches=True)


def _or(parts: Sequence[Operator], segment: QuerySegment) -> Operator:
    if any(map(_is_match_all, parts)):
        return _constant(segment, matches=True)
    left = tuple(part for part in parts if not _is_empty(part))
    return _joined("FILTER_OR", left) if left else _EMPTY


def _joined(name: str, parts: tuple[Operator, ...]) -> Operator:
    return parts[0] if len(parts) == 1 else Operator(name, parts)


def _constant(segment: QuerySegment, *, matches: bool) -> Operator:
    return Operator(f"{_MATCH_ALL}(docs:{segment.num_docs})") if matches else _EMPTY


def _leaf(leaf: Leaf, segment: QuerySegment, *, negated: bool) -> Operator:
    if isinstance(leaf, Near):
        return _near(leaf, segment)
    resolved = Resolver(segment, EntryCounter()).leaf(leaf, segment.num_docs)
    if isinstance(resolved, Indexed) and resolved.index in ("empty", "match_all"):
        return _constant(segment, matches=(resolved.index == "match_all") != negated)
    operator, predicate = _predicate(leaf, negated)
    index = resolved.index if isinstance(resolved, Indexed | Narrowed | ZonedScan) else ""
    if index not in _INDEX_OPERATORS:
        if isinstance(leaf, Test) or (isinstance(leaf, Match) and operator not in _NAMED_PREDICATES.values()):
            return Operator(f"FILTER_EXPRESSION(operator:{operator},predicate:{predicate})")
        if not isinstance(leaf, Match) and isinstance(segment.column(leaf.column), ScoreColumn):
            return Operator(f"FILTER_EXPRESSION(operator:{operator},predicate:{predicate})", (_score(segment, leaf.column),))
        return Operator(f"FILTER_FULL_SCAN(operator:{operator},predicate:{predicate})")
    return Operator(f"{_INDEX_OPERATORS[index]}(indexLookUp:{index},operator:{operator},predicate:{predicate})")


def _together(found: Together) -> Operator:
    predicates = " AND ".join(_predicate(leaf, negated=False)[1] for leaf in found.leaves)
    return Operator(f"{_INDEX_OPERATORS[found.name]}(indexLookUp:{found.name},operator:AND,predicate:{predicates})")


def _near(leaf: Near, segment: QuerySegment) -> Operator:
    """Return the plan of a vector search. Asks the index whether it can answer; without one, does not search, as that
    would scan every vector."""
    leaf = segment.vector_options.applied(leaf)
    vector = ", ".join(map(literal_text, leaf.vector))
    if leaf.count is None:
        predicate = f"vector_similarity_radius({leaf.column}, ARRAY[{vector}], {literal_text(leaf.radius)})"
        return Operator(f"VECTOR_SIMILARITY_RADIUS(distance:{leaf.distance},predicate:{predicate})")
    predicate = f"vector_similarity({leaf.column}, ARRAY[{vector}], {leaf.count})"
    scan = NearScan(segment.column(leaf.column), leaf, EntryCounter())
    way = "EXACT_SCAN" if Resolver(segment, EntryCounter()).neighbours(leaf, scan, segment.visible) is None else "INDEX"
    return Operator(f"VECTOR_SIMILARITY_{way}(distance:{leaf.distance},predicate:{predicate})")


def _predicate(leaf: In | Range | IsNull | Match | Test, negated: bool) -> tuple[str, str]:
    """Return the type of a predicate and its text."""
    if isinstance(leaf, In):
        listed = ",".join(_quoted(value) for value in leaf.values)
        if len(leaf.values) == 1:
            return ("NOT_EQ", f"{leaf.column} != {listed}") if negated else ("EQ", f"{leaf.column} = {listed}")
        return ("NOT_IN", f"{leaf.column} NOT IN ({listed})") if negated else ("IN", f"{leaf.column} IN ({listed})")
    if isinstance(leaf, Range):
        return "RANGE", _range_text(leaf)
    if isinstance(leaf, IsNull):
        return ("IS_NOT_NULL", f"{leaf.column} IS NOT NULL") if negated else ("IS_NULL", f"{leaf.column} IS NULL")
    expression = _as_written(leaf.expression)
    named = _NAMED_PREDICATES.get(expression.name) if isinstance(expression, Call) and isinstance(leaf, Match) else None
    return _compared(expression) if named is None else (named, to_text(expression))


def _as_written(expression: Expression) -> Expression:
    """Return a text search as the query writes it, even if the expression was rewritten."""
    if not isinstance(expression, Call) or expression.name not in (TEXT_MATCH, TEXT_PART):
        return expression
    args = expression.args if expression.name == TEXT_MATCH else (expression.args[0], *expression.args[2:])
    return Call("textmatch", args[:3] if args[2:] and args[2] != Literal("", DataType.STRING) else args[:2])


def _compared(expression: Expression) -> tuple[str, str]:
    """Return the type and the text of a condition on an expression."""
    if isinstance(expression, Call) and all(isinstance(arg, Literal) for arg in expression.args[1:]):
        shown = [to_text(arg) for arg in expression.args]
        if expression.name in _COMPARISONS and len(shown) == 2:
            operator, sign = _COMPARISONS[expression.name]
            return operator, f"{shown[0]} {sign} {shown[1]}"
        if expression.name in _LISTS and len(shown) > 1:
            operator, words = _LISTS[expression.name]
            return operator, f"{shown[0]} {words} ({','.join(shown[1:])})"
        if expression.name == "between" and len(shown) == 3:
            return "RANGE", f"{shown[0]} BETWEEN {shown[1]} AND {shown[2]}"
    return "EQ", f"{to_text(expression)} = 'true'"


def _quoted(value: LiteralValue) -> str:
    return f"'{literal_text(value)}'"


def _range_text(leaf: Range) -> str:
    if leaf.lower is not None and leaf.upper is not None and leaf.lower_inclusive and leaf.upper_inclusive:
        return f"{leaf.column} BETWEEN {_quoted(leaf.lower)} AND {_quoted(leaf.upper)}"
    parts = []
    if leaf.lower is not None:
        parts.append(f"{leaf.column} {'>=' if leaf.lower_inclusive else '>'} {_quoted(leaf.lower)}")
    if leaf.upper is not None:
        parts.append(f"{leaf.column} {'<=' if leaf.upper_inclusive else '<'} {_quoted(leaf.upper)}")
    return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"

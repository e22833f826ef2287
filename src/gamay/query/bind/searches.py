"""Binds searches to filters: TEXT_MATCH of multi-value columns, VECTOR_SIMILARITY and its RADIUS, orders by distance."""

from itertools import combinations
from math import comb, isfinite

from gamay.base.errors import QueryError
from gamay.functions.arguments import check_count, wrong
from gamay.functions.expression import NEAREST, TEXT_MATCH, TEXT_PART, WITHIN, Call, Column, Expression, Literal
from gamay.functions.scalar.text.text_match import check_text, search_of
from gamay.functions.search.options import NAME as TEXT_NAME
from gamay.functions.search.query import Clauses, Everything, SearchQuery
from gamay.model.types import DataType
from gamay.query.bind.predicate import EVERYTHING, Filter, Match, Near, conjunction, disjunction, negation
from gamay.query.bind.scope import ValueType

TEXT_SEARCHES = ("textmatch", TEXT_MATCH)
VECTOR_SEARCHES = ("vectorsimilarity", NEAREST, "vectorsimilarityradius", WITHIN)
COUNT_DEFAULT = 10
RADIUS_DEFAULT = 0.5
_COMBINATIONS_MAX = 1000
# functions that order by distance: the index's distance, and whether the greatest values are the nearest
_ORDERS = {
    "cosinedistance": ("COSINE", False),
    "l2distance": ("L2", False),
    "euclideandistance": ("EUCLIDEAN", False),
    "innerproduct": ("INNER_PRODUCT", True),
}


def text_filter(call: Call, column: str, data_type: DataType) -> Filter:
    """Return the filter of TEXT_MATCH on a multi-value column: each word or phrase may be in any value, as if they were
    one text."""
    check_text(data_type)
    query, _ = search_of(call)
    return _text(query, call, column, ())


def _text(query: SearchQuery, call: Call, column: str, path: tuple[int, ...]) -> Filter:
    if isinstance(query, Everything):
        return EVERYTHING
    if not isinstance(query, Clauses):
        place = Literal(".".join(map(str, path)), DataType.STRING)
        return Match(column, Call(TEXT_PART, (call.args[0], place, *call.args[1:])))
    groups = (query.must, query.should, query.must_not)
    must, should, must_not = (
        [_text(part, call, column, (*path, group, place)) for place, part in enumerate(parts)]
        for group, parts in enumerate(groups)
    )
    needed: list[Filter] = [*must]
    if query.should_min:
        count = comb(len(should), query.should_min)
        if count > _COMBINATIONS_MAX:
            raise wrong(
                TEXT_NAME, f"{query.should_min} of {len(should)} words are too many combinations for a multi-value column"
            )
        needed.append(disjunction([conjunction(some) for some in combinations(should, query.should_min)]))
    return conjunction([*needed, negation(disjunction(must_not))])


def vector_filter(call: Call, column_type: ValueType) -> Near:
    """Return the predicate of VECTOR_SIMILARITY or VECTOR_SIMILARITY_RADIUS. Raises QueryError for invalid arguments."""
    is_radius = call.name in VECTOR_SEARCHES[2:]
    name = "vectorSimilarityRadius" if is_radius else "vectorSimilarity"
    is_configured = call.name in (NEAREST, WITHIN)
    check_count(name, len(call.args), 2, 4 if is_configured else 3)
    column = call.args[0]
    if not isinstance(column, Column) or column_type != (DataType.FLOAT, True):
        raise wrong(name, "argument 1 must be a multi-value column of FLOAT")
    vector = _vector(name, call.args[1])
    distance = _constant(name, call.args[3], 4) if is_configured else "COSINE"
    limit = _constant(name, call.args[2], 3) if len(call.args) > 2 else RADIUS_DEFAULT if is_radius else COUNT_DEFAULT
    if (
        isinstance(limit, bool)
        or not isinstance(limit, int | float)
        or (not is_radius and not (isinstance(limit, int) and limit > 0))
    ):
        raise wrong(name, f"argument 3 must be {'a number' if is_radius else 'a whole number from 1'}")
    return Near(column.name, vector, str(distance), None if is_radius else int(limit), float(limit) if is_radius else None)


def nearest_first(expression: Expression, count: int, *, descending: bool) -> Near | None:
    """Return the search for the first rows of an order; None unless it is by distance to a constant vector."""
    if not isinstance(expression, Call) or expression.name not in _ORDERS or len(expression.args) != 2 or count < 1:
        return None
    distance, is_descending = _ORDERS[expression.name]
    column, vector = sorted(expression.args, key=lambda arg: not isinstance(arg, Column))
    if descending != is_descending or not isinstance(column, Column):
        return None
    try:
        return Near(column.name, _vector(expression.name, vector), distance, count, None)
    except QueryError:
        return None  # a vector computed per row


def _vector(name: str, argument: Expression) -> tuple[float, ...]:
    elements = argument.args if isinstance(argument, Call) and argument.name == "arrayvalueconstructor" else ()
    numbers = [float(_number(name, element)) for element in elements]
    if not numbers:
        raise wrong(name, "argument 2 must be an array of numbers: ARRAY[0.1, 0.2]")
    return tuple(numbers)


def _number(name: str, element: Expression) -> float:
    value = element.value if isinstance(element, Literal) else None
    if isinstance(value, str | bytes | bool) or value is None or not isfinite(value):
        raise wrong(name, "argument 2 must be an array of numbers: ARRAY[0.1, 0.2]")
    return float(value)


def _constant(name: str, argument: Expression, position: int) -> object:
    if not isinstance(argument, Literal):
        raise wrong(name, f"argument {position} must be a constant")
    return argument.value

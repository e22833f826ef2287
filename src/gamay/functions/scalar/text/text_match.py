"""TEXT_MATCH: whether a text matches a query in Lucene's syntax."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gamay.base.arrays import Mask
from gamay.functions.arguments import check_count, wrong
from gamay.functions.convert import convert, to_vector
from gamay.functions.expression import TEXT_MATCH, TEXT_PART, Call, Column, Expression, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.search.match import matching
from gamay.functions.search.options import NAME, SearchOptions, search_options
from gamay.functions.search.query import Clauses, SearchQuery
from gamay.functions.search.syntax import search_query
from gamay.functions.vector import Operand, Scalar, Values, Vector
from gamay.model.types import DataType

STRING, BOOLEAN = DataType.STRING, DataType.BOOLEAN


def search_of(call: Call) -> tuple[SearchQuery, SearchOptions]:
    """Return the query and options of a call of TEXT_MATCH. Raises QueryError if they are invalid."""
    check_count(NAME, len(call.args), 2, 4 if call.name == TEXT_MATCH else 3)
    for position, argument in enumerate(call.args[1:], 2):
        if not isinstance(argument, Literal) or not isinstance(argument.value, str):
            raise wrong(NAME, f"argument {position} must be a constant text")
    text, options, settings = (*(str(arg.value) for arg in call.args[1:] if isinstance(arg, Literal)), "", "")[:3]
    found = search_options(options, settings)
    return search_query(text, found, _column(call)), found


@dataclass(frozen=True, slots=True)
class Searched:
    """The query and options of a text search. text: the searched expression."""

    text: Expression
    query: SearchQuery
    options: SearchOptions


def searched(condition: Expression) -> Searched | None:
    """Return the search of a call of TEXT_MATCH, or of a word or phrase of it; None for other expressions."""
    if not isinstance(condition, Call) or condition.name not in (NAME.lower(), TEXT_MATCH, TEXT_PART):
        return None
    query, options = _part_of(condition) if condition.name == TEXT_PART else search_of(condition)
    return Searched(condition.args[0], query, options)


def _column(call: Call) -> str:
    column = call.args[0]
    return column.name if isinstance(column, Column) else ""


def check_text(data_type: DataType) -> None:
    """Raise QueryError for a type that is not text."""
    if not data_type.is_text and data_type is not DataType.UNKNOWN:
        raise wrong(NAME, f"argument 1 must be text, not {data_type.value}; write CAST(x AS VARCHAR)")


def _match_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    search_of(call)
    data_type, multi_value = types[0]
    if multi_value:
        raise wrong(
            NAME,
            "a multi-value column can only be searched by a condition in WHERE or FILTER, alone or joined by AND, OR, NOT",
        )
    check_text(data_type)
    return BOOLEAN, False


def text_match(text: Values, query: str, options: str = "", *, settings: str = "", column: str = "") -> Mask:
    """Whether a text matches a Lucene query such as `'error AND (disk* OR "out of memory"~2) -test'`."""
    found = search_options(options, settings)
    return matching(search_query(query, found, column), text, found.analysis)


def _register_match(body: Callable[..., Mask]) -> None:
    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        operand = args[0]
        if isinstance(operand, Scalar) and operand.value is None:
            return Scalar(None, BOOLEAN)
        constants = [str(arg.value) for arg in call.args[1:] if isinstance(arg, Literal)]
        settings = constants[2] if len(constants) > 2 else ""
        constant = isinstance(operand, Scalar)
        texts = to_vector(convert(operand, STRING), 1 if constant else num_rows)
        flags = body(texts.values, *constants[:2], settings=settings, column=_column(call))
        return Scalar(bool(flags[0]), BOOLEAN) if constant else Vector(BOOLEAN, flags, None, texts.nulls)

    register_scalar([NAME], ScalarFunction(NAME, 2, 3, _match_type, compute))
    # brokers append the settings of the column to the arguments
    register_scalar([TEXT_MATCH], ScalarFunction(NAME, 4, 4, _match_type, compute))


_register_match(text_match)


def _part_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    return BOOLEAN, False


def _part_of(call: Call) -> tuple[SearchQuery, SearchOptions]:
    place = call.args[1]
    assert isinstance(place, Literal)
    query, options = search_of(Call(TEXT_MATCH, (call.args[0], *call.args[2:])))
    for number, of_which in zip(*[iter(map(int, filter(None, str(place.value).split("."))))] * 2, strict=True):
        assert isinstance(query, Clauses)
        query = (query.must, query.should, query.must_not)[number][of_which]
    return query, options


def _part(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    query, options = _part_of(call)
    texts = to_vector(args[0], num_rows)
    return Vector(BOOLEAN, matching(query, texts.values, options.analysis), None, texts.nulls)


register_scalar([TEXT_PART], ScalarFunction(NAME, 3, 5, _part_type, _part, can_fold=False))

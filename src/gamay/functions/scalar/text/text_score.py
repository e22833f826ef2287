"""textScore: the relevance of a text for a query in Lucene's syntax, as a number to sort rows by.

It depends on all texts of the segment, so that queries read it as a column of the segment (`gamay.query.view.scores`);
elsewhere it cannot be computed.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn

from gamay.base.errors import QueryError
from gamay.functions.arguments import check_count, wrong
from gamay.functions.expression import TEXT_MATCH, TEXT_SCORE, Call, Column
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.text.text_match import Searched, search_of
from gamay.functions.search.options import NAME as MATCH_NAME
from gamay.functions.vector import Operand
from gamay.model.types import DataType

NAME = "textScore"
_ELSEWHERE = "it depends on all texts of a segment, so only queries of a table have it"


def score_of(call: Call, text_type: ValueType) -> Searched:
    """Return the search of a call of textScore. text_type: of its first argument. Raises QueryError for an invalid call."""
    check_count(NAME, len(call.args), 2, 4 if call.name == TEXT_SCORE else 3)
    data_type, multi_value = text_type
    if not isinstance(call.args[0], Column):
        raise wrong(NAME, "argument 1 must be a column, because scores depend on all its texts")
    if not data_type.is_text and data_type is not DataType.UNKNOWN:
        raise wrong(NAME, f"argument 1 must be a column of texts, not of {data_type.value}")
    if multi_value:
        raise wrong(NAME, "a multi-value column has no scores; TEXT_MATCH searches it")
    try:
        query, options = search_of(Call(TEXT_MATCH if call.name == TEXT_SCORE else MATCH_NAME.lower(), call.args))
    except QueryError as error:  # both functions report the same errors, except for the name
        raise QueryError(error.code, str(error).replace(MATCH_NAME, NAME, 1)) from None
    return Searched(call.args[0], query, options)


def _result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    score_of(call, types[0])
    return DataType.DOUBLE, False


def text_score(text: str, query: str, options: str = "") -> NoReturn:
    """The relevance of a row's text for a query of textMatch, by BM25 as in Lucene: 0 if it does not match."""
    raise wrong(NAME, _ELSEWHERE)


def _register_score(body: Callable[..., NoReturn]) -> None:
    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        body(*args[:3])

    register_scalar(
        [NAME], ScalarFunction(NAME, 2, 3, _result_type, compute, is_deterministic=False, not_of_rows=_ELSEWHERE)
    )
    # brokers append the settings of the column to the arguments
    register_scalar([TEXT_SCORE], ScalarFunction(NAME, 4, 4, _result_type, compute, is_deterministic=False))


_register_score(text_score)

"""Conditions on the vectors of a segment, in WHERE and FILTER only: the nearest ones, and those within a distance."""

from collections.abc import Callable, Sequence
from typing import Any

from gamay.base.errors import QueryError
from gamay.functions.arguments import check_count, wrong
from gamay.functions.expression import Call
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.vector import Operand

_PLACE = "it is allowed as a condition on a column in WHERE or FILTER, alone or joined by AND, OR and NOT; elsewhere write"
_NEAREST = f"{_PLACE} ORDER BY cosineDistance(x, ARRAY[...]) LIMIT k"
_WITHIN = f"{_PLACE} cosineDistance(x, ARRAY[...]) <= r"


def nearest(column: Any, vector: Any, count: Any = 10) -> QueryError:
    """Whether a vector is one of the nearest of its segment; in WHERE and FILTER."""
    return wrong("vectorSimilarity", _NEAREST)


def within(column: Any, vector: Any, radius: Any = 0.5) -> QueryError:
    """Whether a vector is within a distance; in WHERE and FILTER."""
    return wrong("vectorSimilarityRadius", _WITHIN)


def _register(name: str, body: Callable[..., QueryError], not_of_rows: str) -> None:
    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        check_count(name, len(types), 2, 3)
        raise body(*call.args)

    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        raise body(*args)

    register_scalar([name], ScalarFunction(name, 2, 3, result_type, compute, can_fold=False, not_of_rows=not_of_rows))


_register("vectorSimilarity", nearest, _NEAREST)
_register("vectorSimilarityRadius", within, _WITHIN)

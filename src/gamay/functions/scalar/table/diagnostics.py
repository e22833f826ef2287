"""Functions about the query itself, reqId('') and similar ones, and sleep(ms): the broker replaces them by their results.

That happens before the query is bound (`gamay.sql.answers`), so these functions are never computed. The argument of all
but sleep is ignored and optional.
"""

from collections.abc import Sequence

from gamay.functions.arguments import check_count, wrong
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.vector import Operand
from gamay.model.types import DataType

_ANSWERS = {
    "reqId": DataType.STRING,
    "cid": DataType.STRING,
    "brokerId": DataType.STRING,
    "queryEngine": DataType.STRING,
    "startTime": DataType.LONG,
    "endTime": DataType.LONG,
    "stageId": DataType.INT,
    "workerId": DataType.INT,
    "sleep": DataType.LONG,
}
_ELSEWHERE = "it is computed by the broker of a query and is not allowed elsewhere"
_NAMES = {name.lower(): name for name in _ANSWERS}


def answer_type(call: Call) -> DataType:
    """Return the result type of a call of one of these functions; raises QueryError for wrong arguments."""
    name = _NAMES[call.name]
    check_count(name, len(call.args), 1 if name == "sleep" else 0, 1)
    if call.args and not isinstance(call.args[0], Literal):
        raise wrong(name, "argument 1 must be a constant")
    return _ANSWERS[name]


def _register(name: str, least: int) -> None:
    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        raise wrong(name, _ELSEWHERE)

    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        """Computed by the broker only."""
        raise wrong(name, _ELSEWHERE)

    function = ScalarFunction(
        name, least, 1, result_type, compute, is_deterministic=False, can_fold=False, not_of_rows=_ELSEWHERE
    )
    register_scalar([name], function)


for _name in _ANSWERS:
    _register(_name, 1 if _name == "sleep" else 0)

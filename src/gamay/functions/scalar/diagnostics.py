"""What a query can ask about itself, reqId('') and its kin, and sleep(ms): the broker puts the answers in.

That happens before the query is bound (`gamay.sql.answers`), so these functions are never computed. The argument of the
first ones means nothing and may be left out.
"""

from collections.abc import Sequence

from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.define import check_count, wrong
from gamay.functions.vector import Operand
from gamay.model.types import DataType

_FACTS = {
    "reqId": DataType.STRING,
    "cid": DataType.STRING,
    "brokerId": DataType.STRING,
    "queryEngine": DataType.STRING,
    "startTime": DataType.LONG,
    "endTime": DataType.LONG,
    "stageId": DataType.INT,
    "workerId": DataType.INT,
}


def _register(name: str, returns: DataType, least: int) -> None:
    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        check_count(name, len(types), least, 1)
        if call.args and not isinstance(call.args[0], Literal):
            raise wrong(name, "argument 1 must be a constant")
        return returns, False

    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        """Known to the broker of a query only."""
        raise wrong(name, "it is answered by the broker of a query; it has no meaning elsewhere")

    register_scalar([name], ScalarFunction(name, least, 1, result_type, compute, is_deterministic=False, can_fold=False))


for _name, _type in _FACTS.items():
    _register(_name, _type, 0)
_register("sleep", DataType.LONG, 1)

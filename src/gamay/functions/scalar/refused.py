"""Functions of Pinot that Gamay does not support: a call is refused with a hint what to write instead."""

from collections.abc import Sequence

from gamay.functions.arguments import wrong
from gamay.functions.expression import Call
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.vector import Operand

_ADVICE = {
    "groovy": "scripts are not supported; write the expression in SQL, or in Python as a function of your own "
    "(entry-point group gamay.functions)",
    "inSubquery": "it is evaluated by the broker of a query and is not allowed elsewhere",
    "inPartitionedSubquery": "it is evaluated by the broker of a query and is not allowed elsewhere",
    "clpEncodedVarsMatch": "it is a part of clpMatch; write clpMatch(x, 'wildcard')",
    "avgReduce": "it is a part of AVG; write AVG(x)",
}


def _refuse(name: str, advice: str) -> None:
    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        raise wrong(name, advice)

    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        """Refused; the error says what to write instead."""
        raise wrong(name, advice)

    register_scalar([name], ScalarFunction(name, 0, None, result_type, compute, can_fold=False, not_of_rows=advice))


for _name, _advice in _ADVICE.items():
    _refuse(_name, _advice)

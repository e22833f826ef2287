"""Functions of the reference that nothing here can compute: their names are known, and calls say what to do instead."""

from collections.abc import Sequence

from gamay.functions.arguments import wrong
from gamay.functions.expression import Call
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.vector import Operand

_ADVICE = {
    "groovy": "scripts are not run; write the expression in SQL, or in Python as a function of your own "
    "(entry-point group gamay.functions)",
    "inSubquery": "a query inside a query is answered by the broker of that query; it has no meaning elsewhere",
    "inPartitionedSubquery": "a query inside a query is answered by the broker of that query; it has no meaning elsewhere",
    "clpEncodedVarsMatch": "it is a part of clpMatch; write clpMatch(x, 'wildcard')",
    "avgReduce": "it is a part of AVG; write AVG(x)",
}


def _refuse(name: str, advice: str) -> None:
    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        raise wrong(name, advice)

    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        """Refused: says what to do instead."""
        raise wrong(name, advice)

    register_scalar([name], ScalarFunction(name, 0, None, result_type, compute, can_fold=False, not_of_rows=advice))


for _name, _advice in _ADVICE.items():
    _refuse(_name, _advice)

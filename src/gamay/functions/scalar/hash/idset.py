"""inIdSet(x, 'text'): whether a value is in a set that IDSET returned. As a condition bare or `= 1`."""

from collections.abc import Sequence

from gamay.functions.arguments import check_count, wrong
from gamay.functions.convert import to_vector
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.define import type_of
from gamay.functions.sketch.idset import check_type, contains, parse
from gamay.functions.vector import Operand, Scalar, Vector, union_nulls
from gamay.model.types import DataType


def _result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("inIdSet", len(types), 2, 2)
    if types[0][0] is not DataType.UNKNOWN:
        check_type(parse(_text(call)), types[0][0])
    if types[0][1]:
        raise wrong("inIdSet", "argument 1 must be single-value")
    return DataType.BOOLEAN, False


def _text(call: Call) -> str:
    argument = call.args[1]
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise wrong("inIdSet", "argument 2 must be the text of an id set, as IDSET returns it")
    return argument.value


def _compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    _result_type(call, [type_of(arg) for arg in args])
    id_set = parse(_text(call))
    if isinstance(args[0], Scalar):
        if args[0].value is None:
            return Scalar(None, DataType.BOOLEAN)
        return Scalar(bool(contains(id_set, to_vector(args[0], 1))[0]), DataType.BOOLEAN)
    return Vector(DataType.BOOLEAN, contains(id_set, to_vector(args[0], num_rows)), None, union_nulls(args))


register_scalar(["inIdSet"], ScalarFunction("inIdSet", 2, 2, _result_type, _compute))

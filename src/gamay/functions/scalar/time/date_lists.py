"""The time functions for lists of times: `yearMV(x)` is the list of the years of the times in the list x.

Exactly one argument, at any position, is a list; the others are those of the function without `MV`, for all its values.
"""

from collections.abc import Sequence

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arguments import wrong
from gamay.functions.convert import to_vector
from gamay.functions.expression import Call
from gamay.functions.registry import ScalarFunction, ValueType, must_get_scalar, register_scalar
from gamay.functions.scalar.define import null_result, type_of
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, take, take_rows, union_nulls

_UNITS = ("Seconds", "Minutes", "Hours", "Days")
_NAMES = (
    *(f"toEpoch{unit}{form}" for form in ("", "Rounded", "Bucket") for unit in _UNITS),
    *(f"fromEpoch{unit}{form}" for form in ("", "Bucket") for unit in _UNITS),
    *("toTimestamp", "fromTimestamp", "toIso8601", "fromIso8601", "toDateTime", "fromDateTime"),
    *("dateTrunc", "dateBin", "timestampAdd", "dateAdd", "timestampDiff", "dateDiff", "round", "ago"),
    *("timezoneHour", "timezoneMinute"),
    *("year", "quarter", "month", "monthOfYear", "week", "weekOfYear", "yearOfWeek", "yow", "dayOfYear", "doy"),
    *("dayOfMonth", "day", "dayOfWeek", "dow", "hour", "minute", "second", "millisecond"),
)
_DIFFERENCES = ("timestampDiff", "dateDiff")  # in Pinot, …MVReverse has the list as its third argument


def _flat(operand: Operand) -> Operand:
    """Return all values of all lists as single values."""
    if isinstance(operand, EncodedVector):
        return EncodedVector(operand.ids, operand.dictionary)
    assert isinstance(operand, Vector)
    return Vector(operand.type, operand.values)


def _by_entry(function: ScalarFunction, call: Call, args: Sequence[Operand], position: int) -> Vector | None:
    """Compute for each dictionary entry of a list if the other arguments are constants; None if that is not possible."""
    listed = args[position]
    if not isinstance(listed, EncodedVector) or len(listed.dictionary) > len(listed.ids):
        return None
    if not all(isinstance(arg, Scalar) for i, arg in enumerate(args) if i != position):
        return None
    entries: list[Operand] = [listed.dictionary if i == position else arg for i, arg in enumerate(args)]
    try:
        result = to_vector(function.compute(call, entries, len(listed.dictionary)), len(listed.dictionary))
    except QueryError as error:
        if error.code is ErrorCode.QUERY_EXECUTION:
            return None  # perhaps for an entry that none of these rows has
        raise
    return Vector(result.type, take(result.values, listed.ids))


def _register(name: str) -> None:
    function = must_get_scalar(name)
    twin, *others = [f"{name}MV", *([f"{name}MVReverse"] if name in _DIFFERENCES else [])]

    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        if sum(multi_value for _, multi_value in types) != 1:
            raise wrong(twin, "one argument must be multi-value, and only one")
        return function.result_type(call, [(data_type, False) for data_type, _ in types])[0], True

    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        types = [type_of(arg) for arg in args]
        result, _ = result_type(call, types)
        if any(isinstance(arg, Scalar) and arg.value is None for arg in args):
            return null_result(result, True, num_rows)
        position = [multi_value for _, multi_value in types].index(True)
        listed = args[position]
        assert not isinstance(listed, Scalar)
        assert listed.offsets is not None
        nulls = union_nulls(args)
        flat = _by_entry(function, call, args, position)
        if flat is None:
            row_of = np.repeat(np.arange(num_rows), np.diff(listed.offsets))
            single = [_flat(arg) if i == position else take_rows(arg, row_of) for i, arg in enumerate(args)]
            flat = to_vector(function.compute(call, single, len(row_of)), len(row_of))
        return Vector(result, flat.values, listed.offsets, nulls)

    of_lists = ScalarFunction(twin, function.min_args, function.max_args, result_type, compute, can_fold=False)
    register_scalar([twin, *others], of_lists)


for _name in _NAMES:
    _register(_name)

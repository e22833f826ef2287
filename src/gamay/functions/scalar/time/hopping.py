"""dateTimeConvertWindowHop: the windows that contain a time, where windows overlap."""

from collections.abc import Sequence

import numpy as np

from gamay.functions.arguments import check_count, wrong
from gamay.functions.expression import Call
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.define import null_result
from gamay.functions.scalar.time.dates import rescale
from gamay.functions.scalar.time.epochs import constant_text, parse_format, parse_granularity, printed, to_millis
from gamay.functions.vector import Operand, Scalar, Vector, union_nulls
from gamay.model.schema.datetime_format import DateTimeKind
from gamay.model.types import DataType

_NAME = "dateTimeConvertWindowHop"
_MOST_WINDOWS = 10_000


def _sizes(call: Call) -> tuple[int, int]:
    """Return the milliseconds between the starts of windows, and the length of a window."""
    hop, width = (parse_granularity(constant_text(call, position)).millis for position in (3, 4))
    if hop < 1 or width < 1:
        raise wrong(_NAME, "windows must be whole milliseconds")
    if width // hop > _MOST_WINDOWS:
        raise wrong(_NAME, f"each time would be in more than {_MOST_WINDOWS} windows; choose a larger hop")
    return hop, width


def _result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count(_NAME, len(types), 5, 5)
    if types[0][1] or types[0][0].is_binary:
        raise wrong(_NAME, "argument 1 must be a single time")
    parse_format(constant_text(call, 1))
    _sizes(call)
    text = parse_format(constant_text(call, 2)).kind is DateTimeKind.SIMPLE_DATE_FORMAT
    return (DataType.STRING if text else DataType.LONG), True


def _compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    """Return the starts of all windows that contain a time, the latest first; none between windows shorter than the hop."""
    result, _ = _result_type(call, [(arg.type, False) for arg in args])
    if isinstance(args[0], Scalar) and args[0].value is None:
        return null_result(result, True, num_rows)
    target = parse_format(constant_text(call, 2))
    hop, width = _sizes(call)
    times = np.broadcast_to(to_millis(args[0], parse_format(constant_text(call, 1)), num_rows), num_rows)
    into = np.mod(times, hop)
    counts = np.maximum(-((into - width) // hop), 0)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    starts = np.repeat(times - into, counts) - place * hop
    if target.kind is DateTimeKind.SIMPLE_DATE_FORMAT:
        values = printed(starts, target)
    elif target.kind is DateTimeKind.EPOCH:
        values = rescale(starts, 1_000_000, target.unit.value * target.size)
    else:
        values = starts
    return Vector(result, values, offsets.astype(np.int32), union_nulls(args[:1]))


register_scalar([_NAME], ScalarFunction(_NAME, 5, 5, _result_type, _compute, can_fold=False))

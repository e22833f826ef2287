"""Predicates on decoded values: for columns without a dictionary, and for unsorted dictionaries.

Numbers are ordered with NaN above all others; text and bytes by their (UTF-8) bytes.
"""

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.arrays import Mask
from gamay.functions.expression import LiteralValue
from gamay.functions.frame import Frame
from gamay.functions.scalar.comparison import among
from gamay.functions.vector import Vector, numpy_dtype
from gamay.kernels.rows.filter import mark_between
from gamay.model.types import DataType
from gamay.query.bind.predicate import In, Range
from gamay.query.columns.constants import values_of

Test: TypeAlias = Callable[[Vector], Mask]

_COMPARED_AT_ONCE = frozenset({DataType.INT, DataType.LONG, DataType.TIMESTAMP, DataType.FLOAT, DataType.DOUBLE})


def in_test(predicate: In, data_type: DataType) -> Test:
    """Return the test of values for `=` and IN."""
    if isinstance(predicate.values[0], str | bytes):
        wanted = values_of(data_type, list(predicate.values))
        if len(wanted) == 1:
            return lambda vector: _flags(pc.equal(vector.values, wanted[0]))
        return lambda vector: _flags(pc.is_in(vector.values, value_set=wanted))
    return _in_numbers(predicate.values, data_type)


def range_test(predicate: Range, data_type: DataType) -> Test:
    """Return the test of values for comparisons and BETWEEN."""
    text = isinstance(predicate.lower if predicate.lower is not None else predicate.upper, str | bytes)
    if (closed := _closed(predicate, data_type)) is not None:
        return _between(*closed)
    tests: list[Test] = []
    if predicate.lower is not None:
        tests.append(
            _text_bound(predicate.lower, predicate.lower_inclusive, data_type, lower=True)
            if text
            else _lower_bound(predicate.lower, predicate.lower_inclusive, data_type)
        )
    if predicate.upper is not None:
        tests.append(
            _text_bound(predicate.upper, predicate.upper_inclusive, data_type, lower=False)
            if text
            else _upper_bound(predicate.upper, predicate.upper_inclusive, data_type)
        )
    if len(tests) == 1:
        return tests[0]
    return lambda vector: tests[0](vector) & tests[1](vector)


def code_range(predicate: In | Range, frame: Frame) -> tuple[int, int] | None:
    """Return the frame codes [first, last) whose values match a comparison; None if they are not a range."""
    if isinstance(predicate, In):
        if len(predicate.values) > 1:
            return None
        (value,) = predicate.values
        predicate = Range(predicate.column, value, value, True, True)
    lower: Any = predicate.lower
    upper: Any = predicate.upper
    first, last = 0, 1 << frame.bits
    if lower != lower or upper != upper:
        return None  # NaN is greater than all codes, and less than none
    if lower is not None:
        first = frame.first_code(partial(operator.le if predicate.lower_inclusive else operator.lt, lower))
    if upper is not None:
        last = frame.first_code(partial(operator.lt if predicate.upper_inclusive else operator.le, upper))
    return first, max(first, last)


def _closed(predicate: Range, data_type: DataType) -> tuple[Any, Any] | None:
    """Return the least and the greatest number of a range with two bounds; None for other ranges, and if a bound is an
    extreme value."""
    if data_type not in _COMPARED_AT_ONCE or predicate.lower is None or predicate.upper is None:
        return None
    dtype = numpy_dtype(data_type)
    if dtype.kind != "f" and (isinstance(predicate.lower, float) or isinstance(predicate.upper, float)):
        return None
    low, high = dtype.type(predicate.lower), dtype.type(predicate.upper)
    if dtype.kind == "f":
        if not (np.isfinite(low) and np.isfinite(high)):
            return None
        ends = dtype.type(np.inf)
        low = low if predicate.lower_inclusive else np.nextafter(low, ends)
        return low, high if predicate.upper_inclusive else np.nextafter(high, -ends)
    if low == np.iinfo(dtype).max or high == np.iinfo(dtype).min:
        return None
    one = dtype.type(1)
    return low if predicate.lower_inclusive else low + one, high if predicate.upper_inclusive else high - one


def _between(low: Any, high: Any) -> Test:
    def test(vector: Vector) -> Mask:
        out = np.empty(len(vector.values), np.bool_)
        mark_between(vector.values, low, high, out)
        return out

    return test


def _flags(answer: pa.Array) -> Mask:
    flags: Mask = answer.to_numpy(zero_copy_only=False)
    return np.array(flags, np.bool_)


def _in_numbers(values: Sequence[LiteralValue], data_type: DataType) -> Test:
    has_nan = any(value != value for value in values)
    numbers = np.array([value for value in values if value == value], numpy_dtype(data_type))

    def test(vector: Vector) -> Mask:
        if data_type is DataType.BIG_DECIMAL:
            mask = np.zeros(len(vector.values), np.bool_)
            for number in numbers:
                mask |= _marks(vector.values == number)
        else:
            mask = among(vector.values, numbers)
        return mask | np.isnan(vector.values) if has_nan else mask

    return test


def _marks(compared: Any) -> Mask:
    """Return a comparison's flags as bool; those of decimals are objects."""
    marks: Mask = compared.astype(np.bool_, copy=False)
    return marks


def _constant(value: LiteralValue, data_type: DataType) -> Any:
    """Return a bound as a scalar of the column's dtype, to avoid widening the values."""
    return value if data_type is DataType.BIG_DECIMAL else numpy_dtype(data_type).type(value)


def _lower_bound(value: LiteralValue, inclusive: bool, data_type: DataType) -> Test:
    bound = _constant(value, data_type)
    if data_type in (DataType.FLOAT, DataType.DOUBLE):
        # as a negation, so that NaN counts as greater than the bound
        return (lambda vector: ~(vector.values < bound)) if inclusive else (lambda vector: ~(vector.values <= bound))
    return (
        (lambda v: (v.values >= bound).astype(bool, copy=False))
        if inclusive
        else (lambda v: (v.values > bound).astype(bool, copy=False))
    )


def _upper_bound(value: LiteralValue, inclusive: bool, data_type: DataType) -> Test:
    bound = _constant(value, data_type)
    return (
        (lambda v: (v.values <= bound).astype(bool, copy=False))
        if inclusive
        else (lambda v: (v.values < bound).astype(bool, copy=False))
    )


def _text_bound(value: LiteralValue, inclusive: bool, data_type: DataType, *, lower: bool) -> Test:
    bound = values_of(data_type, [value])[0]
    compare = {
        (True, True): pc.greater_equal,
        (True, False): pc.greater,
        (False, True): pc.less_equal,
        (False, False): pc.less,
    }[lower, inclusive]
    return lambda vector: _flags(compare(vector.values, bound))

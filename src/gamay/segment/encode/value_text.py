"""The text form of values that partition functions and bloom filters hash: Java's `toString`.

INT, LONG and TIMESTAMP decimal, BOOLEAN 0 or 1, FLOAT and DOUBLE as `Double.toString` (`1.0`, `1.0E10`), BIG_DECIMAL plain,
without trailing zeros, BYTES lower-case hex, UUID in groups, STRING and JSON unchanged.
"""

import math
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa

from gamay.functions.expression import LiteralValue
from gamay.functions.vector import Vector
from gamay.model.types import DataType

# Java writes magnitudes in [1e-3, 1e7) without an exponent.
_PLAIN_EXPONENTS = range(-3, 7)


def value_text(value: LiteralValue, data_type: DataType) -> str:
    """Return the text of one value of a column's type; raises ValueError for NULL.

    >>> value_text(1.0, DataType.DOUBLE), value_text(b"\\xff", DataType.BYTES), value_text(True, DataType.BOOLEAN)
    ('1.0', 'ff', '1')
    """
    if value is None:
        raise ValueError("NULL has no text form")
    if data_type in (DataType.FLOAT, DataType.DOUBLE):
        return _java_text(np.float32(value) if data_type is DataType.FLOAT else np.float64(value))
    if data_type is DataType.BIG_DECIMAL:
        return plain_form(value.decode() if isinstance(value, bytes) else value)
    if isinstance(value, bytes):
        return str(uuid.UUID(bytes=value)) if data_type is DataType.UUID else value.hex()
    return value if isinstance(value, str) else str(int(value))


def plain_form(number: Decimal | int | float | str) -> str:
    """Return the canonical plain form of a number, without trailing zeros in its fraction, and without negative zero.

    >>> plain_form("-1.50"), plain_form("1E+3"), plain_form("-0.0")
    ('-1.5', '1000', '0')
    """
    plain = format(Decimal(number), "f")
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return "0" if plain == "-0" else plain


def values_text(vector: Vector) -> pa.Array:
    """Return the text of each value as a StringArray."""
    data_type, values = vector.type, vector.values
    if data_type.is_text:
        return values
    if data_type in (DataType.INT, DataType.LONG, DataType.TIMESTAMP, DataType.BOOLEAN):
        return pa.array(values.view(np.uint8) if data_type is DataType.BOOLEAN else values).cast(pa.string())
    if data_type in (DataType.FLOAT, DataType.DOUBLE):
        return pa.array([_java_text(value) for value in values], pa.string())
    plain = values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()
    return pa.array([value_text(value, data_type) for value in plain], pa.string())


def _java_text(value: "np.float32 | np.float64") -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    # The fewest digits that parse to the same number, as in Java 19 and later.
    mantissa, _, exponent = np.format_float_scientific(value, unique=True, trim="0").partition("e")
    power = int(exponent)
    if power not in _PLAIN_EXPONENTS:
        return f"{mantissa}E{power}"
    return np.format_float_positional(value, unique=True, trim="0")

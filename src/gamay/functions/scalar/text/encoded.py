"""Values in the form of bytes or text that CAST and the codecs both read."""

import base64
import binascii
from decimal import Decimal


def base64_bytes(value: str | bytes) -> bytes:
    """Return what a base64 text stands for; padding may be left out, as in Java. Raises ValueError."""
    encoded = value.encode() if isinstance(value, str) else value
    try:
        return base64.b64decode(encoded + b"=" * (-len(encoded) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is not base64: {error}") from None


def bytes_of_decimal(number: Decimal) -> bytes:
    """Return two bytes of scale, then the unscaled value, both big-endian two's complement; raises ValueError."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or not -(2**15) < exponent <= 2**15:
        raise ValueError("only a number with a scale of 16 bits has bytes")
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    width = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return (-exponent).to_bytes(2, "big", signed=True) + unscaled.to_bytes(width, "big", signed=True)


def decimal_of_bytes(value: bytes) -> Decimal:
    """Return the number of two bytes of scale and an unscaled value; raises ValueError when bytes are missing."""
    if len(value) < 3:
        raise ValueError("a BIG_DECIMAL has two bytes of scale and at least one of digits")
    scale = int.from_bytes(value[:2], "big", signed=True)
    unscaled = int.from_bytes(value[2:], "big", signed=True)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))

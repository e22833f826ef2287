"""Encodings of values as bytes or text that CAST and the codecs share."""

import base64
import binascii
from decimal import Decimal


def base64_bytes(value: str | bytes) -> bytes:
    """Decode base64 text; padding is optional, as in Java. Raises ValueError."""
    encoded = value.encode() if isinstance(value, str) else value
    try:
        return base64.b64decode(encoded + b"=" * (-len(encoded) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is not base64: {error}") from None


def bytes_of_decimal(number: Decimal) -> bytes:
    """Return two bytes of scale, then the unscaled value, both big-endian two's complement; raises ValueError."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or not -(2**15) < exponent <= 2**15:
        raise ValueError("the scale does not fit 16 bits")
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    width = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return (-exponent).to_bytes(2, "big", signed=True) + unscaled.to_bytes(width, "big", signed=True)


def decimal_of_bytes(value: bytes) -> Decimal:
    """Return the number encoded as two bytes of scale and an unscaled value; raises ValueError if bytes are missing."""
    if len(value) < 3:
        raise ValueError("a BIG_DECIMAL has two bytes of scale and at least one of digits")
    scale = int.from_bytes(value[:2], "big", signed=True)
    unscaled = int.from_bytes(value[2:], "big", signed=True)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))

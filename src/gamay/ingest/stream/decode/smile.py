"""Smile, the binary JSON encoding of Jackson: one value after a header.

    message  = 3A 29 0A flags value [FF]
    flags    : 1 names may be references, 2 short texts may be, 4 raw binary; the version is in the upper four bits, 0
    value    = one of the tokens of `_Reader.value`
    number   = bytes of 7 bits, the last one of 6 bits with its highest bit set; signed numbers in zigzag encoding

A reference is an index into the preceding names, or texts, of up to 64 bytes; after the 1024th the table is cleared.
"""

import struct
from decimal import Decimal
from typing import Any

HEADER = b":)\n"
_SHARED_MAX = 1024
_SHARED_BYTES_MAX = 64
_END_OF_TEXT = 0xFC
_END_OF_CONTENT = b"\xff"
_LITERALS = {0x20: "", 0x21: None, 0x22: False, 0x23: True}


def read_smile(data: bytes) -> Any:
    """Return the value of a message; raises ValueError unless it is exactly one value."""
    if not data.startswith(HEADER):
        raise ValueError("it does not begin with the header :)")
    if len(data) < 5:
        raise ValueError("it ends too early")
    if data[3] >> 4:
        raise ValueError(f"its version is {data[3] >> 4}, not 0")
    reader = _Reader(data, 4, shares_names=bool(data[3] & 1), shares_texts=bool(data[3] & 2))
    try:
        value = reader.value()
    except IndexError:
        raise ValueError("it ends too early") from None
    if data[reader.at :] not in (b"", _END_OF_CONTENT):
        raise ValueError("there are bytes behind the value")
    return value


class _Shared:
    """The texts that later references may refer to."""

    def __init__(self, is_on: bool) -> None:
        self._is_on = is_on
        self._texts: list[str] = []

    def add(self, text: str, size: int) -> str:
        if self._is_on and size <= _SHARED_BYTES_MAX:
            if len(self._texts) == _SHARED_MAX:
                self._texts.clear()
            self._texts.append(text)
        return text

    def get(self, number: int) -> str:
        if number >= len(self._texts):
            raise ValueError(f"it refers to text {number} of {len(self._texts)}")
        return self._texts[number]


class _Reader:
    """A reader of tokens from `at` on; raises IndexError at the end of the message."""

    def __init__(self, data: bytes, at: int, *, shares_names: bool, shares_texts: bool) -> None:
        self._data = data
        self.at = at
        self._names, self._texts = _Shared(shares_names), _Shared(shares_texts)

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _take(self, size: int) -> bytes:
        if self.at + size > len(self._data):
            raise IndexError
        self.at += size
        return self._data[self.at - size : self.at]

    def _until_end(self) -> str:
        end = self._data.find(_END_OF_TEXT, self.at)
        if end < 0:
            raise IndexError
        text = self._data[self.at : end].decode()
        self.at = end + 1
        return text

    def value(self) -> Any:
        """Return the next value."""
        token = self._byte()
        if 0x01 <= token <= 0x1F:
            return self._texts.get(token - 1)
        if token in _LITERALS:
            return _LITERALS[token]
        if 0x24 <= token <= 0x2A:
            return self._number(token)
        if 0x40 <= token <= 0xBF:  # the lengths of ASCII start at 1 and 33, those of other text at 2 and 34
            size = (token & 0x3F) + (1 if token < 0x80 else 2)
            return self._texts.add(self._take(size).decode(), size)
        if 0xC0 <= token <= 0xDF:
            return _zigzag(token & 0x1F)
        if token in (0xE0, 0xE4):
            return self._until_end()
        if token == 0xE8:
            return self._packed(self._unsigned())
        if 0xEC <= token <= 0xEF:
            return self._texts.get((token & 3) << 8 | self._byte())
        if token == 0xF8:
            return self._array()
        if token == 0xFA:
            return self._object()
        if token == 0xFD:
            return self._take(self._unsigned())
        raise ValueError(f"the byte {token:#04x} begins no value")

    def _array(self) -> list[Any]:
        values = []
        while self._data[self.at] != 0xF9:
            values.append(self.value())
        self.at += 1
        return values

    def _object(self) -> dict[str, Any]:
        found = {}
        while (token := self._byte()) != 0xFB:
            name = self._name(token)
            found[name] = self.value()
        return found

    def _name(self, token: int) -> str:
        if token == 0x20:
            return ""
        if 0x30 <= token <= 0x33:
            return self._names.get((token & 3) << 8 | self._byte())
        if token == 0x34:
            start = self.at
            text = self._until_end()
            return self._names.add(text, self.at - 1 - start)
        if 0x40 <= token <= 0x7F:
            return self._names.get(token & 0x3F)
        if 0x80 <= token <= 0xF7:
            size = (token & 0x3F) + (1 if token < 0xC0 else 2)
            return self._names.add(self._take(size).decode(), size)
        raise ValueError(f"the byte {token:#04x} begins no name")

    def _number(self, token: int) -> Any:
        match token:
            case 0x24 | 0x25:
                return _zigzag(self._unsigned())
            case 0x26:
                return int.from_bytes(self._packed(self._unsigned()), "big", signed=True)
            case 0x28:
                return struct.unpack(">f", self._bits(5).to_bytes(4, "big"))[0]
            case 0x29:
                return struct.unpack(">d", self._bits(10).to_bytes(8, "big"))[0]
            case 0x2A:
                scale = _zigzag(self._unsigned())
                unscaled = int.from_bytes(self._packed(self._unsigned()), "big", signed=True)
                return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
        raise ValueError(f"the byte {token:#04x} begins no value")

    def _unsigned(self) -> int:
        number = 0
        while True:
            byte = self._byte()
            if byte & 0x80:
                return number << 6 | byte & 0x3F
            number = number << 7 | byte

    def _bits(self, size: int) -> int:
        """Return a right-aligned number of `size` bytes of 7 bits."""
        number = 0
        for byte in self._take(size):
            number = number << 7 | byte & 0x7F
        return number & ((1 << (size * 7 // 8 * 8)) - 1)

    def _packed(self, size: int) -> bytes:
        """Return `size` bytes encoded in bytes of 7 bits; the last one's bits are its lowest."""
        whole, rest = divmod(size, 7)
        parts = [self._bits(8).to_bytes(7, "big") for _ in range(whole)]
        if rest:
            *first, last = self._take(rest + 1)
            number = 0
            for byte in first:
                number = number << 7 | byte & 0x7F
            parts.append((number << rest | last & ((1 << rest) - 1)).to_bytes(rest, "big"))
        return b"".join(parts)


def _zigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)

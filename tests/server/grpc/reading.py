"""A decoder of Pinot's DataTable, version 4, value by value, written from the description of the format alone."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pyroaring import BitMap

_STORED = {"BOOLEAN": "INT", "TIMESTAMP": "LONG", "JSON": "STRING"}
_WIDTHS = {"INT": 4, "FLOAT": 4, "STRING": 4}
_KEYS = {2: ("numDocsScanned", 8), 5: ("numSegmentsQueried", 4), 6: ("numSegmentsProcessed", 4)}
_KEYS |= {7: ("numSegmentsMatched", 4), 10: ("totalDocs", 8)}


class _Bytes:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def whole(self, width: int) -> int:
        self.at += width
        return int.from_bytes(self.data[self.at - width : self.at], "big", signed=True)

    def text(self) -> str:
        length = self.whole(4)
        self.at += length
        return self.data[self.at - length : self.at].decode()


@dataclass
class Table:
    names: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    exceptions: dict[int, str] = field(default_factory=dict)
    metadata: dict[str, int] = field(default_factory=dict)


def read(data: bytes) -> Table:
    header = _Bytes(data)
    version, num_rows, num_columns = (header.whole(4) for _ in range(3))
    assert version == 4
    (exceptions, texts, schema, fixed, values) = ((start := header.whole(4), start + header.whole(4)) for _ in range(5))
    table = Table()
    at = _Bytes(data, exceptions[0])
    for _ in range(at.whole(4)):
        code = at.whole(4)
        table.exceptions[code] = at.text()
    at = _Bytes(data, texts[0])
    dictionary = [at.text() for _ in range(at.whole(4))] if texts[1] > texts[0] else []
    if schema[1] > schema[0]:
        at = _Bytes(data, schema[0])
        assert at.whole(4) == num_columns
        table.names = [at.text() for _ in range(num_columns)]
        table.types = [at.text() for _ in range(num_columns)]
    rows = _Bytes(data, fixed[0])
    for _ in range(num_rows):
        table.rows.append(tuple(_value(kind, rows, data, values[0], dictionary) for kind in table.types))
    if rows.at < fixed[1]:
        nulls = []
        for _ in range(num_columns):
            start, length = values[0] + rows.whole(4), rows.whole(4)
            nulls.append(BitMap.deserialize(data[start : start + length]) if length else BitMap())
        table.rows = [
            tuple(None if i in flags else value for value, flags in zip(row, nulls, strict=True))
            for i, row in enumerate(table.rows)
        ]
    assert rows.at == fixed[1]
    at = _Bytes(data, values[1])
    assert len(data) == at.at + 4 + at.whole(4)
    at = _Bytes(data, values[1] + 4)
    for _ in range(at.whole(4)):
        name, width = _KEYS[at.whole(4)]
        table.metadata[name] = at.whole(width)
    assert at.at == len(data)
    return table


def _value(kind: str, row: _Bytes, data: bytes, values: int, dictionary: list[str]) -> Any:
    element = kind.removesuffix("_ARRAY")
    stored = _STORED.get(element, element)
    if kind != element:
        at, count = _Bytes(data, values + row.whole(4)), row.whole(4)
        return [_single(stored, at, dictionary) for _ in range(count)]
    if stored in ("BYTES", "BIG_DECIMAL"):
        start, length = values + row.whole(4), row.whole(4)
        found = data[start : start + length]
        if stored == "BYTES":
            return found
        scale, unscaled = (int.from_bytes(part, "big", signed=True) for part in (found[:2], found[2:]))
        return Decimal(unscaled).scaleb(-scale)
    return _single(stored, row, dictionary)


def _single(stored: str, at: _Bytes, dictionary: list[str]) -> Any:
    import struct

    if stored in ("FLOAT", "DOUBLE"):
        width = _WIDTHS.get(stored, 8)
        at.at += width
        return struct.unpack(">f" if width == 4 else ">d", at.data[at.at - width : at.at])[0]
    found = at.whole(_WIDTHS.get(stored, 8))
    return dictionary[found] if stored == "STRING" else found

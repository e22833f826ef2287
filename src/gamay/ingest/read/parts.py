"""Parts of files: byte ranges that are read independently, and together have the rows of the whole file.

A row belongs to the part in which its unit starts: a line, a block of Avro, a row group of Parquet.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np

from gamay.ingest.read.sources import GZIP_MAGIC, READ_BYTES, open_raw


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes from `start` up to, not including, `end`."""

    start: int
    end: int


class Window(io.RawIOBase):
    """A range of another stream, as a stream; the underlying stream must not be read concurrently."""

    def __init__(self, stream: BinaryIO, part: ByteRange, prefix: bytes = b"") -> None:
        """prefix: bytes inserted before the range."""
        self._stream = stream
        self._part = part
        self._prefix = prefix
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        ahead = len(self._prefix)
        if self._position < ahead:
            data = self._prefix[self._position : self._position + len(buffer)]
        else:
            at = self._part.start + self._position - ahead
            self._stream.seek(at)
            data = self._stream.read(max(min(len(buffer), self._part.end - at), 0))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset += len(self._prefix) + self._part.end - self._part.start
        self._position = offset + (self._position if whence == io.SEEK_CUR else 0)
        return self._position

    def tell(self) -> int:
        return self._position


def window(stream: BinaryIO, part: ByteRange, prefix: bytes = b"") -> BinaryIO:
    """Return a buffered stream of a prefix and a range of another stream."""
    return io.BufferedReader(Window(stream, part, prefix), READ_BYTES)


def whole_lines(stream: BinaryIO, part: ByteRange) -> ByteRange:
    """Return the range of the lines that start in a part."""
    return ByteRange(_line_start(stream, part.start), _line_start(stream, part.end))


def _line_start(stream: BinaryIO, offset: int) -> int:
    if offset == 0:
        return 0
    stream.seek(offset - 1)
    stream.readline()
    return stream.tell()


def even_parts(size: int, bytes_max: int) -> list[ByteRange]:
    """Return ranges of equal size, of at most `bytes_max`, that cover a file of `size` bytes.

    >>> even_parts(10, 4)
    [ByteRange(start=0, end=3), ByteRange(start=3, end=6), ByteRange(start=6, end=10)]
    """
    count = max(-(-size // bytes_max), 1)
    cuts = [size * number // count for number in range(count + 1)]
    return [ByteRange(*pair) for pair in pairwise(cuts)]


def row_group_parts(starts: Sequence[int], size: int, bytes_max: int) -> list[ByteRange]:
    """Return ranges of whole row groups, of at most `bytes_max` unless a single one is larger. starts: the offset of
    each."""
    cuts = [0]
    for start, end in zip(starts[1:], [*starts[2:], size], strict=True):
        if end - cuts[-1] > bytes_max:
            cuts.append(start)
    return [ByteRange(*pair) for pair in zip(cuts, [*cuts[1:], size], strict=True)]


def is_gzipped(uri: str) -> bool:
    """Whether a file is gzipped, so that it can only be read from its start. Raises NotFoundError."""
    with open_raw(uri) as stream:
        return stream.read(2) == GZIP_MAGIC


def lines_are_records(uri: str, part: ByteRange, delimiter: str, quote: str) -> bool:
    """Whether each line that starts in a part of a CSV file is a record, provided that a record starts there.

    It is True only if all quotes enclose whole values, or are doubled within these: if that holds for all parts of a file,
    no record contains a line end. The converse need not hold.
    """
    with open_raw(uri) as stream:
        lines = window(stream, whole_lines(stream, part))
        while block := lines.read(_BLOCK_BYTES):
            block += lines.readline()
            if quote.encode() in block and not _quotes_are_regular(block, ord(delimiter), ord(quote)):
                return False
    return True


_BLOCK_BYTES = 4 << 20


def _quotes_are_regular(block: bytes, delimiter: int, quote: int) -> bool:
    text = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(text == quote)
    lines = np.searchsorted(np.flatnonzero(text == ord("\n")), quotes)
    number = np.arange(len(quotes)) - np.searchsorted(lines, lines)  # number of each quote in its line
    is_last = np.append(lines[1:] != lines[:-1], True)
    if (number[is_last] % 2 == 0).any():
        return False
    opening, closing = quotes[number % 2 == 0], quotes[number % 2 == 1]
    before, behind = text[opening[opening > 0] - 1], text[closing[closing < len(text) - 1] + 1]
    return bool(np.isin(before, (delimiter, ord("\n"), quote)).all()) and bool(
        np.isin(behind, (delimiter, ord("\n"), ord("\r"), quote)).all()
    )

"""Record-by-record CSV parser: escapes, comments, spaces around quotes, and recovery after a malformed record.

Slower than the columnar parser of `gamay.ingest.read.csv` but exact; it is used for formats that the columnar one does not
support, and to find and skip the malformed record if that fails.
"""

import re
from collections.abc import Iterator
from typing import Protocol, TypeAlias

from gamay.ingest.read.csv_format import CsvFormat

RECORD_BYTES_MAX = 4 << 20
"""A record that is not complete after so many bytes has a quote that is never closed."""

Fields: TypeAlias = list[str | None]
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "\n": "\n", "\r": "\r"}


class ByteLines(Protocol):
    """The part of a binary stream that is used."""

    def __iter__(self) -> Iterator[bytes]: ...

    def __next__(self) -> bytes: ...

    def read(self, size: int, /) -> bytes: ...


class MalformedRecordError(Exception):
    """A malformed record; it is skipped, and reading continues with the next line."""


class IncompleteError(Exception):
    """The record continues in the next line."""


class FieldSplitter:
    """Splitter of the text of one record into its fields; empty fields and the format's null text are None."""

    def __init__(self, csv_format: CsvFormat) -> None:
        self._format = csv_format
        delimiter = re.escape(csv_format.delimiter)
        escape = re.escape(csv_format.escape) if csv_format.escape else None
        plain = f"[^{delimiter}]*+" if escape is None else f"(?:[^{delimiter}{escape}]|{escape}.)*+"
        self._plain = re.compile(plain, re.DOTALL)
        self._quoted: re.Pattern[str] | None = None
        if csv_format.quote is not None:
            quote = re.escape(csv_format.quote)
            space = (
                "[ \t]*+" if csv_format.trim and csv_format.delimiter not in " \t" else "[ ]*+" if csv_format.trim else ""
            )
            inner = f"[^{quote}]" if escape is None else f"[^{quote}{escape}]|{escape}."
            self._quoted = re.compile(f"{space}{quote}((?:{inner}|{quote}{quote})*+)({quote})?{space}", re.DOTALL)
        self._escapes = re.compile(f"{escape}(.)", re.DOTALL) if escape else None
        self._special = "".join(c for c in (csv_format.quote, csv_format.escape) if c)

    def split(self, text: str) -> Fields:
        """Return the fields; raises MalformedRecordError, or IncompleteError if the text ends within a quoted field."""
        if not any(c in text for c in self._special):
            return [self._value(field) for field in text.split(self._format.delimiter)]
        fields: Fields = []
        at = 0
        while True:
            value, at = self._field(text, at)
            fields.append(value)
            if at == len(text):
                return fields
            at += 1
            if at == len(text):
                fields.append(None)
                return fields

    def _field(self, text: str, at: int) -> tuple[str | None, int]:
        quoted = self._quoted.match(text, at) if self._quoted else None
        if quoted is not None:
            if quoted[2] is None:
                raise IncompleteError
            end = quoted.end()
            if end < len(text) and text[end] != self._format.delimiter:
                raise MalformedRecordError(f"text after a closing quote: {text[end : end + 20]!r}")
            quote = self._format.quote or ""
            value = self._unescape(quoted[1].replace(quote + quote, quote))
            return (None if value in ("", self._format.null_text) else value), end
        plain = self._plain.match(text, at)
        assert plain is not None
        end = plain.end()
        if end < len(text) and text[end] != self._format.delimiter:  # an escape character at the end of the text
            raise IncompleteError
        return self._value(plain[0]), end

    def _value(self, raw: str) -> str | None:
        if self._format.trim:
            raw = raw.strip(" \t")
        if raw == "" or raw == self._format.null_text:
            return None
        return self._unescape(raw)

    def _unescape(self, text: str) -> str:
        return self._escapes.sub(self._escaped, text) if self._escapes else text

    def _escaped(self, found: "re.Match[str]") -> str:
        char = found[1]
        meta = (self._format.delimiter, self._format.quote, self._format.escape, self._format.comment)
        return char if char in meta else _ESCAPED.get(char, found[0])


class ExactParser:
    """Iterator over the records of a stream as (line number from `first_line`, fields or MalformedRecordError).

    line: of the next record; bytes_taken: from the stream's initial position up to it.
    """

    def __init__(self, stream: ByteLines, csv_format: CsvFormat, first_line: int = 1) -> None:
        self._ends = (
            (b"\n", b"\r") if csv_format.record_separator in ("\n", "\r\n") else (csv_format.record_separator.encode(),)
        )
        self._lines: Iterator[bytes] = iter(stream) if len(self._ends) == 2 else _split_lines(stream, self._ends[0])
        self._format = csv_format
        self._split = FieldSplitter(csv_format).split
        self._completing = "".join(c for c in (csv_format.quote, csv_format.escape) if c).encode()
        self._pushed_back: list[bytes] = []
        self.line = first_line
        self.bytes_taken = 0

    def __iter__(self) -> Iterator[tuple[int, Fields | MalformedRecordError]]:
        comment = self._format.comment.encode() if self._format.comment else None
        while (line := self._next_line()) is not None:
            number = self.line - 1
            if comment is not None and line.lstrip(b" \t").startswith(comment):
                continue
            if self._format.ignore_empty_lines and not self._content(line):
                continue
            try:
                yield number, self._record(line)
            except MalformedRecordError as malformed:
                yield number, malformed

    def _record(self, line: bytes) -> Fields:
        taken = [line]
        size = len(line)
        try:
            while True:
                try:
                    return self._split(self._content(b"".join(taken)).decode())
                except IncompleteError:
                    if not self._take_until_complete(taken, size):
                        raise MalformedRecordError("a quote that is never closed") from None
                    size = sum(map(len, taken))
        except UnicodeDecodeError as error:
            self._push_back(taken[1:])
            raise MalformedRecordError(f"not valid UTF-8: {error}") from error
        except MalformedRecordError:
            self._push_back(taken[1:])
            raise

    def _take_until_complete(self, taken: list[bytes], size: int) -> bool:
        """Add lines up to one that may complete the record; return False at the end of the file or at the size limit."""
        while size < RECORD_BYTES_MAX and (line := self._next_line()) is not None:
            taken.append(line)
            size += len(line)
            if any(c in line for c in self._completing) or self._format.escape is not None:
                return True
        return False

    def _next_line(self) -> bytes | None:
        line = self._pushed_back.pop() if self._pushed_back else next(self._lines, None)
        if line is not None:
            self.line += 1
            self.bytes_taken += len(line)
        return line

    def _push_back(self, lines: list[bytes]) -> None:
        self._pushed_back.extend(reversed(lines))
        self.line -= len(lines)
        self.bytes_taken -= sum(map(len, lines))

    def _content(self, line: bytes) -> bytes:
        for end in self._ends:
            line = line.removesuffix(end)
        return line if len(self._ends) == 2 else line.strip(b"\r\n")


def _split_lines(stream: ByteLines, separator: bytes) -> Iterator[bytes]:
    """Yield the records, with their separators, of a file with a custom record separator."""
    rest = b""
    while block := stream.read(1 << 20):
        *lines, rest = (rest + block).split(separator)
        yield from (line + separator for line in lines)
    if rest:
        yield rest

"""Parser of JSON objects that are not one per line: pretty-printed, concatenated, or elements of one array."""

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

RECORD_CHARS_MAX = 64 << 20
"""An object that is not complete after so many characters is taken to be broken."""

_BLOCK_BYTES = 1 << 20
_SPACE = " \t\r\n"


class MalformedJsonError(Exception):
    """Text that is not an object; it is skipped up to the next line that starts with one."""


class _Text:
    """The unconsumed part of the text, and its line number."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        # undecodable bytes become lone surrogates, which are detected when the record is complete
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text = ""
        self.at = 0
        self.line = 1
        self.at_end = False

    def more(self) -> bool:
        """Append a block; return False at the end of the file."""
        block = self._stream.read(_BLOCK_BYTES)
        self.at_end = not block
        self.text = self.text[self.at :] + self._decoder.decode(block, final=self.at_end)
        self.at = 0
        return not self.at_end

    def advance(self, end: int) -> None:
        """Consume up to `end`."""
        self.line += self.text.count("\n", self.at, end)
        self.at = end

    def skip(self, chars: str) -> str:
        """Consume any of these characters; return the next one, or '' at the end of the file."""
        while True:
            end = self.at
            while end < len(self.text) and self.text[end] in chars:
                end += 1
            self.advance(end)
            if end < len(self.text):
                return self.text[end]
            if not self.more():
                return ""


def iterate_objects(stream: BinaryIO) -> Iterator[tuple[int, dict[str, Any] | MalformedJsonError]]:
    """Yield (line number from 1, object) for each object of the stream, with MalformedJsonError for malformed ones."""
    text = _Text(stream)
    separators = _SPACE
    if text.skip(_SPACE) == "[":
        text.advance(text.at + 1)
        separators = _SPACE + ",]"
    decode = json.JSONDecoder().raw_decode
    while text.skip(separators):
        line = text.line
        try:
            record, end = _next_value(text, decode)
        except MalformedJsonError as malformed:
            _resynchronise(text)
            yield line, malformed
            continue
        raw = text.text[text.at : end]
        text.advance(end)
        if not isinstance(record, dict):
            yield line, MalformedJsonError(f"an object is expected, not {raw[:80]!r}")
        elif not raw.isascii() and any("\udc80" <= c <= "\udcff" for c in raw):
            yield line, MalformedJsonError("not valid UTF-8")
        else:
            yield line, record


def _next_value(text: _Text, decode: Any) -> tuple[Any, int]:
    grown_to = 0
    while True:
        try:
            value, end = decode(text.text, text.at)
            if end < len(text.text) or isinstance(value, (dict, list)) or text.at_end:
                return value, end
            if not text.more():
                return value, len(text.text)
        except json.JSONDecodeError as error:
            is_cut = error.pos >= len(text.text) - 16 or error.msg.startswith("Unterminated string")
            if not is_cut or len(text.text) - text.at > RECORD_CHARS_MAX:
                raise MalformedJsonError(f"not valid JSON: {error.msg}") from error
            # double the text before the next attempt, so that a long record is not decoded again for each block
            grown_to = max(grown_to * 2, len(text.text) - text.at + 1)
            while len(text.text) - text.at < grown_to:
                if not text.more():
                    break
            if text.at_end:
                return _last_value(text, decode)


def _last_value(text: _Text, decode: Any) -> tuple[Any, int]:
    try:
        value, end = decode(text.text, text.at)
    except json.JSONDecodeError as error:
        raise MalformedJsonError(f"not valid JSON: {error.msg}") from error
    return value, end


def _resynchronise(text: _Text) -> None:
    """Skip to the next line that starts with an object, or to the end."""
    while True:
        found = text.text.find("\n", text.at)
        while found >= 0:
            rest = text.text[found + 1 : found + 257].lstrip(" \t,")
            if rest.startswith("{"):
                text.advance(found + 1)
                return
            found = text.text.find("\n", found + 1)
        text.advance(max(text.at, len(text.text) - 1))
        if not text.more():
            text.advance(len(text.text))
            return

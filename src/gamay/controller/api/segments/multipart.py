"""Streaming of an upload to disk, independent of its size."""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from python_multipart.multipart import MultipartParser, parse_options_header

from gamay.base.errors import InvalidConfigError

_NAME_BYTES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a multipart request: its field name, the file name that the client gave, and where its content is."""

    name: str
    file_name: str
    path: Path


async def stream_parts(request: Request, folder: Path) -> list[Part]:
    """Write each part of a multipart request to its own file in `folder`. Raises InvalidConfigError."""
    content_type, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if content_type != b"multipart/form-data" or not boundary:
        raise InvalidConfigError("the request must be multipart/form-data with one file")
    sink = _Sink(folder)
    parser = MultipartParser(boundary, sink.callbacks())  # type: ignore[arg-type]
    try:
        async for chunk in request.stream():
            if chunk:
                parser.write(chunk)
        parser.finalize()
    except ValueError as error:
        raise InvalidConfigError(f"the multipart request is malformed: {error}") from error
    finally:
        sink.close()
    if not sink.complete:
        raise InvalidConfigError("the multipart request ends before its last part")
    return sink.parts


async def stream_single(request: Request, folder: Path) -> Part:
    """Write the only part of a multipart request to a file in `folder`. Raises InvalidConfigError."""
    parts = await stream_parts(request, folder)
    if len(parts) != 1:
        raise InvalidConfigError(f"the request must have exactly one file part, it has {len(parts)}")
    return parts[0]


class _Sink:
    """Receiver of the parser's events."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.parts: list[Part] = []
        self.complete = False
        self._file: BinaryIO | None = None
        self._header_name = b""
        self._header_value = b""
        self._headers: dict[bytes, bytes] = {}

    def callbacks(self) -> dict[str, object]:
        return {
            "on_part_begin": self._headers.clear,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_data,
            "on_part_end": self.close,
            "on_end": self._on_end,
        }

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value
        self._header_name, self._header_value = b"", b""

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name, file_name = (
            options.get(key, b"")[:_NAME_BYTES_MAX].decode(errors="replace") for key in (b"name", b"filename")
        )
        # The client's file name never becomes a path here.
        path = self._folder / f"part-{len(self.parts)}"
        self._file = path.open("wb")
        self.parts.append(Part(name, file_name, path))

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        assert self._file is not None
        self._file.write(data[start:end])

    def _on_end(self) -> None:
        self.complete = True

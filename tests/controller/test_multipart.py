"""Uploads are streamed to disk for any chunk sizes, and malformed ones are rejected."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.controller.api.segments.multipart import stream_parts, stream_single


def request_of(chunks: list[bytes], content_type: str) -> Request:
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Any:
        return messages.pop(0)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(b"content-type", content_type.encode())],
    }
    return Request(scope, receive)


def encoded(parts: list[tuple[str, str, bytes]]) -> bytes:
    body = b""
    for name, file_name, content in parts:
        head = f'--B\r\nContent-Disposition: form-data; name="{name}"; filename="{file_name}"\r\nContent-Type: x/y\r\n\r\n'
        body += head.encode() + content + b"\r\n"
    return body + b"--B--\r\n"


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300), size=st.integers(1, 50))
def test_any_content_in_any_chunks(tmp_path: Path, content: bytes, size: int) -> None:
    body = encoded([("file", "../../evil.tar.gz", content), ("other", "b", b"second")])
    chunks = [body[i : i + size] for i in range(0, len(body), size)]
    parts = asyncio.run(stream_parts(request_of(chunks, "multipart/form-data; boundary=B"), tmp_path))
    assert [(part.name, part.file_name, part.path.read_bytes()) for part in parts] == [
        ("file", "../../evil.tar.gz", content),
        ("other", "b", b"second"),
    ]
    assert {part.path.parent for part in parts} == {tmp_path}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (encoded([("f", "f", b"x")]), "application/json"),
        (encoded([("f", "f", b"x")]), "multipart/form-data"),
        (encoded([("f", "f", b"x")])[:-20], "multipart/form-data; boundary=B"),
        (b"nothing of the kind", "multipart/form-data; boundary=B"),
        (b"", "multipart/form-data; boundary=B"),
        (encoded([("f", "f", b"x"), ("g", "g", b"y")]), "multipart/form-data; boundary=B"),
        (encoded([]), "multipart/form-data; boundary=B"),
    ],
)
def test_malformed_uploads(tmp_path: Path, body: bytes, content_type: str) -> None:
    with pytest.raises(InvalidConfigError):
        asyncio.run(stream_single(request_of([body], content_type), tmp_path))

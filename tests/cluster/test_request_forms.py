"""Equivalent forms of requests, normalised before paths and methods are examined."""

import asyncio
from typing import Any

import pytest

from gamay.web.request_forms import UsualForm


@pytest.mark.parametrize(
    ("raw", "path", "seen"),
    [
        (b"/tables/", "/tables/", "/tables"),
        (b"/tables//", "/tables//", "/tables"),
        (b"/tables", "/tables", "/tables"),
        (b"/", "/", "/"),
        (b"//", "//", "/"),
        (b"/segments/t/a%2F", "/segments/t/a/", "/segments/t/a/"),
    ],
)
def test_paths_without_it(raw: bytes, path: str, seen: str) -> None:
    paths: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        paths.append(scope["path"])

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": raw}
    asyncio.run(UsualForm(app)(scope, None, None))  # type: ignore[arg-type]
    assert paths == [seen]
    assert scope["path"] == path, "the scope of the caller stays as it was"


def test_head_is_get_without_the_body() -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
        await send({"type": "http.response.body", "body": scope["method"].encode()})

    async def send(message: Any) -> None:
        sent.append(message)

    for method, body in (("GET", b"GET"), ("HEAD", b""), ("POST", b"POST")):
        sent.clear()
        asyncio.run(UsualForm(app)({"type": "http", "method": method, "path": "/"}, None, send))  # type: ignore[arg-type]
        assert [m.get("body") for m in sent] == [None, body]
        assert sent[0]["headers"] == [(b"content-length", b"3")]

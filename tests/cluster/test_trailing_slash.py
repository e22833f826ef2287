"""A slash at the end of a path, in front of everything that looks at paths."""

import asyncio
from typing import Any

import pytest

from gamay.cluster.trailing_slash import WithoutSlash


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

    scope = {"type": "http", "path": path, "raw_path": raw}
    asyncio.run(WithoutSlash(app)(scope, None, None))  # type: ignore[arg-type]
    assert paths == [seen]
    assert scope["path"] == path, "the scope of the caller stays as it was"

"""Requests that are too large, or too many."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from gamay.base.clock import SYSTEM_CLOCK, Clock, ManualClock
from gamay.web.request_limits import Limited, RequestLimits


async def _length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


APP = Starlette(routes=[Route(path, _length, methods=["GET", "POST"]) for path in ("/x", "/health")])


def ask(limits: RequestLimits, *requests: dict[str, Any], clock: Clock = SYSTEM_CLOCK) -> list[tuple[int, str]]:
    async def run() -> list[tuple[int, str]]:
        transport = httpx.ASGITransport(Limited(APP, limits, clock))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            answers = [await client.request(**{"method": "POST", "url": "/x", **request}) for request in requests]
            return [(answer.status_code, answer.text) for answer in answers]

    return asyncio.run(run())


async def _chunks(*sizes: int) -> AsyncIterator[bytes]:
    for size in sizes:
        yield b"x" * size


@pytest.mark.parametrize("told", [True, False])
def test_a_body_up_to_the_limit_is_taken(told: bool) -> None:
    limits = RequestLimits(body_bytes=1000, upload_bytes=5000)

    def body(size: int) -> dict[str, Any]:
        return {"content": b"x" * size if told else _chunks(400, size - 400)}

    upload = {"headers": {"content-type": "multipart/form-data; boundary=x"}}
    found = ask(limits, body(1000), body(1001), body(5000) | upload, body(5001) | upload)
    assert [status for status, _ in found] == [200, 413, 200, 413]
    assert found[0][1] == "1000"
    assert "more than the 1,000 bytes that are allowed" in found[1][1]


def test_a_length_that_is_none_is_refused() -> None:
    (found,) = ask(RequestLimits(), {"headers": {"content-length": "-1"}, "content": b"x"})
    assert found[0] == 413


def test_as_many_requests_a_second_as_are_allowed() -> None:
    clock = ManualClock(0)
    limits = RequestLimits(per_s=2)
    get = {"method": "GET"}
    found = ask(limits, get, get, get, {**get, "url": "/health"}, clock=clock)
    assert [status for status, _ in found] == [200, 200, 429, 200]
    assert "more than 2 requests per second" in found[2][1]

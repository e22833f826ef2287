"""Odd names, odd JSON and odd values at every documented route: refused with a message, never a defect (500).

`GAMAY_ODD_REQUESTS` is the number of requests (3,000), sent to each route in turn, with a fixed seed.
"""

import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from benchmarks.attack.requests import TABLE, odd_request, routes_of
from tests.waiting import PATIENCE_S

import gamay
from gamay.embedded import EmbeddedCluster

NUM_REQUESTS = int(os.environ.get("GAMAY_ODD_REQUESTS", "3000"))
# they end or change the process that the test runs in, wait for minutes, or fetch from elsewhere
LEFT_OUT = ("/ingestFrom", "/cluster/configs", "/loggers", "/instances/{instance}/state", "/health", "/users")


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder: Path = tmp_path_factory.mktemp("odd")
    with gamay.connect(folder / "data") as db:
        db.create_table(TABLE, pa.table({"n": [1, 2, 3], "s": ["a", "b", "c"]}))
    with EmbeddedCluster(folder / "data", 0, 0, 0, threads=1, warm_up=False) as cluster:
        yield {
            "controller": cluster.controller_url, "broker": cluster.broker_url,
            "server": cluster.server_url, "minion": cluster.minion_url,
        }  # fmt: skip


def answer_to(request: httpx.Request, client: httpx.Client) -> httpx.Response:
    try:
        return client.send(request)
    except httpx.ReadError:  # the connection was closed after an answer that said so
        return client.send(request)


def test_odd_requests_are_refused_with_a_sentence(urls: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(20261123)
    defects: list[str] = []
    with httpx.Client(timeout=PATIENCE_S) as client, caplog.at_level(logging.ERROR):
        routes = [route for route in routes_of(urls, client) if not route[2].startswith(LEFT_OUT)]
        assert len(routes) > 250
        for number in range(NUM_REQUESTS):
            route = routes[number % len(routes)]
            try:
                request = odd_request(route, urls, rng)
            except (ValueError, httpx.InvalidURL):
                continue  # the client itself does not send it
            asked = f"{request.method} {str(request.url)[:200]} {request.content[:200]!r}"
            try:
                answer = answer_to(request, client)
            except httpx.TransportError as error:
                defects.append(f"{asked}: {error!r}")
                continue
            # refusals of these two are 500 in Pinot
            is_known = request.method in ("GET", "DELETE") and route[2] == "/tableConfigs/{name}"
            is_defect = answer.status_code >= 500 and answer.status_code not in (501, 503) and not is_known
            if is_defect or "defect of Gamay" in answer.text or "Traceback" in answer.text:
                defects.append(f"{asked}: {answer.status_code} {answer.text[:300]}")
            defects += [f"{asked}: {one.getMessage()}: {one.exc_info[1]!r}" for one in caplog.records if one.exc_info]
            caplog.clear()
        count = client.post(f"{urls['broker']}/query/sql", json={"sql": f"SELECT count(*) FROM {TABLE}"}).json()
    assert not defects, f"{len(defects)} defects\n" + "\n".join(defects[:40])
    # some requests delete the table, or take the broker out of its tenant; the broker answers all the same
    assert 450 not in [exception["errorCode"] for exception in count["exceptions"]]

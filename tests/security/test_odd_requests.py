"""Odd names, odd JSON and odd values at every documented route: refused with a sentence, never a defect (500).

`GAMAY_ODD_REQUESTS` is the number of requests (3,000); each route is asked in turn, by a fixed seed.
"""

import logging
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import orjson
import pyarrow as pa
import pytest

import gamay
from gamay.embedded import EmbeddedCluster

NUM_REQUESTS = int(os.environ.get("GAMAY_ODD_REQUESTS", "3000"))
TABLE = "trips"

NAMES = [
    "", " ", ".", "..", "../../etc/passwd", "/", "//", "a/b", "a\\b", "123", "null", "true", "NaN", "-1", "\0", "a\0b",
    "a\nb",
    "\x1b[31m", "\u202e", "é" * 300, "𝒳", "%00", "%2e%2e%2f", "a" * 5_000, "__proto__", "$table", "_OFFLINE",
    "trips_OFFLINE_OFFLINE",
    "trips_REALTIME", "trips.trips", "a.b.c", ".trips", "trips.", "'; DROP TABLE trips; --", "{trips}", "*", "?", "#",
    "a,b", "PROPERTYSTORE",
    TABLE, f"{TABLE}_OFFLINE",
]  # fmt: skip
NUMBERS = ["", "0", "-1", "1e309", "NaN", "9" * 30, "0x10", "1.5", "true", " 7 ", "٣", str(1 << 63), str(-(1 << 63) - 1)]
VALUES: list[Any] = [
    None, True, 0, -1, 1 << 40, 1.5, "", "x", "a\0b", "NaN", [], {}, [[]], [None], {"": ""}, "9" * 400, ["x"] * 50,
    {"a": {"b": {"c": []}}},
]  # fmt: skip
TEXTS = [
    b"", b" ", b"null", b"true", b"1", b'"x"', b"[]", b"{}", b"[" * 1_000, b"[" * 100_000, b"[" * 1_000 + b"]" * 1_000,
    b'{"a":' * 1_000 + b"1" + b"}" * 1_000, b'{"a": NaN}', b'{"a": 1e400}', b'{"a": "\\ud800"}', b'{"a": "\\u0000"}',
    b"\xff\xfe",
    b'{"tableName": 1}', b'{"tableName": null}', b'{"tableName": "a\\u0000b"}', b'{"tableName": "x", "tableName": "y"}',
    b'{"a": 1',
    b"\x00" * 64, b"PK\x03\x04" + b"\x00" * 64, b"\x1f\x8b\x08" + b"\x00" * 64, b'{"a": ' + b"9" * 5_000 + b"}",
    '{"é": "𝒳"}'.encode("utf-16"), b"a=b&c=d", b"--x\r\n\r\n", b"<xml/>",
]  # fmt: skip
TYPES = [
    "application/json",
    "text/plain",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "application/x-www-form-urlencoded",
    "\x7f",
]
SCHEMA: dict[str, Any] = {
    "schemaName": "made",
    "dimensionFieldSpecs": [
        {"name": "a", "dataType": "STRING", "singleValueField": True, "maxLength": 5, "defaultNullValue": "x"}
    ],
    "metricFieldSpecs": [{"name": "m", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "t", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:DAYS"}],
    "primaryKeyColumns": ["a"],
}
CONFIG: dict[str, Any] = {
    "tableName": "made",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "t", "replication": "1", "retentionTimeUnit": "DAYS", "retentionTimeValue": "3"},
    "tenants": {"broker": "DefaultTenant", "server": "DefaultTenant"},
    "tableIndexConfig": {"invertedIndexColumns": ["a"], "noDictionaryColumns": ["m"], "starTreeIndexConfigs": []},
    "fieldConfigList": [{"name": "a", "encodingType": "DICTIONARY", "indexTypes": ["INVERTED"], "properties": {"k": "v"}}],
    "ingestionConfig": {
        "transformConfigs": [{"columnName": "m", "transformFunction": "1"}],
        "filterConfig": {"filterFunction": "false"},
    },
    "task": {"taskTypeConfigsMap": {"MergeRollupTask": {"1day.mergeType": "concat"}}},
    "quota": {"maxQueriesPerSecond": "10", "storage": "1G"},
    "routing": {"instanceSelectorType": "balanced", "segmentPrunerTypes": ["time"]},
    "metadata": {"customConfigs": {"a": "b"}},
}
QUERY: dict[str, Any] = {"sql": f"SELECT count(*) FROM {TABLE}", "queryOptions": "timeoutMs=1000", "trace": False}
TENANT: dict[str, Any] = {"tenantRole": "SERVER", "tenantName": "x", "numberOfInstances": 1, "offlineInstances": 1}
INSTANCE: dict[str, Any] = {"host": "h", "port": "1", "type": "SERVER", "tags": ["a_OFFLINE"], "pools": {"a": 1}}
DOCUMENTS = [SCHEMA, CONFIG, QUERY, TENANT, INSTANCE, {"schema": SCHEMA, "offline": CONFIG, "tableName": "made"}, [TABLE]]
# they end or change the process that the test runs in, wait for minutes, or fetch from elsewhere
LEFT_OUT = ("/ingestFrom", "/cluster/configs", "/loggers", "/instances/{instance}/state", "/health", "/users")


def mutated(document: Any, rng: random.Random) -> Any:
    """Return a document in which one value, somewhere, is another, or missing, or twice as deep."""
    if isinstance(document, dict) and document and rng.random() < 0.8:
        key = rng.choice(list(document))
        copied = dict(document)
        chance = rng.random()
        if chance < 0.15:
            del copied[key]
        elif chance < 0.25:
            copied[rng.choice(NAMES)] = copied.pop(key)
        else:
            copied[key] = mutated(document[key], rng)
        return copied
    if isinstance(document, list) and document and rng.random() < 0.8:
        place = rng.randrange(len(document))
        return [mutated(value, rng) if i == place else value for i, value in enumerate(document)]
    return rng.choice([*VALUES, rng.choice(NAMES)])


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


Route = tuple[str, str, str, list[dict[str, Any]]]


def routes_of(urls: dict[str, str], client: httpx.Client) -> list[Route]:
    found: list[Route] = []
    for role, url in urls.items():
        for path, methods in client.get(f"{url}/swagger.json").json()["paths"].items():
            if not path.startswith(LEFT_OUT):
                found += [(role, method, path, shown.get("parameters", [])) for method, shown in methods.items()]
    return found


def odd_request(route: Route, urls: dict[str, str], rng: random.Random) -> httpx.Request:
    role, method, path, parameters = route
    odd_place = rng.randrange(len(parameters) + 2)
    query: list[tuple[str, str]] = []
    for number, parameter in enumerate(parameters):
        is_number = parameter.get("schema", {}).get("type") in ("integer", "number", "boolean")
        usual = "1" if is_number else TABLE
        value = rng.choice(NUMBERS if is_number else NAMES) if number == odd_place or rng.random() < 0.2 else usual
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(value, safe="") or "%20")
        elif parameter["in"] == "query" and (parameter.get("required") or number == odd_place):
            query.append((parameter["name"], value))
    path = re.sub(r"\{[^}]*\}", lambda _: quote(rng.choice(NAMES), safe="") or "%20", path)
    headers, content = {}, b""
    if method != "get":
        chance = rng.random()
        content = rng.choice(TEXTS) if chance < 0.4 else orjson.dumps(mutated(rng.choice(DOCUMENTS), rng))
        headers["content-type"] = TYPES[0] if chance > 0.1 else rng.choice(TYPES)
    elif rng.random() < 0.1:
        headers["accept"] = rng.choice(TYPES)
    return httpx.Request(method.upper(), urls[role] + path, params=query, content=content, headers=headers)


def answer_to(request: httpx.Request, client: httpx.Client) -> httpx.Response:
    try:
        return client.send(request)
    except httpx.ReadError:  # the connection was closed after an answer that said so
        return client.send(request)


def test_odd_requests_are_refused_with_a_sentence(urls: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(20261123)
    defects: list[str] = []
    with httpx.Client(timeout=60) as client, caplog.at_level(logging.ERROR):
        routes = routes_of(urls, client)
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
            is_known = request.url.path.startswith("/tableConfigs/")  # what is not there is 500, as in Pinot
            is_defect = answer.status_code >= 500 and answer.status_code not in (501, 503) and not is_known
            if is_defect or "defect of Gamay" in answer.text or "Traceback" in answer.text:
                defects.append(f"{asked}: {answer.status_code} {answer.text[:300]}")
        count = client.post(f"{urls['broker']}/query/sql", json={"sql": f"SELECT count(*) FROM {TABLE}"}).json()
    assert not defects, f"{len(defects)} defects\n" + "\n".join(defects[:40])
    # some requests delete the table, or take the broker out of its tenant; the broker answers all the same
    assert 450 not in [exception["errorCode"] for exception in count["exceptions"]]

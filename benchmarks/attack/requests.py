"""Requests of the documented routes, with odd names, numbers, documents and types."""

import random
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
import orjson

TABLE = "trips"
"""What a request names where it is right."""

_NAMES = [
    "", " ", ".", "..", "../../etc/passwd", "/", "//", "a/b", "a\\b", "123", "null", "true", "NaN", "-1", "\0", "a\0b",
    "a\nb",
    "\x1b[31m", "\u202e", "é" * 300, "𝒳", "%00", "%2e%2e%2f", "a" * 5_000, "__proto__", "$table", "_OFFLINE",
    "trips_OFFLINE_OFFLINE",
    "trips_REALTIME", "trips.trips", "a.b.c", ".trips", "trips.", "'; DROP TABLE trips; --", "{trips}", "*", "?", "#",
    "a,b", "PROPERTYSTORE",
    TABLE, f"{TABLE}_OFFLINE",
]  # fmt: skip
_NUMBERS = ["", "0", "-1", "1e309", "NaN", "9" * 30, "0x10", "1.5", "true", " 7 ", "٣", str(1 << 63), str(-(1 << 63) - 1)]
_VALUES: list[Any] = [
    None, True, 0, -1, 1 << 40, 1.5, "", "x", "a\0b", "NaN", [], {}, [[]], [None], {"": ""}, "9" * 400, ["x"] * 50,
    {"a": {"b": {"c": []}}},
]  # fmt: skip
_TEXTS = [
    b"", b" ", b"null", b"true", b"1", b'"x"', b"[]", b"{}", b"[" * 1_000, b"[" * 100_000, b"[" * 1_000 + b"]" * 1_000,
    b'{"a":' * 1_000 + b"1" + b"}" * 1_000, b'{"a": NaN}', b'{"a": 1e400}', b'{"a": "\\ud800"}', b'{"a": "\\u0000"}',
    b"\xff\xfe",
    b'{"tableName": 1}', b'{"tableName": null}', b'{"tableName": "a\\u0000b"}', b'{"tableName": "x", "tableName": "y"}',
    b'{"a": 1',
    b"\x00" * 64, b"PK\x03\x04" + b"\x00" * 64, b"\x1f\x8b\x08" + b"\x00" * 64, b'{"a": ' + b"9" * 5_000 + b"}",
    '{"é": "𝒳"}'.encode("utf-16"), b"a=b&c=d", b"--x\r\n\r\n", b"<xml/>",
]  # fmt: skip
_TYPES = [
    "application/json",
    "text/plain",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "application/x-www-form-urlencoded",
    "\x7f",
]
_HEADERS = (
    "accept", "accept-encoding", "authorization", "content-encoding", "cookie", "crypter", "database", "download_uri",
    "expect", "host", "if-none-match", "range", "segment-name", "segment-zk-metadata-custom-map-modifier", "traceparent",
    "upload_type", "upgrade", "x-forwarded-for",
)  # fmt: skip
_ODD_VALUES = ("gzip", "deflate, br", "bytes=0-9", "Basic x", "METADATA", *_TYPES, *_NUMBERS, *_NAMES)
_HEADER_VALUES = [text.strip() for text in _ODD_VALUES if text.isascii() and text.isprintable()]
_SCHEMA: dict[str, Any] = {
    "schemaName": "made",
    "dimensionFieldSpecs": [
        {"name": "a", "dataType": "STRING", "singleValueField": True, "maxLength": 5, "defaultNullValue": "x"}
    ],
    "metricFieldSpecs": [{"name": "m", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "t", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:DAYS"}],
    "primaryKeyColumns": ["a"],
}
_CONFIG: dict[str, Any] = {
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
_QUERY: dict[str, Any] = {"sql": f"SELECT count(*) FROM {TABLE}", "queryOptions": "timeoutMs=1000", "trace": False}
_TENANT: dict[str, Any] = {"tenantRole": "SERVER", "tenantName": "x", "numberOfInstances": 1, "offlineInstances": 1}
_INSTANCE: dict[str, Any] = {"host": "h", "port": "1", "type": "SERVER", "tags": ["a_OFFLINE"], "pools": {"a": 1}}
_BOTH = {"schema": _SCHEMA, "offline": _CONFIG, "tableName": "made"}
_DOCUMENTS = [_SCHEMA, _CONFIG, _QUERY, _TENANT, _INSTANCE, _BOTH, [TABLE]]


Route = tuple[str, str, str, list[dict[str, Any]]]
"""Role, method, path with placeholders, and the documented parameters."""


def _document_mutated(document: Any, rng: random.Random) -> Any:
    """Return a document with one value, at any depth, replaced, or with one key removed or renamed."""
    if isinstance(document, dict) and document and rng.random() < 0.8:
        key = rng.choice(list(document))
        copied = dict(document)
        chance = rng.random()
        if chance < 0.15:
            del copied[key]
        elif chance < 0.25:
            copied[rng.choice(_NAMES)] = copied.pop(key)
        else:
            copied[key] = _document_mutated(document[key], rng)
        return copied
    if isinstance(document, list) and document and rng.random() < 0.8:
        place = rng.randrange(len(document))
        return [_document_mutated(value, rng) if i == place else value for i, value in enumerate(document)]
    return rng.choice([*_VALUES, rng.choice(_NAMES)])


def routes_of(urls: Mapping[str, str], client: httpx.Client) -> list[Route]:
    """Return all routes in the roles' OpenAPI documents. urls: of the roles, by name."""
    found: list[Route] = []
    for role, url in urls.items():
        for path, methods in client.get(f"{url}/swagger.json").json()["paths"].items():
            found += [(role, method, path, shown.get("parameters", [])) for method, shown in methods.items()]
    return found


def odd_request(route: Route, urls: Mapping[str, str], rng: random.Random) -> httpx.Request:
    """Return an abnormal request of a route.

    Raises ValueError or httpx.InvalidURL where it cannot be sent.
    """
    role, method, path, parameters = route
    odd_place = rng.randrange(len(parameters) + 2)
    query: list[tuple[str, str | int | float | bool | None]] = []
    for number, parameter in enumerate(parameters):
        is_number = parameter.get("schema", {}).get("type") in ("integer", "number", "boolean")
        usual = "1" if is_number else TABLE
        value = rng.choice(_NUMBERS if is_number else _NAMES) if number == odd_place or rng.random() < 0.2 else usual
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(value, safe="") or "%20")
        elif parameter["in"] == "query" and (parameter.get("required") or number == odd_place):
            query.append((parameter["name"], value))
    path = re.sub(r"\{[^}]*\}", lambda _: quote(rng.choice(_NAMES), safe="") or "%20", path)
    headers, content = {}, b""
    if method != "get":
        chance = rng.random()
        content = rng.choice(_TEXTS) if chance < 0.4 else orjson.dumps(_document_mutated(rng.choice(_DOCUMENTS), rng))
        headers["content-type"] = _TYPES[0] if chance > 0.1 else rng.choice(_TYPES)
    if rng.random() < 0.15:
        headers[rng.choice(_HEADERS)] = rng.choice(_HEADER_VALUES)
    return httpx.Request(method.upper(), urls[role] + path, params=query, content=content, headers=headers)

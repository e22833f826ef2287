"""The tables of fuzzed queries: small, with every type of column and index, behind the broker's HTTP interface."""

import asyncio
import json
import uuid
from collections.abc import MutableMapping
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import gamay
from gamay.broker.http.app import BrokerApp
from gamay.model.types import DataType as D
from gamay.query.limits.queue import QueryQueue

TYPES = {
    "i": D.INT,
    "l": D.LONG,
    "f": D.FLOAT,
    "x": D.DOUBLE,
    "dec": D.BIG_DECIMAL,
    "b": D.BOOLEAN,
    "ts": D.TIMESTAMP,
    "s": D.STRING,
    "w": D.STRING,
    "j": D.JSON,
    "by": D.BYTES,
    "u": D.UUID,
    "mp": D.MAP,
}
LISTS = {
    "mi": D.INT,
    "ml": D.LONG,
    "mf": D.FLOAT,
    "mx": D.DOUBLE,
    "mb": D.BOOLEAN,
    "mt": D.TIMESTAMP,
    "ms": D.STRING,
    "mby": D.BYTES,
}
COLUMNS = (*TYPES, *LISTS)
TABLES = ("t", "t_idx", "t_raw", "empty", "nulls")
WORDS = (
    "Oslo",
    "Lima",
    "Zürich",
    "東京",
    "a%b",
    "a_b",
    "",
    "null",
    "x'y",
    "😀",
    "https://a.example.com/p?q=1#f",
    "2024-05-01",
)
JSONS = (
    '{"a":1}',
    '{"a":{"b":[1,2,{"c":"x"}]},"k":null}',
    "[]",
    "null",
    "[1,2]",
    '"text"',
    '{"a":"x","b":[{"c":1},{"c":2}]}',
)
_LONGS = (0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 10**12)
_DOUBLES = (0.0, -0.0, 1.5, -2.25, 1e300, -1e-300, float("inf"), float("-inf"), float("nan"))
_EPOCH_MS = 1_700_000_000_000


def schema(name: str) -> dict[str, Any]:
    """Return the schema document of a table."""
    plain = [{"name": n, "dataType": t.value} for n, t in TYPES.items() if n not in ("f", "x", "ts", "mp")]
    listed = [{"name": n, "dataType": t.value, "singleValueField": False} for n, t in LISTS.items()]
    return {
        "schemaName": name,
        "enableColumnBasedNullHandling": True,
        "dimensionFieldSpecs": plain + listed,
        "metricFieldSpecs": [{"name": n, "dataType": TYPES[n].value} for n in ("f", "x")],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"}
        ],
        "complexFieldSpecs": [
            {
                "name": "mp",
                "dataType": "MAP",
                "childFieldSpecs": {"key": {"dataType": "STRING"}, "value": {"dataType": "LONG"}},
            }
        ],
    }


def config(name: str) -> dict[str, Any]:
    """Return the config document of a table."""
    single = [n for n in TYPES if n not in ("j", "mp")]
    indexing: dict[str, Any] = {"nullHandlingEnabled": True}
    if name == "t_idx":
        indexing |= {
            "invertedIndexColumns": [n for n in COLUMNS if n not in ("j", "by", "mby", "mp")],
            "rangeIndexColumns": ["i", "l", "f", "x", "ts"],
            "bloomFilterColumns": [n for n in single if n != "b"],
            "jsonIndexColumns": ["j"],
            "sortedColumn": ["w"],
        }
    elif name == "t_raw":
        indexing |= {"noDictionaryColumns": list(COLUMNS)}
    return {"tableName": f"{name}_OFFLINE", "tableType": "OFFLINE", "tableIndexConfig": indexing}


def _row(rng: Random, number: int, null_share: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "i": rng.choice((rng.randrange(-5, 9), 2**31 - 1, -(2**31) + 1)),
        "l": rng.choice(_LONGS),
        "f": rng.choice((0.5, -1.25, 3e38, float("nan"))),
        "x": rng.choice(_DOUBLES),
        "dec": Decimal(rng.choice(("0", "1.50", "-12345678901234567890.123", "1E+3"))),
        "b": rng.random() < 0.5,
        "ts": _EPOCH_MS + number * 3_600_000,
        "s": rng.choice(WORDS),
        "w": f"user_{number // 4}",
        "j": rng.choice(JSONS),
        "by": bytes(rng.randrange(256) for _ in range(rng.randrange(4))),
        "u": uuid.UUID(int=rng.randrange(1 << 8) << 90).bytes,
    }
    row["mp"] = json.dumps({key: rng.choice(_LONGS) for key in ("a", "b", "Oslo") if rng.random() < 0.6})
    size = rng.randrange(4)
    row |= {
        "mi": [rng.randrange(10) for _ in range(size)],
        "ml": [rng.choice(_LONGS) for _ in range(size)],
        "mf": [rng.choice((0.5, -1.5)) for _ in range(size)],
        "mx": [rng.choice(_DOUBLES) for _ in range(size)],
        "mb": [rng.random() < 0.5 for _ in range(size)],
        "mt": [_EPOCH_MS + rng.randrange(100) for _ in range(size)],
        "ms": [rng.choice(WORDS) for _ in range(size)],
        "mby": [bytes([rng.randrange(256)]) for _ in range(size)],
    }
    for name in COLUMNS:
        if rng.random() < null_share:
            row[name] = None
    return row


_ARROW = {
    D.INT: pa.int32(),
    D.LONG: pa.int64(),
    D.FLOAT: pa.float32(),
    D.DOUBLE: pa.float64(),
    D.BIG_DECIMAL: pa.string(),
    D.BOOLEAN: pa.bool_(),
    D.TIMESTAMP: pa.timestamp("ms"),
    D.STRING: pa.string(),
    D.JSON: pa.string(),
    D.BYTES: pa.binary(),
    D.UUID: pa.binary(),
    D.MAP: pa.string(),
}


def rows(rng: Random, count: int, null_share: float) -> pa.Table:
    """Return rows of any of the tables."""
    made = [_row(rng, number, null_share) for number in range(count)]
    columns = {}
    for name in COLUMNS:
        values = [row[name] for row in made]
        if name == "dec":
            values = [None if value is None else format(value, "f") for value in values]
        kind = _ARROW[TYPES[name]] if name in TYPES else pa.list_(_ARROW[LISTS[name]])
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


class World:
    """A database with the tables, and its broker's application."""

    def __init__(self, folder: Path) -> None:
        self._database = gamay.connect(folder, threads=2)
        rng = Random(42)
        for name in TABLES:
            self._database.create_table(name, schema=schema(name), config=config(name))
            if name == "nulls":
                self._database.append(name, rows(rng, 2, 1.0))
            elif name != "empty":
                for count in (1, 30, 60):
                    self._database.append(name, rows(rng, count, 0.1))
        self._queue = QueryQueue(2)
        self._app = BrokerApp(self._database._cluster.runner, self._queue, lambda: True).asgi()
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        """End all threads."""
        self._loop.close()
        self._queue.shutdown()
        self._database.close()

    def ask(self, method: str, path: str, query: bytes = b"", body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """Send a request; return the HTTP status, the headers and the body of the answer."""
        return self._loop.run_until_complete(self._ask(method, path, query, body))

    async def _ask(self, method: str, path: str, query: bytes, body: bytes) -> tuple[int, dict[str, str], bytes]:
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": query,
            "headers": [(b"pinot-use-http-status-for-errors", b"true")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        sent: list[MutableMapping[str, Any]] = []

        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> MutableMapping[str, Any]:
            for message in given:
                return message
            return await asyncio.get_running_loop().create_future()  # the client stays to the end, and says nothing more

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        content = b"".join(message.get("body", b"") for message in sent[1:])
        headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], headers, content

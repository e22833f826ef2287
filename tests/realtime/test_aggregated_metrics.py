"""A table that aggregates distinct counts and sums of decimals during consumption answers like one with all rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

DIMENSIONS = [{"name": "city", "dataType": "STRING"}]
TIMES = [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}]
KEPT = {
    "users": ("DISTINCTCOUNTHLL(userId)", "BYTES"),
    "devices": ("distinct_count_hll(device, 12)", "BYTES"),
    "pages": ("DISTINCTCOUNTHLLPLUS(page, 10, 20)", "BYTES"),
    "prices": ("DISTINCTCOUNTHLLPLUS(price, 8)", "BYTES"),
    "total": ("SUMPRECISION(amount, 38)", "BIG_DECIMAL"),
    "packed": ("SUMPRECISION(amount, 38, 2)", "BYTES"),
    "events": ("COUNT(*)", "LONG"),
}
RAW = {"userId": "LONG", "device": "STRING", "page": "STRING", "price": "DOUBLE", "amount": "BIG_DECIMAL"}
QUESTIONS = {
    "DISTINCTCOUNTHLL(users)": "DISTINCTCOUNTHLL(userId)",
    "DISTINCTCOUNTHLL(devices)": "DISTINCTCOUNTHLL(device, 12)",
    "DISTINCTCOUNTHLLPLUS(pages)": "DISTINCTCOUNTHLLPLUS(page, 10)",
    "DISTINCTCOUNTHLLPLUS(prices)": "DISTINCTCOUNTHLLPLUS(price, 8)",
    "DISTINCTCOUNTRAWHLL(devices)": "DISTINCTCOUNTRAWHLL(device, 12)",
    "SUMPRECISION(total)": "SUMPRECISION(amount)",
    "SUMPRECISION(packed)": "SUMPRECISION(amount)",
    "SUM(events)": "COUNT(*)",
}


def table_of(table: dict[str, Any], name: str, role: str, columns: dict[str, str]) -> tuple[Any, Any]:
    fields = {"dimensionFieldSpecs": list(DIMENSIONS), "dateTimeFieldSpecs": TIMES}
    fields[role] = fields.get(role, []) + [{"name": column, "dataType": kind} for column, kind in columns.items()]
    schema = {"schemaName": name} | fields
    indexing = {"nullHandlingEnabled": True, "noDictionaryColumns": list(columns) if role == "metricFieldSpecs" else []}
    streams = dict(table["ingestionConfig"]["streamIngestionConfig"]["streamConfigMaps"][0])
    config = table | {
        "tableName": name, "tableIndexConfig": indexing,
        "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [streams]}},
    }  # fmt: skip
    return schema, config


def messages(rows: int, seed: int) -> list[bytes]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(rows):
        city, price = int(rng.integers(0, 4)), float(rng.integers(0, 400))
        found.append(
            orjson.dumps({
                "city": f"c{city}",
                "ts": 1_700_000_000_000 + int(rng.integers(0, 3)),
                "userId": None if rng.random() < 0.05 else int(rng.integers(-300, 300) * (city + 1)),
                "device": f"é{rng.integers(0, 900)}",
                "page": str(rng.integers(0, 50)),
                "price": price / 8,
                "amount": f"{rng.integers(-(10**15), 10**15)}.{rng.integers(0, 999)}" if city else float(price) / 3,
            })
        )  # fmt: skip
    return found


def test_sketches_and_decimals_answer_as_the_rows_do(
    make_realtime: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    realtime = make_realtime()
    raw = table_of(realtime.table, "raw", "dimensionFieldSpecs", RAW)
    kept = table_of(realtime.table, "kept", "metricFieldSpecs", {name: kind for name, (_, kind) in KEPT.items()})
    kept[1]["ingestionConfig"]["aggregationConfigs"] = [
        {"columnName": name, "aggregationFunction": text} for name, (text, _) in KEPT.items()
    ]
    for schema, config in (raw, kept):
        realtime.rest("POST", "/schemas", json=schema)
        realtime.rest("POST", "/tables", json=config)

    def answers() -> list[list[Any]]:
        found = []
        for table, asked in (("kept", QUESTIONS), ("raw", QUESTIONS.values())):
            sql = f"SET enableNullHandling = true; SELECT city, {', '.join(asked)} FROM {table} GROUP BY city ORDER BY city"
            found.append(realtime.ask(sql).get("resultTable", {}).get("rows"))
        return found

    def all_there(sent: int) -> bool:
        return all(rows is not None and sum(row[-1] for row in rows) == sent for rows in answers())

    def is_committed() -> bool:
        ideal = realtime.rest("GET", "/tables/kept/idealstate")["REALTIME"]
        return any("ONLINE" in states.values() for states in ideal.values())

    realtime.producer.send(pa.array(messages(300, 0), pa.binary()), partition=0)
    eventually(lambda: all_there(300))
    merged, expected = answers()
    assert merged == expected
    assert len(expected) == 4
    realtime.rest("POST", "/tables/kept/forceCommit")
    eventually(is_committed)
    assert answers()[0] == expected
    realtime.producer.send(pa.array(messages(500, 1), pa.binary()), partition=0)
    eventually(lambda: all_there(800))
    merged, expected = answers()
    assert merged == expected
    assert realtime.ask("SELECT COUNT(*) FROM kept")["resultTable"]["rows"] == [[24]]

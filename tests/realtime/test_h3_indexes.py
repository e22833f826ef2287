"""H3 indexes of a stream's rows: in blocks during consumption, built at the commit, changed and removed by reloads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from gamay.functions.geometry import points_array
from gamay.segment.secondary import growing

pytest.importorskip("shapely")
pytest.importorskip("h3")

SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "INT"},
        {"name": "place", "dataType": "BYTES"},
        {"name": "lon", "dataType": "DOUBLE"},
        {"name": "lat", "dataType": "DOUBLE"},
    ],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}
CONDITIONS = (
    "ST_Distance(place, ST_Point(0, 0, 1)) < 100000",
    "ST_Distance(ST_Point(lon, lat, 1), ST_Point(0, 0, 1)) < 100000",
    "NOT ST_Within(place, ST_GeogFromText('POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0))')) = 1",
)
SKIPPED = "SET skipIndexes = 'place=h3&lon=h3'; "


def fields(*resolutions: int) -> list[dict[str, Any]]:
    return [
        {"name": "place", "encodingType": "RAW", "indexes": {"h3": {"resolution": [*resolutions]}}},
        {"name": "lon", "indexes": {"h3": {"latitudeColumn": "lat"}}},
    ]


def test_rows_are_found_while_and_after_they_are_consumed(
    make_realtime: Callable[..., Any], eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "BLOCK_ROWS", 64)
    table = make_realtime(segment_rows=1000, start=False)
    table.table["fieldConfigList"] = fields(3, 6)
    table.start()
    table.rest("POST", "/schemas", json=SCHEMA)
    table.rest("POST", "/tables", json=table.table)
    rng = np.random.default_rng(3)
    x, y = rng.normal(0, 2, 1500), rng.normal(0, 2, 1500)
    packed = points_array(x, y, True).to_pylist()
    rows = [{"id": n, "place": packed[n].hex(), "lon": x[n], "lat": y[n], "ts": 1_700_000_000_000 + n} for n in range(1500)]

    sent = [0]

    def produce(first: int, last: int) -> None:
        sent.append(last)
        table.producer.send(pa.array([orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) for row in rows[first:last]]))
        eventually(lambda: rows_of("SELECT COUNT(*) FROM t") == [[last]])

    def rows_of(text: str) -> Any:
        return table.ask(text).get("resultTable", {}).get("rows")

    def plan(condition: str) -> str:
        return str(table.ask(f"EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE {condition}"))

    def check(count: int) -> None:
        for condition in CONDITIONS:
            text = f"SELECT id FROM t WHERE {condition} ORDER BY id LIMIT 2000"
            assert rows_of(text) == rows_of(SKIPPED + text), condition
            assert 0 < len(rows_of(text)) < count

    produce(0, 500)
    check(500)
    later = iter(range(500, 900))  # a view has the blocks that there were when its last row came

    def is_indexed() -> bool:
        produce(first := next(later), first + 1)
        return all("FILTER_H3_INDEX" in plan(condition) for condition in CONDITIONS)

    eventually(is_indexed)
    check(next(later))
    produce(sent[-1], 1500)
    check(1500)
    eventually(lambda: "ONLINE" in table.segments().values())
    check(1500)
    sealed = next(name for name, state in table.segments().items() if state == "ONLINE")

    def flags() -> Any:
        shown = table.rest("GET", f"/segments/t/{sealed}/metadata", params={"columns": "*"})
        return [shown.get("indexes", {}).get(column, {}).get("h3-index") for column in ("place", "lon", "lat")]

    eventually(lambda: flags() == ["YES", "YES", "YES"])  # that it is to be ONLINE is known before its server has it so
    for changed, expected in ((fields(9), ["YES"] * 3), ([], ["NO"] * 3), (fields(5), ["YES"] * 3)):
        table.rest("PUT", "/tables/t", json=table.table | {"fieldConfigList": changed})
        table.rest("POST", "/segments/t/reload")
        eventually(lambda expected=expected: flags() == expected)  # type: ignore[misc]
        check(1500)
    table.stop()
    table.start()
    eventually(lambda: rows_of("SELECT COUNT(*) FROM t") == [[1500]])
    check(1500)

"""Conditions on points with the H3 index, by scans, and by chDB on columns of longitudes and latitudes.

    python -m benchmarks.index_h3

A million rides around one city, half of them in its centre, in one segment. chDB computes distances for all rows, in another
way, so its counts are only held to be near.
"""

import argparse
import time
from typing import Any

import numpy as np
import pyarrow as pa
from chdb import session

import gamay
from benchmarks import report
from benchmarks.joins import median_ms
from benchmarks.report import Report, Shape
from gamay.functions.geometry import points_array

_X, _Y = 13.4, 52.5
_RING = [(13.35, 52.49), (13.38, 52.45), (13.44, 52.46), (13.45, 52.52), (13.39, 52.54), (13.35, 52.49)]
_WKT = f"POLYGON (({', '.join(f'{x} {y}' for x, y in _RING)}))"
_DISTANCE = f"ST_Distance(place, ST_Point({_X}, {_Y}, true))"
_PEER = f"greatCircleDistance(lon, lat, {_X}, {_Y})"
QUERIES = {
    "within 150 m": (f"{_DISTANCE} < 150", f"{_PEER} < 150"),
    "within 1.5 km": (f"{_DISTANCE} < 1500", f"{_PEER} < 1500"),
    "beyond 10 km": (f"{_DISTANCE} > 10000", f"{_PEER} > 10000"),
    "in a polygon": (f"ST_Within(place, ST_GeogFromText('{_WKT}')) = 1", f"pointInPolygon((lon, lat), {_RING})"),
}
SHAPES = {
    "index_h3": Shape(
        ("condition", "rows found", "gamay ms", "scan ms", "× scan", "chdb ms", "× chdb"), tuple(QUERIES), texts=1
    )
}


def rides(count: int, seed: int) -> pa.Table:
    """Return rides with their starting points, as a geography and as two numbers."""
    rng = np.random.default_rng(seed)
    spread = np.where(rng.random(count) < 0.5, 0.03, 0.3)
    x, y = rng.normal(_X, spread * 1.6), rng.normal(_Y, spread)
    return pa.table({"id": np.arange(count), "place": points_array(x, y, True), "lon": x, "lat": y})


def _peer(rows: pa.Table, threads: int) -> Any:
    peer = session.Session()
    peer.query(f"SET max_threads = {threads}")
    globals()["peer_rows"] = rows.drop(["place"])  # found by name
    peer.query("CREATE DATABASE b")
    peer.query("CREATE TABLE b.rides (id Int64, lon Float64, lat Float64) ENGINE = MergeTree ORDER BY id")
    peer.query("INSERT INTO b.rides SELECT id, lon, lat FROM Python(peer_rows)")
    return peer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = report.arguments_of(parser)
    rows = rides(arguments.rows, arguments.seed)
    found = Report("index_h3", SHAPES["index_h3"])
    schema = {"dimensionFieldSpecs": [{"name": "id", "dataType": "LONG"}, {"name": "place", "dataType": "BYTES"}]}
    config = {"fieldConfigList": [{"name": "place", "encodingType": "RAW", "indexes": {"h3": {"resolution": [9]}}}]}
    with gamay.connect(":memory:", threads=arguments.threads) as db:
        db.create_table("rides", None, schema, config)
        begun = time.perf_counter()
        db.append("rides", rows.select(["id", "place"]))
        print(f"{rows.num_rows:,} rows loaded, index built, in {time.perf_counter() - begun:.1f} s")
        peer = _peer(rows, arguments.threads)
        for name, (own, other) in QUERIES.items():
            sql = f"SELECT COUNT(*), SUM(id) FROM rides WHERE {own}"
            answer = db.sql(sql).rows()
            begun = time.perf_counter()
            scanned = db.sql(sql, skipIndexes="place=h3", timeoutMs=600_000).rows()
            scan_ms = (time.perf_counter() - begun) * 1000
            assert answer == scanned, f"{name}: {answer} but {scanned}"
            peer_sql = f"SELECT count(), sum(id) FROM b.rides WHERE {other}"
            near = int(str(peer.query(peer_sql, "CSV")).split(",")[0])
            assert abs(near - answer[0][0]) <= 0.02 * near, f"{name}: {answer} but {near}"
            own_ms = median_ms(lambda text=sql: db.sql(text).rows())  # type: ignore[misc]
            peer_ms = median_ms(lambda text=peer_sql: peer.query(text, "CSV"))  # type: ignore[misc]
            ratios = f"{scan_ms / own_ms:.0f}", f"{peer_ms:.1f}", f"{peer_ms / own_ms:.1f}"
            found.add(name, f"{answer[0][0]:,}", f"{own_ms:.2f}", f"{scan_ms:.0f}", *ratios)
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()

"""JSON_MATCH with and without a JSON index, against DuckDB and chDB on the same documents.

    python -m benchmarks.index_json

Documents have a few members, a nested object and an array of objects. Selective conditions hold for about one row in 10,000.
chDB stores them with its type JSON, one column per path, with a bloom filter on the cities and a min-max index on the totals
for every 512 rows. The matching rows are counted, and the answers compared.
"""

import argparse
import json
import random
import time
from typing import Any

import duckdb
import pyarrow as pa
from chdb import session

import gamay
from benchmarks import report
from benchmarks.joins import median_ms
from benchmarks.report import Report, Shape

_ITEMS = (
    """len(list_filter(from_json(json_extract(doc, '$.items'), '[{"sku":"INT","price":"DOUBLE"}]'), lambda x: %s)) > 0"""
)
_SKUS, _PRICES = "doc.items[].sku.:Int64", "doc.items[].price.:Float64"
_TYPE = "JSON(customer.city String, total Float64)"
_PEER_TABLE = f"""CREATE TABLE b.t (
    doc {_TYPE},
    INDEX city doc.customer.city TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX total doc.total TYPE minmax GRANULARITY 1
) ENGINE = MergeTree ORDER BY tuple() SETTINGS index_granularity = 512"""
# condition of JSON_MATCH or of WHERE, and what DuckDB and chDB are asked
CASES: dict[str, tuple[str, str, str]] = {
    "one value of 10,000": (
        """JSON_MATCH(doc, '"$.customer.city" = ''city 77''')""",
        "json_extract_string(doc, '$.customer.city') = 'city 77'",
        "doc.customer.city = 'city 77'",
    ),
    "a range of one in 10,000": (
        """JSON_MATCH(doc, '"$.total" > 999.9')""",
        "json_extract(doc, '$.total')::DOUBLE > 999.9",
        "doc.total > 999.9",
    ),
    "an element of an array": (
        """JSON_MATCH(doc, '"$.items[*].sku" = 4711')""",
        _ITEMS % "x.sku = 4711",
        f"has({_SKUS}, 4711)",
    ),
    "two conditions on one element": (
        """JSON_MATCH(doc, '"$.items[*].sku" BETWEEN 400 AND 420 AND "$.items[*].price" > 95')""",
        _ITEMS % "x.sku BETWEEN 400 AND 420 AND x.price > 95",
        f"arrayExists((sku, price) -> sku BETWEEN 400 AND 420 AND price > 95, {_SKUS}, {_PRICES})",
    ),
    "`jsonExtractScalar` = constant": (
        "jsonExtractScalar(doc, '$.customer.city', 'STRING', '') = 'city 77'",
        "json_extract_string(doc, '$.customer.city') = 'city 77'",
        "doc.customer.city = 'city 77'",
    ),
    "half of the rows": (
        """JSON_MATCH(doc, '"$.total" > 500')""",
        "json_extract(doc, '$.total')::DOUBLE > 500",
        "doc.total > 500",
    ),
}
SHAPES = {
    "index_json": Shape(
        (
            "condition",
            "rows found",
            "gamay ms",
            "without index ms",
            "duckdb ms",
            "chdb ms",
            "× without",
            "× duckdb",
            "× chdb",
        ),
        tuple(CASES),
    )
}
# a document in which arrays lie is read whole without the index, too slowly to be repeated
_SLOW_MS = 2000.0
_TIMEOUT_MS = 600_000


def documents(count: int, seed: int) -> list[str]:
    """Return documents of about 200 bytes."""
    rng = random.Random(seed)
    return [
        json.dumps(
            {
                "id": row,
                "customer": {"name": f"name {rng.randrange(count)}", "city": f"city {rng.randrange(10_000)}"},
                "total": round(rng.random() * 1000, 2),
                "items": [{"sku": rng.randrange(20_000), "price": round(rng.random() * 100, 2)} for _ in range(2)],
            }
        )
        for row in range(count)
    ]


def _peer(rows: pa.Table, threads: int) -> Any:
    peer = session.Session()
    peer.query(f"SET max_threads = {threads}")
    globals()["peer_rows"] = rows  # found by name
    peer.query("CREATE DATABASE b")
    peer.query(_PEER_TABLE)
    peer.query(f"INSERT INTO b.t SELECT doc::{_TYPE} FROM Python(peer_rows)")
    peer.query("OPTIMIZE TABLE b.t FINAL")
    return peer


def _ms(run: Any) -> float:
    begun = time.perf_counter()
    run()
    once = (time.perf_counter() - begun) * 1000
    return once if once > _SLOW_MS else median_ms(run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = report.arguments_of(parser)
    rows = pa.table({"doc": documents(arguments.rows, arguments.seed)})
    found = Report("index_json", SHAPES["index_json"])
    schema = {"dimensionFieldSpecs": [{"name": "doc", "dataType": "JSON"}]}
    config = {"tableIndexConfig": {"noDictionaryColumns": ["doc"], "jsonIndexColumns": ["doc"]}}
    with gamay.connect(":memory:", threads=arguments.threads) as db, duckdb.connect(":memory:") as duck:
        duck.execute(f"SET threads = {arguments.threads}")
        begun = time.perf_counter()
        db.create_table("t", rows, schema, config)
        print(f"{rows.num_rows:,} rows loaded, the index built, in {time.perf_counter() - begun:.1f} s")
        duck.execute("CREATE TABLE t AS SELECT * FROM rows")
        peer = _peer(rows, arguments.threads)
        for name, (mine, other, another) in CASES.items():
            text, theirs = f"SELECT COUNT(*) FROM t WHERE {mine}", f"SELECT COUNT(*) FROM t WHERE {other}"
            asked = f"SELECT count() FROM b.t WHERE {another}"
            (count,) = db.sql(text, timeoutMs=_TIMEOUT_MS).rows()[0]
            assert [(count,)] == duck.execute(theirs).fetchall(), name
            assert count == int(str(peer.query(asked, "CSV"))), name
            own = _ms(lambda text=text: db.sql(text, timeoutMs=_TIMEOUT_MS).rows())
            scanned = _ms(lambda text=text: db.sql(text, skipIndexes="doc=json", timeoutMs=_TIMEOUT_MS).rows())
            duck_ms = _ms(lambda theirs=theirs: duck.execute(theirs).fetchall())
            chdb_ms = _ms(lambda asked=asked: peer.query(asked, "CSV"))
            others = scanned, duck_ms, chdb_ms
            ratios = (f"{other_ms / own:.0f}" for other_ms in others)
            found.add(name, f"{count:,}", f"{own:.2f}", *(f"{other_ms:.1f}" for other_ms in others), *ratios)
        peer.close()
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()

"""LIKE and regular expressions over a dictionary of many texts, with and without the FST index, against DuckDB.

    python -m benchmarks.index_fst

Each condition is asked three times of the same rows: with the index, with `skipIndexes`, and in DuckDB. The column has an
inverted index, by which the rows of entries are found.
"""

import argparse
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import gamay
from benchmarks import report
from benchmarks.joins import median_ms
from benchmarks.report import Report, Shape

_WORDS = ("alpha", "bravo", "express", "deposit", "quick", "brown", "fox", "jumps")
CONDITIONS = {
    "LIKE, contains, 1 in 60,000": ("url LIKE '%/00a1b%'", "url ILIKE '%/00a1b%'"),
    "LIKE, two parts": ("url LIKE '%brown%/0abcd'", "url ILIKE '%brown%/0abcd'"),
    "regular expression": ("REGEXP_LIKE(url, 'express.*/0abc[0-9]')", "regexp_matches(url, 'express.*/0abc[0-9]')"),
    "the same in any case": (
        "REGEXP_LIKE(url, 'EXPRESS.*/0ABC[0-9]', 'i')",
        "regexp_matches(url, 'EXPRESS.*/0ABC[0-9]', 'i')",
    ),
    "LIKE, 1 in 8": ("url LIKE '%.brown.%'", "url ILIKE '%.brown.%'"),
    "regular expression, no run": ("REGEXP_LIKE(url, '/0+[a-f]{4}$')", "regexp_matches(url, '/0+[a-f]{4}$')"),
}
SHAPES = {
    "index_fst": Shape(("condition", "rows", "index ms", "scan ms", "duckdb ms", "× scan", "× duckdb"), tuple(CONDITIONS))
}


def rows_of(count: int, seed: int) -> pa.Table:
    """Return `count` different texts of some forty characters."""
    rng = np.random.default_rng(seed)
    words = np.array(_WORDS)[rng.integers(0, len(_WORDS), (2, count))]
    return pa.table({"url": [f"http://{a}.{b}.example.com/{i:05x}" for i, (a, b) in enumerate(words.T)]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = report.arguments_of(parser)
    rows = rows_of(arguments.rows, arguments.seed)
    found = Report("index_fst", SHAPES["index_fst"])
    config: dict[str, Any] = {"fieldConfigList": [{"name": "url", "indexes": {"fst": {}, "inverted": {}}}]}
    with gamay.connect(":memory:", threads=arguments.threads) as db, duckdb.connect(":memory:") as duck:
        duck.execute(f"SET threads = {arguments.threads}")
        db.create_table("t", rows, config=config)
        duck.register("rows", rows)
        duck.execute("CREATE TABLE t AS SELECT * FROM rows")
        for name, (own, other) in CONDITIONS.items():
            text, twin = (f"SELECT COUNT(*) FROM t WHERE {condition}" for condition in (own, other))
            count = duck.execute(twin).fetchall()
            assert db.sql(text).rows() == count == db.sql(text, skipIndexes="url=fst").rows(), name
            indexed = median_ms(lambda text=text: db.sql(text).rows())  # type: ignore[misc]
            scanned = median_ms(lambda text=text: db.sql(text, skipIndexes="url=fst").rows())  # type: ignore[misc]
            duck_ms = median_ms(lambda text=twin: duck.execute(text).fetchall())  # type: ignore[misc]
            times = (f"{ms:.2f}" for ms in (indexed, scanned, duck_ms))
            found.add(name, f"{count[0][0]:,}", *times, f"{scanned / indexed:.1f}", f"{duck_ms / indexed:.1f}")
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()

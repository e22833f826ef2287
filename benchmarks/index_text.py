"""TEXT_MATCH with and without a text index, and the same searches in DuckDB and in ClickHouse with its text index.

    python -m benchmarks.index_text

Texts of twelve words out of 200,000, by the law of Zipf. The peers count the same rows where they can say what is
searched: words and prefixes by a regular expression over the lower-case text in DuckDB, `hasToken` in ClickHouse.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from chdb import session

import gamay
from benchmarks import report
from benchmarks.report import Report, Shape

_WORDS = 200_000
_ROUNDS = 9
_SLOW_ROUNDS = 3  # of what takes seconds
_LENGTH = 12
_NO_CACHES = "use_query_cache = 0, use_query_condition_cache = 0"
_NONE = ""
_TIMEOUT_MS = 60_000
# name: TEXT_MATCH, DuckDB's condition, ClickHouse's
QUERIES = {
    "one word, 1 in 1,000": ("w1000", r"regexp_matches(lower(s), '\bw1000\b')", "hasToken(s, 'w1000')"),
    "one word, 1 in 4": ("w3", r"regexp_matches(lower(s), '\bw3\b')", "hasToken(s, 'w3')"),
    "two words": (
        "w3 AND w1000",
        r"regexp_matches(lower(s), '\bw3\b') AND regexp_matches(lower(s), '\bw1000\b')",
        "hasToken(s, 'w3') AND hasToken(s, 'w1000')",
    ),
    "phrase of rare words": ('"w100 w101"', r"regexp_matches(lower(s), '\bw100 w101\b')", _NONE),
    "phrase of common words": ('"w1 w2"', r"regexp_matches(lower(s), '\bw1 w2\b')", _NONE),
    "words near each other": ('"w50 w60"~3', _NONE, _NONE),
    "prefix": ("w1000*", r"regexp_matches(lower(s), '\bw1000')", _NONE),
    "regular expression": ("/w99[0-9]9/", r"regexp_matches(lower(s), '\bw99[0-9]9\b')", _NONE),
    "one edit away": ("w10000~1", _NONE, _NONE),
}
SHAPES = {
    "index_text": Shape(
        ("query", "rows", "gamay ms", "scan ms", "duckdb ms", "clickhouse ms", "× scan", "× duckdb", "× clickhouse"),
        tuple(QUERIES),
        texts=1,
    )
}


def texts(num_rows: int, seed: int) -> pa.Array:
    """Return texts whose k-th word has a share of 1 / k."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, _WORDS + 1)
    words = pa.array([f"w{number}" for number in range(1, _WORDS + 1)])
    chosen = np.searchsorted(np.cumsum(shares / shares.sum()), rng.random(num_rows * _LENGTH)).clip(max=_WORDS - 1)
    columns = [words.take(pa.array(chosen[at::_LENGTH])) for at in range(_LENGTH)]
    return pc.binary_join_element_wise(*columns, " ")


def _clickhouse(folder: str, rows: pa.Table) -> Any:
    pq.write_table(rows, f"{folder}/rows.parquet")
    opened = session.Session(f"{folder}/clickhouse")
    opened.query("CREATE DATABASE IF NOT EXISTS b")
    opened.query(
        "CREATE TABLE b.t (s String, INDEX words s TYPE text(tokenizer = 'splitByNonAlpha')) "
        "ENGINE = MergeTree ORDER BY tuple()"
    )
    opened.query(f"INSERT INTO b.t SELECT s FROM file('{folder}/rows.parquet', Parquet)")
    opened.query("OPTIMIZE TABLE b.t FINAL")
    return opened


def _median_ms(run: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        run()
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def _ratio(other: float | None, own: float) -> str:
    return "" if other is None else f"{other / own:.0f}" if other / own >= 10 else f"{other / own:.1f}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = report.arguments_of(parser)
    rows = pa.table({"s": texts(arguments.rows, arguments.seed)})
    found = Report("index_text", SHAPES["index_text"])
    schema = {"schemaName": "t", "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}]}
    config = {"fieldConfigList": [{"name": "s", "encodingType": "RAW", "indexes": {"text": {}}}]}
    with (
        gamay.connect(":memory:", threads=arguments.threads) as db,
        duckdb.connect(":memory:") as duck,
        tempfile.TemporaryDirectory() as folder,
    ):
        duck.execute(f"SET threads = {arguments.threads}")
        begun = time.perf_counter()
        db.create_table("t", rows, schema, config)
        print(f"{rows.nbytes / 1e6:.0f} MB loaded and indexed in {time.perf_counter() - begun:.1f} s")
        duck.register("rows", rows)
        duck.execute("CREATE TABLE t AS SELECT * FROM rows")
        clickhouse = _clickhouse(folder, rows)
        settings = f"max_threads = {arguments.threads}, {_NO_CACHES}"
        for name, (query, in_duckdb, in_clickhouse) in QUERIES.items():
            sql = f"SELECT COUNT(*) FROM t WHERE TEXT_MATCH(s, '{query}')"
            ((count,),) = db.sql(sql).rows()
            scanning = partial(db.sql, sql, skipIndexes="s=text", timeoutMs=_TIMEOUT_MS)
            assert scanning().rows() == [(count,)], name
            own, scan = _median_ms(lambda sql=sql: db.sql(sql).rows(), _ROUNDS), _median_ms(scanning, _SLOW_ROUNDS)  # type: ignore[misc]
            duck_ms = click_ms = None
            if in_duckdb:
                asked = f"SELECT COUNT(*) FROM t WHERE {in_duckdb}"
                assert duck.execute(asked).fetchall() == [(count,)], name
                duck_ms = _median_ms(lambda sql=asked: duck.execute(sql).fetchall(), _SLOW_ROUNDS)  # type: ignore[misc]
            if in_clickhouse:
                asked = f"SELECT COUNT(*) FROM b.t WHERE {in_clickhouse} SETTINGS {settings}"
                assert str(clickhouse.query(asked, "CSV")).strip() == str(count), name
                click_ms = _median_ms(lambda sql=asked: clickhouse.query(sql, "CSV").bytes(), _ROUNDS)  # type: ignore[misc]
            ratios = (_ratio(value, own) for value in (scan, duck_ms, click_ms))
            found.add(name, f"{count:,}", f"{own:.2f}", f"{scan:.1f}", _ms(duck_ms), _ms(click_ms), *ratios)
        clickhouse.close()
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()

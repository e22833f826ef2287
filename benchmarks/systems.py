"""The compared systems: each loads Parquet files once, then runs SQL, with the same number of threads.

Each is set up as its users are told to: Gamay with a sorted time column and two inverted indexes, ClickHouse with a
MergeTree in the order of time and LowCardinality text, DuckDB as it loads (it keeps minima and maxima of row groups).
"""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchmarks.data import EVENTS_CONFIG, EVENTS_SCHEMA, FOLDER, RECORDS_CONFIG, RECORDS_SCHEMA

Rows = list[tuple[Any, ...]]


class System(Protocol):
    """One engine with its tables loaded."""

    name: str

    def load(self, table: str, files: Sequence[Path]) -> None:
        """Load the files' rows into a table; done once, and not measured."""
        ...

    def run(self, sql: str) -> Rows:
        """Run a query and fetch all rows."""
        ...

    def close(self) -> None: ...


class Gamay:
    name = "gamay"

    def __init__(self, threads: int) -> None:
        import gamay

        self._folder = FOLDER / "gamay"
        self._db = gamay.connect(self._folder, threads=threads)

    def load(self, table: str, files: Sequence[Path]) -> None:
        marker = self._folder / f"{table}.loaded"
        key = " ".join(f"{f}:{f.stat().st_mtime_ns}" for f in files)
        if marker.exists() and marker.read_text() == key:
            return
        if table in self._db.tables():
            self._db.drop_table(table)
        schema, config = _DECLARED[table]
        self._db.create_table(table, str(files[0].parent / "*.parquet"), schema=schema, config=config)
        marker.write_text(key)

    def run(self, sql: str) -> Rows:
        return self._db.sql(sql).rows()

    def close(self) -> None:
        self._db.close()


def _plain_config(table: str, indexing: dict[str, Any]) -> dict[str, Any]:
    return {
        "tableName": table,
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": indexing,
    }


_DECLARED: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {
    "events": (EVENTS_SCHEMA, EVENTS_CONFIG),
    "records": (RECORDS_SCHEMA, RECORDS_CONFIG),
    "flights": (None, _plain_config("flights", {"invertedIndexColumns": ["tailnum"]})),
    "orders": (None, _plain_config("orders", {"noDictionaryColumns": ["clerk", "price"]})),
}


class DuckDB:
    name = "duckdb"

    def __init__(self, threads: int) -> None:
        import duckdb

        FOLDER.mkdir(parents=True, exist_ok=True)
        self._connection = duckdb.connect(str(FOLDER / "duckdb.db"), config={"threads": threads})
        self._connection.execute("SET TimeZone = 'UTC'")

    def load(self, table: str, files: Sequence[Path]) -> None:
        rows = sum(_num_rows(file) for file in files)
        known = self._connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
        if (table,) in known:
            held = self._connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
            if held == (rows,):
                return
        paths = ", ".join(f"'{file}'" for file in files)
        self._connection.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM read_parquet([{paths}])")
        self._connection.execute("CHECKPOINT")

    def run(self, sql: str) -> Rows:
        return self._connection.execute(sql).fetchall()

    def close(self) -> None:
        self._connection.close()


class ChDB:
    name = "chdb"

    def __init__(self, threads: int) -> None:
        from chdb import session

        shutil.rmtree(FOLDER / "chdb", ignore_errors=True)
        self._session = session.Session(str(FOLDER / "chdb"))
        self._settings = f" SETTINGS max_threads = {threads}, use_query_cache = 0, use_query_condition_cache = 0"

    def load(self, table: str, files: Sequence[Path]) -> None:
        if table == "events":
            order = "ts"
            columns = (
                "country LowCardinality(String), device LowCardinality(String), status Int32, user_id Int64, "
                "url LowCardinality(String), tags Array(LowCardinality(String)), clicks Int32, latency_ms Int32, "
                "price Float64, ts DateTime64(3, 'UTC')"
            )
            self._session.query(f"CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY {order}")
            for file in files:
                self._session.query(f"INSERT INTO {table} SELECT * FROM file('{file}', Parquet)")
        else:
            self._session.query(
                f"CREATE TABLE {table} ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM "
                f"file('{files[0].parent}/*.parquet', Parquet)"
            )
        self._session.query(f"OPTIMIZE TABLE {table} FINAL")

    def run(self, sql: str) -> Rows:
        answer = self._session.query(sql + self._settings, "JSONCompactEachRow")
        return [tuple(json.loads(line)) for line in str(answer).splitlines()]

    def close(self) -> None:
        self._session.close()


def _num_rows(file: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(file).num_rows)


SYSTEMS: dict[str, Callable[[int], System]] = {Gamay.name: Gamay, DuckDB.name: DuckDB, ChDB.name: ChDB}

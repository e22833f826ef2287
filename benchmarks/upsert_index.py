"""The primary-key index: upserts per second and bytes per key, compared with a dict, Polars and DuckDB in the same run.

    python -m benchmarks.upsert_index [--keys 10000000] [--write-docs]

Rates are by processor time. Bytes a key are what the process has grown by, divided by the number of keys.
"""

import argparse
import gc
import time
from collections.abc import Callable

import duckdb
import numpy as np
import polars as pl

from benchmarks import report
from gamay.kernels.keys.table import mix128
from gamay.upsert.index.key_index import NO_TEXT, KeyIndex, Keys, Rules

BATCH = 50_000
UPDATES = 2_000_000
KEYS = 10_000_000


def _cases(num_keys: int) -> tuple[str, ...]:
    """Return the names of the measurements: of Gamay with all keys, and of each system with a tenth of them."""
    tenth = f"{num_keys / 1e7:g} million"
    return (
        f"Gamay, {num_keys / 1e6:g} million keys",
        f"Gamay, {tenth} keys",
        f"a Python dict of tuples, {tenth} keys",
        f"DuckDB, `INSERT … ON CONFLICT`, {tenth} 64-bit keys",
        f"Polars, `update`, {tenth} 64-bit keys",
    )


SHAPES = {
    "upsert_index": report.Shape(
        ("index", "million inserts/s", "million updates/s", "bytes a key", f"longest batch of {BATCH:,}, ms"), _cases(KEYS)
    )
}


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def keys_of(numbers: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> Keys:
    """Return 128-bit keys, distributed like hashes."""
    hashes, lows = np.empty(len(numbers), np.uint64), numbers * np.uint64(0x9E3779B97F4A7C15)
    mix128(numbers, lows, hashes)
    return Keys(3, hashes, lows, *NO_TEXT)


def rate(rows: int, action: Callable[[], None]) -> float:
    """Return millions of rows per second of processor time."""
    begun = time.process_time()
    action()
    return rows / (time.process_time() - begun) / 1e6


def gamay_index(num_keys: int) -> tuple[str, ...]:
    """Insert all keys in random order, then update random ones."""
    wins = np.ones(2, np.uint8)
    rng = np.random.default_rng(1)

    def put(index: KeyIndex, numbers: "np.ndarray[tuple[int], np.dtype[np.uint64]]", comparison: int) -> None:
        rows = len(numbers)
        values = np.full((rows, 1), comparison, np.int64)
        index.put(keys_of(numbers), values, np.full(rows, -1, np.int8), np.zeros(rows, np.uint8), wins, Rules(0))

    warm = KeyIndex(3)
    for start in range(0, 300_000, BATCH):
        put(warm, np.arange(start, start + BATCH, dtype=np.uint64), 0)
    del warm
    gc.collect()
    order = rng.permutation(num_keys).astype(np.uint64)
    batches = [rng.integers(0, num_keys, BATCH).astype(np.uint64) for _ in range(UPDATES // BATCH)]
    before = resident_bytes()
    index = KeyIndex(3)
    longest = 0.0

    def insert() -> None:
        nonlocal longest
        for start in range(0, num_keys, BATCH):
            begun = time.thread_time()
            put(index, order[start : start + BATCH], 0)
            longest = max(longest, time.thread_time() - begun)

    def update() -> None:
        for batch in batches:
            put(index, batch, 1)

    inserted = rate(num_keys, insert)
    grown = resident_bytes() - before
    updated = rate(UPDATES, update)
    return f"{inserted:.1f}", f"{updated:.1f}", _size(grown / num_keys), f"{longest * 1000:.0f}"


def _size(num_bytes: float) -> str:
    return f"{num_bytes:.1f}" if num_bytes < 100 else f"{num_bytes:.0f}"


def python_dict(num_keys: int) -> tuple[str, ...]:
    """Do the same with tuples in a dict, keyed by 16 bytes."""
    rng = np.random.default_rng(1)
    texts = [int(n).to_bytes(16, "little") for n in rng.permutation(num_keys)]
    picked = rng.integers(0, num_keys, UPDATES).tolist()
    before = resident_bytes()
    table: dict[bytes, tuple[int, int, int]] = {}

    def put(keys: list[bytes], comparison: int) -> None:
        for doc, key in enumerate(keys):
            old = table.get(key)
            if old is None or comparison >= old[2]:
                table[key] = (0, doc, comparison)

    inserted = rate(num_keys, lambda: put(texts, 0))
    grown = resident_bytes() - before + num_keys * 49  # the keys themselves: bytes objects of 16
    updated = rate(UPDATES, lambda: put([texts[i] for i in picked], 1))
    return f"{inserted:.1f}", f"{updated:.1f}", _size(grown / num_keys), ""


def duckdb_table(num_keys: int) -> tuple[str, ...]:
    """Measure INSERT … ON CONFLICT in batches."""
    rng = np.random.default_rng(1)
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE t (k UBIGINT PRIMARY KEY, doc BIGINT, c BIGINT)")
    before = resident_bytes()

    def put(numbers: "np.ndarray[tuple[int], np.dtype[np.uint64]]", comparison: int) -> None:
        for start in range(0, len(numbers), BATCH):
            part = numbers[start : start + BATCH]
            rows = pl.DataFrame({"k": part, "doc": np.arange(len(part))}).unique("k", keep="last").to_arrow()
            connection.register("rows", rows)
            connection.execute(
                f"INSERT INTO t SELECT k, doc, {comparison} FROM rows ON CONFLICT (k) DO UPDATE "
                "SET doc = excluded.doc, c = excluded.c WHERE excluded.c >= t.c"
            )

    inserted = rate(num_keys, lambda: put(rng.permutation(num_keys).astype(np.uint64), 0))
    grown = resident_bytes() - before
    picked = rng.integers(0, num_keys, UPDATES // 10).astype(np.uint64)
    updated = rate(len(picked), lambda: put(picked, 1))
    return f"{inserted:.1f}", f"{updated:.1f}", _size(grown / num_keys), ""


def polars_update(num_keys: int) -> tuple[str, ...]:
    """Measure `DataFrame.update` by key, which copies the table, so in one batch of all updates."""
    rng = np.random.default_rng(1)
    before = resident_bytes()
    table = pl.DataFrame(
        {"k": rng.permutation(num_keys).astype(np.uint64), "doc": np.arange(num_keys), "c": np.zeros(num_keys)}
    )
    grown = resident_bytes() - before
    picked = pl.DataFrame(
        {"k": rng.integers(0, num_keys, UPDATES).astype(np.uint64), "doc": np.arange(UPDATES), "c": np.ones(UPDATES)}
    )
    updated = rate(UPDATES, lambda: (table.update(picked.unique("k", keep="last"), on="k", how="full"), None)[1])
    return "", f"{updated:.1f}", _size(grown / num_keys), ""


def main() -> None:
    """Measure each index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=KEYS)
    arguments = report.arguments_of(parser)
    keys, tenth = arguments.keys, arguments.keys // 10
    cases = _cases(keys)
    found = report.Report("upsert_index", report.Shape(SHAPES["upsert_index"].headings, cases))
    measured = (gamay_index(keys), gamay_index(tenth), python_dict(tenth), duckdb_table(tenth), polars_update(tenth))
    for case, cells in zip(cases, measured, strict=True):
        found.add(case, *cells)
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()

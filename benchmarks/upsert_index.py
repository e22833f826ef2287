"""The primary-key index: upserts a second and bytes a key, beside a dict, Polars and DuckDB in the same run.

    python -m benchmarks.upsert_index [--keys 10000000]

Rates are by processor time. Bytes a key are what the process has grown by, divided by the number of keys.
"""

import argparse
import gc
import time
from collections.abc import Callable

import duckdb
import numpy as np
import polars as pl

from gamay.kernels.keys.table import mix128
from gamay.upsert.index.key_index import NO_TEXT, KeyIndex, Keys, Rules

BATCH = 50_000
UPDATES = 2_000_000


def resident_bytes() -> int:
    """Return the bytes of this process that are in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def keys_of(numbers: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> Keys:
    """Return 128-bit keys, as a hash function leaves them."""
    hashes, lows = np.empty(len(numbers), np.uint64), numbers * np.uint64(0x9E3779B97F4A7C15)
    mix128(numbers, lows, hashes)
    return Keys(3, hashes, lows, *NO_TEXT)


def rate(rows: int, action: Callable[[], None]) -> float:
    """Return millions of rows a second of processor time."""
    begun = time.process_time()
    action()
    return rows / (time.process_time() - begun) / 1e6


def gamay_index(num_keys: int) -> None:
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
    print(
        f"gamay   {inserted:6.2f} M inserts/s  {updated:6.2f} M updates/s  {grown / num_keys:6.1f} B/key"
        f"  longest batch of {BATCH:,}: {longest * 1000:.0f} ms"
    )


def python_dict(num_keys: int) -> None:
    """The same with tuples in a dict, keyed by 16 bytes."""
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
    print(f"dict    {inserted:6.2f} M inserts/s  {updated:6.2f} M updates/s  {grown / num_keys:6.1f} B/key")


def duckdb_table(num_keys: int) -> None:
    """INSERT … ON CONFLICT in batches."""
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
    print(f"duckdb  {inserted:6.2f} M inserts/s  {updated:6.2f} M updates/s  {grown / num_keys:6.1f} B/key  (64-bit keys)")


def polars_update(num_keys: int) -> None:
    """`DataFrame.update` by key, which copies the table, so in one batch of all updates."""
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
    print(
        f"polars  {'-':>6} M inserts/s  {updated:6.2f} M updates/s  {grown / num_keys:6.1f} B/key  (64-bit keys, one batch)"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    num_keys = parser.parse_args().keys
    gamay_index(num_keys)
    gamay_index(num_keys // 10)
    python_dict(num_keys // 10)
    duckdb_table(num_keys // 10)
    polars_update(num_keys // 10)

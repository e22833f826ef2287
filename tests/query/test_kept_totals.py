"""Cached totals over all valid rows, while these change between queries: against DuckDB and against uncached ones."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.groupby import kept
from gamay.segment.read.reader import open_segment
from gamay.segment.read.visible import VisibleSegment
from gamay.segment.write.builder import SegmentBuilder
from gamay.upsert.rows.valid_docs import SegmentDocs

QUERIES = (
    "SUM(kind), MIN(kind), MAX(kind), COUNT(*), AVG(kind)",
    "MIN(day), MAX(day)",
    "SUM(day), COUNT(day)",
    "SUM(price), MIN(price), MAX(price)",
    "COUNT(*), SUM(kind) FILTER (WHERE day > 3), SUM(kind)",
)
SIZES = (300, 90)
CONNECTION = duckdb.connect(config={"threads": 1})
SETTINGS = settings(max_examples=30, deadline=None)


def seen_of(table: Any, docs: Sequence[SegmentDocs]) -> Any:
    """The table as a query sees it now."""
    return replace(table, segments=[VisibleSegment(s, d.snapshot()) for s, d in zip(table.segments, docs, strict=True)])


def by_duckdb(columns: str, docs: Sequence[SegmentDocs]) -> list[tuple[Any, ...]]:
    """Return the result for the valid rows, given by their numbers; row i has the values of the fixtures."""
    first, numbers = 0, []
    for size, one in zip(SIZES, docs, strict=True):
        numbers.append(first + one.snapshot().docs.astype(np.int64))
        first += size
    CONNECTION.register("numbers", {"i": np.concatenate(numbers)})
    rows = CONNECTION.execute(
        f"SELECT {columns} FROM (SELECT i // 10 AS day, i % 4 AS kind, i / 2 AS price FROM numbers)"
    ).fetchall()
    return [tuple(map(float, row)) for row in rows]


@pytest.fixture(scope="module")
def two_segments(build_table: Any) -> Any:
    """The table of the fixtures, in two segments."""
    return build_table(SIZES, no_dictionary_columns=("price",))


CHANGES = st.lists(
    st.tuples(st.integers(0, 1), st.booleans(), st.lists(st.integers(0, 299), max_size=12)), min_size=1, max_size=12
)


@given(changes=CHANGES, which=st.integers(0, len(QUERIES) - 1))
@SETTINGS
def test_totals_follow_the_rows_that_count(two_segments: Any, changes: list[Any], which: int) -> None:
    table = two_segments
    docs = [SegmentDocs(size, has_deletes=False) for size in SIZES]
    for size, one in zip(SIZES, docs, strict=True):
        one.add(np.arange(1, size))
    sql = f"SELECT {QUERIES[which]} FROM trips"
    for number, come, rows in changes:
        chosen = np.unique([row % SIZES[number] for row in rows]).astype(np.int64)
        seen_of(table, docs).answer(sql)
        (docs[number].add if come else docs[number].remove)(chosen)
        seen = seen_of(table, docs)
        first, again = seen.answer(sql), seen.answer(sql)
        assert first.table.rows() == again.table.rows()
        assert first.stats.num_docs_scanned == again.stats.num_docs_scanned
        for segment in table.segments:
            segment.kept.clear()
        assert repr(first.table.rows()) == repr(seen.rows(sql))
        assert [tuple(map(float, row)) for row in first.table.rows()] == by_duckdb(QUERIES[which], docs)


@pytest.mark.parametrize("raw", [(), ("a",)])
def test_what_nulls_leave_out_is_kept_apart(tmp_path: Path, build_table: Any, raw: tuple[str, ...]) -> None:
    size, rng = 2000, np.random.default_rng(3)
    schema = Schema("trips", (FieldSpec("a", DataType.LONG),))
    config = TableConfig.offline("trips", indexing=IndexingConfig(null_handling_enabled=True, no_dictionary_columns=raw))
    builder = SegmentBuilder(schema, config, "trips_0", tmp_path)
    numbers = pa.array(np.arange(5, size + 5), mask=rng.random(size) < 0.3)
    builder.append(pa.RecordBatch.from_arrays([numbers], names=["a"]))
    table = replace(build_table([1]), schema=schema, segments=[open_segment(builder.build())])
    docs = SegmentDocs(size, has_deletes=False)
    docs.add(np.arange(1, size))
    counted = "COUNT(a), SUM(a), MIN(a), MAX(a), AVG(a)"
    queries = [f"SET enableNullHandling={mode}; SELECT {counted} FROM trips" for mode in ("true", "false")]
    for _ in range(6):
        seen = seen_of(table, [docs])
        found = [seen.rows(sql) for sql in queries * 2]
        table.segments[0].kept.clear()
        assert found[:2] == found[2:]
        assert found[1] == seen.rows(queries[1])
        table.segments[0].kept.clear()
        assert found[0] == seen.rows(queries[0])
        assert found[0] != found[1]
        docs.remove(np.unique(rng.integers(1, size, 9)))


def test_few_changes_read_few_rows(build_table: Any, monkeypatch: Any) -> None:
    table, docs = build_table([300, 90]), [SegmentDocs(300, has_deletes=False), SegmentDocs(90, has_deletes=False)]
    for one in docs:
        one.add(np.arange(1, one.num_docs))
    sql = "SELECT SUM(kind), MIN(day), MAX(day), COUNT(*) FROM trips"

    def entries() -> int:
        return int(seen_of(table, docs).answer(sql).stats.num_entries_scanned_post_filter)

    assert entries() > 0
    assert entries() == 0
    docs[0].remove(np.array([100, 101]))
    docs[1].remove(np.array([50]))
    assert entries() == 0
    docs[0].remove(np.arange(1, 12))  # the rows that made the minimum
    assert entries() > 0
    monkeypatch.setattr(kept, "_CHANGES_MIN", 3)
    docs[0].remove(np.arange(120, 130))
    assert entries() > 0
    assert entries() == 0
    assert table.rows(sql)[0][3] == 390, "without upsert all rows count"


def test_answers_while_rows_cease_to_count(build_table: Any) -> None:
    table = build_table([2000])
    docs = SegmentDocs(2000, has_deletes=False)
    docs.add(np.arange(2000))
    done, wrong, answers = threading.Event(), [], []
    kinds = np.arange(2000) % 4

    def ask() -> None:
        while not done.is_set():
            snapshot = docs.snapshot()
            seen = replace(table, segments=[VisibleSegment(table.segments[0], snapshot)])
            found = seen.rows("SELECT SUM(kind), COUNT(*), MAX(day) FROM trips")[0]
            answers.append(found)
            flags = snapshot.mask
            expected = (kinds[flags].sum(), flags.sum(), (np.flatnonzero(flags) // 10).max())
            if tuple(map(float, found)) != tuple(map(float, expected)):
                wrong.append((found, expected))

    readers = [threading.Thread(target=ask) for _ in range(3)]
    for reader in readers:
        reader.start()
    rng = np.random.default_rng(5)
    while len(answers) < 600:
        (docs.add if rng.random() < 0.4 else docs.remove)(np.unique(rng.integers(1, 2000, 9)))
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong

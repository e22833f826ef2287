"""Queries on segments with invalid rows, against segments that contain only the valid rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gamay.segment.read.visible import VisibleDocs, VisibleSegment

QUERIES = [
    "SELECT COUNT(*) FROM trips",
    "SELECT COUNT(*), MIN(kind), MAX(price), SUM(price), DISTINCTCOUNT(city) FROM trips",
    "SELECT MIN(day), MAX(day), AVG(price) FROM trips WHERE day BETWEEN 3 AND 9",
    "SELECT COUNT(*) FROM trips WHERE city = 'Oslo'",
    "SELECT COUNT(*) FROM trips WHERE city <> 'Oslo' AND kind IN (1, 2)",
    "SELECT COUNT(*) FROM trips WHERE NOT (price > 20) OR tags = 't1'",
    "SELECT COUNT(*) FROM trips WHERE price + kind > 30",
    "SELECT COUNT(*) FROM trips WHERE day = 5 AND price > 26",
    "SELECT COUNT(*) FILTER (WHERE kind = 1), SUM(price) FILTER (WHERE city = 'Rome'), COUNT(*) FROM trips",
    "SELECT COUNT(*) FILTER (WHERE kind = 1) FROM trips WHERE day < 8",
    "SELECT city, COUNT(*), SUM(kind) FROM trips GROUP BY city ORDER BY city",
    "SELECT kind, COUNT(*) FROM trips WHERE price < 30 GROUP BY kind ORDER BY kind",
    "SELECT DISTINCT city FROM trips ORDER BY city",
    "SELECT DISTINCT day FROM trips LIMIT 1000",
    "SELECT DISTINCTCOUNT(day), DISTINCTCOUNTHLL(price) FROM trips",
    "SELECT day, price FROM trips LIMIT 7",
    "SELECT price FROM trips ORDER BY price DESC LIMIT 5",
    "SELECT day, price FROM trips ORDER BY day, price DESC LIMIT 9",
    "SELECT price FROM trips WHERE kind = 3 LIMIT 1000",
    "SELECT tags, COUNT(*) FROM trips GROUP BY tags ORDER BY tags",
    "SET enableNullHandling = true; SELECT COUNT(city), MIN(price), COUNT(*) FROM trips",
    "SET enableNullHandling = true; SELECT COUNT(*) FROM trips WHERE city IS NULL",
    "SELECT COUNT(*) FROM trips WHERE price > 1e9",
]


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("indexed", [False, True])
def test_rows_that_do_not_count_are_not_seen(build_table: Any, share: float, indexed: bool) -> None:
    indexes = {"inverted_index_columns": ("city",), "range_index_columns": ("price",)} if indexed else {}
    table = build_table([120, 1, 90], **indexes)
    rng = np.random.default_rng(int(share * 100))
    masks = [rng.random(segment.num_docs) < share for segment in table.segments]
    visible = [
        VisibleSegment(segment, VisibleDocs(np.packbits(mask, bitorder="little"), len(mask)))
        for segment, mask in zip(table.segments, masks, strict=True)
    ]
    expected = build_table([120, 1, 90], masks=masks, **indexes)
    seen = replace(table, segments=visible)
    for sql in QUERIES:
        one, other = seen.answer(sql), expected.answer(sql)
        assert one.table is not None
        assert other.table is not None
        assert sorted(map(repr, one.table.rows())) == sorted(map(repr, other.table.rows())), sql
        assert one.stats.num_docs_scanned == other.stats.num_docs_scanned, sql


def test_a_view_of_more_rows_than_were_told_of() -> None:
    docs = VisibleDocs(np.array([0b10110], np.uint8), 6)
    assert docs.docs.tolist() == [1, 2, 4]
    assert docs.upto(9).mask.tolist() == [False, True, True, False, True, False, False, False, False]
    assert docs.upto(2).docs.tolist() == [1]
    assert (docs.count, docs.upto(2).count, sorted(docs.bitmap())) == (3, 1, [1, 2, 4])


def test_rows_are_counted_in_the_bits() -> None:
    rng = np.random.default_rng(1)
    for num_bytes in (0, 1, 7, 8, 9, 16, 25):
        bits = rng.integers(0, 256, num_bytes).astype(np.uint8)
        for num_docs in (0, 1, 8, 63, 64, 65, 127, 128, 200, 300):
            docs = VisibleDocs(bits, num_docs)
            flags = [bool(bits[d >> 3] >> (d & 7) & 1) if d >> 3 < num_bytes else False for d in range(num_docs)]
            assert docs.mask.tolist() == flags
            assert docs.count == sum(flags)


def test_explain_names_the_rows_that_count(build_table: Any) -> None:
    table = build_table([20])
    visible = VisibleSegment(table.segments[0], VisibleDocs(np.array([255], np.uint8), 20))
    rows = replace(table, segments=[visible]).rows("EXPLAIN PLAN FOR SELECT COUNT(*) FROM trips")
    assert any("validDocIds" in row[0] for row in rows) or any("AGGREGATE_NO_SCAN" in row[0] for row in rows)

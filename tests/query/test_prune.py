"""Pruning keeps every segment with a matching row, drops those that clearly have none, and is fast."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.bind.predicate import And, Filter, In, Not, Or, Range
from gamay.query.prune.by_records import PruningTable, SegmentRecordStats
from gamay.segment.encode.partition import partition_function
from gamay.segment.spi import PartitionInfo
from gamay.sql.parser import parse_query

SCHEMA = Schema(
    "t",
    (
        FieldSpec("n", DataType.LONG),
        FieldSpec("d", DataType.DOUBLE),
        FieldSpec("s", DataType.STRING),
        FieldSpec("m", DataType.INT, single_value=False),
        FieldSpec("key", DataType.STRING),
        FieldSpec("price", DataType.BIG_DECIMAL),
    ),
)


def kept(table: PruningTable, where: str) -> list[int]:
    """Return the positions of the segments that a filter leaves."""
    return np.flatnonzero(table.prune(bind(parse_query(f"SELECT COUNT(*) FROM t WHERE {where}"), SCHEMA))).tolist()


def record(index: int, **columns: tuple[Any, Any]) -> SegmentRecordStats:
    """Return a record with the bounds of some columns."""
    return SegmentRecordStats(f"t_{index}", 10, {name: (*bounds, None) for name, bounds in columns.items()})


RECORDS = [
    record(0, n=(0, 9), s=("a", "c"), d=(0.5, 1.5), m=(1, 5)),
    record(1, n=(10, 19), s=("d", "f"), d=(1.5, float("inf")), m=(3, 3)),
    record(2, n=(20, 29), s=("c", "c"), d=(2.0, float("nan"))),
    record(3, s=("z", "ß")),
    SegmentRecordStats("consuming", None, {}),
    SegmentRecordStats("empty", 0, {}),
]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("n = 15", [1, 3, 4]),
        ("n IN (5, 25, 99)", [0, 2, 3, 4]),
        ("n BETWEEN 9 AND 10", [0, 1, 3, 4]),
        ("n > 19", [2, 3, 4]),
        ("n >= 19", [1, 2, 3, 4]),
        ("n < 10 OR s = 'e'", [0, 1, 3, 4]),
        ("n < 10 AND s = 'e'", [4]),
        ("NOT (n < 10)", [1, 2, 3, 4]),
        ("s <> 'c'", [0, 1, 3, 4]),
        ("s = 'bb'", [0, 4]),
        ("s > 'cc'", [1, 3, 4]),
        ("s LIKE 'q%'", [0, 1, 2, 3, 4]),
        ("d > 3", [1, 2, 3, 4]),
        ("d > 1.5", [1, 2, 3, 4]),
        ("NOT (d >= 1.5)", [0, 3, 4]),
        ("m <> 3", [0, 2, 3, 4]),
        ("m > 5", [2, 3, 4]),
        ("n = 5.5", []),
        ("1 = 1", [0, 1, 2, 3, 4]),
    ],
)
def test_bounds_prune(where: str, expected: list[int]) -> None:
    assert kept(PruningTable.build(RECORDS), where) == expected


def test_partitions_prune_equality_and_in() -> None:
    function = partition_function("Murmur", 4, {})
    records = [
        SegmentRecordStats(f"p{p}", 10, {"key": (None, None, PartitionInfo("Murmur", 4, (p,), {}))}) for p in range(4)
    ]
    table = PruningTable.build([*records, record(4, n=(0, 1))])
    for word in ("a", "b", "Zürich", ""):
        assert kept(table, f"key = '{word}'") == [function.partition_of(word), 4]
    assert kept(table, "key IN ('a', 'b')") == [*sorted({function.partition_of(w) for w in "ab"}), 4]
    assert kept(table, "key <> 'a'") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("column", "text", "literals"),
    [
        ("price", "7", ["7", "7.0", "'7.00'", "7e0"]),
        ("price", "-0.001", ["-0.001", "'-0.0010'", "-1e-3"]),
        ("price", "1000", ["1000", "1000.0", "'1E+3'"]),
        ("price", "0", ["-0.0", "0", "'0.00'"]),
        ("d", "0.0", ["-0.0", "0", "0.0"]),
        ("d", "1.0E10", ["1e10", "10000000000", "'10000000000.0'"]),
        ("n", "5", ["5", "5.0", "'5'"]),
    ],
)
def test_a_number_is_of_one_partition_however_it_is_written(column: str, text: str, literals: list[str]) -> None:
    function = partition_function("Murmur", 101, {})
    place = function.partition_of(text)
    records = [
        SegmentRecordStats(f"p{p}", 10, {column: (None, None, PartitionInfo("Murmur", 101, (p,), {}))}) for p in range(101)
    ]
    table = PruningTable.build(records)
    for literal in literals:
        assert kept(table, f"{column} = {literal}") == [place], literal
        assert place in kept(table, f"{column} IN ({literal}, 88)"), literal


VALUES = st.integers(-5, 5)
LEAVES = st.one_of(
    st.builds(lambda values: In("n", tuple(sorted(values))), st.sets(VALUES, min_size=1, max_size=3)),
    st.builds(lambda low, inclusive: Range("n", low, None, inclusive, False), VALUES, st.booleans()),
    st.builds(lambda high, inclusive: Range("n", None, high, False, inclusive), VALUES, st.booleans()),
)
FILTERS: st.SearchStrategy[Filter] = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.builds(lambda one, other: And((one, other)), part, part),
        st.builds(lambda one, other: Or((one, other)), part, part),
        st.builds(Not, part),
    ),
    max_leaves=6,
)


def holds(filter_: Filter, value: int) -> bool:
    """Evaluate a filter on one value of `n`."""
    if isinstance(filter_, In):
        return value in filter_.values
    if isinstance(filter_, Range):
        low, high = filter_.lower, filter_.upper
        above = low is None or value > low or (filter_.lower_inclusive and value == low)  # type: ignore[operator]
        return above and (high is None or value < high or (filter_.upper_inclusive and value == high))  # type: ignore[operator]
    if isinstance(filter_, Not):
        return not holds(filter_.part, value)
    assert isinstance(filter_, And | Or)
    return (all if isinstance(filter_, And) else any)(holds(part, value) for part in filter_.parts)


@settings(max_examples=200, deadline=None)
@given(FILTERS, st.lists(st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=5))
def test_a_segment_with_a_matching_row_is_never_pruned(filter_: Filter, segments: Sequence[Sequence[int]]) -> None:
    table = PruningTable.build([record(i, n=(min(rows), max(rows))) for i, rows in enumerate(segments)])
    bound = bind(parse_query("SELECT n FROM t WHERE n = 1"), SCHEMA)
    may, must = table._may(filter_, bound.fields), table._must(filter_, bound.fields)
    for i, rows in enumerate(segments):
        matching = [holds(filter_, value) for value in rows]
        assert may[i] or not any(matching)
        assert all(matching) or not must[i]


def test_a_hundred_thousand_segments_are_pruned_without_looking_at_each() -> None:
    starts = np.arange(100_000) * 10
    table = PruningTable.build([record(int(s), n=(int(s), int(s) + 9), s=(f"{s:07}", f"{s + 9:07}")) for s in starts])
    bound = bind(
        parse_query(
            "SELECT COUNT(*) FROM t WHERE n BETWEEN 5000 AND 5999 AND (s > '0005500' OR n IN (5001, 77)) AND NOT n > 5800"
        ),
        SCHEMA,
    )
    assert table.prune(bound).sum() == 32
    assert _calls(lambda: table.prune(bound)) < 2_000


def _calls(work: Callable[[], object]) -> int:
    """Return how many functions Python calls for some work, those of libraries included."""
    events: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, argument: events.update([event]))
    try:
        work()
    finally:
        sys.setprofile(None)
    return events["call"] + events["c_call"]


@pytest.mark.parametrize(
    ("where", "pruned"),
    [
        ("day = 2", 1),
        ("city = 'Paris'", 0),
        ("city = 'Aachen'", 2),
        ("kind IN (7, 9)", 2),
        ("NOT (day < 100)", 2),
        ("price > 19.5 AND day < 4", 2),
        ("tags = 't9'", 2),
    ],
)
def test_servers_prune_by_bounds(trips: Any, where: str, pruned: int) -> None:
    assert trips.answer(f"SELECT COUNT(*) FROM trips WHERE {where}").stats.num_segments_pruned_by_value == pruned


def test_servers_prune_by_bloom_filter(build_table: Any) -> None:
    table = build_table(bloom_filter_columns=("city", "kind"))
    assert table.answer("SELECT COUNT(*) FROM trips WHERE city = 'Paris'").stats.num_segments_pruned_by_value == 2
    assert table.rows("SELECT COUNT(*) FROM trips WHERE city IN ('Paris', 'Oslo')") == [(28,)]

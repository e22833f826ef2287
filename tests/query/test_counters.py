"""Every counter of an answer against a naive row-by-row count, over the same rows with different indexes."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

SIZES = (400, 0, 600, 900)
CITIES = ("Lima", "Oslo", "Rome")
Row = dict[str, Any]
Check = Callable[[Row], bool]


def rows_of(start: int, size: int) -> list[Row]:
    """Return the rows of a segment, as the table of `conftest` has them."""
    return [
        {
            "day": i // 10,
            "city": "null" if i % 7 == 0 else CITIES[i % 3],
            "kind": i % 4,
            "price": i / 2,
            "tags": (f"t{i % 3}", f"t{i % 5}"),
        }
        for i in range(start, start + size)
    ]


def segments() -> list[list[Row]]:
    """Return the rows of all segments."""
    starts = [sum(SIZES[:i]) for i in range(len(SIZES))]
    return [rows_of(start, size) for start, size in zip(starts, SIZES, strict=True)]


INDEXES: dict[str, dict[str, Any]] = {
    "scans": {},
    "inverted": {"inverted_index_columns": ("city", "kind", "tags")},
    "range": {"range_index_columns": ("kind", "price"), "no_dictionary_columns": ("price",)},
    "raw": {"no_dictionary_columns": ("city", "kind", "price")},
}
# columns that answer without reading rows; `day` and `price` ascend
INDEXED = {
    "scans": {"day", "price"},
    "inverted": {"day", "price", "city", "kind", "tags"},
    "range": {"day", "price"},
    "raw": {"day", "price"},
}


def leaf(rng: random.Random) -> tuple[str, str, Check]:
    """Return a random predicate: its column, its text, and a naive test."""
    kind = rng.randrange(6)
    if kind == 0:
        day = rng.randrange(200)
        return "day", f"day < {day}", lambda row: row["day"] < day
    if kind == 1:
        city = rng.choice(CITIES)
        return "city", f"city = '{city}'", lambda row: row["city"] == city
    if kind == 2:
        wanted = rng.sample(range(6), 2)
        return "kind", f"kind IN ({wanted[0]}, {wanted[1]})", lambda row: row["kind"] in wanted
    if kind == 3:
        low, high = sorted(rng.sample(range(1000), 2))
        return "price", f"price BETWEEN {low} AND {high}", lambda row: low <= row["price"] <= high
    if kind == 4:
        tag = f"t{rng.randrange(5)}"
        return "tags", f"tags = '{tag}'", lambda row: tag in row["tags"]
    return "city", "city <> 'Oslo'", lambda row: row["city"] != "Oslo"


@pytest.fixture(scope="module", params=sorted(INDEXES))
def indexed(request: pytest.FixtureRequest, build_table: Any) -> tuple[str, Any]:
    return request.param, build_table(SIZES, **INDEXES[request.param])


SELECTS: Sequence[tuple[str, int]] = [
    ("SELECT SUM(price), MAX(price), COUNT(*) FROM trips", 1),
    ("SELECT city, SUM(price), MAX(day) FROM trips", 3),
    ("SELECT kind, city, COUNT(*) FROM trips", 2),
    ("SELECT tags, AVG(price) FROM trips", 2),
]


@pytest.mark.parametrize("seed", range(25))
def test_counters_of_one_predicate_are_exact(indexed: tuple[str, Any], seed: int) -> None:
    name, table = indexed
    rng = random.Random(seed)
    column, text, check = leaf(rng)
    select, num_columns = rng.choice(SELECTS)
    keys = {2: " GROUP BY kind, city", 3: " GROUP BY city"}.get(num_columns, "")
    if select.startswith("SELECT tags"):
        keys = " GROUP BY tags"
    stats = table.answer(f"{select} WHERE {text}{keys}").stats
    matching = [sum(map(check, rows)) for rows in segments()]
    processed = stats.num_segments_processed
    assert stats.total_docs == sum(SIZES)
    assert stats.num_segments_queried == len(SIZES) == processed + stats.num_segments_pruned_by_server
    assert stats.num_segments_pruned_by_server == stats.num_segments_pruned_by_value + 1  # one segment is empty
    assert stats.num_segments_matched == sum(count > 0 for count in matching) <= processed
    assert stats.num_docs_scanned == sum(matching)
    assert stats.num_entries_scanned_post_filter == num_columns * sum(matching)
    values = 2 if column == "tags" else 1
    most = 0 if column in INDEXED[name] else values * sum(size for size in SIZES if size)
    undecided = [len(rows) for rows, found in zip(segments(), matching, strict=True) if 0 < found < len(rows)]
    least = values * sum(undecided) if most else 0
    assert least <= stats.num_entries_scanned_in_filter <= most


@pytest.mark.parametrize("seed", range(25))
def test_counters_of_several_predicates(indexed: tuple[str, Any], seed: int) -> None:
    _, table = indexed
    rng = random.Random(1000 + seed)
    (_, first, one), (_, second, two) = leaf(rng), leaf(rng)
    both = rng.random() < 0.5
    text = f"{first} {'AND' if both else 'OR'} {second}"
    every = segments()
    matching = [sum(1 for row in rows if (one(row) and two(row) if both else one(row) or two(row))) for rows in every]
    grouped = table.answer(f"SELECT city, SUM(price) FROM trips WHERE {text} GROUP BY city").stats
    assert (grouped.num_docs_scanned, grouped.num_entries_scanned_post_filter) == (sum(matching), 2 * sum(matching))
    assert grouped.num_segments_matched == sum(count > 0 for count in matching)
    assert grouped.num_entries_scanned_in_filter <= 4 * sum(SIZES)
    ordered = table.answer(f"SELECT city, price FROM trips WHERE {text} ORDER BY kind, price LIMIT 5").stats
    # few rows are put in order together, else those of each segment by itself
    kept = min(5, sum(matching)), sum(min(5, count) for count in matching)
    assert ordered.num_docs_scanned == sum(matching)
    assert ordered.num_entries_scanned_post_filter - 2 * sum(matching) in kept
    counted = table.answer(f"SELECT COUNT(*) FROM trips WHERE {text}").stats
    assert (counted.num_docs_scanned, counted.num_entries_scanned_post_filter) == (sum(matching), 0)


@pytest.mark.parametrize("limit", [1, 10, 399, 400, 401, 5000])
def test_a_selection_counts_the_rows_that_it_took(indexed: tuple[str, Any], limit: int) -> None:
    _, table = indexed
    stats = table.answer(f"SELECT day, city FROM trips WHERE kind <> 1 LIMIT {limit}").stats
    taken = min(limit, sum(row["kind"] != 1 for rows in segments() for row in rows))
    assert (stats.num_docs_scanned, stats.num_entries_scanned_post_filter) == (taken, 2 * taken)


def test_groups_beyond_the_limit_are_flagged(indexed: tuple[str, Any]) -> None:
    _, table = indexed
    assert not table.answer("SELECT day, COUNT(*) FROM trips GROUP BY day").stats.num_groups_limit_reached
    stats = table.answer("SET numGroupsLimit = 3; SELECT day, COUNT(*) FROM trips GROUP BY day").stats
    assert stats.num_groups_limit_reached
    assert stats.num_docs_scanned == sum(SIZES)


@pytest.mark.parametrize("seed", range(25))
def test_filter_clauses_read_each_value_once(indexed: tuple[str, Any], seed: int) -> None:
    """They narrow WHERE where all aggregates have one, and what WHERE has read for that is not read again."""
    name, table = indexed
    rng = random.Random(2000 + seed)
    leaves = {text: (column, check) for column, text, check in (leaf(rng) for _ in range(rng.randrange(2, 4)))}
    aggregates = rng.choice(["COUNT(*)", "SUM(price)", "MAX(day)", "DISTINCTCOUNT(city)"])
    clauses = [f"{aggregates} FILTER (WHERE {text})" for text in leaves]
    clauses += [f"AVG(price) FILTER (WHERE {rng.choice(list(leaves))} AND day >= 3)"] * rng.randrange(2)
    stats = table.answer(f"SELECT {', '.join(clauses)} FROM trips").stats
    least = most = 0
    for column, check in leaves.values():
        if column not in INDEXED[name]:
            values = 2 if column == "tags" else 1
            every = [(len(rows), sum(map(check, rows))) for rows in segments()]
            most += values * sum(size for size, _ in every)
            least += values * sum(size for size, found in every if 0 < found < size)
    assert least <= stats.num_entries_scanned_in_filter <= most, clauses

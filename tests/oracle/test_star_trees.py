"""Star-trees give the answers of DuckDB and of the segments they were built from: random trees, rows and queries by seed."""

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from tests.seeds import chunks, count_of

import gamay
from gamay.embedded.database import Database
from gamay.query.prepared.star_trees import PreparedTrees

DIMENSIONS = ("city", "browser", "day", "raw", "flag")
SCHEMA = {
    "dimensionFieldSpecs": [
        {"name": "city", "dataType": "STRING"},
        {"name": "browser", "dataType": "STRING"},
        {"name": "day", "dataType": "INT"},
        {"name": "raw", "dataType": "LONG"},
        {"name": "flag", "dataType": "BOOLEAN"},
        {"name": "user", "dataType": "INT"},
        {"name": "ts", "dataType": "TIMESTAMP"},
    ],
    "metricFieldSpecs": [{"name": "price", "dataType": "DOUBLE"}, {"name": "qty", "dataType": "LONG"}],
}
PAIRS = [
    "SUM__price", "SUM__qty", "MIN__price", "MAX__price", "MIN__qty", "MAX__qty", "AVG__price", "MINMAXRANGE__qty",
    "SUM__price*qty", "DISTINCTCOUNTBITMAP__user", "COUNT__*",
]  # fmt: skip
_DAY_MS = 86_400_000


def rows(rng: random.Random, count: int) -> pd.DataFrame:
    """Return rows with skewed values, some of them null."""

    def some(values: Sequence[Any], nulls: float = 0.0) -> list[Any]:
        return [
            None if rng.random() < nulls else values[min(int(rng.expovariate(0.4)), len(values) - 1)] for _ in range(count)
        ]

    return pd.DataFrame(
        {
            "city": some([f"c{i}" for i in range(12)]),
            "browser": some(["firefox", "chrome", "", "Ünï"], nulls=0.02),
            "day": some(range(30)),
            "raw": some([1 << 40, -5, 0, 7]),
            "flag": [rng.random() < 0.5 for _ in range(count)],
            "user": [rng.randrange(200) for _ in range(count)],
            "ts": [pd.Timestamp(rng.randrange(20 * _DAY_MS), unit="ms") for _ in range(count)],
            "price": [round(rng.uniform(-50, 50), 2) for _ in range(count)],
            "qty": [rng.randrange(-(1 << 20), 1 << 20) for _ in range(count)],
        }
    )


def trees(rng: random.Random) -> list[dict[str, Any]]:
    """Return one or two random trees."""
    made = []
    for _ in range(rng.randint(1, 2)):
        dimensions = rng.sample([*DIMENSIONS, "dateTrunc('DAY', ts)", "upper(city)"], rng.randint(2, 5))
        made.append(
            {
                "dimensionsSplitOrder": dimensions,
                "skipStarNodeCreationForDimensions": rng.sample(dimensions, rng.choice([0, 0, 1])),
                "functionColumnPairs": rng.sample(PAIRS, rng.randint(4, len(PAIRS))),
                "maxLeafRecords": rng.choice([1, 10, 100]),
                "maxSizeRatio": rng.choice([0.3, 3.0, 100.0]),
            }
        )
    return made


def literal(rng: random.Random, column: str) -> str:
    if column == "city":
        return f"'c{rng.randrange(14)}'"
    if column == "browser":
        return rng.choice(["'firefox'", "'chrome'", "''", "'Ünï'", "'none'"])
    if column == "flag":
        return rng.choice(["true", "false"])
    return str(rng.randrange(-1, 31)) if column == "day" else rng.choice(["-5", "0", "7", str(1 << 40), "3"])


def condition(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.4:
        parts = [condition(rng, depth - 1) for _ in range(rng.randint(2, 3))]
        return f"({rng.choice([' AND ', ' OR ']).join(parts)})"
    if rng.random() < 0.1:
        return f"NOT {condition(rng, 0)}"
    column = rng.choice(DIMENSIONS)
    if column in ("day", "raw") and rng.random() < 0.5:
        low, high = sorted([int(literal(rng, column)), int(literal(rng, column))])
        return rng.choice([f"{column} BETWEEN {low} AND {high}", f"{column} > {low}", f"{column} <= {high}"])
    if column == "city" and rng.random() < 0.3:
        return rng.choice(["city LIKE 'c1%'", "upper(city) = 'C3'"])
    if column == "browser" and rng.random() < 0.2:
        return "browser IS NOT NULL"
    if rng.random() < 0.3:
        return f"{column} IN ({', '.join(literal(rng, column) for _ in range(3))})"
    return f"{column} {rng.choice(['=', '=', '<>'])} {literal(rng, column)}"


AGGREGATES = (
    "COUNT(*)", "SUM(price)", "SUM(qty)", "MIN(price)", "MAX(price)", "MIN(qty)", "MAX(qty)", "AVG(price)",
    "MAX(qty) - MIN(qty)", "SUM(price * qty)", "COUNT(DISTINCT user)",
)  # fmt: skip


def query(rng: random.Random) -> str:
    """Return a query of the table `T`, each of whose rows is one group."""
    keys = rng.sample([*DIMENSIONS, "upper(city)", "day % 7", "date_trunc('DAY', ts)"], rng.choice([0, 1, 1, 2, 3]))
    chosen = rng.sample(AGGREGATES, rng.randint(1, 3))
    if rng.random() < 0.2:
        chosen.append(f"SUM(qty) FILTER (WHERE {condition(rng, 0)})")
    where = f" WHERE {condition(rng)}" if rng.random() < 0.7 else ""
    having = " HAVING COUNT(*) > 3" if keys and rng.random() < 0.2 else ""
    if keys and rng.random() < 0.15:
        return f"SELECT DISTINCT {', '.join(keys)} FROM T{where} LIMIT 100000"
    group_by = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, *chosen])} FROM T{where}{group_by}{having} LIMIT 100000"


def in_gamay(text: str, table: str) -> str:
    text = text.replace("FROM T", f"FROM {table}").replace("date_trunc('DAY', ts)", "dateTrunc('DAY', ts)")
    return text.replace("COUNT(DISTINCT user)", "DISTINCTCOUNTBITMAP(user)").replace("day % 7", "mod(day, 7)")


def in_duckdb(text: str) -> str:
    return text.replace("(user)", '("user")').replace("DISTINCT user", 'DISTINCT "user"')


def comparable(values: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return rows in one order, numbers as floats, times as milliseconds."""

    def plain(value: Any) -> Any:
        if isinstance(value, pd.Timestamp) or hasattr(value, "timestamp"):
            return float(pd.Timestamp(value).tz_localize(None).value // 1_000_000)
        return float(value) if isinstance(value, int | float) or hasattr(value, "as_tuple") else value

    return sorted((tuple(map(plain, row)) for row in values), key=lambda row: [(v is None, str(v)) for v in row])


def difference(ours: Sequence[Sequence[Any]], theirs: Sequence[Sequence[Any]]) -> str:
    """Return where two answers differ; an empty text where they do not."""

    def same(one: Any, other: Any) -> bool:
        if isinstance(one, float) and isinstance(other, float):
            return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
        return bool(one == other)

    if len(ours) != len(theirs):
        return f"{len(ours)} rows, expected {len(theirs)}"
    for a, b in zip(comparable(ours), comparable(theirs), strict=True):
        if not all(map(same, a, b)):
            return f"{a}, expected {b}"
    return ""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with gamay.connect(tmp_path_factory.mktemp("trees")) as opened:
        yield opened


@pytest.mark.parametrize("seeds", chunks(count_of("GAMAY_STAR_TREES", 6), 3))
def test_random_trees_answer_random_queries(db: Database, seeds: range) -> None:
    used = asked = 0
    for seed in seeds:
        rng = random.Random(f"star-tree {seed}")
        table = f"t{seed}"
        indexing = {"starTreeIndexConfigs": trees(rng), "noDictionaryColumns": ["raw"], "nullHandlingEnabled": True}
        config = {"tableIndexConfig": indexing}
        pieces = [rows(rng, rng.choice([1, 200, 900])) for _ in range(3)]
        db.create_table(table, pieces[0], SCHEMA, config)
        for piece in pieces[1:]:
            db.append(table, piece)
        frame = pd.concat(pieces)
        duck = duckdb.connect()
        duck.register("T", frame)
        for _ in range(60):
            text = query(rng)
            for null_handling in (True, False):
                ours = db.sql(in_gamay(text, table), enableNullHandling=null_handling)
                scanned = db.sql(in_gamay(text, table), enableNullHandling=null_handling, useStarTree=False)
                what = f"seed {seed}, {config}, null handling {null_handling}: {text}"
                assert not (wrong := difference(ours.rows(), scanned.rows())), f"{wrong}: {what}"
                used += ours.stats.num_docs_scanned < scanned.stats.num_docs_scanned
                asked += 1
                if null_handling:
                    theirs = duck.execute(in_duckdb(text)).fetchall()
                    assert not (wrong := difference(ours.rows(), theirs)), f"{wrong}: {what}"
        db.drop_table(table)
    assert used > asked // 20, (used, asked)


SHAPES = (
    "SELECT city, SUM(qty), COUNT(*) FROM T WHERE day BETWEEN {day} AND {other} GROUP BY city ORDER BY city LIMIT 100000",
    "SELECT SUM(qty), AVG(price), MAX(price) FROM T WHERE browser = {browser} AND city IN ({city}, {city})",
    "SELECT browser, day, SUM(price) FROM T WHERE city = {city} AND day < {day} GROUP BY browser, day LIMIT 100000",
    "SELECT day, city, MIN(qty) FROM T WHERE raw IN ({raw}, {raw}) GROUP BY day, city ORDER BY 3 DESC, 1, 2 LIMIT 5",
    "SELECT city, COUNT(*), SUM(qty) FROM T WHERE browser = {browser} GROUP BY city HAVING COUNT(*) > 3 ORDER BY SUM(qty)",
    "SELECT browser, COUNT(DISTINCT user) FROM T WHERE day >= {day} AND flag = {flag} GROUP BY browser ORDER BY browser",
    "SELECT dateTrunc('DAY', ts), SUM(qty) FROM T WHERE city = {city} GROUP BY 1 ORDER BY 1 LIMIT 7 OFFSET 2",
    "SELECT city, SUM(price * qty) / COUNT(*) FROM T WHERE city <> {city} GROUP BY city ORDER BY city",
    "SELECT upper(city), MAX(qty) - MIN(qty) FROM T WHERE raw = {raw} OR day = {day} GROUP BY upper(city) ORDER BY 1",
    "SELECT flag, SUM(qty) FILTER (WHERE day > {day}) FROM T WHERE city > {city} GROUP BY flag ORDER BY flag",
)
COUNTERS = (
    "num_docs_scanned", "total_docs", "num_entries_scanned_in_filter", "num_entries_scanned_post_filter",
    "num_segments_queried", "num_segments_processed", "num_segments_matched", "num_segments_pruned_by_server",
    "num_segments_pruned_by_value", "num_segments_pruned_by_broker",
)  # fmt: skip
ALL_PAIRS = {
    "dimensionsSplitOrder": ["day", "city", "browser", "raw", "flag", "dateTrunc('DAY', ts)", "upper(city)"],
    "functionColumnPairs": PAIRS,
    "maxLeafRecords": 1,
    "maxSizeRatio": 100.0,
}


def filled(rng: random.Random, shape: str) -> str:
    """Return a query of a shape with literals, some of which match no row."""
    text = shape.replace("{other}", str(rng.randrange(31)))
    for column in ("city", "browser", "day", "raw", "flag"):
        while f"{{{column}}}" in text:
            text = text.replace(f"{{{column}}}", literal(rng, column), 1)
    return text


@pytest.mark.parametrize("null_handling", [True, False])
def test_queries_of_known_shapes_answer_as_others_do(
    tmp_path: Path, null_handling: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = 0
    of_trees = PreparedTrees.answer

    def counted(*arguments: Any) -> Any:
        nonlocal answered
        found = of_trees(*arguments)
        answered += found is not None
        return found

    monkeypatch.setattr(PreparedTrees, "answer", counted)
    rng = random.Random("shapes")
    with gamay.connect(tmp_path) as db:
        db.settings.null_handling = null_handling
        # the last segment of `mixed` has no tree: none would be smaller
        for table, counts in (("whole", (3000, 4000, 2500)), ("mixed", (2000, 2000, 1))):
            pieces = [rows(rng, count).fillna({"browser": "none"}) for count in counts]
            for piece in pieces:  # so that rows share records
                piece["day"] %= 5
                piece["ts"] = piece["ts"].dt.floor("4D")
            db.create_table(table, pieces[0], SCHEMA, {"tableIndexConfig": {"starTreeIndexConfigs": [ALL_PAIRS]}})
            for piece in pieces[1:]:
                db.append(table, piece)
            before, asked = answered, 0
            for shape in SHAPES:
                for _ in range(6):
                    text = filled(rng, in_gamay(shape, table))
                    ours = db.sql(text)
                    # an option makes a query go the ordinary way
                    ordinary, scanned = db.sql(text, timeoutMs=20_000), db.sql(text, useStarTree=False)
                    assert ours.rows() == ordinary.rows(), text
                    for counter in COUNTERS:
                        assert getattr(ours.stats, counter) == getattr(ordinary.stats, counter), (counter, text)
                    if "LIMIT 5" not in shape:  # among equal ones any may come first
                        assert not (wrong := difference(ours.rows(), scanned.rows())), f"{wrong}: {text}"
                    asked += 1
            # shapes without a tree, constant conditions, and the first query of each shape go the ordinary way
            assert (answered - before > asked // 3) == (table == "whole"), (table, answered - before, asked)

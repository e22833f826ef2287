"""lookUp against DuckDB's LEFT JOIN, its errors, and dimension tables that change while queries run."""

import itertools
import random
import re
import threading
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.dimension_tables import dimension_config

import gamay
from gamay.base.errors import QueryError
from gamay.embedded.database import Database

_TYPES = {"INT": pa.int32(), "LONG": pa.int64(), "STRING": pa.string(), "DOUBLE": pa.float64()}
_LOWEST = -(2**63)


def schema(name: str, keys: dict[str, str], others: dict[str, str]) -> dict[str, Any]:
    fields = [
        {"name": n, "dataType": t.rstrip("[]"), "singleValueField": "[" not in t} for n, t in {**keys, **others}.items()
    ]
    return {"schemaName": name, "primaryKeyColumns": list(keys), "dimensionFieldSpecs": fields}


class World:
    """Places by id, prices by two keys, and sales that refer to them."""

    def __init__(self, database: Database) -> None:
        rng = random.Random(5)
        self.database = database
        others = {"name": "STRING", "people": "LONG", "tags": "STRING[]"}
        database.create_table("places", schema=schema("places", {"id": "INT"}, others), config=dimension_config("places"))
        ids = rng.sample(range(400), 300)
        places = pa.table(
            {
                "id": pa.array(ids, pa.int32()),
                "name": [rng.choice(["Oslo", "Lima", "Łódź", None]) for _ in ids],
                "people": pa.array([rng.randrange(1000) for _ in ids], pa.int64()),
                "tags": [[rng.choice("abc") for _ in range(rng.randint(1, 3))] for _ in ids],
            }
        )
        for start in range(0, 300, 100):
            database.append("places", places.slice(start, 100))
        keys = [(f"p{i}", j) for i in range(40) for j in range(4)]
        prices = pa.table(
            {
                "product": [p for p, _ in keys],
                "size": pa.array([s for _, s in keys], pa.int64()),
                "price": [float(rng.randrange(100)) for _ in keys],
            }
        )
        of_two = schema("prices", {"product": "STRING", "size": "LONG"}, {"price": "DOUBLE"})
        database.create_table("prices", prices, schema=of_two, config=dimension_config("prices"))
        count = 5000
        place = [rng.randrange(450) for _ in range(count)]
        sales = pa.table(
            {
                "place": pa.array(place, pa.int32()),
                "placeText": [str(p) for p in place],
                "product": [f"p{rng.randrange(45)}" for _ in range(count)],
                "size": pa.array([rng.randrange(5) for _ in range(count)], pa.int32()),
                "n": pa.array(range(count), pa.int32()),
            }
        )
        raw = {"tableType": "OFFLINE", "tableName": "rawSales", "segmentsConfig": {"replication": "1"}, "tenants": {}}
        indexing = {"noDictionaryColumns": ["place", "placeText", "product", "size"]}
        database.create_table("sales", sales.slice(0, 3000))
        database.append("sales", sales.slice(3000))
        database.create_table("rawSales", sales, config={**raw, "tableIndexConfig": indexing, "metadata": {}})
        self.duck = duckdb.connect(config={"threads": 1})
        for name, content in (("places", places), ("prices", prices), ("sales", sales)):
            self.duck.register(name, content)
        self.duck.execute(
            "CREATE TABLE joined AS SELECT sales.*, "
            "CASE WHEN places.id IS NULL OR name IS NULL THEN 'null' ELSE name END AS name, "
            f"coalesce(people, {_LOWEST}) AS people, coalesce(tags, ['null']) AS tags, "
            "coalesce(price, CAST('-inf' AS DOUBLE)) AS price FROM sales LEFT JOIN places ON place = id "
            "LEFT JOIN prices ON sales.product = prices.product AND sales.size = prices.size"
        )

    def rows(self, sql: str, **options: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.database.sql(sql, **options).rows()]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with gamay.connect(tmp_path_factory.mktemp("world")) as database:
        yield World(database)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n, <name>, <people>, <price> FROM t ORDER BY n LIMIT 5000",
        "SELECT n, <tags> FROM t ORDER BY n LIMIT 5000",
        "SELECT <name> AS x, COUNT(*), SUM(n) FROM t GROUP BY <name> ORDER BY <name> LIMIT 100",
        "SELECT <people> AS x, COUNT(*) FROM t GROUP BY <people> ORDER BY <people> LIMIT 1000",
        "SELECT <price> AS x, <name> AS y, COUNT(*) FROM t GROUP BY <price>, <name> ORDER BY <price>, <name> LIMIT 1000",
        "SELECT COUNT(*) FROM t WHERE <name> = 'Oslo' AND <people> > 500",
        "SELECT COUNT(*) FROM t WHERE <name> IN ('Oslo', 'Łódź') OR <price> < 10",
        "SELECT COUNT(*) FROM t WHERE NOT <name> = 'null' AND place < 100",
        "SELECT COUNT(*) FILTER (WHERE <name> = 'Lima'), MAX(<price>) FILTER (WHERE <people> >= 0) FROM t",
        "SELECT DISTINCT upper(<name>) AS x FROM t ORDER BY x",
        "SELECT n FROM t ORDER BY <people> DESC, <name>, n LIMIT 700",
        "SELECT <name> AS x, COUNT(*) FROM t GROUP BY <name> HAVING COUNT(*) > 900 ORDER BY x",
        "SELECT place, any_value(<name>), SUM(n) FROM t GROUP BY place ORDER BY place LIMIT 1000",
        "SELECT upper(any_value(<name>)), place + 1, COUNT(*) FROM t GROUP BY place ORDER BY place LIMIT 1000",
        "SELECT COUNT(*), size, product, any_value(<price>) + 1 FROM t GROUP BY product, size "
        "HAVING any_value(<price>) > 20 ORDER BY any_value(<price>) DESC, product, size LIMIT 1000",
    ],
)
def test_as_left_joins(world: World, sql: str) -> None:
    expected = sql
    for name in ("name", "people", "tags", "price"):
        expected = expected.replace(f"<{name}>", name)
    duck = [tuple(row) for row in world.duck.execute(expected.replace("FROM t", "FROM joined")).fetchall()]
    calls = {
        "name": "lookUp('places', 'name', 'id', place)",
        "people": "lookUp('places', 'people', 'id', place)",
        "tags": "LOOK_UP('places', 'TAGS', 'ID', place)",
        "price": "lookup('prices', 'price', 'product', product, 'size', size)",
    }
    engines = (False,) if "any_value(<" in sql else (False, True)
    for name, call in calls.items():
        sql = sql.replace(f"any_value(<{name}>)", call)  # the row of each group
        sql = sql.replace(f"<{name}>", call)
    for table, multi_stage in itertools.product(("sales", "rawSales"), engines):
        rows = world.rows(sql.replace("FROM t", f"FROM {table}"), useMultistageEngine=multi_stage)
        assert rows == duck, (table, multi_stage)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.n, <name>, <price>, <tags> FROM t a JOIN t b ON a.n = b.n AND a.size > 2 ORDER BY a.n",
        "SELECT <name> AS x, COUNT(*) FROM (SELECT place, size, n FROM t ORDER BY n LIMIT 3000) s GROUP BY 1 ORDER BY x",
        "SELECT n, MAX(<people>) OVER (PARTITION BY <name> ORDER BY n) FROM t WHERE size < 2 ORDER BY n",
        "SELECT a.n FROM t a LEFT JOIN t b ON <people> + a.n = b.n WHERE b.n IS NULL ORDER BY a.n",
    ],
)
def test_above_leaves(world: World, sql: str) -> None:
    """Where no server computes lookUp, in queries of several tables and in those of one that DuckDB finishes."""
    prefix = "a." if "t a" in sql else ""
    calls = {
        "name": f"lookUp('places', 'name', 'id', {prefix}place)",
        "people": f"lookUp('places', 'people', 'id', {prefix}place)",
        "tags": f"lookUp('places', 'tags', 'id', {prefix}place)",
        "price": f"lookUp('prices', 'price', 'product', {prefix}product, 'size', {prefix}size)",
    }
    expected = sql
    for name, call in calls.items():
        sql, expected = sql.replace(f"<{name}>", call), expected.replace(f"<{name}>", f"{prefix}{name}")
    expected = re.sub(r"\b(FROM|JOIN) t\b", r"\1 joined", expected.replace("place, size, n", "*"))
    duck = [tuple(row) for row in world.duck.execute(expected).fetchall()]
    assert world.rows(re.sub(r"\b(FROM|JOIN) t\b", r"\1 sales", sql), useMultistageEngine=True) == duck


def test_no_rows_and_null_keys_above_leaves(world: World) -> None:
    sql = "SELECT a.n, lookUp('empty', 'v', 'id', {}) FROM sales a JOIN sales b ON a.n = b.n WHERE a.n < 2 ORDER BY a.n"
    spec = schema("empty", {"id": "INT"}, {"v": "STRING"})
    spec["dimensionFieldSpecs"][1]["defaultNullValue"] = "none"
    world.database.create_table("empty", schema=spec, config=dimension_config("empty"))
    assert world.rows(sql.format("a.place")) == [(0, "none"), (1, "none")]
    case = "CASE WHEN a.n > 0 THEN a.place END"
    assert world.rows(sql.format(case), enableNullHandling=True) == [(0, None), (1, "none")]


def test_keys_may_be_computed(world: World) -> None:
    (known,) = world.rows("SELECT id, name, people FROM places WHERE name <> 'null' ORDER BY id LIMIT 1")
    place, name, people = known
    of_key = f"SELECT lookUp('places', 'name', 'id', {{}}) AS c FROM sales WHERE place = {place} LIMIT 1"
    for key in (str(place), f"'{place}'", "placeText", "place + 0", "place * 1.0", "CAST(place AS LONG)", "abs(-place)"):
        assert world.rows(of_key.format(key)) == [(name,)], key
    assert world.rows(of_key.format("place + 0.5")) == [("null",)]
    inner = "lookUp('places', 'id', 'id', place)"
    assert world.rows(f"SELECT lookUp('places', 'people', 'id', {inner}) FROM sales WHERE place = {place} LIMIT 1") == [
        (people,)
    ]
    where = f"SELECT COUNT(*) FROM sales WHERE lookUp('places', 'name', 'id', {place}) = '{name}'"
    assert world.rows(where) == [(5000,)]
    tags = world.rows(f"SELECT tags FROM places WHERE id = {place}")[0][0]
    assert world.rows(f"SELECT n, lookUp('places', 'tags', 'id', {place}) FROM sales ORDER BY n LIMIT 2") == [
        (0, tags),
        (1, tags),
    ]


def test_null_keys_find_null(world: World) -> None:
    key = "CASE WHEN n > 0 THEN place END"
    sql = (
        f"SELECT lookUp('places', 'name', 'id', {key}), lookUp('places', 'tags', 'id', {key}) FROM sales ORDER BY n LIMIT 1"
    )
    assert world.rows(sql, enableNullHandling=True) == [(None, None)]
    counted = "SELECT COUNT(*) FROM sales WHERE lookUp('places', 'name', 'id', place) = 'Oslo'"
    assert world.rows(counted, enableNullHandling=True) == world.rows(counted)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("lookUp('nowhere', 'name', 'id', place)", "Table 'nowhere' does not exist"),
        ("lookUp('sales', 'n', 'n', place)", "'sales' is not a dimension table; set isDimTable"),
        ("lookUp('places', 'nme', 'id', place)", "has no column 'nme'. Did you mean 'name'"),
        ("lookUp('places', 'name', 'people', place)", "the primary key of 'places' is \\(id\\), not \\(people\\)"),
        ("lookUp('prices', 'price', 'product', product)", "write lookUp\\('prices', 'price', 'product', x, 'size', y\\)"),
        ("lookUp('prices', 'price', 'size', size, 'product', product)", "is \\(product, size\\), not \\(size, product\\)"),
        ("lookUp('places', 'name', 'id')", "3 argument"),
        ("lookUp('places', 'name', 'id', place, 'x')", "5 argument"),
        ("lookUp('places', 'name', id, place)", "argument 3 must be a name in quotes"),
        ("lookUp('places', 'name', 'id', arrayDistinct(valueIn(x, 1)))", "x"),
        ("lookUp('places', 'name', 'id', lookUp('places', 'tags', 'id', place))", "a key must be a single value"),
        ("lookUp('places', 'name', 'id', product)", "cannot be read as INT"),
    ],
)
def test_errors_say_what_would_be_right(world: World, call: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        world.database.sql(f"SELECT {call} FROM sales")


def test_groups_are_not_looked_up(world: World) -> None:
    """Calls that are not in GROUP BY are refused, whether their key is grouped, constant, or neither."""
    for rest in (
        "SELECT lookUp('places', 'tags', 'id', place), COUNT(*) FROM sales GROUP BY place",
        "SELECT lookUp('places', 'name', 'id', place), COUNT(*) FROM sales GROUP BY ROLLUP(place, size)",
        "SELECT lookUp('places', 'name', 'id', 7), COUNT(*) FROM sales",
    ):
        with pytest.raises(QueryError, match="add the same call to GROUP BY"):
            world.database.sql(rest)
    with pytest.raises(QueryError, match="neither in GROUP BY"):
        world.database.sql("SELECT lookUp('places', 'name', 'id', size), COUNT(*) FROM sales GROUP BY place")
    with pytest.raises(QueryError, match="FROM is missing"):
        world.database.sql("SELECT lookUp('places', 'name', 'id', 1)")


def test_a_new_segment_replaces_rows_at_once(tmp_path: Any) -> None:
    """Every query sees one version of a dimension table that is pushed again and again."""
    numbers = pa.array(range(50), pa.int32())
    with gamay.connect(tmp_path, threads=2) as database:
        database.create_table(
            "versions", schema=schema("versions", {"id": "INT"}, {"v": "INT"}), config=dimension_config("versions")
        )
        for _ in range(3):
            facts = pa.table({"id": numbers})
            database.append("facts", facts) if "facts" in database.tables() else database.create_table("facts", facts)
        sql = "SELECT DISTINCT lookUp('versions', 'v', 'id', id) FROM facts"
        assert database.sql(sql).rows() == [(-(2**31),)]
        seen: list[list[Any]] = []
        stop = threading.Event()

        def ask() -> None:
            while not stop.is_set():
                seen.append(database.sql(sql).rows())

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            for version in range(6):
                database.append("versions", pa.table({"id": numbers, "v": pa.array([version] * 50, pa.int32())}))
                assert database.sql(sql).rows() == [(version,)]
        finally:
            stop.set()
            thread.join()
        assert all(len(rows) == 1 for rows in seen)
        versions = [rows[0][0] for rows in seen]
        assert versions == sorted(versions)


def test_repeated_keys_are_errors_where_the_table_says_so(tmp_path: Any) -> None:
    config = dimension_config("d", dimensionTableConfig={"errorOnDuplicatePrimaryKey": True})
    with gamay.connect(tmp_path) as database:
        rows = pa.table({"id": pa.array([1, 2], pa.int32()), "v": pa.array([5, 6], pa.int32())})
        database.create_table("d", rows, schema=schema("d", {"id": "INT"}, {"v": "INT"}), config=config)
        sql = "SELECT id, lookUp('d', 'v', 'id', id) FROM d ORDER BY id"
        assert database.sql(sql).rows() == [(1, 5), (2, 6)]
        database.append("d", rows.slice(1))
        with pytest.raises(QueryError, match="more than one row of the primary key id = 2"):
            database.sql(sql)

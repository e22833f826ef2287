"""IN_SUBQUERY through the broker, against DuckDB's IN."""

import random
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.embedded.database import Database, connect

_ROWS = 3000


class Shop:
    """Orders in two segments and the customers who made them, here and in DuckDB."""

    def __init__(self, database: Database) -> None:
        rng = random.Random(3)
        customers = pa.table(
            {
                "customer": pa.array(range(0, 400, 2), pa.int32()),
                "code": [f"c{i}" for i in range(0, 400, 2)],
                "city": [rng.choice(["Lima", "Oslo", "O'Hara"]) for _ in range(200)],
            }
        )
        ids = [rng.randrange(400) for _ in range(_ROWS)]
        orders = pa.table(
            {
                "customer": pa.array(ids, pa.int32()),
                "wide": pa.array(ids, pa.int64()),
                "code": [f"c{i}" for i in ids],
                "amount": [rng.randrange(100) for _ in range(_ROWS)],
            }
        )
        self.database = database
        database.create_table("orders", orders.slice(0, 1000))
        database.append("orders", orders.slice(1000))
        database.create_table("customers", customers)
        self.duck = duckdb.connect(config={"threads": 1})
        self.duck.register("orders", orders)
        self.duck.register("customers", customers)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.database.sql(sql).rows()]

    def duck_rows(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.duck.execute(sql).fetchall()]

    def error(self, sql: str) -> QueryError:
        with pytest.raises(QueryError) as caught:
            self.database.sql(sql)
        return caught.value


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with connect(tmp_path_factory.mktemp("shop")) as database:
        yield Shop(database)


@pytest.mark.parametrize("column", ["customer", "wide", "code"])
@pytest.mark.parametrize("function", ["IN_SUBQUERY", "inSubquery", "IN_PARTITIONED_SUBQUERY"])
def test_values_are_looked_up(shop: Shop, column: str, function: str) -> None:
    inner = "code" if column == "code" else "customer"
    # the second time the plan is known, with another literal
    for city in ("Lima", "O''Hara"):
        quoted = city.replace("'", "''")
        found = shop.rows(
            f"SELECT count(*), sum(amount) FROM orders WHERE amount > 10 AND "
            f"{function}({column}, 'SELECT IDSET({inner}) FROM customers WHERE city = ''{quoted}''') = 1"
        )
        [(count, total)] = shop.duck_rows(
            f"SELECT count(*), sum(amount) FROM orders WHERE amount > 10 AND {column} IN "
            f"(SELECT {inner} FROM customers WHERE city = '{city}')"
        )
        assert found == [(count, float(str(total)))]


def test_places_in_a_query(shop: Shop) -> None:
    subquery = "IN_SUBQUERY(customer, 'SELECT IDSET(customer) FROM customers')"
    [(known,)] = shop.duck_rows("SELECT count(*) FROM orders WHERE customer IN (SELECT customer FROM customers)")
    assert isinstance(known, int)
    assert shop.rows(f"SELECT count(*) FROM orders WHERE {subquery}") == [(known,)]
    assert shop.rows(f"SELECT count(*) FROM orders WHERE {subquery} = 0") == [(_ROWS - known,)]
    assert shop.rows(f"SELECT count(*) FROM orders WHERE NOT {subquery} = 1") == [(_ROWS - known,)]
    assert shop.rows(f"SELECT sum(CASE WHEN {subquery} = 1 THEN 1 ELSE 0 END) FROM orders") == [(float(known),)]
    grouped = shop.rows(f"SELECT {subquery} AS known, count(*) FROM orders GROUP BY {subquery} ORDER BY known")
    assert grouped == [(False, _ROWS - known), (True, known)]
    assert shop.rows(f"SELECT count(*) FILTER (WHERE {subquery} = 1) FROM orders") == [(known,)]


def test_nothing_to_look_up_in(shop: Shop) -> None:
    empty = "IN_SUBQUERY(customer, 'SELECT IDSET(customer) FROM customers WHERE city = ''none''')"
    assert shop.rows(f"SELECT count(*) FROM orders WHERE {empty} = 1") == [(0,)]
    assert shop.rows(f"SELECT count(*) FROM orders WHERE {empty} = 0") == [(_ROWS,)]


def quote(sql: str) -> str:
    return "'" + sql.replace("'", "''") + "'"


def nested(depth: int) -> str:
    inner = "SELECT IDSET(customer) FROM customers WHERE city = 'Oslo'"
    for _ in range(depth - 1):
        inner = f"SELECT IDSET(customer) FROM customers WHERE IN_SUBQUERY(customer, {quote(inner)}) = 1"
    return f"SELECT count(*) FROM orders WHERE IN_SUBQUERY(customer, {quote(inner)}) = 1"


def test_subqueries_of_subqueries(shop: Shop) -> None:
    wanted = shop.duck_rows(
        "SELECT count(*) FROM orders WHERE customer IN (SELECT customer FROM customers WHERE city = 'Oslo')"
    )
    assert shop.rows(nested(1)) == shop.rows(nested(3)) == wanted
    assert "at most 3 deep" in str(shop.error(nested(4)))


def test_options_hold_for_both(shop: Shop) -> None:
    sql = "SELECT count(*) FROM orders WHERE IN_SUBQUERY(customer, 'SELECT IDSET(customer) FROM customers') = 1"
    assert shop.rows(f"SET timeoutMs = 30000; {sql}") == shop.rows(sql)
    assert shop.database.sql(f"SET dropResults = true; {sql}").rows() == []


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("IN_SUBQUERY(customer)", ErrorCode.QUERY_VALIDATION, "takes an expression and a query in quotes"),
        ("IN_SUBQUERY(customer, code)", ErrorCode.QUERY_VALIDATION, "takes an expression and a query in quotes"),
        ("IN_SUBQUERY(customer, 5)", ErrorCode.QUERY_VALIDATION, "takes an expression and a query in quotes"),
        (
            "IN_SUBQUERY(customer, 'nonsense')",
            ErrorCode.QUERY_EXECUTION,
            "(nonsense) failed: SQLParsingError: expected SELECT",
        ),
        ("IN_SUBQUERY(customer, 'SELECT customer FROM customers')", ErrorCode.QUERY_EXECUTION, "SELECT IDSET(column)"),
        (
            "IN_SUBQUERY(customer, 'SELECT IDSET(customer), 1 FROM customers')",
            ErrorCode.QUERY_EXECUTION,
            "SELECT IDSET(column)",
        ),
        (
            "IN_SUBQUERY(customer, 'SELECT IDSET(customer) FROM customers GROUP BY city')",
            ErrorCode.QUERY_EXECUTION,
            "SELECT IDSET(column)",
        ),
        ("IN_SUBQUERY(customer, 'SELECT IDSET(x) FROM customers')", ErrorCode.QUERY_EXECUTION, "UnknownColumnError"),
        (
            "IN_SUBQUERY(customer, 'SELECT IDSET(customer) FROM nowhere')",
            ErrorCode.QUERY_EXECUTION,
            "TableDoesNotExistError",
        ),
        (
            "IN_SUBQUERY(customer, 'EXPLAIN PLAN FOR SELECT IDSET(customer) FROM customers')",
            ErrorCode.QUERY_EXECUTION,
            "SELECT IDSET(column)",
        ),
        ("IN_SUBQUERY(x, 'SELECT IDSET(customer) FROM customers')", ErrorCode.UNKNOWN_COLUMN, "'x'"),
    ],
)
def test_errors(shop: Shop, call: str, code: ErrorCode, message: str) -> None:
    error = shop.error(f"SELECT count(*) FROM orders WHERE {call} = 1")
    assert message in str(error)
    assert error.code is code


def test_gapfilled_rows_of_looked_up_ones(shop: Shop) -> None:
    fill = (
        "GAPFILL(wide, '1:MILLISECONDS:EPOCH', '0', '400', '1:MILLISECONDS', "
        "TIMESERIESON(customer), FILL(n, 'FILL_DEFAULT_VALUE'))"
    )
    inner = (
        "SELECT wide, customer, count(*) AS n FROM orders WHERE IN_SUBQUERY(code, 'SELECT IDSET(code) FROM customers') = 1"
    )
    found = shop.rows(
        f"SELECT bucket, sum(n) FROM (SELECT {fill} AS bucket, customer, n FROM ({inner} GROUP BY wide, customer)) "
        "GROUP BY bucket HAVING sum(n) > 0 LIMIT 1000"
    )
    assert found == [
        (wide, float(str(n)))
        for wide, n in shop.duck_rows("SELECT wide, count(*) FROM orders WHERE wide % 2 = 0 GROUP BY 1 ORDER BY 1")
    ]

"""The dialect `gamay://`: statements against SQLite as an oracle, reflection, pandas, and the queries of a BI tool."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import gamay
from gamay.cluster.access.passwords import basic_token
from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_access

sa = pytest.importorskip("sqlalchemy")
from sqlalchemy.dialects import registry  # noqa: E402

registry.register("gamay", "gamay.client.alchemy.dialect", "GamayDialect")

N = 60
ROWS = {
    "id": list(range(N)),
    "city": [("Oslo", "Bern", "Li'ma", "100%", "a_b")[i % 5] for i in range(N)],
    "n": [(i * 37) % 19 - 5 for i in range(N)],
    "x": [i / 4 - 3 for i in range(N)],
    "f": [i % 3 == 0 for i in range(N)],
    "year": [2000 + i % 4 for i in range(N)],
    "Order": [i % 2 for i in range(N)],
}
KEYED = {
    "schemaName": "staff",
    "primaryKeyColumns": ["n", "name"],
    "dimensionFieldSpecs": [
        {"name": "n", "dataType": "LONG"}, {"name": "name", "dataType": "STRING"}, {"name": "id", "dataType": "UUID"},
        {"name": "at", "dataType": "TIMESTAMP"}, {"name": "tags", "dataType": "INT", "singleValueField": False},
        {"name": "price", "dataType": "BIG_DECIMAL"}, {"name": "doc", "dataType": "JSON"},
    ],
}  # fmt: skip
ACCESS = """
pinot.broker.access.control.class=BasicAuthAccessControlFactory
pinot.broker.access.control.principals=guest
pinot.broker.access.control.principals.guest.password=se:c/ret
pinot.broker.access.control.principals.guest.tables=trips
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("alchemy") / "data"
    with gamay.connect(folder) as db:
        db.create_table("trips", pa.table(ROWS))
        db.create_table(
            "staff", pa.table({"n": [1], "name": ["Ada"], "at": [datetime(2024, 1, 2, tzinfo=UTC)]}), schema=KEYED
        )
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as found:
        yield found


@pytest.fixture(scope="module")
def engine(cluster: EmbeddedCluster) -> Iterator[Any]:
    made = sa.create_engine(cluster.broker_url.replace("http", "gamay"), pool_pre_ping=True)
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    made = sa.create_engine("sqlite://")
    with made.begin() as connection:
        TABLE.create(connection)
        connection.execute(TABLE.insert(), [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)])
    yield made
    made.dispose()


TABLE = sa.Table(
    "trips", sa.MetaData(), sa.Column("id", sa.BigInteger), sa.Column("city", sa.String), sa.Column("n", sa.BigInteger),
    sa.Column("x", sa.Double), sa.Column("f", sa.Boolean), sa.Column("year", sa.BigInteger),
    sa.Column("Order", sa.BigInteger),
)  # fmt: skip
C = TABLE.c


def condition(rng: random.Random, depth: int = 2) -> Any:
    if depth and rng.random() < 0.6:
        parts = [condition(rng, depth - 1) for _ in range(2)]
        joined = rng.choice([sa.and_, sa.or_])(*parts)
        return sa.not_(joined) if rng.random() < 0.3 else joined
    return rng.choice([
        lambda: C.n > rng.randint(-6, 14), lambda: C.x <= rng.randint(-4, 12) / 2, lambda: C.f, lambda: ~C.f,
        lambda: C.city.in_(rng.sample(["Oslo", "Bern", "Li'ma", "100%", "none"], 2)), lambda: C.city.like("%o"),
        lambda: C.city.startswith("Li'"), lambda: C.city.contains("%", autoescape=True), lambda: C.n.between(0, 9),
        lambda: C.city != "a_b", lambda: C.f.is_(True), lambda: C.city.is_not(None), lambda: C["Order"] == 1,
        lambda: C.n.not_in([1, 2, 3]),
    ])()  # fmt: skip


def value(rng: random.Random) -> Any:
    return rng.choice([
        lambda: C.n + 1, lambda: -C.n, lambda: C.n * C.x, lambda: C.x / 4, lambda: C.city + "!", lambda: C.city,
        lambda: sa.func.length(C.city), lambda: sa.func.upper(C.city), lambda: sa.func.abs(C.n), lambda: C.year,
        lambda: sa.case((C.f, "yes"), (C.n > 3, "some"), else_="no"), lambda: sa.cast(C.n, sa.String), lambda: C["Order"],
        lambda: sa.cast(C.n, sa.Double), lambda: sa.func.coalesce(C.city, "none"), lambda: sa.literal("a%b'c"),
        lambda: C.id // 7,
    ])()  # fmt: skip


def statement(rng: random.Random) -> Any:
    kind = rng.randrange(5)
    where = condition(rng)
    if kind == 0:
        found = sa.select(C.id, value(rng).label("v"), value(rng).label("W")).where(where).order_by(C.id)
    elif kind == 1:
        key = rng.choice([C.city, C.year, C["Order"]])
        found = sa.select(key, sa.func.count().label("c"), sa.func.sum(C.n), sa.func.max(C.x)).where(where)
        found = found.group_by(key).having(sa.func.count() > rng.randint(0, 3)).order_by(sa.desc("c"), key)
    elif kind == 2:
        inner = sa.select(C.id, C.city, C.n).where(where).subquery("virtual_table")
        found = sa.select(inner.c.city, sa.func.count().label("c")).group_by(inner.c.city).order_by(inner.c.city)
    elif kind == 3:
        other = TABLE.alias("o")
        found = sa.select(C.id, other.c.city).join_from(TABLE, other, C.id == other.c.id + 1).where(where).order_by(C.id)
    else:
        found = sa.select(C.city).where(where).union(sa.select(sa.literal("x"))).order_by("city")
    if rng.random() < 0.4:
        found = found.limit(rng.randint(0, 12))
        if rng.random() < 0.6:
            found = found.offset(rng.randint(0, 5))
    return found


def rows_of(engine: Any, found: Any) -> list[Any]:
    with engine.connect() as connection:
        return [tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in connection.execute(found)]


@pytest.mark.parametrize("chunk", range(6))
def test_statements_give_what_sqlite_gives(engine: Any, oracle: Any, chunk: int) -> None:
    for seed in range(chunk * 15, chunk * 15 + 15):
        found = statement(random.Random(seed))
        assert rows_of(engine, found) == rows_of(oracle, found), (seed, str(found.compile(engine)))


def test_a_select_without_limit_gives_all_rows(engine: Any, cluster: EmbeddedCluster) -> None:
    assert len(rows_of(engine, sa.select(C.id))) == N
    assert len(rows_of(engine, sa.select(C.id).order_by(C.id).offset(50))) == N - 50
    small = sa.create_engine(
        f"{cluster.broker_url.replace('http', 'gamay')}?row_limit=7&timeout_s=20&options=timeoutMs=9000"
    )
    assert len(rows_of(small, sa.select(C.id))) == 7
    small.dispose()


def test_what_is_there_is_reflected(engine: Any) -> None:
    inspector = sa.inspect(engine)
    assert inspector.get_schema_names() == ["default"]
    assert inspector.get_table_names() == inspector.get_table_names("default") == ["staff", "trips"]
    assert inspector.get_view_names() == inspector.get_foreign_keys("staff") == inspector.get_indexes("staff") == []
    assert inspector.has_table("staff")
    assert not inspector.has_table("stuff")
    assert inspector.get_pk_constraint("staff")["constrained_columns"] == ["n", "name"]
    staff = sa.Table("staff", sa.MetaData(), schema="default", autoload_with=engine)
    types = {column.name: type(column.type).__name__ for column in staff.columns}
    assert types == {
        "at": "TIMESTAMP", "doc": "String", "id": "Uuid", "n": "BigInteger", "name": "String", "price": "Numeric",
        "tags": "ARRAY",
    }  # fmt: skip
    assert [column.name for column in staff.primary_key] == ["n", "name"]
    (row,) = rows_of(engine, sa.select(staff.c.at, staff.c.name).where(staff.c.at > datetime(2024, 1, 1, tzinfo=UTC)))
    assert row == (datetime(2024, 1, 2, tzinfo=UTC), "Ada")
    with pytest.raises(sa.exc.NoSuchTableError):
        sa.Table("stuff", sa.MetaData(), autoload_with=engine)


def test_pandas_and_texts(engine: Any) -> None:
    pandas = pytest.importorskip("pandas")
    assert len(pandas.read_sql_table("trips", engine)) == N
    assert len(pandas.read_sql("SELECT city FROM trips WHERE city LIKE '%o' LIMIT 100", engine)) == 12
    found = pandas.read_sql(sa.text("SELECT id FROM trips WHERE city = :city LIMIT 100"), engine, params={"city": "Li'ma"})
    assert len(found) == 12


def test_what_a_dashboard_asks(engine: Any) -> None:
    virtual = sa.text("SELECT city, n, year FROM trips").columns(sa.column("city"), sa.column("n"), sa.column("year"))
    inner = virtual.subquery("virtual_table")
    metric = sa.func.sum(inner.c.n).label("SUM(n)")
    found = sa.select(inner.c.city.label("city"), metric).group_by(inner.c.city).order_by(sa.desc("SUM(n)")).limit(1000)
    assert len(rows_of(engine, found)) == 5
    day = sa.func.date_trunc("DAY", sa.column("at"))
    assert rows_of(engine, sa.select(sa.func.count()).select_from(sa.table("staff")).where(day > 0)) == [(1,)]
    assert engine.dialect.get_columns(engine.connect(), "trips")[0]["name"] == "Order"


def test_nothing_is_written(engine: Any) -> None:
    for found in (TABLE.insert().values(id=1), TABLE.update().values(id=1), TABLE.delete()):
        with pytest.raises(sa.exc.CompileError, match="not changed by SQL"):
            rows_of(engine, found)


def test_errors_are_those_of_the_client(engine: Any) -> None:
    with pytest.raises(sa.exc.ProgrammingError, match="Unknown columnName 'nope'"):
        rows_of(engine, sa.text("SELECT nope FROM trips"))
    for url, text in (
        ("gamay://x?tlz=true", "tlz"),
        ("gamay://x?tls=maybe", "true or false"),
        ("gamay://x?timeout_s=a", "number"),
    ):
        with pytest.raises(sa.exc.ArgumentError, match=text):
            sa.create_engine(url).connect()


def test_a_user_logs_in(tmp_path_factory: pytest.TempPathFactory, cluster: EmbeddedCluster) -> None:
    folder = tmp_path_factory.mktemp("alchemy-access")
    with gamay.connect(folder / "data") as db:
        db.create_table("trips", pa.table(ROWS))
        db.create_table("pay", pa.table({"n": [1]}))
    (folder / "access.properties").write_text(ACCESS)
    access = read_access(folder / "access.properties")
    with EmbeddedCluster(folder / "data", 0, 0, 0, threads=1, warm_up=False, access=access) as guarded:
        port = int(guarded.broker_url.rpartition(":")[2])
        url = sa.URL.create("gamay", "guest", "se:c/ret", "localhost", port)
        made = sa.create_engine(url)
        assert rows_of(made, sa.text("SELECT COUNT(*) FROM trips")) == [(N,)]
        assert sa.inspect(made).get_table_names() == ["trips"]
        assert "se:c/ret" not in repr(made)
        made.dispose()
        headers = {"auth_token": basic_token("guest", "se:c/ret")}
        made = sa.create_engine(f"gamay://localhost:{port}", connect_args=headers)
        assert rows_of(made, sa.text("SELECT COUNT(*) FROM trips")) == [(N,)]
        made.dispose()

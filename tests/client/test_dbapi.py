"""DB-API 2.0: the requirements of PEP 249 and of tools that rely on it."""

import datetime
import json
import warnings

import pytest
from sqlalchemy import create_engine, inspect, text

import gamay.client
from gamay.client import BINARY, DATETIME, NUMBER, ROWID, STRING, Connection, InterfaceError, ProgrammingError


@pytest.fixture(scope="module")
def connection(broker_url):
    with gamay.client.connect(broker_url) as made:
        yield made


@pytest.fixture
def cursor(connection):
    with connection.cursor() as made:
        yield made


TWO = "SELECT c_int, c_string FROM every WHERE c_int IN (%(all)s) ORDER BY c_int"
BOTH = {"all": [-7, 8]}


def test_the_module():
    assert gamay.client.apilevel == "2.0"
    assert gamay.client.threadsafety == 2
    assert gamay.client.paramstyle == "pyformat"
    missing = [name for name in gamay.client.__all__ if not hasattr(gamay.client, name)]
    assert not missing


def test_the_exceptions():
    module = gamay.client
    for name in (
        "DataError",
        "OperationalError",
        "IntegrityError",
        "InternalError",
        "ProgrammingError",
        "NotSupportedError",
    ):
        assert issubclass(getattr(module, name), module.DatabaseError)
    assert issubclass(module.DatabaseError, module.Error)
    assert issubclass(module.InterfaceError, module.Error)
    assert not issubclass(module.InterfaceError, module.DatabaseError)
    assert issubclass(module.Error, Exception)
    assert issubclass(module.Warning, Exception)
    assert not issubclass(module.Warning, module.Error)


def test_types_and_constructors():
    module = gamay.client
    assert module.Date(2024, 5, 1) == datetime.date(2024, 5, 1)
    assert module.Time(10, 30, 1) == datetime.time(10, 30, 1)
    assert module.Timestamp(2024, 5, 1, 10, 30, 1) == datetime.datetime(2024, 5, 1, 10, 30, 1)
    assert module.TimestampFromTicks(86_400.5) == datetime.datetime(1970, 1, 2, 0, 0, 0, 500_000, datetime.UTC)
    assert module.DateFromTicks(86_400) == datetime.date(1970, 1, 2)
    assert module.TimeFromTicks(3600) == datetime.time(1)
    assert module.Binary(b"x") == b"x"
    assert NUMBER == "LONG"
    assert NUMBER != STRING
    assert STRING != "LONG"
    assert len({STRING, BINARY, NUMBER, DATETIME, ROWID}) == 5
    groups = (STRING, BINARY, NUMBER, DATETIME, ROWID)
    for kind in ("INT", "BIG_DECIMAL", "BOOLEAN", "STRING", "JSON", "UUID", "BYTES", "TIMESTAMP", "MAP", "UNKNOWN"):
        assert [group == f"{kind}_ARRAY" for group in groups] == [group == kind for group in groups]
        assert sum(group == kind for group in groups) == 1
    assert repr(NUMBER) == "NUMBER"


def test_description(cursor):
    assert (cursor.description, cursor.rowcount, cursor.rownumber) == (None, -1, None)
    assert cursor.execute("SELECT c_int, c_string, c_timestamp, c_bytes, mv_int FROM every") is cursor
    assert [column[0] for column in cursor.description] == ["c_int", "c_string", "c_timestamp", "c_bytes", "mv_int"]
    assert all(len(column) == 7 and column[2:] == (None,) * 5 for column in cursor.description)
    codes = [column[1] for column in cursor.description]
    assert codes[:4] == [NUMBER, STRING, DATETIME, BINARY]
    assert codes[4] == "INT_ARRAY"
    assert codes[4] == NUMBER != codes[1]
    assert cursor.rowcount == 2
    cursor.execute("SELECT c_int FROM every LIMIT 0")
    assert (cursor.rowcount, cursor.fetchall(), cursor.description[0][0]) == (0, [], "c_int")
    cursor.execute("SELECT c_int FROM every", options={"dropResults": True})
    assert (cursor.description, cursor.rowcount) == (None, -1)
    with pytest.raises(InterfaceError, match="execute a query first"):
        cursor.fetchall()


def test_fetching(cursor):
    cursor.execute(TWO, BOTH)
    assert cursor.fetchone()[0] == -7
    assert cursor.rownumber == 1
    assert cursor.fetchone() == (8, "x")
    assert cursor.fetchone() is None
    assert cursor.fetchmany() == cursor.fetchall() == []
    cursor.execute(TWO, BOTH)
    assert cursor.arraysize == 1
    assert len(cursor.fetchmany()) == 1
    assert cursor.fetchmany(5) == [(8, "x")]
    cursor.execute(TWO, BOTH)
    cursor.arraysize = 2
    assert len(cursor.fetchmany()) == 2
    cursor.execute(TWO, BOTH)
    assert [row[0] for row in cursor] == [-7, 8]
    with pytest.raises(InterfaceError, match="-1 rows cannot be fetched"):
        cursor.fetchmany(-1)


def test_executemany(cursor):
    cursor.executemany("SELECT c_int FROM every WHERE c_int = ?", [[8], [9], [-7]])
    assert (cursor.rowcount, cursor.fetchall()) == (2, [(8,), (-7,)])
    assert cursor.fetch_arrow_table()["c_int"].to_pylist() == [8, -7]
    cursor.executemany("SELECT 1", [])
    assert (cursor.rowcount, cursor.description) == (-1, None)


def test_a_query_that_fails_leaves_nothing_behind(cursor):
    cursor.execute(TWO, BOTH)
    with pytest.raises(ProgrammingError):
        cursor.execute("SELECT nope FROM every")
    assert cursor.description is None
    with pytest.raises(InterfaceError, match="execute a query first"):
        cursor.fetchone()


def test_frames_of_a_cursor(cursor):
    cursor.execute(TWO, BOTH)
    cursor.fetchone()
    assert cursor.fetch_arrow_table().num_rows == len(cursor.fetch_pandas()) == cursor.fetch_polars().height == 2
    assert cursor.stats.total_docs == 2


def test_partial_answers_leave_a_message(stubs, answer):
    broker = stubs()
    broker.answer = lambda path, body: (200, answer([[7]], numGroupsLimitReached=True))
    with gamay.client.connect(broker.url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.partial
        [(kind, message)] = cursor.messages
        assert kind is gamay.client.Warning
        assert str(message) == "the answer is partial: groups beyond numGroupsLimit are left out"
        broker.answer = lambda path, body: (200, answer([[7]]))
        cursor.execute("SELECT 1")
        assert (cursor.messages, cursor.partial) == ([], False)


def test_the_sets_of_pql_come_one_after_another(cursor):
    """PQL has a set of rows for each aggregate; none may be lost."""
    query = "SELECT MIN(c_int), COUNT(*) FROM every WHERE c_int IN (%s) GROUP BY c_string"
    cursor.execute(query, [[8, 9]], language="pql")
    assert (cursor.description[1][0], cursor.fetchone()) == ("min_c_int", ("x", "8.00000"))
    assert cursor.nextset()
    assert (cursor.description[1][0], cursor.rowcount, cursor.rownumber) == ("count_star", 1, 0)
    assert cursor.fetchall() == [("x", "1")]
    assert cursor.nextset() is None
    cursor.executemany(query, [[8], [9], [8]], language="pql")
    assert cursor.fetchall() == [("x", "8.00000")] * 2
    assert cursor.nextset()
    assert cursor.fetchall() == [("x", "1")] * 2
    assert cursor.execute("SELECT 1").nextset() is None


def test_there_is_no_next_set_without_a_first(cursor):
    with pytest.raises(InterfaceError, match="execute a query first"):
        cursor.nextset()


def test_connections_have_the_exceptions(connection):
    for name in ("Warning", "Error", "InterfaceError", "DatabaseError", "DataError", "OperationalError", "IntegrityError"):
        assert getattr(connection, name) is getattr(gamay.client, name)
    with pytest.raises(connection.ProgrammingError):
        connection.execute("SELEC")
    assert connection.InternalError is gamay.client.InternalError
    assert connection.NotSupportedError is gamay.client.NotSupportedError


def test_what_does_nothing(connection, cursor):
    assert cursor.setinputsizes([1]) is cursor.setoutputsize(5) is None
    assert connection.commit() is connection.rollback() is None
    assert cursor.connection is connection


def test_closed_cursors_and_connections(broker_url):
    connection = gamay.client.connect(broker_url)
    cursor, other = connection.cursor(), connection.cursor()
    cursor.execute("SELECT 1")
    cursor.close()
    cursor.close()
    for use in (cursor.fetchone, cursor.fetchall, lambda: cursor.execute("SELECT 1"), lambda: list(cursor), cursor.nextset):
        with pytest.raises(InterfaceError, match="the cursor is closed"):
            use()
    other.execute("SELECT 1")
    connection.close()
    for use in (other.fetchone, lambda: other.execute("SELECT 1"), connection.cursor):
        with pytest.raises(InterfaceError, match="the connection is closed"):
            use()


def test_connect_finds_brokers_in_many_ways(cluster, broker_url):
    port = int(broker_url.rpartition(":")[2])
    for arguments in (
        {"host": "localhost", "port": port, "path": "/query/sql", "scheme": "http"},
        {"host": broker_url},
        {"host": f"127.0.0.1:{port}", "port": None},
        {"controller": cluster.controller_url},
    ):
        with gamay.client.connect(**arguments) as connection:
            assert connection.cursor().execute("SELECT 5").fetchall() == [(5,)]
    with pytest.raises(gamay.client.OperationalError, match=r"http://\[::1\]:1/query/sql"):
        gamay.client.connect("::1", 1).cursor().execute("SELECT 1")


def test_pandas_reads(connection):
    pandas = pytest.importorskip("pandas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it has tested SQLAlchemy's connections only
        frame = pandas.read_sql(TWO, connection, params=BOTH)
        with pytest.raises(Exception, match="Did you mean 'c_int'"):
            pandas.read_sql("SELECT c_in FROM every", connection)
    assert frame["c_int"].tolist() == [-7, 8]


def test_sqlalchemy_with_the_dialect_of_pinotdb(cluster, broker_url):
    address = broker_url.removeprefix("http://")
    url = f"pinot://{address}/query/sql?controller={cluster.controller_url}/"
    engine = create_engine(url, module=gamay.client)
    assert inspect(engine).get_table_names() == ["every"]
    with engine.connect() as opened:
        found = opened.execute(text("SELECT c_int FROM every WHERE c_string LIKE '%x' AND c_int = :n"), {"n": 8})
        assert found.fetchall() == [(8,)]
    engine.dispose()
    other = create_engine(f"{url}&use_multistage_engine=true", module=gamay.client)
    with other.connect() as opened:
        assert len(opened.execute(text("SELECT a.c_int FROM every a")).fetchall()) == 2
    other.dispose()


def test_wire_types_that_nobody_knows(stubs):
    broker = stubs()
    table = {"dataSchema": {"columnNames": ["a"], "columnDataTypes": ["GEOMETRY"]}, "rows": [["POINT"]]}
    broker.answer = lambda path, body: (200, json.dumps({"resultTable": table, "exceptions": []}).encode())
    with Connection.from_host_list(broker.url) as connection, connection.cursor() as cursor:
        assert cursor.execute("SELECT 1").fetchall() == [("POINT",)]
        assert cursor.fetch_arrow_table()["a"].to_pylist() == ["POINT"]


def test_what_the_broker_says_of_options_is_in_messages_and_python_warnings(cursor):
    sentence = "The query option 'useSpools' has no effect"
    with pytest.warns(UserWarning, match=sentence):
        cursor.execute("SET useSpools = true; SELECT c_int FROM every LIMIT 1")
    assert [str(message) for _, message in cursor.messages] == [sentence]
    assert len(cursor.fetchall()) == 1

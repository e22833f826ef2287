"""Connections: brokers that fail, hang or send garbage; settings; threads; prepared statements."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from decimal import Decimal

import httpx
import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.client import (
    Connection,
    DatabaseError,
    DataError,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
    connect,
)


@pytest.fixture
def connection(broker_url):
    with Connection.from_host_list(broker_url) as made:
        yield made


def failure(*exceptions):
    return json.dumps({"exceptions": [{"errorCode": code, "message": text} for code, text in exceptions]}).encode()


# -- brokers that fail


def test_another_broker_answers_when_one_is_dead(broker_url, dead_url):
    with Connection.from_host_list([dead_url, broker_url]) as connection:
        for _ in range(4):
            answer = connection.execute("SELECT COUNT(*) FROM every")
            assert answer[0].get_int(0) == 2
            assert answer.broker == broker_url


def test_a_dead_broker_is_not_tried_again_at_once(stubs, dead_url):
    good, other = stubs(), stubs()
    other.answer = lambda path, body: (503, b"Broker is not ready")
    with Connection.from_host_list(dead_url, other.url, good.url) as connection:
        for _ in range(6):
            assert connection.execute("SELECT 1")[0].get_int(0) == 1
    assert len(good.requests) == 6
    assert len(other.requests) == 1


def test_no_broker_answers(dead_url, stubs):
    busy = stubs()
    busy.answer = lambda path, body: (503, b"Broker is not ready, status: STARTING")
    with (
        Connection.from_host_list(dead_url, busy.url) as connection,
        pytest.raises(OperationalError, match="no broker answers") as raised,
    ):
        connection.execute("SELECT 1")
    assert dead_url in str(raised.value)
    assert "STARTING" in str(raised.value)
    assert raised.value.code is ErrorCode.BROKER_INSTANCE_MISSING


def test_a_query_that_was_cut_off_is_sent_to_one_more_broker_only(stubs):
    brokers = [stubs() for _ in range(3)]
    for one in brokers:
        one.answer = lambda path, body: None
    with Connection.from_host_list(*(b.url for b in brokers)) as connection, pytest.raises(OperationalError):
        connection.execute("SELECT 1")
    assert sum(len(b.requests) for b in brokers) == 2
    brokers[0].answer = lambda path, body: (200, failure((200, "QueryExecutionError: x")))
    with Connection.from_host_list(brokers[0].url) as connection, pytest.raises(OperationalError, match=r"^x$"):
        connection.execute("SELECT 1")


def test_a_connection_that_went_stale_is_made_again(stubs, answer):
    broker = stubs()
    answers = iter([None, (200, answer([[5]]))])
    broker.answer = lambda path, body: next(answers)
    with Connection.from_host_list(broker.url) as connection:
        assert connection.execute("SELECT 1")[0].get_int(0) == 5


def test_threads_share_a_connection(broker_url, dead_url):
    with Connection.from_host_list(dead_url, broker_url) as connection, ThreadPoolExecutor(16) as threads:
        queries = [f"SELECT {i} FROM every LIMIT 1" for i in range(200)]
        assert [answer[0].get_int(0) for answer in threads.map(connection.execute, queries)] == list(range(200))


def test_a_broker_that_hangs_ends_in_a_timeout_and_is_not_asked_twice(stubs):
    broker, other = stubs(), stubs()
    broker.answer = other.answer = broker.hang
    with (
        Connection.from_host_list(broker.url, other.url) as connection,
        pytest.raises(OperationalError, match=r"did not answer within 1\.2 s; raise timeout_s") as raised,
    ):
        connection.execute("SELECT 1", timeout_s=0.2)
    assert raised.value.code is ErrorCode.BROKER_TIMEOUT
    requests = broker.requests + other.requests
    assert [body["queryOptions"] for _, _, body in requests] == ["timeoutMs=200"]


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (200, b"<html>hello</html>", InterfaceError, "not JSON .*<html>hello"),
        (200, b'{"resultTable": {"dataSch', InterfaceError, "not JSON"),
        (200, b"[1]", InterfaceError, "not a query response"),
        (200, b'{"status": "fine"}', InterfaceError, "not a query response"),
        (200, b"", InterfaceError, "not JSON"),
        (200, b'{"resultTable": 5}', InterfaceError, "form of a result"),
        (401, b"", OperationalError, "denies access"),
        (403, b'{"code":403,"error":"Permission denied."}', OperationalError, "denies access: Permission denied."),
        (404, b"<html>", InterfaceError, "takes no queries.*Is it a broker"),
        (400, b'{"code":400,"error":"Invalid JSON"}', ProgrammingError, "Invalid JSON"),
        (405, b"", InterfaceError, "refuses the request: POST http"),
        (408, b"", OperationalError, "does not take the query now"),
        (413, b'{"code":413,"error":"too long"}', ProgrammingError, "refuses the request: too long"),
        (429, b'{"code":429,"error":"too much"}', OperationalError, "does not take the query now: too much"),
        (500, b"<html>oops</html>", OperationalError, "500 Internal Server Error"),
        (502, b"", OperationalError, "502 Bad Gateway"),
        (301, b"", InterfaceError, "redirected to"),
    ],
)
def test_answers_that_are_none(stubs, status, body, kind, message):
    broker = stubs()
    broker.answer = lambda path, request: (status, body)
    with Connection.from_host_list(broker.url) as connection, pytest.raises(kind, match=message):
        connection.execute("SELECT 1")


def test_an_answer_that_ends_too_early(stubs):
    broker = stubs()

    def cut(path, body):
        raise ConnectionAbortedError  # after which the handler hangs up

    broker.answer = cut
    broker._server.handle_error = lambda *_: None
    with Connection.from_host_list(broker.url) as connection, pytest.raises(OperationalError, match="got no answer"):
        connection.execute("SELECT 1")


# -- what answers say


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (150, ProgrammingError),
        (190, ProgrammingError),
        (700, ProgrammingError),
        (710, ProgrammingError),
        (160, DataError),
        (180, OperationalError),
        (250, OperationalError),
        (427, OperationalError),
        (429, OperationalError),
        (503, OperationalError),
        (450, InternalError),
        (1000, InternalError),
        (987654, InternalError),
    ],
)
def test_exceptions_by_code(stubs, code, kind):
    broker = stubs()
    broker.answer = lambda path, body: (200, failure((code, "this is why"), (427, "and this")))
    with Connection.from_host_list(broker.url) as connection, pytest.raises(kind) as raised:
        connection.execute("SELECT 1")
    assert str(raised.value) == "this is why (and 1 more)"
    assert raised.value.error_code == code
    assert raised.value.exceptions == ((code, "this is why"), (427, "and this"))
    assert isinstance(raised.value, DatabaseError)
    assert isinstance(raised.value, QueryError)


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        ("SELEC 1", 150, "expected SELECT"),
        ("SELECT 1 FROM nowhere", 190, "nowhere"),
        ("SELECT c_in FROM every", 710, "Did you mean 'c_int'"),
        ("SELECT SUM(c_string) FROM every", 700, "(?i)sum"),
    ],
)
def test_errors_of_a_real_broker(connection, sql, code, message):
    with pytest.raises(ProgrammingError, match=message) as raised:
        connection.execute(sql)
    assert raised.value.code.code == raised.value.error_code == code


@pytest.mark.parametrize(
    ("sql", "code"), [("SELEC 1", 150), ("SELECT 1 FROM nowhere", 190), ("SELECT c_in FROM every", 710)]
)
def test_errors_are_the_same_whether_the_status_tells_of_them_or_not(broker_url, sql, code):
    headers = {"Pinot-Use-Http-Status-For-Errors": "true"}
    with Connection.from_host_list(broker_url, headers=headers) as connection:
        assert connection.execute("SELECT 1").rows() == [(1,)]
        for one in (connection, Connection.from_host_list(broker_url)):
            with pytest.raises(ProgrammingError) as raised:
                one.execute(sql)
            assert raised.value.error_code == code
            assert raised.value.response["numServersQueried"] == 0


def test_a_partial_answer_is_no_reason_to_ask_another_broker(stubs, answer):
    broker, other = stubs(), stubs()
    partial = answer([[7]], exceptions=[{"errorCode": 427, "message": "1 servers [x]"}])
    broker.answer = other.answer = lambda path, body: (503, partial)
    with Connection.from_host_list(broker.url, other.url) as connection:
        assert connection.execute("SELECT 1", allow_partial=True).rows() == [(7,)]
    assert len(broker.requests + other.requests) == 1


def test_servers_that_did_not_answer_are_told_of_without_an_exception_too(stubs, answer):
    broker = stubs()
    broker.answer = lambda path, body: (200, answer([[7]], numServersQueried=3))
    with Connection.from_host_list(broker.url) as connection:
        with pytest.raises(OperationalError, match="2 of 3 servers did not answer; allow_partial") as raised:
            connection.execute("SELECT 1")
        assert raised.value.code is ErrorCode.SERVER_NOT_RESPONDING
        assert raised.value.response["numServersResponded"] == 1
        taken = connection.execute("SELECT 1", allow_partial=True)
    assert (taken.rows(), taken.partial, taken.reasons) == ([(7,)], True, ("2 of 3 servers did not answer",))


def test_partial_answers_are_raised_unless_they_are_asked_for(stubs, answer):
    broker = stubs()
    broker.answer = lambda path, body: (200, answer([[7]], exceptions=[{"errorCode": 427, "message": "1 servers [x]"}]))
    with Connection.from_host_list(broker.url) as connection:
        with pytest.raises(OperationalError, match="1 servers"):
            connection.execute("SELECT 1")
        taken = connection.execute("SELECT 1", allow_partial=True)
        assert (taken[0].get_int(0), taken.partial, taken.exceptions) == (7, True, ((427, "1 servers [x]"),))
        broker.answer = lambda path, body: (200, failure((427, "none at all")))
        with pytest.raises(OperationalError, match="none at all"):
            connection.execute("SELECT 1", allow_partial=True)
    broker.answer = lambda path, body: (200, answer([[7]], numGroupsLimitReached=True))
    with connect(broker.url, allow_partial=True) as connection:
        assert connection.execute("SELECT 1").partial


# -- what is sent


def test_options_headers_and_paths(stubs):
    broker = stubs()
    settings = {"auth_token": "Bearer abc", "database": "db", "headers": {"X-Team": "a"}, "options": "a=1;timeoutMs=50"}
    with Connection.from_host_list(broker.url, **settings) as connection:
        connection.execute("SELECT 1", options={"a": 2, "trace": True})
        connection.execute("SELECT 2", language="pql")
    (path, headers, body), (pql_path, _, pql_body) = broker.requests
    assert (path, body) == ("/query/sql", {"sql": "SELECT 1", "queryOptions": "a=2;timeoutMs=50;trace=true"})
    assert (pql_path, pql_body) == ("/query", {"pql": "SELECT 2", "queryOptions": "a=1;timeoutMs=50"})
    assert (headers["authorization"], headers["database"], headers["x-team"]) == ("Bearer abc", "db", "a")


def test_credentials(stubs):
    broker = stubs()
    expected = "Basic YW5uOnM6Y3JldA=="
    for connection in (
        Connection.from_host_list(broker.url.replace("//", "//ann:s%3Acret@")),
        connect(broker.url, username="ann", password="s:cret"),
    ):
        with connection:
            connection.execute("SELECT 1")
    assert [headers["authorization"] for _, headers, _ in broker.requests] == [expected] * 2


def test_credentials_are_in_no_message(dead_url):
    url = dead_url.replace("//", "//ann:secret@")
    with Connection.from_host_list(url) as connection, pytest.raises(OperationalError) as raised:
        connection.execute("SELECT 1")
    assert "secret" not in str(raised.value)


def test_settings_of_pinotdb(stubs):
    broker = stubs()
    port = int(broker.url.rpartition(":")[2])
    habits = {"verify_ssl": False, "timeout": 7.0, "query_options": "trace=true", "debug": False}
    with connect(host="127.0.0.1", port=port, path="/elsewhere", scheme="http", **habits) as connection:
        connection.cursor().execute("SELECT 1", queryOptions="maxExecutionThreads=1")
    path, _, body = broker.requests[0]
    assert path == "/elsewhere"
    assert body["queryOptions"] == "trace=true;maxExecutionThreads=1;timeoutMs=7000"
    more = {"use_multistage_engine": "true", "extra_request_headers": "X-Team=a, X-Key=b=c", "preserve_types": True}
    for engine, sent in (
        (more, "trace=true;useMultistageEngine=true;timeoutMs=7000"),
        ({"use_multistage_engine": False}, None),
    ):
        with connect(broker.url, **habits, **engine) as connection:
            connection.execute("SELECT 1")
        _, headers, body = broker.requests[-1]
        assert body["queryOptions"] == sent or sent is None
        assert (headers.get("x-team"), headers.get("x-key")) == (("a", "b=c") if sent else (None, None))
    with pytest.raises(InterfaceError, match="must be written name=value"):
        connect(broker.url, extra_request_headers="Bearer")


def test_a_limit_told_by_option_is_how_long_is_waited(stubs):
    broker = stubs()
    broker.answer = broker.hang
    with Connection.from_host_list(broker.url) as connection, pytest.raises(OperationalError, match=r"within 1\.05 s"):
        connection.execute("SELECT 1", options={"timeoutMs": 50})


@pytest.mark.parametrize("options", [{"a": "1;b=2"}, {"a=b": 1}, {" ": 1}, "nonsense"])
def test_options_that_would_be_others(connection, options):
    with pytest.raises(ProgrammingError, match="option"):
        connection.execute("SELECT 1", options=options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Connection.from_host_list(), "list of brokers is empty"),
        (lambda: Connection.from_host_list("ftp://x"), "not the address of a service, such as http"),
        (lambda: Connection.from_host_list("host:port"), "not the address of a service"),
        (lambda: connect("a b"), "not the address"),
        (lambda: connect(tiemout_s=1), "no setting 'tiemout_s'. Did you mean 'timeout_s'"),
        (lambda: Connection.from_controller("http://"), "not the address"),
    ],
)
def test_wrong_settings(make, message):
    with pytest.raises(InterfaceError, match=message):
        make()


def test_wrong_arguments(connection):
    with pytest.raises(ProgrammingError, match="neither 'sql' nor 'pql'"):
        connection.execute("SELECT 1", language="mdx")
    with pytest.raises(ProgrammingError, match="must be above 0"):
        connection.execute("SELECT 1", timeout_s=0)


def test_tls_by_the_scheme_of_the_url():
    seen = []

    def take(request):
        seen.append(str(request.url))
        return httpx.Response(200, json={"exceptions": []})

    for host, scheme in (("https://b:1", "http"), ("b:2", "https"), ("b:3", "http")):
        with Connection.from_host_list(host, scheme=scheme, transport=httpx.MockTransport(take)) as connection:
            connection.execute("SELECT 1")
    assert seen == ["https://b:1/query/sql", "https://b:2/query/sql", "http://b:3/query/sql"]


# -- threads and the end


def test_futures(connection):
    futures = [connection.execute_async("SELECT COUNT(*) FROM every WHERE c_int = ?", [i]) for i in (8, 9, -7)]
    assert [future.result(60)[0].get_int(0) for future in futures] == [1, 0, 1]
    with pytest.raises(ProgrammingError):
        connection.execute_async("SELEC").result(60)

    async def both():
        return await asyncio.gather(*(asyncio.wrap_future(connection.execute_async("SELECT 1")) for _ in range(2)))

    assert [answer[0].get_int(0) for answer in asyncio.run(both())] == [1, 1]


def test_a_closed_connection(broker_url):
    connection = Connection.from_host_list(broker_url)
    connection.execute("SELECT 1")
    statement = connection.prepare_statement("SELECT 1")
    connection.close()
    connection.close()
    for use in (
        lambda: connection.execute("SELECT 1"),
        lambda: connection.execute_async("SELECT 1"),
        lambda: connection.prepare_statement("SELECT 1"),
        connection.cursor,
        connection.commit,
        statement.execute,
    ):
        with pytest.raises(InterfaceError, match="the connection is closed"):
            use()


# -- prepared statements


def test_prepared_statements(connection):
    statement = connection.prepare_statement("SELECT c_int FROM every WHERE c_string = ? OR c_int = ? ORDER BY c_int")
    assert statement.parameter_count == 2
    with pytest.raises(ProgrammingError, match="no value is set for parameter 1, 2"):
        statement.execute()
    assert statement.set_string(1, "x' OR 1=1 --").set_int(2, -7).execute()[0].rows() == [(-7,)]
    assert statement.set_string(1, "x").execute()[0].rows() == [(-7,), (8,)]
    assert statement.set_all("x", 5).execute_async().result(60)[0].rows() == [(8,)]
    for number in (0, 3):
        with pytest.raises(ProgrammingError, match=f"no parameter {number} among 2, numbered from 1"):
            statement.set(number, 1)
    with pytest.raises(ProgrammingError, match="2 placeholders, but 1"):
        statement.set_all(1)


def test_prepared_statements_of_pql(connection):
    statement = connection.prepare_statement("SELECT COUNT(*) FROM every WHERE c_string = ?", language="pql")
    assert statement.set_string(1, "x").execute()[0].get_int(0) == 1


def test_every_setter(connection):
    statement = connection.prepare_statement("?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?")
    statement.set_string(1, "a'b").set_int(2, -1).set_long(3, 2**40).set_float(4, 1).set_double(5, 2.5)
    statement.set_big_decimal(6, Decimal("1.10")).set_boolean(7, True).set_bytes(8, b"\xff").set_null(9)
    statement.set_timestamp(10, datetime(2024, 5, 1)).set_date(11, date(2024, 5, 1))
    assert statement.query() == (
        "'a''b', -1, 1099511627776, 1.0, 2.5, 1.10, TRUE, 'ff', NULL, '2024-05-01 00:00:00', '2024-05-01'"
    )


@pytest.mark.parametrize(
    ("setter", "value"),
    [
        ("set_string", 1),
        ("set_string", None),
        ("set_int", "1"),
        ("set_int", 2**31),
        ("set_int", True),
        ("set_long", 2**63),
        ("set_long", 1.0),
        ("set_double", "1"),
        ("set_double", False),
        ("set_big_decimal", 1.5),
        ("set_boolean", 1),
        ("set_bytes", "ff"),
        ("set_timestamp", date(2024, 5, 1)),
        ("set_date", datetime(2024, 5, 1)),
        ("set", object()),
    ],
)
def test_setters_check_types(connection, setter, value):
    statement = connection.prepare_statement("SELECT ?")
    with pytest.raises(DataError, match="parameter"):
        getattr(statement, setter)(1, value)

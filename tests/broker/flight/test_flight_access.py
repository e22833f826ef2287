"""Access control of Flight SQL: the same as over HTTP, by header or by login, with and without TLS."""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.broker.flight.conftest import ACCESS, fill
from tests.embedded.test_tls import Certificates

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import InUseError, InvalidConfigError
from gamay.base.tls import TlsSettings
from gamay.broker.flight.login import UNTOLD, Senders
from gamay.broker.flight.messages import new, wrapped
from gamay.broker.flight.port import FlightPort
from gamay.cluster.access.logins import Logins, address_of_peer
from gamay.cluster.access.passwords import basic_token
from gamay.cluster.access.principals import UnauthorizedError
from gamay.cluster.records.records import Role
from gamay.embedded import EmbeddedCluster
from gamay.embedded.serving import ServedFolder
from gamay.roles.settings import read_access

adbc = pytest.importorskip("adbc_driver_flightsql.dbapi")
manager = pytest.importorskip("adbc_driver_manager")


def ask(cluster: EmbeddedCluster, sql: str, user: str = "", password: str = "", **options: Any) -> list[tuple[Any, ...]]:
    login = {"username": user, "password": password} if user else {}
    options = {**login, **options}
    with adbc.connect(cluster.flight_url, db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def test_a_log_in_gives_a_token_and_the_rights_of_its_user(guarded: EmbeddedCluster) -> None:
    assert ask(guarded, "SELECT COUNT(*) FROM trips", "admin", "verysecret") == [(4,)]
    assert ask(guarded, "SELECT COUNT(*) FROM pay", "admin", "verysecret") == [(2,)]
    assert ask(guarded, "SELECT COUNT(*) FROM trips", "guest", "secret") == [(4,)]
    with pytest.raises(manager.Error, match="guest may not use table pay"):
        ask(guarded, "SELECT COUNT(*) FROM pay", "guest", "secret")
    with pytest.raises(manager.Error, match="guest may not use table pay"):
        ask(guarded, "SELECT COUNT(*) FROM trips a JOIN pay b ON a.n = b.n", "guest", "secret")
    assert ask(guarded, "SELECT city FROM trips", "part", "some") == [("Oslo",)]
    assert ask(guarded, "SELECT COUNT(*) FROM trips a JOIN trips b ON a.small < b.small", "part", "some") == [(0,)]


def test_headers_are_taken_too(guarded: EmbeddedCluster) -> None:
    for user, expected in (("admin:verysecret", 4), ("part:some", 1)):
        header = {"adbc.flight.sql.authorization_header": f"Basic {base64.b64encode(user.encode()).decode()}"}
        assert ask(guarded, "SELECT COUNT(*) FROM trips", **header) == [(expected,)]


@pytest.mark.parametrize("login", [{}, {"user": "admin", "password": "wrong"}, {"user": "nobody", "password": "x"}])
def test_who_is_not_known_is_told_so(guarded: EmbeddedCluster, login: dict[str, str]) -> None:
    with pytest.raises(manager.Error) as raised:
        ask(guarded, "SELECT 1", **login)
    assert "UNAUTHENTICATED" in str(raised.value) or "Unauthenticated" in str(raised.value)
    assert "Traceback" not in str(raised.value)
    header = {"adbc.flight.sql.authorization_header": "Bearer guessed"}
    with pytest.raises(manager.Error, match=r"(?i)unauthenticated"):
        ask(guarded, "SELECT 1", **header)


def calls_of(client: Any, options: Any = None) -> list[tuple[str, Callable[[], object]]]:
    """Return one call of each kind that Flight has."""
    tables = flight.FlightDescriptor.for_command(wrapped(new("CommandGetTables")))
    query = flight.FlightDescriptor.for_command(wrapped(new("CommandStatementQuery", query="SELECT 1")))
    action = flight.Action("CreatePreparedStatement", b"")
    return [
        ("get_flight_info", lambda: client.get_flight_info(tables, options)),
        ("get_flight_info", lambda: client.get_flight_info(query, options)),
        ("get_schema", lambda: client.get_schema(tables, options)),
        ("do_get", lambda: client.do_get(flight.Ticket(tables.command), options).read_all()),
        ("do_action", lambda: list(client.do_action(action, options))),
        ("list_actions", lambda: client.list_actions(options)),
        ("list_flights", lambda: list(client.list_flights(b"", options))),
        ("do_put", lambda: client.do_put(tables, pa.schema([]), options)[0].close()),
        ("do_exchange", lambda: client.do_exchange(tables, options)[1].read_all()),
    ]


def test_every_call_needs_a_log_in(guarded: EmbeddedCluster) -> None:
    with flight.connect(guarded.flight_url) as client:
        for _, call in calls_of(client):
            with pytest.raises((flight.FlightUnauthenticatedError, OSError), match="401"):
                call()


def test_the_catalogue_shows_what_may_be_used(guarded: EmbeddedCluster) -> None:
    for user, password, expected in (("admin", "verysecret", ["pay", "trips"]), ("guest", "secret", ["trips"])):
        login = {"username": user, "password": password}
        with adbc.connect(guarded.flight_url, db_kwargs=login, autocommit=True) as connection:
            (catalog,) = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
            assert [each["table_name"] for each in catalog["catalog_db_schemas"][0]["db_schema_tables"]] == expected


def test_statements_of_others_are_not_there(guarded: EmbeddedCluster) -> None:
    def options(user: str, password: str) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(headers=[client.authenticate_basic_token(user, password)])

    with flight.connect(guarded.flight_url) as client:
        admin, guest = options("admin", "verysecret"), options("guest", "secret")
        body = wrapped(new("ActionCreatePreparedStatementRequest", query="SELECT * FROM pay"))
        (made,) = client.do_action(flight.Action("CreatePreparedStatement", body), admin)
        handle = _handle(made.body.to_pybytes())
        ticket = flight.Ticket(wrapped(new("CommandPreparedStatementQuery", prepared_statement_handle=handle)))
        assert client.do_get(ticket, admin).read_all().num_rows == 2
        with pytest.raises(KeyError, match="no such prepared statement"):
            client.do_get(ticket, guest).read_all()


def _handle(body: bytes) -> bytes:
    from gamay.broker.flight.messages import unwrapped

    handle: bytes = unwrapped(body)[1].prepared_statement_handle
    return handle


def test_who_guesses_has_to_wait(tmp_path: Path) -> None:
    (tmp_path / "access.properties").write_text(ACCESS)
    access = read_access(tmp_path / "access.properties")[Role.BROKER]
    waited: list[float] = []
    logins = Logins(access, pause=waited.append)
    senders = Senders(logins, SYSTEM_CLOCK)
    wrong = basic_token("admin", "wrong")

    def fail(ask: Callable[[], object], times: int) -> int:
        waited.clear()
        for _ in range(times):
            with pytest.raises(UnauthorizedError):
                ask()
        return len(waited)

    async def over_http() -> None:
        await logins.principal(wrong, "10.0.0.7", "/query/sql")

    assert fail(lambda: asyncio.run(over_http()), 4) == 0
    assert fail(lambda: senders.sender(wrong, "10.0.0.7"), 4) == 3  # the failures over HTTP count
    assert fail(lambda: senders.sender(wrong, "10.0.0.8"), 5) == 0
    assert fail(lambda: senders.sender(wrong, UNTOLD), 6) == 1  # a handshake, which shows no address
    right = basic_token("admin", "verysecret")
    assert senders.known(right) is None
    assert senders.sender(right, "10.0.0.9").name == "admin"
    token = senders.token(right)
    assert senders.known(f"Bearer {token}") == senders.sender(f"Bearer {token}", UNTOLD) == senders.known(right)


def test_failed_calls_are_told_with_the_address_of_their_sender(
    guarded: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    header = (b"authorization", basic_token("stranger", "guess").encode())
    options = flight.FlightCallOptions(headers=[header])
    with flight.connect(guarded.flight_url) as client:
        for _, call in calls_of(client, options):
            with pytest.raises((flight.FlightUnauthenticatedError, OSError), match="401") as raised:
                call()
            assert "Traceback" not in str(raised.value)
    told = [record.getMessage() for record in caplog.records if record.name == "gamay.audit"]
    assert told[0] == "log-in as 'stranger' from 127.0.0.1 failed at 'Flight SQL', failures in a row: 1"
    caplog.clear()
    with flight.connect(guarded.flight_url) as client, pytest.raises(flight.FlightUnauthenticatedError):
        client.authenticate_basic_token("stranger", "guess")
    assert "'stranger' from Flight SQL failed at 'Flight SQL'" in caplog.text


def test_columns_that_may_not_be_seen_are_refused_without_a_traceback(guarded: EmbeddedCluster) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", basic_token("guest", "secret").encode())])
    pay = flight.FlightDescriptor.for_command(wrapped(new("CommandStatementQuery", query="SELECT * FROM pay")))
    with flight.connect(guarded.flight_url) as client, pytest.raises(pa.ArrowException, match="may not use") as raised:
        client.get_schema(pay, options)
    assert "Traceback" not in str(raised.value)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.7:51234", "10.0.0.7"), ("ipv6:%5B::1%5D:51234", "::1"), ("ipv6:[fe80::1%25eth0]:1", "fe80::1%eth0"),
        ("unix:/tmp/s", UNTOLD), ("", UNTOLD),
    ],
)  # fmt: skip
def test_addresses_are_written_as_over_http(peer: str, address: str) -> None:
    assert address_of_peer(peer, UNTOLD) == address


def test_the_port_is_encrypted_by_the_same_certificate(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    pem = Certificates(tmp_path)
    with ServedFolder(tmp_path / "data", tls=TlsSettings(pem.cert, pem.key), threads=1) as served:
        assert served.url.startswith("grpc+tls://localhost:")
        trusted = {"adbc.flight.sql.client_option.tls_root_certs": pem.ca.read_text()}
        with adbc.connect(served.url, db_kwargs=trusted, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(x) FROM trips")  # NULL is NULL in a data folder
            assert cursor.fetchall() == [(3,)]
        other = {"adbc.flight.sql.client_option.tls_root_certs": pem.other_ca.read_text()}
        with pytest.raises(manager.Error), adbc.connect(served.url, db_kwargs=other, autocommit=True) as connection:
            connection.cursor().execute("SELECT 1")
    with pytest.raises(InvalidConfigError, match="key without a password"):
        FlightPort(0, "127.0.0.1", TlsSettings(pem.cert, pem.key, key_password="x"))


def test_a_port_that_is_taken_is_not_shared(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    port = int(cluster.flight_url.rpartition(":")[2])
    with pytest.raises(InUseError, match=f"cannot listen on port {port}"):
        FlightPort(port, "127.0.0.1")
    with pytest.raises(InUseError), ServedFolder(tmp_path / "data", port):
        pass
    with pytest.raises(InvalidConfigError, match="which HTTP uses"):
        FlightPort(port, "127.0.0.1", others=[port])
    with pytest.raises(InvalidConfigError, match="a number from 1 to 65535"):
        FlightPort(70_000, "127.0.0.1")

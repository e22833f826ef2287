"""Who may ask by Flight SQL for what: as over HTTP, by header or by log-in, encrypted or not."""

import base64
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
from gamay.broker.flight.login import Logins
from gamay.broker.flight.messages import new, wrapped
from gamay.broker.flight.port import FlightPort
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


def test_every_call_needs_a_log_in(guarded: EmbeddedCluster) -> None:
    tables = flight.FlightDescriptor.for_command(wrapped(new("CommandGetTables")))
    with flight.connect(guarded.flight_url) as client:
        calls = [
            lambda: client.get_flight_info(tables),
            lambda: client.get_schema(tables),
            lambda: client.do_get(flight.Ticket(tables.command)).read_all(),
            lambda: list(client.do_action(flight.Action("CreatePreparedStatement", b""))),
            lambda: client.list_actions(),
            lambda: list(client.list_flights()),
            lambda: client.do_put(tables, pa.schema([]))[0].close(),
        ]
        for call in calls:
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
    logins = Logins(access, SYSTEM_CLOCK, waited.append)
    wrong = f"Basic {base64.b64encode(b'admin:wrong').decode()}"
    for _ in range(8):
        with pytest.raises(UnauthorizedError):
            logins.sender(wrong)
    assert len(waited) == 3
    right = f"Basic {base64.b64encode(b'admin:verysecret').decode()}"
    assert logins.sender(right).name == "admin"
    token = logins.token(right)
    assert logins.sender(f"Bearer {token}").name == "admin"


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
    with pytest.raises(InvalidConfigError, match="beside HTTP"):
        FlightPort(port, "127.0.0.1", others=[port])
    with pytest.raises(InvalidConfigError, match="a number from 1 to 65535"):
        FlightPort(70_000, "127.0.0.1")

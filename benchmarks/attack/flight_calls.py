"""Calls of Flight SQL with damaged messages, by a principal who may read some tables, and bytes that are nearly gRPC."""

import contextlib
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa
from pyarrow import flight

from benchmarks.attack.findings import Findings
from benchmarks.attack.judged import DEFECTS, LATE_S
from benchmarks.attack.mutations import mutated
from benchmarks.attack.requests import TABLE
from benchmarks.attack.target import Doors, token
from benchmarks.attack.wire import judge_bytes
from gamay.broker.flight.messages import new, wrapped

ACTIONS = ("CreatePreparedStatement", "ClosePreparedStatement", "CancelFlightInfo", "CancelQuery", "BeginTransaction", "")
_HEADERS = (
    (b"query-options", b"timeoutMs=x"),
    (b"query-options", b"=;="),
    (b"query-options", b"a" * 3000),
    (b"database", b"~'"),
)
_DAMAGED_SHARE = 0.7
_FITTING_SHARE = 0.7
_SECRET_COLUMN = "fare"
"""Of the table that the principal may not read."""


def whole_messages(sql: str) -> list[bytes]:
    """Return valid commands, tickets and bodies as clients send them. sql: a valid query."""
    made: list[tuple[str, dict[str, Any]]] = [
        ("CommandStatementQuery", {"query": sql}),
        ("CommandStatementQuery", {"query": "SELECT * FROM '/etc/passwd'"}),
        ("CommandStatementQuery", {"query": f"SELECT * FROM {TABLE}"}),
        ("CommandPreparedStatementQuery", {"prepared_statement_handle": b"none"}),
        ("TicketStatementQuery", {"statement_handle": f'{{"sql": "{sql}", "id": "x"}}'.encode()}),
        ("TicketStatementQuery", {"statement_handle": f'{{"sql": "SELECT * FROM {TABLE}", "id": "y"}}'.encode()}),
        ("TicketStatementQuery", {"statement_handle": b'{"sql": 7}'}),
        ("CommandGetTables", {"table_name_filter_pattern": "%_[a(", "include_schema": True}),
        ("CommandGetDbSchemas", {"db_schema_filter_pattern": "\\"}),
        ("CommandGetPrimaryKeys", {"table": "\0"}),
        ("CommandGetSqlInfo", {"info": [0, 1, 4_294_967_295]}),
        ("CommandGetXdbcTypeInfo", {"data_type": -7}),
        ("ActionCreatePreparedStatementRequest", {"query": f"{sql} LIMIT ?"}),
        ("ActionCreatePreparedStatementRequest", {"query": "?" * 300}),
        ("ActionClosePreparedStatementRequest", {"prepared_statement_handle": b"\xff"}),
        ("ActionCancelQueryRequest", {"info": b"\x00" * 20}),
    ]
    return [wrapped(new(name, **fields)) for name, fields in made]


def damaged(whole: Sequence[bytes], rng: random.Random) -> bytes:
    """Return one of the messages, usually damaged."""
    data = rng.choice(whole)
    return mutated(data, rng, whole) if rng.random() < _DAMAGED_SHARE else data


def calls_with(client: Any, data: bytes, rng: random.Random, headers: list[Any]) -> Mapping[str, Callable[[], Any]]:
    """Return every possible call with the given bytes, by name."""
    options = flight.FlightCallOptions(timeout=LATE_S, headers=headers)
    named = re.search(rb"Action(\w+?)Request", data)
    action = named[1].decode() if named is not None and rng.random() < _FITTING_SHARE else rng.choice(ACTIONS)

    def put() -> None:
        table = pa.table({"a": [rng.choice([1, None, "x" * 100])]})
        writer, _ = client.do_put(flight.FlightDescriptor.for_command(data), table.schema, options)
        writer.write_table(table)
        writer.close()

    def exchange() -> None:
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(data), options)
        try:
            reader.read_all()
        finally:
            with contextlib.suppress(pa.ArrowException):
                writer.close()

    return {
        "info": lambda: client.get_flight_info(flight.FlightDescriptor.for_command(data), options),
        "schema": lambda: client.get_schema(flight.FlightDescriptor.for_command(data), options),
        "get": lambda: client.do_get(flight.Ticket(data), options).read_all(),
        "action": lambda: list(client.do_action(flight.Action(action, data), options)),
        "path": lambda: client.get_flight_info(flight.FlightDescriptor.for_path(data.hex()[:40]), options),
        "exchange": exchange,
        "put": put,
    }


class FlightCalls:
    """Inputs for Flight SQL: half are calls, half bytes on separate connections."""

    _STRANGERS_SHARE = 0.5

    def __init__(self, doors: Doors, seed: int) -> None:
        self._port = doors.flight_port
        self._whole = whole_messages("SELECT i FROM t")
        self._client = flight.connect(f"grpc://127.0.0.1:{self._port}")
        self._corpus = _recorded(self._port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send(self, number: int, rng: random.Random, findings: Findings) -> None:
        """Make a call, or send bytes."""
        if rng.random() < self._STRANGERS_SHARE:
            judge_bytes(self._port, mutated(rng.choice(self._corpus), rng, self._corpus), number, findings, b"defect of")
            return
        data = damaged(self._whole, rng)
        headers = [(b"authorization", token("guest").encode())]
        if rng.random() < 0.3:
            headers.append(rng.choice(_HEADERS))
        calls = calls_with(self._client, data, rng, headers)
        fitting = ("get",) if b"Ticket" in data else ("action",) if b".Action" in data else ("info", "schema", "get")
        name = rng.choice(fitting if rng.random() < _FITTING_SHARE else tuple(calls))
        call = calls[name]
        began_s = time.monotonic()
        try:
            found = call()
        except (pa.ArrowException, KeyError, OSError) as error:
            text = str(error)
            if isinstance(error, flight.FlightInternalError | flight.FlightTimedOutError) or any(d in text for d in DEFECTS):
                findings.wrongly(number, (name, data), repr(error))
            else:
                findings.refused()
        else:
            if isinstance(found, pa.Table) and _SECRET_COLUMN in found.column_names:
                findings.wrongly(number, (name, data), f"rows of {TABLE}, which guest may not read")
            findings.answered()
        findings.took(time.monotonic() - began_s, (name, data))


def _recorded(port: int) -> list[bytes]:
    """Return the bytes that a client sends for some calls, by connection, recorded by a relay."""
    found: list[bytes] = []
    descriptor = flight.FlightDescriptor.for_command(wrapped(new("CommandGetTables")))
    ticket = flight.Ticket(wrapped(new("TicketStatementQuery", statement_handle=b'{"sql": "SELECT i FROM t", "id": "z"}')))
    options = flight.FlightCallOptions(timeout=LATE_S, headers=[(b"authorization", token("guest").encode())])
    for call in (
        lambda client: client.authenticate_basic_token("guest", "password of guest"),
        lambda client: client.get_flight_info(descriptor, options),
        lambda client: client.do_get(ticket, options).read_all(),
        lambda client: list(client.do_action(flight.Action("CancelQuery", b""), options)),
    ):
        with socket.create_server(("127.0.0.1", 0)) as between:
            listens_at = between.getsockname()[1]
            relay = threading.Thread(target=_relay, args=(between, port, found), daemon=True)
            relay.start()
            with flight.connect(f"grpc://127.0.0.1:{listens_at}") as client, contextlib.suppress(pa.ArrowException):
                call(client)
            relay.join()
    return found


def _relay(between: socket.socket, port: int, found: list[bytes]) -> None:
    """Forward a connection until the client closes it, and record what it sends."""
    client, _ = between.accept()
    sent = bytearray()
    with client, socket.create_connection(("127.0.0.1", port)) as server:
        back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
        back.start()
        with contextlib.suppress(OSError):
            while piece := client.recv(1 << 16):
                sent += piece
                server.sendall(piece)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        back.join()
    found.append(bytes(sent))


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)

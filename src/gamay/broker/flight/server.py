"""The calls of Flight SQL: each becomes a query, or is answered from the catalog.

GetFlightInfo (a command)  -> a ticket; nothing runs yet, and any broker accepts the ticket of a query
DoGet (the ticket)         -> runs the query and streams its rows as batches; stops when the client stops reading
DoPut (a prepared query)   -> binds values to its parameters; all other uses are rejected, since tables are read-only
DoAction                   -> CreatePreparedStatement, ClosePreparedStatement, CancelFlightInfo, CancelQuery
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import orjson
import pyarrow as pa
from pyarrow import flight

from gamay.base.clock import Clock
from gamay.base.errors import InvalidConfigError
from gamay.base.ids import Ids
from gamay.base.process_info import VERSION
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.flight import catalog, server_facts
from gamay.broker.flight.asking import Asking, FlightCall
from gamay.broker.flight.failures import InvalidRequest, NotOffered, Refused
from gamay.broker.flight.login import LOGIN, Handshake, Login, LoginFactory, Senders, entered
from gamay.broker.flight.messages import new, read, unwrapped, unwrapped_as, wrapped
from gamay.broker.flight.statements import ROWS_MAX, Statement, Statements
from gamay.cluster.access.logins import Logins
from gamay.model.schema.schema import Schema
from gamay.model.table.table_name import DEFAULT_DATABASE, database_of
from gamay.query.limits.queue import QueryQueue
from gamay.sql.options.options import parse_query_options

OPTIONS_HEADER = "query-options"
DATABASE_HEADER = "database"
_BATCH_ROWS = 65_536
_BOUND_BYTES_MAX = 16 << 20
_READ_ONLY = "tables cannot be changed by Flight SQL: rows come from files, streams and DataFrames; see docs/guide/tables.md"
_FOREIGN_KEYS = ("CommandGetExportedKeys", "CommandGetImportedKeys", "CommandGetCrossReference")
_ACTIONS = {
    "CreatePreparedStatement": "Create a prepared statement; its parameters are written ?.",
    "ClosePreparedStatement": "Close a prepared statement.",
    "CancelFlightInfo": "Cancel the query of a FlightInfo.",
    "CancelQuery": "Cancel the query of a FlightInfo (older clients).",
}
_CANCELLED, _NOT_CANCELLABLE = 1, 3


class FlightSqlServer(flight.FlightServerBase):  # type: ignore[misc]
    """A broker's Flight SQL interface; it serves from its creation until `stop`.

    location: gRPC URI to listen on. logins: authenticate the callers. options: defaults for the options of calls. transport:
    certificates in Arrow's form.
    """

    def __init__(
        self,
        location: str,
        runner: QueryRunner,
        queue: QueryQueue,
        logins: Logins,
        clock: Clock,
        ids: Ids,
        *,
        options: Mapping[str, str] | None = None,
        transport: Mapping[str, Any] | None = None,
    ) -> None:
        self._options = options or {}
        self._runner = runner
        self._asking = Asking(runner, queue)
        self._statements = Statements(clock, ids)
        self._ids = ids
        super().__init__(
            location,
            auth_handler=Handshake(),
            middleware={LOGIN: LoginFactory(Senders(logins, clock))},
            **(transport or {}),
        )

    def stop(self, within_s: float) -> None:
        """Wait for the running queries up to the timeout, cancel the rest, then stop serving."""
        self._asking.stop(within_s)
        self.shutdown()

    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        """Return a ticket for the answer to a command, to be redeemed here."""
        with entered(context):
            kind, command = unwrapped(descriptor.command or b"")
            if kind == "CommandStatementQuery":
                handle = orjson.dumps({"sql": command.query, "id": self._ids.new()})
                schema, ticket = None, wrapped(new("TicketStatementQuery", statement_handle=handle))
            elif kind == "CommandPreparedStatementQuery":
                self._statements.get(command.prepared_statement_handle, _login(context).principal)
                schema, ticket = None, descriptor.command
            else:
                schema, ticket = self._found(kind, command, {}).schema, descriptor.command
        endpoint = flight.FlightEndpoint(flight.Ticket(ticket), [])
        return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1)

    def get_schema(self, context: Any, descriptor: Any) -> flight.SchemaResult:
        """Return the schema of the answer to a command."""
        try:
            with entered(context):
                return flight.SchemaResult(self._described(descriptor.command or b"", self._call(context)))
        except flight.FlightError as error:
            raise Refused(str(error)) from None

    def _described(self, sent: bytes, call: FlightCall) -> pa.Schema:
        kind, command = unwrapped(sent)
        if kind == "CommandStatementQuery":
            return self._asking.describe(command.query, call)
        if kind == "CommandPreparedStatementQuery":
            statement = self._statements.get(command.prepared_statement_handle, call.principal)
            return self._columns(statement, call) or pa.schema([])
        return self._found(kind, command, {}).schema

    def do_get(self, context: Any, ticket: Any) -> flight.FlightDataStream:
        """Run the query of a ticket, and stream its rows."""
        with entered(context):
            kind, command = unwrapped(ticket.ticket)
            call = self._call(context)
            if kind == "TicketStatementQuery":
                sql, name = _statement_of(command.statement_handle)
                table = self._asking.ask(sql, call, name)
            elif kind == "CommandPreparedStatementQuery":
                statement = self._statements.get(command.prepared_statement_handle, call.principal)
                answers = [self._asking.ask(text, call) for text in statement.texts()]
                table = pa.concat_tables(answers) if len(answers) > 1 else answers[0]
            else:
                table = self._found(kind, command, self._schemas(call))
        return flight.GeneratorStream(table.schema, _batches(table, call.is_over))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Bind values to the parameters of a prepared statement."""
        with entered(context):
            kind, command = unwrapped(descriptor.command or b"")
            if kind != "CommandPreparedStatementQuery":
                raise InvalidConfigError(_READ_ONLY)
            rows: list[list[Any]] = []
            num_bytes = 0
            for chunk in reader:
                num_bytes += chunk.data.nbytes
                if num_bytes > _BOUND_BYTES_MAX:
                    raise InvalidConfigError(f"the parameters exceed {_BOUND_BYTES_MAX:,} bytes; use several queries")
                columns = [column.to_pylist() for column in chunk.data.columns]
                rows += [list(row) for row in zip(*columns, strict=True)]
                if len(rows) > ROWS_MAX:
                    break
            self._statements.bind(command.prepared_statement_handle, _login(context).principal, rows)

    def do_action(self, context: Any, action: Any) -> Iterator[flight.Result]:
        """Perform one of `_ACTIONS`."""
        does: dict[str, Callable[[Any, bytes], list[bytes]]] = {
            "CreatePreparedStatement": self._create,
            "ClosePreparedStatement": self._close,
            "CancelFlightInfo": self._cancel_flight_info,
            "CancelQuery": self._cancel_query,
        }
        with entered(context):
            if action.type not in does:
                what = f"the action '{action.type}' is not supported; supported are {', '.join(_ACTIONS)}"
                if "Transaction" in action.type or "Savepoint" in action.type:
                    what += ". Tables are read-only, so there are no transactions: connect with autocommit"
                raise NotOffered(what)
            return iter([flight.Result(pa.py_buffer(body)) for body in does[action.type](context, action.body.to_pybytes())])

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Refuse: Flight SQL does not use this call."""
        with entered(context):
            raise NotOffered("DoExchange is not supported; read rows with GetFlightInfo and DoGet")

    def list_flights(self, context: Any, criteria: bytes) -> None:
        """Refuse: the catalog commands list the tables."""
        with entered(context):
            raise NotOffered("ListFlights is not supported; CommandGetTables lists the tables")

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """Return the actions that `do_action` performs."""
        with entered(context):
            return list(_ACTIONS.items())

    def _create(self, context: Any, body: bytes) -> list[bytes]:
        request = unwrapped_as("ActionCreatePreparedStatementRequest", body)
        call = self._call(context)
        self._runner.check_length(request.query)  # before the text is stored
        handle, statement = self._statements.create(request.query, call.principal)
        columns = self._columns(statement, call)
        made = new(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=handle,
            dataset_schema=b"" if columns is None else columns.serialize().to_pybytes(),
            parameter_schema=statement.parameter_schema().serialize().to_pybytes(),
        )
        return [wrapped(made)]

    def _columns(self, statement: Statement, call: FlightCall) -> pa.Schema | None:
        """Return the columns of a statement's answer, None if they depend on parameters that are not bound."""
        shapes = statement.shapes()
        if not statement.num_parameters or statement.rows:
            return self._asking.describe(shapes[0], call)
        for text in shapes:
            with suppress(InvalidRequest):
                return self._asking.describe(text, call)
        return None

    def _close(self, context: Any, body: bytes) -> list[bytes]:
        request = unwrapped_as("ActionClosePreparedStatementRequest", body)
        self._statements.close(request.prepared_statement_handle, _login(context).principal)
        return []

    def _cancel_flight_info(self, context: Any, body: bytes) -> list[bytes]:
        info = read("CancelFlightInfoRequest", body).info
        return [new("CancelFlightInfoResult", status=self._cancelled(context, info)).SerializeToString()]

    def _cancel_query(self, context: Any, body: bytes) -> list[bytes]:
        request = unwrapped_as("ActionCancelQueryRequest", body)
        return [wrapped(new("ActionCancelQueryResult", result=self._cancelled(context, request.info)))]

    def _cancelled(self, context: Any, info: bytes) -> int:
        """Cancel the query of a serialized FlightInfo; return Flight's status of the cancellation."""
        try:
            endpoints = flight.FlightInfo.deserialize(info).endpoints
        except pa.ArrowException as error:
            raise InvalidConfigError(f"the FlightInfo to cancel cannot be read: {error}") from error
        status = _NOT_CANCELLABLE
        for endpoint in endpoints:
            kind, command = unwrapped(endpoint.ticket.ticket)
            if kind == "TicketStatementQuery":
                _, name = _statement_of(command.statement_handle)
                if self._asking.cancel(name, _login(context).principal):
                    status = _CANCELLED
        return status

    def _call(self, context: Any) -> FlightCall:
        """Return the sender, database and options of a call. Raises QueryError for invalid options."""
        login = _login(context)
        options = {**self._options, **parse_query_options(login.headers.get(OPTIONS_HEADER, ""))}
        return FlightCall(login.principal, context.is_cancelled, login.headers.get(DATABASE_HEADER), options)

    def _schemas(self, call: FlightCall) -> dict[str, Schema]:
        """Return the schemas of the tables that the sender of a call may use, by raw name."""
        return self._runner.usable_schemas(call.principal, call.database)

    def _found(self, kind: str, command: Any, schemas: Mapping[str, Schema]) -> pa.Table:
        """Return the answer to a catalog command. Raises InvalidConfigError for another command."""
        if kind == "CommandGetCatalogs":
            return catalog.catalogs()
        if kind == "CommandGetDbSchemas":
            databases = {DEFAULT_DATABASE, *(database_of(name) for name in schemas)}
            return catalog.db_schemas(databases, *_given(command, "catalog", "db_schema_filter_pattern"))
        if kind == "CommandGetTables":
            where, databases, names = _given(command, "catalog", "db_schema_filter_pattern", "table_name_filter_pattern")
            with_schemas = command.include_schema
            return catalog.tables(schemas, where, databases, names, command.table_types, with_schemas=with_schemas)
        if kind == "CommandGetTableTypes":
            return catalog.rows_of(catalog.TABLE_TYPES, [(catalog.TABLE_TYPE,)])
        if kind == "CommandGetPrimaryKeys":
            where, database = _given(command, "catalog", "db_schema")
            return catalog.primary_keys(schemas, where, database, command.table)
        if kind in _FOREIGN_KEYS:
            return catalog.rows_of(catalog.FOREIGN_KEYS, [])
        if kind == "CommandGetSqlInfo":
            return server_facts.sql_info(VERSION, list(command.info))
        if kind == "CommandGetXdbcTypeInfo":
            return server_facts.type_info(*_given(command, "data_type"))
        raise InvalidConfigError(f"{kind} is not supported; {_READ_ONLY}")


def _login(context: Any) -> Login:
    found: Login = context.get_middleware(LOGIN)
    return found


def _given(command: Any, *names: str) -> list[Any]:
    """Return fields of a message, None for each that is not set."""
    return [getattr(command, name) if command.HasField(name) else None for name in names]


def _statement_of(handle: bytes) -> tuple[str, str]:
    """Return the text and the id of a ticket's query. Raises InvalidConfigError."""
    try:
        found = orjson.loads(handle)
        return str(found["sql"]), str(found["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidConfigError("this is not a ticket of a Gamay broker; request one with GetFlightInfo") from error


def _batches(table: pa.Table, is_over: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        if is_over():
            return
        yield batch

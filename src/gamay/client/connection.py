"""Connections to a cluster: a query goes to one of its brokers, and to another one if that fails."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import ErrorCode, GamayError, InvalidConfigError, NotFoundError
from gamay.base.telling import tell
from gamay.base.zookeeper_login import ANYBODY, ZooKeeperLogin
from gamay.client import errors
from gamay.client.broker import PQL, SQL, BrokerClient, option_text, options_of
from gamay.client.controller import ControllerClient
from gamay.client.directory import BrokerDirectory, ControllerDirectory, FixedBrokers, ZooKeeper, ZooKeeperDirectory
from gamay.client.errors import InterfaceError, OperationalError, ProgrammingError, error_of
from gamay.client.http import TIMEOUT_S, NoAnswerInTimeError, NotAnAnswerError, ServiceError, UnreachableError, service_url
from gamay.client.literals import filled
from gamay.client.results import ResultSet, ResultSetGroup
from gamay.client.selector import REFRESH_S, BrokerSelector, tables_of
from gamay.model.table.table_name import DEFAULT_DATABASE

if TYPE_CHECKING:
    from os import PathLike

    import httpx

    from gamay.client.cursor import Cursor
    from gamay.client.statement import PreparedStatement
    from gamay.client.tables import Expression, Table
    from gamay.client.tables.profile import Profile

CONNECT_TIMEOUT_S = 5.0
_GRACE_S = 1.0  # beyond the broker's own timeout, so that its more specific error can arrive
_THREADS = 16
_UNAVAILABLE = 503
_INTERRUPTED_MAX = 1  # a query that may have crashed a broker is not sent to every other broker


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the connections to brokers.

    auth_token: the value of the Authorization header, such as `Bearer …`; or user and password for Basic. database: the
    default
    database of table names. timeout_s: timeout of a query; None leaves it to the broker, and waits half a minute.
    options: query options of every query, as a mapping or as `k=v;k2=v2`. allow_partial: return an answer that some servers
    did not contribute to instead of raising; see `ResultSetGroup.partial` and `exceptions`. verify: True, False or an
    SSLContext. sql_path: the brokers' SQL endpoint. transport: an httpx transport, instead of the network.
    """

    auth_token: str | None = None
    user: str | None = None
    password: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    database: str | None = None
    timeout_s: float | None = None
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    options: Mapping[str, Any] | str | None = None
    allow_partial: bool = False
    verify: Any = True
    sql_path: str | None = None
    refresh_s: float = REFRESH_S
    transport: "httpx.BaseTransport | None" = None
    clock: Clock = SYSTEM_CLOCK

    def service(self) -> dict[str, Any]:
        """Return the keyword arguments of an `HttpService`."""
        headers = dict(self.headers)
        if self.database:
            headers["database"] = self.database
        return {
            "auth_token": self.auth_token or _basic(self.user, self.password),
            "headers": headers,
            "timeout_s": self.timeout_s or TIMEOUT_S,
            "connect_timeout_s": self.connect_timeout_s,
            "verify": self.verify,
            "transport": self.transport,
        }


def _basic(user: str | None, password: str | None) -> str | None:
    if user is None:
        return None
    from base64 import b64encode

    credentials = f"{user}:{password or ''}"
    return f"Basic {b64encode(credentials.encode()).decode()}"


class Connection:
    """A thread-safe connection to a cluster. Use it as a context manager, or call `close`.

    Made by `from_controller`, `from_host_list`, `from_zookeeper`, `from_properties`, or `gamay.client.connect`; their
    keywords are the fields of `Settings`. No network connection is opened before the first query, except for a ZooKeeper
    session.
    """

    def __init__(self, directory: BrokerDirectory, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._options = options_of(self._settings.options)
        self._selector = BrokerSelector(
            directory, self._settings.clock, refresh_s=self._settings.refresh_s, first=threading.get_native_id()
        )
        self._lock = threading.Lock()
        self._brokers: dict[str, BrokerClient] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    # PEP 249 has them here too, for programs that use several DB-API modules
    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    # -- constructors

    @classmethod
    def from_host_list(cls, *hosts: str | Iterable[str], scheme: str = "http", **settings: Any) -> Self:
        """Connect to brokers, given as `host:port` or URLs, one by one or as a list."""
        chosen = _settings(settings)
        named = [one for host in hosts for one in ([host] if isinstance(host, str) else host)]
        return cls(_wrong_address(FixedBrokers, named, scheme), chosen)

    @classmethod
    def from_controller(cls, url: str, *, scheme: str | None = None, **settings: Any) -> Self:
        """Connect to the brokers that a controller lists; the list is refreshed every `refresh_s` and when all of them fail.

        scheme: of the brokers, if not that of the controller's URL. A user and password in the URL are sent to the
        brokers, too.
        """
        chosen = _settings(settings)
        credentials = _wrong_address(service_url, url)[1]
        if credentials is not None and chosen.auth_token is None and chosen.user is None:
            chosen = replace(chosen, user=credentials[0], password=credentials[1])
        controller: ControllerClient = _wrong_address(_controller, url, chosen)
        return cls(ControllerDirectory(controller, scheme or controller.url.partition(":")[0]), chosen)

    @classmethod
    def from_zookeeper(
        cls,
        path: str,
        *,
        scheme: str = "http",
        client: ZooKeeper | None = None,
        login: ZooKeeperLogin = ANYBODY,
        **settings: Any,
    ) -> Self:
        """Connect to the brokers registered in ZooKeeper, at `host:port,…/path of the cluster`. Needs `gamay[zookeeper]`.

        client: a started kazoo client to use, and to leave open. login: without a client, TLS and credentials for ZooKeeper,
        by its scheme `digest` or by SASL.
        """
        chosen = _settings(settings)
        return cls(_wrong_address(ZooKeeperDirectory, path, client, scheme, login), chosen)

    @classmethod
    def from_properties(cls, properties: "Mapping[str, str] | str | PathLike[str]", **settings: Any) -> Self:
        """Connect by the properties of Java's client, a mapping or a file; see `gamay.client.properties`."""
        from gamay.client.properties import read_properties

        return read_properties(cls, properties, settings)

    # -- queries

    def execute(
        self,
        query: str,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        options: Mapping[str, Any] | str | None = None,
        language: str = SQL,
        timeout_s: float | None = None,
        allow_partial: bool | None = None,
    ) -> ResultSetGroup:
        """Return the answer to a query.

        parameters: a mapping for `:name` or `%(name)s`, or a list for `?`. options: query options, added to those of
        the connection. language: `sql` or `pql`. timeout_s, allow_partial: override the connection's.
        Raises ProgrammingError, OperationalError, DataError or InternalError for the answer's error code, OperationalError
        when no broker answers (in time), InterfaceError when the peer is not a broker. Issues a UserWarning for each
        warning of the broker.
        """
        if language not in (SQL, PQL):
            raise ProgrammingError(f"the language {language!r} is neither 'sql' nor 'pql'", ErrorCode.QUERY_VALIDATION)
        text = filled(query, parameters)
        response, broker = self._ask(text, language, {**self._options, **options_of(options)}, timeout_s)
        group = ResultSetGroup(response, broker)
        takes_part = self._settings.allow_partial if allow_partial is None else allow_partial
        if group.exceptions and not (takes_part and group.result_sets):
            raise error_of(group.exceptions, response)
        if group.num_servers_lacking > 0 and not takes_part:
            raise OperationalError(
                f"{group.reasons[0]}; allow_partial=True accepts the answer of the others",
                ErrorCode.SERVER_NOT_RESPONDING,
                response=response,
            )
        for sentence in group.warnings:
            tell(sentence)
        return group

    def execute_async(
        self,
        query: str,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
        **keywords: Any,
    ) -> "Future[ResultSetGroup]":
        """Send a query and return immediately; the future completes with what `execute` returns or raises.

        It runs on a thread of the connection, so it needs no event loop; within one, `await asyncio.wrap_future(future)`.
        """
        self._check_open()
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="gamay-client")
            return self._threads.submit(self.execute, query, parameters, **keywords)

    def table(self, name: str) -> "Table":
        """Return a table to query without SQL; see `gamay.client.tables.Table`."""
        from gamay.client.tables import Table

        return Table(self._only_set, name)

    def profile(self, name: str, columns: Sequence[str] | None = None, where: "Expression | None" = None) -> "Profile":
        """Return a profile of a table's columns; see `gamay.client.tables.profile`. Raises what `execute` raises."""
        from gamay.client.tables.profile import profile

        return profile(self._only_set, name, columns, where)

    def _only_set(self, query: str) -> ResultSet:
        return self.execute(query).get_result_set(0)

    def cancel(self, client_query_id: str) -> bool:
        """Cancel a query that another thread has sent with the option `clientQueryId`; return whether a broker was running
        it.

        No broker runs one that has ended or has not arrived yet. Raises OperationalError when no broker could be asked.
        """
        with self._lock:
            self._check_open()
            brokers = list(self._brokers.values())
        failures: dict[str, str] = {}
        found = False
        for broker in brokers:
            try:
                found |= broker.cancel(client_query_id)
            except GamayError as error:
                failures[broker.url] = str(error)
        if failures and len(failures) == len(brokers):
            raise _nobody(failures)
        return found

    def prepare_statement(self, query: str, **keywords: Any) -> "PreparedStatement":
        """Return a statement with a parameter for each `?` of a query. keywords: as of `execute`."""
        from gamay.client.statement import PreparedStatement

        self._check_open()
        return PreparedStatement(self, query, keywords)

    # -- DB-API 2.0

    def cursor(self) -> "Cursor":
        """Return a cursor (PEP 249)."""
        from gamay.client.cursor import Cursor

        self._check_open()
        return Cursor(self)

    def commit(self) -> None:
        """Do nothing: queries change nothing."""
        self._check_open()

    def rollback(self) -> None:
        """Do nothing: queries change nothing."""
        self._check_open()

    def close(self) -> None:
        """Close the connections to brokers; queries that run on other threads fail. Closing twice is allowed."""
        with self._lock:
            self._closed = True
            brokers, self._brokers = self._brokers, {}
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
        for broker in brokers.values():
            broker.close()
        self._selector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- sending queries

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the connection is closed")

    def _broker(self, url: str) -> BrokerClient:
        with self._lock:
            self._check_open()
            if url not in self._brokers:
                self._brokers[url] = BrokerClient(url, **self._settings.service())
            return self._brokers[url]

    def _ask(
        self, query: str, language: str, options: dict[str, Any], timeout_s: float | None
    ) -> tuple[dict[str, Any], str]:
        """Return the answer and the URL of the broker that gave it.

        Each broker is tried once; one that closed the connection midway is tried again, as the connection may have been
        stale.
        """
        self._check_open()
        path = self._settings.sql_path if language == SQL else None
        wait_s = self._limit(options, timeout_s)
        sent = option_text(options)
        database = options.get("database", self._settings.database)
        tables = {_full_name(name, database) for name in tables_of(query)}
        failures: dict[str, str] = {}
        passed_over: set[str] = set()
        interrupted = 0
        for fresh in (False, True):
            for url in self._candidates(tables, fresh, passed_over):
                broker = self._broker(url)
                try:
                    answer = broker.ask(query, language=language, options=sent, path=path, timeout_s=wait_s)
                except NoAnswerInTimeError as error:
                    self._selector.failed(url)
                    raise OperationalError(_out_of_time(broker.url, wait_s), ErrorCode.BROKER_TIMEOUT) from error
                except ServiceError as error:
                    if error.status not in (None, _UNAVAILABLE):
                        raise OperationalError(f"broker {broker.url} failed: {error}", ErrorCode.INTERNAL) from error
                    self._selector.failed(url)
                    failures[url] = str(error)
                    if isinstance(error, UnreachableError) or error.status is not None:
                        passed_over.add(url)
                    elif (interrupted := interrupted + 1) > _INTERRUPTED_MAX:
                        raise _nobody(failures) from error
                except GamayError as error:
                    raise _refused(broker.url, error) from error
                else:
                    self._selector.answered(url)
                    return answer, broker.url
        raise _nobody(failures)

    def _candidates(self, tables: set[str], fresh: bool, passed_over: set[str]) -> list[str]:
        try:
            return [url for url in self._selector.candidates(tables, fresh=fresh) if url not in passed_over]
        except NotFoundError as error:
            raise InterfaceError(f"the brokers cannot be looked up, is this a controller's address? {error}") from error
        except NotAnAnswerError as error:
            raise InterfaceError(str(error)) from error
        except GamayError as error:
            raise OperationalError(f"the brokers cannot be looked up: {error}", ErrorCode.BROKER_INSTANCE_MISSING) from error

    def _limit(self, options: dict[str, Any], timeout_s: float | None) -> float:
        """Return the timeout of the request in seconds; adds `timeoutMs` to the options where they lack it."""
        limit_s = self._settings.timeout_s if timeout_s is None else timeout_s
        told = next((options[name] for name in options if name.lower() == "timeoutms"), None)
        if told is None:
            if limit_s is None:
                return TIMEOUT_S
            if limit_s <= 0:
                raise ProgrammingError(f"timeout_s = {limit_s} must be above 0", ErrorCode.QUERY_VALIDATION)
            options["timeoutMs"] = max(1, round(limit_s * 1000))
            return limit_s + _GRACE_S
        try:
            told_s = float(told) / 1000 + _GRACE_S
        except ValueError:
            told_s = TIMEOUT_S  # the broker rejects it with the reason
        return told_s if limit_s is None else min(told_s, limit_s + _GRACE_S)


def _full_name(table: str, database: str | None) -> str:
    """Return the key of a table in broker directories: its name in lower case. database: the connection's."""
    prefix, dot, rest = table.partition(".")
    if dot:
        return rest if prefix == DEFAULT_DATABASE else table
    return table if database is None or database.lower() == DEFAULT_DATABASE else f"{database.lower()}.{table}"


def _settings(given: Mapping[str, Any]) -> Settings:
    try:
        return replace(Settings(), **given)
    except TypeError:
        from gamay.base.errors import nearest

        known = Settings.__dataclass_fields__
        wrong = next(name for name in given if name not in known)
        raise InterfaceError(f"there is no setting {wrong!r}.{nearest(wrong, known)}") from None


def _wrong_address(make: Any, *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except ServiceError as error:
        raise OperationalError(str(error), ErrorCode.BROKER_INSTANCE_MISSING) from error
    except InvalidConfigError as error:
        raise InterfaceError(str(error)) from error


def _controller(url: str, settings: Settings) -> ControllerClient:
    return ControllerClient(url, **settings.service())


def _out_of_time(url: str, wait_s: float) -> str:
    return f"broker {url} did not answer within {wait_s:g} s; raise timeout_s, or the option timeoutMs"


def _nobody(failures: Mapping[str, str]) -> OperationalError:
    told = "; ".join(failures.values()) or "there is none"
    return OperationalError(f"no broker answers: {told}", ErrorCode.BROKER_INSTANCE_MISSING)


def _refused(url: str, error: GamayError) -> Exception:
    """Return the exception for a broker that rejects the request."""
    if error.http_status in (401, 403):
        return OperationalError(f"broker {url} denies access: {error}", ErrorCode.ACCESS_DENIED)
    if isinstance(error, NotFoundError):
        return InterfaceError(
            f"{url} takes no queries: {error}. Is it a broker? A controller's address goes to Connection.from_controller"
        )
    if isinstance(error, InvalidConfigError):
        return ProgrammingError(f"broker {url} refuses the request: {error}", ErrorCode.JSON_PARSING)
    if error.http_status == 413:
        return ProgrammingError(f"broker {url} refuses the request: {error}", ErrorCode.QUERY_VALIDATION)
    if error.http_status in (408, 429):
        code = ErrorCode.BROKER_TIMEOUT if error.http_status == 408 else ErrorCode.TOO_MANY_REQUESTS
        return OperationalError(f"broker {url} does not take the query now: {error}", code)
    return InterfaceError(
        str(error) if isinstance(error, NotAnAnswerError) else f"broker {url} refuses the request: {error}"
    )

"""Sessions with one interface for both kinds of targets: a data folder in this process, or a cluster over HTTP."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError, InUseError, InvalidConfigError, NotFoundError
from gamay.base.telling import tell
from gamay.client.show import summary_text
from gamay.shell.answer import Answer
from gamay.shell.catalog import Catalog, read_catalog
from gamay.shell.dates import NUMBERS, shown_rows
from gamay.shell.target import IN_MEMORY, Target

Parameters = Mapping[str, Any] | Sequence[Any] | None
_CATALOG_S = 60.0  # maximum age: other clients create tables, too
_LIMIT_NOTE = "LIMIT 10 by default; there is more"


class Session(Protocol):
    """The interface of shells and notebooks to a target. Methods raise QueryError and other GamayErrors."""

    name: str
    """The target's name in prompts."""

    def execute(
        self, sql: str, params: Parameters = None, options: Mapping[str, Any] | None = None, query_id: str | None = None
    ) -> Answer:
        """Run a statement. query_id: identifies it for `cancel` from another thread."""
        ...

    def cancel(self, query_id: str) -> bool:
        """Cancel a statement; return whether it was running."""
        ...

    def catalog(self, *, fresh: bool = False) -> Catalog:
        """Return the catalog, at most a minute old; fresh: read it again."""
        ...

    def source(self) -> Any:
        """Return the underlying `Database` or `Connection`."""
        ...

    def close(self) -> None:
        """Release the target."""
        ...


class _Cataloged:
    """Base class of sessions that caches the catalog. read: returns the rows of a query."""

    def __init__(self, read: Callable[[str], list[tuple[Any, ...]]]) -> None:
        self._read = read
        self._catalog: Catalog | None = None
        self._clock = SYSTEM_CLOCK
        self._read_s = 0.0

    def catalog(self, *, fresh: bool = False) -> Catalog:
        now_s = self._clock.monotonic_s()
        if self._catalog is None or fresh or now_s > self._read_s + _CATALOG_S:
            self._catalog, self._read_s = read_catalog(self._read), now_s
        return self._catalog

    def _dated(self, sql: str, result: Any) -> Any:
        """Return rows for display; unchanged if the catalog cannot be read."""
        if not any(kind in NUMBERS for kind in result.types):
            return result.rows()
        try:
            return shown_rows(sql, result.columns, result.types, result.rows(), self.catalog())
        except GamayError:
            return result.rows()


class EmbeddedSession(_Cataloged):
    """A data folder opened in this process. variables: DataFrames that statements may refer to; see `Database.sql`."""

    def __init__(self, database: Any, name: str, variables: Callable[[], Mapping[str, Any]] | None = None) -> None:
        super().__init__(lambda sql: database.sql(sql).rows())
        self.name = name
        self._database = database
        self._variables = variables or dict

    def execute(
        self, sql: str, params: Parameters = None, options: Mapping[str, Any] | None = None, query_id: str | None = None
    ) -> Answer:
        named = dict(options or {}) | ({} if query_id is None else {"clientQueryId": query_id})
        result = self._database.sql_with(self._variables, sql, params, **named)
        notes = (_LIMIT_NOTE,) if result.has_more else ()
        summary = summary_text(len(result), result.time_used_ms, result.stats)
        return Answer(sql, result, lambda: self._dated(sql, result), summary, notes, result.reasons)

    def catalog(self, *, fresh: bool = False) -> Catalog:
        known = self._catalog
        return super().catalog(fresh=fresh or (known is not None and list(known.tables) != self._database.tables()))

    def cancel(self, query_id: str) -> bool:
        return bool(self._database.cancel(query_id))

    def source(self) -> Any:
        return self._database

    def close(self) -> None:
        self._database.close()


class ClusterSession(_Cataloged):
    """A cluster, queried through its brokers."""

    def __init__(self, connection: Any, name: str) -> None:
        super().__init__(lambda sql: connection.execute(sql).rows())
        self.name = name
        self._connection = connection

    def execute(
        self, sql: str, params: Parameters = None, options: Mapping[str, Any] | None = None, query_id: str | None = None
    ) -> Answer:
        named = dict(options or {}) | ({} if query_id is None else {"clientQueryId": query_id})
        group = self._connection.execute(sql, params, options=named, allow_partial=True)
        result = _only(group)
        summary = summary_text(len(result), group.time_used_ms, group.stats)
        return Answer(sql, result, lambda: self._dated(sql, result), summary, (), group.reasons)

    def cancel(self, query_id: str) -> bool:
        return bool(self._connection.cancel(query_id))

    def source(self) -> Any:
        return self._connection

    def close(self) -> None:
        self._connection.close()


def _only(group: Any) -> Any:
    if group.result_set_count:
        return group.get_result_set(0)
    from gamay.client.results import ResultSet

    return ResultSet((), (), [])


def open_session(
    target: Target,
    variables: Callable[[], Mapping[str, Any]] | None = None,
    instead: Callable[[str], Target] | None = None,
) -> Session:
    """Open a session. If another process serves the folder over HTTP, its broker is used instead, with a UserWarning.

    variables: DataFrames that statements may refer to, in an in-process session. instead: returns the target, with
    credentials, for the URL of that broker. Raises InvalidConfigError for a missing folder, InUseError, and GamayError for
    a cluster that does not answer.
    """
    if target.url is not None:
        return ClusterSession(_connection(target), target.shown)
    import gamay

    path = target.path or IN_MEMORY
    if path != IN_MEMORY and not Path(path).expanduser().is_dir():  # which `connect` would create
        raise InvalidConfigError(f"{path}: there is no such folder; a cluster is named by its URL, http://HOST:PORT")
    try:
        return EmbeddedSession(gamay.connect(path), target.shown, variables)
    except InUseError as error:
        if error.broker is None:
            raise
        tell(f"{error.args[0].partition(':')[0]}; its broker at {error.broker} is asked")
        broker = Target(url=error.broker) if instead is None else instead(error.broker)
        return ClusterSession(_connection(broker), error.broker)


def _connection(target: Target) -> Any:
    from gamay.client import Connection, ControllerClient
    from gamay.client.connection import Settings

    settings: dict[str, Any] = {
        "auth_token": target.token,
        "user": target.user,
        "password": target.password,
        "database": target.database,
        "timeout_s": target.timeout_s,
        "verify": _verify(target),
    }
    url = target.url or ""
    service = {**Settings(**settings).service(), "timeout_s": Settings.connect_timeout_s}
    with ControllerClient(url, **service) as controller:
        try:
            controller.live_brokers()
        except NotFoundError:
            return Connection.from_host_list(url, **settings)  # not a controller, so a broker
        except GamayError as error:
            if error.http_status in (401, 403):
                raise _denied(target, error) from error
            raise
    return Connection.from_controller(url, **settings)


def _denied(target: Target, error: GamayError) -> GamayError:
    who = f"user {target.user}" if target.user else "this token" if target.token else "nobody in particular"
    how = "" if target.user or target.token else ": name a user with --user, or set GAMAY_TOKEN"
    told = type(error)(f"{target.url} denies access to {who}{how} ({error})")
    told.http_status = error.http_status
    return told


def _verify(target: Target) -> Any:
    if not (target.tls_ca or target.tls_insecure):
        return True
    from gamay.base.tls import TlsSettings

    ca = None if target.tls_ca is None else Path(target.tls_ca).expanduser()
    if ca is not None and not ca.is_file():
        raise InvalidConfigError(f"{ca}: there is no such file of certificates")
    return TlsSettings(authorities=ca, insecure=target.tls_insecure).client_context()

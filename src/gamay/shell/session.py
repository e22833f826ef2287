"""A place that is asked: a data folder in this process, or a cluster over HTTP; the same for both."""

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
_CATALOG_S = 60.0  # others create tables, too
_LIMIT_NOTE = "LIMIT 10 by default; there is more"


class Session(Protocol):
    """What shells and notebooks ask of a place. Methods raise QueryError and other GamayErrors."""

    name: str
    """How prompts call it."""

    def execute(
        self, sql: str, params: Parameters = None, options: Mapping[str, Any] | None = None, query_id: str | None = None
    ) -> Answer:
        """Answer a statement. query_id: by which `cancel` ends it from another thread."""
        ...

    def cancel(self, query_id: str) -> bool:
        """End a statement; return whether it was under way."""
        ...

    def catalog(self, *, fresh: bool = False) -> Catalog:
        """Return what there is to ask, as it was within the last minute unless fresh."""
        ...

    def source(self) -> Any:
        """Return the `Database` or `Connection` behind it."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class _Cataloged:
    """The part of a session that remembers the catalog. read: returns the rows of a query."""

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
        """Return rows as people read them; where the catalog cannot be had, as they are."""
        if not any(kind in NUMBERS for kind in result.types):
            return result.rows()
        try:
            return shown_rows(sql, result.columns, result.types, result.rows(), self.catalog())
        except GamayError:
            return result.rows()


class EmbeddedSession(_Cataloged):
    """A data folder opened in this process. variables: DataFrames that statements may name; see `Database.sql`."""

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
    """The brokers of a cluster."""

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
    """Open a place. A folder that another process serves over HTTP is asked there, which is told as a UserWarning.

    variables: DataFrames that statements may name, of a session in this process. instead: tells how that process's broker
    is logged in to, by its URL. Raises InvalidConfigError for a folder
    that is not there, InUseError, and GamayError for a cluster that does not answer.
    """
    if target.url is not None:
        return ClusterSession(_connection(target), target.shown)
    import gamay

    path = target.path or IN_MEMORY
    if path != IN_MEMORY and not Path(path).expanduser().is_dir():  # which `connect` would make
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
            return Connection.from_host_list(url, **settings)  # no controller, so a broker
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

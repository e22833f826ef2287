"""Settings of a role's process: from the command line, and from a properties file with Pinot's keys.

The command line overrides the file, and the file the defaults.
"""

import logging
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.base.logs import LogFormat
from gamay.base.properties import parse_properties
from gamay.base.tls import TlsSettings
from gamay.base.zookeeper_login import ANYBODY, LOGIN_PREFIXES, ZooKeeperLogin, login_keys, read_login
from gamay.cluster.access.principals import (
    EVERYBODY,
    ListedAccess,
    StoredUsers,
    access_control,
    access_keys,
    access_prefixes,
)
from gamay.cluster.records.records import Instance, Role
from gamay.cluster.store.paths import CLUSTER_NAME
from gamay.minion.purgers import MODIFIERS, NO_FACTORIES, PURGERS, PurgeFactories
from gamay.minion.spark_settings import BUILDS, MASTER, STAGING_URI, SparkSettings
from gamay.model.table.upsert_defaults import DEFAULT_KEYS, DEFAULTS, ServerDefaults
from gamay.roles.cluster_keys import unknown_key
from gamay.roles.listeners import listener_prefixes, read_listeners, with_options
from gamay.rpc.peer import SECRET_KEY
from gamay.storage.files import local_path
from gamay.storage.settings import StorageSettings, storage_prefixes, storage_settings
from gamay.web.request_limits import RequestLimits

_log = logging.getLogger(__name__)

LOG_FORMAT = "gamay.log.format"
_LOCAL = "localhost"


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """The settings of one process.

    zk: ZooKeeper's address, `HOST:PORT[,HOST:PORT…][/PATH]`. host: under which others reach this process; a part of its
    id. listen: the address to listen on; empty: this machine only when `host` is localhost, else all. port: of the HTTP
    interface. flight_port: of a broker, where it speaks Flight SQL, None for nowhere.
    query_port: of a server, where brokers ask it. grpc_port: of a server, where Trino and others read segments, None for
    nowhere; grpc_tls: whether that is encrypted. data_dir: of a server, its copies of segments; of a
    controller, the deep store, which all controllers share, or, where that is elsewhere, a folder for what is being
    uploaded; of a minion, its scratch space, by default a temporary folder. deep_store: a URI or path; of a controller,
    None is `data_dir`; of a server that reaches the store, too, None fetches from a controller. storage: how file
    systems are reached. tls: certificates; https: whether the HTTP interface is encrypted; plain_port: of one beside it
    that is not; query_tls: whether brokers and servers encrypt queries. zk_login: encryption of the connection
    to ZooKeeper, and as whom. limits: of requests over HTTP. url: of a controller, how clients reach it, when not by
    host and port. instance_id: empty makes one of host and port. tags: that the instance has when it joins; None: of the
    default tenant, or of none, as `tenant_isolation` says. wait_s: how long to wait for ZooKeeper at the start. drain_s: how
    long a process that leaves waits for requests, queries and tasks to end. warm_up: whether a server compiles what queries
    run before it says that it is ready, and a broker what merging runs. access: who may use the HTTP interface. auth_token:
    the `Authorization` header of what a server asks controllers, a controller servers and minions, and a minion both.
    key_defaults: what a server decides about tables with primary keys. busy_poll_us: of brokers and servers, how long they
    stay awake at most for what follows when a query went between them; None is the usual. spark: where a minion has
    segments built; None: in its own process, so many of one subtask at once as builds says (0: its cores). purge: what a
    minion purges rows by. secret: what brokers and servers prove to each other that they know; empty: what the metadata
    store has. tells_lineage: whether a minion sends
    OpenLineage events. log_dir: where lines are written to files, too; None: to standard error alone.
    """

    role: Role
    zk: str
    port: int
    cluster: str = CLUSTER_NAME
    host: str = _LOCAL
    listen: str = ""
    query_port: int = 0
    flight_port: int | None = None
    grpc_port: int | None = None
    data_dir: Path | None = None
    deep_store: str | None = None
    storage: StorageSettings = field(default_factory=StorageSettings)
    tls: TlsSettings | None = None
    https: bool = False
    plain_port: int | None = None
    query_tls: bool = False
    grpc_tls: bool = False
    zk_login: ZooKeeperLogin = ANYBODY
    limits: RequestLimits = field(default_factory=RequestLimits)
    url: str = ""
    instance_id: str = ""
    tags: tuple[str, ...] | None = None
    tenant_isolation: bool = True
    session_timeout_s: float = 8
    wait_s: float = 60
    drain_s: float = 30
    warm_up: bool = True
    access: ListedAccess | StoredUsers = EVERYBODY
    auth_token: str = field(default="", repr=False)
    key_defaults: ServerDefaults = DEFAULTS
    busy_poll_us: int | None = None
    spark: SparkSettings | None = None
    builds: int = 0
    purge: PurgeFactories = NO_FACTORIES
    tells_lineage: bool = False
    secret: bytes = field(default=b"", repr=False)
    log_format: LogFormat = LogFormat.TEXT
    log_dir: Path | None = None

    @property
    def scheme(self) -> str:
        """Of the URL of the HTTP interface."""
        return "https" if self.https else "http"

    @property
    def address(self) -> str:
        """The address to listen on."""
        return self.listen or ("127.0.0.1" if self.host in (_LOCAL, "127.0.0.1") else "0.0.0.0")


DRAIN = "gamay.shutdown.timeout.ms"
DEFAULT_PORTS = {Role.CONTROLLER: 9000, Role.BROKER: 8099, Role.SERVER: 8098, Role.MINION: 9514}
DEFAULT_QUERY_PORT = 8097
DEFAULT_GRPC_PORT = 8090

# the time after which another controller replaces a dead leader; ZooKeeper's minimum at its usual tick of 2 s
_LEAD_SESSION_S = 4.0

Read = Callable[[str], Any]

_SECRET_LENGTH_MIN = 16
_LIMIT = "limit:"  # prefix of the fields of `RoleSettings.limits`


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65_535:
        raise ValueError
    return port


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError
    return text.strip().lower() == "true"


def _folder(text: str) -> Path:
    return Path(text.removeprefix("file://"))


def _token(text: str) -> str:
    return text if text.startswith(("Basic ", "Bearer ")) else f"Basic {text}"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _positive(text: str) -> int:
    if int(text) <= 0:
        raise ValueError
    return int(text)


def _secret(text: str) -> bytes:
    if len(text) < _SECRET_LENGTH_MIN:
        raise InvalidConfigError(f"{SECRET_KEY} has {len(text)} characters; {_SECRET_LENGTH_MIN} are the least")
    return text.encode()


def _secret_in(path: str) -> bytes:
    try:
        return _secret(_folder(path).read_text(encoding="utf-8").strip())
    except OSError as error:
        raise InvalidConfigError(f"{SECRET_KEY}.file: cannot read '{path}': {error.strerror}") from error


def _natural(text: str) -> int:
    if int(text) < 0:
        raise ValueError
    return int(text)


def _millis(text: str) -> float:
    return _natural(text) / 1000


_LOG_DIRS = {role: f"pinot.{role.value.lower()}.logger.root.dir" for role in Role}
_LIMITS: Mapping[str, tuple[str, Read]] = {
    "gamay.http.body.bytes.max": (f"{_LIMIT}body_bytes", _positive),
    "gamay.http.upload.bytes.max": (f"{_LIMIT}upload_bytes", _positive),
    "gamay.http.requests.per.second": (f"{_LIMIT}per_s", _positive),
}

_OF_QUERIES: Mapping[str, tuple[str, Read]] = {
    "gamay.query.awake.us.max": ("busy_poll_us", _natural),
    SECRET_KEY: ("secret", _secret),
    f"{SECRET_KEY}.file": ("secret", _secret_in),
}
_KEYS = "keys."
_COMMON: Mapping[str, tuple[str, Read]] = {
    "pinot.zk.server": ("zk", str),
    "pinot.cluster.name": ("cluster", str),
    "cluster.tenant.isolation.enable": ("tenant_isolation", _flag),
    "zookeeper.session.timeout": ("session_timeout_s", _millis),
    DRAIN: ("drain_s", _millis),
    **_LIMITS,
    LOG_FORMAT: ("log_format", LogFormat.of),
}
_OF_ROLE: Mapping[Role, Mapping[str, tuple[str, Read]]] = {
    Role.CONTROLLER: {
        "controller.zk.str": ("zk", str),
        "controller.helix.cluster.name": ("cluster", str),
        "controller.host": ("host", str),
        "controller.port": ("port", _port),
        "controller.data.dir": ("deep_store", str),
        "controller.local.temp.dir": ("data_dir", _folder),
        "controller.vip.host": ("vip_host", str),
        "controller.vip.port": ("vip_port", _port),
        "controller.vip.protocol": ("vip_protocol", str),
        "pinot.controller.instance.id": ("instance_id", str),
        _LOG_DIRS[Role.CONTROLLER]: ("log_dir", _folder),
        "controller.server.admin.auth.token": ("auth_token", _token),
    },
    Role.BROKER: {
        "pinot.broker.hostname": ("host", str),
        "pinot.broker.client.queryPort": ("port", _port),
        "pinot.broker.instance.id": ("instance_id", str),
        _LOG_DIRS[Role.BROKER]: ("log_dir", _folder),
        "gamay.broker.flight.port": ("flight_port", _port),
        **_OF_QUERIES,
    },
    Role.SERVER: {
        "pinot.server.netty.host": ("host", str),
        "pinot.server.netty.port": ("query_port", _port),
        "pinot.server.adminapi.port": ("port", _port),
        "pinot.server.grpc.enable": ("grpc_enabled", _flag),
        "pinot.server.grpc.port": ("grpc_port", _port),
        "pinot.server.grpctls.enabled": ("grpc_tls", _flag),
        "pinot.server.instance.dataDir": ("data_dir", _folder),
        "pinot.server.instance.id": ("instance_id", str),
        _LOG_DIRS[Role.SERVER]: ("log_dir", _folder),
        "pinot.server.shutdown.timeout.ms": ("drain_s", _millis),
        "pinot.server.segment.fetcher.auth.token": ("auth_token", _token),
        "pinot.server.segment.uploader.auth.token": ("auth_token", _token),
        "pinot.server.instance.auth.token": ("auth_token", _token),
        "controller.data.dir": ("deep_store", str),
        "pinot.server.instance.segment.store.uri": ("deep_store", str),
        **_OF_QUERIES,
        **{key: (f"{_KEYS}{name}", read) for key, (name, read) in DEFAULT_KEYS.items()},
    },
    Role.MINION: {
        "pinot.minion.host": ("host", str),
        "pinot.minion.port": ("port", _port),
        "pinot.minion.instance.id": ("instance_id", str),
        _LOG_DIRS[Role.MINION]: ("log_dir", _folder),
        "pinot.minion.task.auth.token": ("auth_token", _token),
        "task.auth.token": ("auth_token", _token),
        MASTER: ("spark_master", str),
        STAGING_URI: ("spark_staging_uri", str),
        BUILDS: ("builds", _positive),
        PURGERS: ("purgers", _names),
        MODIFIERS: ("modifiers", _names),
        "gamay.minion.openlineage": ("tells_lineage", _flag),
    },
}


_FORMS: Mapping[Read, str] = {_flag: "flag", **dict.fromkeys((_port, _positive, _natural, _millis), "integer")}


def key_forms(role: Role) -> dict[str, str]:
    """Return the keys that a role's file may have, ascending, with the form of each value: `text`, `flag` or `integer`.

    Families of keys with free names are in `key_families`.
    """
    return {key: _FORMS.get(read, "text") for key, (_, read) in sorted({**_COMMON, **_OF_ROLE[role]}.items())}


def key_families(role: Role) -> tuple[str, ...]:
    """Return the prefixes of further keys of a role's file: access control, file systems, listeners, ZooKeeper's
    log-in."""
    return (*access_prefixes(role), *storage_prefixes(role.value.lower()), *listener_prefixes(role), *LOGIN_PREFIXES)


def load_settings(role: Role, config_file: Path | None, given: Mapping[str, Any]) -> RoleSettings:
    """Return the settings of a process.

    given: the options of the command line, None for omitted ones. An unknown key of the file is logged, with the one that
    was probably meant or where it belongs. Raises InvalidConfigError for an invalid value, or if a required one is
    missing.
    """
    in_file = {} if config_file is None else _read(role, config_file)
    found = {**in_file, **{name: value for name, value in given.items() if value is not None}}
    with_options(role, found)
    if not found.get("zk"):
        raise InvalidConfigError("--zk is missing: where ZooKeeper is, as HOST:PORT or HOST:PORT/PATH")
    vip = {part: found.pop(f"vip_{part}", None) for part in ("protocol", "host", "port")}
    if role is Role.SERVER:
        found.setdefault("query_port", DEFAULT_QUERY_PORT)
        _place_grpc_port(found, given)
    if role is Role.CONTROLLER:
        found.setdefault("session_timeout_s", _LEAD_SESSION_S)
        _place_deep_store(found)
    found.setdefault("port", DEFAULT_PORTS[role])
    keys = {name.removeprefix(_KEYS): found.pop(name) for name in list(found) if name.startswith(_KEYS)}
    limits = {name.removeprefix(_LIMIT): found.pop(name) for name in list(found) if name.startswith(_LIMIT)}
    found["spark"] = SparkSettings.of(found.pop("spark_master", None), found.pop("spark_staging_uri", None))
    found["purge"] = PurgeFactories(found.pop("purgers", ()), found.pop("modifiers", ()))
    settings = RoleSettings(role=role, **found, limits=RequestLimits(**limits), key_defaults=replace(DEFAULTS, **keys))
    if vip["host"] or vip["port"]:
        url = f"{vip['protocol'] or settings.scheme}://{vip['host'] or settings.host}:{vip['port'] or settings.port}"
        settings = replace(settings, url=url)
    if role is Role.SERVER and "query_port" in in_file and not settings.instance_id:
        # a server that was configured by a file is identified by its query port
        settings = replace(settings, instance_id=Instance.make_id(role, settings.host, in_file["query_port"]))
    if settings.data_dir is None and role in (Role.CONTROLLER, Role.SERVER):
        what = "the deep store, shared by all controllers" if role is Role.CONTROLLER else "this server's copies of segments"
        raise InvalidConfigError(f"--data-dir is missing: the folder for {what}")
    return settings


def _place_grpc_port(found: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Open the port if the file enables or names it, or the command line names it."""
    is_enabled = found.pop("grpc_enabled", "grpc_port" in found)
    if is_enabled:
        found.setdefault("grpc_port", DEFAULT_GRPC_PORT)
    elif given.get("grpc_port") is None:
        found.pop("grpc_port", None)


def _place_deep_store(found: dict[str, Any]) -> None:
    """Put a controller's upload folder into a local deep store, so that uploads are moved by a rename."""
    uri = found.get("deep_store")
    local = None if uri is None else local_path(uri)
    if local is not None:
        found["data_dir"], found["deep_store"] = found.get("data_dir") or local, str(local)
    elif uri is not None:
        found.setdefault("data_dir", Path(tempfile.gettempdir()) / f"gamay-controller-{found.get('port', 0)}")


def _read(role: Role, config_file: Path) -> dict[str, Any]:
    properties = _properties(config_file)
    keys = {**_COMMON, **_OF_ROLE[role]}
    found: dict[str, Any] = {"access": _access(role, properties)}
    found["storage"], of_storage = storage_settings(role.value.lower(), properties)
    listeners, of_listeners = read_listeners(role, properties)
    found["zk_login"], of_zk = read_login(properties), login_keys(properties)
    for key in {*access_keys(role, properties), *of_storage, *of_listeners, *of_zk}:
        del properties[key]
    for key, text in properties.items():
        if key not in keys:
            _log.warning("%s: %s", config_file, unknown_key(key, f"a {role.value.lower()}", keys))
            continue
        if text:  # an empty value is not set
            found[keys[key][0]] = _value(config_file, key, text, keys[key][1])
    if listeners.get("https") and "port" in found:
        listeners.setdefault("plain_port", found["port"])  # an HTTP listener beside the encrypted one
    return {**found, **listeners}


def _access(role: Role, properties: Mapping[str, str]) -> ListedAccess | StoredUsers:
    found = access_control(role, properties)
    if isinstance(found, ListedAccess) and any(principal.row_filters for principal in found.principals or ()):
        from gamay.broker.answer.row_filters import check_row_filters  # SQL is read only where there is some

        check_row_filters(found.principals or ())
    return found


def read_access(config_file: Path) -> dict[Role, ListedAccess | StoredUsers]:
    """Return the access control of each role of an embedded cluster, whose properties file has the keys of all roles.

    Raises InvalidConfigError.
    """
    properties = _properties(config_file)
    found = {role: _access(role, properties) for role in _OF_ROLE}
    of_storage = (storage_settings(role.value.lower(), properties)[1] for role in (Role.CONTROLLER, Role.SERVER))
    of_access = (access_keys(role, properties) for role in _OF_ROLE)
    known = {*_LIMITS, PURGERS, MODIFIERS, *_LOG_DIRS.values(), *chain(*of_storage, *of_access)}
    for key in properties:
        if key not in known:
            _log.warning("%s: %s", config_file, unknown_key(key, "an embedded cluster", known))
    return found


def read_storage(config_file: Path, role: Role = Role.CONTROLLER) -> StorageSettings:
    """Return the file system settings of a role of an embedded cluster, from a properties file for all roles.

    The controller fetches the files that users name, the server segments whose download URL is not in the deep store.
    Raises InvalidConfigError.
    """
    return storage_settings(role.value.lower(), _properties(config_file))[0]


def read_limits(config_file: Path) -> RequestLimits:
    """Return the limits of requests in a properties file. Raises InvalidConfigError."""
    given = _properties(config_file)
    found = {
        name.removeprefix(_LIMIT): _value(config_file, key, given[key], read)
        for key, (name, read) in _LIMITS.items()
        if key in given
    }
    return RequestLimits(**found)


def read_purging(config_file: Path) -> PurgeFactories:
    """Return the purge factories of an embedded cluster's minion, from a properties file. Raises InvalidConfigError."""
    given = _properties(config_file)
    found = PurgeFactories(_names(given.get(PURGERS, "")), _names(given.get(MODIFIERS, "")))
    found.check()
    return found


def read_log_dir(config_file: Path) -> Path | None:
    """Return the folder of an embedded cluster's log files, from a properties file; None for no files.

    Its roles share one log; raises InvalidConfigError for different folders.
    """
    given = _properties(config_file)
    folders = {key: given[key] for key in _LOG_DIRS.values() if key in given}
    if len(set(folders.values())) > 1:
        raise InvalidConfigError(f"{config_file}: {', '.join(folders)} must be the same: one process has one log")
    return next(map(_folder, folders.values()), None)


def log_format_in(config_file: Path | None) -> LogFormat:
    """Return the log format in a properties file, before the rest of it is read. Raises InvalidConfigError."""
    text = None if config_file is None else _properties(config_file).get(LOG_FORMAT)
    return LogFormat.TEXT if text is None else LogFormat.of(text)


def _value(config_file: Path, key: str, text: str, read: Read) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise InvalidConfigError(f"{config_file}: '{key}' cannot be '{text}'") from error


def _properties(config_file: Path) -> dict[str, str]:
    try:
        return parse_properties(config_file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfigError(f"cannot read the configuration '{config_file}': {error.strerror}") from error

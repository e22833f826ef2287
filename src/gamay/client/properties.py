"""Connections configured by the properties of Java's client.

| key | setting |
| --- | --- |
| `brokerList` | brokers, separated by commas |
| `controllerUrl` | or the controller that knows them |
| `zookeeperUrl` | or the cluster's path in ZooKeeper |
| `scheme` | `http` or `https`, for brokers without one |
| `brokerReadTimeoutMs` | `timeout_s` |
| `brokerConnectTimeoutMs` | `connect_timeout_s` |
| `brokerUpdateFrequencyInMillis` | `refresh_s` |
| `queryOptions` | `options` |
| `failOnExceptions` | `false` is `allow_partial` |
| `user`, `password`, `database` | the same |
| `headers.NAME` | a header of every request |
| `zookeeper.tls.*`, `zookeeper.auth.digest`, `zookeeper.sasl.*` | TLS and login of ZooKeeper, as in the roles' config
files |
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gamay.base.errors import InvalidConfigError, nearest
from gamay.base.properties import parse_properties
from gamay.base.zookeeper_login import ZooKeeperLogin, login_keys, read_login
from gamay.client.errors import InterfaceError

if TYPE_CHECKING:
    from os import PathLike

    from gamay.client.connection import Connection

C = TypeVar("C", bound="Connection")

_PLACES = ("brokerList", "controllerUrl", "zookeeperUrl")
_MILLISECONDS = {
    "brokerReadTimeoutMs": "timeout_s",
    "brokerConnectTimeoutMs": "connect_timeout_s",
    "brokerUpdateFrequencyInMillis": "refresh_s",
}
_TEXTS = {"queryOptions": "options", "user": "user", "password": "password", "database": "database"}
_KNOWN = (*_PLACES, "scheme", *_MILLISECONDS, *_TEXTS, "failOnExceptions")
_HEADER = "headers."


def read_properties(kind: type[C], properties: "Mapping[str, str] | str | PathLike[str]", settings: Mapping[str, Any]) -> C:
    """Return a connection. properties: a mapping or the path of a file; settings: override the properties.

    Raises InterfaceError for an unreadable file, an unknown key, an invalid value, and unless exactly one key says where
    the brokers are.
    """
    given = dict(properties) if isinstance(properties, Mapping) else _read(Path(properties))
    of_zookeeper = {key: given.pop(key) for key in login_keys(given)}
    chosen = {**_settings_of(given), **settings}
    places = [key for key in _PLACES if given.get(key, "").strip()]
    if len(places) != 1:
        raise InterfaceError(
            f"the properties must have one of {', '.join(_PLACES)}; they have {', '.join(places) or 'none'}"
        )
    if scheme := given.get("scheme", "").strip():
        chosen.setdefault("scheme", scheme)
    place = given[places[0]].strip()
    if places[0] == "controllerUrl":
        return kind.from_controller(place, **chosen)
    if places[0] == "zookeeperUrl":
        if of_zookeeper:
            chosen.setdefault("login", _login(of_zookeeper))
        return kind.from_zookeeper(place, **chosen)
    return kind.from_host_list(*filter(None, map(str.strip, place.split(","))), **chosen)


def _login(properties: Mapping[str, str]) -> ZooKeeperLogin:
    try:
        return read_login(properties)
    except InvalidConfigError as error:
        raise InterfaceError(str(error)) from error


def _read(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, InvalidConfigError) as error:
        raise InterfaceError(f"the properties cannot be read: {error}") from error


def _settings_of(given: Mapping[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    headers = {}
    for key, value in given.items():
        text = str(value).strip()
        if key.startswith(_HEADER):
            headers[key.removeprefix(_HEADER)] = text
        elif key in _MILLISECONDS:
            if not text.isdecimal() or int(text) == 0:
                raise InterfaceError(f"the property {key}={text} must be a number of milliseconds above 0")
            settings[_MILLISECONDS[key]] = int(text) / 1000
        elif key in _TEXTS:
            settings[_TEXTS[key]] = text
        elif key == "failOnExceptions":
            if text.lower() not in ("true", "false"):
                raise InterfaceError(f"the property {key}={text} must be true or false")
            settings["allow_partial"] = text.lower() == "false"
        elif key not in _KNOWN:
            raise InterfaceError(f"the property {key} is not known.{nearest(key, _KNOWN)}")
    if headers:
        settings["headers"] = headers
    return settings

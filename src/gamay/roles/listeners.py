"""The listening ports of a role and their encryption, from Pinot's keys in its properties file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.base.tls import TlsSettings, read_tls
from gamay.cluster.records.records import Role

# prefixes of a role's TLS keys and HTTP listeners, and the switch of TLS between brokers and servers
_TLS = {
    Role.CONTROLLER: "controller.tls",
    Role.BROKER: "pinot.broker.tls",
    Role.SERVER: "pinot.server.tls",
    Role.MINION: "pinot.minion.tls",
}
_LISTENERS = {
    Role.CONTROLLER: "controller.access.protocols",
    Role.BROKER: "pinot.broker.client.access.protocols",
    Role.SERVER: "pinot.server.adminapi.access.protocols",
    Role.MINION: "pinot.minion.adminapi.access.protocols",
}
_QUERY_SWITCH = {Role.BROKER: "pinot.broker.nettytls.enabled", Role.SERVER: "pinot.server.nettytls.enabled"}


def read_listeners(role: Role, properties: Mapping[str, str]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the settings from these keys, by name, and the keys that were used. Raises InvalidConfigError."""
    prefix, listeners, switch = _TLS[role], _LISTENERS[role], _QUERY_SWITCH.get(role, "")
    used = {key for key in properties if key.startswith(listener_prefixes(role))}
    found: dict[str, Any] = {}
    own = dict(properties)
    for name in (part.strip() for part in properties.get(listeners, "").split(",") if part.strip()):
        at = f"{listeners}.{name}"
        protocol = properties.get(f"{at}.protocol", name)
        if protocol not in ("http", "https"):
            raise InvalidConfigError(f"'{at}.protocol' is '{protocol}', it must be http or https")
        port = _port(f"{at}.port", properties)
        if protocol == "http":
            found["plain_port"] = port
            continue
        found |= {"https": True, "port": port}
        own |= {
            key.replace(f"{at}.tls", prefix, 1): value for key, value in properties.items() if key.startswith(f"{at}.tls.")
        }
    tls = read_tls(prefix, {key: value for key, value in own.items() if key.startswith(f"{prefix}.")})
    if tls is not None:
        found["tls"] = tls
    if switch and properties.get(switch, "false").strip().lower() == "true":
        found["query_tls"] = True
    if "plain_port" in found and not found.get("https"):
        found["port"] = found.pop("plain_port")
    return found, frozenset(used)


def listener_prefixes(role: Role) -> tuple[str, ...]:
    """Return the key prefixes that `read_listeners` reads."""
    switch = (_QUERY_SWITCH[role],) if role in _QUERY_SWITCH else ()
    return (f"{_TLS[role]}.", _LISTENERS[role], *switch)


def with_options(role: Role, found: dict[str, Any]) -> None:
    """Apply the TLS options of the command line: with a certificate, all ports of the process are encrypted."""
    certificate: Path | None = found.pop("tls_cert", None)
    key: Path | None = found.pop("tls_key", None)
    authorities: Path | None = found.pop("tls_ca", None)
    if certificate is None and key is None and authorities is None:
        return
    tls: TlsSettings = found.get("tls") or TlsSettings()
    if certificate is not None:
        tls = replace(tls, certificate=certificate, key=key)
        found["https"] = True
    found["tls"] = tls if authorities is None else replace(tls, authorities=authorities)
    if certificate is not None or role is Role.BROKER:
        found["query_tls"] = True
    if certificate is not None and role is Role.SERVER:
        found["grpc_tls"] = True


def _port(key: str, properties: Mapping[str, str]) -> int:
    text = properties.get(key, "")
    if not text.strip().isdecimal() or int(text) > 65_535:
        raise InvalidConfigError(f"'{key}' is required: the port to listen on")
    return int(text)

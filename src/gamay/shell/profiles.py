"""The config file: named targets, so that commands need not contain addresses and tokens.

default = "prod"          # used when no target is given

[profiles.prod]
url = "https://controller.example:9000"
user = "ann"              # its password is asked for, or in GAMAY_PASSWORD
tls_ca = "/etc/ssl/company.pem"

[profiles.local]
path = "data"
"""

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest


@dataclass(frozen=True, slots=True)
class Profile:
    """A target with its credentials. url or path: one of them. token: of the Authorization header. tls_ca: a PEM file.

    tls_insecure: accept any certificate. database: the default database of table names. timeout_s: timeout of a query.
    """

    url: str | None = None
    path: str | None = None
    user: str | None = None
    token: str | None = None
    tls_ca: str | None = None
    tls_insecure: bool = False
    database: str | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class ShellConfig:
    """Content of the config file. profiles: by name; default: the name of one."""

    profiles: Mapping[str, Profile]
    default: str | None = None

    def profile(self, name: str) -> Profile:
        """Return a profile. Raises InvalidConfigError."""
        if name not in self.profiles:
            known = ", ".join(self.profiles) or f"none; {config_path(os.environ)} has a [profiles.{name}] when it is made"
            raise InvalidConfigError(f"there is no profile '{name}'.{nearest(name, self.profiles) or f' There is: {known}'}")
        return self.profiles[name]


def config_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the file: GAMAY_CONFIG, else gamay/config.toml in XDG's config folder."""
    if given := environment.get("GAMAY_CONFIG"):
        return Path(given)
    return Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "gamay" / "config.toml"


def read_config(path: Path) -> ShellConfig:
    """Read the file; without one there are no profiles. Raises InvalidConfigError, naming the key."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ShellConfig({})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfigError(f"{path} cannot be read: {error}") from error
    _known(path, "", document, ("default", "profiles"))
    profiles = document.get("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(one, dict) for one in profiles.values()):
        raise InvalidConfigError(f"{path}: profiles are written [profiles.NAME]")
    read = {name: _profile(path, name, keys) for name, keys in profiles.items()}
    if any(one.token for one in read.values()) and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise InvalidConfigError(f"{path} holds a token and others can read it: chmod 600 {path}")
    default = document.get("default")
    if default is not None and default not in read:
        raise InvalidConfigError(f"{path}: default = {default!r} is none of the profiles: {', '.join(read)}")
    return ShellConfig(read, default)


def _profile(path: Path, name: str, keys: Mapping[str, Any]) -> Profile:
    at = f"profiles.{name}."
    if "password" in keys:
        raise InvalidConfigError(
            f"{path}: {at}password: passwords are not kept in files; one is asked for, or taken from GAMAY_PASSWORD"
        )
    _known(path, at, keys, tuple(field.name for field in fields(Profile)))
    for key, value in keys.items():
        wanted: Any = bool if key == "tls_insecure" else int | float if key == "timeout_s" else str
        if not isinstance(value, wanted) or (key == "timeout_s" and isinstance(value, bool)):
            what = "true or false" if key == "tls_insecure" else "a number of seconds" if key == "timeout_s" else "a text"
            raise InvalidConfigError(f"{path}: {at}{key} must be {what}, not {value!r}")
    if ("url" in keys) == ("path" in keys):
        raise InvalidConfigError(
            f"{path}: profiles.{name} must have either url, of a controller or broker, or path, of a folder"
        )
    return Profile(**keys)


def _known(path: Path, at: str, keys: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in keys:
        if key not in known:
            hint = nearest(key, known) or f" There are: {', '.join(known)}"
            raise InvalidConfigError(f"{path}: the key {at}{key} is not known.{hint}")

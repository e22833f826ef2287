"""Resolution of the target of a shell or notebook, with credentials, from arguments, profiles and the environment."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from gamay.base.errors import InvalidConfigError
from gamay.shell.profiles import Profile, ShellConfig

IN_MEMORY = ":memory:"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST_PORT = re.compile(r"(?:[A-Za-z0-9-]+\.)*[A-Za-z0-9-]+:\d{1,5}")


@dataclass(frozen=True, slots=True)
class Target:
    """A target. path: a data folder, or `:memory:`; url: of a controller or broker; one of them is given.

    token: the value of the Authorization header. made_up: whether it is the default because none was given.
    """

    path: str | None = None
    url: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls_ca: str | None = None
    tls_insecure: bool = False
    database: str | None = None
    timeout_s: float | None = None
    made_up: bool = False

    @property
    def shown(self) -> str:
        """Its name in prompts and messages."""
        return self.url or self.path or IN_MEMORY


def find_target(
    place: str | None,
    profile: str | None,
    given: Profile,
    config: ShellConfig,
    environment: Mapping[str, str],
    ask_password: Callable[[str], str] | None,
) -> Target:
    """Return the target.

    place: a path, a URL, `host:port`, or `@` and the name of a profile; profile: the option of that name. Without either,
    the environment (GAMAY_PROFILE, GAMAY_URL) decides, then the file's `default`, else it is a database in memory. given:
    options of the command, which take precedence. ask_password: prompts for a password; None without a terminal.
    Raises InvalidConfigError.
    """
    if place is not None and place.startswith("@"):
        profile, place = place[1:], None
    url = environment.get("GAMAY_URL") if place is None and profile is None else None
    named = profile or (None if place or url else environment.get("GAMAY_PROFILE") or config.default)
    chosen = config.profile(named) if named else Profile()
    if place is not None:
        chosen = replace(chosen, **_of_place(place))
    elif url:
        chosen = Profile(url=url)
    for name in ("user", "token", "tls_ca", "tls_insecure", "database", "timeout_s"):
        if value := getattr(given, name):
            chosen = replace(chosen, **{name: value})
    made_up = chosen.url is None and chosen.path is None
    if chosen.url is None:
        path = chosen.path or IN_MEMORY
        return Target(path=path, timeout_s=chosen.timeout_s, made_up=made_up)
    return _with_login(chosen, environment, ask_password)


def _of_place(place: str) -> dict[str, Any]:
    if _URL.match(place):
        return {"url": place, "path": None}
    if _HOST_PORT.fullmatch(place):
        return {"url": f"http://{place}", "path": None}
    return {"path": place, "url": None}


def _with_login(chosen: Profile, environment: Mapping[str, str], ask_password: Callable[[str], str] | None) -> Target:
    url, user = _split_user(chosen.url or "")
    user = chosen.user or user or environment.get("GAMAY_USER")
    token = chosen.token or (None if user else environment.get("GAMAY_TOKEN"))
    password = None
    if user and not token:
        password = environment.get("GAMAY_PASSWORD")
        if password is None and ask_password is None:
            raise InvalidConfigError(f"the password of {user} is not known: set GAMAY_PASSWORD, or run this in a terminal")
        if password is None and ask_password is not None:
            password = ask_password(f"Password of {user} at {url}: ")
    if token and " " not in token.strip():
        token = f"Bearer {token.strip()}"
    return Target(
        url=url,
        user=None if token else user,
        password=password,
        token=token,
        tls_ca=chosen.tls_ca,
        tls_insecure=chosen.tls_insecure,
        database=chosen.database,
        timeout_s=chosen.timeout_s,
    )


def _split_user(url: str) -> tuple[str, str | None]:
    """Return a URL without its user, and the user. Raises InvalidConfigError if it has a password."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidConfigError(f"{url!r} is not a URL: {error}") from error
    if parts.password is not None:
        shown = url.replace(f":{parts.password}@", "@")
        raise InvalidConfigError(
            f"a password in a URL is seen by everybody who lists processes, and kept in histories: give {shown}, and the "
            "password when it is asked for, or in GAMAY_PASSWORD"
        )
    if parts.scheme not in ("http", "https"):
        raise InvalidConfigError(f"{url!r} is not the address of a cluster, such as http://localhost:9000")
    return (url, None) if parts.username is None else (url.replace(f"{parts.username}@", "", 1), parts.username)

"""Who may do what: principals with basic authentication, as the properties file of a role lists them. Pure functions.

    controller.admin.access.control.factory.class=BasicAuthAccessControlFactory
    controller.admin.access.control.principals=admin,guest
    controller.admin.access.control.principals.admin.password=…
    controller.admin.access.control.principals.guest.password=…
    controller.admin.access.control.principals.guest.tables=trips
    controller.admin.access.control.principals.guest.permissions=READ

Brokers have the same under `pinot.broker.access.control`, servers under `pinot.server.admin.access.control`.
"""

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gamay.base.errors import GamayError, InvalidConfigError, nearest
from gamay.cluster.records import Role
from gamay.model.table_name import raw_table_name

_BASIC = "BasicAuthAccessControlFactory"
_OPEN = ("AllowAllAccessFactory", "AllowAllAccessControlFactory")
_KEYS = ("password", "tables", "excludeTables", "permissions")
_PREFIXES = {
    Role.CONTROLLER: ("controller.admin.access.control", "factory.class"),
    Role.BROKER: ("pinot.broker.access.control", "class"),
    Role.SERVER: ("pinot.server.admin.access.control", "factory.class"),
    Role.MINION: ("pinot.minion.admin.access.control", "factory.class"),
}


class Permission(Enum):
    """What a principal may do."""

    READ = "READ"
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


_PERMISSION_OF_METHOD = {"POST": Permission.CREATE, "PUT": Permission.UPDATE, "DELETE": Permission.DELETE}


class UnauthorizedError(GamayError):
    """A request without the name and password of a principal."""

    http_status = 401


class ForbiddenError(GamayError):
    """A request for something that its principal may not have."""

    http_status = 403


@dataclass(frozen=True, slots=True)
class Principal:
    """tables, permissions: None is all. excluded: tables that are not to be seen, whatever `tables` says."""

    name: str
    token: str = field(repr=False)
    tables: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    permissions: frozenset[Permission] | None = None

    def may_use(self, table: str) -> bool:
        """Whether a table, with or without its type, may be used."""
        raw = raw_table_name(table)
        return raw not in self.excluded and (self.tables is None or raw in self.tables)

    def may(self, permission: Permission) -> bool:
        """Whether something of the kind may be done."""
        return self.permissions is None or permission in self.permissions

    def check(self, permission: Permission, table: str | None) -> None:
        """Raise ForbiddenError unless both may be."""
        if table is not None and not self.may_use(table):
            raise ForbiddenError(f"Permission denied.Reason: {self.name} may not use table {raw_table_name(table)}")
        if not self.may(permission):
            raise ForbiddenError(f"Permission denied.Reason: {self.name} may not {permission.value.lower()}")


ANYONE = Principal("anyone", "")


@dataclass(frozen=True, slots=True)
class AccessControl:
    """The principals of a role; None lets everybody in."""

    principals: tuple[Principal, ...] | None = None

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything."""
        return self.principals is None

    def principal(self, authorization: str | None) -> Principal:
        """Return who sent a request with this `Authorization` header. Raises UnauthorizedError."""
        if self.principals is None:
            return ANYONE
        given = (authorization or "").strip().encode()
        # all are compared, so that the time taken tells nothing
        matching = [p for p in self.principals if hmac.compare_digest(p.token.encode(), given)]
        if not matching:
            what = "a name and a password" if authorization is None else "another name or password"
            raise UnauthorizedError(f"HTTP 401 Unauthorized: this needs {what}")
        return matching[0]

    def check(self, authorization: str | None, method: str, table: str | None) -> Principal:
        """Return who sent a request; raises UnauthorizedError, ForbiddenError."""
        found = self.principal(authorization)
        if not self.is_open:
            found.check(_PERMISSION_OF_METHOD.get(method, Permission.READ), table)
        return found


EVERYBODY = AccessControl()


def basic_token(name: str, password: str) -> str:
    """Return the `Authorization` header of a name and a password."""
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def access_keys(role: Role, properties: Mapping[str, str]) -> dict[str, str]:
    """Return those properties that say who may do what."""
    prefix, _ = _PREFIXES[role]
    return {key: value for key, value in properties.items() if key.startswith(f"{prefix}.")}


def access_control(role: Role, properties: Mapping[str, str]) -> AccessControl:
    """Read the access control of a role; everybody may do everything unless it says otherwise.

    Raises InvalidConfigError for an unknown class or key, and for a principal without a password.
    """
    prefix, class_key = _PREFIXES[role]
    own = {key.removeprefix(f"{prefix}."): value.strip() for key, value in access_keys(role, properties).items()}
    factory = own.pop(class_key, _OPEN[0]).rpartition(".")[2]
    if factory in _OPEN:
        return EVERYBODY
    if factory != _BASIC:
        raise InvalidConfigError(f"{prefix}.{class_key}: '{factory}' is unknown, it must be {_BASIC} or {_OPEN[0]}")
    names = _listed(own.pop("principals", ""))
    if not names:
        raise InvalidConfigError(f"{prefix}.principals is missing: the names of those who may log in, by commas")
    principals = tuple(_principal(f"{prefix}.principals", name, own) for name in names)
    known = {f"principals.{name}.{key}" for name in names for key in _KEYS}
    for key in own:
        if key not in known:
            raise InvalidConfigError(f"{prefix}.{key} means nothing.{nearest(key, known)}")
    return AccessControl(principals)


def _principal(prefix: str, name: str, own: Mapping[str, str]) -> Principal:
    def value(key: str) -> str:
        return own.get(f"principals.{name}.{key}", "")

    if not value("password"):
        raise InvalidConfigError(f"{prefix}.{name}.password is missing")
    tables = _listed(value("tables"))
    permissions = _listed(value("permissions"))
    unknown = [text for text in permissions if text.upper() not in Permission.__members__]
    if unknown:
        names = ", ".join(Permission.__members__)
        raise InvalidConfigError(f"{prefix}.{name}.permissions: '{unknown[0]}' is not one of {names}")
    excluded = _listed(value("excludeTables"))
    return Principal(
        name,
        basic_token(name, value("password")),
        None if not tables or tables == ["*"] else frozenset(map(raw_table_name, tables)),
        frozenset() if excluded == ["*"] else frozenset(map(raw_table_name, excluded)),
        frozenset(Permission[text.upper()] for text in permissions) or None,
    )


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]

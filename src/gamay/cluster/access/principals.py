"""Principals with basic authentication, as the properties file of a role lists them. Pure functions.

    controller.admin.access.control.factory.class=BasicAuthAccessControlFactory
    controller.admin.access.control.principals=admin,guest
    controller.admin.access.control.principals.admin.password=…
    controller.admin.access.control.principals.guest.password=…
    controller.admin.access.control.principals.guest.tables=trips
    controller.admin.access.control.principals.guest.permissions=READ

Brokers have the same keys under `pinot.broker.access.control`, servers under `pinot.server.admin.access.control`.
Brokers also filter rows: `….principals.guest.trips.rls=city = 'Oslo'` (`gamay.broker.answer.row_filters`). With the
class
`ZkBasicAuthAccessControlFactory` the users are those in the metadata store: `gamay.cluster.access.users`.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from gamay.base.errors import GamayError, InvalidConfigError, nearest
from gamay.cluster.access.passwords import NO_HASH, credentials, digest, is_hash, matches
from gamay.cluster.records.records import Role
from gamay.model.table.table_name import raw_table_name

_BASIC = "BasicAuthAccessControlFactory"
_STORED = "ZkBasicAuthAccessControlFactory"
_INITIAL = "access.control.init"
_OPEN = ("AllowAllAccessFactory", "AllowAllAccessControlFactory")
_KEYS = ("password", "tables", "excludeTables", "permissions", "role")
_ROW_SWITCH = "pinot.broker.enable.row.column.level.auth"
_ROWS = ".rls"
_VERIFIED_MAX = 10_000
_PREFIXES = {
    Role.CONTROLLER: ("controller.admin.access.control", "factory.class"),
    Role.BROKER: ("pinot.broker.access.control", "class"),
    Role.SERVER: ("pinot.server.admin.access.control", "factory.class"),
    Role.MINION: ("pinot.minion.admin.access.control", "factory.class"),
}


class Permission(Enum):
    """The kinds of requests that a principal may make."""

    READ = "READ"
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class PrincipalRole(Enum):
    """The level of a principal's rights on the tables that it may use: `gamay.cluster.access.rights.LEVELS`."""

    READER = "reader"
    WRITER = "writer"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"
    INSTANCE = "instance"


class UnauthorizedError(GamayError):
    """A request without the name and password of a principal."""

    http_status = 401


class ForbiddenError(GamayError):
    """A request that its principal is not authorised to make."""

    http_status = 403


@dataclass(frozen=True, slots=True)
class Principal:
    """A user or client with its rights.

    tables, permissions: None for all. excluded: hidden tables, whatever `tables` says.
    row_filters: raw table name -> the WHERE conditions of the visible rows.
    password: plain or hashed, empty for a principal verified otherwise. role: None if it follows from the other fields.
    A principal with an empty name is anonymous: a request without a log-in.
    """

    name: str
    password: str = field(repr=False)
    tables: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    permissions: frozenset[Permission] | None = None
    role: PrincipalRole | None = None
    row_filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def is_admin(self) -> bool:
        """Whether users, the metadata store and settings of the cluster may be changed."""
        return self.effective_role is PrincipalRole.ADMINISTRATOR

    @property
    def effective_role(self) -> PrincipalRole:
        """The given role, or else administrator for a principal without restrictions, operator for any other."""
        if self.role is not None:
            return self.role
        unlimited = self.sees_all_tables and self.permissions is None
        return PrincipalRole.ADMINISTRATOR if unlimited else PrincipalRole.OPERATOR

    @property
    def sees_all_tables(self) -> bool:
        """Whether all tables are visible."""
        return self.tables is None and not self.excluded

    def may_use(self, table: str) -> bool:
        """Whether a table, with or without its type, may be used."""
        raw = raw_table_name(table)
        return raw not in self.excluded and (self.tables is None or raw in self.tables)

    def sees_rows_of(self, table: str) -> bool:
        """Whether a table, with or without its type, may be used, without row filters."""
        return self.may_use(table) and not (self.row_filters and raw_table_name(table) in self.row_filters)

    def may(self, permission: Permission) -> bool:
        """Whether requests of a kind are permitted."""
        return self.permissions is None or permission in self.permissions

    def check_table(self, table: str) -> None:
        """Raise ForbiddenError unless a table may be used."""
        if not self.may_use(table):
            raise ForbiddenError(f"Permission denied.Reason: {self.name} may not use table {raw_table_name(table)}")

    def check_admin(self, what: str) -> None:
        """Raise ForbiddenError unless this is an administrator."""
        if not self.is_admin:
            raise ForbiddenError(f"Permission denied.Reason: {self.name} is no administrator, which is required to {what}")


ANYONE = Principal("anyone", "")
NOBODY = Principal("", "", tables=frozenset(), permissions=frozenset(), role=PrincipalRole.READER)


class AccessControl(Protocol):
    """The access control of a role's interfaces."""

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything."""
        ...

    def verified(self, authorization: str) -> Principal | None:
        """Return the sender of a request with this header if it was already verified; otherwise call `principal`, on
        a thread."""
        ...

    def principal(self, authorization: str | None) -> Principal:
        """Return who sent a request with this `Authorization` header. Raises UnauthorizedError."""
        ...

    def forget(self) -> None:
        """Drop all cached verifications, since users have changed."""
        ...


@dataclass(frozen=True, slots=True)
class StoredUsers:
    """Marker that the users of a role are in the metadata store. name, password: of the first administrator."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListedAccess:
    """The principals that a role's properties file lists; None for no access control."""

    principals: tuple[Principal, ...] | None = None
    _verified: dict[bytes, Principal] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything."""
        return self.principals is None

    def verified(self, authorization: str) -> Principal | None:
        """Return the sender of a request with this header, or None if it was not verified yet."""
        return ANYONE if self.is_open else self._verified.get(digest(authorization))

    def forget(self) -> None:
        """Do nothing: the principals are fixed by the configuration."""

    def principal(self, authorization: str | None) -> Principal:
        """Return who sent a request with this `Authorization` header. Raises UnauthorizedError."""
        if self.principals is None:
            return ANYONE
        if authorization is None:
            raise unauthorized(authorization)
        key = digest(authorization)
        found = self._verified.get(key)
        if found is None:
            found = self._verify(authorization, self.principals)
            if len(self._verified) >= _VERIFIED_MAX:
                self._verified.clear()
            self._verified[key] = found
        return found

    def _verify(self, authorization: str, principals: tuple[Principal, ...]) -> Principal:
        name, password = credentials(authorization)
        named = {principal.name: principal for principal in principals}.get(name)
        wanted = NO_HASH if named is None else named.password
        if is_hash(wanted):
            is_right = matches(password, wanted)
        else:
            is_right = hmac.compare_digest(password.encode(), wanted.encode())
        if named is None or not is_right:
            raise unauthorized(authorization)
        return named


EVERYBODY = ListedAccess()


@dataclass(frozen=True, slots=True)
class _WithToken:
    """An access control that admits one more principal, by a token."""

    access: AccessControl
    extra: Principal
    token: str = field(repr=False)

    @property
    def is_open(self) -> bool:
        return False

    def verified(self, authorization: str) -> Principal | None:
        return self.extra if self._is_extra(authorization) else self.access.verified(authorization)

    def principal(self, authorization: str | None) -> Principal:
        return self.extra if self._is_extra(authorization) else self.access.principal(authorization)

    def forget(self) -> None:
        self.access.forget()

    def _is_extra(self, authorization: str | None) -> bool:
        return hmac.compare_digest(self.token.encode(), (authorization or "").strip().encode())


def with_token(access: AccessControl, token: str, name: str) -> AccessControl:
    """Return the access control with one more principal, which has all rights and this `Authorization` header."""
    return access if access.is_open else _WithToken(access, Principal(name, ""), token)


def unauthorized(authorization: str | None) -> UnauthorizedError:
    """Return the error of a request without valid credentials."""
    what = "a name and a password" if authorization is None else "another name or password"
    return UnauthorizedError(f"HTTP 401 Unauthorized: this needs {what}")


def access_keys(role: Role, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of access control."""
    return {key: value for key, value in properties.items() if key.startswith(access_prefixes(role))}


def access_prefixes(role: Role) -> tuple[str, ...]:
    """Return the key prefixes of access control."""
    prefix, _ = _PREFIXES[role]
    return (f"{prefix}.", f"{_INITIAL}.", *((_ROW_SWITCH,) if role is Role.BROKER else ()))


def access_control(role: Role, properties: Mapping[str, str]) -> ListedAccess | StoredUsers:
    """Read the access control of a role; without one, every client has all rights.

    Raises InvalidConfigError for an unknown class or key, for a principal without a password, and for row filters without
    effect.
    """
    prefix, class_key = _PREFIXES[role]
    own = {key.removeprefix(f"{prefix}."): value.strip() for key, value in access_keys(role, properties).items()}
    keeps_rows = _flag(own.pop(_ROW_SWITCH, None))
    initial = {part: own.pop(f"{_INITIAL}.{part}", "") or "admin" for part in ("username", "password")}
    given = own.pop(class_key, None)
    if given is None and own:
        raise InvalidConfigError(
            f"{prefix}.{next(iter(own))} has no effect without {prefix}.{class_key}={_BASIC}: every client would be admitted"
        )
    factory = (given or _OPEN[0]).rpartition(".")[2]
    if factory in _OPEN:
        return EVERYBODY
    if factory == _STORED:
        if own:
            key = next(iter(own))
            raise InvalidConfigError(f"{prefix}.{key} has no effect with {_STORED}: users are managed by /users")
        return StoredUsers(initial["username"], initial["password"])
    if factory != _BASIC:
        classes = f"{_BASIC}, {_STORED} or {_OPEN[0]}"
        raise InvalidConfigError(f"{prefix}.{class_key}: '{factory}' is unknown, it must be {classes}")
    names = _listed(own.pop("principals", ""))
    if not names:
        raise InvalidConfigError(f"{prefix}.principals is missing: list the names of the principals, separated by commas")
    principals = tuple(_principal(f"{prefix}.principals", name, own, keeps_rows=keeps_rows is True) for name in names)
    known = {f"principals.{name}.{key}" for name in names for key in _KEYS}
    rows = {key for name in names for key in _row_keys(name, own).values()} if role is Role.BROKER else set()
    for key in own:
        if key in rows and keeps_rows is None:
            raise InvalidConfigError(f"{prefix}.{key} has no effect without {_ROW_SWITCH}=true: all rows would be visible")
        if key not in known and key not in rows:
            if key.endswith(_ROWS) and role is Role.BROKER:
                raise InvalidConfigError(f"{prefix}.{key} has no effect: the principal's `tables` must list the table")
            raise InvalidConfigError(f"{prefix}.{key} is unknown.{nearest(key, known)}")
    return ListedAccess(principals)


def _principal(prefix: str, name: str, own: Mapping[str, str], *, keeps_rows: bool) -> Principal:
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
        value("password"),
        None if not tables or tables == ["*"] else frozenset(map(raw_table_name, tables)),
        frozenset() if excluded == ["*"] else frozenset(map(raw_table_name, excluded)),
        frozenset(Permission[text.upper()] for text in permissions) or None,
        _role(f"{prefix}.{name}.role", value("role")),
        row_filters={table: tuple(_listed(own[key])) for table, key in _row_keys(name, own).items()} if keeps_rows else {},
    )


def _role(key: str, text: str) -> PrincipalRole | None:
    if text and text.upper() not in PrincipalRole.__members__:
        raise InvalidConfigError(f"{key}: '{text}' is not one of {', '.join(role.value for role in PrincipalRole)}")
    return PrincipalRole[text.upper()] if text else None


def _row_keys(name: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return table -> key of a principal's row filters; only the principal's listed tables can have one."""
    tables = map(raw_table_name, _listed(own.get(f"principals.{name}.tables", "")))
    keys = {table: f"principals.{name}.{table}{_ROWS}" for table in tables}
    return {table: key for table, key in keys.items() if table != "*" and key in own}


def _flag(text: str | None) -> bool | None:
    if text is not None and text.lower() not in ("true", "false"):
        raise InvalidConfigError(f"{_ROW_SWITCH}: '{text}' must be true or false")
    return None if text is None else text.lower() == "true"


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]

"""The rights that routes require, as a table with a line for each route, by which the routes of a role are registered.

    method  path              action          level    tables
    PUT     /tables/{table}   UpdateTableConfig operate table,body.tableName

The action has Pinot's name. The level determines which roles may call the route (`Level`), the last column which
tables the call is about, by the handler's parsed arguments:

| tables | |
| --- | --- |
| `table`, `body.tableName`, separated by commas | those that arguments or body keys name; every table if none is named |
| `-` | none: the cluster is read or changed; a change requires all tables |
| `all` | the answer covers every table, or every one may be changed |
| `listed` | the handler filters its answer by the tables of the sender |
| `found` | the handler determines the tables and checks them |
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

from gamay.cluster.access.principals import ForbiddenError, Permission, Principal, PrincipalRole, unauthorized
from gamay.model.table.table_name import raw_table_name

_PERMISSIONS = {"POST": Permission.CREATE, "PUT": Permission.UPDATE, "DELETE": Permission.DELETE}


class Level(Enum):
    """The level of an action, in ascending order of possible harm; each role has some of the levels."""

    OPEN = "open"  # needs no log-in
    READ = "read"
    WRITE = "write"  # rows and segments of tables
    OPERATE = "operate"  # configs of tables, tasks, instances
    ADMINISTER = "administer"  # users, the metadata store, settings of the cluster
    INSTANCE = "instance"  # requests between instances


class Scope(Enum):
    """How the tables of a route are determined."""

    NAMED = "named"
    CLUSTER = "-"
    ALL = "all"
    LISTED = "listed"
    FOUND = "found"


LEVELS: Mapping[PrincipalRole, frozenset[Level]] = MappingProxyType(
    {
        PrincipalRole.READER: frozenset({Level.READ}),
        PrincipalRole.WRITER: frozenset({Level.READ, Level.WRITE}),
        PrincipalRole.OPERATOR: frozenset({Level.READ, Level.WRITE, Level.OPERATE}),
        PrincipalRole.ADMINISTRATOR: frozenset(Level),
        PrincipalRole.INSTANCE: frozenset({Level.READ, Level.WRITE, Level.INSTANCE}),
    }
)


@dataclass(frozen=True, slots=True)
class Right:
    """The right that a route requires. arguments: the arguments that name tables, each with the keys into it if it is
    a body."""

    action: str
    level: Level
    scope: Scope
    arguments: tuple[tuple[str, ...], ...] = ()

    def permission(self, method: str) -> Permission:
        """Return the permission that a method requires. A GET that changes something is an update; any pure query is
        a read."""
        return Permission.READ if self.level is Level.READ else _PERMISSIONS.get(method, Permission.UPDATE)

    def tables(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the tables that parsed arguments name."""
        return [name for path in self.arguments for name in _names(arguments, path)]

    def check(self, principal: Principal, method: str, arguments: Mapping[str, Any]) -> None:
        """Raise ForbiddenError unless a principal may make this call with these arguments, UnauthorizedError for an
        anonymous one.

        A handler that determines tables by itself checks them by `Principal.check_table`.
        """
        if self.level is Level.OPEN:
            return
        self.check_kind(principal, method)
        if self.scope is Scope.NAMED and (named := self.tables(arguments)):
            for table in named:
                if not principal.may_use(table):
                    raise self._refused(principal, f"may not use table {raw_table_name(table)}")
        elif self._takes_all_tables():
            self._check_all_tables(principal)

    def check_some(self, principal: Principal, method: str) -> None:
        """Raise as `check` does unless some arguments exist with which a principal may make this call."""
        if self.level is Level.OPEN:
            return
        self.check_kind(principal, method)
        if self.scope is not Scope.NAMED and self._takes_all_tables():
            self._check_all_tables(principal)

    def check_kind(self, principal: Principal, method: str) -> None:
        """Raise ForbiddenError unless a principal may make calls of this kind, UnauthorizedError for an anonymous one."""
        if not principal.name:
            raise unauthorized(None)
        if self.level not in LEVELS[principal.effective_role]:
            raise self._refused(principal, f"is no {_needed_role(self.level)}")
        permission = self.permission(method)
        if not principal.may(permission):
            raise self._refused(principal, f"may not {permission.value.lower()}")

    def _takes_all_tables(self) -> bool:
        if self.scope is Scope.CLUSTER:  # an administrator may be limited to some tables
            return self.level in (Level.WRITE, Level.OPERATE)
        return self.scope in (Scope.ALL, Scope.NAMED)

    def _check_all_tables(self, principal: Principal) -> None:
        if not principal.sees_all_tables:
            raise self._refused(principal, "may not use all tables, which this requires")

    def _refused(self, principal: Principal, why: str) -> ForbiddenError:
        return ForbiddenError(f"Permission denied.Reason: {principal.name} {why} ({self.action})")


Rights: TypeAlias = Mapping[tuple[str, str], Right]


class UndeclaredRouteError(TypeError):
    """A route without a line in the table of rights."""


def read_rights(*texts: str) -> Rights:
    """Read tables of rights: method and path -> right. Raises ValueError for a line that cannot be read or comes twice."""
    found: dict[tuple[str, str], Right] = {}
    for line in (line for text in texts for line in text.splitlines() if line.strip()):
        try:
            method, path, action, level, tables = line.split()
            right = _right(action, Level(level), tables)
        except ValueError as error:
            raise ValueError(f"a right is METHOD PATH ACTION LEVEL TABLES, not '{line.strip()}': {error}") from None
        if (method, path) in found:
            raise ValueError(f"{method} {path} has two rights")
        found[method, path] = right
    return MappingProxyType(found)


def must_get_right(rights: Rights, method: str, path: str) -> Right:
    """Return the right that a route requires. Raises UndeclaredRouteError."""
    right = rights.get((method, path))
    if right is None:
        raise UndeclaredRouteError(f"{method} {path} has no line in the table of rights: add one")
    return right


def open_paths(rights: Rights) -> tuple[str, ...]:
    """Return the paths that need no log-in, cut off at the first parameter."""
    return tuple({path.partition("{")[0] for (_, path), right in rights.items() if right.level is Level.OPEN})


def _right(action: str, level: Level, tables: str) -> Right:
    scopes = {scope.value: scope for scope in Scope if scope is not Scope.NAMED}
    if tables in scopes:
        return Right(action, level, scopes[tables])
    return Right(action, level, Scope.NAMED, tuple(tuple(path.split(".")) for path in tables.split(",")))


def _names(found: Any, path: Iterable[str]) -> Iterator[str]:
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        found = [found]
    if isinstance(found, list):
        yield from (name for name in found if isinstance(name, str) and name)


def _needed_role(level: Level) -> str:
    return min((role for role in PrincipalRole if level in LEVELS[role]), key=lambda role: len(LEVELS[role])).value

"""Users in the metadata store: a controller's `/users` manages them, and every role looks up its own users.

A user is known by name and component (`bob_BROKER`), so that one name may have different rights at brokers and
controllers. Passwords are stored as hashes (`gamay.cluster.access.passwords`). Verified headers are cached until a
user changes.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gamay.base.errors import ConflictError, GamayError, InvalidConfigError, NotFoundError, nearest
from gamay.cluster.access.passwords import NO_HASH, credentials, digest, hashed_password, matches
from gamay.cluster.access.principals import AccessControl, Permission, Principal, PrincipalRole, StoredUsers, unauthorized
from gamay.cluster.records.records import Role
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore, update
from gamay.cluster.store.znrecord import CorruptRecordError, ZNRecord, decode, encode
from gamay.model.table.table_name import raw_table_name

_log = logging.getLogger(__name__)

COMPONENTS = ("CONTROLLER", "BROKER", "SERVER", "MINION", "PROXY")
ADMIN, USER = "ADMIN", "USER"
_ROLES = {
    ADMIN: PrincipalRole.ADMINISTRATOR,
    USER: PrincipalRole.OPERATOR,
    "READER": PrincipalRole.READER,
    "WRITER": PrincipalRole.WRITER,
    "OPERATOR": PrincipalRole.OPERATOR,
    "INSTANCE": PrincipalRole.INSTANCE,
}
HIDDEN = "*****"
_KEYS = ("username", "password", "component", "role", "tables", "excludeTables", "permissions")
_REMEMBERED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class User:
    """A stored user. password: hashed. tables, permissions: None for all. excluded: forbidden tables, whatever
    `tables` says."""

    name: str
    component: str
    password: str = field(repr=False)
    role: str = USER
    tables: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    permissions: frozenset[Permission] | None = None

    @property
    def key(self) -> str:
        """The unique key of a user: `<name>_<component>`."""
        return f"{self.name}_{self.component}"

    @property
    def principal(self) -> Principal:
        """The user's rights."""
        return Principal(self.name, "", self.tables, self.excluded, self.permissions, _ROLES[self.role])

    @classmethod
    def from_json(cls, document: Mapping[str, Any], hashed: str | None = None) -> "User":
        """Parse a user document; the password is hashed, unless a hash is given. Raises InvalidConfigError."""
        if unknown := [key for key in document if key not in _KEYS]:
            raise InvalidConfigError(f"user: unknown key '{unknown[0]}'.{nearest(unknown[0], _KEYS)}")
        name, password = document.get("username"), document.get("password")
        if not isinstance(name, str) or not name or set(name) & set(":/") or not name.isprintable():
            raise InvalidConfigError(f"user: 'username' must be a name without ':' and '/', not {name!r}")
        if hashed is None and (not isinstance(password, str) or not password):
            raise InvalidConfigError("user: the key 'password' is missing")
        permissions = _texts(document, "permissions") or []
        names = [_one_of("permissions", text, tuple(Permission.__members__)) for text in permissions]
        tables = _texts(document, "tables")
        return cls(
            name,
            component_of(document.get("component")),
            hashed if hashed is not None else hashed_password(str(password)),
            _one_of("role", document.get("role", USER), tuple(_ROLES)),
            None if not tables or tables == ["*"] else frozenset(map(raw_table_name, tables)),
            frozenset(raw_table_name(table) for table in _texts(document, "excludeTables") or [] if table != "*"),
            frozenset(Permission[text] for text in names) or None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the document for administrators, without the password."""
        return {
            "username": self.name,
            "password": HIDDEN,
            "component": self.component,
            "role": self.role,
            "tables": None if self.tables is None else sorted(self.tables),
            "excludeTables": sorted(self.excluded) or None,
            "permissions": None if self.permissions is None else sorted(p.value for p in self.permissions),
        }

    @classmethod
    def from_record(cls, record: ZNRecord) -> "User":
        """Translate a record of the metadata store."""
        document = {**record.simple, **{key: names for key, names in record.lists.items() if key in _KEYS}}
        return cls.from_json({key: document[key] for key in document if key in _KEYS}, record.simple["password"])

    def to_record(self) -> ZNRecord:
        simple = {"username": self.name, "password": self.password, "component": self.component, "role": self.role}
        shown = self.to_json()
        lists = {key: shown[key] for key in ("tables", "excludeTables", "permissions") if shown[key] is not None}
        return ZNRecord(self.key, simple, lists=lists)


class Users:
    """The users of the cluster."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def all(self) -> dict[str, User]:
        """Return all users whose records can be read, by key."""
        return self.readable()[0]

    def readable(self) -> tuple[dict[str, User], dict[str, CorruptRecordError]]:
        """Return the users by key, and the errors of damaged records by key; a damaged record admits no log-in."""
        users: dict[str, User] = {}
        damaged: dict[str, CorruptRecordError] = {}
        keys = self._store.children(paths.USERS)
        for key, node in zip(keys, self._store.get_many([paths.user(key) for key in keys]), strict=True):
            try:
                if node is not None:
                    users[key] = _user_in(key, node.value)
            except CorruptRecordError as error:
                damaged[key] = error
        return users, damaged

    def has_any(self, component: str) -> bool:
        """Whether a component has users, including those with damaged records."""
        return any(key.endswith(f"_{component}") for key in self._store.children(paths.USERS))

    def get(self, name: str, component: str) -> User:
        """Return a user. Raises NotFoundError."""
        users = self.all()
        key = f"{name}_{component_of(component)}"
        if key not in users:
            raise NotFoundError(f"User {key} does not exist.{nearest(key, users)}")
        return users[key]

    def add(self, user: User) -> None:
        """Add a user. Raises ConflictError if the name and component exist."""
        try:
            self._store.create(paths.user(user.key), encode(user.to_record()))
        except ConflictError as error:
            raise ConflictError(f"User {user.key} already exists. If this is unexpected, use PUT to change it.") from error

    def replace(self, user: User) -> None:
        """Change a user. Raises NotFoundError, ConflictError if no administrator of controllers would be left."""
        if user.role != ADMIN:
            self._keep_an_administrator(self.get(user.name, user.component))
        value = encode(user.to_record())
        update(self._store, paths.user(user.key), lambda _: value)

    def delete(self, name: str, component: str) -> str:
        """Delete a user, and return its key. Raises NotFoundError, ConflictError as `replace`."""
        key = f"{name}_{component_of(component)}"
        if key not in self.readable()[1]:
            self._keep_an_administrator(self.get(name, component))
        self._store.delete(paths.user(key))
        return key

    def _keep_an_administrator(self, user: User) -> None:
        others = [u for u in self.all().values() if u.component == "CONTROLLER" and u.role == ADMIN and u.key != user.key]
        if user.component == "CONTROLLER" and user.role == ADMIN and not others:
            raise ConflictError(f"User {user.key} is the last administrator of controllers: create another one first")


def _user_in(key: str, value: bytes) -> User:
    """Return the user that a node holds. Raises CorruptRecordError."""
    try:
        user = User.from_record(decode(value))
        if user.key != key:
            raise ValueError(f"it is of {user.key}")
    except (GamayError, ValueError, KeyError, TypeError, AttributeError) as error:
        told = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise CorruptRecordError(f"the record {paths.user(key)} is damaged: {told}") from error
    return user


class StoredAccess:
    """Access control by the stored users of a component; implements `gamay.cluster.access.principals.AccessControl`.

    If the component has no users at all, its first administrator is created.
    """

    is_open = False

    def __init__(self, registry: Registry, component: str, first: StoredUsers) -> None:
        self._users = Users(registry.store)
        self._component = component
        self._known: dict[str, User] | None = None
        self._remembered: dict[bytes, User] = {}
        self._lock = threading.Lock()
        registry.store.watch(paths.USERS, lambda _: self.forget())
        if not self._read() and not self._users.has_any(component):
            _log.warning("%s: no users yet, created the administrator '%s': change the password", component, first.name)
            document = {"username": first.name, "password": first.password, "component": component, "role": ADMIN}
            try:
                self._users.add(User.from_json(document))
            except ConflictError:
                _log.info("%s: another process created the administrator", component)

    def verified(self, authorization: str) -> Principal | None:
        """Return the sender of a request with this header; None if `principal` has to read the store and compute a
        slow hash."""
        found = self._remembered.get(digest(authorization))
        return None if found is None else found.principal

    def principal(self, authorization: str | None) -> Principal:
        """Return who sent a request with this `Authorization` header. Raises UnauthorizedError."""
        if authorization is None:
            raise unauthorized(authorization)
        key = digest(authorization)
        found = self._remembered.get(key)
        if found is None:
            users = self._read()
            name, password = credentials(authorization)
            found = users.get(name)
            # an unknown user takes as long to refuse as a known one
            if not matches(password, NO_HASH if found is None else found.password) or found is None:
                raise unauthorized(authorization)
            with self._lock:
                if len(self._remembered) >= _REMEMBERED_MAX:
                    self._remembered.clear()
                if self._known is users:
                    self._remembered[key] = found
        return found.principal

    def _read(self) -> dict[str, User]:
        known = self._known
        if known is None:
            with self._lock:
                users, damaged = self._users.readable()
                for error in damaged.values():
                    _log.error("a damaged user record admits no log-in: %s", error)
                known = {u.name: u for u in users.values() if u.component == self._component}
                self._known = known
        return known

    def forget(self) -> None:
        """Read the users again at the next log-in; the process that changed them need not wait for the store's watch."""
        with self._lock:
            self._known = None
            self._remembered.clear()


def resolve_access(access: AccessControl | StoredUsers, role: Role, registry: Registry) -> AccessControl:
    """Return the access control of a role, now that the metadata store is available."""
    return StoredAccess(registry, role.name, access) if isinstance(access, StoredUsers) else access


def component_of(text: Any) -> str:
    """Return the name of a component, in any case. Raises InvalidConfigError."""
    return _one_of("component", text, COMPONENTS)


def changed_user(before: User, document: Mapping[str, Any], *, password_changed: bool) -> User:
    """Return the changed user; its name and component stay. Raises InvalidConfigError."""
    merged = {"username": before.name, "component": before.component, **document}
    after = User.from_json(merged, None if password_changed else before.password)
    if after.key != before.key:
        raise InvalidConfigError(f"user: the body is about {after.key}, the path about {before.key}")
    return after


def _texts(document: Mapping[str, Any], key: str) -> list[str] | None:
    value = document.get(key)
    if value is not None and not (isinstance(value, list) and all(isinstance(text, str) for text in value)):
        raise InvalidConfigError(f"user: '{key}' must be a list of strings")
    return value


def _one_of(key: str, text: Any, known: tuple[str, ...]) -> str:
    if not isinstance(text, str) or text.upper() not in known:
        raise InvalidConfigError(f"user: '{key}' is {text!r}, it must be one of {', '.join(known)}")
    return text.upper()

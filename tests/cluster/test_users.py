"""Users in the metadata store: storage, authentication, and changes that apply immediately."""

import base64
import hashlib
from typing import Any

import pytest
from tests.waiting import eventually

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError
from gamay.cluster.access.passwords import basic_token, hashed_password
from gamay.cluster.access.principals import (
    Permission,
    StoredUsers,
    UnauthorizedError,
    access_control,
)
from gamay.cluster.access.users import StoredAccess, User, Users, changed_user
from gamay.cluster.records.records import Role
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.store.znrecord import decode

BOB = {"username": "bob", "password": "secret", "component": "broker", "tables": ["trips_OFFLINE"], "permissions": ["read"]}


@pytest.fixture
def registry(store: MetadataStore) -> Registry:
    return Registry(store)


def test_a_user_is_stored_with_a_hash_and_comes_back(registry: Registry) -> None:
    users = Users(registry.store)
    bob = User.from_json(BOB)
    users.add(bob)
    assert users.all() == {"bob_BROKER": bob}
    assert bob.to_json() == {
        "username": "bob", "password": "*****", "component": "BROKER", "role": "USER", "tables": ["trips"],
        "excludeTables": None, "permissions": ["READ"],
    }  # fmt: skip
    node = registry.store.get(paths.user("bob_BROKER"))
    assert node is not None
    assert b"secret" not in node.value
    stored = decode(node.value).simple["password"].split("$")
    assert stored[:4] == ["scrypt", "8192", "8", "1"]
    with pytest.raises(ConflictError, match="User bob_BROKER already exists"):
        users.add(bob)
    users.add(User.from_json({**BOB, "component": "SERVER"}))  # the same name elsewhere is another user
    with pytest.raises(NotFoundError, match="User bob_MINION does not exist"):
        users.get("bob", "MINION")


def test_hashes_are_those_of_scrypt() -> None:
    salt = b"0123456789abcdef"
    made = hashed_password("pässword", salt)
    assert made.endswith("$" + base64.b64encode(
        hashlib.scrypt("pässword".encode(), salt=salt, n=8192, r=8, p=1)
    ).decode())  # fmt: skip
    assert hashed_password("x") != hashed_password("x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"username": ""}, "'username' must be a name"),
        ({"username": "a:b"}, "'username' must be a name"),
        ({"username": "a/b"}, "'username' must be a name"),
        ({"password": ""}, "'password' is missing"),
        ({"component": "BROKE"}, "must be one of CONTROLLER"),
        ({"role": "root"}, "must be one of ADMIN, USER"),
        ({"permissions": ["WRITE"]}, "must be one of READ"),
        ({"tables": "trips"}, "'tables' must be a list"),
        ({"tabels": []}, "unknown key 'tabels'. Did you mean 'tables'"),
    ],
)
def test_what_cannot_be_a_user_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfigError, match=said):
        User.from_json({**BOB, **change})


def enters(access: StoredAccess, token: str) -> bool:
    try:
        access.principal(token)
    except UnauthorizedError:
        return False
    return True


def test_only_known_users_with_their_rights_pass(registry: Registry) -> None:
    access = StoredAccess(registry, "BROKER", StoredUsers("root", "toor"))
    users = Users(registry.store)
    assert list(users.all()) == ["root_BROKER"]
    users.add(User.from_json(BOB))
    users.add(User.from_json({**BOB, "component": "CONTROLLER", "password": "other"}))
    token = basic_token("bob", "secret")
    assert access.verified(token) is None
    eventually(lambda: enters(access, token))
    found = access.principal(token)
    assert (found.name, found.permissions, found.is_admin) == ("bob", frozenset({Permission.READ}), False)
    eventually(lambda: access.principal(token) and access.verified(token))
    assert [found.may_use(table) for table in ("trips_REALTIME", "pay")] == [True, False]
    for given in (None, basic_token("bob", "other"), basic_token("bo", "secret"), "Bearer x", "Basic §", "Basic "):
        with pytest.raises(UnauthorizedError):
            access.principal(given)
    assert access.principal(basic_token("root", "toor")).is_admin


def test_changes_hold_at_once(registry: Registry) -> None:
    access = StoredAccess(registry, "BROKER", StoredUsers("root", "toor"))
    users = Users(registry.store)
    users.add(User.from_json(BOB))
    old, new = basic_token("bob", "secret"), basic_token("bob", "new")
    eventually(lambda: enters(access, old))
    changed = changed_user(users.get("bob", "BROKER"), {"password": "new", "tables": None}, password_changed=True)
    users.replace(changed)
    eventually(lambda: enters(access, new) and not enters(access, old))
    assert access.principal(new).tables is None
    kept = changed_user(users.get("bob", "BROKER"), {"password": "newer", "role": "ADMIN"}, password_changed=False)
    users.replace(kept)
    eventually(lambda: enters(access, new) and access.principal(new).is_admin)
    users.delete("bob", "BROKER")
    eventually(lambda: not enters(access, new))


def test_the_last_administrator_of_controllers_stays(registry: Registry) -> None:
    StoredAccess(registry, "CONTROLLER", StoredUsers("root", "toor"))
    users = Users(registry.store)
    with pytest.raises(ConflictError, match="root_CONTROLLER is the last administrator"):
        users.delete("root", "CONTROLLER")
    with pytest.raises(ConflictError, match="last administrator"):
        users.replace(changed_user(users.get("root", "CONTROLLER"), {"role": "USER"}, password_changed=False))
    users.add(User.from_json({**BOB, "component": "CONTROLLER", "role": "ADMIN"}))
    users.delete("root", "CONTROLLER")
    # who deletes the first administrator does not get it back at the next start
    StoredAccess(registry, "CONTROLLER", StoredUsers("root", "toor"))
    assert list(users.all()) == ["bob_CONTROLLER"]


def test_the_file_says_where_users_are() -> None:
    prefix = "controller.admin.access.control"
    given = {f"{prefix}.factory.class": "org.apache.pinot.controller.api.access.ZkBasicAuthAccessControlFactory"}
    assert access_control(Role.CONTROLLER, given) == StoredUsers("admin", "admin")
    first = {"access.control.init.username": "root", "access.control.init.password": "toor"}
    assert access_control(Role.CONTROLLER, {**given, **first}) == StoredUsers("root", "toor")
    with pytest.raises(InvalidConfigError, match="principals has no effect with ZkBasicAuth"):
        access_control(Role.CONTROLLER, {**given, f"{prefix}.principals": "a"})


DAMAGED = [
    b"garbage",
    b"{}",
    b'{"id": "bob_BROKER", "simpleFields": {"username": "bob"}, "mapFields": {}, "listFields": {}}',
]


@pytest.mark.parametrize("value", DAMAGED)
def test_nobody_logs_in_by_a_damaged_record_and_the_others_do(registry: Registry, value: bytes) -> None:
    users, (root, bob) = Users(registry.store), (basic_token("root", "toor"), basic_token("bob", "secret"))
    access = StoredAccess(registry, "BROKER", StoredUsers("root", "toor"))
    users.add(User.from_json(BOB))
    eventually(lambda: enters(access, bob))
    registry.store.set(paths.user("bob_BROKER"), value, None)
    eventually(lambda: not enters(access, bob))
    assert access.principal(root).name == "root"
    assert list(users.readable()[1]) == ["bob_BROKER"]
    assert users.delete("bob", "BROKER") == "bob_BROKER"
    users.add(User.from_json(BOB))
    eventually(lambda: enters(access, bob))


@pytest.mark.parametrize("value", DAMAGED)
def test_no_first_administrator_is_made_where_all_records_are_damaged(registry: Registry, value: bytes) -> None:
    registry.store.create(paths.user("root_CONTROLLER"), value)
    access = StoredAccess(registry, "CONTROLLER", StoredUsers("admin", "admin"))
    with pytest.raises(UnauthorizedError):
        access.principal(basic_token("admin", "admin"))
    assert registry.store.children(paths.USERS) == ["root_CONTROLLER"]


def test_a_record_is_of_the_user_that_its_node_names(registry: Registry) -> None:
    users = Users(registry.store)
    users.add(User.from_json({**BOB, "username": "root", "role": "ADMIN", "tables": None}))
    node = registry.store.get(paths.user("root_BROKER"))
    assert node is not None
    registry.store.create(paths.user("eve_BROKER"), node.value)
    found, damaged = users.readable()
    assert (list(found), list(damaged)) == (["root_BROKER"], ["eve_BROKER"])


def test_who_changes_users_need_not_wait_for_the_store(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.store, "watch", lambda *_: None)  # it never fires
    access = StoredAccess(registry, "BROKER", StoredUsers("root", "toor"))
    users, bob = Users(registry.store), basic_token("bob", "secret")
    with pytest.raises(UnauthorizedError):
        access.principal(bob)
    users.add(User.from_json(BOB))
    access.forget()
    assert access.principal(bob).name == "bob"
    users.delete("bob", "BROKER")
    access.forget()
    assert access.verified(bob) is None
    with pytest.raises(UnauthorizedError):
        access.principal(bob)

"""Access rights from a properties file."""

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.cluster.access.passwords import basic_token
from gamay.cluster.access.principals import (
    EVERYBODY,
    ListedAccess,
    Permission,
    UnauthorizedError,
    access_control,
    access_keys,
)
from gamay.cluster.records.records import Role

P = "controller.admin.access.control"
FILE = {
    f"{P}.factory.class": "org.apache.pinot.controller.api.access.BasicAuthAccessControlFactory",
    f"{P}.principals": "admin, guest,clerk",
    f"{P}.principals.admin.password": "verysecret",
    f"{P}.principals.guest.password": "secret",
    f"{P}.principals.guest.tables": "trips, fares_OFFLINE",
    f"{P}.principals.guest.permissions": "read",
    f"{P}.principals.clerk.password": "se:cret",
    f"{P}.principals.clerk.excludeTables": "pay",
    "controller.port": "9000",
}


def test_principals_have_what_the_file_gives_them() -> None:
    access = access_control(Role.CONTROLLER, FILE)
    assert isinstance(access, ListedAccess)
    admin, guest, clerk = (
        access.principal(basic_token(*who)) for who in (("admin", "verysecret"), ("guest", "secret"), ("clerk", "se:cret"))
    )
    assert [p.name for p in (admin, guest, clerk)] == ["admin", "guest", "clerk"]
    assert admin.may_use("anything_REALTIME")
    assert [guest.may_use(t) for t in ("trips", "trips_OFFLINE", "fares", "pay")] == [True, True, True, False]
    assert [clerk.may_use(t) for t in ("trips", "pay", "pay_REALTIME")] == [True, False, False]
    assert [guest.may(permission) for permission in Permission] == [True, False, False, False]
    assert all(clerk.may(permission) for permission in Permission)
    assert "secret" not in repr(access)


@pytest.mark.parametrize(
    "header", [None, "", "Basic", basic_token("guest", "wrong"), basic_token("x", "y"), "Bearer z", "Basic é"]
)
def test_others_are_not_let_in(header: str | None) -> None:
    access = access_control(Role.CONTROLLER, FILE)
    assert isinstance(access, ListedAccess)
    with pytest.raises(UnauthorizedError, match="401"):
        access.principal(header)


def test_without_access_control_everybody_is_let_in() -> None:
    for given in ({}, {f"{P}.factory.class": "org.apache.pinot.controller.api.access.AllowAllAccessFactory"}):
        assert access_control(Role.CONTROLLER, given) is EVERYBODY
    assert EVERYBODY.principal(None).may(Permission.DELETE)
    assert access_keys(Role.BROKER, FILE) == {}
    assert "controller.port" not in access_keys(Role.CONTROLLER, FILE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({f"{P}.factory.class": "x.LdapAccessControlFactory"}, "'LdapAccessControlFactory' is unknown"),
        ({f"{P}.principals": ""}, "principals is missing"),
        ({f"{P}.principals.guest.password": ""}, r"principals\.guest\.password is missing"),
        ({f"{P}.principals.guest.permissions": "READ,WRITE"}, "'WRITE' is not one of READ, CREATE, UPDATE, DELETE"),
        ({f"{P}.principals.guest.pasword": "x"}, r"Did you mean 'principals\.guest\.password'"),
        ({f"{P}.principals.nobody.password": "x"}, "is unknown"),
    ],
)
def test_mistakes_in_the_file_are_told(change: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        access_control(Role.CONTROLLER, {**FILE, **change})


def test_principals_without_a_class_are_no_protection_and_refused() -> None:
    without = {key: value for key, value in FILE.items() if not key.endswith("factory.class")}
    with pytest.raises(InvalidConfigError, match=r"has no effect without .*\.factory\.class"):
        access_control(Role.CONTROLLER, without)

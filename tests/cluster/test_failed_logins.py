"""Failed logins are slowed down and logged, and changes are recorded in the audit log."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gamay.cluster.access.audit import Audited
from gamay.cluster.access.failed_logins import FailedLogins, TooManyLoginsError
from gamay.cluster.access.logins import Logins
from gamay.cluster.access.passwords import basic_token, credentials, hashed_password, is_hash, matches
from gamay.cluster.access.principals import ListedAccess, UnauthorizedError, access_control
from gamay.cluster.access.rights import read_rights
from gamay.cluster.records.records import Role
from gamay.web.guarded import Guarded, guarded_routes

P = "controller.admin.access.control"
RIGHTS = read_rights("DELETE /tables/{table} DeleteTable operate table\nGET /tables/{table} GetTable read table")


def listed(password: str) -> ListedAccess:
    found = access_control(
        Role.CONTROLLER,
        {
            f"{P}.factory.class": "BasicAuthAccessControlFactory",
            f"{P}.principals": "bob",
            f"{P}.principals.bob.password": password,
            f"{P}.principals.bob.tables": "trips",
        },
    )
    assert isinstance(found, ListedAccess)
    return found


def application(access: ListedAccess, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> Any:
    def answer(request: Request) -> Response:
        """Answer."""
        return PlainTextResponse(request.path_params["table"])

    routes = [Route("/tables/{table}", answer), Route("/tables/{table}", answer, methods=["DELETE"])]
    return Guarded(Audited(Starlette(routes=guarded_routes(routes, RIGHTS))), Logins(access, sleep), RIGHTS)


def asked(app: Any, *requests: tuple[str, str, str | None]) -> list[int]:
    async def ask() -> list[int]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            headers = [{} if token is None else {"Authorization": token} for _, _, token in requests]
            return [
                (await client.request(method, path, headers=own)).status_code
                for (method, path, _), own in zip(requests, headers, strict=True)
            ]

    return asyncio.run(ask())


@pytest.mark.parametrize("stored", ["s:ecret", hashed_password("s:ecret")])
def test_a_password_of_a_file_is_plain_or_hashed(stored: str) -> None:
    access = listed(stored)
    right, wrong = basic_token("bob", "s:ecret"), basic_token("bob", "secret")
    assert access.verified(right) is None
    for _ in range(2):
        assert access.principal(right).name == "bob"
        assert access.principal(right.replace("Basic", "bASIC ")).name == "bob"
        for other in (wrong, basic_token("bo", "s:ecret"), basic_token("bob", stored + "x"), None):
            with pytest.raises(UnauthorizedError):
                access.principal(other)
    assert access.verified(right) is not None
    assert access.verified(wrong) is None
    if is_hash(stored):
        with pytest.raises(UnauthorizedError):
            access.principal(basic_token("bob", stored))


@given(st.text(st.characters(exclude_characters=":", codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_credentials_are_read_as_they_were_written(name: str, password: str) -> None:
    assert credentials(basic_token(name, password)) == (name, password)


@pytest.mark.parametrize(
    "text",
    ["", "scrypt$8192$8$1$$", "scrypt$1073741824$8$1$AA==$AA==", "scrypt$8192$999$1$AA==$AA==", "$2a$10$abc", "scrypt$x"],
)
def test_what_is_no_hash_matches_nothing(text: str) -> None:
    assert not is_hash(text)
    assert not matches("", text)


def test_waits_grow_with_failures_and_end_with_a_success() -> None:
    logins = FailedLogins()
    for count in range(1, 6):
        assert logins.wait_s("a", "bob", float(count)) == 0
        assert logins.failed("a", "bob", float(count)) == count
    assert logins.wait_s("b", "bob", 10.0) == logins.wait_s("a", "ann", 10.0) == 0
    waits, now_s = [], 10.0
    for _ in range(7):
        waits.append(logins.wait_s("a", "bob", now_s))
        now_s += waits[-1]
        logins.failed("a", "bob", now_s)
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    logins.wait_s("a", "bob", now_s)
    logins.wait_s("a", "bob", now_s)
    with pytest.raises(TooManyLoginsError, match="429"):
        logins.wait_s("a", "bob", now_s)
    assert logins.wait_s("a", "bob", 2000.0) == 0
    logins.failed("a", "bob", 2000.0)
    logins.succeeded("a", "bob")
    assert logins.failed("a", "bob", 2001.0) == 1


def test_attempts_at_once_wait_for_each_other() -> None:
    logins = FailedLogins()
    for _ in range(6):
        logins.failed("a", "bob", 0.0)
    assert [logins.wait_s("a", "bob", 0.0) for _ in range(4)] == [0.5, 1.0, 1.5, 2.0]


def test_one_password_for_many_names_slows_the_address() -> None:
    logins = FailedLogins()
    for number in range(20):
        assert logins.wait_s("10.0.0.7", f"user{number}", 0.0) == 0.0
        logins.failed("10.0.0.7", f"user{number}", 0.0)
    waits = []
    for number in range(20, 25):
        waits.append(logins.wait_s("10.0.0.7", f"user{number}", 1.0))
        logins.failed("10.0.0.7", f"user{number}", 1.0)
    assert waits == [0.25, 0.75, 1.75, 3.75, 7.75]
    with pytest.raises(TooManyLoginsError, match="names from this address"):
        logins.wait_s("10.0.0.7", "user25", 1.0)
    logins.succeeded("10.0.0.7", "user3")  # the attacker's own
    with pytest.raises(TooManyLoginsError):
        logins.wait_s("10.0.0.7", "user3", 1.0)
    assert logins.wait_s("10.0.0.8", "user200", 1.0) == 0.0
    assert logins.wait_s("10.0.0.7", "user200", 1000.0) == 0.0


def test_one_name_that_fails_on_and_on_slows_no_other() -> None:
    logins = FailedLogins()
    for _ in range(100):
        logins.failed("10.0.0.7", "script", 0.0)
    assert logins.wait_s("10.0.0.7", "bob", 0.0) == 0.0


def test_failed_logins_are_logged_and_slow_nobody_who_is_in(caplog: pytest.LogCaptureFixture) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    right, wrong = basic_token("bob", "pw"), basic_token("bob", "guess")
    get = ("GET", "/tables/trips")
    statuses = asked(application(listed("pw"), sleep), (*get, right), *[(*get, wrong)] * 7, (*get, right), (*get, None))
    assert statuses == [200, *[401] * 7, 200, 401]
    assert len(slept) == 2
    told = [r.getMessage() for r in caplog.records if r.name == "gamay.audit"]
    assert told[-1] == "log-in as 'bob' from 127.0.0.1 failed at '/tables/trips', failures in a row: 7"
    assert "guess" not in caplog.text


def test_changes_are_logged_with_their_outcome(caplog: pytest.LogCaptureFixture) -> None:
    token = basic_token("bob", "pw")
    with caplog.at_level(logging.INFO, "gamay.audit"):
        statuses = asked(
            application(listed("pw")),
            ("GET", "/tables/trips", token),
            ("DELETE", "/tables/trips?secret=1", token),
            ("DELETE", "/tables/pay%0Aforged", token),
            ("DELETE", "/tables/trips?a=1&a=2", token),
        )
    assert statuses == [200, 200, 403, 400]
    assert [r.getMessage() for r in caplog.records if r.name == "gamay.audit"] == [
        "change by 'bob' from 127.0.0.1: DeleteTable of trips, DELETE '/tables/trips': 200",
        "change by 'bob' from 127.0.0.1: DeleteTable' of pay\\nforged', DELETE '/tables/pay\\nforged': 403",
        "change by 'bob' from 127.0.0.1: DeleteTable of trips, DELETE '/tables/trips': 400",
    ]


def test_a_change_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        from gamay.cluster.access.audit import note
        from gamay.cluster.access.principals import ANYONE

        note(scope, RIGHTS["DELETE", "/tables/{table}"], ANYONE, ["trips"])
        raise OSError("disk")

    with caplog.at_level(logging.INFO, "gamay.audit"), pytest.raises(OSError, match="disk"):
        asked(Audited(broken), ("DELETE", "/tables/trips", None))
    assert caplog.records[-1].getMessage().endswith("'/tables/trips': 500")

"""Malformed cookies, tokens and logins of the console: none is accepted, and none causes an internal error."""

import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.waiting import PATIENCE_S

from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_access

ACCESS = """
controller.admin.access.control.factory.class=BasicAuthAccessControlFactory
controller.admin.access.control.principals=admin
controller.admin.access.control.principals.admin.password=verysecret
"""
LOGIN = b'{"username": "admin", "password": "verysecret"}'
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("odd-cookies")
    (folder / "access").write_text(ACCESS)
    access = read_access(folder / "access")
    with EmbeddedCluster(folder / "data", 0, 0, 0, threads=1, warm_up=False, access=access) as made:
        yield made.controller_url


def test_odd_cookies_and_tokens_let_nobody_in(url: str) -> None:
    rng = random.Random(19)
    begun = httpx.post(f"{url}/auth/login", content=LOGIN, headers=JSON)
    assert begun.status_code == 200
    cookie, token = begun.headers["set-cookie"].partition(";")[0].encode(), begun.json()["csrfToken"].encode()
    name, _, secret = cookie.partition(b"=")
    assert httpx.get(f"{url}/tables", headers=[(b"cookie", cookie)]).status_code == 200
    bare = name + b"="
    odd = [
        name,
        bare,
        b"=" + secret,
        cookie[:-1],
        cookie + b"x",
        name.upper() + b"=" + secret,
        b";" * 3000,
        b"\xff" + cookie,
    ]
    odd += [cookie + b"; " + bare + b"x", bare + b"x; " + cookie, b'"' + cookie + b'"']
    odd += [bare + bytes(rng.choices(range(0x21, 0x100), k=rng.randrange(1, 60))) for _ in range(50)]
    for one in odd:
        for method, path in (
            ("GET", "/tables"),
            ("GET", "/auth/session"),
            ("POST", "/auth/logout"),
            ("DELETE", "/tables/t"),
        ):
            if path == "/auth/logout" and secret in one:
                continue  # it may end the session, which is fine
            headers = [(b"cookie", one), (b"x-csrf-token", rng.choice([b"", b"x", token[:-1], b"\xff"]))]
            answer = httpx.request(method, f"{url}{path}", headers=headers)
            assert answer.status_code < 500, (one, path, answer.text)
            if method == "DELETE":
                assert answer.status_code in (400, 401, 403), (one, answer.status_code, answer.text)
            if path == "/tables":
                whole = [part.strip() for part in one.split(b";")]
                assert answer.status_code in (400, 401) or cookie in whole, (one, answer.text)
    # the session itself has come to no harm
    assert httpx.get(f"{url}/tables", headers=[(b"cookie", cookie)]).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"[]", b"null", b'{"username": "admin"}', b'{"username": ["admin"], "password": {"a": 1}}',
        b'{"username": "admin\\u0000", "password": "verysecret"}', b'{"username": "\\ud800", "password": "\\udfff"}',
        b'{"username": "a:b", "password": "c"}', b'{"username": "' + b"x" * 100_000 + b'", "password": "y"}',
        b"[" * 2000, b'{"username": "\xff", "password": "x"}',
    ],
)  # fmt: skip
def test_odd_log_ins_are_refused(url: str, body: bytes) -> None:
    answer = httpx.post(f"{url}/auth/login", content=body, headers=JSON, timeout=PATIENCE_S)
    assert answer.status_code in (400, 401), (answer.status_code, answer.text)
    assert "set-cookie" not in answer.headers

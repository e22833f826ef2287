"""Requests with console sessions: with damaged cookies, and changes without the CSRF token, as other sites send them."""

import random
from typing import Self

import httpx

from benchmarks.attack.findings import Findings
from benchmarks.attack.mutations import mutated
from benchmarks.attack.over_http import OverHttp
from benchmarks.attack.requests import odd_request, routes_of
from benchmarks.attack.target import Doors
from gamay.cluster.access.rights import Level
from gamay.controller.api.rights import CONTROLLER_RIGHTS

_LOGIN = b'{"username": "owner", "password": "password of owner"}'
_LOGIN_SHARE = 0.002  # few, for those with wrong passwords have to wait
_CONTROL = bytes((*range(0x20), 0x7F))  # which clients do not send
_TOKENS = (b"", b"x", b"null", b"\xff", b"=" * 5_000)


class Cookies(OverHttp):
    """Requests with and without valid sessions: anonymous without one, and without effect if its token is missing."""

    def __init__(self, doors: Doors, seed: int) -> None:
        super().__init__("owner")
        self._urls = {"controller": doors.urls["controller"]}
        routes = routes_of(self._urls, self._client)
        self._routes = [route for route in routes if not route[2].startswith("/auth/")]  # log-outs end the session
        self._client.headers.pop("authorization")
        self._log_in()

    def __enter__(self) -> Self:
        return self

    def send(self, number: int, rng: random.Random, findings: Findings) -> None:
        """Send a request of the next route with a session, or an imitation of one."""
        if rng.random() < _LOGIN_SHARE:
            self._odd_login(number, rng, findings)
            return
        route = self._routes[number % len(self._routes)]
        try:
            request = odd_request(route, self._urls, rng)
        except (ValueError, httpx.InvalidURL):
            findings.refused()  # by the client
            return
        for name in ("authorization", "cookie", "x-csrf-token"):
            request.headers.pop(name, None)
        has_session, has_token = rng.random() < 0.7, rng.random() < 0.3
        cookie = self._cookie if has_session else self._damaged(rng)
        headers = [(b"cookie", cookie)]
        if has_token or rng.random() < 0.5:
            headers.append((b"x-csrf-token", self._token if has_token else rng.choice((*_TOKENS, self._token[:-1]))))
        request.headers = httpx.Headers([*request.headers.raw, *headers])
        self._client.cookies.clear()
        try:
            answer = self._judge(request, number, findings)
        except (httpx.LocalProtocolError, UnicodeError):
            findings.refused()  # by the client
            return
        # names such as `..` and `a/b` lead to other routes
        if answer is None or request.url.path.count("/") != route[2].count("/"):
            return
        right = CONTROLLER_RIGHTS[request.method, route[2]]
        is_harmless = right.level is Level.OPEN or (right.level is Level.READ and request.method in ("GET", "HEAD"))
        if answer.is_success and right.level is not Level.OPEN and not has_session:
            findings.wrongly(number, (request, headers), "nobody was let in")
        if answer.is_success and not is_harmless and not has_token:
            findings.wrongly(number, (request, headers), "a change was made without the session's token")
        if has_session and answer.status_code == 401:
            findings.wrongly(number, (request, headers), f"the session has ended: {answer.text}")
            self._log_in()

    def _damaged(self, rng: random.Random) -> bytes:
        """Return a cookie that differs from the session's."""
        found = mutated(self._cookie, rng).translate(None, _CONTROL).strip()
        return b"" if self._cookie in [part.strip() for part in found.replace(b'"', b"").split(b";")] else found

    def _odd_login(self, number: int, rng: random.Random, findings: Findings) -> None:
        body = mutated(_LOGIN, rng)
        types = ("application/json", "text/plain", "application/x-www-form-urlencoded")
        request = self._client.build_request(
            "POST", f"{self._urls['controller']}/auth/login", content=body, headers={"content-type": rng.choice(types)}
        )
        answer = self._judge(request, number, findings)
        if answer is not None and "set-cookie" in answer.headers and b"password of owner" not in body:
            findings.wrongly(number, body, "a session was begun")
        self._client.cookies.clear()

    def _log_in(self) -> None:
        url = f"{self._urls['controller']}/auth/login"
        answer = self._client.post(url, content=_LOGIN, headers={"content-type": "application/json"}).raise_for_status()
        self._cookie = answer.headers["set-cookie"].partition(";")[0].encode()
        self._token = str(answer.json()["csrfToken"]).encode()
        self._client.cookies.clear()

"""Cookie sessions over HTTP: their requirements, their end, and no change for other clients."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.waiting import eventually

import gamay
from gamay.base.clock import ManualClock
from gamay.cluster.access.passwords import basic_token
from gamay.cluster.access.principals import StoredUsers
from gamay.cluster.records.records import Role
from gamay.controller.api.cookies import cookie_in, cookie_name, set_cookie
from gamay.controller.api.sessions import IDLE_S, LONGEST_S, Sessions
from gamay.embedded import EmbeddedCluster

ADMIN = {"Authorization": basic_token("root", "root-pw")}
NEW = count()


def test_a_session_ends_when_it_is_not_used_and_at_the_latest_after_its_time() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    secret, made = sessions.begin("Basic eA==")
    assert sessions.get(secret) is made
    assert sessions.get(made.csrf_token) is None
    clock.advance(IDLE_S - 1)
    assert sessions.get(secret) is made
    for _ in range(int(LONGEST_S / IDLE_S)):
        clock.advance(IDLE_S - 1)
        sessions.get(secret)
    assert sessions.get(secret) is None
    other, _ = sessions.begin("Basic eA==")
    clock.advance(IDLE_S)
    assert sessions.get(other) is None


def test_sessions_have_secrets_of_their_own_and_end_one_by_one() -> None:
    sessions = Sessions(ManualClock())
    (first, one), (second, two) = sessions.begin("a"), sessions.begin("a")
    assert len({first, second, one.csrf_token, two.csrf_token}) == 4
    assert min(len(first), len(one.csrf_token)) >= 43
    sessions.end(first)
    assert sessions.get(first) is None
    assert sessions.get(second) is two
    assert "a" not in repr(two).replace("Session", "").split("=")


def test_cookies_are_told_apart_by_controller() -> None:
    assert cookie_name("Controller_a.example_9000") == "gamay_session_Controller_a_example_9000"
    assert cookie_name("Controller_localhost_9000") != cookie_name("Controller_localhost_9001")
    assert cookie_in("x=1; gamay_s=ab=c; gamay_s2=d", "gamay_s") == "ab=c"
    assert cookie_in("x=1; other_gamay_s=d", "gamay_s") == ""
    assert set_cookie("n", "s", secure=True) == "n=s; Path=/; HttpOnly; SameSite=Strict; Secure"
    assert set_cookie("n", "", secure=False).endswith("Max-Age=0")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("sessions") / "data"
    with gamay.connect(folder) as db:
        db.create_table("trips", pa.table({"n": [1, 2, 3]}))
    access = {role: StoredUsers("root", "root-pw") for role in (Role.CONTROLLER, Role.BROKER)}
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False, access=access) as found:
        yield found


@pytest.fixture
def client(cluster: EmbeddedCluster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=cluster.controller_url, trust_env=False) as found:
        yield found


@pytest.fixture
def user(client: httpx.Client) -> str:
    """A new administrator of the controller and the broker; the password is the name and `-pw`."""
    name = f"user{next(NEW)}"
    for component in ("CONTROLLER", "BROKER"):
        document = {"username": name, "password": f"{name}-pw", "component": component, "role": "ADMIN"}
        assert client.post("/users", json=document, headers=ADMIN).status_code == 200
    return name


def log_in(client: httpx.Client, name: str, password: str = "") -> Any:
    answer = client.post("/auth/login", json={"username": name, "password": password or f"{name}-pw"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_cookie_reads_and_the_token_changes(client: httpx.Client, user: str) -> None:
    told = log_in(client, user)
    assert (told["workflow"], told["principal"]["name"]) == ("BASIC", user)
    assert "DELETE /tables/{table}" in told["allowed"]
    assert client.get("/tables").json() == {"tables": ["trips"]}
    calls = (("POST", "/sql"), ("DELETE", "/schemas/nothing"), ("GET", "/periodictask/run?taskname=RetentionManager"))
    for headers in ({}, {"X-CSRF-Token": "none"}, {"X-CSRF-Token": told["csrfToken"][:-1]}):
        for method, path in calls:
            body = {"sql": "SELECT 1"} if method == "POST" else None
            refused = client.request(method, path, headers=headers, json=body)
            assert refused.status_code == 403, (method, path, headers)
            assert "needs its X-CSRF-Token header" in refused.json()["error"]
    answer = client.post("/sql", json={"sql": "SELECT count(*) FROM trips"}, headers={"X-CSRF-Token": told["csrfToken"]})
    assert answer.json()["resultTable"]["rows"] == [[3]]  # the broker was asked as that user
    assert client.delete("/schemas/nothing", headers={"X-CSRF-Token": told["csrfToken"]}).status_code == 404


def test_log_out_ends_it(client: httpx.Client, user: str) -> None:
    log_in(client, user)
    cookies = dict(client.cookies)
    answer = client.post("/auth/logout")
    assert answer.json()["principal"] is None
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert httpx.get(f"{client.base_url}/tables", cookies=cookies).status_code == 401


@pytest.mark.parametrize("change", ["password", "deleted"])
def test_a_session_ends_with_its_user(change: str, client: httpx.Client, user: str) -> None:
    log_in(client, user)
    assert client.get("/tables").status_code == 200
    params = {"component": "CONTROLLER"}
    if change == "deleted":
        assert client.delete(f"/users/{user}", params=params, headers=ADMIN).status_code == 200
    else:
        document = {"username": user, "password": "new", "component": "CONTROLLER", "role": "ADMIN"}
        params["passwordChanged"] = "true"
        assert client.put(f"/users/{user}", params=params, json=document, headers=ADMIN).status_code == 200
    ended = client.get("/tables", headers={"X-CSRF-Token": "none"})
    assert ended.status_code == 401
    assert ended.headers["www-authenticate"].startswith("Session")
    assert client.get("/auth/session").json()["principal"] is None


def test_only_the_console_is_refused_without_a_window_of_the_browser(client: httpx.Client) -> None:
    assert client.get("/tables").headers["www-authenticate"].startswith("Basic")
    assert client.get("/tables", headers={"X-CSRF-Token": "none"}).headers["www-authenticate"].startswith("Session")
    assert client.get("/tables", headers=ADMIN).status_code == 200
    assert client.post("/sql", json={"sql": "SELECT 1"}, headers=ADMIN).status_code == 200
    told = client.get("/auth/session", headers=ADMIN).json()
    assert (told["principal"]["name"], told["csrfToken"]) == ("root", None)


def test_a_header_of_its_own_counts_more_than_a_cookie_without_its_token(client: httpx.Client, user: str) -> None:
    told = log_in(client, user)
    assert client.get("/auth/session", headers=ADMIN).json()["principal"]["name"] == "root"
    both = ADMIN | {"X-CSRF-Token": told["csrfToken"]}
    assert client.get("/auth/session", headers=both).json()["principal"]["name"] == user


@pytest.mark.parametrize(
    ("body", "type_", "status", "text"),
    [
        ('{"username": "root", "password": "root-pw"}', "text/plain", 400, "must be application/json"),
        ('{"username": "root"}', "application/json", 400, "a log-in is"),
        ('{"username": "root", "password": "wrong"}', "application/json", 401, "password is wrong"),
        ('{"username": "root:root-pw", "password": ""}', "application/json", 401, "password is wrong"),
        ("[1]", "application/json", 400, "must be a JSON object"),
    ],
)
def test_what_is_no_log_in_is_refused(body: str, type_: str, status: int, text: str, client: httpx.Client) -> None:
    answer = client.post("/auth/login", content=body, headers={"Content-Type": type_})
    assert answer.status_code == status
    assert text in answer.json()["error"]
    assert "set-cookie" not in answer.headers


def test_guesses_wait_however_they_come(client: httpx.Client, user: str) -> None:
    for number in range(5):
        if number % 2:
            client.get("/tables", headers={"Authorization": basic_token(user, "wrong")})
        else:
            client.post("/auth/login", json={"username": user, "password": "wrong"})
    answer = client.post("/auth/login", json={"username": user, "password": "wrong"})
    assert answer.status_code == 401
    assert answer.elapsed.total_seconds() > 0.2


def test_the_cookie_is_for_https_alone_where_clients_come_by_it(client: httpx.Client, user: str) -> None:
    document = {"username": user, "password": f"{user}-pw"}
    assert "Secure" not in client.post("/auth/login", json=document).headers["set-cookie"]
    behind = client.post("/auth/login", json=document, headers={"X-Forwarded-Proto": "https"})
    assert behind.headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")


def test_a_broker_that_refuses_somebody_does_not_end_the_session(client: httpx.Client) -> None:
    document = {"username": "half", "password": "half-pw", "component": "CONTROLLER", "role": "ADMIN"}
    assert client.post("/users", json=document, headers=ADMIN).status_code == 200
    known = {"Authorization": basic_token("half", "half-pw")}
    eventually(lambda: client.get("/version", headers=known).status_code == 200)
    told = log_in(client, "half")
    refused = client.post("/sql", json={"sql": "SELECT 1"}, headers={"X-CSRF-Token": told["csrfToken"]})
    assert refused.status_code == 401
    assert "www-authenticate" not in refused.headers
    assert client.get("/auth/session").json()["principal"]["name"] == "half"

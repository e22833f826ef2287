"""Login and logout in a browser: what each user sees, and the messages when a session or a controller ends."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.console.browser import Watch, assert_accessible
from tests.console.conftest import make_tables

from gamay.cluster.access.passwords import basic_token
from gamay.cluster.access.principals import StoredUsers
from gamay.cluster.records.records import Role
from gamay.embedded import EmbeddedCluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ADMIN = {"Authorization": basic_token("root", "root-pw")}
Open = Callable[[], "tuple[Page, Watch]"]


@pytest.fixture(scope="module")
def guarded(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("guarded") / "data"
    make_tables(folder)
    access = {role: StoredUsers("root", "root-pw") for role in (Role.CONTROLLER, Role.BROKER)}
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False, access=access) as found:
        for component in ("CONTROLLER", "BROKER"):
            user = {"username": "guest", "password": "guest-pw", "component": component, "role": "READER"}
            added = httpx.post(f"{found.controller_url}/users", json=user | {"tables": ["trips"]}, headers=ADMIN)
            assert added.status_code == 200
        yield found


@pytest.fixture
def open_login(watched: Callable[..., "tuple[Page, Watch]"], guarded: EmbeddedCluster) -> Open:
    return lambda: watched(guarded.controller_url)


def log_in(page: "Page", name: str, password: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def ask(page: "Page", sql: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)
    page.keyboard.press("Control+Enter")


def test_users_log_in_and_out_and_see_what_they_may(open_login: Open) -> None:
    page, watch = open_login()
    watch.allowed.append("401")  # the browser notes the refused log-in
    log_in(page, "guest", "wrong")
    page.get_by_role("alert").get_by_text("The user name or the password is wrong").wait_for()
    assert page.get_by_label("Password").input_value() == ""
    assert_accessible(page)
    log_in(page, "guest", "guest-pw")
    page.locator(".cm-line").first.wait_for()
    links = page.get_by_role("navigation", name="Pages").get_by_role("link").all_inner_texts()
    assert "Query" in links
    assert "New table" not in links
    page.get_by_role("button", name="Columns of trips").wait_for()
    assert page.get_by_role("button", name="Columns of pay").count() == 0
    ask(page, "SELECT count(*) FROM trips")
    page.get_by_role("gridcell", name="100000").wait_for()
    watch.allowed.append("403")
    ask(page, "SELECT count(*) FROM pay")
    page.get_by_role("alert").get_by_text("guest may not use table pay").wait_for()
    cookie = next(cookie for cookie in page.context.cookies() if cookie["name"].startswith("gamay_session"))
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
    assert "guest-pw" not in page.evaluate(
        "JSON.stringify([location.href, {...localStorage}, {...sessionStorage}, document.cookie])"
    )
    assert not [url for url in watch.requests if "guest-pw" in url]
    page.reload()
    page.get_by_role("button", name="Log out guest").click()
    page.get_by_role("button", name="Log in").wait_for()
    assert not page.context.cookies()
    log_in(page, "root", "root-pw")
    page.get_by_role("link", name="New table").wait_for()


def test_unsaved_changes_are_lost_by_logging_out_only_when_that_is_agreed_to(open_login: Open) -> None:
    page, _ = open_login()
    log_in(page, "root", "root-pw")
    page.get_by_role("link", name="Tables").click()
    page.get_by_role("link", name="pay").click()
    page.get_by_role("tab", name="Config").click()
    page.get_by_label("Table config").press("Control+Home")
    page.get_by_label("Table config").press_sequentially(" ")
    page.get_by_text("Changed, but not saved").wait_for()
    asked: list[str] = []
    page.once("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    page.get_by_role("button", name="Log out root").click()
    page.get_by_text("Changed, but not saved").wait_for()
    page.once("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    page.get_by_role("button", name="Log out root").click()
    page.get_by_role("button", name="Log in").wait_for()
    assert asked == ["confirm", "confirm"]


def test_a_session_ends_when_its_user_gets_another_password(open_login: Open, guarded: EmbeddedCluster) -> None:
    page, watch = open_login()
    watch.allowed.append("401")
    log_in(page, "guest", "guest-pw")
    page.locator(".cm-line").first.wait_for()
    changed = httpx.put(
        f"{guarded.controller_url}/users/guest",
        params={"component": "CONTROLLER", "passwordChanged": "true"},
        json={"username": "guest", "password": "other-pw", "component": "CONTROLLER", "role": "READER", "tables": ["trips"]},
        headers=ADMIN,
    )
    assert changed.status_code == 200
    ask(page, "SELECT 1")
    page.get_by_text("The session has ended, or another controller answered. Log in again.").wait_for()
    log_in(page, "guest", "other-pw")
    page.locator(".cm-line").first.wait_for()


def add_user(guarded: EmbeddedCluster, name: str, **more: object) -> None:
    for component in ("CONTROLLER", "BROKER"):
        user = {"username": name, "password": f"{name}-pw", "component": component, **more}
        assert httpx.post(f"{guarded.controller_url}/users", json=user, headers=ADMIN).status_code == 200


def tabs_of(page: "Page", label: str) -> list[str]:
    page.get_by_role("tablist", name=label).get_by_role("tab").first.wait_for()
    return page.get_by_role("tablist", name=label).get_by_role("tab").all_inner_texts()


def test_a_reader_of_one_table_is_advised_and_can_change_nothing(open_login: Open, guarded: EmbeddedCluster) -> None:
    add_user(guarded, "reader", role="READER", tables=["trips"])
    page, watch = open_login()
    log_in(page, "reader", "reader-pw")
    for number in range(3):
        ask(page, f"SELECT count(*) FROM trips WHERE city = 'Oslo' AND price > {number}")
        page.get_by_role("gridcell").first.wait_for()
    page.goto(f"{guarded.controller_url}/#/tables/trips/advice")
    page.get_by_role("list", name="Advice for OFFLINE").wait_for()
    assert page.get_by_role("button", name="Add…").count() == 0
    assert_accessible(page)
    assert tabs_of(page, "About the table") == ["Columns", "Rows", "Segments", "Queries", "Advice", "Tasks", "Config"]
    page.get_by_role("tab", name="Config").click()
    page.get_by_label("Table config").wait_for()
    assert page.get_by_role("button", name="Save…").count() == 0
    page.get_by_role("tab", name="Segments").click()
    page.get_by_text("ONLINE").first.wait_for()
    assert page.get_by_role("button", name="Delete…").count() == page.get_by_role("button", name="Reload").count() == 0
    for address in ("tables/trips/rebalance", "cluster/users", "cluster/logs", "cluster/metrics"):
        page.goto(f"{guarded.controller_url}/#/{address}")
        page.get_by_text("you may not see it").wait_for()
    assert not {"Users", "Logs", "Metrics"} & set(tabs_of(page, "About the cluster"))
    assert_accessible(page)
    assert not [url for url in watch.requests if "/users" in url or "/loggers" in url or "/metrics/" in url]


def test_users_are_shown_with_what_one_may_do_to_them(open_login: Open, guarded: EmbeddedCluster) -> None:
    add_user(guarded, "changer", role="ADMIN", permissions=["READ", "UPDATE"])
    page, _ = open_login()
    log_in(page, "changer", "changer-pw")
    page.get_by_role("link", name="Cluster").click()
    page.get_by_role("tab", name="Users").click()
    page.get_by_role("button", name="Change… changer (BROKER)").wait_for()
    assert page.get_by_role("button", name="Add a user…").count() == 0
    assert page.get_by_role("button", name="Delete…").count() == 0
    assert_accessible(page)
    page.get_by_role("tab", name="Logs").click()
    page.get_by_role("combobox", name="Instance").get_by_role("option", name="Server").wait_for(state="attached")
    assert page.get_by_role("list", name="Instances that did not answer").count() == 0
    page.get_by_role("tab", name="Metrics").click()
    page.get_by_text("Each process remembers").wait_for()
    assert page.get_by_role("list", name="Instances that did not answer").count() == 0
    page.get_by_role("button", name="Log out changer").click()
    log_in(page, "root", "root-pw")
    page.get_by_role("link", name="Cluster").click()
    page.get_by_role("tab", name="Users").click()
    page.get_by_role("button", name="Delete… changer (BROKER)").wait_for()
    page.get_by_role("button", name="Add a user…").wait_for()


def test_a_dead_controller_is_named(
    open_login: Open, guarded: EmbeddedCluster
) -> None:  # the last one: it stops the cluster
    page, watch = open_login()
    log_in(page, "root", "root-pw")
    page.locator(".cm-line").first.wait_for()
    page.get_by_role("button", name="Columns of trips").wait_for()
    guarded.stop()
    watch.allowed.append("ERR_CONNECTION_REFUSED")
    ask(page, "SELECT count(*) FROM trips")
    host = guarded.controller_url.partition("://")[2]
    page.get_by_role("alert").get_by_text(f"The controller at {host} does not answer").wait_for()
    page.get_by_role("link", name="Tables").click()
    page.get_by_role("alert").first.wait_for()
    for address in ("cluster/metrics", "cluster/logs", "tables/trips/rebalance"):
        page.goto(f"{guarded.controller_url}/#/{address}")
        page.get_by_role("alert").first.wait_for()

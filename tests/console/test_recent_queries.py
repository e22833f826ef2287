"""Recent queries with their cost, of a table and of the cluster, in headless Chromium."""

from typing import Any

import httpx
from playwright.sync_api import expect
from tests.console.browser import assert_accessible
from tests.waiting import PATIENCE_S

from gamay.embedded import EmbeddedCluster


def ask(console: EmbeddedCluster, sql: str) -> None:
    """Have a broker answer; the first queries of a process wait for kernels to be compiled."""
    httpx.post(f"{console.controller_url}/sql", json={"sql": sql}, timeout=PATIENCE_S).raise_for_status()


def test_queries_of_late_are_told_with_their_cost(open_page: Any, console: EmbeddedCluster) -> None:
    for price in (1, 2, 3):
        ask(console, f"SELECT COUNT(*) FROM trips WHERE price > {price} AND city = 'Oslo'")
    ask(console, "SELECT absent FROM trips")
    page = open_page("#/tables/trips/queries", width=400, dark=True)
    row = page.get_by_role("row").filter(has_text="city = 'Oslo'")
    expect(row).to_have_count(1)
    expect(row.locator("td").nth(1)).to_have_text("3")
    expect(page.get_by_role("row").filter(has_text="SELECT absent")).to_contain_text("1 failed")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert_accessible(page)
    page.get_by_label("Put together").uncheck()
    expect(row).to_have_count(3)
    row.first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="trips")).to_have_count(0)
    expect(page.locator(".cm-content").first).to_contain_text("city = 'Oslo'")


def test_the_cluster_has_those_of_all_tables(open_page: Any, console: EmbeddedCluster) -> None:
    for sql in ("SELECT who FROM pay WHERE n = 5", "SELECT COUNT(*) FROM trips WHERE city <> 'Lima'"):
        ask(console, sql)
    recent = httpx.get(f"{console.controller_url}/queries/recent").json()
    for query in (one for of_broker in recent.values() for one in of_broker[1:2]):
        query["endedMs"] -= 60_000
    page = open_page("#/tables")
    page.route("**/queries/recent", lambda route: route.fulfill(json=recent))
    page.get_by_role("link", name="Cluster").click()
    page.get_by_role("tab", name="Queries of late").click()
    expect(page.get_by_role("img", name="Queries by when they ended, and their times").locator("canvas")).to_be_visible()
    expect(page.get_by_text("Each bar is")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="FROM pay WHERE")).to_have_count(1)
    page.get_by_role("button", name="Rows read").click()
    expect(page.get_by_role("columnheader", name="Rows read")).to_have_attribute("aria-sort", "descending")
    expect(page.get_by_role("row").filter(has_text="<> 'Lima'")).to_have_count(1)


def test_what_the_pages_ask_themselves_is_left_out(open_page: Any, console: EmbeddedCluster) -> None:
    ask(console, "SELECT who FROM pay WHERE n = 4")
    page = open_page("#/tables/pay/rows")
    expect(page.get_by_role("gridcell", name="Ada")).to_be_visible()
    told = [
        query for of_broker in httpx.get(f"{console.controller_url}/queries/recent").json().values() for query in of_broker
    ]
    by_application = {query["sql"]: query["application"] for query in told}
    assert by_application['SELECT * FROM "pay" LIMIT 100'] == "gamay-console"
    page.get_by_role("tab", name="Queries").click()
    expect(page.get_by_role("row").filter(has_text="FROM pay WHERE n = 4")).to_have_count(1)
    expect(page.get_by_role("row").filter(has_text="LIMIT 100")).to_have_count(0)

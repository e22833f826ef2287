"""Queries of late with their cost, in headless Chromium: of a table, and of the cluster."""

from typing import Any

import httpx
from playwright.sync_api import expect
from tests.console.browser import serious_violations

from gamay.embedded import EmbeddedCluster


def test_queries_of_late_are_told_with_their_cost(open_page: Any, console: EmbeddedCluster) -> None:
    for price in (1, 2, 3):
        sql = f"SELECT COUNT(*) FROM trips WHERE price > {price} AND city = 'Oslo'"
        httpx.post(f"{console.controller_url}/sql", json={"sql": sql}).raise_for_status()
    httpx.post(f"{console.controller_url}/sql", json={"sql": "SELECT nothing FROM trips"}).raise_for_status()
    page = open_page("#/tables/trips/queries", width=400, dark=True)
    row = page.get_by_role("row").filter(has_text="city = 'Oslo'")
    expect(row).to_have_count(1)
    expect(row.locator("td").nth(1)).to_have_text("3")
    expect(page.get_by_role("row").filter(has_text="SELECT nothing")).to_contain_text("1 failed")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious_violations(page) == []
    page.get_by_label("Put together").uncheck()
    expect(row).to_have_count(3)
    row.first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="trips")).to_have_count(0)
    expect(page.locator(".cm-content").first).to_contain_text("city = 'Oslo'")


def test_the_cluster_has_those_of_all_tables(open_page: Any, console: EmbeddedCluster) -> None:
    for sql in ("SELECT who FROM pay WHERE n = 5", "SELECT COUNT(*) FROM trips WHERE city <> 'Lima'"):
        httpx.post(f"{console.controller_url}/sql", json={"sql": sql}).raise_for_status()
    page = open_page("#/cluster/recent")
    expect(page.get_by_role("row").filter(has_text="FROM pay WHERE")).to_have_count(1)
    page.get_by_role("button", name="Rows read").click()
    expect(page.get_by_role("columnheader", name="Rows read")).to_have_attribute("aria-sort", "descending")
    expect(page.get_by_role("row").filter(has_text="<> 'Lima'")).to_have_count(1)

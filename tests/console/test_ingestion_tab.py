"""A table's tab of ingestion, in headless Chromium: how far the stream is read, pausing, resuming and committing."""

from typing import Any

from playwright.sync_api import expect
from tests.console.browser import assert_accessible
from tests.minion.conftest import Orders
from tests.waiting import eventually


def test_a_stream_is_paused_resumed_and_committed(watched: Any, browser: Any, orders: Orders) -> None:
    assert orders.cluster is not None
    page, _ = watched(orders.cluster.controller_url, "/#/tables/orders/ingestion", width=400)
    row = page.get_by_role("row").filter(has_text="orders__0__")
    expect(row.get_by_role("cell", name="CONSUMING")).to_be_visible()
    expect(row.locator("td").nth(3)).to_have_text("300")
    expect(row.locator("td").nth(4)).to_have_text("0")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert_accessible(page)

    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Consumption pauses")).to_be_visible()
    expect(page.get_by_text("Paused", exact=True)).to_be_visible()
    eventually(lambda: not orders.rest("GET", "/tables/orders/consumingSegmentsInfo")["_segmentToConsumingInfoMap"])
    page.get_by_role("button", name="Look again").click()
    expect(page.get_by_text("No segment consumes")).to_be_visible()

    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("Consuming", exact=True)).to_be_visible()
    eventually(lambda: orders.rest("GET", "/tables/orders/pauseStatus")["consumingSegments"])
    page.get_by_role("button", name="Commit now").click()
    expect(page.get_by_text("are being committed")).to_be_visible()

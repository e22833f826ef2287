"""A rebalance from the console: planned, shown before and after, started, watched, finished."""

from typing import Any

import httpx
from playwright.sync_api import expect
from tests.console.browser import assert_accessible

from gamay.cluster.records.records import ONLINE
from gamay.controller.rebalance.report import RebalanceResult, moves_left, progress
from gamay.embedded import EmbeddedCluster

MIB = 1 << 20
NOW = {f"s{n}": {"Server_a": ONLINE} for n in range(4)}
THEN = NOW | {"s2": {"Server_b": ONLINE}, "s3": {"Server_b": ONLINE}}


def status_of(state: str, seen: dict[str, Any]) -> dict[str, Any]:
    told = progress(state, "", 1_700_000_000_000, 1_700_000_003_000)
    told |= {
        "externalViewToIdealStateConvergence": moves_left(NOW, NOW),
        "currentToTargetConvergence": moves_left(seen, THEN),
    }
    return {"tableRebalanceProgressStats": told}


def test_a_balanced_table_has_nothing_to_move(open_page: Any) -> None:
    page = open_page("#/tables/trips/rebalance")
    page.get_by_role("button", name="Work out").click()
    expect(page.get_by_role("heading", name="Table is already balanced")).to_be_visible()
    expect(page.get_by_role("list", name="Checks")).to_contain_text("PASS")
    expect(page.get_by_text("Nothing moves.")).to_be_visible()
    (row,) = page.get_by_role("table", name="Servers before and after").locator("tbody tr").all()
    expect(row).to_contain_text("Server_localhost_8098")
    expect(row).to_contain_text("1 → 1")
    assert page.get_by_role("button", name="Rebalance…").count() == 0
    assert_accessible(page)


def test_a_rebalance_is_drawn_begun_watched_and_ended(open_page: Any, console: EmbeddedCluster) -> None:
    page = open_page("#/tables")
    asked: list[tuple[str, httpx.QueryParams]] = []
    told = {"now": status_of("IN_PROGRESS", NOW)}

    def rebalance(route: Any) -> None:
        params = httpx.URL(route.request.url).params
        asked.append((route.request.method, params))
        if route.request.method == "DELETE":
            told["now"] = status_of("CANCELLED", NOW)
            route.fulfill(json=["job-1"])
        elif params.get("dryRun"):
            route.fulfill(json=RebalanceResult("dry", "DONE", "Dry-run mode", target=THEN).to_json())
        else:
            route.fulfill(json=RebalanceResult("job-1", "IN_PROGRESS", "In progress", target=THEN).to_json())

    records = {name: {"segment.size.in.bytes": str(MIB)} for name in NOW}
    page.route("**/zkmetadata*", lambda route: route.fulfill(json=records))
    page.route("**/idealstate*", lambda route: route.fulfill(json={"OFFLINE": NOW, "REALTIME": None}))
    page.route("**/trips/rebalance?*", rebalance)
    page.route("**/rebalanceStatus/job-1", lambda route: route.fulfill(json=told["now"]))
    page.get_by_role("link", name="trips").click()
    page.get_by_role("tab", name="Rebalance").click()
    page.get_by_label("Segments in a step").fill("1")
    page.get_by_role("button", name="Work out").click()
    expect(page.get_by_text("2 segments change, 2 MiB are copied.")).to_be_visible()
    rows = [row.inner_text() for row in page.get_by_role("table", name="Servers before and after").locator("tbody tr").all()]
    assert ["4 → 2" in rows[0], "+0 / −2" in rows[0], "0 → 2" in rows[1], "+2 / −0" in rows[1]] == [True] * 4
    page.get_by_text("The segments that move").click()
    expect(page.get_by_role("table", name="Segments that move").locator("tbody tr")).to_have_count(2)
    assert_accessible(page)
    page.get_by_role("button", name="Rebalance…").click()
    expect(page.get_by_role("dialog")).to_contain_text("2 segments of trips_OFFLINE change")
    page.get_by_role("button", name="Move the segments").click()
    expect(page.get_by_text("2 replicas still to be assigned, 0 replicas being loaded: 0 % done")).to_be_visible()
    told["now"] = status_of("IN_PROGRESS", NOW | {"s2": {"Server_b": ONLINE}})
    expect(page.get_by_text("1 replica still to be assigned, 0 replicas being loaded: 50 % done")).to_be_visible()
    page.get_by_role("button", name="End it").click()
    expect(page.get_by_text("CANCELLED")).to_be_visible()
    assert [(method, params.get("dryRun"), params.get("batchSizePerServer")) for method, params in asked] == [
        ("POST", "true", "1"),
        ("POST", None, "1"),
        ("DELETE", None, None),
    ]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

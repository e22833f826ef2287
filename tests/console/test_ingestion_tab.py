"""The ingestion tab of a table, in headless Chromium: consumption progress, pausing, committing, dead letters."""

from typing import Any

from playwright.sync_api import expect
from tests.console.browser import assert_accessible
from tests.minion.conftest import Orders
from tests.waiting import eventually


def test_a_stream_is_paused_resumed_and_committed(watched: Any, browser: Any, orders: Orders) -> None:
    assert orders.cluster is not None
    page, _ = watched(orders.cluster.controller_url, "/#/tables/orders/ingestion", width=400)
    row = page.get_by_role("row").filter(has_text="orders__0__")
    expect(row.get_by_role("cell", name="consuming")).to_be_visible()
    for place, text in enumerate(["300", "0", "0"], 3):  # the offset, messages behind it, rows since the last commit
        expect(row.locator("td").nth(place)).to_have_text(text)
    expect(page.get_by_text("Every message of the stream has become a row")).to_be_visible()
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


def test_dead_letters_are_shown_and_replayed(watched: Any, browser: Any, orders: Orders) -> None:
    assert orders.cluster is not None
    page, _ = watched(orders.cluster.controller_url, "/")
    letter = {"partition": 1, "nextOffset": None, "kind": "UNCONVERTIBLE", "reason": "no number", "timestampMs": 0}
    found = [
        letter | {"offset": "3", "payload": "eyJuIjogIngifQ=="},
        letter | {"offset": "4", "payload": "AP8="},
        letter | {"offset": "5", "payload": None, "kind": "GAP", "nextOffset": "9", "notReplayable": "it is lost"},
    ]
    sent: list[Any] = []

    def replay(route: Any) -> None:
        sent.append(route.request.post_data_json)
        for wanted in sent[-1]:
            entry = next(one for one in found if one["offset"] == wanted["offset"])
            entry["replayedTo"] = "10"
        route.fulfill(json={"replayed": sent[-1], "notReplayed": []})

    reads: list[str] = []
    page.route(
        "**/deadLetters?*", lambda route: (reads.append(route.request.url), route.fulfill(json={"deadLetters": found}))
    )
    page.route("**/deadLetters/replay", replay)
    page.goto(f"{orders.cluster.controller_url}/#/tables/orders/ingestion")
    rows = page.get_by_role("region", name="Dead letters").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.nth(1)).to_contain_text("5 to 9")
    expect(rows.nth(1)).to_contain_text("it is lost")
    expect(rows.nth(1).get_by_role("button")).to_have_count(0)
    rows.nth(2).get_by_text("show").click()
    expect(rows.nth(2)).to_contain_text("00 ff")
    rows.nth(3).get_by_text("show").click()
    expect(rows.nth(3)).to_contain_text('{"n": "x"}')
    assert_accessible(page)
    page.get_by_role("button", name="Replay offset 4 of partition 1").click()
    expect(rows.nth(2)).to_contain_text("replayed as 10")
    expect(page.get_by_text("1 message sent to the stream again")).to_be_visible()
    assert sent == [[{"partition": 1, "offset": "4"}]]
    with page.expect_request("**/realtimeStatus"):  # of every few seconds
        pass
    assert len(reads) == 2  # at first, and after the replay: reading them is too much work for every few seconds
    with page.expect_request("**/deadLetters?*"):
        page.get_by_role("button", name="Look again").click()

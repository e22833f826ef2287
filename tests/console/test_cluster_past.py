"""Recent measurements and log lines of instances, on the cluster page."""

import logging
from typing import Any

import httpx
from playwright.sync_api import expect
from tests.console.browser import assert_accessible

from gamay.embedded import EmbeddedCluster

SERVER = "Server_localhost_8098"


def measure(cluster: EmbeddedCluster) -> None:
    """Make all roles record their measurements now, before the next interval."""
    ran = httpx.get(f"{cluster.controller_url}/periodictask/run", params={"taskname": "MetricsHistory"})
    assert ran.json()["isSuccessful"]


def test_metrics_of_the_last_hours_are_drawn(open_page: Any, console: EmbeddedCluster) -> None:
    measure(console)
    for _ in range(3):
        httpx.post(f"{console.broker_url}/query/sql", json={"sql": "SELECT COUNT(*) FROM trips"})
    measure(console)
    page = open_page("#/cluster/metrics")
    for title in ("Queries a second", "Time of queries", "Processors in use", "Memory", "Segments"):
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
    expect(page.get_by_role("img", name="Memory: 4 roles in one process")).to_be_visible()
    expect(page.get_by_role("img", name=f"Segments: {SERVER} 2 at last, 2 at most")).to_be_visible()
    assert page.get_by_role("heading", name="Messages not consumed yet").count() == 0  # there is no stream
    assert_accessible(page)
    with page.expect_request(lambda request: "minutes=360" in request.url):
        page.get_by_label("The last").select_option("6 hours")
    refused = httpx.get(f"{console.server_url}/metrics/history", params={"minutes": "9999"})
    assert (refused.status_code, refused.json()["error"]) == (400, "'minutes' must be a number from 1 to 360, not '9999'")


def test_an_instance_that_does_not_answer_is_named_beside_the_others(
    watched: Any, browser: Any, console: EmbeddedCluster
) -> None:
    measure(console)
    page, watch = watched(console.controller_url, "/#/cluster")
    watch.allowed.append("404")
    page.route("**/liveinstances", lambda route: route.fulfill(json={"instances": ["Server_gone_1", SERVER]}))
    page.get_by_role("tab", name="Metrics").click()
    expect(page.get_by_role("list", name="Instances that did not answer")).to_contain_text("instance: Server_gone_1")
    expect(page.get_by_role("heading", name="Memory", exact=True)).to_be_visible()
    added = httpx.post(f"{console.controller_url}/instances", json={"host": "h", "port": "1", "type": "SERVER"})
    assert added.status_code == 200
    gone = httpx.get(f"{console.controller_url}/metrics/history/Server_h_1")
    assert (gone.status_code, gone.json()["error"]) == (
        503,
        "Server_h_1 is not live: it has left the cluster or does not answer",
    )
    assert httpx.delete(f"{console.controller_url}/instances/Server_h_1").status_code == 200


def test_lines_of_logs_are_shown_and_filtered(open_page: Any, console: EmbeddedCluster) -> None:
    log = logging.getLogger("gamay.broker.tested")
    log.warning("a careful word about trips_OFFLINE")
    try:
        raise ValueError("of all things")
    except ValueError:
        log.exception("a hard word")
    page = open_page("#/cluster/logs")
    region = page.get_by_role("region", name="Lines of the logs")
    expect(region.get_by_role("cell", name="a careful word")).to_have_count(1)  # four roles, but one process
    page.get_by_text("Traceback").first.click()
    expect(region.get_by_text("ValueError: of all things")).to_be_visible()
    assert_accessible(page)
    page.get_by_label("Level").select_option("ERROR and worse")
    expect(region.get_by_text("a careful word")).to_have_count(0)
    page.get_by_label("Level").select_option("WARN and worse")
    page.get_by_label("With this text").fill("TRIPS_OFFLINE")
    expect(region.get_by_text("a careful word")).to_be_visible()
    expect(region.get_by_text("a hard word")).to_have_count(0)
    page.get_by_label("With this text").fill("nobody wrote this")
    expect(page.get_by_text("No such lines")).to_be_visible()
    log.warning("nobody wrote this before")
    page.get_by_role("button", name="Look again").click()
    expect(region.get_by_text("nobody wrote this before")).to_be_visible()

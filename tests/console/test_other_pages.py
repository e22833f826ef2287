"""The pages about tables, a new table and the cluster, in headless Chromium."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect
from tests.console.browser import serious_violations
from tests.console.conftest import FIRST_ID, ROWS

import gamay
from gamay.embedded import EmbeddedCluster


def cells(page: Any) -> list[list[str]]:
    return [[cell.inner_text().strip() for cell in row.locator("td").all()] for row in page.locator("tbody tr").all()]


def test_tables_are_listed_with_what_they_have(open_page: Any) -> None:
    page = open_page("#/tables")
    expect(page.get_by_role("cell", name="100,000")).to_be_visible()
    expect(page.locator("tbody td.num").nth(0)).to_have_text("2")
    assert [row[0] for row in cells(page)] == ["pay", "trips"]
    assert cells(page)[1][4:] == ["OFFLINE", "served"]
    page.get_by_role("button", name="Rows").click()
    assert [row[0] for row in cells(page)] == ["trips", "pay"]
    page.get_by_label("Filter by name").fill("PA")
    assert [row[0] for row in cells(page)] == ["pay"]
    assert serious_violations(page) == []


def test_a_table_shows_columns_rows_and_segments(open_page: Any) -> None:
    page = open_page("#/tables/trips")
    expect(page.get_by_role("cell", name="city", exact=True)).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="price").locator("td").nth(3)).to_have_text("10,000")
    columns = {row[0]: row[1:] for row in cells(page)}
    assert columns["city"] == ["STRING", "dimension", "4", "Kyiv", "Rome"]
    assert columns["id"][3:] == [str(FIRST_ID), str(FIRST_ID + ROWS - 1)]
    assert columns["note"][3:] == ["n 1", "null"]  # the table keeps no nulls
    page.get_by_role("tab", name="Rows").click()
    expect(page.get_by_text("n 1", exact=True)).to_be_visible()
    page.get_by_role("tab", name="Segments").click()
    expect(page.get_by_text("ONLINE")).to_be_visible()
    (segment,) = cells(page)
    assert segment[1] == "100,000"
    page.get_by_role("button", name="Delete…").click()
    expect(page.get_by_role("dialog")).to_contain_text("will be gone")
    page.get_by_role("button", name="Keep it").click()
    page.get_by_role("button", name="Reload OFFLINE").click()
    expect(page.get_by_text("are being reloaded")).to_be_visible()
    assert serious_violations(page) == []


def test_segments_are_drawn_by_server_and_time(open_page: Any) -> None:
    page = open_page("#/tables/trips/segments")
    grid = page.get_by_role("grid", name="Sizes of segments by server and time")
    expect(grid.get_by_role("gridcell")).to_have_count(40)
    grid.get_by_role("gridcell").first.focus()
    page.keyboard.press("End")
    expect(page.locator("p.told")).to_contain_text("1 segment")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="1 of 1 segment")).to_be_visible()
    expect(grid.locator("[aria-selected=true]")).to_have_count(1)
    assert serious_violations(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Show all")).to_have_count(0)
    page.get_by_role("button", name="Reload trips").click()
    expect(page.get_by_text("is being reloaded")).to_be_visible()
    with page.expect_download() as got:
        page.get_by_role("link", name="Download trips").click()
    assert got.value.path().stat().st_size > 1000


def test_a_table_that_is_not_there_is_told(watched: Any, console: EmbeddedCluster) -> None:
    page, watch = watched(console.controller_url, "/#/tables/nowhere")
    watch.allowed.append("404")
    expect(page.get_by_role("alert")).to_contain_text("nowhere")


def test_small_and_dark(open_page: Any) -> None:
    for address in ("#/tables", "#/tables/trips/segments", "#/cluster", "#/new-table"):
        page = open_page(address, width=400, dark=True)
        expect(page.get_by_role("heading").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious_violations(page) == []


def test_the_cluster_shows_its_parts(open_page: Any) -> None:
    page = open_page("#/cluster")
    expect(page.get_by_text("Nothing is wrong.")).to_be_visible()
    expect(page.get_by_role("cell", name="live").first).to_be_visible()
    assert [row[0] for row in cells(page)] == ["Broker", "Controller", "Minion", "Server"]
    page.get_by_role("tab", name="Running queries").click()
    expect(page.get_by_text("No query runs")).to_be_visible()
    page.get_by_role("tab", name="Settings").click()
    expect(page.get_by_text("All settings are as they come")).to_be_visible()
    page.get_by_role("tab", name="Metadata store").click()
    page.get_by_role("link", name="PinotCluster").click()
    page.get_by_role("link", name="PROPERTYSTORE").click()
    page.get_by_role("link", name="SCHEMAS").click()
    page.get_by_role("link", name="trips").click()
    expect(page.get_by_text("dimensionFieldSpecs")).to_be_visible()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster that tests change."""
    folder = tmp_path_factory.mktemp("own") / "data"
    with gamay.connect(folder) as db:
        db.create_table("pay", {"n": [4, 5]})
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as found:
        yield found


def test_a_file_becomes_a_table(watched: Any, browser: Any, own: EmbeddedCluster, tmp_path: Path) -> None:
    (tmp_path / "rides.csv").write_text("id,city,fare,day\n1,Oslo,2.5,2024-05-01\n2,Rome,3.5,2024-05-02\n")
    page, _ = watched(own.controller_url, "/#/new-table")
    page.get_by_label("File").set_input_files(tmp_path / "rides.csv")
    page.get_by_role("button", name="Make the table and load the file").click()
    expect(page.get_by_role("heading", name="rides")).to_be_visible()
    expect(page.get_by_text("Rome")).to_be_visible()


def test_a_config_is_checked_and_its_changes_shown_before_it_is_stored(watched: Any, own: EmbeddedCluster) -> None:
    page, watch = watched(own.controller_url, "/#/tables/pay/config")
    editor = page.get_by_label("Table config")
    expect(editor).to_contain_text("tableIndexConfig")
    watch.allowed.append("400")
    config = httpx.get(f"{own.controller_url}/tables/pay").json()["OFFLINE"]
    config["tableIndexConfig"]["invertedIndexColumns"] = ["nothing"]
    editor.fill(json.dumps(config, indent=2))
    page.get_by_role("button", name="Save…").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing")
    config["tableIndexConfig"]["invertedIndexColumns"] = ["n"]
    editor.fill(json.dumps(config, indent=2))
    page.get_by_role("button", name="Save…").click()
    expect(page.get_by_role("dialog")).to_contain_text("invertedIndexColumns")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_text("The config of pay is changed")).to_be_visible()

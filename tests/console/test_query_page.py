"""The query page in a browser: running, cancelling, results as table, chart and plan, downloads, shared links."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.console.browser import assert_accessible
from tests.console.conftest import FIRST_ID, ROWS, OpenPage

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def ask(page: "Page", sql: str) -> None:
    """Put a query into the editor, and run it."""
    write(page, sql)
    page.keyboard.press("Control+Enter")


def write(page: "Page", sql: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)
    page.keyboard.press("Escape")


def view(page: "Page", name: str) -> None:
    page.get_by_role("tablist", name="Views").get_by_role("tab", name=name).click()


def cells(page: "Page") -> "Locator":
    return page.get_by_role("gridcell")


def test_a_query_is_answered_with_exact_numbers_dates_and_nulls(open_page: OpenPage) -> None:
    page = open_page()
    ask(page, "SELECT id, ts, note, price FROM trips WHERE id = 1152921504606846983")
    cells(page).first.wait_for()
    assert cells(page).all_inner_texts() == [str(FIRST_ID + 7), "2023-11-14 22:20:20", "null", "54.33"]
    page.get_by_label("Dates").uncheck()
    assert cells(page).nth(1).inner_text() == "1700000420000"
    page.get_by_role("tablist", name="Views").get_by_role("tab", name="Statistics").click()
    told = page.get_by_role("region", name="Statistics").inner_text()
    assert "1 row of 100,000 used" in told
    assert "no value was looked at" in told


def test_only_the_statement_under_the_cursor_or_what_is_selected_is_run(open_page: OpenPage) -> None:
    page = open_page()
    ask(page, "SELECT 'first' FROM pay LIMIT 1;\nSELECT 'it''s; second' FROM pay LIMIT 1")
    cells(page).first.wait_for()
    assert cells(page).first.inner_text() == "it's; second"
    page.locator(".cm-content").click()
    page.keyboard.press("Control+Home")
    page.keyboard.press("Control+Enter")
    page.get_by_role("gridcell", name="first", exact=True).wait_for()


def test_an_error_is_underlined_where_it_is_and_told(open_page: OpenPage) -> None:
    page = open_page()
    ask(page, "SELECT city\nFROM trips\nWHERE cty = 'Oslo'")
    page.get_by_role("alert").first.wait_for()
    assert "Did you mean 'city'?" in page.get_by_role("alert").first.inner_text()
    assert page.locator(".cm-lintRange-error").inner_text() == "cty"
    ask(page, "SELECT city FROM trips WHERE")
    page.get_by_role("alert").get_by_text("found the end of the query, at line 1, column 29").wait_for()
    assert page.locator(".cm-lintRange-error").inner_text() == "E"  # the last character
    ask(page, "SELECT 1")
    cells(page).first.wait_for()
    assert page.locator(".cm-lintRange-error").count() == 0


def test_answers_stay_while_another_page_is_looked_at(open_page: OpenPage) -> None:
    page = open_page()
    ask(page, "SELECT who FROM pay ORDER BY n LIMIT 1")
    cells(page).first.wait_for()
    page.get_by_role("link", name="Cluster", exact=True).click()
    page.get_by_role("heading", name="Cluster").wait_for()
    page.get_by_role("link", name="Query", exact=True).click()
    page.get_by_role("gridcell", name="Ada").wait_for()


def test_a_query_is_cancelled(open_page: OpenPage) -> None:
    page = open_page()
    ask(page, "SELECT count(*) FROM trips a JOIN trips b ON a.price < b.price JOIN trips c ON b.price < c.price")
    page.get_by_text(re.compile(r"Running, \d.* request \d+ at Broker_")).wait_for()  # a broker knows it
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled after").wait_for()
    ask(page, "SELECT count(*) FROM pay")
    page.get_by_role("gridcell", name="2", exact=True).wait_for()


def test_a_hundred_thousand_rows_scroll_and_sort_and_are_copied(open_page: OpenPage) -> None:
    page = open_page()
    ask(page, f"SELECT * FROM trips ORDER BY id LIMIT {ROWS}")
    grid = page.get_by_role("grid", name="Rows")
    grid.wait_for()
    assert grid.get_attribute("aria-rowcount") == str(ROWS + 1)
    assert cells(page).count() < 400
    grid.focus()
    page.keyboard.press("Control+End")
    page.get_by_role("rowheader", name=str(ROWS), exact=True).wait_for()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowUp")
    page.keyboard.press("Control+Shift+c")
    page.get_by_text("Copied 2 × 1 cells with names").wait_for(state="attached")
    names, *lines = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert names == "id"
    assert lines == [str(FIRST_ID + ROWS - 2), str(FIRST_ID + ROWS - 1)]
    grid.evaluate("grid => grid.scrollTo(0, 1250000)")
    page.get_by_role("rowheader", name="50010", exact=True).wait_for()
    page.get_by_role("columnheader", name="price").get_by_role("button").click()
    page.get_by_role("columnheader", name="price").get_by_role("button").click()
    grid.evaluate("grid => grid.scrollTo(0, 0)")
    page.get_by_role("gridcell", name="99.99").first.wait_for()
    assert page.get_by_role("columnheader", name="price").get_attribute("aria-sort") == "descending"


def test_big_answers_come_page_by_page(open_page: OpenPage) -> None:
    page = open_page()
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Page by page").check()
    page.keyboard.press("Escape")
    ask(page, f"SELECT id, city FROM trips ORDER BY id LIMIT {ROWS}")
    grid = page.get_by_role("grid", name="Rows")
    grid.wait_for()
    assert grid.get_attribute("aria-rowcount") == str(ROWS + 1)
    grid.focus()
    page.keyboard.press("Control+End")
    page.get_by_role("gridcell", name=str(FIRST_ID + ROWS - 1)).wait_for()
    page.get_by_role("columnheader", name="city").get_by_role("button").click()
    page.get_by_text("Rows can be sorted here once all of them are loaded").wait_for(state="attached")


def rows_of(file: Path) -> list[dict[str, Any]]:
    if file.suffix == ".json":
        return json.loads(file.read_text(encoding="utf-8"))
    if file.suffix == ".csv":
        return pa.csv.read_csv(file).to_pylist()
    return (pq.read_table(file) if file.suffix == ".parquet" else pa.ipc.open_file(file).read_all()).to_pylist()


def test_an_answer_is_downloaded(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    ask(page, "SELECT id, city, note FROM trips WHERE note <> 'null' ORDER BY id LIMIT 3")
    cells(page).first.wait_for()
    for kind in ("CSV", "JSON", "Parquet", "Arrow"):
        page.get_by_role("button", name="Download").click()
        with page.expect_download() as found:
            page.get_by_role("menuitem", name=kind).click()
        file = tmp_path / found.value.suggested_filename
        found.value.save_as(file)
        assert file.name == f"Query_1.{kind.lower()}"
        assert rows_of(file) == [
            {"id": FIRST_ID + 1, "city": "Lima", "note": "n 1"},
            {"id": FIRST_ID + 2, "city": "Oslo", "note": "n 2"},
            {"id": FIRST_ID + 3, "city": "Rome", "note": "n 3"},
        ]


def test_names_are_completed(open_page: OpenPage) -> None:
    page = open_page()
    page.get_by_role("button", name="Columns of trips").wait_for()
    editor = page.locator(".cm-content")
    editor.click()
    page.keyboard.type("SELECT * FROM tr")
    offered = page.locator(".cm-tooltip-autocomplete li")
    offered.filter(has_text=re.compile("^tripstable, offline$")).wait_for()
    assert offered.count() == 1
    offered.click()
    editor.get_by_text("SELECT * FROM trips").wait_for()
    page.keyboard.type(" t WHERE t.pr")
    offered.filter(has_text=re.compile("^priceDOUBLE$")).click()
    editor.get_by_text("SELECT * FROM trips t WHERE t.price").wait_for()
    page.keyboard.type(" > 1 AND dateTru")
    offered.filter(has_text=re.compile("^dateTruncfunction$")).click()
    editor.get_by_text("AND dateTrunc()").wait_for()


def test_tabs_history_and_saved_queries_stay(open_page: OpenPage) -> None:
    page = open_page()
    ask(page, "SELECT city FROM trips LIMIT 1")
    cells(page).first.wait_for()
    page.get_by_role("button", name="New tab").click()
    write(page, "SELECT count(*) FROM pay")
    page.keyboard.press("Control+s")
    page.get_by_label("Name", exact=True).fill("How many")
    page.get_by_role("button", name="Save", exact=True).last.click()
    page.get_by_text("Saved as How many").wait_for()
    page.wait_for_function("localStorage.getItem('gamay.query.tabs').includes('count(*)')")
    page.reload()
    tabs = page.get_by_role("tablist", name="Queries").get_by_role("tab")
    tabs.first.wait_for()
    assert tabs.all_inner_texts() == ["Query 1", "How many"]
    assert page.locator(".cm-content").inner_text() == "SELECT count(*) FROM pay"
    page.get_by_role("tab", name="History").click()
    page.get_by_role("button", name="SELECT city FROM trips LIMIT 1").click()
    assert tabs.first.get_attribute("aria-selected") == "true"
    page.get_by_role("tab", name="Saved").click()
    page.get_by_role("button", name="Delete How many").click()
    assert page.get_by_role("button", name="Delete How many").count() == 0
    page.reload()
    tabs.first.wait_for()
    tabs.first.press("Delete")
    page.reload()
    tabs.first.wait_for()
    assert tabs.all_inner_texts() == ["How many"]


def test_a_link_opens_the_query(open_page: OpenPage) -> None:
    page = open_page()
    write(page, "SELECT '100 % & more', city FROM trips LIMIT 1")
    page.get_by_label("Nulls").check()
    page.get_by_role("button", name="Copy a link").click()
    page.get_by_text("The link is in the clipboard").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    other = open_page(link.partition("/#")[2] and "#" + link.partition("/#")[2])
    other.locator(".cm-line").first.wait_for()
    assert other.locator(".cm-content").inner_text() == "SELECT '100 % & more', city FROM trips LIMIT 1"
    assert other.get_by_label("Nulls").is_checked()
    assert other.url.endswith("/#/query")


def test_cells_are_copied_where_browsers_have_no_clipboard_for_pages(open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'clipboard', {value: undefined})")  # as by plain HTTP
    page.reload()
    ask(page, "SELECT who, n FROM pay ORDER BY n LIMIT 1")
    cells(page).first.wait_for()
    page.get_by_role("grid", name="Rows").focus()
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+c")
    page.get_by_text("Copied 1 × 2 cells").wait_for(state="attached")
    page.get_by_label("Find").focus()
    page.keyboard.press("Control+v")
    assert page.get_by_label("Find").input_value() == "Ada\t4"


def test_answers_are_drawn_and_plans_are_trees(open_page: OpenPage) -> None:
    page = open_page()
    ask(page, "SELECT dateTrunc('DAY', ts) AS day, city, sum(price) FROM trips GROUP BY 1, 2 ORDER BY 1 LIMIT 400")
    view(page, "Chart")
    page.get_by_role("img", name="line chart of sum(price) by day").locator("canvas").wait_for()
    ask(page, "SELECT city, count(*) FROM trips GROUP BY city")
    page.get_by_role("img", name="bar chart of count(*) by city").locator("canvas").wait_for()
    page.get_by_role("button", name="Explain").click()
    plan = page.get_by_role("region", name="Plan")
    plan.wait_for()
    assert plan.locator("li").first.inner_text().startswith("BROKER_REDUCE")
    ask(page, "SELECT t.city, p.who FROM trips t JOIN pay p ON t.price = p.n")
    page.get_by_role("grid", name="Rows").wait_for()
    page.get_by_role("button", name="Analyze").click()
    page.get_by_role("region", name="Plan").get_by_text("HashJoin").wait_for()
    assert re.search(r"\d+ rows", page.get_by_role("region", name="Plan").inner_text())


def test_a_query_is_formatted(open_page: OpenPage) -> None:
    page = open_page()
    write(page, "select city, count(*) from trips where price > 3 group by city -- why")
    page.get_by_role("button", name="Format").click()
    page.locator(".cm-line").nth(4).wait_for()
    text = page.locator(".cm-content").inner_text()
    assert text.startswith("SELECT\n  city,\n  count(*)\nFROM\n  trips\nWHERE\n  price > 3\n")
    assert text.endswith("-- why")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_pages_fit_the_screen_and_are_accessible(width: int, dark: bool, open_page: OpenPage) -> None:
    page = open_page(width=width, dark=dark)
    ask(page, "SELECT * FROM trips LIMIT 50")
    cells(page).first.wait_for()
    assert_accessible(page)
    ask(page, "SELECT nothing FROM trips")
    page.get_by_role("alert").wait_for()
    page.get_by_role("button", name="Options").click()
    assert_accessible(page)
    page.keyboard.press("Escape")
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_colours_can_be_chosen(open_page: OpenPage) -> None:
    page = open_page()
    background = "getComputedStyle(document.body).backgroundColor"
    page.locator(".cm-line").first.wait_for()
    light = page.evaluate(background)
    page.get_by_role("button", name="Colours: as the system").click()
    page.get_by_role("button", name="Colours: light").click()
    page.get_by_role("button", name="Colours: dark").wait_for()
    assert page.evaluate(background) != light
    page.reload()
    page.get_by_role("button", name="Colours: dark").wait_for()
    assert page.evaluate(background) != light

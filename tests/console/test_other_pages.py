"""The pages for tables, a new table and the cluster, in headless Chromium."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect
from tests.console.browser import assert_accessible, rewrite
from tests.console.conftest import FIRST_ID, ROWS
from tests.waiting import PATIENCE_S

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
    assert_accessible(page)


def test_a_table_shows_columns_rows_and_segments(open_page: Any) -> None:
    page = open_page("#/tables/trips")
    expect(page.get_by_role("cell", name="city", exact=True)).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="price").locator("td").nth(3)).to_have_text("10,000")
    columns = {row[0]: row[1:] for row in cells(page)}
    assert columns["city"][:6] == ["STRING", "dimension", "4", "0", "Kyiv", "Rome"]
    assert columns["id"][4:6] == [str(FIRST_ID), str(FIRST_ID + ROWS - 1)]
    assert columns["note"][3:6] == ["0", "n 1", "null"]  # the table keeps no nulls
    drawn = page.get_by_role("img", name="Rows of price from 0 to 99.99").locator("title").all_text_contents()
    assert {share.split()[0] for share in drawn} == {"4.2"}  # each of 24 bars
    page.get_by_role("button", name="note", exact=True).click()
    most = page.get_by_role("list", name="The most frequent values of note").get_by_role("listitem")
    expect(most).to_have_count(10)
    expect(most.first).to_contain_text("14,286, 14 %")
    assert_accessible(page)
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
    assert_accessible(page)


def test_a_segment_shows_its_columns(open_page: Any) -> None:
    page = open_page("#/tables/trips/segments")
    page.get_by_role("button", name="Columns of trips").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("cell", name="dictionary").first).to_be_visible()
    shown = {row[0]: row[1:] for row in cells(dialog)}
    assert shown["city"][:5] == ["STRING", "4", "0", "Kyiv", "Rome"]
    assert sorted(shown["city"][6].split(", ")) == ["dictionary", "forward"]
    assert_accessible(page)
    page.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


def test_instances_show_what_they_take(open_page: Any) -> None:
    page = open_page("#/cluster")
    series = {"processors": [1.5, None], "memoryBytes": [2**30], "diskUsedBytes": [3.0], "diskTotalBytes": [4.0]}
    told = {"process": "p", "stepSeconds": 15, "timesMs": [1, 2], "series": series}
    page.route("**/metrics/history/Server_*", lambda route: route.fulfill(json=told))
    page.get_by_role("tab", name="Metrics").click()
    page.get_by_role("tab", name="Instances").click()
    server = page.get_by_role("row").filter(has_text="Server")
    expect(server.get_by_role("meter")).to_have_attribute("value", "0.75")
    assert cells(page)[-1][4:7] == ["1.50", "1 GiB", "75 %"]
    assert_accessible(page)


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
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Show all")).to_have_count(0)
    page.get_by_role("button", name="Reload trips").click()
    expect(page.get_by_text("is being reloaded")).to_be_visible()
    with page.expect_download() as got:
        page.get_by_role("link", name="Download trips").click()
    assert got.value.path().stat().st_size > 1000


def test_a_large_table_is_profiled_by_its_newest_rows(open_page: Any, console: EmbeddedCluster) -> None:
    (name,) = httpx.get(f"{console.controller_url}/segments/trips_OFFLINE/zkmetadata").json()
    records = {
        name: {"segment.total.docs": "100000", "segment.end.time": "9"},
        "old": {"segment.total.docs": "5000000", "segment.end.time": "1"},
    }
    page = open_page("#/tables")
    page.route("**/zkmetadata*", lambda route: route.fulfill(json=records))
    page.get_by_role("link", name="trips").click()
    expect(page.get_by_text("of the newest 100,000 of 5,100,000 rows, in 1 of 2 segments")).to_be_visible()
    with page.expect_request(lambda request: request.url.endswith("/sql") and name in (request.post_data or "")):
        page.reload()
    expect(page.get_by_role("row").filter(has_text="city").locator("td").nth(3)).to_have_text("4")
    with page.expect_request(lambda request: request.url.endswith("/sql") and "segmentName" not in request.post_data):
        page.get_by_role("button", name="Read all rows").click()
    expect(page.get_by_text("of the newest")).to_have_count(0)


def test_tables_are_asked_about_a_few_at_a_time(open_page: Any) -> None:
    page = open_page("#/query")
    held: list[Any] = []
    page.route("**/tables", lambda route: route.fulfill(json={"tables": [f"t{n:02}" for n in range(20)]}))
    page.route("**/size", lambda route: held.append(route))
    page.route("**/sql", lambda route: route.fulfill(json={"resultTable": {"rows": [[1]]}}))
    page.get_by_role("link", name="Tables").click()
    expect(page.get_by_text("t19")).to_be_visible()
    page.wait_for_timeout(200)
    assert len(held) == 3
    size = {"reportedSizeInBytes": 1, "offlineSegments": None, "realtimeSegments": None}
    held[0].fulfill(json=size)
    expect(page.get_by_text("served")).to_have_count(1)
    page.wait_for_timeout(200)
    assert len(held) == 4


def test_parts_that_are_not_there_are_told(open_page: Any) -> None:
    for address in ("#/tables/trips/ingestion", "#/tables/trips/nothing", "#/cluster/nothing"):
        page = open_page(address)
        expect(page.get_by_text("you may not see it")).to_be_visible()
        assert page.locator("table").count() == 0


def test_problems_have_the_colour_of_their_own_severity(open_page: Any) -> None:
    page = open_page("#/tables")
    problem = {"subject": "a server", "problem": "is gone", "advice": "start it", "severity": "BAD"}
    problems = [problem, problem | {"subject": "a table", "severity": "DEGRADED"}]
    page.route("**/cluster/status", lambda route: route.fulfill(json={"status": "BAD", "problems": problems}))
    page.get_by_role("link", name="Cluster").click()
    expect(page.locator("li .bad")).to_have_text("a server")
    expect(page.locator("li .warn")).to_have_text("a table")


def test_a_running_query_is_cancelled_only_when_that_is_confirmed(open_page: Any) -> None:
    page = open_page("#/cluster")
    cancelled: list[str] = []
    page.route("**/queries", lambda route: route.fulfill(json={"Broker_1": {"7": "SELECT SLOW"}}))
    page.route("**/query/Broker_1/7", lambda route: (cancelled.append(route.request.method), route.fulfill(json={})))
    page.get_by_role("tab", name="Running queries").click()
    page.get_by_role("button", name="Cancel…").click()
    expect(page.get_by_role("dialog")).to_contain_text("SELECT SLOW")
    page.get_by_role("button", name="Let it run").click()
    assert cancelled == []
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel the query").click()
    expect(page.get_by_text("The query is cancelled")).to_be_visible()
    assert cancelled == ["DELETE"]


def test_a_table_that_is_not_there_is_told(watched: Any, console: EmbeddedCluster) -> None:
    page, watch = watched(console.controller_url, "/#/tables/nowhere")
    watch.allowed.append("404")
    expect(page.get_by_role("alert")).to_contain_text("nowhere")


def test_small_and_dark(open_page: Any) -> None:
    for address in (
        "#/tables",
        "#/tables/trips",
        "#/tables/trips/segments",
        "#/cluster",
        "#/cluster/settings",
        "#/new-table",
    ):
        page = open_page(address, width=400, dark=True)
        expect(page.get_by_role("heading").first).to_be_visible()
        expect(page.get_by_text("Loading…")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert_accessible(page)


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


def test_a_node_of_the_store_shows_its_record_and_its_children(open_page: Any) -> None:
    page = open_page("#/cluster")
    page.route("**/zk/ls*", lambda route: route.fulfill(json=["0", "1"]))
    page.route("**/zk/get*", lambda route: route.fulfill(json={"id": "large", "simpleFields": {"n": 2}}))
    page.get_by_role("tab", name="Metadata store").click()
    page.get_by_role("link", name="1").click()
    expect(page.locator("pre")).to_contain_text("large")
    expect(page.get_by_role("link", name="0")).to_be_visible()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster that tests change."""
    folder = tmp_path_factory.mktemp("own") / "data"
    with gamay.connect(folder) as db:
        db.create_table("pay", {"n": [4, 5]})
        people = {
            "who": ["Ada", "Bo"] * 4,
            "town": ["Oslo", "Rome", "Lima", "Bonn"] * 2,
            "kind": [2, 1] * 4,
            "n": [*range(8)],
        }
        db.create_table("people", people)
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as found:
        yield found


def test_a_file_becomes_a_table(watched: Any, browser: Any, own: EmbeddedCluster, tmp_path: Path) -> None:
    (tmp_path / "rides.csv").write_text("id,city,fare,day\n1,Oslo,2.5,2024-05-01\n2,Rome,3.5,2024-05-02\n")
    page, _ = watched(own.controller_url, "/#/new-table")
    (tmp_path / "other.csv").write_text("x\n1\n")
    page.get_by_label("File", exact=True).set_input_files(tmp_path / "other.csv")
    expect(page.get_by_role("textbox", name="Schema")).to_contain_text('"other"')
    page.get_by_label("File", exact=True).set_input_files(tmp_path / "rides.csv")
    expect(page.get_by_role("textbox", name="Schema")).to_contain_text('"rides"')
    page.get_by_role("button", name="Make the table and load the file").click()
    expect(page.get_by_role("heading", name="rides")).to_be_visible()
    expect(page.get_by_text("Rome")).to_be_visible()


def test_a_new_table_goes_on_from_where_it_failed(watched: Any, browser: Any, own: EmbeddedCluster, tmp_path: Path) -> None:
    (tmp_path / "walks.csv").write_text("id,city\n1,Oslo\n2,Rome\n")
    page, watch = watched(own.controller_url, "/#/new-table")
    watch.allowed.append("503")
    page.route("**/ingestFromFile*", lambda route: route.fulfill(status=503, json={"error": "no room"}), times=1)
    posted: list[str] = []
    page.on("request", lambda request: request.method == "POST" and posted.append(request.url.rpartition("/")[2]))
    page.get_by_label("File", exact=True).set_input_files(tmp_path / "walks.csv")
    page.get_by_role("button", name="Make the table and load the file").click()
    expect(page.get_by_role("alert")).to_contain_text("Loading the file: no room")
    expect(page.get_by_text("the next attempt goes on from there")).to_be_visible()
    assert posted[1:3] == ["schemas", "tables"]  # after what the controller was asked about the file
    page.get_by_role("button", name="Load the file").click()
    expect(page.get_by_role("heading", name="walks")).to_be_visible()
    expect(page.get_by_text("Rome")).to_be_visible()
    assert posted.count("schemas") == posted.count("tables") == 1


def test_a_setting_is_changed_only_when_that_is_confirmed(watched: Any, browser: Any, own: EmbeddedCluster) -> None:
    page, _ = watched(own.controller_url, "/#/cluster/settings")
    page.get_by_role("textbox", name="Setting").fill("some.setting")
    page.get_by_label("Value", exact=True).fill("7")
    page.get_by_role("button", name="Set…").click()
    expect(page.get_by_role("dialog")).to_contain_text("some.setting becomes 7")
    page.get_by_role("button", name="Leave it").click()
    assert "some.setting" not in httpx.get(f"{own.controller_url}/cluster/configs").json()
    page.get_by_role("button", name="Set…").click()
    page.get_by_role("button", name="Set it").click()
    expect(page.get_by_role("cell", name="some.setting")).to_be_visible()


def test_unsaved_changes_of_a_config_stay_while_others_are_looked_at(
    watched: Any, browser: Any, own: EmbeddedCluster
) -> None:
    page, _ = watched(own.controller_url, "/#/tables")
    config = httpx.get(f"{own.controller_url}/tables/pay").json()["OFFLINE"]
    half = {"reportedSizeInBytes": 1, "missingSegments": 0, "segments": {}}
    sizes = {"reportedSizeInBytes": 1, "offlineSegments": half, "realtimeSegments": half}
    stored = {"OFFLINE": config, "REALTIME": {"tableName": "stream"}}
    page.route("**/tables/pay/size", lambda route: route.fulfill(json=sizes))
    page.route("**/tables/pay", lambda route: route.fulfill(json=stored))
    page.goto(f"{own.controller_url}/#/tables/pay/config")
    editor, half_shown = page.get_by_label("Table config"), page.get_by_label("Half of the table")
    rewrite(editor, "{}")
    expect(page.get_by_text("Changed, but not saved")).to_be_visible()
    half_shown.select_option("REALTIME")
    expect(editor).to_contain_text("stream")
    expect(page.get_by_text("Changed, but not saved")).to_have_count(0)
    half_shown.select_option("OFFLINE")
    expect(editor).to_have_text("{}")
    page.get_by_role("link", name="Cluster").click()
    expect(page.get_by_role("tab", name="Settings")).to_be_visible()
    stored["OFFLINE"] = config | {"isDimTable": True}
    page.go_back()
    expect(editor).to_have_text("{}")
    expect(page.get_by_text("Somebody has stored another config")).to_be_visible()
    page.get_by_role("button", name="Undo changes").click()
    expect(editor).to_contain_text("isDimTable")
    expect(page.get_by_text("Changed, but not saved")).to_have_count(0)


def test_a_page_with_unsaved_changes_asks_before_it_goes(watched: Any, browser: Any, own: EmbeddedCluster) -> None:
    page, _ = watched(own.controller_url, "/#/tables/pay/config")
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    editor = page.get_by_label("Table config")
    editor.press("Control+Home")  # browsers ask only about pages that the user has interacted with
    editor.press_sequentially(" ")
    expect(page.get_by_text("Changed, but not saved")).to_be_visible()
    page.reload()
    assert asked == ["beforeunload"]
    expect(page.get_by_text("Changed, but not saved")).to_have_count(0)
    editor.press("Control+Home")
    editor.press_sequentially(" ")
    page.get_by_role("button", name="Undo changes").click()
    page.reload()
    assert asked == ["beforeunload"]


def test_a_config_is_checked_and_its_changes_shown_before_it_is_stored(watched: Any, own: EmbeddedCluster) -> None:
    page, watch = watched(own.controller_url, "/#/tables/pay/config")
    editor = page.get_by_label("Table config")
    expect(editor).to_contain_text("tableIndexConfig")
    watch.allowed.append("400")
    config = httpx.get(f"{own.controller_url}/tables/pay").json()["OFFLINE"]
    rewrite(editor, json.dumps(config | {"isDimTable": []}, indent=2))
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)
    config["tableIndexConfig"]["invertedIndexColumns"] = ["nothing"]
    rewrite(editor, json.dumps(config, indent=2))
    expect(page.locator(".cm-lint-marker-error")).to_have_count(0)
    page.get_by_role("button", name="Save…").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing")
    config["tableIndexConfig"]["invertedIndexColumns"] = ["n"]
    config["tableIndexConfig"]["noSuchKey"] = 1
    rewrite(editor, json.dumps(config, indent=2))
    page.get_by_role("button", name="Save…").click()
    expect(page.get_by_role("dialog")).to_contain_text("invertedIndexColumns")
    expect(page.get_by_role("list", name="Remarks")).to_contain_text("/tableIndexConfig/noSuchKey means nothing here")
    expect(page.get_by_role("list", name="What follows")).to_contain_text("follow when they are reloaded")
    page.get_by_role("dialog").get_by_role("button", name="Save and reload").click()
    expect(page.get_by_text("The config of pay is changed")).to_be_visible()
    expect(page.get_by_text("The OFFLINE segments of pay are being reloaded")).to_be_visible()


def test_a_config_offers_the_names_that_it_may_have(watched: Any, own: EmbeddedCluster) -> None:
    page, _ = watched(own.controller_url, "/#/tables/pay/config")
    page.on("dialog", lambda dialog: dialog.accept())
    editor = page.get_by_label("Table config")
    expect(editor).to_contain_text("tableIndexConfig")
    rewrite(editor, '{"tableIndexConfig": {')
    editor.press("Control+End")
    editor.press_sequentially('"inverted')
    expect(page.get_by_role("option").first).to_have_text('"invertedIndexColumns"')


def test_a_config_keeps_whole_numbers_beyond_those_of_javascript(watched: Any, own: EmbeddedCluster) -> None:
    url = f"{own.controller_url}/tables/pay"
    config = httpx.get(url).json()["OFFLINE"] | {"query": {"maxServerResponseSizeBytes": FIRST_ID + 1}}
    httpx.put(f"{url}_OFFLINE", json=config).raise_for_status()
    page, _ = watched(own.controller_url, "/#/tables/pay/config")
    editor = page.get_by_label("Table config")
    expect(editor).to_contain_text(str(FIRST_ID + 1))
    config["query"]["maxQueryResponseSizeBytes"] = FIRST_ID + 3
    rewrite(editor, json.dumps(config))
    page.get_by_role("button", name="Save…").click()
    expect(page.get_by_role("dialog")).to_contain_text(str(FIRST_ID + 3))
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_text("The config of pay is changed")).to_be_visible()
    assert httpx.get(url).json()["OFFLINE"]["query"] == config["query"]


def test_what_queries_of_late_could_use_is_added_to_the_config(watched: Any, browser: Any, own: EmbeddedCluster) -> None:
    sql = "SELECT who, SUM(n) FROM people WHERE town = 'Oslo' AND kind = 2 GROUP BY who"
    httpx.post(f"{own.controller_url}/sql", json={"sql": sql}, timeout=PATIENCE_S).raise_for_status()
    page, _ = watched(own.controller_url, "/#/tables/people/advice")
    advice = page.get_by_role("list", name="Advice for OFFLINE")
    expect(advice).to_contain_text("Inverted index on kind")
    expect(advice).to_contain_text("Sort by town")
    assert_accessible(page)
    page.get_by_role("button", name="Add… Star-tree").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("SUM__n")
    dialog.get_by_role("button", name="Add it").click()
    expect(page.get_by_text("is in the config")).to_be_visible()
    expect(advice).not_to_contain_text("Star-tree")
    (tree,) = httpx.get(f"{own.controller_url}/tables/people").json()["OFFLINE"]["tableIndexConfig"]["starTreeIndexConfigs"]
    assert sorted(tree["dimensionsSplitOrder"]) == ["kind", "town", "who"]


def test_users_are_added_changed_and_deleted(watched: Any, browser: Any, own: EmbeddedCluster) -> None:
    page, watch = watched(own.controller_url, "/#/cluster/users", width=400)
    watch.allowed.append("400")
    page.get_by_role("button", name="Add a user…").click()
    page.get_by_role("textbox", name="Name").fill("an:n")
    page.get_by_role("textbox", name="Tables").fill("pay, people")
    page.get_by_role("textbox", name="Password").fill("secret")
    assert_accessible(page)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("'username' must be a name without ':'")
    page.get_by_role("textbox", name="Name").fill("ann")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("cell", name="pay, people")).to_have_count(2)
    page.get_by_role("button", name="Change… ann (BROKER)").click()
    page.get_by_label("Role").select_option("WRITER")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="BROKER")).to_contain_text("WRITER")
    page.get_by_role("button", name="Delete… ann (BROKER)").click()
    page.get_by_role("button", name="Delete the user").click()
    expect(page.get_by_role("row").filter(has_text="ann")).to_have_count(1)
    (left,) = httpx.get(f"{own.controller_url}/users").json()["users"].values()
    assert (left["component"], left["role"], left["tables"]) == ("CONTROLLER", "READER", ["pay", "people"])

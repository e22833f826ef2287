"""New tables from local files with types, from remote files, and from topics."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect
from tests.console.browser import assert_accessible

from gamay.base.clock import SYSTEM_CLOCK
from gamay.embedded import EmbeddedCluster
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic

T0 = 1_700_000_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("new") / "data"
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as found:
        topic = create_topic(folder / "streams", "rides", TopicConfig(partitions=1))
        producer = Producer(topic, SYSTEM_CLOCK)
        producer.send(pa.array([orjson.dumps({"city": "Bern", "fare": n / 2, "at": T0 + n}) for n in range(20)]))
        producer.close()
        yield found


def rows_of(cluster: EmbeddedCluster, sql: str) -> Any:
    answer = httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": sql}).json()
    return answer.get("resultTable", {}).get("rows", answer["exceptions"])


def test_a_parquet_file_is_looked_at_adjusted_and_loaded(
    watched: Any, browser: Any, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    rows = {
        "city": ["Oslo", "Rome", "Oslo", None],
        "fare": [1.5, 2.5, 3.5, 4.5],
        "at": [T0, T0 + 1, T0 + 2, T0 + 3],
        "junk": [1] * 4,
    }
    pq.write_table(pa.table(rows), tmp_path / "trips.parquet")
    page, _ = watched(cluster.controller_url, "/#/new-table")
    page.get_by_label("File", exact=True).set_input_files(tmp_path / "trips.parquet")
    expect(page.get_by_text("All 4 rows were looked at.")).to_be_visible()
    city = page.get_by_role("row").filter(has_text="Oslo (2)")
    assert [cell.inner_text() for cell in city.locator("td").all()][3:] == [
        "25 %",
        "2",
        "Oslo",
        "Rome",
        "Oslo (2), Rome (1)",
    ]
    assert_accessible(page)
    page.get_by_label("Role of junk").select_option("left out")
    page.get_by_label("Type of fare").select_option("FLOAT")
    page.get_by_label("Time column").select_option("at")
    expect(page.get_by_role("textbox", name="Schema")).to_contain_text("1:SECONDS:EPOCH")
    expect(page.get_by_role("textbox", name="Table config")).to_contain_text('"timeColumnName": "at"')
    page.get_by_label("Name", exact=True).fill("travels")
    page.get_by_label("Name", exact=True).press("Tab")
    page.get_by_role("button", name="Make the table and load the file").click()
    expect(page.get_by_role("heading", name="travels")).to_be_visible()
    schema = httpx.get(f"{cluster.controller_url}/schemas/travels").json()
    assert [field["name"] for field in schema["metricFieldSpecs"]] == ["fare"]
    assert schema["metricFieldSpecs"][0]["dataType"] == "FLOAT"
    assert rows_of(cluster, "SELECT COUNT(*), SUM(fare), MAX(at) FROM travels") == [[4, 12.0, float(T0 + 3)]]


def test_a_topic_becomes_a_table_that_consumes_it(watched: Any, browser: Any, cluster: EmbeddedCluster) -> None:
    page, watch = watched(cluster.controller_url, "/#/new-table")
    watch.allowed.append("400")
    page.get_by_role("tab", name="A topic").click()
    page.get_by_label("Topic", exact=True).fill("nothing")
    page.get_by_role("button", name="Look at it").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing")
    page.get_by_label("Topic", exact=True).fill("rides")
    assert_accessible(page)
    page.get_by_role("button", name="Look at it").click()
    expect(page.get_by_text("The first 20 rows were looked at.")).to_be_visible()
    page.get_by_label("Time column").select_option("at")
    expect(page.get_by_role("textbox", name="Schema")).to_contain_text("1:SECONDS:EPOCH")
    page.get_by_role("button", name="Make the table").click()
    expect(page.get_by_role("tab", name="Ingestion", selected=True)).to_be_visible()
    page.get_by_role("tab", name="Rows").click()
    expect(page.get_by_text("Bern").first).to_be_visible()
    assert rows_of(cluster, "SELECT COUNT(*) FROM rides") == [[20]]


def test_files_elsewhere_are_looked_at_only_where_that_is_allowed(
    watched: Any, browser: Any, cluster: EmbeddedCluster
) -> None:
    page, watch = watched(cluster.controller_url, "/#/new-table")
    watch.allowed.append("400")
    page.get_by_role("tab", name="A file elsewhere").click()
    page.get_by_label("URI").fill("/etc/passwd.csv")
    page.get_by_role("button", name="Look at it").click()
    expect(page.get_by_role("alert")).to_contain_text("gamay.ingest.allowed_uris")
    named = {
        "streamType": "log",
        "stream.log.topic.name": "x",
        "stream.log.folder": "/etc",
        "stream.log.decoder.class.name": "json",
    }
    refused = httpx.post(f"{cluster.controller_url}/inspectTopic", params={"tableName": "x"}, json=named)
    assert (refused.status_code, "gamay.ingest.allowed_uris" in refused.text) == (400, True)


def test_a_file_that_is_too_large_to_be_looked_at_is_refused_before_it_is_read(cluster: EmbeddedCluster) -> None:
    def endless() -> Iterator[bytes]:
        yield b"x"

    url = f"{cluster.controller_url}/inspectFile?tableName=t"
    headers = {"content-type": "multipart/form-data; boundary=b"}
    assert "64 MiB" in httpx.post(url, content=endless(), headers=headers).json()["error"]  # without Content-Length
    broken = httpx.post(url, files={"file": ("t.parquet", b"PAR1 no more")})
    assert (broken.status_code, "t.parquet" in broken.json()["error"]) == (400, True), broken.text
    assert "t.parquet" in broken.json()["error"]

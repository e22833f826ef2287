"""Serving of the console's files, the requests of a query page, and cancellation of a query when its client disconnects."""

import gzip
import io
import re
from collections.abc import Iterator

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.waiting import PATIENCE_S, eventually

import gamay
from gamay.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("pages") / "data"
    with gamay.connect(folder) as db:
        db.create_table("trips", pa.table({"n": range(20_000), "tags": [["a", "b"]] * 20_000}))
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as found:
        yield found


@pytest.fixture(scope="module")
def client(cluster: EmbeddedCluster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=cluster.controller_url, trust_env=False, timeout=PATIENCE_S) as found:
        yield found


def assets(client: httpx.Client) -> list[str]:
    return re.findall(r'(?:src|href)="(/console/assets/[^"]+)"', client.get("/").text)


@pytest.mark.parametrize("path", ["/", "/index.html", "/console", "/console/", "/query", "/query/"])
def test_the_page_may_do_only_what_it_is_meant_to_do(path: str, client: httpx.Client) -> None:
    first, second = client.get(path), client.get(path)
    assert first.headers["content-type"].startswith("text/html")
    policy = first.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "*" not in policy
    for part in (
        "default-src 'none'",
        "script-src 'self';",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "connect-src 'self'",
    ):
        assert part in f"{policy};", part
    nonces = [re.search(r'name="csp-nonce" content="([\w-]{20,})"', answer.text) for answer in (first, second)]
    assert all(nonces)
    assert nonces[0][1] != nonces[1][1]
    assert f"'nonce-{nonces[0][1]}'" in policy
    assert first.headers["cache-control"] == "no-store"
    assert first.headers["x-content-type-options"] == "nosniff"
    assert first.headers["referrer-policy"] == "no-referrer"
    assert not re.search(r"<script(?! type=\"module\" crossorigin src=)|<style|\son\w+=|style=", first.text)


def test_files_are_compressed_and_kept_for_ever(client: httpx.Client) -> None:
    paths = assets(client)
    assert {path.rpartition(".")[2] for path in paths} == {"js", "css", "svg"}
    for path in paths:
        plain = client.get(path, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert plain.headers["x-content-type-options"] == "nosniff"
        with client.stream("GET", path, headers={"Accept-Encoding": "br, gzip;q=0.5"}) as packed:
            assert packed.headers["content-encoding"] == "gzip"
            assert packed.headers["vary"] == "Accept-Encoding"
            assert gzip.decompress(b"".join(packed.iter_raw())) == plain.content
        again = client.get(path, headers={"If-None-Match": plain.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "..%2findex.html", "..%2f..%2fbuild.json", "%00", "index.html"])
def test_other_names_are_not_found(name: str, client: httpx.Client) -> None:
    answer = client.get(f"/console/assets/{name}")
    assert answer.status_code == 404
    assert "code" in answer.json()


def test_the_catalog_has_what_queries_can_name(client: httpx.Client) -> None:
    catalog = client.get("/console/catalog").json()
    columns = [
        {"name": "tags", "type": "STRING", "role": "DIMENSION", "multiValue": True},
        {"name": "n", "type": "LONG", "role": "METRIC"},
    ]
    assert catalog["tables"] == [{"name": "trips", "types": ["OFFLINE"], "columns": columns}]
    functions = {function["name"].lower(): function["aggregate"] for function in catalog["functions"]}
    assert functions["count"] is True
    assert functions["datetrunc"] is False
    assert "timeoutMs" in catalog["options"]


def test_an_answer_becomes_a_file(client: httpx.Client) -> None:
    asked = {"sql": "SELECT n, n AS m, n, tags FROM trips ORDER BY n LIMIT 2"}
    answer = client.post("/sql/export", params={"format": "parquet"}, json=asked)
    table = pq.read_table(io.BytesIO(answer.content))
    assert table.column_names == ["n", "m", "n_2", "tags"]
    assert table.column("n_2").to_pylist() == [0, 1]
    assert table.column("tags").to_pylist() == [["a", "b"], ["a", "b"]]
    assert 'filename="result.parquet"' in answer.headers["content-disposition"]
    arrow = client.post("/sql/export", params={"format": "arrow"}, json=asked)
    assert pa.ipc.open_file(arrow.content).read_all().equals(table)


@pytest.mark.parametrize(
    ("form", "sql", "status", "text"),
    [
        ("xls", "SELECT 1", 400, "must be one of parquet, arrow"),
        ("arrow", "SELECT m FROM trips", 400, "Unknown columnName 'm'"),
        ("arrow", "", 400, "has no 'sql'"),
    ],
)
def test_what_becomes_no_file_says_why(form: str, sql: str, status: int, text: str, client: httpx.Client) -> None:
    answer = client.post("/sql/export", params={"format": form}, json={"sql": sql})
    assert answer.status_code == status
    assert text in answer.json()["error"]


def test_pages_of_an_answer_come_by_the_controller(client: httpx.Client) -> None:
    options = "getCursor=true;cursorNumRows=10"
    first = client.post("/sql", json={"sql": "SELECT n FROM trips ORDER BY n LIMIT 100", "queryOptions": options}).json()
    path = f"/responseStore/{first['brokerId']}/{first['requestId']}"
    page = client.get(f"{path}/results", params={"offset": 95, "numRows": 10}).json()
    assert page["resultTable"]["rows"] == [[95], [96], [97], [98], [99]]
    assert client.delete(path).status_code == 200
    assert client.get(f"{path}/results").status_code == 404
    assert client.get("/responseStore/Broker_none/1/results").status_code == 404


def test_a_query_ends_when_its_client_hangs_up(cluster: EmbeddedCluster, client: httpx.Client) -> None:
    sql = "SELECT count(*) FROM trips a JOIN trips b ON a.n < b.n JOIN trips c ON b.n < c.n"
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{cluster.controller_url}/sql", json={"sql": sql}, timeout=1.0)
    eventually(lambda: not any(client.get("/queries").json().values()))

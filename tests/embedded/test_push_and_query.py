"""Segments over REST, from push to answer, and the state after a failure."""

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.embedded.conftest import SCHEMA, TABLE
from tests.waiting import PATIENCE_S, eventually

from gamay.cluster.records.records import Role
from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_access, read_storage
from gamay.storage.archive import pack, unpack
from gamay.storage.settings import StorageSettings

COUNT = "SELECT count(*), sum(n) FROM trips"


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.zst"])
def test_a_pushed_archive_is_queried(trips: Any, make_segment: Callable[..., Path], suffix: str) -> None:
    answer = trips.push(make_segment("trips_0", [1, 2, 3], suffix=suffix))
    assert answer.status_code == 200
    assert answer.json() == {"status": "Successfully uploaded segment: trips_0 of table: trips_OFFLINE"}
    assert trips.rows(COUNT) == [[3, 6.0]]


def test_metadata_push_leaves_the_data_where_it_is(trips: Any, make_segment: Callable[..., Path], tmp_path: Path) -> None:
    archive = make_segment("trips_0", [1, 2, 3])
    described = tmp_path / "described" / "trips_0"
    described.mkdir(parents=True)
    folder = make_segment("trips_0", [1, 2, 3, 4], suffix="")
    for wrong in (False, True):
        source = archive.parent / "trips_0" if not wrong else folder
        (described / "metadata.json").write_bytes((source / "metadata.json").read_bytes())
        packed = pack(described, tmp_path / f"metadata{wrong}.tar.gz")
        with packed.open("rb") as file:
            answer = trips.controller.post(
                "/v2/segments",
                params={"tableName": "trips"},
                files={"file": file},
                headers={
                    "UPLOAD_TYPE": "METADATA",
                    "DOWNLOAD_URI": archive.as_uri(),
                    "COPY_SEGMENT_TO_DEEP_STORE": str(wrong).lower(),
                },
            )
        if wrong:
            assert answer.status_code == 400
            assert "holds segment 'trips_0'" in answer.json()["error"]
        else:
            assert answer.status_code == 200, answer.text
            trips.cluster.core.wait_until_visible("trips_OFFLINE", ["trips_0"], 60)
    assert trips.rows(COUNT) == [[3, 6.0]]
    assert files_below(trips.data_dir / "deepstore") == []
    record = trips.controller.get("/segments/trips/trips_0/metadata").json()
    assert record["segment.download.url"] == archive.as_uri()


def test_metadata_push_can_copy_the_data(trips: Any, make_segment: Callable[..., Path], tmp_path: Path) -> None:
    archive = make_segment("trips_0", [5])
    described = tmp_path / "described"
    described.mkdir()
    (described / "metadata.json").write_bytes((archive.parent / "trips_0" / "metadata.json").read_bytes())
    with pack(described, tmp_path / "metadata.tar.gz").open("rb") as file:
        answer = trips.controller.post(
            "/v2/segments",
            params={"tableName": "trips"},
            files={"file": file},
            headers={
                "UPLOAD_TYPE": "METADATA",
                "DOWNLOAD_URI": archive.as_uri(),
                "COPY_SEGMENT_TO_DEEP_STORE": "true",
            },
        )
    assert answer.status_code == 200, answer.text
    trips.cluster.core.wait_until_visible("trips_OFFLINE", ["trips_0"], 60)
    assert trips.rows(COUNT) == [[1, 5.0]]
    assert len(files_below(trips.data_dir / "deepstore")) == 1


@pytest.mark.parametrize("copy", [False, True])
def test_batch_upload_of_metadata(trips: Any, make_segment: Callable[..., Path], tmp_path: Path, copy: bool) -> None:
    folder = tmp_path / "batch"
    folder.mkdir()
    lines = []
    for i in range(3):
        archive = make_segment(f"trips_{i}", [i + 1])
        lines += [f"trips_{i}", archive.as_uri()]
        (folder / f"trips_{i}.metadata.json").write_bytes((archive.parent / f"trips_{i}" / "metadata.json").read_bytes())
    (folder / "all_segments_metadata").write_text("\n".join(lines))
    with pack(folder, tmp_path / "batch.tar.gz").open("rb") as file:
        answer = trips.controller.post(
            "/segments/batchUpload",
            params={"tableName": "trips"},
            files={"file": file},
            headers={"COPY_SEGMENT_TO_DEEP_STORE": str(copy).lower()},
        )
    assert answer.status_code == 200, answer.text
    trips.cluster.core.wait_until_visible("trips_OFFLINE", [f"trips_{i}" for i in range(3)], 60)
    assert trips.rows(COUNT) == [[3, 6.0]]
    assert len(files_below(trips.data_dir / "deepstore")) == (3 if copy else 0)


def test_uri_push_downloads(trips: Any, make_segment: Callable[..., Path]) -> None:
    archive = make_segment("trips_0", [1, 2])

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    files = HTTPServer(("127.0.0.1", trips.web_port), partial(Quiet, directory=str(archive.parent)))
    threading.Thread(target=files.serve_forever, daemon=True).start()
    uri = f"http://127.0.0.1:{files.server_port}/{archive.name}"
    headers = {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": uri}
    answer = trips.controller.post("/v2/segments", params={"tableName": "trips"}, headers=headers)
    assert answer.status_code == 200, answer.text
    trips.cluster.core.wait_until_visible("trips_OFFLINE", ["trips_0"], 60)
    assert trips.rows(COUNT) == [[2, 3.0]]
    assert len(files_below(trips.data_dir / "deepstore")) == 1
    headers["DOWNLOAD_URI"] = f"http://127.0.0.1:{files.server_port}/missing.tar.gz"
    assert trips.controller.post("/v2/segments", params={"tableName": "trips"}, headers=headers).status_code == 404
    for elsewhere in ("file:///etc/passwd", f"http://localhost:{files.server_port}/{archive.name}"):
        headers["DOWNLOAD_URI"] = elsewhere
        assert trips.controller.post("/v2/segments", params={"tableName": "trips"}, headers=headers).status_code == 400
    files.shutdown()
    files.server_close()


def corrupt_variants(archive: bytes) -> dict[str, bytes]:
    flipped = bytearray(archive)
    flipped[len(flipped) // 2] ^= 0x10
    return {
        "truncated": archive[: len(archive) // 2],
        "bit-flipped": bytes(flipped),
        "foreign": b"PK\x03\x04 not a tar at all",
        "empty": b"",
        "text": b"hello" * 1000,
    }


def test_damaged_uploads_are_refused_and_leave_nothing(
    trips: Any, make_segment: Callable[..., Path], tmp_path: Path
) -> None:
    archive = make_segment("trips_0", list(range(500)))
    edited = unpack(archive, tmp_path / "edited")
    metadata = edited / "metadata.json"
    metadata.write_text(metadata.read_text().replace("500", "501"))
    variants = corrupt_variants(archive.read_bytes()) | {"edited": pack(edited, tmp_path / "of_edited.tar.gz").read_bytes()}
    before = files_below(trips.data_dir / "deepstore")
    for what, damaged in variants.items():
        path = tmp_path / f"{what}.tar.gz"
        path.write_bytes(damaged)
        answer = trips.push(path)
        assert answer.status_code == 400, (what, answer.text)
        assert answer.json()["code"] == 400
        assert "Traceback" not in answer.text
        assert str(trips.data_dir) not in answer.text
    assert trips.controller.get("/segments/trips").json() == [{"OFFLINE": []}]
    assert files_below(trips.data_dir / "deepstore") == before
    assert list((trips.data_dir / "tmp").iterdir()) == []


def test_flags_of_a_push(trips: Any, make_segment: Callable[..., Path]) -> None:
    archive = make_segment("trips_0", [1])
    assert trips.push(archive, REFRESH_ONLY="true").status_code == 410
    assert trips.push(archive).status_code == 200
    with archive.open("rb") as file:
        params = {"tableName": "trips", "allowRefresh": "false"}
        assert trips.controller.post("/v2/segments", params=params, files={"file": file}).status_code == 409
    newer = make_segment("trips_0", [1, 2])
    assert trips.push(newer, **{"If-Match": "12345"}).status_code == 412
    crc = trips.controller.get("/segments/trips/crc").json()["trips_0"]
    modifier = json.dumps({"mapModifyMode": "UPDATE", "map": {"k": "v"}})
    headers = {"If-Match": crc, "Pinot-SegmentZKMetadataCustomMapModifier": modifier}
    assert trips.push(newer, **headers).status_code == 200
    record = trips.controller.get("/segments/trips/trips_0/metadata").json()
    assert json.loads(record["custom.map"]) == {"k": "v"}
    assert int(record["segment.refresh.time"]) >= int(record["segment.push.time"])


def test_refused_pushes(trips: Any, make_segment: Callable[..., Path]) -> None:
    archive = make_segment("trips_0", [1])
    with archive.open("rb") as file:
        answer = trips.controller.post("/v2/segments", params={"tableName": "other"}, files={"file": file})
    assert answer.status_code == 404
    early = make_segment("trips_early", [1], first_ms=1000)
    assert trips.push(early).status_code == 403
    other_types = {
        "schemaName": "trips",
        "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}, {"name": "n", "dataType": "STRING"}],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
        ],
    }
    answer = trips.push(make_segment("trips_other", [1], schema=other_types))
    assert answer.status_code == 400
    assert "column 'n' is STRING in the segment, LONG in the schema" in answer.json()["error"]


def test_refresh_while_querying_never_mixes_versions(trips: Any, make_segment: Callable[..., Path]) -> None:
    """Every answer is wholly of one version: version k has k rows of value k, in each of two segments pushed in turn."""
    versions = {k: make_segment("trips_0", [k] * 50 * k) for k in range(1, 6)}
    trips.push(versions[1])
    wrong: list[Any] = []
    answers = 0
    stop = threading.Event()

    def ask() -> None:
        nonlocal answers
        with httpx.Client(base_url=trips.cluster.broker_url) as client:
            while not stop.is_set():
                answer = client.post("/query/sql", json={"sql": "SELECT count(*), min(n), max(n) FROM trips"}).json()
                if answer["exceptions"]:
                    wrong.append(answer["exceptions"])
                    continue
                count, low, high = answer["resultTable"]["rows"][0]
                if low != high or count != 50 * low:
                    wrong.append((count, low, high))
                answers += 1

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    for _ in range(3):
        for archive in versions.values():
            assert trips.push(archive).status_code == 200
            time.sleep(0.02)
    stop.set()
    for asker in askers:
        asker.join()
    assert wrong == []
    assert answers > 20
    eventually(lambda: trips.rows(COUNT) == [[250, 1250.0]])
    folders = [trips.data_dir / role / "trips_OFFLINE" for role in ("server", "deepstore")]
    # what was replaced is removed once no query uses it
    eventually(lambda: [len(list(folder.iterdir())) for folder in folders] == [1, 1])


def test_dropping_while_querying_never_fails(trips: Any, make_segment: Callable[..., Path]) -> None:
    archives = [make_segment(f"trips_{i}", [1] * 100) for i in range(3)]
    trips.push(archives[0])
    wrong: list[Any] = []
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=trips.cluster.broker_url) as client:
            while not stop.is_set():
                answer = client.post("/query/sql", json={"sql": "SELECT count(*) FROM trips"}).json()
                if answer["exceptions"] or answer["resultTable"]["rows"][0][0] % 100:
                    wrong.append(answer)

    asker = threading.Thread(target=ask)
    asker.start()
    for _ in range(10):
        for archive in archives[1:]:
            trips.push(archive)
        assert trips.controller.delete("/segments/trips/trips_1").status_code == 200
        assert trips.controller.delete("/segments/trips/trips_2").status_code == 200
    stop.set()
    asker.join()
    assert wrong == []


def test_replaced_segments_switch_at_once(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("old_0", [1]))
    trips.push(make_segment("old_1", [2]))
    params = {"type": "OFFLINE"}
    body = {"segmentsFrom": ["old_0", "old_1"], "segmentsTo": ["new_0"], "customMap": {"by": "me", "run": "1"}}
    entry = trips.controller.post("/segments/trips/startReplaceSegments", params=params, json=body).json()
    answer = trips.push(make_segment("new_0", [10, 20, 30]), wait=False)
    assert answer.status_code == 200
    time.sleep(0.2)
    assert trips.rows(COUNT) == [[2, 3.0]]
    end = {**params, "segmentLineageEntryId": entry["segmentLineageEntryId"]}
    assert trips.controller.delete("/segments/trips/old_0").status_code == 409
    assert trips.controller.post("/segments/trips/endReplaceSegments", params=end).status_code == 200
    trips.cluster.core.wait_until_visible("trips_OFFLINE", ["new_0"], 60)
    assert trips.rows(COUNT) == [[3, 60.0]]
    shown = trips.controller.get("/segments/trips", params={"excludeReplacedSegments": "true"}).json()
    assert shown == [{"OFFLINE": ["new_0"]}]
    notes = {"customMap": {"run": "2"}}
    assert trips.controller.post("/segments/trips/revertReplaceSegments", params=end, json=notes).status_code == 200
    lineage = trips.controller.get("/segments/trips/lineage", params=params).json()
    assert lineage["customMap"] == {"by": "me", "run": "2"}
    noted = {"customMap": ["no map"]}
    assert trips.controller.post("/segments/trips/endReplaceSegments", params=end, json=noted).status_code == 400
    trips.cluster.core.wait_until_visible("trips_OFFLINE", ["old_0", "old_1"], 60)
    assert trips.rows(COUNT) == [[2, 3.0]]
    unknown = {**params, "segmentLineageEntryId": "nope"}
    assert trips.controller.post("/segments/trips/endReplaceSegments", params=unknown).status_code == 500


def test_a_replacement_that_was_begun_twice_becomes_visible(trips: Any, make_segment: Callable[..., Path]) -> None:
    """A client that missed the first response starts the replacement again, with the same names."""
    trips.push(make_segment("old_0", [1]))
    params = {"type": "OFFLINE", "forceCleanup": "true"}
    body = {"segmentsFrom": ["old_0"], "segmentsTo": ["new_0"]}
    trips.controller.post("/segments/trips/startReplaceSegments", params=params, json=body)
    entry = trips.controller.post("/segments/trips/startReplaceSegments", params=params, json=body).json()
    assert trips.push(make_segment("new_0", [10, 20]), wait=False).status_code == 200
    end = {"type": "OFFLINE", "segmentLineageEntryId": entry["segmentLineageEntryId"]}
    assert trips.controller.post("/segments/trips/endReplaceSegments", params=end).status_code == 200
    trips.cluster.core.wait_until_visible("trips_OFFLINE", ["new_0"], 60)
    assert trips.rows(COUNT) == [[2, 30.0]]


def test_several_replacements_switch_in_one_step(trips: Any, make_segment: Callable[..., Path]) -> None:
    trips.push(make_segment("old_0", [1]))
    params, path = {"type": "OFFLINE"}, "/segments/trips/endReplaceSegmentsTogether"
    entries = []
    for old, new in (([], ["new_0"]), ([], ["new_1"]), (["old_0"], [])):
        body = {"segmentsFrom": old, "segmentsTo": new}
        answer = trips.controller.post("/segments/trips/startReplaceSegments", params=params, json=body)
        entries.append(answer.json()["segmentLineageEntryId"])
    for name, values in (("new_0", [10]), ("new_1", [20, 30])):
        assert trips.push(make_segment(name, values), wait=False).status_code == 200
    assert trips.rows(COUNT) == [[1, 1.0]]
    for _ in range(2):  # whose answer is lost asks again
        assert trips.controller.post(path, params=params, json={"segmentLineageEntryIds": entries}).status_code == 200
    trips.cluster.core.wait_until_visible("trips_OFFLINE", ["new_0", "new_1"], 60)
    assert trips.rows(COUNT) == [[3, 60.0]]
    lineage = trips.controller.get("/segments/trips/lineage", params=params).json()["lineageEntries"]
    assert list(lineage) == [entries[0]]
    assert lineage[entries[0]]["segmentsTo"] == ["new_0", "new_1"]
    assert trips.controller.post(path, params=params, json={}).status_code == 400
    body = {"segmentsFrom": ["new_0"], "segmentsTo": ["newer"]}
    begun = trips.controller.post("/segments/trips/startReplaceSegments", params=params, json=body).json()
    reverted = {**params, "segmentLineageEntryId": begun["segmentLineageEntryId"], "forceRevert": True}
    assert trips.controller.post("/segments/trips/revertReplaceSegments", params=reverted).status_code == 200
    answer = trips.controller.post(path, params=params, json={"segmentLineageEntryIds": [begun["segmentLineageEntryId"]]})
    assert answer.status_code == 500
    assert "are not in progress any more" in answer.json()["error"]


def test_a_batch_of_a_writer_is_shown_once(trips: Any, make_segment: Callable[..., Path]) -> None:
    params, path = {"type": "OFFLINE"}, "/segments/trips/endReplaceSegmentsTogether"

    def show(name: str, number: object) -> Any:
        body = {"segmentsFrom": [], "segmentsTo": [name]}
        begun = trips.controller.post("/segments/trips/startReplaceSegments", params=params, json=body).json()
        assert trips.push(make_segment(name, [10]), wait=False).status_code == 200
        body = {"segmentLineageEntryIds": [begun["segmentLineageEntryId"]], "batch": {"writer": "w", "number": number}}
        return trips.controller.post(path, params=params, json=body)

    assert show("new_0", 4).status_code == 200
    for name, number in (("new_1", 4), ("new_2", 3)):
        refused = show(name, number)
        assert refused.status_code == 409
        assert f"batch {number} of writer w is already in table trips_OFFLINE: the last one is 4" in refused.json()["error"]
    assert show("new_3", "5").status_code == 400
    assert show("new_4", 5).status_code == 200
    assert trips.controller.get("/segments/trips/lineage", params=params).json()["writers"] == {"w": 5}
    trips.cluster.core.wait_until_visible("trips_OFFLINE", ["new_0", "new_4"], 60)
    assert trips.rows(COUNT) == [[2, 20.0]]


def test_what_is_not_visible_yet_cannot_be_replaced(trips: Any, make_segment: Callable[..., Path]) -> None:
    """Else the segments of the first replacement would become visible again, beside those of the second."""
    trips.push(make_segment("old_0", [1]))
    params = {"type": "OFFLINE", "forceCleanup": "true"}
    body = {"segmentsFrom": ["old_0"], "segmentsTo": ["new_0"]}
    trips.controller.post("/segments/trips/startReplaceSegments", params=params, json=body)
    assert trips.push(make_segment("new_0", [10]), wait=False).status_code == 200
    body = {"segmentsFrom": ["new_0"], "segmentsTo": ["newer_0"]}
    answer = trips.controller.post("/segments/trips/startReplaceSegments", params=params, json=body)
    assert answer.status_code == 500
    assert "'new_0'" in answer.json()["error"]
    assert trips.rows(COUNT) == [[1, 1.0]]


def test_a_segment_can_be_downloaded_and_pushed_again(trips: Any, make_segment: Callable[..., Path], tmp_path: Path) -> None:
    trips.push(make_segment("trips 0 ü", [1, 2]))
    answer = trips.controller.get("/segments/trips/trips%200%20%C3%BC")
    assert answer.status_code == 200
    path = tmp_path / "again.tar.gz"
    path.write_bytes(answer.content)
    assert trips.controller.delete("/segments/trips/trips%200%20%C3%BC").status_code == 200
    assert trips.push(path).status_code == 200
    assert trips.rows(COUNT) == [[2, 3.0]]


def test_a_corrupt_local_copy_is_fetched_again(
    tmp_path: Path, open_api: Callable[[Path], Any], make_segment: Callable[..., Path]
) -> None:
    first = open_api(tmp_path / "data")
    first.create()
    first.push(make_segment("trips_0", list(range(100))))
    first.stop()
    columns = next((tmp_path / "data" / "server").rglob("columns.bin"))
    content = bytearray(columns.read_bytes())
    content[len(content) // 2] ^= 1
    columns.write_bytes(content)
    second = open_api(tmp_path / "data")
    assert second.rows(COUNT) == [[100, 4950.0]]


@pytest.mark.parametrize("is_pushed_again", [False, True])
def test_a_corrupt_deep_store_copy_is_an_error_state_and_heals(
    tmp_path: Path, open_api: Callable[[Path], Any], make_segment: Callable[..., Path], is_pushed_again: bool
) -> None:
    first = open_api(tmp_path / "data")
    first.create()
    archive = make_segment("trips_0", [1, 2])
    first.push(archive)
    first.push(make_segment("trips_1", [3]))
    first.stop()
    import shutil

    shutil.rmtree(tmp_path / "data" / "server")
    copy = next((tmp_path / "data" / "deepstore" / "trips_OFFLINE").glob("trips_0__*"))
    sound = copy.read_bytes()
    copy.write_bytes(sound[: len(sound) // 2])
    second = open_api(tmp_path / "data")
    view = second.controller.get("/tables/trips/externalview").json()["OFFLINE"]
    assert {name: set(states.values()) for name, states in view.items()} == {"trips_0": {"ERROR"}, "trips_1": {"ONLINE"}}
    statuses = {s["segmentName"]: s["segmentStatus"] for s in second.controller.get("/tables/trips/segmentsStatus").json()}
    assert statuses == {"trips_0": "BAD", "trips_1": "GOOD"}
    answer = second.query(COUNT)
    assert answer["resultTable"]["rows"] == [[1, 3.0]]
    assert answer["exceptions"][0]["errorCode"] == 305
    assert answer["partialResult"] is True
    debug = second.controller.get("/debug/tables/trips").json()[0]["segmentDebugInfos"][0]
    assert next(iter(debug["serverState"].values()))["errorInfo"]["errorMessage"]
    if is_pushed_again:
        assert second.push(archive, wait=False).status_code == 200
    else:
        copy.write_bytes(sound)
    eventually(lambda: not second.query(COUNT)["exceptions"])
    assert second.rows(COUNT) == [[3, 6.0]]


def test_a_table_takes_no_more_than_its_storage_quota(trips: Any, make_segment: Callable[..., Path]) -> None:
    first = make_segment("trips_0", [1, 2, 3])
    assert trips.push(first).status_code == 200
    config = trips.controller.get("/tables/trips").json()["OFFLINE"]
    size = first.stat().st_size
    config["quota"] = {"storage": f"{size + 100}B"}
    assert trips.controller.put("/tables/trips", json=config).status_code == 200
    refused = trips.push(make_segment("trips_1", [4]))
    assert refused.status_code == 403
    assert "table trips_OFFLINE would store" in refused.json()["error"]
    assert trips.push(make_segment("trips_0", [1, 2, 4])).status_code == 200  # it takes the place of the first
    config["quota"] = {"storage": "1G"}
    assert trips.controller.put("/tables/trips", json=config).status_code == 200
    assert trips.push(make_segment("trips_1", [5])).status_code == 200
    assert trips.rows(COUNT) == [[4, 12.0]]


def test_a_segment_goes_to_the_table_that_it_was_built_for(trips: Any, make_segment: Callable[..., Path]) -> None:
    for name, path in (("trips_0", "/segments"), ("trips_1", "/v2/segments")):
        archive = make_segment(name, [1, 2])
        with archive.open("rb") as file:
            answer = trips.controller.post(path, files={"segment": (archive.name, file)})
        assert answer.json() == {"status": f"Successfully uploaded segment: {name} of table: trips_OFFLINE"}
        trips.cluster.core.wait_until_visible("trips_OFFLINE", [name], 60)
    assert trips.rows(COUNT) == [[4, 6.0]]
    for _ in range(4):  # soon answered the short way
        assert trips.rows("SELECT $hostName, COUNT(*) FROM trips GROUP BY $hostName") == [["localhost", 4]]
        assert trips.rows("SELECT COUNT(*) FROM trips WHERE $hostName = 'localhost'") == [[4]]


class CopyFetcher:
    """A user's own fetcher of `mine:///PATH`."""

    def __init__(self, told: dict[str, str]) -> None:
        self.root = told["root"]

    def fetch(self, uri: str, path: Path) -> None:
        path.write_bytes((Path(self.root) / uri.rpartition("/")[2]).read_bytes())


def test_the_server_of_start_all_fetches_as_its_keys_say(make_segment: Callable[..., Path], tmp_path: Path) -> None:
    archive = make_segment("trips_0", [1, 2, 3])
    described = tmp_path / "described" / "trips_0"
    described.mkdir(parents=True)
    (described / "metadata.json").write_bytes((archive.parent / "trips_0" / "metadata.json").read_bytes())
    packed = pack(described, tmp_path / "metadata.tar.gz")
    fetcher, file = "pinot.server.segment.fetcher.mine", tmp_path / "config"
    file.write_text(f"{fetcher}.class={__name__}:CopyFetcher\n{fetcher}.root={archive.parent}\n")
    storage = read_storage(file, Role.SERVER)
    headers = {"UPLOAD_TYPE": "METADATA", "DOWNLOAD_URI": f"mine:///{archive.name}", "COPY_SEGMENT_TO_DEEP_STORE": "false"}
    with (
        EmbeddedCluster(
            tmp_path / "data",
            0,
            0,
            0,
            threads=1,
            warm_up=False,
            storage=StorageSettings(allowed_uris=("mine",)),
            server_storage=storage,
        ) as cluster,
        httpx.Client(base_url=cluster.controller_url, timeout=PATIENCE_S) as rest,
    ):
        assert rest.post("/schemas", json=SCHEMA).status_code == 200
        assert rest.post("/tables", json=TABLE).status_code == 200
        files = {"file": packed.read_bytes()}
        answer = rest.post("/v2/segments", params={"tableName": "trips"}, files=files, headers=headers)
        assert answer.status_code == 200, answer.text
        cluster.core.wait_until_visible("trips_OFFLINE", ["trips_0"], 60)


def test_fetcher_keys_of_the_server_are_not_called_unknown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "config"
    file.write_text("pinot.server.segment.fetcher.retry.count=5\npinot.minion.segment.fetcher.retry.count=5\n")
    read_access(file)
    assert ["pinot.minion.segment.fetcher.retry.count" in record.getMessage() for record in caplog.records] == [True]

"""Archives and names that would write outside their folder, sent to every route that accepts uploads."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.embedded.conftest import SCHEMA, TABLE
from tests.waiting import PATIENCE_S

from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_storage


def _tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(raw.getvalue())


def _member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def _attacks(folder: Path) -> dict[str, bytes]:
    bomb = tarfile.TarInfo("s/columns.bin")
    bomb.size = 1 << 50
    return {
        "parents": _tar((_member("../../../evil"), b"x")),
        "absolute": _tar((_member(f"{folder}/evil"), b"x")),
        "symlink": _tar((_member("s/out", tarfile.SYMTYPE, str(folder)), b""), (_member("s/out/evil"), b"x")),
        "hard link": _tar((_member("s/metadata.json", tarfile.LNKTYPE, "/etc/passwd"), b"")),
        "device": _tar((_member("s/metadata.json", tarfile.CHRTYPE), b"")),
        "bomb": gzip.compress(bomb.tobuf() + b"\0" * 4096),
        "no archive": b"hello",
    }


def _files(data_dir: Path) -> set[Path]:
    return {path for path in data_dir.rglob("*") if path.is_file() and path.suffix not in (".db", ".db-wal", ".db-shm")}


@pytest.mark.parametrize("kind", ["parents", "absolute", "symlink", "hard link", "device", "bomb", "no archive"])
def test_no_archive_writes_outside_its_folder(trips: Any, tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    data = _attacks(outside)[kind]
    before = _files(trips.data_dir)
    segment = "trips__0__0__20260101T0000Z"
    llc = {"segmentName": segment, "name": segment, "instance": "Server_a_1", "offset": "1", "streamPartitionMsgOffset": "1"}
    requests: list[tuple[str, dict[str, str], dict[str, str]]] = [
        ("/v2/segments", {"tableName": "trips"}, {}),
        ("/segments", {"tableName": "trips"}, {}),
        ("/v2/segments", {"tableName": "trips"}, {"UPLOAD_TYPE": "METADATA", "DOWNLOAD_URI": "http://localhost:1/a.tar.gz"}),
        ("/segments/batchUpload", {"tableName": "trips"}, {"UPLOAD_TYPE": "METADATA"}),
        ("/segmentUpload", llc, {}),
        ("/segmentCommitEndWithMetadata", llc | {"location": "deepstore:../../evil"}, {}),
    ]
    for path, params, headers in requests:
        files = {"file": ("../../evil.tar.gz", data)}
        answer = trips.controller.post(path, params=params, headers=headers, files=files)
        refused = answer.status_code in (400, 403, 409) or answer.json().get("status") in ("FAILED", "NOT_LEADER", "HOLD")
        assert refused, (path, answer.status_code, answer.text)
        assert "defect" not in answer.text
    assert list(outside.iterdir()) == []
    assert _files(trips.data_dir) == before
    assert trips.controller.get("/segments/trips").json()[0]["OFFLINE"] == []


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "/etc/passwd", "local:///etc/passwd"])
def test_a_controller_reads_no_files_of_its_own_for_pushers(trips: Any, uri: str) -> None:
    headers = {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": uri}
    for path in ("/v2/segments", "/segments"):
        answer = trips.controller.post(path, params={"tableName": "trips"}, headers=headers)
        assert answer.status_code == 400, answer.text
        assert "root:" not in answer.text


def test_a_controller_reads_the_folders_that_its_operator_allows(make_segment: Callable[..., Path], tmp_path: Path) -> None:
    archive = make_segment("trips_0", [1, 2])
    (tmp_path / "config").write_text(f"gamay.ingest.allowed_uris=file://{archive.parent}/\n")
    with (
        EmbeddedCluster(
            tmp_path / "data", 0, 0, 0, threads=1, warm_up=False, storage=read_storage(tmp_path / "config")
        ) as cluster,
        httpx.Client(base_url=cluster.controller_url, timeout=PATIENCE_S) as rest,
    ):
        assert rest.post("/schemas", json=SCHEMA).status_code == 200
        assert rest.post("/tables", json=TABLE).status_code == 200

        def push(uri: str) -> int:
            headers = {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": uri}
            return rest.post("/v2/segments", params={"tableName": "trips"}, headers=headers).status_code

        assert push("file:///etc/passwd") == 400
        assert push(f"file://{archive.parent}/../data/metadata.db") == 400
        assert push(f"file://{archive.parent}/nothing.tar.gz") == 404
        assert push(f"file://{archive}") == 200
        assert rest.get("/segments/trips").json()[0]["OFFLINE"] == ["trips_0"]


def test_names_of_segments_cannot_lead_anywhere(trips: Any, make_segment: Callable[..., Path], tmp_path: Path) -> None:
    """The archive of a valid segment with another name in its metadata."""
    archive = make_segment("trips_0", [1, 2])
    folder = archive.parent / "trips_0"
    metadata = (folder / "metadata.json").read_text()
    for name in ("../../evil", "..", "a/b", "a\\\\b"):
        (folder / "metadata.json").write_text(metadata.replace('"trips_0"', f'"{name}"'))
        data = _tar(*((_member(f"s/{path.name}"), path.read_bytes()) for path in folder.iterdir()))
        answer = trips.controller.post("/v2/segments", params={"tableName": "trips"}, files={"file": ("a.tar.gz", data)})
        assert answer.status_code == 400, answer.text
    assert not list(tmp_path.rglob("evil*"))

"""Uploads to a full disk: status 507, and no partial files."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gamay.storage.archive import pack
from gamay.storage.files import fetch


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_download_without_room_is_told(trips: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gamay.storage.fetchers.fetch", full)
    headers = {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": "http://localhost:1/a.tar.gz"}
    answer = trips.controller.post("/v2/segments", params={"tableName": "trips"}, headers=headers)
    assert answer.status_code == 507
    assert answer.json()["error"].startswith(
        "cannot add a segment to table 'trips_OFFLINE': there is no space on the disk of"
    )
    ingestion = {"tableNameWithType": "trips_OFFLINE", "sourceURIStr": "http://localhost:1/a.csv"}
    parameters = ingestion | {"batchConfigMapStr": '{"inputFormat": "csv"}'}
    assert trips.controller.post("/ingestFromURI", params=parameters).status_code == 507
    assert list((trips.data_dir / "tmp").iterdir()) == []


def test_a_batch_without_room_adds_none_of_its_segments(
    trips: Any, make_segment: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "batch"
    folder.mkdir()
    lines = []
    for name in ("trips_0", "trips_1"):
        archive = make_segment(name, [1, 2])
        lines += [name, archive.as_uri()]
        (folder / f"{name}.metadata.json").write_bytes((archive.parent / name / "metadata.json").read_bytes())
    (folder / "all_segments_metadata").write_text("\n".join(lines))

    def full_at_the_second(uri: str, target: Path, _: object) -> None:
        if "trips_1" in uri:
            full()
        fetch(uri, target)

    monkeypatch.setattr("gamay.storage.fetchers.fetch", full_at_the_second)
    with pack(folder, tmp_path / "batch.tar.gz").open("rb") as file:
        answer = trips.controller.post(
            "/segments/batchUpload",
            params={"tableName": "trips"},
            files={"file": file},
            headers={"COPY_SEGMENT_TO_DEEP_STORE": "true"},
        )
    assert (answer.status_code, "nothing was changed" in answer.json()["error"]) == (507, True)
    assert trips.controller.get("/segments/trips").json() == [{"OFFLINE": []}]
    assert list((trips.data_dir / "tmp").iterdir()) == []

"""A full disk: failed writes are reported, and leave no partial files."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import DiskFullError
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.storage.files import full_disk_explained


def test_the_metadata_store_goes_on_once_there_is_room(tmp_path: Path) -> None:
    store = EmbeddedStore.open(tmp_path / "metadata.db", ManualClock())
    database: Any = store._file.db
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages + 4}")

    def fill() -> None:
        for number in range(100):
            store.create(f"/a/b{number}", b"x" * 4000)

    with pytest.raises(DiskFullError, match=r"disk of the metadata store .* is full"):
        fill()
    written = store.children("/a")
    assert all(store.get(f"/a/{name}") is not None for name in written)
    database.execute("PRAGMA max_page_count = 1000000")
    store.create("/a/last", b"x" * 4000)
    assert store.children("/a") == sorted([*written, "last"])
    store.close()


def test_rows_that_find_no_room_leave_nothing(controller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    controller.write("before")

    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(type(controller.context.deep_store), "put", full)
        with pytest.raises(DiskFullError, match="cannot add rows to table 't_OFFLINE'"):
            controller.write("after")
    assert controller.segments.names("t_OFFLINE") == ["before"]
    assert controller.copies() == ["before"]
    controller.write("after")
    assert controller.segments.names("t_OFFLINE") == ["after", "before"]


def test_other_failures_of_the_system_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), full_disk_explained("cannot write", tmp_path):
        raise PermissionError(errno.EACCES, "no")

"""The contract of every deep store, on a folder, on S3 and on a file system with renames."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.base.ids import RANDOM_IDS
from gamay.storage.archive import unpack
from gamay.storage.deep_store import DeepStore
from gamay.storage.files import fetch
from gamay.storage.local_store import LocalStore
from gamay.storage.remote_store import RemoteStore, open_deep_store
from gamay.storage.retries import Retries

pytestmark = pytest.mark.filterwarnings("ignore")
TABLE = "t_OFFLINE"


@pytest.fixture(params=["folder", "s3", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DeepStore]:
    if request.param == "folder":
        local = open_deep_store(f"file://{tmp_path}/deep")
        local.prepare()
        yield local
    elif request.param == "s3":
        s3 = request.getfixturevalue("s3")
        yield open_deep_store(f"s3://{s3.bucket}/{RANDOM_IDS.new()}", s3.options)
    else:
        yield open_deep_store(f"memory://{RANDOM_IDS.new()}")


def archive(folder: Path, data: bytes, name: str = "x.tar.zst") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_a_copy_comes_back_as_it_was_put(store: DeepStore, tmp_path: Path) -> None:
    source = archive(tmp_path, b"abc" * 100_000)
    before_ms = time.time_ns() // 1_000_000
    url = store.put(source, TABLE, "a segment%+ü", 7)
    assert url == f"deepstore:{TABLE}/a segment%+ü__7.tar.zst"
    assert not source.exists()
    assert store.size(url) == 300_000
    assert store.get(url, tmp_path).read_bytes() == b"abc" * 100_000
    assert abs(store.modified_ms(url) - before_ms) < 60_000
    assert store.in_place(url) is None
    assert list(store.urls(TABLE)) == [url]
    assert list(store.urls("other_OFFLINE")) == []


def test_a_copy_is_replaced_by_one_of_the_same_name(store: DeepStore, tmp_path: Path) -> None:
    url = store.put(archive(tmp_path, b"old"), TABLE, "x", 7)
    assert store.put(archive(tmp_path, b"newer"), TABLE, "x", 7) == url
    assert store.get(url, tmp_path).read_bytes() == b"newer"
    assert list(store.urls(TABLE)) == [url]


def test_a_folder_is_put_whole(store: DeepStore, tmp_path: Path) -> None:
    folder = tmp_path / "seg"
    folder.mkdir()
    (folder / "metadata.json").write_text("{}")
    url = store.put(folder, TABLE, "seg", -3)
    assert not folder.exists()
    found = store.get(url, tmp_path)
    content = found if found.is_dir() else unpack(found, tmp_path / "out")
    assert (content / "metadata.json").read_text() == "{}"
    assert (store.in_place(url) is None) == isinstance(store, RemoteStore)
    assert list(store.urls(TABLE)) == [url]


def test_what_is_gone_is_said_to_be_gone(store: DeepStore, tmp_path: Path) -> None:
    url = f"deepstore:{TABLE}/x__1.tar.gz"
    with pytest.raises(NotFoundError, match="x__1"):
        store.get(url, tmp_path)
    with pytest.raises(NotFoundError, match="x__1"):
        store.size(url)
    assert store.modified_ms(url) == 0
    store.discard(url, None)
    store.discard(url, 5)
    assert store.purge(10**15) == 0


def test_what_is_deleted_is_kept_until_its_time(store: DeepStore, tmp_path: Path) -> None:
    first = store.put(archive(tmp_path, b"1"), TABLE, "a", 1)
    second = store.put(archive(tmp_path, b"2"), TABLE, "b", 1)
    third = store.put(archive(tmp_path, b"3"), TABLE, "c", 1)
    store.discard(first, 1000)
    store.discard(second, 2000)
    store.discard(third, None)
    assert list(store.urls(TABLE)) == []
    assert store.names(f"Deleted_Segments/{TABLE}") == [
        "a__1.tar.zst__RETENTION_UNTIL__1000", "b__1.tar.zst__RETENTION_UNTIL__2000",
    ]  # fmt: skip
    assert store.purge(1000) == 0
    assert store.purge(1001) == 1
    assert store.purge(1001) == 0
    assert store.purge(5000) == 1


def test_other_files_are_kept_apart_from_segments(store: DeepStore, tmp_path: Path) -> None:
    source = archive(tmp_path, b"snapshot", "s.bin")
    url = store.put_file(source, f"Upsert_Snapshots/{TABLE}", "s.bin")
    assert source.exists()
    assert store.put_file(archive(tmp_path, b"second", "s.bin"), f"Upsert_Snapshots/{TABLE}", "s.bin") == url
    assert store.get(url, tmp_path).read_bytes() == b"second"
    assert store.names(f"Upsert_Snapshots/{TABLE}") == ["s.bin"]
    assert list(store.urls(TABLE)) == []
    store.discard(url, None)
    assert store.names(f"Upsert_Snapshots/{TABLE}") == []


def test_an_upload_that_was_cut_short_is_no_copy(store: DeepStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = store.put(archive(tmp_path, b"kept"), TABLE, "kept", 1)
    source = archive(tmp_path, b"abc")
    if isinstance(store, LocalStore):
        monkeypatch.setattr("os.replace", killed)  # of a copy from another disk that was never given its name
        monkeypatch.setattr("os.unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            fetch(str(source), store.root / TABLE / "cut__2.tar.zst")
    elif not store._whole:
        monkeypatch.setattr(store._fs, "mv", killed)
        with pytest.raises(KeyboardInterrupt):
            store.put(source, TABLE, "cut", 2)
    monkeypatch.undo()
    found = store.unfinished(TABLE)
    assert len(found) == (isinstance(store, LocalStore) or not store._whole)
    assert list(store.urls(TABLE)) == [kept]
    assert store.names(TABLE) == ["kept__1.tar.zst"]
    assert store.unfinished("other_OFFLINE") == []
    for url in found:
        assert store.size(url) == 3
        assert store.modified_ms(url) > 0
        store.discard(url, None)
    assert store.unfinished(TABLE) == []


def killed(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


def test_foreign_files_are_not_taken_for_copies(store: DeepStore, tmp_path: Path) -> None:
    store.put_file(archive(tmp_path, b"mine", "notes.txt"), TABLE, "notes.txt")
    assert list(store.urls(TABLE)) == []


@pytest.mark.parametrize("url", ["../x__1", "t/../../etc/passwd", "t//x", "x", "/etc/passwd", "t/.", "t/a\0b", ""])
def test_no_url_leads_out_of_the_store(store: DeepStore, url: str, tmp_path: Path) -> None:
    for call in (store.size, store.modified_ms, store.in_place, lambda u: store.get(u, tmp_path)):
        if call == store.in_place and isinstance(store, RemoteStore):
            continue
        with pytest.raises(InvalidConfigError):
            call(f"deepstore:{url}")
    with pytest.raises(InvalidConfigError):
        store.discard(f"deepstore:{url}", None)


def test_a_store_that_is_away_is_tried_again_and_then_said_to_be(s3: Any, tmp_path: Path) -> None:
    waits: list[float] = []
    options = {
        **s3.options,
        "client_kwargs": {"endpoint_url": "http://127.0.0.1:9", "region_name": "us-east-1"},
        "config_kwargs": {"retries": {"max_attempts": 0}},
    }
    retries = Retries(3, 0.1, 5.0, sleep=waits.append, uniform=lambda low, high: (low + high) / 2)
    store = open_deep_store("s3://bucket/x", options, retries)
    source = archive(tmp_path, b"abc")
    with pytest.raises(OSError, match=r"127\.0\.0\.1:9") as caught:
        store.put(source, TABLE, "x", 1)
    assert "very-secret" not in str(caught.value)
    assert waits == pytest.approx([0.15, 0.75])
    assert source.exists()


def test_a_bucket_that_is_missing_is_said_to_be(s3: Any, tmp_path: Path) -> None:
    store = open_deep_store("s3://no-such-bucket/x", s3.options, Retries(sleep=lambda _: None))
    with pytest.raises(OSError, match="no-such-bucket"):
        store.put(archive(tmp_path, b"abc"), TABLE, "x", 1)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("gs://bucket/x", r"install the extra gamay\[gcs\]"),
        ("abfs://box@account/x", r"install the extra gamay\[azure\]"),
        ("s4://bucket/x", "Protocol not known: s4"),
        ("https://host/x", "a web server is read-only"),
    ],
)
def test_a_store_that_cannot_be_used_says_what_is_missing(uri: str, reason: str) -> None:
    with pytest.raises(InvalidConfigError, match=reason):
        open_deep_store(uri)


def test_a_folder_on_another_disk_is_copied_and_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    def other_disk(source: Path, target: Path) -> None:
        if Path(source).parent == tmp_path:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        real(source, target)

    real = os.replace
    monkeypatch.setattr(os, "replace", other_disk)
    store = LocalStore(tmp_path / "deep")
    store.prepare()
    source = archive(tmp_path, b"abc")
    assert store.path_of(store.put(source, TABLE, "x", 1)).read_bytes() == b"abc"
    assert not source.exists()


def test_a_folder_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    """It was most likely unmounted; files written under its name would be hidden once it is mounted again."""
    store = LocalStore(tmp_path / "deep")
    store.prepare()
    url = store.put(archive(tmp_path, b"abc"), TABLE, "x", 1)
    shutil.move(tmp_path / "deep", tmp_path / "away")
    for put in (lambda source: store.put(source, TABLE, "x", 1), lambda source: store.put_file(source, "more", "f")):
        with pytest.raises(FileNotFoundError, match=r"is gone, is it mounted\?"):
            put(archive(tmp_path, b"def"))
    assert not (tmp_path / "deep").exists()
    shutil.move(tmp_path / "away", tmp_path / "deep")
    assert store.path_of(url).read_bytes() == b"abc"

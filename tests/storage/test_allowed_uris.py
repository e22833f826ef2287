"""Which local files of the controller users may name, and what is said where Hadoop's library is missing."""

from pathlib import Path
from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.storage.fetchers import Fetchers
from gamay.storage.filesystems import open_filesystem
from gamay.storage.settings import ALLOWED_URIS, storage_settings


def fetchers(text: str) -> Fetchers:
    settings, used = storage_settings("controller", {ALLOWED_URIS: text})
    assert used == {ALLOWED_URIS}
    return Fetchers(settings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("allowed", "allowed2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a b.txt").write_text(name)
    (tmp_path / "allowed" / "link.txt").symlink_to(tmp_path / "allowed2" / "a b.txt")
    return tmp_path


def test_nothing_local_is_allowed_by_default(folder: Path) -> None:
    for uri in (f"file://{folder}/allowed/a%20b.txt", str(folder / "allowed" / "a b.txt"), "a.txt"):
        with pytest.raises(InvalidConfigError, match=ALLOWED_URIS):
            Fetchers().allowed(uri)
    assert Fetchers().allowed("s3://bucket/key") == "s3://bucket/key"


@pytest.mark.parametrize("slash", ["", "/"])
def test_files_below_an_allowed_folder_can_be_named(folder: Path, slash: str) -> None:
    found = fetchers(f" file:///nothing , file://{folder}/allowed{slash}")
    inside = str(folder / "allowed" / "a b.txt")
    assert found.allowed(f"file://{folder}/allowed/a%20b.txt") == found.allowed(inside) == inside
    beside = "allowed2/a%20b.txt"
    for uri in (beside, f"allowed/../{beside}", f"allowed/%2e%2e/{beside}", "allowed/link.txt"):
        with pytest.raises(InvalidConfigError, match=ALLOWED_URIS):
            found.allowed(f"file://{folder}/{uri}")
    assert fetchers("file").allowed(f"file://{folder}/allowed/link.txt") == str(folder / "allowed2" / "a b.txt")


@pytest.mark.parametrize("text", ["s3://bucket/", "/data", "file://relative", "files"])
def test_what_is_no_folder_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError, match=ALLOWED_URIS):
        fetchers(text)


def test_servers_have_no_such_setting() -> None:
    assert storage_settings("server", {ALLOWED_URIS: "file"})[1] == frozenset()


@pytest.mark.parametrize(
    "error",
    [
        OSError("Unable to load libhdfs\ndlopen(libhdfs.so) failed"),
        OSError("Environment variable CLASSPATH not set!"),
        OSError("Unable to load libjvm: no such file"),
        ImportError("pyarrow"),
    ],
)
def test_hdfs_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def missing(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(InvalidConfigError, match=r"install Hadoop's native library \(libhdfs.* and Java") as raised:
        open_filesystem("hdfs://namenode:8020/x")
    assert "\n" not in str(raised.value)


def test_a_file_system_that_does_not_answer_is_no_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise OSError("Connection refused")

    monkeypatch.setattr("fsspec.core.url_to_fs", away)
    with pytest.raises(OSError, match="Connection refused"):
        open_filesystem("hdfs://namenode:8020/x")

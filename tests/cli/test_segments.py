"""Segments as named on the command line."""

from pathlib import Path

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.cli.segments import segments_in, with_archive
from gamay.storage.archive import pack, unpack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("s_1", "s_0"):
        unpacked = tmp_path / "segments" / name
        unpacked.mkdir(parents=True)
        (unpacked / "metadata.json").write_text(name)
    pack(tmp_path / "segments" / "s_0", tmp_path / "segments" / "s_2.tar.gz")
    (tmp_path / "segments" / "notes.txt").write_text("")
    (tmp_path / "segments" / "logs").mkdir()
    return tmp_path / "segments"


def test_a_path_names_a_segment_or_a_folder_of_them(folder: Path) -> None:
    assert [path.name for path in segments_in(folder)] == ["s_0", "s_1", "s_2.tar.gz"]
    assert segments_in(folder / "s_1") == [folder / "s_1"]
    assert segments_in(folder / "s_2.tar.gz") == [folder / "s_2.tar.gz"]
    for path, text in ((folder / "logs", "no segment in"), (folder / "nothing", "does not exist")):
        with pytest.raises(InvalidConfigError, match=text):
            segments_in(path)


def test_an_unpacked_segment_is_packed_for_the_push(folder: Path, tmp_path: Path) -> None:
    with with_archive(folder / "s_1") as archive:
        assert archive.name == "s_1.tar.zst"
        assert (unpack(archive, tmp_path / "again") / "metadata.json").read_text() == "s_1"
    assert not archive.exists()
    with with_archive(folder / "s_2.tar.gz") as archive:
        assert archive == folder / "s_2.tar.gz"

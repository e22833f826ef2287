"""Archives: deterministic, recognised by content, and safe for any content."""

import gzip
import io
import os
import random
import tarfile
import tracemalloc

import pytest
import zstandard

from gamay.base.errors import ConflictError, CorruptSegmentError, InvalidConfigError
from gamay.storage.archive import pack, unpack


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "in" / "flights_0"
    (folder / "sub").mkdir(parents=True)
    (folder / "metadata.json").write_text("{}")
    (folder / "columns.bin").write_bytes(random.Random(1).randbytes(300_000))
    (folder / "sub" / "empty").touch()
    return folder


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.gz", ".tgz"])
def test_round_trip(folder, tmp_path, suffix):
    archive = pack(folder, tmp_path / f"x{suffix}")
    assert unpack(archive, tmp_path / "out") == tmp_path / "out"
    assert content(tmp_path / "out") == content(folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out", f"x{suffix}"]


@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.gz"])
def test_equal_folders_give_equal_archives(folder, tmp_path, suffix):
    first = pack(folder, tmp_path / f"a{suffix}").read_bytes()
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
    (folder / "columns.bin").chmod(0o600)
    assert pack(folder, tmp_path / f"b{suffix}").read_bytes() == first


def test_the_name_decides_the_form_and_a_strange_one_is_refused(folder, tmp_path):
    assert pack(folder, tmp_path / "a.tar.gz").read_bytes()[:2] == b"\x1f\x8b"
    with pytest.raises(InvalidConfigError, match=r"expected a name in \.tar\.zst"):
        pack(folder, tmp_path / "a.zip")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar.gz", "in"]


def test_content_decides_what_is_read(folder, tmp_path):
    archive = pack(folder, tmp_path / "a.tar.zst").rename(tmp_path / "a.tar.gz")
    assert content(unpack(archive, tmp_path / "out")) == content(folder)


def test_files_without_a_folder_at_the_top(tmp_path):
    archive = make_archive(tmp_path, [("metadata.json", b"{}"), ("columns.bin", b"x")])
    assert content(unpack(archive, tmp_path / "out")) == {"metadata.json": b"{}", "columns.bin": b"x"}


def test_an_empty_destination_is_fine_and_a_full_one_is_not(folder, tmp_path):
    archive = pack(folder, tmp_path / "a.tar.zst")
    (tmp_path / "out").mkdir()
    unpack(archive, tmp_path / "out")
    with pytest.raises(ConflictError, match="exists already"):
        unpack(archive, tmp_path / "out")


def make_archive(tmp_path, members, compress=gzip.compress, name="bad.tar.gz"):
    """members: (name, bytes) or TarInfo."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
    path = tmp_path / name
    path.write_bytes(compress(raw.getvalue()))
    return path


def link(kind, target):
    info = tarfile.TarInfo("s/link")
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("../evil", b"x")], "outside its folder"),
        ([("s/../../evil", b"x")], "outside its folder"),
        ([("/etc/evil", b"x")], "outside its folder"),
        ([("s\\..\\evil", b"x")], "outside its folder"),
        ([link(tarfile.SYMTYPE, "/etc/passwd")], "a link or device"),
        ([link(tarfile.LNKTYPE, "s/x")], "a link or device"),
        ([link(tarfile.CHRTYPE, "")], "a link or device"),
        ([link(tarfile.FIFOTYPE, "")], "a link or device"),
        ([("s/a", b"x"), ("s/a", b"y")], "twice"),
        ([("s/a", b"x"), ("s/a/b", b"y")], "has the member 's/a/b'"),
        ([("x" * 300, b"x")], "File name too long"),
        ([("s/a", b"x" * 1001)], "too large"),
        ([(f"s/{i}", b"") for i in range(11)], "too large"),
        ([], "holds no files"),
    ],
)
def test_unsafe_archives_are_refused_and_leave_nothing(tmp_path, members, message):
    archive = make_archive(tmp_path, members)
    with pytest.raises(CorruptSegmentError, match=message):
        unpack(archive, tmp_path / "deep" / "out", bytes_max=1000, members_max=10)
    assert list((tmp_path / "deep").iterdir()) == []
    assert not (tmp_path / "evil").exists()


def test_a_bomb_in_a_header_is_refused_without_reading_it(tmp_path):
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 1 << 30
    raw = header.tobuf(tarfile.GNU_FORMAT) + b"1" * (64 << 20)
    path = tmp_path / "bomb.tar.zst"
    path.write_bytes(zstandard.compress(raw))
    tracemalloc.start()
    with pytest.raises(CorruptSegmentError, match="headers of more than"):
        unpack(path, tmp_path / "out")
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04zip", b"plain text", b"\x28\xb5\x2f\xfdrubbish", b"\x1f\x8brubbish"])
def test_foreign_files_are_refused(tmp_path, data):
    path = tmp_path / "a.tar.zst"
    path.write_bytes(data)
    with pytest.raises(CorruptSegmentError, match=path.name):
        unpack(path, tmp_path / "out")


@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.gz"])
def test_damage_is_seen(folder, tmp_path, suffix):
    archive = pack(folder, tmp_path / f"a{suffix}")
    data = archive.read_bytes()
    for size in (5, 1000, len(data) // 2, len(data) - 1000):
        archive.write_bytes(data[:size])
        with pytest.raises(CorruptSegmentError):
            unpack(archive, tmp_path / "out")
    for position in (100, len(data) // 2, len(data) - 500):
        broken = bytearray(data)
        broken[position] ^= 4
        archive.write_bytes(broken)
        with pytest.raises(CorruptSegmentError):
            unpack(archive, tmp_path / "out")

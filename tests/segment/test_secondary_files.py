"""The files of secondary indexes: round trips, and damaged or foreign files are not used."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from gamay.base.clock import ManualClock
from gamay.model.table.secondary_indexes import SECONDARY_KINDS, IndexDeclaration, declared_indexes
from gamay.model.types import DataType
from gamay.segment.describe import describe
from gamay.segment.encode.format import read_metadata_file, write_metadata_file
from gamay.segment.read.reader import open_segment
from gamay.segment.secondary.files import INDEXES_FILE, read_index_list, remove_indexes, write_index_list
from gamay.segment.secondary.registry import index_type
from gamay.segment.write.secondary_indexes import add_indexes

FST = [IndexDeclaration("fst", ("s",), {})]
TEXTS = [f"entry {number % 50} of many" for number in range(200)]


def test_every_kind_has_a_type() -> None:
    assert all(index_type(kind).kind == kind for kind in SECONDARY_KINDS)


def test_both_forms_declare_an_index(kit: Any) -> None:
    schema = kit.schema(kit.field("s", DataType.STRING), kit.field("t", DataType.STRING))
    newer = {"name": "s", "indexes": {"fst": {}}}
    older = {"name": "t", "indexType": "FST"}
    off = {"name": "t", "indexes": {"fst": {"disabled": True}}}
    assert declared_indexes(kit.config([newer, older]), schema) == (*FST, IndexDeclaration("fst", ("t",), {}))
    assert declared_indexes(kit.config([newer, off]), schema) == tuple(FST)


@pytest.fixture
def folder(kit: Any) -> Path:
    schema = kit.schema(kit.field("s", DataType.STRING), kit.field("n", DataType.INT))
    path: Path = kit.build(schema, kit.config(), {"s": TEXTS, "n": list(range(200))})
    add_indexes(path, [*FST, IndexDeclaration("fst", ("absent",), {})], ManualClock())
    return path


def used(folder: Path, *, own: bool = True) -> list[str]:
    segment = open_segment(folder, own_indexes=own)
    try:
        return [index.kind for index in segment.column("s").indexes]
    finally:
        segment.close()


def test_indexes_are_read_back_and_shown(folder: Path) -> None:
    info = open_segment(folder).info
    (stored,) = read_index_list(folder, info.crc)
    assert stored.declaration == FST[0]
    assert stored.size_bytes == sum(file.stat().st_size for file in (folder / "indexes" / "0").iterdir())
    assert used(folder) == ["fst"]
    assert "secondary index  columns" in describe(folder)


def test_a_pushed_index_is_used_where_it_can_be_checked(folder: Path) -> None:
    assert used(folder, own=False) == ["fst"]


@pytest.mark.parametrize("place", ["list", "file", "missing file", "foreign"])
def test_damage_is_seen_and_the_index_not_used(folder: Path, place: str, caplog: pytest.LogCaptureFixture) -> None:
    (file,) = (folder / "indexes" / "0").iterdir()
    damaged = folder / INDEXES_FILE if place in ("list", "foreign") else file
    content = bytearray(damaged.read_bytes())
    if place == "missing file":
        damaged.unlink()
    elif place == "foreign":
        remove_indexes(folder)
        segment = open_segment(folder)
        write_index_list(folder, segment.info.crc + 1, [])
    else:
        content[len(content) // 2] ^= 0x55
        damaged.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert used(folder) == []
    assert "not used" in caplog.text


def test_a_pushed_index_of_another_structure_is_refused(folder: Path) -> None:
    """Valid checksums prove nothing about files from outside."""
    document = read_metadata_file(folder, INDEXES_FILE)
    for change in ({"entries": 49}, {"buffers": []}, {"buffers": [["trigrams.codes", 64, 1 << 40, 0]]}):
        changed = json.loads(json.dumps(document))
        changed["indexes"][0]["content"] |= change
        write_metadata_file(folder, changed, INDEXES_FILE)
        assert used(folder, own=False) == []


def test_files_of_equal_indexes_are_taken_over(folder: Path, tmp_path: Path, kit: Any) -> None:
    segment = open_segment(folder, own_indexes=True)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("metadata.json", "columns.bin"):
        (copy / name).write_bytes((folder / name).read_bytes())
    add_indexes(copy, [IndexDeclaration("ifst", ("s",), {}), *FST], ManualClock(), segment.indexes)
    assert used(copy) == ["ifst", "fst"]
    (own,) = (folder / "indexes" / "0").iterdir()
    assert (copy / "indexes" / "1" / own.name).stat().st_ino == own.stat().st_ino
    remove_indexes(copy)
    assert used(copy) == []
    assert used(folder) == ["fst"]

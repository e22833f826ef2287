"""Buffers allocated before their segment begins: the same sizes as otherwise, and no effect on its contents."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import DiskFullError
from gamay.model.types import DataType
from gamay.segment.mutable import MutableSegment, Sizing
from gamay.segment.mutable import buffers as module
from gamay.segment.mutable.buffers import SpareBuffers


@pytest.fixture
def table(kit: Any) -> tuple[Any, Any, Any]:
    """Return schema, config and a batch of a table with a dictionary, an inverted index, texts and raw numbers."""
    fields = [kit.field("a", DataType.LONG), kit.field("s", DataType.STRING), kit.field("m", DataType.INT, False)]
    configs = [{"name": "a", "encodingType": "RAW", "indexes": {"range": {}}}, {"name": "s", "indexes": {"inverted": {}}}]
    schema = kit.schema(*fields)
    rows = {"a": list(range(500)), "s": [f"v{n % 77}" for n in range(500)], "m": [[n, n + 1] for n in range(500)]}
    return schema, kit.config(configs), kit.batch(schema, rows)


@pytest.fixture
def begin(table: Any, tmp_path: Path) -> Any:
    schema, config, _ = table

    def make(folder: str, rows: int = 1000, spare: SpareBuffers | None = None) -> MutableSegment:
        return MutableSegment("s", schema, config, tmp_path / folder, Sizing(rows), ManualClock(), spare)

    return make


def sealed(segment: MutableSegment, batch: Any, out: Path) -> list[bytes]:
    segment.append(batch.slice(0, 300))
    segment.append(batch.slice(300))
    return [path.read_bytes() for path in sorted(segment.seal(out).iterdir())]


@pytest.mark.parametrize("rows", [1000, 5], ids=["the same shapes", "others"])
def test_a_segment_is_the_same_with_spare_buffers(
    begin: Any, table: Any, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, batch = table
    plain = begin("plain")
    spare = SpareBuffers(tmp_path / "spare", plain.shapes)
    made: list[Path] = []
    init = module.GrowingArray.__init__

    def count(self: Any, path: Path, dtype: Any, expected: int = 0) -> None:
        made.append(path)
        init(self, path, dtype, expected)

    monkeypatch.setattr(module.GrowingArray, "__init__", count)
    with_spare = begin("with", rows, spare)
    if rows == 1000:
        assert not made
    assert not (tmp_path / "spare").exists()
    files = sum(1 for _ in (tmp_path / "with/s").iterdir())
    assert files == len(plain.shapes) == len(with_spare.shapes)
    assert sealed(with_spare, batch, tmp_path / "1") == sealed(plain, batch, tmp_path / "2")
    with_spare.close()
    assert not (tmp_path / "with/s").exists()


def test_buffers_that_were_removed_are_made_anew(begin: Any, table: Any, tmp_path: Path) -> None:
    plain = begin("plain")
    spare = SpareBuffers(tmp_path / "spare", plain.shapes)
    shutil.rmtree(tmp_path / "spare")
    assert sealed(begin("with", spare=spare), table[2], tmp_path / "1") == sealed(plain, table[2], tmp_path / "2")


def test_nothing_is_left_when_they_cannot_be_made(begin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = begin("plain").shapes
    reserved = 0

    def reserve(*arguments: Any) -> None:
        nonlocal reserved
        reserved += 1
        if reserved == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "posix_fallocate", reserve)
    with pytest.raises(DiskFullError):
        SpareBuffers(tmp_path / "spare", shapes)
    assert not (tmp_path / "spare").exists()

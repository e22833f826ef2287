"""Snapshots on a server's disk: which copies of segments have one, and the cost of finding out."""

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.naive.upsert_histories import MemorySegment, Replica, conformed
from tests.upsert.test_stored_keys import GENERATIONS, SCHEMA, settings_of

from gamay.upsert.config.parallel import Phase
from gamay.upsert.persist.host import Host
from gamay.upsert.persist.snapshots import SnapshotFolder
from gamay.upsert.rows.valid_docs import SegmentDocs
from gamay.upsert.spi import SegmentSource


def rows_that_count(number: int = 1) -> SegmentDocs:
    docs = SegmentDocs(number, has_deletes=False)
    docs.add(np.arange(number))
    return docs


def test_a_folder_holds_what_was_written_and_not_removed(tmp_path: Path) -> None:
    rng, folder, expected = random.Random(1), SnapshotFolder(tmp_path / "s"), set[tuple[str, int]]()
    for _ in range(400):
        name, crc = rng.choice(["a", "a__b", "b", "t__0__1__20260101T0000Z"]), rng.randrange(-1, 3)
        action = rng.random()
        if action < 0.5:
            folder.write(name, crc, rows_that_count(), has_deletes=False)
            expected.add((name, crc))
        elif action < 0.9:
            kept = rng.choice([None, crc])
            folder.remove(name, kept)
            expected = {known for known in expected if known[0] != name or known[1] == kept}
        elif action < 0.95:
            folder = SnapshotFolder(tmp_path / "s")  # the server is started again
        elif action < 0.97:
            folder.write_watermark(0, 1.0)
        elif action < 0.98:
            folder.remove_all()
            expected = set()
        found = {path.name.rpartition("__")[::2] for path in (tmp_path / "s").glob("*__*")}
        assert found == {(name, str(crc)) for name, crc in expected}
        assert folder.has(name, crc) is ((name, crc) in expected)


@pytest.mark.parametrize("num_segments", [2, 40])
def test_loading_many_segments_lists_their_snapshots_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_segments: int
) -> None:
    root = tmp_path / "own"
    names = [f"t__0__{number}__20260101T0000Z" for number in range(num_segments)]
    for name in names:  # of a copy that was replaced while the server was away
        SnapshotFolder(root).write(name, 99, rows_that_count(), has_deletes=False)
    replica = Replica(settings_of(), tmp_path, random.Random(1), reorders=False)
    listings: list[Any] = []
    for module_function in ("listdir", "scandir"):
        called = getattr(os, module_function)

        def counted(path: Any = ".", called: Any = called) -> Any:
            listings.append(path)
            return called(path)

        monkeypatch.setattr(os, module_function, counted)
    sources = []
    for number, name in enumerate(names):
        rows = conformed(SCHEMA, [{"k": name, "c": number, "d": False, "rid": number}])
        sources.append(SegmentSource(MemorySegment(name, SCHEMA, rows), 1, 1))  # type: ignore[arg-type]
    replica.table.expect(sources)
    for source in sources:
        replica.table.load(source, lambda _: None)
    assert sum(Path(path) == root for path in listings if isinstance(path, str | os.PathLike)) == 1
    assert not list(root.glob("*__99"))
    replica.table.settle(0)
    assert {path.name for path in root.iterdir()} == {f"{name}__1" for name in names}


@pytest.mark.parametrize("more", [{}, GENERATIONS])
@pytest.mark.parametrize("starts_again", [False, True])
def test_a_partition_that_comes_back_without_snapshots_is_as_the_stream_brought_it(
    tmp_path: Path, more: dict[str, str], starts_again: bool
) -> None:
    """A server that had a partition up to a later moment forgets that, and finds which rows replaced which."""
    replica = Replica(settings_of(metadataTTL=100, metadataManagerConfigs=more), tmp_path, random.Random(1), reorders=False)
    replica.host = Host()  # the deep store is out of reach
    replica._open()
    replica._begin()
    for rows in (
        [("a", 1000, False), ("b", 1000, False), ("a", 1050, False)],
        [("b", 1060, True), ("c", 1070, False), ("a", 1100, False)],
        [("c", 9000, False), ("a", 9001, False)],
        [("d", 9002, False)],
    ):
        replica.add([{"k": k, "c": c, "d": d, "rid": c} for k, c, d in rows])
        replica.commit(begins=rows[0][0] != "d")
    expected = {name: docs.snapshot().docs.tolist() for name, docs in replica.docs.items()}
    assert list(expected.values()) == [[], [1, 2], [0, 1], [0]]  # c and a came back when they had been forgotten

    for name in list(replica.sealed):
        replica.table.remove(name, lambda: None)
    if starts_again:
        replica._open()
    sources = [replica._source(segment) for segment in replica.sealed.values()]
    replica.table.expect(sources)
    assert replica.table.must_wait(0, replica.name, lambda _: Phase.DOWNLOADING, {source.segment.name for source in sources})
    docs = {source.segment.name: replica.table.load(source, lambda _: None) for source in sources}
    assert {name: found.snapshot().docs.tolist() for name, found in docs.items()} == expected
    assert not replica.table.must_wait(0, replica.name, lambda _: Phase.DOWNLOADING)

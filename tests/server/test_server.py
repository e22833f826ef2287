"""A server with records in a store: loading, swapping, reporting and retrying segments."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.waiting import eventually

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import NotFoundError
from gamay.base.ids import RANDOM_IDS
from gamay.cluster.records.records import ONLINE, Assignment, SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.cluster.store.znrecord import decode
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.layout.rebuild import TableLayout, rebuild
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import Segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.server.instance.instance import ServerInstance
from gamay.server.loading import loader as loading
from gamay.server.loading.loader import SegmentLoader
from gamay.server.loading.sources import SegmentSources
from gamay.server.loading.table import TableData
from gamay.storage.archive import pack

ME = "Server_a_1"
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "s", "dataType": "STRING"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "d", "dataType": "BIG_DECIMAL"}],
        "enableColumnBasedNullHandling": True,
    }
).value
CONFIG = TableConfig.offline("t")


class World:
    """A store, a folder of archives, and a server that watches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = EmbeddedStore.open(folder / "metadata.db", SYSTEM_CLOCK)
        self.registry = Registry(self.store)
        self.registry.create_ideal_state(Assignment.new_table("t_OFFLINE", 1))
        self.server = self.new_server()

    def new_server(self, sources: SegmentSources | None = None) -> ServerInstance:
        loader = SegmentLoader(
            self.folder / "server",
            sources or SegmentSources(),
            lambda _: TableLayout(SCHEMA, CONFIG),
            SYSTEM_CLOCK,
            RANDOM_IDS,
        )
        return ServerInstance(ME, Registry(self.store.new_session()), loader, SYSTEM_CLOCK)

    def archive(self, name: str, rows: int) -> tuple[Path, SegmentRecord]:
        out = self.folder / "built" / RANDOM_IDS.new()
        builder = SegmentBuilder(SCHEMA, CONFIG, name, out)
        table = {
            "s": [f"v{i % 7}" for i in range(rows)],
            "n": list(range(rows)),
            "tags": [["a", "b"]] * rows,
            "d": ["1.5"] * rows,
        }
        builder.append(Pipeline(SCHEMA, CONFIG).apply(pa.record_batch(table)))
        folder = builder.build()
        info = read_metadata(folder)
        path = pack(folder, out / f"{name}.tar.gz")
        return path, SegmentRecord(name, crc=info.crc, total_docs=rows, download_url=str(path))

    def add(self, name: str, rows: int = 10) -> Path:
        path, record = self.archive(name, rows)
        self.registry.update_segment("t_OFFLINE", name, lambda _: record)
        self.registry.update_ideal_state("t_OFFLINE", lambda i: i.with_segments({name: {ME: ONLINE}}))
        return path

    def rows(self) -> dict[str, int]:
        data = self.server.table("t_OFFLINE")
        return {} if data is None else {name: loaded.segment.num_docs for name, loaded in data.snapshot().items()}

    def reported(self) -> dict[str, str]:
        node = self.store.get(paths.current_state(ME, "t_OFFLINE"))
        return {} if node is None else {name: s[ME] for name, s in Assignment.from_record(decode(node.value)).states.items()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.server.stop()
    made.store.close()


def test_a_server_follows_its_ideal_state(world: World) -> None:
    world.add("before", 5)
    assert not world.server.ready
    world.server.start()
    assert world.server.ready
    assert world.rows() == {"before": 5}
    world.add("after", 6)
    eventually(lambda: world.rows() == {"before": 5, "after": 6})
    eventually(lambda: world.reported() == {"before": ONLINE, "after": ONLINE})
    world.add("after", 7)
    eventually(lambda: world.rows()["after"] == 7)
    world.registry.update_ideal_state("t_OFFLINE", lambda i: i.with_segments({}, frozenset({"before"})))
    eventually(lambda: world.rows() == {"after": 7})
    eventually(lambda: len(list((world.folder / "server" / "t_OFFLINE").iterdir())) == 1)
    world.registry.delete_ideal_state("t_OFFLINE")
    eventually(lambda: world.rows() == {})
    eventually(lambda: world.store.get(paths.current_state(ME, "t_OFFLINE")) is None)


def test_a_snapshot_outlives_swap_and_drop(world: World) -> None:
    world.add("x", 100)
    world.server.start()
    data = world.server.table("t_OFFLINE")
    assert data is not None
    held = data.snapshot()
    world.registry.delete_ideal_state("t_OFFLINE")
    # os.walk passes over folders that vanish while it looks at them
    eventually(lambda: not any("columns.bin" in files for _, _, files in os.walk(world.folder / "server")))
    column = held["x"].segment.column("n")
    assert column.values(0, 100).values.tolist() == list(range(100))


def test_a_broken_download_is_an_error_until_it_is_whole(world: World) -> None:
    path = world.add("good", 5)
    broken, record = world.archive("broken", 8)
    content = broken.read_bytes()
    broken.write_bytes(content[: len(content) // 2])
    world.registry.update_segment("t_OFFLINE", "broken", lambda _: record)
    world.registry.update_ideal_state("t_OFFLINE", lambda i: i.with_segments({"broken": {ME: ONLINE}}))
    world.server.start()
    assert world.rows() == {"good": 5}
    assert world.reported() == {"good": ONLINE, "broken": "ERROR"}
    assert world.server.failures("t_OFFLINE")["broken"].reason
    broken.write_bytes(content)
    eventually(lambda: world.rows() == {"good": 5, "broken": 8})
    eventually(lambda: world.reported() == {"good": ONLINE, "broken": ONLINE})
    assert world.server.failures("t_OFFLINE") == {}
    assert path.exists()


def test_a_foreign_segment_is_never_served(world: World) -> None:
    path, _ = world.archive("other", 5)
    record = SegmentRecord("mine", crc=123, total_docs=5, download_url=str(path))
    world.registry.update_segment("t_OFFLINE", "mine", lambda _: record)
    world.registry.update_ideal_state("t_OFFLINE", lambda i: i.with_segments({"mine": {ME: ONLINE}}))
    world.server.start()
    assert world.rows() == {}
    assert "other" in world.server.failures("t_OFFLINE")["mine"].reason
    assert [p for p in (world.folder / "server").rglob("*") if p.is_file()] == []


def test_a_restart_uses_what_is_on_disk_and_sweeps_the_rest(world: World) -> None:
    path = world.add("x", 5)
    world.server.start()
    world.server.stop()
    path.unlink()
    table = world.folder / "server" / "t_OFFLINE"
    (table / ".tmp-left-over").mkdir()
    (table / "y__1").mkdir()
    (world.folder / "server" / "gone_OFFLINE" / "z__1").mkdir(parents=True)
    world.store.delete(paths.live_instance(ME))
    world.server = world.new_server()
    world.server.start()
    assert world.rows() == {"x": 5}
    assert [p.name.partition("__")[0] for p in table.iterdir()] == ["x"]
    assert not (world.folder / "server" / "gone_OFFLINE").exists()


def test_a_restart_needs_nobody_to_fetch_from(world: World) -> None:
    """As after a power failure, when servers are back before controllers."""

    class Nobody(SegmentSources):
        def fetch(self, table: str, record: SegmentRecord, *_: Any, **__: Any) -> Any:
            raise NotFoundError("no controller is live")

    world.add("x", 5)
    world.server.start()
    world.server.stop()
    world.store.delete(paths.live_instance(ME))
    world.server = world.new_server(Nobody())
    world.server.start()
    assert world.rows() == {"x": 5}
    assert world.server.failures("t_OFFLINE") == {}


def test_a_copy_that_cannot_be_opened_now_is_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(*_: object, **__: object) -> Segment:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    path = world.add("x", 5)
    world.server.start()
    world.server.stop()
    path.unlink()
    world.store.delete(paths.live_instance(ME))
    world.server = world.new_server()
    with monkeypatch.context() as patched:
        patched.setattr(loading, "open_segment", starved)
        world.server.start()
        assert world.reported() == {"x": "ERROR"}
    eventually(lambda: world.rows() == {"x": 5})


def full(*_: object) -> Path:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_copy_that_finds_no_room_is_an_error_until_it_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add("x", 5)
    with monkeypatch.context() as patch:
        patch.setattr("gamay.server.loading.loader.unpack", full)
        world.server.start()
        reason = world.server.failures("t_OFFLINE")["x"].reason
        assert "cannot make a copy of segment 'x': there is no space on the disk of" in reason
    eventually(lambda: world.rows() == {"x": 5})


def test_a_segment_keeps_its_indexes_where_there_is_no_room_for_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, record = world.archive("x", 5)
    wanted = TableConfig.from_json(CONFIG.to_json() | {"tableIndexConfig": {"invertedIndexColumns": ["tags"]}}).value
    layout = TableLayout(SCHEMA, wanted)
    loader = SegmentLoader(world.folder / "server", SegmentSources(), lambda _: layout, SYSTEM_CLOCK, RANDOM_IDS)
    with monkeypatch.context() as patch:
        patch.setattr("gamay.server.loading.loader.rebuild", full)
        assert not layout.matches(loader.load("t_OFFLINE", record).segment.info)
    assert layout.matches(loader.load("t_OFFLINE", record).segment.info)


def test_swapping_is_one_step() -> None:
    data = TableData("t")
    loaded: Any = object()
    assert data.swap({"a": loaded}) == []
    before = data.snapshot()
    assert data.swap({"b": loaded}, ["a", "missing"]) == [loaded]
    assert (set(before), set(data.snapshot())) == ({"a"}, {"b"})


def test_a_rebuilt_segment_holds_the_same_rows(tmp_path: Path) -> None:
    rows = 70_000
    builder = SegmentBuilder(SCHEMA, CONFIG, "x", tmp_path / "a")
    table = pa.table(
        {
            "s": [None if i % 5 == 0 else f"v{i % 11}" for i in range(rows)],
            "n": pa.array([None if i % 3 == 0 else (i * 31) % 1000 for i in range(rows)], pa.int64()),
            "tags": [["a"] * (i % 3) or None for i in range(rows)],
            "d": ["1.50"] * rows,
        }
    )
    pipeline = Pipeline(SCHEMA, CONFIG)
    for batch in table.to_batches(max_chunksize=30_000):
        builder.append(pipeline.apply(batch))
    first = open_segment(builder.build())
    document = CONFIG.to_json()
    document["tableIndexConfig"] = {
        "invertedIndexColumns": ["s", "tags"],
        "noDictionaryColumns": ["d"],
        "rangeIndexColumns": ["n"],
    }
    layout = TableLayout(SCHEMA, TableConfig.from_json(document).value)
    assert TableLayout(SCHEMA, CONFIG).matches(first.info)
    assert not layout.matches(first.info)
    assert layout.fingerprint() != TableLayout(SCHEMA, CONFIG).fingerprint()
    second = open_segment(rebuild(first, layout, tmp_path / "b", SYSTEM_CLOCK))
    assert layout.matches(second.info)
    assert second.info.creation_time_ms == first.info.creation_time_ms
    for name in first.column_names:
        one, two = first.column(name), second.column(name)
        assert (one.null_docs or set()) == (two.null_docs or set())
        a, b = one.values(0, rows), two.values(0, rows)
        assert list(a.values) == list(b.values) if not hasattr(a.values, "equals") else a.values.equals(b.values)
        assert (a.offsets is None) == (b.offsets is None)
        if a.offsets is not None and b.offsets is not None:
            assert a.offsets.tolist() == b.offsets.tolist()


def test_a_table_that_is_made_while_the_server_thinks_it_gone_is_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, read = [], Registry.get_ideal_state

    def late(registry: Registry, table: str) -> Assignment | None:
        asked.append(table)
        return None if table == "new_OFFLINE" and asked.count(table) == 1 else read(registry, table)

    world.server.start()
    monkeypatch.setattr(Registry, "get_ideal_state", late)
    world.registry.create_ideal_state(Assignment.new_table("new_OFFLINE", 1))
    world.add("later")  # is looked at by the same thread, afterwards
    eventually(lambda: "later" in world.rows())
    assert asked.count("new_OFFLINE") > 1
    assert world.server.table("new_OFFLINE") is not None

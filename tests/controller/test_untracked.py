"""Archives in the deep store that belong to no segment."""

import os
from pathlib import Path
from typing import Any

import pytest

from gamay.controller.health.repair import repair
from gamay.controller.segments.retention import RetentionManager
from gamay.controller.segments.untracked import set_aside_untracked, untracked_ms
from gamay.model.table.table_config import TableConfig

HOUR_S = 3600
FLAG = "controller.retentionManager.untrackedSegmentDeletionEnabled"


class Store:
    """The folder of the table `t` in a controller's deep store."""

    def __init__(self, controller: Any) -> None:
        self.controller = controller
        self.folder: Path = controller.folder / "deepstore" / "t_OFFLINE"
        self.folder.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, hours: float) -> None:
        """Add a file with an age in hours."""
        (self.folder / name).write_bytes(b"rows")
        self.touch(name, hours)

    def touch(self, name: str, hours: float) -> None:
        at_s = self.controller.clock.now_ms() / 1000 - hours * HOUR_S
        os.utime(self.folder / name, (at_s, at_s))

    def run(self) -> None:
        RetentionManager(self.controller.context, self.controller.tables, self.controller.segments).run()

    def names(self) -> set[str]:
        return {path.name.partition("__")[0] for path in self.folder.iterdir()}

    def aside(self) -> set[str]:
        folder = self.folder.parent / "Deleted_Segments" / "t_OFFLINE"
        return {path.name.partition("__")[0] for path in folder.glob("*")}

    def configure(self, **segments: str) -> None:
        document = self.controller.tables.document("t_OFFLINE")
        self.controller.registry.put_table_config(
            "t_OFFLINE", {**document, "segmentsConfig": {**document["segmentsConfig"], **segments}}
        )


@pytest.fixture
def store(controller: Any) -> Store:
    return Store(controller)


def test_old_ones_are_set_aside_and_nothing_else_is_touched(store: Store) -> None:
    store.controller.write("kept")
    [kept] = [path.name for path in store.folder.iterdir()]
    store.touch(kept, 10_000)
    store.add("lost__-123.tar.gz", 73)
    store.add("young__5.tar.gz", 71)
    store.add(".cut__6.tar.gz.k2j3", 73)
    store.add(".sending__7.tar.gz.k2j3", 0.5)
    store.add("notes.txt", 10_000)
    store.run()
    assert store.names() == {"kept", "young", ".sending", "notes.txt"}
    assert store.aside() == {"lost", ".cut"}
    store.controller.clock.advance(8 * 24 * HOUR_S)  # as long as copies of deleted segments are kept
    store.run()
    assert store.names() == {"kept", "notes.txt"}
    assert store.aside() == {"young", ".sending"}


def test_a_batch_goes_with_each_run(store: Store) -> None:
    store.configure(untrackedSegmentsDeletionBatchSize="3", deletedSegmentsRetentionPeriod="0d")
    for number in range(7):
        store.add(f"lost{number}__1.tar.gz", 100)
        store.add(f"a_young{number}__1.tar.gz", 1)
    for left in (4, 1, 0, 0):
        store.run()
        assert len([name for name in store.names() if name.startswith("lost")]) == left
    assert store.aside() == set()  # this table keeps nothing of what is deleted
    assert len(store.names()) == 7


def test_the_cluster_may_want_none_of_it(store: Store) -> None:
    store.controller.registry.update_cluster_config({FLAG: "false"})
    store.add("lost__1.tar.gz", 10_000)
    store.run()
    store.controller.repair()
    assert store.names() == {"lost"}
    store.controller.registry.update_cluster_config({}, frozenset({FLAG}))
    store.run()
    assert store.names() == set()


def test_a_copy_that_is_uploaded_again_meanwhile_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add("again__1.tar.gz", 100)
    listed = type(store.controller.context.deep_store).unfinished

    def upload(self: Any, folder: str) -> list[str]:
        store.touch("again__1.tar.gz", 0)
        return listed(self, folder)

    monkeypatch.setattr(type(store.controller.context.deep_store), "unfinished", upload)
    store.run()
    assert store.names() == {"again"}


def test_only_a_controller_that_is_alone_takes_young_ones_for_lost(store: Store) -> None:
    store.add("lost__1.tar.gz", 0)
    store.add(".cut__1.tar.gz.x", 0)
    c = store.controller
    assert repair(c.context, c.tables, c.segments, settled_ms=c.clock.now_ms() + 1).untracked_copies == 0
    assert store.names() == {"lost", ".cut"}
    assert c.repair().untracked_copies == 2
    assert (store.names(), store.aside()) == (set(), {"lost", ".cut"})


def test_a_config_that_cannot_be_read_does_not_keep_a_controller_from_starting(store: Store) -> None:
    store.add("lost__1.tar.gz", 0)
    document = store.controller.tables.document("t_OFFLINE")
    store.controller.registry.put_table_config("t_OFFLINE", {**document, "segmentsConfig": "nonsense"})
    store.controller.repair()
    assert store.names() == {"lost"}


@pytest.mark.parametrize(
    ("table_type", "segments", "hours"),
    [
        ("OFFLINE", {}, 72),
        ("OFFLINE", {"untrackedSegmentsRetentionTimeUnit": "DAYS", "untrackedSegmentsRetentionTimeValue": "9"}, 216),
        ("OFFLINE", {"untrackedSegmentsRetentionTimeUnit": "MINUTES", "untrackedSegmentsRetentionTimeValue": "1"}, 1),
        ("OFFLINE", {"untrackedSegmentsRetentionTimeUnit": "WEEKS", "untrackedSegmentsRetentionTimeValue": "1"}, 72),
        ("OFFLINE", {"retentionTimeUnit": "DAYS", "retentionTimeValue": "2"}, 48),
        ("OFFLINE", {"retentionTimeUnit": "DAYS", "retentionTimeValue": "400"}, 72),
        ("REALTIME", {}, 1),
        ("REALTIME", {"untrackedSegmentsRetentionTimeUnit": "HOURS", "untrackedSegmentsRetentionTimeValue": "5"}, 5),
    ],
)
def test_how_old_they_must_be(table_type: str, segments: dict[str, str], hours: int) -> None:
    rest: dict[str, Any] = {"tenants": {}, "tableIndexConfig": {}, "metadata": {}}
    document = {"tableName": "t", "tableType": table_type, "segmentsConfig": segments, **rest}
    assert untracked_ms(TableConfig.from_json(document).value) == hours * HOUR_S * 1000


def test_a_store_that_does_not_answer_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add("lost__1.tar.gz", 100)

    def silent(self: Any, url: str) -> int:
        raise OSError("the deep store does not answer")

    monkeypatch.setattr(type(store.controller.context.deep_store), "modified_ms", silent)
    config = store.controller.tables.get("t_OFFLINE")
    with pytest.raises(OSError, match="does not answer"):
        set_aside_untracked(store.controller.context, config, None)
    assert store.names() == {"lost"}

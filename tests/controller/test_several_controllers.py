"""Controllers that change the same records concurrently."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gamay.base.errors import ConflictError
from gamay.cluster.records.records import SegmentRecord
from gamay.controller.health.repair import repair
from gamay.controller.segments.segments import PushOptions, SegmentManager
from gamay.controller.tables.schemas import SchemaManager
from gamay.controller.tables.tables import TableManager
from gamay.storage.local_store import LocalStore

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Interrupted(LocalStore):
    """A deep store that calls a function right after an archive was stored."""

    then: Callable[[], object] = lambda: None

    def put(self, source: Path, table: str, segment: str, crc: int) -> str:
        url = LocalStore.put(self, source, table, segment, crc)
        self.then()
        return url


def _another(controller: Any, then: Callable[[], object]) -> SegmentManager:
    """Return the segments of a second controller, with separate locks."""
    context = replace(controller.context, deep_store=Interrupted(controller.context.deep_store.root, then))
    return SegmentManager(context, TableManager(context, SchemaManager(controller.registry)))


def _push(controller: Any, segments: SegmentManager, name: str) -> SegmentRecord:
    built = controller.built(name)
    return segments.push("t_OFFLINE", built, built.folder, PushOptions())


def test_of_two_pushes_of_a_new_segment_one_wins_and_loses_nothing(controller: Any) -> None:
    won: list[SegmentRecord] = []
    second = _another(controller, lambda: won.append(_push(controller, controller.segments, "x")))
    with pytest.raises(ConflictError, match="pushed elsewhere at the same time"):
        _push(controller, second, "x")
    record = controller.registry.get_segment("t_OFFLINE", "x")
    assert record == won[0]
    assert controller.context.deep_store.path_of(record.download_url).exists()
    assert set(controller.registry.must_get_ideal_state("t_OFFLINE").states) == {"x"}


def test_a_push_that_loses_its_table_leaves_nothing(controller: Any) -> None:
    second = _another(controller, lambda: controller.tables.delete("t_OFFLINE", "0d"))
    with pytest.raises(Exception, match="t_OFFLINE"):
        _push(controller, second, "x")
    assert controller.registry.get_segment("t_OFFLINE", "x") is None
    assert controller.copies() == []


def test_repair_leaves_alone_what_others_are_at_work_on(controller: Any) -> None:
    controller.write("kept")
    now_ms = controller.clock.now_ms()
    record = controller.registry.get_segment("t_OFFLINE", "kept")
    controller.registry.create_segment("t_OFFLINE", record.with_changes(name="being_pushed"))

    def repaired(age_ms: int) -> Any:
        settled_ms = controller.clock.now_ms() - age_ms
        return repair(controller.context, controller.tables, controller.segments, settled_ms)

    assert repaired(10 * _MINUTE_MS).unacknowledged_segments == 0
    assert controller.registry.segment_names("t_OFFLINE") == ["being_pushed", "kept"]
    controller.clock.advance(11 * 60)
    assert controller.clock.now_ms() > now_ms
    assert repaired(10 * _MINUTE_MS).unacknowledged_segments == 1
    assert controller.registry.segment_names("t_OFFLINE") == ["kept"]

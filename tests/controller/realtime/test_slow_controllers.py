"""Two concurrent controllers, one of which pauses between the record of a new segment and the ideal state."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from tests.simulation.cluster import TABLE, SimStream, SimStreams, table_config
from tests.simulation.profile import Profile
from tests.simulation.scheduler import Scheduler, SimClock
from tests.simulation.store import SimStore, Tree

from gamay.base.rng import new_rng
from gamay.cluster.place.instance_partitions import default_partitions
from gamay.cluster.records.records import CONSUMING, SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.controller.completion.validation import PartitionValidator
from gamay.controller.realtime.context import RealtimeContext
from gamay.controller.realtime.ideal_steps import (
    PauseState,
    consuming_segments,
    latest_segments,
    marked_offline,
    with_pause_state,
)
from gamay.controller.realtime.lifecycle import CommitRefusedError, Committed, SegmentLifecycle
from gamay.ingest.stream.config import stream_configs

_MINUTE_MS = 60_000


def _nothing() -> None:
    return


class _SlowStore(SimStore):
    """The store of a controller that rests when it has written the record of a segment, and before it deletes one."""

    def __init__(
        self, tree: Tree, after_create: Callable[[], None] = _nothing, before_delete: Callable[[], None] = _nothing
    ) -> None:
        super().__init__(tree)
        self._after_create = after_create
        self._before_delete = before_delete

    def create(self, path: str, value: bytes, *, ephemeral: bool = False, sequence: bool = False) -> str:
        created = super().create(path, value, ephemeral=ephemeral, sequence=sequence)
        if path.startswith(paths.segments(TABLE)):
            self._after_create()
        return created

    def delete(self, path: str, version: int | None = None, *, recursive: bool = False) -> None:
        if path.startswith(paths.segments(TABLE)):
            self._before_delete()
        super().delete(path, version, recursive=recursive)


class _Cluster:
    """A table of one partition, whose only replica stopped consuming its first segment."""

    def __init__(self) -> None:
        self.rng = new_rng(1)
        self.scheduler = Scheduler(self.rng)
        self.tree = Tree(self.scheduler)
        self.config = table_config(replace(Profile.draw(self.rng), replicas=1, pauseless=False))
        self.registry = Registry(SimStore(self.tree))
        context = self.context(self.registry)
        records, ideal = SegmentLifecycle(context).first_segments(self.config, self.streams())
        for record in records:
            self.registry.create_segment(TABLE, record)
        self.registry.create_ideal_state(ideal)
        self.first = records[0].name
        self.registry.update_ideal_state(TABLE, lambda now: marked_offline(now, self.first, "S"))

    def streams(self) -> SimStreams:
        return SimStreams(SimStream(self.scheduler, 1, 0.0), stream_configs(self.config))

    def context(self, registry: Registry) -> RealtimeContext:
        return RealtimeContext(
            registry, SimClock(self.scheduler), lambda table: self.config, lambda config: self.streams(),
            lambda config: default_partitions("t", TABLE, ["S"]), self.rng.uniform,
        )  # fmt: skip

    def repair(self, registry: Registry | None = None) -> list[str]:
        """Repair as a new lead does; return the segments that were removed."""
        return PartitionValidator(self.context(registry or self.registry)).validate(TABLE, guard_ms=0).removed

    def repair_slowly(self, meanwhile: Callable[[], None]) -> None:
        self.repair(Registry(_SlowStore(self.tree, meanwhile)))

    def nameless(self) -> set[str]:
        """Return the segments that have only a record."""
        return set(self.registry.segment_names(TABLE)) - self.named()

    def named(self) -> set[str]:
        return set(self.registry.must_get_ideal_state(TABLE).states)

    def pause(self, paused: bool) -> None:
        self.registry.update_ideal_state(TABLE, lambda ideal: with_pause_state(ideal, PauseState(paused)))

    def check(self) -> None:
        """The partition is consumed, by a segment that has a record."""
        ideal = self.registry.must_get_ideal_state(TABLE)
        assert set(consuming_segments(ideal)) == {str(latest_segments(ideal)[0])}
        assert self.named() <= set(self.registry.segment_names(TABLE))


def test_a_new_lead_leaves_a_record_alone_that_another_controller_is_about_to_name() -> None:
    cluster = _Cluster()
    removed: list[str] = []

    def meanwhile() -> None:
        cluster.pause(True)
        removed.extend(cluster.repair())
        cluster.pause(False)

    cluster.repair_slowly(meanwhile)
    assert removed == []
    cluster.check()
    assert cluster.nameless() == set()


def test_a_segment_is_not_named_whose_record_was_removed_meanwhile() -> None:
    cluster = _Cluster()
    removed: list[str] = []

    def meanwhile() -> None:
        cluster.pause(True)
        cluster.scheduler.now_ms += 11 * _MINUTE_MS
        removed.extend(cluster.repair())
        cluster.pause(False)

    cluster.repair_slowly(meanwhile)
    assert len(removed) == 1
    assert cluster.named() == {cluster.first}
    cluster.repair()
    cluster.check()


def test_a_record_that_nobody_named_is_removed_when_it_is_old() -> None:
    cluster = _Cluster()
    cluster.repair_slowly(lambda: cluster.pause(True))
    (left,) = cluster.nameless()
    cluster.pause(False)
    assert left not in cluster.repair()
    cluster.check()  # under another name
    cluster.scheduler.now_ms += 11 * _MINUTE_MS
    assert cluster.repair() == [left]
    assert cluster.nameless() == set()


def test_a_record_that_was_changed_since_it_was_judged_is_not_removed() -> None:
    cluster = _Cluster()
    cluster.repair_slowly(lambda: cluster.pause(True))
    (left,) = cluster.nameless()
    cluster.scheduler.now_ms += 11 * _MINUTE_MS

    def change(record: SegmentRecord | None) -> SegmentRecord | None:
        return None if record is None else record.with_changes(flush_threshold_rows=7)

    slow = _SlowStore(cluster.tree, before_delete=partial(cluster.registry.update_segment, TABLE, left, change))
    assert cluster.repair(Registry(slow)) == []
    assert cluster.nameless() == {left}


def test_a_commit_of_a_segment_whose_place_is_about_to_be_taken_is_refused() -> None:
    """The controller that gives it up rests before it names the other one; a winner that it does not know of commits."""
    cluster = _Cluster()
    refused: list[str] = []

    def meanwhile() -> None:
        built = SegmentRecord(cluster.first, crc=1, total_docs=9, download_url="deepstore:t/x", size_bytes=1)
        lifecycle = SegmentLifecycle(cluster.context(cluster.registry))
        with pytest.raises(CommitRefusedError, match="was abandoned"):
            lifecycle.complete(TABLE, built, Committed("9", 9, 1))
        with pytest.raises(CommitRefusedError, match="was abandoned"):
            lifecycle.decide_end(TABLE, cluster.first, "9", "")
        refused.append(cluster.first)

    cluster.repair_slowly(meanwhile)
    assert refused == [cluster.first]
    cluster.check()


def _consume_again(cluster: _Cluster, record: SegmentRecord) -> str:
    """Write the first segment as an older controller left it, beside the one that took its place; return the latter."""
    cluster.repair()
    (second,) = consuming_segments(cluster.registry.must_get_ideal_state(TABLE))
    cluster.registry.create_segment(TABLE, record)
    cluster.registry.update_ideal_state(TABLE, lambda now: now.with_segments({record.name: {"S": CONSUMING}}))
    return second


def _commit(cluster: _Cluster, segment: str, end: str) -> None:
    lifecycle = SegmentLifecycle(cluster.context(cluster.registry))
    built = SegmentRecord(segment, crc=1, total_docs=9, download_url="deepstore:t/x", size_bytes=1)
    lifecycle.complete(TABLE, built, Committed(end, 9, 1))
    lifecycle.advance(TABLE, segment)


def test_a_segment_that_was_given_up_and_consumes_all_the_same_is_let_go() -> None:
    cluster = _Cluster()
    record = cluster.registry.get_segment(TABLE, cluster.first)
    assert record is not None
    second = _consume_again(cluster, record.with_changes(abandoned_ms=1))
    _commit(cluster, second, "9")
    assert set(consuming_segments(cluster.registry.must_get_ideal_state(TABLE))) == {cluster.first}
    assert cluster.repair() == [cluster.first]
    cluster.check()


def test_a_partition_goes_on_when_an_earlier_segment_that_consumes_is_committed() -> None:
    cluster = _Cluster()
    record = cluster.registry.get_segment(TABLE, cluster.first)
    assert record is not None
    second = _consume_again(cluster, record)
    _commit(cluster, second, "9")
    report = PartitionValidator(cluster.context(cluster.registry)).validate(TABLE, guard_ms=0)
    assert report.problems == [f"partition 0 continues when segment {cluster.first} is committed"]
    assert set(consuming_segments(cluster.registry.must_get_ideal_state(TABLE))) == {cluster.first}
    assert cluster.nameless() == set()
    _commit(cluster, cluster.first, "5")
    cluster.repair()
    cluster.check()
    (third,) = consuming_segments(cluster.registry.must_get_ideal_state(TABLE))
    started = cluster.registry.get_segment(TABLE, third)
    assert started is not None
    assert started.start_offset == "9"

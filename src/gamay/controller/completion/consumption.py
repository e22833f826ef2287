"""Pausing, resuming and force-committing tables."""

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.base.ids import Ids
from gamay.cluster.records import messages
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import IN_PROGRESS
from gamay.cluster.store import paths
from gamay.cluster.store.znrecord import ZNRecord, decode, encode
from gamay.controller.completion.validation import PartitionValidator
from gamay.controller.realtime.context import RealtimeContext
from gamay.controller.realtime.ideal_steps import (
    ADMINISTRATIVE,
    RESOURCE_LIMIT_EXCEEDED,
    STORAGE_QUOTA_EXCEEDED,
    PauseState,
    consuming_segments,
    pause_state,
    with_pause_state,
)
from gamay.controller.realtime.lifecycle import is_wanted
from gamay.controller.segments.consistency import refuse_restricted
from gamay.controller.tables.storage_quota import excess
from gamay.ingest.stream.config import stream_configs
from gamay.ingest.stream.offsets import LARGEST, SMALLEST
from gamay.model.table.table_config import TableConfig

_log = logging.getLogger(__name__)

_JOBS = f"/{paths.CLUSTER_NAME}/PROPERTYSTORE/CONTROLLER_JOBS/FORCE_COMMIT"
_CONSUME_FROM = {"lastconsumed": None, "smallest": SMALLEST, "largest": LARGEST}


@dataclass(frozen=True, slots=True)
class Batches:
    """The number of segments that commit at once, and the longest wait for a batch before the next one is started."""

    size: int = 2**31 - 1
    check_interval_s: int = 5
    timeout_s: int = 180

    def __post_init__(self) -> None:
        for name, value in (("batchSize", self.size), ("batchStatusCheckIntervalSec", self.check_interval_s),
                            ("batchStatusCheckTimeoutSec", self.timeout_s)):  # fmt: skip
            if value <= 0:
                raise InvalidConfigError(f"{name} must be greater than 0, not {value}")


@dataclass(frozen=True, slots=True)
class ConsumptionManager:
    """Manager of the operators' changes to consumption. sleep: waits for a number of seconds; True when the process
    ends."""

    context: RealtimeContext
    ids: Ids
    sleep: Callable[[float], object]
    _threads: list[threading.Thread] = field(default_factory=list)

    def stop(self) -> None:
        """Wait for the batches in progress; `sleep` must have begun to return True."""
        for thread in self._threads:
            thread.join()

    # pause and resume

    def pause(self, table: str, comment: str | None, batches: Batches) -> None:
        """Stop consuming a typed table: its segments are committed with the rows they have, and get no successors.

        Raises NotFoundError, ConflictError for a table that is disabled or does not allow forced commits.
        """
        self._check(table)
        now_ms = self.context.clock.now_ms()
        self._change_pause(
            table,
            lambda old: PauseState(True, ADMINISTRATIVE, comment, now_ms, old.inactive_topics),
        )
        self._commit_all(table, sorted(consuming_segments(self.context.registry.must_get_ideal_state(table))), batches)

    def resume(self, table: str, comment: str | None, consume_from: str | None) -> None:
        """Resume consumption where it stopped, or at either end of the stream.

        consume_from: lastConsumed, smallest or largest. From smallest, rows that the table already has are consumed
        again.
        Raises InvalidConfigError for another value, and as `pause`.
        """
        word = (consume_from or "lastConsumed").strip().lower()
        if word not in _CONSUME_FROM:
            raise InvalidConfigError(f"consumeFrom: '{consume_from}' must be lastConsumed, smallest or largest")
        self._check_enabled(table)
        now_ms = self.context.clock.now_ms()
        self._change_pause(
            table,
            lambda old: PauseState(False, ADMINISTRATIVE, comment, now_ms, old.inactive_topics),
        )
        PartitionValidator(self.context).validate(table, criteria=_CONSUME_FROM[word])
        self.enforce(table)

    def set_topics_paused(self, table: str, topics: Collection[int], paused: bool) -> None:
        """Pause or resume some of a table's topics, by their index. Raises as `pause`, InvalidConfigError."""
        self._check(table) if paused else self._check_enabled(table)
        known = len(stream_configs(self.context.config_of(table)))
        if unknown := sorted(topic for topic in topics if not 0 <= topic < known):
            raise InvalidConfigError(f"topicIndices: {unknown} are not among the table's {known} topics")
        now_ms = self.context.clock.now_ms()

        def change(old: PauseState) -> PauseState:
            inactive = {*old.inactive_topics, *topics} if paused else set(old.inactive_topics) - set(topics)
            return replace(old, inactive_topics=tuple(sorted(inactive)), at_ms=now_ms)

        self._change_pause(table, change)
        if not paused:
            PartitionValidator(self.context).validate(table)
            return
        consuming = consuming_segments(self.context.registry.must_get_ideal_state(table))
        self._commit_all(table, [s for s in sorted(consuming) if LlcName.must_parse(s).topic_index in topics], Batches())

    def status(self, table: str) -> dict[str, Any]:
        """Return the pause status document of a typed table. Raises NotFoundError."""
        ideal = self.context.registry.must_get_ideal_state(table)
        state = pause_state(ideal)
        return {
            "pauseFlag": state.paused,
            "consumingSegments": sorted(consuming_segments(ideal)),
            "reasonCode": state.reason,
            "comment": state.comment,
            "timestamp": str(state.at_ms) if state.at_ms else None,
            "indexOfInactiveTopics": list(state.inactive_topics),
        }

    def follow_limits(self, table: str, full_disk: Callable[[str], str | None]) -> None:
        """Pause a table that exceeds its storage quota or whose servers lack disk space; resume it when that has passed.

        A pause for any other reason is left alone. full_disk: describes the disk of a typed table that is too full, or
        None.
        """
        registry, now_ms = self.context.registry, self.context.clock.now_ms()
        quota = excess(registry, self.context.config_of(table))
        reason = RESOURCE_LIMIT_EXCEEDED if quota is None else STORAGE_QUOTA_EXCEEDED
        problem = full_disk(table) if quota is None else quota
        state = pause_state(registry.must_get_ideal_state(table))
        if state.paused and state.reason not in (STORAGE_QUOTA_EXCEEDED, RESOURCE_LIMIT_EXCEEDED):
            return
        if problem is not None and (not state.paused or state.reason != reason):
            _log.error("%s: consumption of table %s is paused", problem, table)
            self._change_pause(table, lambda old: PauseState(True, reason, problem, now_ms, old.inactive_topics))
        elif problem is None and state.paused:
            self._change_pause(table, lambda old: PauseState(False, state.reason, None, now_ms, old.inactive_topics))

    def enforce(self, table: str) -> None:
        """Have servers commit segments of paused topics or tables, or of a changed stream config, that they still
        consume.

        The message is repeated because a server may have restarted since the last one.
        """
        ideal, config = self.context.registry.must_get_ideal_state(table), self.context.config_of(table)
        state = pause_state(ideal)
        names = {name: LlcName.must_parse(name) for name in consuming_segments(ideal)}
        resting = [name for name, parsed in names.items() if state.pauses(parsed) or not is_wanted(config, parsed)]
        self._tell(table, [name for name in resting if self._is_in_progress(table, name)])

    # force commit

    def force_commit(
        self, table: str, partitions: Collection[int] | None, segments: Collection[str] | None, batches: Batches
    ) -> str:
        """Commit consuming segments (default: all) with the rows they have; return the id of the job.

        Raises NotFoundError for a segment or partition that is not consumed, and as `pause`.
        """
        self._check(table)
        consuming = consuming_segments(self.context.registry.must_get_ideal_state(table))
        chosen = sorted(consuming)
        if segments is not None:
            if unknown := sorted(set(segments) - set(consuming)):
                raise NotFoundError(f"table {table} does not consume {', '.join(unknown)}")
            chosen = sorted(set(segments))
        elif partitions is not None:
            chosen = [name for name in chosen if LlcName.must_parse(name).partition in partitions]
            if missing := sorted(set(partitions) - {LlcName.must_parse(name).partition for name in chosen}):
                raise NotFoundError(f"table {table} does not consume the partitions {missing}")
        job_id = self.ids.new()
        simple = {
            "jobId": job_id,
            "jobType": "FORCE_COMMIT",
            "tableName": table,
            "submissionTimeMs": str(self.context.clock.now_ms()),
            "segmentsForceCommitted": orjson.dumps(chosen).decode(),
        }
        self.context.registry.store.create(f"{_JOBS}/{job_id}", encode(ZNRecord(job_id, simple)))
        self._commit_all(table, chosen, batches)
        return job_id

    def force_commit_status(self, job_id: str) -> dict[str, Any]:
        """Return the progress of a job. Raises NotFoundError."""
        node = self.context.registry.store.get(f"{_JOBS}/{job_id}")
        if node is None:
            raise NotFoundError(f"Failed to find controller job id: {job_id}")
        simple = decode(node.value).simple
        chosen: list[str] = orjson.loads(simple["segmentsForceCommitted"])
        left = [name for name in chosen if self._is_in_progress(simple["tableName"], name)]
        return {
            **simple,
            "segmentsForceCommitted": chosen,
            "segmentsYetToBeCommitted": left,
            "numberOfSegmentsYetToBeCommitted": len(left),
        }

    def jobs(self, table: str) -> dict[str, dict[str, str]]:
        """Return the fields of all force-commit jobs of a typed table, by id."""
        store = self.context.registry.store
        nodes = [store.get(f"{_JOBS}/{job_id}") for job_id in store.children(_JOBS)]
        fields = [decode(node.value).simple for node in nodes if node is not None]
        return {simple["jobId"]: simple for simple in fields if simple["tableName"] == table}

    # parts

    def _check_enabled(self, table: str) -> TableConfig:
        config = self.context.config_of(table)
        if not self.context.registry.must_get_ideal_state(table).enabled:
            raise InvalidConfigError(f"Table {table} is disabled, enable it first")
        return config

    def _check(self, table: str) -> None:
        refuse_restricted(self.context.registry, self._check_enabled(table), "a forced commit")

    def _change_pause(self, table: str, change: Callable[[PauseState], PauseState]) -> None:
        self.context.registry.update_ideal_state(table, lambda ideal: with_pause_state(ideal, change(pause_state(ideal))))

    def _commit_all(self, table: str, segments: Sequence[str], batches: Batches) -> None:
        first, rest = segments[: batches.size], segments[batches.size :]
        self._tell(table, first)
        if rest:
            self._threads[:] = [thread for thread in self._threads if thread.is_alive()]
            arguments = (table, first, rest, batches)
            thread = threading.Thread(target=self._commit_batches, args=arguments, name="force-commit", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _commit_batches(self, table: str, told: Sequence[str], rest: Sequence[str], batches: Batches) -> None:
        while rest:
            waited = 0
            while waited < batches.timeout_s and any(self._is_in_progress(table, name) for name in told):
                if self.sleep(batches.check_interval_s):
                    return
                waited += batches.check_interval_s
            told, rest = rest[: batches.size], rest[batches.size :]
            self._tell(table, told)

    def _tell(self, table: str, segments: Sequence[str]) -> None:
        """Send a force-commit message to each server that consumes some of the segments."""
        consuming = consuming_segments(self.context.registry.must_get_ideal_state(table))
        by_server: dict[str, list[str]] = {}
        for segment in segments:
            for server in consuming.get(segment, ()):
                by_server.setdefault(server, []).append(segment)
        for server, names in sorted(by_server.items()):
            messages.send(self.context.registry.store, server, messages.FORCE_COMMIT, table, names)

    def _is_in_progress(self, table: str, segment: str) -> bool:
        record = self.context.registry.get_segment(table, segment)
        return record is not None and record.status == IN_PROGRESS


@dataclass(frozen=True, slots=True)
class ForcedCommits:
    """Implementation of `gamay.controller.rebalance.rebalance.Commits`."""

    consumption: ConsumptionManager

    def begin(self, table: str, segments: Sequence[str], batch_size: int, interval_s: int, timeout_s: int) -> str:
        """Have servers commit their consuming segments; return the id of the job. Raises as
        `ConsumptionManager.force_commit`."""
        return self.consumption.force_commit(table, None, segments, Batches(batch_size, interval_s, timeout_s))

    def left(self, job_id: str) -> int:
        """Return how many of a job's segments are not committed yet."""
        left: int = self.consumption.force_commit_status(job_id)["numberOfSegmentsYetToBeCommitted"]
        return left

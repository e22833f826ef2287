"""Runs a script of the completion protocol and records every message, every state and every change of the records.

A line is a comment (`#`), empty, a command, or output (indented). Commands:

    replicas A B [pauseless] [single]   begin: these servers consume t__0__0 from offset 0; `single` commits in one call
    A consumed 100 [REASON]             and so: start, extend [SECONDS], upload, end, commit, stopped, cannot-build ROWS
    A is dead, A is alive               what the cluster knows of a server, true or not
    wait 3.4s                           let time pass
    crash                               the lead controller dies; another one leads, with nothing in its memory
    crash after N                       it dies in the next command, behind its N-th change of the records
    validate [now]                      the periodic repair; `now`: as a new lead does it, without guard times
    pause, resume [largest]             what operators do
    stream ends 500 | stream begins 80  where the stream's partition ends, and what it still has

`segment N` in front of a command makes it about the segment with sequence N; without, about the latest that consumes.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tests.simulation.cluster import SimStream, SimStreams, table_config
from tests.simulation.profile import Profile
from tests.simulation.scheduler import Killed, Process, Scheduler, SimClock
from tests.simulation.store import SimStore, Tree

from gamay.base.rng import new_rng
from gamay.cluster.place.instance_partitions import default_partitions
from gamay.cluster.records.completion import Call, CompletionRequest, CompletionResponse, Status
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.controller.completion.consumption import Batches, ConsumptionManager
from gamay.controller.completion.protocol import CompletionManager
from gamay.controller.completion.validation import PartitionValidator
from gamay.controller.realtime.context import RealtimeContext
from gamay.controller.realtime.ideal_steps import consuming_segments
from gamay.controller.realtime.lifecycle import SegmentLifecycle
from gamay.ingest.stream.config import stream_configs

TABLE = "t_REALTIME"
_CALLS = {
    "consumed": Call.CONSUMED,
    "start": Call.COMMIT_START,
    "extend": Call.EXTEND_BUILD_TIME,
    "end": Call.COMMIT_END,
    "stopped": Call.STOPPED_CONSUMING,
    "cannot-build": Call.BUILD_FAILURE,
}


class _Stream(SimStream):
    begin = 0
    last = 0

    def end(self) -> int:
        return self.last


class _Streams(SimStreams):
    def offset(self, partition: int, criteria: Any) -> str:
        assert isinstance(self._stream, _Stream)
        return str(self._stream.begin) if str(criteria) == "smallest" else str(self._stream.end())


class ScriptRunner:
    """The state of one script."""

    def __init__(self) -> None:
        self._rng = new_rng(1)
        self._scheduler = Scheduler(self._rng)
        self._tree = Tree(self._scheduler)
        self._seen: dict[str, str] = {}
        self._names: dict[int, str] = {}
        self._uploads: dict[str, CompletionRequest] = {}
        self._stream = _Stream(self._scheduler, 1, 0.0)
        self._writes: int | None = None
        self._segment: str | None = None

    def run(self, text: str) -> str:
        """Return the script with the output that its commands have."""
        lines: list[str] = []
        for line in text.splitlines():
            if line.startswith("    "):
                continue
            lines.append(line)
            command = line.strip()
            if command and not command.startswith("#"):
                lines += [f"    {out}" for out in self._command(command)]
        return "\n".join(lines) + "\n"

    def _command(self, command: str) -> list[str]:
        words = command.split()
        self._segment = None
        if words[0] == "segment":
            self._segment, words = self._name(int(words[1])), words[2:]
        output: list[str] = []
        try:
            output = self._dispatch(words)
        except Killed:
            output = ["the controller dies"]
            self._restart()
        return [*output, *self._changes()]

    def _dispatch(self, words: list[str]) -> list[str]:
        match words:
            case ["replicas", *rest]:
                self._begin([w for w in rest if w.isupper()], "pauseless" in rest, "single" not in rest)
                return []
            case ["wait", time]:
                self._scheduler.now_ms += round(float(time.removesuffix("s")) * 1000)
                return []
            case ["crash"]:
                self._restart()
                return []
            case ["crash", "after", writes]:
                self._writes = int(writes)
                return []
            case ["validate", *rest]:
                report = PartitionValidator(self._context).validate(TABLE, guard_ms=0 if rest else None)
                done = ((f, getattr(report, f)) for f in ("advanced", "continued", "revived", "removed", "lost", "problems"))
                return [f"{what}: {', '.join(map(_short, names))}" for what, names in done if names] or ["nothing to do"]
            case ["pause"]:
                self._operator().pause(TABLE, None, Batches())
                return []
            case ["resume", *rest]:
                self._operator().resume(TABLE, None, rest[0] if rest else None)
                return []
            case ["stream", "ends", offset]:
                self._stream.last = int(offset)
                return []
            case ["stream", "begins", offset]:
                self._stream.begin = int(offset)
                return []
            case [server, "is", "dead"]:
                SimStore(self._tree).delete(paths.live_instance(f"Server_{server}_1"))
                return []
            case [server, "is", "alive"]:
                SimStore(self._tree).create(paths.live_instance(f"Server_{server}_1"), b"")
                return []
            case [server, verb, *rest]:
                return [self._ask(f"Server_{server}_1", verb, rest)]
        raise ValueError(f"unknown command: {' '.join(words)}")

    def _begin(self, servers: list[str], pauseless: bool, split: bool) -> None:
        profile = replace(Profile.draw(new_rng(1)), replicas=len(servers), pauseless=pauseless, rows_per_segment=100)
        self._config = table_config(profile)
        self._split = split
        self._servers = [f"Server_{server}_1" for server in servers]
        for server in self._servers:
            SimStore(self._tree).create(paths.live_instance(server), b"")
        self._restart()
        lifecycle = SegmentLifecycle(self._context)
        records, ideal = lifecycle.first_segments(self._config, self._streams())
        for record in records:
            self._context.registry.create_segment(TABLE, record)
        self._context.registry.create_ideal_state(ideal)

    def _restart(self) -> None:
        self._writes = None
        process = Process(self._scheduler, "controller")
        store = _DyingStore(self._tree, process, self._at_write)
        self._context = RealtimeContext(
            Registry(store),
            SimClock(self._scheduler),
            lambda table: self._config,
            lambda config: self._streams(),
            lambda config: default_partitions("t", TABLE, self._servers),
            self._rng.uniform,
        )
        self._manager = CompletionManager(self._context, lambda table: True, split_commit=self._split)

    def _at_write(self) -> None:
        if self._writes is not None:
            self._writes -= 1
            if self._writes == 0:
                raise Killed

    def _streams(self) -> _Streams:
        return _Streams(self._stream, stream_configs(self._config))

    def _operator(self) -> ConsumptionManager:
        ids: Any = None
        return ConsumptionManager(self._context, ids, lambda seconds: True)

    # messages

    def _ask(self, server: str, verb: str, rest: list[str]) -> str:
        segment = self._segment or self._latest()
        request = CompletionRequest(server, segment, self._offset_word(rest))
        response = self._answer(verb, request, rest)
        state = self._manager.state_of(TABLE, segment)
        told = [response.status.value]
        if response.offset is not None:
            told.append(f"offset={response.offset}")
        if response.build_time_s >= 0:
            told.append(f"build={response.build_time_s}s")
        if not response.split_commit:
            told.append("in one call")
        return f"-> {' '.join(told)}" + (f"  [{state.value}]" if state is not None else "")

    def _answer(self, verb: str, request: CompletionRequest, rest: list[str]) -> CompletionResponse:
        manager = self._manager
        if verb == "upload":
            self._uploads[request.instance] = request
            return CompletionResponse(Status.UPLOAD_SUCCESS)
        if verb == "end":
            return manager.commit_end(request, partial(self._describe, request))
        if verb == "commit":
            started = manager.ask(Call.COMMIT_START, request)
            if started.status is not Status.COMMIT_CONTINUE:
                return started
            return manager.commit_end(request, partial(self._describe, request))
        if verb == "consumed" and len(rest) > 1:
            request = replace(request, reason=rest[1])
        if verb == "stopped":
            request = replace(request, reason=" ".join(rest[1:]) or "the stream is gone")
        if verb == "extend":
            request = replace(request, extra_time_s=int(rest[1]) if len(rest) > 1 else 0)
        if verb == "cannot-build":
            request = replace(request, row_count=int(rest[0]))
        return manager.ask(_CALLS[verb], request)

    @staticmethod
    def _offset_word(rest: list[str]) -> str:
        return rest[0] if rest else "0"

    def _describe(self, request: CompletionRequest, config: Any) -> SegmentRecord:
        start = self._record(request.segment).start_offset
        rows = int(request.offset) - int(start)
        return SegmentRecord(request.segment, crc=rows, total_docs=rows, download_url=f"deepstore:{request.segment}")

    # records

    def _latest(self) -> str:
        ideal = self._context.registry.must_get_ideal_state(TABLE)
        consuming = sorted(consuming_segments(ideal), key=lambda name: LlcName.must_parse(name).sequence)
        names = consuming or sorted(ideal.states, key=lambda name: LlcName.must_parse(name).sequence)
        return names[-1]

    def _name(self, sequence: int) -> str:
        return self._names[sequence]

    def _record(self, segment: str) -> SegmentRecord:
        record = Registry(SimStore(self._tree)).get_segment(TABLE, segment)
        assert record is not None
        return record

    def _changes(self) -> list[str]:
        """Return the changes of the records by the command."""
        registry = Registry(SimStore(self._tree))
        now: dict[str, str] = {}
        for record in registry.segments(TABLE):
            text = f"{record.status} from {record.start_offset}"
            text += f" to {record.end_offset}" if record.end_offset else f", at most {record.flush_threshold_rows} rows"
            text += ", abandoned" if record.abandoned_ms >= 0 else ""
            text += f", lost {record.lost_offsets}" if record.lost_offsets else ""
            now[f"record {_short(record.name)}"] = text
        ideal = registry.get_ideal_state(TABLE)
        for segment, states in ({} if ideal is None else ideal.states).items():
            self._names[LlcName.must_parse(segment).sequence] = segment
            told = " ".join(f"{server.split('_')[1]}={state}" for server, state in sorted(states.items()))
            now[f"ideal {_short(segment)}"] = told
        lines = [f"{what}: {text}" for what, text in sorted(now.items()) if self._seen.get(what) != text]
        lines += [f"{what}: gone" for what in sorted(self._seen.keys() - now.keys())]
        self._seen = now
        return lines


class _DyingStore(SimStore):
    """Store that reports each change."""

    def __init__(self, tree: Tree, process: Process, at_write: Callable[[], None]) -> None:
        super().__init__(tree, process)
        self._at_write = at_write

    def create(self, path: str, value: bytes, *, ephemeral: bool = False, sequence: bool = False) -> str:
        created = super().create(path, value, ephemeral=ephemeral, sequence=sequence)
        self._at_write()
        return created

    def set(self, path: str, value: bytes, version: int | None) -> int:
        after = super().set(path, value, version)
        self._at_write()
        return after

    def delete(self, path: str, version: int | None = None, *, recursive: bool = False) -> None:
        super().delete(path, version, recursive=recursive)
        self._at_write()


def _short(name: str) -> str:
    return re.sub(r"__\d{8}T\d{4}Z", "", name)

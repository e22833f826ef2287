"""A simulated cluster that consumes a stream: controllers, servers, a network between them, and the invariants.

Messages of the stream are their own offsets, so which rows a segment holds is known from its start and end.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.simulation.profile import Profile
from tests.simulation.scheduler import Process, Scheduler, SimClock
from tests.simulation.store import SimStore, Tree

from gamay.base.errors import ConflictError, NotFoundError
from gamay.cluster.place.instance_partitions import default_partitions
from gamay.cluster.records.completion import Call, CompletionRequest, CompletionResponse, Status, StopReason
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import CONSUMING, DONE, IN_PROGRESS, ONLINE, Assignment, Instance, SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.znrecord import decode
from gamay.controller.completion.consumption import Batches, ConsumptionManager
from gamay.controller.completion.deep_copies import DeepCopyRepair
from gamay.controller.completion.protocol import CompletionManager
from gamay.controller.completion.validation import PartitionValidator
from gamay.controller.realtime.context import RealtimeContext
from gamay.controller.realtime.ideal_steps import consuming_segments, latest_segments, pause_state
from gamay.controller.realtime.lifecycle import SegmentLifecycle
from gamay.ingest.stream.config import StreamConfig, stream_configs
from gamay.ingest.stream.offsets import IntegerOffset, OffsetCriteria, OffsetKind
from gamay.model.table.table_config import TableConfig
from gamay.server.consuming.machine import (
    BeginAnew,
    Build,
    CommitWhole,
    Consume,
    ConsumerMachine,
    ConsumerState,
    EndCommit,
    FlushLimits,
    Leave,
    ReportConsumed,
    ReportStopped,
    Serve,
    StartCommit,
    Upload,
    Wait,
)

TABLE = "t_REALTIME"
VALIDATION_MS = 300_000
TIMEOUT_MS = 10_000
SESSION_MS = 30_000


def table_config(profile: Profile) -> TableConfig:
    """Return the config of the simulated table."""
    keys = {
        "streamType": "sim",
        "stream.sim.topic.name": "topic",
        "stream.sim.consumer.prop.auto.offset.reset": "smallest",
        "realtime.segment.flush.threshold.segment.rows": str(profile.rows_per_segment),
        "realtime.segment.flush.threshold.time": "5m",
    }
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "REALTIME",
            "segmentsConfig": {"timeColumnName": "ts", "replication": str(profile.replicas)},
            "tenants": {},
            "tableIndexConfig": {},
            "ingestionConfig": {
                "streamIngestionConfig": {"streamConfigMaps": [keys], "pauselessConsumptionEnabled": profile.pauseless}
            },
            "metadata": {},
        }
    ).value


@dataclass
class SimStream:
    """A stream of one topic, which grows by `rows_per_s` per partition from the start, until it is stopped."""

    scheduler: Scheduler
    partitions: int
    rows_per_s: float
    start_ms: int = 0
    still_ms: int | None = None
    fails: bool = False

    def end(self) -> int:
        now = self.scheduler.now_ms if self.still_ms is None else self.still_ms
        return int((now - self.start_ms) / 1000 * self.rows_per_s)


class SimStreams:
    """The controller's way to the stream."""

    def __init__(self, stream: SimStream, configs: tuple[StreamConfig, ...]) -> None:
        self._stream = stream
        self.configs = configs

    def partitions(self) -> tuple[int, ...]:
        return tuple(range(self._stream.partitions))

    def offset(self, partition: int, criteria: OffsetCriteria) -> str:
        return "0" if criteria.kind is OffsetKind.SMALLEST else str(self._stream.end())

    def latest_offset(self, partition: int) -> str:
        return str(self._stream.end())

    def order(self, partition: int, offset: str) -> int:
        return int(offset)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Copy:
    """The contents of an uploaded archive."""

    segment: str
    start: int
    end: int


class Checker:
    """Watches every write to the records."""

    def __init__(self) -> None:
        self.records: dict[str, SegmentRecord] = {}
        self.ideal: Assignment | None = None

    def on_write(self, path: str, value: bytes | None) -> None:
        if path.startswith(paths.segments(TABLE)):
            self._on_record(path.rpartition("/")[2], value)
        elif path == paths.ideal_state(TABLE) and value is not None:
            self.ideal = Assignment.from_record(decode(value))
            by_partition: dict[int, list[str]] = {}
            for segment, states in self.ideal.states.items():
                if CONSUMING in states.values():
                    by_partition.setdefault(LlcName.must_parse(segment).partition, []).append(segment)
            twice = {p: names for p, names in by_partition.items() if len(names) > 1}
            assert not twice, f"a partition is consumed twice: {twice}"

    def _on_record(self, segment: str, value: bytes | None) -> None:
        before = self.records.get(segment)
        if value is None:
            assert before is None or not before.complete, f"the committed segment {segment} was deleted"
            self.records.pop(segment, None)
            return
        after = SegmentRecord.from_record(decode(value))
        self.records[segment] = after
        if before is not None:
            assert before.start_offset == after.start_offset, f"{segment} began at {before.start_offset}"
            assert not before.complete or before == after, f"the committed segment {segment} was changed"
            assert not before.end_offset or before.end_offset == after.end_offset, f"{segment} ended at {before.end_offset}"
        if after.end_offset and (before is None or not before.end_offset):
            assert after.abandoned_ms < 0, f"the abandoned segment {segment} was committed"
            self.check_contiguous(LlcName.must_parse(segment).partition)

    def check_contiguous(self, partition: int) -> list[SegmentRecord]:
        """Return the segments of a partition whose end is decided, after checking that each row is in exactly one."""
        names = {LlcName.must_parse(name): record for name, record in self.records.items() if record.end_offset}
        chain = [names[name] for name in sorted(names) if name.partition == partition]
        sequences = [LlcName.must_parse(record.name).sequence for record in chain]
        assert len(set(sequences)) == len(sequences), f"two committed segments of one sequence: {[r.name for r in chain]}"
        position = 0
        for record in chain:
            assert int(record.start_offset) == position, f"{record.name} begins at {record.start_offset}, not at {position}"
            assert int(record.end_offset) >= position, f"{record.name} ends at {record.end_offset} before its start"
            position = int(record.end_offset)
        return chain


@dataclass
class Consumer:
    """One replica of one consuming segment in a server's memory."""

    segment: str
    start: int
    machine: ConsumerMachine
    generation: int
    busy: bool = False
    built: Copy | None = None
    done: bool = False
    ticket: int = 0
    serves: bool = False


@dataclass
class SimController:
    """A controller process; `manager` is its memory."""

    process: Process
    store: SimStore
    manager: CompletionManager
    context: RealtimeContext


class Simulation:
    """One run."""

    def __init__(self, seed: int, profile: Profile | None = None) -> None:
        self.rng = random.Random(seed)
        self.profile = profile or Profile.draw(self.rng)
        self.config = table_config(self.profile)
        self.scheduler = Scheduler(self.rng)
        self.clock = SimClock(self.scheduler)
        self.checker = Checker()
        self.tree = Tree(self.scheduler, on_write=self._on_write)
        self.registry = Registry(SimStore(self.tree))
        self.stream = SimStream(
            self.scheduler, self.profile.partitions, self.profile.rows_per_s, start_ms=self.scheduler.now_ms - 10_000
        )
        self._configs = stream_configs(self.config)
        self.copies: dict[str, Copy] = {}
        self.faulty = True
        self.kills = 0
        self.messages = 0
        self.controllers: list[SimController] = []
        self.lead = 0
        self.servers = [SimServer(self, f"Server_{i}_1") for i in range(self.profile.servers)]

    # life

    def run(self) -> None:
        """Run with faults, then without, and check the final state."""
        profile, scheduler = self.profile, self.scheduler
        start = scheduler.now_ms
        self._create_table()
        self.controllers = [self._new_controller(i) for i in range(profile.controllers)]
        for server in self.servers:
            server.announce()
            server.notice()
        scheduler.after(VALIDATION_MS * self.rng.random(), self._validate)
        if profile.kill_every_ms:
            scheduler.after(profile.kill_every_ms * self.rng.random(), self._kill_something)
        if profile.stop_chance:
            scheduler.after(profile.faults_ms * self.rng.random(), self._stray_stops)
        if profile.grows:
            scheduler.after(profile.faults_ms * self.rng.random(), self._grow)
        if profile.rests:
            scheduler.after(profile.faults_ms * self.rng.random(), self._rest)
        scheduler.run_until(start + profile.faults_ms)
        self.faulty = False
        for controller in self.controllers:
            controller.process.pause_chance = controller.store.fail_chance = 0.0
        if profile.rests:  # a slow process may have paused the table after it was resumed
            scheduler.after(500_000, self._resume)
        scheduler.run_until(start + profile.faults_ms + profile.calm_ms // 2)
        self.stream.still_ms = scheduler.now_ms
        scheduler.run_until(start + profile.faults_ms + profile.calm_ms)
        self.check_settled()

    def _on_write(self, path: str, value: bytes | None) -> None:
        self.checker.on_write(path, value)
        if path.startswith(paths.LIVE_INSTANCES):
            return
        if not path.startswith(paths.INSTANCES) or value is not None:
            for server in self.servers:
                server.notice()

    def _create_table(self) -> None:
        for server in self.servers:
            self.registry.create_instance(Instance(server.id, "h", 1, ("DefaultTenant_REALTIME",)))
        lifecycle = SegmentLifecycle(self._context(self.registry))
        records, ideal = lifecycle.first_segments(self.config, SimStreams(self.stream, self._configs))
        for record in records:
            self.registry.create_segment(TABLE, record)
        self.registry.create_ideal_state(ideal)

    def _context(self, registry: Registry) -> RealtimeContext:
        return RealtimeContext(
            registry,
            self.clock,
            lambda table: self.config,
            lambda config: SimStreams(self.stream, self._configs),
            lambda config: default_partitions("t_CONSUMING", TABLE, [server.id for server in self.servers]),
            self.rng.uniform,
        )

    def _new_controller(self, index: int) -> SimController:
        process = Process(self.scheduler, f"controller {index}")
        store = SimStore(self.tree, process)
        if self.faulty:
            process.pause_chance = self.profile.pause_chance
            store.fail_chance = self.profile.store_failures
        context = self._context(Registry(store))
        manager = CompletionManager(
            context, partial(self._believes_to_lead, index), "http://c", split_commit=self.profile.split_commit
        )
        return SimController(process, store, manager, context)

    def _believes_to_lead(self, index: int, table: str) -> bool:
        # A former lead may not have noticed yet: the records, not the leadership, must keep commits apart.
        return index == self.lead or (self.faulty and self.rng.random() < 0.3)

    # faults

    def _kill_something(self) -> None:
        if not self.faulty:
            return
        self.kills += 1
        index = self.rng.randrange(len(self.controllers) + len(self.servers))
        if index < len(self.controllers):
            controller = self.controllers[index]
            if self.rng.random() < 0.7:  # in the middle of something, some accesses from now
                controller.process.kill_in = self.rng.randint(1, 25)
            else:
                controller.process.kill()
            self.scheduler.after(self.rng.random() * 30_000, partial(self._restart_controller, index))
            if index == self.lead:
                self.lead = self.rng.randrange(len(self.controllers))
                self.scheduler.after(self.rng.random() * 1_000, partial(self._take_over, self.lead))
        elif self.rng.random() < 0.8:
            self.servers[index - len(self.controllers)].restart()
        else:
            self.servers[index - len(self.controllers)].lose_session()
        self.scheduler.after(self.profile.kill_every_ms * 2 * self.rng.random(), self._kill_something)

    def _take_over(self, index: int) -> None:
        """A new lead first completes what its predecessor may have left unfinished."""
        controller = self.controllers[index]
        controller.manager.resign()
        work = partial(_quietly, partial(PartitionValidator(controller.context).validate, TABLE, guard_ms=0))
        controller.process.start(work, lambda _: None)

    def _stray_stops(self) -> None:
        """Late copies of messages in which the replicas of a segment gave up, from before they tried again."""
        if not self.faulty or self.checker.ideal is None:
            return
        consuming = consuming_segments(self.checker.ideal)
        if consuming:
            segment = self.rng.choice(sorted(consuming))
            record = self.checker.records[segment]
            for server in consuming[segment]:
                request = CompletionRequest(server, segment, record.start_offset, "gone")
                self.send(Call.STOPPED_CONSUMING, request, None, lambda _: None)
        self.scheduler.after(self.rng.random() * 400_000, self._stray_stops)

    def _restart_controller(self, index: int) -> None:
        self.controllers[index].process.kill()
        self.controllers[index] = self._new_controller(index)

    def _grow(self) -> None:
        self.stream.partitions += 1

    def _rest(self) -> None:
        self._operate(lambda manager: manager.pause(TABLE, None, Batches()))
        self.scheduler.after(self.rng.random() * 400_000, self._resume)

    def _resume(self) -> None:
        self._operate(lambda manager: manager.resume(TABLE, None, None))
        if pause_state(self.registry.must_get_ideal_state(TABLE)).paused:  # the request got lost in a dying process
            self.scheduler.after(10_000, self._resume)

    def _operate(self, operation: Callable[[ConsumptionManager], None]) -> None:
        controller = self.controllers[self.rng.randrange(len(self.controllers))]
        ids: Any = None
        manager = ConsumptionManager(controller.context, ids, lambda seconds: True)
        controller.process.start(partial(_quietly, partial(operation, manager)), lambda _: None)

    def _validate(self) -> None:
        for index, controller in enumerate(self.controllers):
            if self._believes_to_lead(index, TABLE):
                controller.process.start(partial(_quietly, partial(self._validate_by, controller)), lambda _: None)
        self.scheduler.after(VALIDATION_MS, self._validate)

    def _validate_by(self, controller: SimController) -> None:
        PartitionValidator(controller.context).validate(TABLE, guard_ms=self.rng.choice((None, 0)))
        DeepCopyRepair(controller.context, self._fetch).repair(TABLE, VALIDATION_MS)
        ids: Any = None
        ConsumptionManager(controller.context, ids, lambda seconds: True).enforce(TABLE)
        controller.manager.forget_stale()

    def _fetch(self, table: str, segment: str, server_id: str) -> SegmentRecord:
        server = next(server for server in self.servers if server.id == server_id)
        return self._describe(self._store_copy(server.copy_of(segment)), self.config)

    # network

    def send(
        self, call: Call, request: CompletionRequest, copy: Copy | None, answer: Callable[[CompletionResponse], None]
    ) -> None:
        """Pass a request to a controller and return its response, or none if that takes too long."""
        self.messages += 1
        answered = [False]

        def arrive(response: CompletionResponse) -> None:
            if not answered[0]:
                answered[0] = True
                answer(response)

        self.scheduler.after(TIMEOUT_MS, lambda: arrive(CompletionResponse(Status.NOT_SENT)))
        times = 2 if self.faulty and self.rng.random() < self.profile.duplicates else 1
        for _ in range(times):
            if not self._lost():
                self.scheduler.after(self._delay_ms(), partial(self._deliver, call, request, copy, arrive))

    def _deliver(
        self, call: Call, request: CompletionRequest, copy: Copy | None, arrive: Callable[[CompletionResponse], None]
    ) -> None:
        index = self.rng.randrange(len(self.controllers)) if self.faulty and self.rng.random() < 0.05 else self.lead
        controller = self.controllers[index]

        def reply(response: CompletionResponse) -> None:
            if not self._lost():
                self.scheduler.after(self._delay_ms(), partial(arrive, response))

        controller.process.start(partial(self._handle, controller.manager, call, request, copy), reply)

    def _handle(
        self, manager: CompletionManager, call: Call, request: CompletionRequest, copy: Copy | None
    ) -> CompletionResponse:
        if call is Call.UPLOAD:
            assert copy is not None
            return CompletionResponse(Status.UPLOAD_SUCCESS, segment_location=self._store_copy(copy))
        if call is Call.COMMIT:
            assert copy is not None
            started = manager.ask(Call.COMMIT_START, request)
            if started.status is not Status.COMMIT_CONTINUE:
                return started
            location = self._store_copy(copy)
            return manager.commit_end(request, partial(self._describe, location))
        if call is Call.COMMIT_END_WITH_METADATA:
            return manager.commit_end(request, partial(self._describe, request.location))
        return manager.ask(call, request)

    def _store_copy(self, copy: Copy) -> str:
        location = f"deepstore:{TABLE}/{copy.segment}__{copy.end}.tar.gz"
        self.copies[location] = copy
        return location

    def _describe(self, location: str, config: TableConfig) -> SegmentRecord:
        copy = self.copies[location]
        return SegmentRecord(
            copy.segment, crc=copy.end, total_docs=copy.end - copy.start, download_url=location, size_bytes=100
        )

    def _lost(self) -> bool:
        return self.faulty and self.rng.random() < self.profile.loss

    def _delay_ms(self) -> float:
        if self.faulty and self.rng.random() < self.profile.slow:
            return self.rng.random() * 60_000
        return self.rng.random() * 100

    # the end

    def check_settled(self) -> None:
        """Every row of the stream is in exactly one segment that is served, or in the one that is consumed."""
        ideal = self.registry.must_get_ideal_state(TABLE)
        latest = latest_segments(ideal)
        assert sorted(latest) == list(range(self.stream.partitions)), f"consumed are {sorted(latest)}"
        for partition in range(self.stream.partitions):
            chain = self.checker.check_contiguous(partition)
            assert all(record.status == DONE for record in chain), [f"{r.name} {r.status}" for r in chain]
            for record in chain:
                copy = self.copies[record.download_url]
                assert (copy.start, copy.end) == (int(record.start_offset), int(record.end_offset)), record
                states = set(ideal.states[record.name].values())
                assert states == {ONLINE}, f"{record.name} is {states}"
            last = str(latest[partition])
            record = self.checker.records[last]
            assert record.status == IN_PROGRESS, f"the latest segment {last} is {record.status}"
            assert set(ideal.states[last].values()) == {CONSUMING}, f"{last} is {ideal.states[last]}"
            assert int(record.start_offset) == (int(chain[-1].end_offset) if chain else 0), record
            left = self.stream.end() - int(record.start_offset)
            most = self.profile.rows_per_segment + 5 + 300 * self.profile.rows_per_s
            assert left <= most, f"partition {partition} is {left} rows behind"
            for server in self.servers:
                server.check(partition, chain, last)


class SimServer:
    """A server process: polls the ideal state, runs a machine for each consuming segment."""

    def __init__(self, simulation: Simulation, server_id: str) -> None:
        self.sim = simulation
        self.id = server_id
        self.consumers: dict[str, Consumer] = {}
        self.loaded: dict[str, tuple[int, int]] = {}
        self.generation = 0
        self.down_until = 0
        self._looks = False

    def restart(self) -> None:
        """Die, lose the contents of memory, and start again."""
        self.generation += 1
        self.consumers.clear()
        self.loaded.clear()
        self.down_until = self.sim.scheduler.now_ms + int(self.sim.rng.random() * 60_000)
        self.sim.scheduler.after(self.sim.rng.random() * SESSION_MS, self._expire)
        self.notice()

    def lose_session(self) -> None:
        """Be thought dead for a while, and work on."""
        self.sim.registry.store.delete(paths.live_instance(self.id))
        self.sim.scheduler.after(self.sim.rng.random() * SESSION_MS, self.announce)

    def announce(self) -> None:
        """Tell the cluster that this server is alive, if it is."""
        store = self.sim.registry.store
        if self.sim.scheduler.now_ms >= self.down_until and store.get(paths.live_instance(self.id)) is None:
            store.create(paths.live_instance(self.id), b"")

    def _expire(self) -> None:
        if self.sim.scheduler.now_ms < self.down_until:
            self.sim.registry.store.delete(paths.live_instance(self.id))

    def notice(self) -> None:
        """Schedule a check soon, as something may have changed."""
        if not self._looks:
            self._looks = True
            rng = self.sim.rng
            delay = rng.random() * 30_000 if self.sim.faulty and rng.random() < 0.1 else rng.random() * 2_000
            self.sim.scheduler.after(max(delay, self.down_until - self.sim.scheduler.now_ms), self._look)

    def _look(self) -> None:
        self._looks = False
        if self.sim.scheduler.now_ms < self.down_until:
            self.notice()
        elif self.sim.checker.ideal is not None:
            self.announce()
            self._follow(self.sim.checker.ideal)
            self._read_messages()

    def _follow(self, ideal: Assignment) -> None:
        states = ideal.segments_of(self.id)
        for segment in [*self.consumers, *self.loaded]:
            if states.get(segment) not in (ONLINE, CONSUMING):
                self._drop(segment)
        for segment, state in states.items():
            consumer = self.consumers.get(segment)
            if state == CONSUMING and consumer is None and segment not in self.loaded:
                self._begin(segment)
            elif state == ONLINE and segment not in self.loaded:
                self._go_online(segment, consumer)

    def _drop(self, segment: str) -> None:
        consumer = self.consumers.pop(segment, None)
        if consumer is not None:
            consumer.done = True
        self.loaded.pop(segment, None)

    def _begin(self, segment: str) -> None:
        record = self.sim.checker.records.get(segment)
        if record is not None and record.status == IN_PROGRESS:
            self._step(self._consumer(segment, record))

    def _consumer(self, segment: str, record: SegmentRecord) -> Consumer:
        profile, now = self.sim.profile, self.sim.scheduler.now_ms
        start = int(record.start_offset)
        machine = ConsumerMachine(
            IntegerOffset(start),
            FlushLimits(record.flush_threshold_rows, record.creation_time_ms, 300_000),
            now,
            pauseless=profile.pauseless,
        )
        consumer = Consumer(segment, start, machine, self.generation)
        self.consumers[segment] = consumer
        return consumer

    def _go_online(self, segment: str, consumer: Consumer | None) -> None:
        record = self.sim.checker.records.get(segment)
        if record is None or not record.end_offset:
            return
        if consumer is None and record.status == DONE:
            copy = self.sim.copies[record.download_url]
            self.loaded[segment] = (copy.start, copy.end)
            return
        if consumer is None:
            # Its end is decided, but it was not stored: consume exactly its rows again, and see which replica must commit.
            consumer = self._consumer(segment, record)
        end, now = IntegerOffset(int(record.end_offset)), self.sim.scheduler.now_ms
        if record.status == DONE:
            consumer.machine.go_online(end, now)
        else:
            consumer.machine.decide_end(end, now)
        self._step(consumer)

    def _read_messages(self) -> None:
        registry = self.sim.registry
        for name in registry.store.children(paths.messages(self.id)):
            path = f"{paths.messages(self.id)}/{name}"
            node = registry.store.get(path)
            assert node is not None
            for segment in decode(node.value).lists["segments"]:
                if segment in self.consumers:
                    self.consumers[segment].machine.force_commit()
            registry.store.delete(path)

    def copy_of(self, segment: str) -> Copy:
        """Return this server's copy of a segment that is ONLINE. Raises NotFoundError."""
        if self.sim.scheduler.now_ms < self.down_until:
            raise NotFoundError(segment)
        consumer = self.consumers.get(segment)
        if consumer is not None and consumer.serves and consumer.built is not None:
            return consumer.built
        if segment not in self.loaded:
            raise NotFoundError(segment)
        return Copy(segment, *self.loaded[segment])

    # what a consumer does

    def _step(self, consumer: Consumer) -> None:
        if consumer.busy or consumer.done or consumer.generation != self.generation:
            return
        sim, machine = self.sim, consumer.machine
        now = sim.scheduler.now_ms
        consumer.ticket += 1  # what was to come later, comes from here
        action = machine.next(now)
        match action:
            case Consume():
                self._consume(consumer, action)
            case Wait(until_ms=until):
                wait = 5_000 if until is None else max(1, min(until - now, 5_000))
                if until is None and machine.state.is_final and not machine.online:
                    return
                self._step_after(consumer, wait)
            case ReportConsumed(reason=reason):
                request = self._request(consumer, "" if reason is None else reason.value)
                self._ask(consumer, Call.CONSUMED, request, None, partial(self._answered, consumer))
            case Build(lease_s=lease):
                self._build(consumer, lease)
            case StartCommit():
                self._ask(
                    consumer, Call.COMMIT_START, self._request(consumer), None,
                    lambda r: machine.commit_started(r.status, sim.scheduler.now_ms),
                )  # fmt: skip
            case Upload():
                self._ask(
                    consumer, Call.UPLOAD, self._request(consumer), consumer.built,
                    lambda r: machine.uploaded(r.segment_location, sim.scheduler.now_ms),
                )  # fmt: skip
            case EndCommit(location=location):
                request = self._request(consumer, location=location)
                self._ask(
                    consumer, Call.COMMIT_END_WITH_METADATA, request, None,
                    lambda r: machine.commit_ended(r.status, sim.scheduler.now_ms),
                )  # fmt: skip
            case CommitWhole():
                self._ask(
                    consumer, Call.COMMIT, self._request(consumer), consumer.built,
                    lambda r: machine.commit_ended(r.status, sim.scheduler.now_ms),
                )  # fmt: skip
            case ReportStopped(reason=text):
                self._ask(
                    consumer, Call.STOPPED_CONSUMING, self._request(consumer, text), None,
                    lambda r: machine.stop_reported(r.status is Status.PROCESSED, sim.scheduler.now_ms),
                )  # fmt: skip
            case Serve():
                consumer.serves = True
                self._step(consumer)
            case BeginAnew():
                self._drop(consumer.segment)
                self.notice()
            case Leave(download=download):
                self._leave(consumer, download)

    def _step_after(self, consumer: Consumer, delay_ms: float) -> None:
        ticket = consumer.ticket

        def step() -> None:
            if consumer.ticket == ticket:
                self._step(consumer)

        self.sim.scheduler.after(delay_ms, step)

    def _consume(self, consumer: Consumer, action: Consume) -> None:
        sim, machine = self.sim, consumer.machine
        offset = machine.offset
        assert isinstance(offset, IntegerOffset)
        if sim.faulty and sim.rng.random() < sim.profile.stop_chance:
            machine.fetch_failed("the stream is gone", sim.scheduler.now_ms, permanent=True)
            self._step(consumer)
            return
        end = min(sim.stream.end(), offset.value + sim.rng.randint(1, 400))
        if action.rows_max is not None:
            end = min(end, offset.value + action.rows_max)
        if action.until is not None:
            assert isinstance(action.until, IntegerOffset)
            end = min(end, action.until.value)
        if end > offset.value:
            machine.consumed(IntegerOffset(end), end - offset.value, sim.scheduler.now_ms)
        self._step_after(consumer, 2_000 + sim.rng.random() * 18_000)

    def _build(self, consumer: Consumer, lease_s: int | None) -> None:
        sim = self.sim
        offset = consumer.machine.offset
        assert isinstance(offset, IntegerOffset)
        long = sim.faulty and sim.rng.random() < 0.1
        takes = sim.rng.random() * (400_000 if long else 5_000)
        consumer.busy = True
        if lease_s is not None:
            self._extend(consumer, sim.scheduler.now_ms + takes, lease_s * 900)

        def built() -> None:
            consumer.busy = False
            if consumer.generation == self.generation and not consumer.done:
                consumer.built = Copy(consumer.segment, consumer.start, offset.value)
                consumer.machine.built()
                self._step(consumer)

        sim.scheduler.after(takes, built)

    def _extend(self, consumer: Consumer, until_ms: float, delay_ms: float) -> None:
        """Ask for more time while the segment is built."""

        def extend() -> None:
            if consumer.busy and not consumer.done and consumer.generation == self.generation:
                self._send(Call.EXTEND_BUILD_TIME, self._request(consumer, extra_time_s=120), None, lambda r: None)
                self._extend(consumer, until_ms, 108_000)

        if self.sim.scheduler.now_ms + delay_ms < until_ms:
            self.sim.scheduler.after(delay_ms, extend)

    def _answered(self, consumer: Consumer, response: CompletionResponse) -> None:
        offset = None if response.offset is None else IntegerOffset(int(response.offset))
        consumer.machine.answered(
            response.status, offset, response.build_time_s, self.sim.scheduler.now_ms, split_commit=response.split_commit
        )

    def _leave(self, consumer: Consumer, download: bool) -> None:
        record = self.sim.checker.records.get(consumer.segment)
        if not download:
            assert consumer.built is not None
            self.loaded[consumer.segment] = (consumer.built.start, consumer.built.end)
        elif record is not None and record.status == DONE:
            copy = self.sim.copies[record.download_url]
            self.loaded[consumer.segment] = (copy.start, copy.end)
        else:
            self._step_after(consumer, 5_000)
            return
        self.consumers.pop(consumer.segment, None)
        consumer.done = True

    def _request(self, consumer: Consumer, reason: str = "", location: str = "", extra_time_s: int = 0) -> CompletionRequest:
        machine = consumer.machine
        if not reason and machine.stop_reason is not None:
            reason = machine.stop_reason.value
        return CompletionRequest(
            self.id, consumer.segment, str(machine.offset), reason, row_count=machine.num_rows, location=location,
            extra_time_s=extra_time_s,
        )  # fmt: skip

    def _ask(
        self, consumer: Consumer, call: Call, request: CompletionRequest, copy: Copy | None,
        tell: Callable[[CompletionResponse], None],
    ) -> None:  # fmt: skip
        consumer.busy = True

        def answered(response: CompletionResponse) -> None:
            consumer.busy = False
            if consumer.generation == self.generation and not consumer.done:
                tell(response)
                self._step(consumer)

        self._send(call, request, copy, answered)

    def _send(
        self, call: Call, request: CompletionRequest, copy: Copy | None, answer: Callable[[CompletionResponse], None]
    ) -> None:
        self.sim.send(call, request, copy, answer)

    # the end

    def check(self, partition: int, chain: list[SegmentRecord], consuming: str) -> None:
        """Check that this server serves the committed rows of a partition."""
        ideal = self.sim.registry.must_get_ideal_state(TABLE)
        for record in chain:
            if self.id in ideal.states[record.name]:
                served = self.loaded.get(record.name)
                assert served == (int(record.start_offset), int(record.end_offset)), (
                    f"{self.id} serves {record.name} as {served}"
                )
        if self.id in ideal.states[consuming]:
            assert consuming in self.consumers, f"{self.id} does not consume {consuming}"
            consumer = self.consumers[consuming]
            assert consumer.machine.state is not ConsumerState.ERROR, f"{self.id} gave up on {consuming}"


def _quietly(work: Callable[[], None]) -> None:
    """Run an action of an operator or a periodic task, which may fail, and is retried."""
    from gamay.cluster.store.store import StoreUnavailableError

    try:
        work()
    except (StoreUnavailableError, ConflictError, NotFoundError):
        return


__all__ = ["Profile", "Simulation", "StopReason"]

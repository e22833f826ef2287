"""Segments move between servers during queries, and every answer is exact."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from tests.waiting import eventually

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError
from gamay.base.ids import RANDOM_IDS
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.routes.routing import RoutingTables
from gamay.cluster.access.principals import ANYONE
from gamay.cluster.place.rebalance_steps import StepRules
from gamay.cluster.records.records import ONLINE, Instance
from gamay.cluster.records.registry import Registry
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.cluster.store.store import FencedError
from gamay.controller.rebalance.aim import Aim
from gamay.controller.rebalance.jobs import RebalanceJob
from gamay.controller.rebalance.options import RebalanceOptions
from gamay.controller.rebalance.rebalance import _OvertakenError
from gamay.controller.rebalance.relocation import SegmentRelocator
from gamay.controller.rebalance.tenants import TenantRebalanceManager
from gamay.controller.segments.retention import RetentionManager
from gamay.controller.segments.writer import TableWriter
from gamay.roles.controller_role import ControllerRole
from gamay.roles.server_role import ServerRole
from gamay.server.loading.sources import SegmentSources
from gamay.storage.local_store import LocalStore

TABLE = "trips_OFFLINE"
TAG = "DefaultTenant_OFFLINE"
ROWS, SEGMENTS = 1_200, 12
NOW_MS = SYSTEM_CLOCK.now_ms()
DAY_MS = 86_400_000
SCHEMA = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
QUICK = RebalanceOptions(external_view_check_interval_in_ms=5)


class _Silent:
    """A controller's view of servers that report nothing about themselves."""

    def __getattr__(self, name: str) -> Any:
        def ask(instance: str, *_: object) -> Any:
            raise NotFoundError(f"{instance} was not asked")

        return ask


class Team:
    """A controller, a broker and some servers in one process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._store = EmbeddedStore.open(root / "metadata.db", SYSTEM_CLOCK)
        self.registry = Registry(self._store)
        self.controller = ControllerRole(
            self.registry,
            self.registry,
            LocalStore(root / "deep"),
            root / "work",
            _Silent(),
            "Controller_localhost_1",
            "http://localhost:1",
            SYSTEM_CLOCK,
            RANDOM_IDS,
        )
        self.controller.prepare(alone=True)
        self.controller.lead()
        self.rebalances = self.controller.rebalances
        self.servers: dict[str, ServerRole] = {}
        self._sessions: list[Any] = []
        self._connections: dict[str, Any] = {}
        self.routing = RoutingTables(self.registry)
        self.routing.start()
        self.runner = QueryRunner("Broker_localhost_1", self.routing, self._connections, SYSTEM_CLOCK)

    def add_server(self, number: int, *tags: str, pool: str | None = None) -> str:
        name = f"Server_s{number}_8098"
        pools = {} if pool is None else {TAG: pool}
        self.registry.put_instance(Instance(name, f"s{number}", 8098, tags or (TAG,), pools=pools))
        session = self._store.new_session()
        deep = self.controller.context.deep_store
        role = ServerRole(
            name,
            Registry(session),
            self.root / name,
            SegmentSources(deep),
            SYSTEM_CLOCK,
            RANDOM_IDS,
            threads=1,
        )
        role.instance.start()
        self.servers[name] = role
        self._sessions.append(session)
        self._connections[name] = role.executor
        return name

    def create(self, *, days_old: float = 0, **config: Any) -> None:
        self.controller.schemas.add(SCHEMA)
        self.controller.tables.add(
            {
                "tableName": "trips",
                "tableType": "OFFLINE",
                "segmentsConfig": {"replication": "2", "timeColumnName": "ts", **config.pop("segments", {})},
                "tenants": {},
                "tableIndexConfig": {},
                "metadata": {},
                **config,
            },
            by=ANYONE,
        )
        self.push("trips", days_old=days_old)

    def codecs(self, column: str) -> set[str | None]:
        """The codecs with which a column is stored in the loaded segments."""
        tables = [data for role in self.servers.values() if (data := role.instance.table(TABLE)) is not None]
        return {one.segment.info.columns[column].codec for data in tables for one in data.snapshot().values()}

    def push(self, prefix: str, *, days_old: float = 0) -> None:
        writer = TableWriter(self.controller.context, self.controller.tables, self.controller.segments)
        times = pa.array([int(NOW_MS - days_old * DAY_MS)] * ROWS, pa.int64())
        rows = pa.record_batch({"n": pa.array(range(ROWS), pa.int32()), "ts": times})
        writer.write(TABLE, lambda p: [p.apply(rows)], lambda i: f"{prefix}_{i:02}", ROWS // SEGMENTS)
        self.routing.wait_until(lambda: self.count() is not None, 60)

    def count(self, expected: int = ROWS) -> int | None:
        answer = self.runner.run("SELECT count(*) FROM trips")
        if answer.exceptions or answer.table is None:
            return None
        found = int(answer.table.rows()[0][0])
        return found if found == expected else None

    def placed(self) -> dict[str, set[str]]:
        states = self.registry.must_get_ideal_state(TABLE).states
        return {segment: {i for i, state in instances.items() if state == ONLINE} for segment, instances in states.items()}

    def loads(self) -> dict[str, int]:
        placed = self.placed().values()
        return {server: sum(server in instances for instances in placed) for server in self.servers}

    def finished(self, job_id: str) -> str:
        for _ in range(3_000):
            told = self.rebalances.status(job_id)["tableRebalanceProgressStats"]
            if told["status"] != "IN_PROGRESS":
                return str(told["status"])
            time.sleep(0.01)
        return "IN_PROGRESS"

    def stop(self) -> None:
        self.rebalances.stop()
        self.runner.close()
        self.routing.stop()
        self.controller.resign()
        for role in self.servers.values():
            role.instance.stop()
            role.executor.close()
        for session in self._sessions:
            session.close()
        self._store.close()


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    found = Team(tmp_path)
    for number in range(2):
        found.add_server(number)
    yield found
    found.stop()


class Asking:
    """Continuous queries; `wrong` lists the answers that are not exact."""

    def __init__(self, team: Team) -> None:
        self.wrong: list[str] = []
        self.asked = 0
        self._team, self._stop = team, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Asking":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            answer = self._team.runner.run("SELECT count(*), sum(n) FROM trips")
            rows = None if answer.table is None else answer.table.rows()
            if answer.exceptions or rows is None or tuple(rows[0]) != (ROWS, ROWS * (ROWS - 1) / 2):
                self.wrong.append(f"{answer.exceptions} {rows}")
            self.asked += 1


def test_servers_that_join_get_their_share_while_queries_go_on(team: Team) -> None:
    team.create()
    for number in range(2, 4):
        team.add_server(number)
    before = team.placed()
    dry = team.rebalances.rebalance(TABLE, replace(QUICK, dry_run=True))
    assert (dry.status, team.placed()) == ("DONE", before)
    assert dry.summary is not None
    assert dry.summary["segmentInfo"]["totalSegmentsToBeMoved"] == SEGMENTS
    with Asking(team) as asking:
        result = team.rebalances.rebalance(TABLE, QUICK)
        assert result.status == "IN_PROGRESS"
        assert team.finished(result.job_id) == "DONE"
    assert not asking.wrong
    assert asking.asked > 10
    assert set(team.loads().values()) == {2 * SEGMENTS // 4}
    assert {segment: set(states) for segment, states in (dry.target or {}).items()} == team.placed()
    assert team.rebalances.rebalance(TABLE, QUICK).status == "NO_OP"
    assert result.job_id in team.rebalances.jobs(TABLE)


def test_a_server_that_lost_its_tag_is_emptied_a_few_segments_at_a_time(team: Team) -> None:
    team.create()
    team.add_server(2)
    leaving = team.registry.get_instance("Server_s0_8098")
    assert leaving is not None
    team.registry.put_instance(replace(leaving, tags=("server_untagged",)))
    with Asking(team) as asking:
        result = team.rebalances.rebalance(TABLE, replace(QUICK, batch_size_per_server=2, low_disk_mode=True))
        assert team.finished(result.job_id) == "DONE"
    assert not asking.wrong
    assert team.loads() == {"Server_s0_8098": 0, "Server_s1_8098": SEGMENTS, "Server_s2_8098": SEGMENTS}


def test_replica_groups_hold_everything_once_each(team: Team) -> None:
    for number in range(2, 5):
        team.add_server(number)
    groups = {
        "OFFLINE": {
            "tagPoolConfig": {"tag": TAG},
            "replicaGroupPartitionConfig": {"replicaGroupBased": True, "numReplicaGroups": 2},
        }
    }
    team.create(instanceAssignmentConfigMap=groups, routing={"instanceSelectorType": "strictReplicaGroup"})
    stored = team.controller.placement.stored("trips_OFFLINE")
    assert stored is not None
    assert [len(group) for group in stored.groups[0]] == [2, 2]
    team.add_server(5)
    assert team.controller.placement.stored("trips_OFFLINE") == stored, "a server that joins changes nothing by itself"
    with Asking(team) as asking:
        result = team.rebalances.rebalance(TABLE, QUICK)
        assert team.finished(result.job_id) == "DONE"
    assert not asking.wrong
    after = team.controller.placement.stored("trips_OFFLINE")
    assert after is not None
    assert [len(group) for group in after.groups[0]] == [3, 3]
    assert all(set(old) <= set(new) for old, new in zip(stored.groups[0], after.groups[0], strict=True))
    for instances in team.placed().values():
        assert [len(instances & set(group)) for group in after.groups[0]] == [1, 1]


def test_old_segments_move_to_their_tier_by_themselves(team: Team) -> None:
    cold = team.add_server(2, "cold_OFFLINE")
    tiers = [
        {
            "name": "old",
            "segmentSelectorType": "time",
            "segmentAge": "7d",
            "storageType": "pinot_server",
            "serverTag": "cold_OFFLINE",
        }
    ]
    indexing = {"tierOverwrites": {"old": {"noDictionaryConfig": {"n": "ZSTANDARD"}}}}
    team.create(tierConfigs=tiers, segments={"replication": "1"}, days_old=30, tableIndexConfig=indexing)
    assert team.loads()[cold] == 0
    assert team.codecs("n") == {None}
    with Asking(team) as asking:
        SegmentRelocator(team.controller.placement, team.rebalances).run()
        for job_id in team.rebalances.jobs(TABLE):
            assert team.finished(job_id) == "DONE"
    assert team.loads()[cold] == SEGMENTS
    assert {record.tier for record in team.registry.segments(TABLE)} == {"old"}
    assert team.codecs("n") == {"ZSTANDARD"}
    assert team.servers[cold].instance.stale_segments(TABLE) == []
    assert not asking.wrong, "the one replica stays until the new one has come"


def test_what_cannot_be_done_is_told_and_changes_nothing(team: Team) -> None:
    team.create()
    before = team.placed()
    team.registry.put_instance(replace(team.registry.get_instance("Server_s1_8098") or _none(), tags=()))
    failed = team.rebalances.rebalance(TABLE, QUICK)
    assert (failed.status, "2 replicas need as many servers" in failed.description) == ("FAILED", True)
    team.add_server(2)
    refused = team.rebalances.rebalance(TABLE, replace(QUICK, min_available_replicas=2))
    assert (refused.status, "minAvailableReplicas 2 leaves no replica to move" in refused.description) == ("FAILED", True)
    assert team.placed() == before
    with pytest.raises(NotFoundError):
        team.rebalances.rebalance("nothing_OFFLINE", QUICK)
    with pytest.raises(NotFoundError):
        team.rebalances.status("nothing")


def _none() -> Instance:
    raise AssertionError("the server is not known")


def test_one_rebalance_of_a_table_at_a_time_and_it_can_be_ended(team: Team) -> None:
    team.create()
    new = team.add_server(2)
    team.servers[new].instance.stop()  # it will load nothing, so the rebalance waits
    result = team.rebalances.rebalance(TABLE, QUICK)
    with pytest.raises(ConflictError, match="is being rebalanced by the job"):
        team.rebalances.rebalance(TABLE, QUICK)
    assert team.rebalances.cancel(TABLE) == [result.job_id]
    assert team.finished(result.job_id) == "CANCELLED"
    assert team.rebalances.cancel(TABLE) == []
    assert team.count() == ROWS


def test_with_downtime_everything_moves_at_once(team: Team) -> None:
    team.create(segments={"replication": "1"})
    team.add_server(2)
    result = team.rebalances.rebalance(TABLE, replace(QUICK, downtime=True, bootstrap=True))
    assert result.status == "DONE"
    assert sorted(team.loads().values()) == [SEGMENTS // 3] * 3


def _stats(job: dict[str, str]) -> Any:
    return orjson.loads(job["REBALANCE_PROGRESS_STATS"])


def test_a_rebalance_that_died_with_its_controller_is_begun_again(team: Team) -> None:
    team.create()
    new = team.add_server(2)
    team.servers[new].instance.stop()
    forgetful = replace(QUICK, heartbeat_timeout_in_ms=0, batch_size_per_server=1)
    result = team.rebalances.rebalance(TABLE, forgetful)
    job, _ = team.rebalances._running[TABLE]
    version = team.rebalances._versions[job.id]
    other = type(team.rebalances)(team.controller.context, team.controller.placement)

    def both_are_told() -> bool:
        """Return whether both are reported; the first may report in between."""
        if len(other.jobs(TABLE)) < 2:
            other.check()  # another controller, which knows of the first one by its record alone
        return len(other.jobs(TABLE)) >= 2

    eventually(both_are_told)
    # the second takes its only step, for the new server loads nothing
    eventually(lambda: any(new in states for states in team.registry.must_get_ideal_state(TABLE).states.values()))
    # the first one was only paused: its writes after it resumes are refused, and it reports nothing more
    ideal = team.registry.must_get_ideal_state(TABLE)
    team.rebalances._versions[job.id] = version  # its own thread may have found out, and ended
    with pytest.raises(FencedError):
        team.rebalances._step(job, team.rebalances._aims.aim(job, ideal, []))
    assert team.registry.must_get_ideal_state(TABLE) == ideal
    team.rebalances._versions[job.id] = version
    with pytest.raises(_OvertakenError):
        team.rebalances._note(job, "IN_PROGRESS", "", team.rebalances._aims.aim(job, ideal, []))
    assert other.status(result.job_id)["tableRebalanceProgressStats"]["status"] == "ABORTED"
    # and a third one can end the second
    third = type(team.rebalances)(team.controller.context, team.controller.placement)
    assert result.job_id not in third.cancel(TABLE)
    assert {stats["status"] for stats in map(_stats, other.jobs(TABLE).values())} == {"ABORTED", "CANCELLED"}
    other.stop()
    team.rebalances.stop()


def test_a_tenant_is_rebalanced_table_by_table(team: Team) -> None:
    team.create()
    team.add_server(2)
    tenants = TenantRebalanceManager(team.controller.context, team.controller.tables, team.rebalances)
    answer = tenants.rebalance("DefaultTenant", QUICK)
    assert (answer["totalTables"], answer["statusSummary"]) == (1, {"IN_QUEUE": 1})
    for _ in range(3_000):
        told = tenants.status(answer["jobId"])["tenantRebalanceProgressStats"]
        if not told["remainingTables"]:
            break
        time.sleep(0.01)
    assert told["tableStatusMap"] == {TABLE: "DONE"}
    assert list(tenants.jobs("DefaultTenant")) == [answer["jobId"]]
    with pytest.raises(NotFoundError, match="no tables"):
        tenants.rebalance("nobody", QUICK)


def test_segments_past_their_retention_are_deleted_and_others_kept(team: Team) -> None:
    team.create(segments={"retentionTimeUnit": "DAYS", "retentionTimeValue": "10"}, days_old=30)
    team.push("young", days_old=1)
    retention = RetentionManager(team.controller.context, team.controller.tables, team.controller.segments)
    retention.run()
    assert sorted(team.placed()) == [f"young_{i:02}" for i in range(SEGMENTS)]
    team.routing.wait_until(lambda: team.count() == ROWS, 60)
    assert team.count() == ROWS
    retention.run()
    assert len(team.placed()) == SEGMENTS


def test_consuming_segments_that_move_are_committed_first(team: Team) -> None:
    team.create()
    asked: list[tuple[str, list[str]]] = []

    class Commits:
        def begin(self, table: str, segments: Any, batch_size: int, interval_s: int, timeout_s: int) -> str:
            asked.append((table, list(segments)))
            return "job"

        def left(self, job_id: str) -> int:
            return 0

    rebalances = type(team.rebalances)(team.controller.context, team.controller.placement, Commits())
    states = {"trips_00": {"Server_gone_1": "CONSUMING"}}
    team.registry.update_ideal_state(TABLE, lambda ideal: ideal.with_segments(states))
    ideal = team.registry.must_get_ideal_state(TABLE)
    job = RebalanceJob("j", TABLE, replace(QUICK, force_commit=True), 1, NOW_MS)
    plan = team.controller.placement.plan(TABLE)
    target = {**ideal.states, "trips_00": {"Server_s0_8098": "CONSUMING"}}
    aim = Aim(plan, target, ideal.states, StepRules(0))
    rebalances._commit(job, aim, Commits(), threading.Event())
    assert asked == [(TABLE, ["trips_00"])]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dryrun": "true"}, "unknown option 'dryrun'. Did you mean 'dryRun'"),
        ({"downtime": "yes"}, "downtime: 'yes' must be true or false"),
        ({"minAvailableReplicas": "x"}, "minAvailableReplicas: 'x' must be a number"),
        ({"minimizeDataMovement": "MAYBE"}, "must be ENABLE, DISABLE or DEFAULT"),
        ({"batchSizePerServer": "0"}, "batchSizePerServer must be"),
        ({"preChecks": "true"}, "needs dryRun=true"),
    ],
)
def test_wrong_options_are_told(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        RebalanceOptions.parse(given)
    assert RebalanceOptions.parse(RebalanceOptions().to_json()) == RebalanceOptions()


def test_a_segment_that_is_committed_meanwhile_is_waited_for_as_it_is_now(team: Team) -> None:
    team.create()
    ideal = team.registry.must_get_ideal_state(TABLE)
    [consumed, deleted, *_] = sorted(ideal.states)
    before = {**ideal.states, consumed: dict.fromkeys(ideal.states[consumed], "CONSUMING")}
    aim = Aim(team.controller.placement.plan(TABLE), ideal.states, before, StepRules(0))
    eventually(lambda: team.rebalances._differences(TABLE, aim) == (0, []))
    team.registry.update_ideal_state(TABLE, lambda now: now.with_segments({}, frozenset({deleted})))
    assert team.rebalances._differences(TABLE, aim) == (0, [])
    team.registry.update_ideal_state(TABLE, lambda now: now.with_segments({consumed: {"Server_gone_1": ONLINE}}))
    assert team.rebalances._differences(TABLE, aim)[0] >= 1

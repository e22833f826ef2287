"""Routes computed from the cluster's records."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from gamay.base.clock import ManualClock
from gamay.broker.routes.route import NEW_SEGMENT_MS, RouteBuilder, TableRoute
from gamay.broker.routes.routing import RoutingTables
from gamay.cluster.records.column_stats import ColumnSummary, Partitioning, encode_columns
from gamay.cluster.records.records import (
    CONSUMING,
    ERROR,
    IN_PROGRESS,
    OFFLINE,
    ONLINE,
    Assignment,
    Instance,
    LineageEntry,
    LineageState,
    SegmentRecord,
)
from gamay.cluster.records.registry import Registry, announce
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.model.table.sections import RoutingConfig
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.types import DataType
from gamay.query.bind.predicate import In, Range

NOW_MS = 1_700_000_000_000
SERVERS = ("Server_a_1", "Server_b_1", "Server_c_1")
A, B, C = SERVERS


class Records:
    """The records of one table, and the routes that a broker builds from them; servers are initially alive and enabled."""

    def __init__(self, folder: Path, config: TableConfig) -> None:
        self.table = config.typed_name
        self.clock = ManualClock(NOW_MS)
        self.store = EmbeddedStore.open(folder / "metadata.db", self.clock)
        self.registry = Registry(self.store)
        self.sessions = {name: self.store.new_session() for name in SERVERS}
        for name, session in self.sessions.items():
            self.registry.create_instance(Instance(name, name, 1))
            announce(session, name)
        self.registry.put_schema("t", {"schemaName": "t", "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}]})
        self.registry.create_ideal_state(Assignment.new_table(self.table, 2))
        self.registry.create_table_config(self.table, config.to_json())
        self.routing = RoutingTables(self.registry, self.clock)
        self.routing.start()

    def close(self) -> None:
        self.routing.stop()
        self.store.close()

    def config(self, **routing: Any) -> None:
        document = {**TableConfig.offline("t").to_json(), "routing": routing}
        self.registry.delete_table_config("t_OFFLINE")
        self.registry.create_table_config("t_OFFLINE", document)

    def put(
        self, ideal: Mapping[str, dict[str, str]], view: Mapping[str, dict[str, str]] | None = None, pushed_ms: int = 1
    ) -> None:
        """Write the states of segments; the view is the ideal state unless it is given."""
        for name in ideal:
            if self.registry.get_segment(self.table, name) is None:
                record = SegmentRecord(name, 1, 10, push_time_ms=pushed_ms, download_url="u")
                self.registry.create_segment(self.table, record)
        self.registry.update_ideal_state(self.table, lambda known: replace(known, states=ideal))
        self.registry.put_external_view(Assignment(self.table, ideal if view is None else view))

    def route(self, condition: Callable[[TableRoute], bool]) -> TableRoute:
        """Return the route once a condition holds."""
        assert self.routing.wait_until(lambda: any(map(condition, self.routing.find("t"))), 60), self.routing.find("t")
        return self.routing.find("t")[0]


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    made = Records(tmp_path, TableConfig.offline("t"))
    yield made
    made.close()


def both(state: str = ONLINE) -> dict[str, str]:
    return {A: state, B: state}


def test_servers_that_cannot_be_asked(records: Records) -> None:
    records.put({"s0": {A: ONLINE, B: ONLINE, C: ONLINE}})
    records.route(lambda route: route.servers == (SERVERS,))
    instance = records.registry.get_instance(A)
    assert instance is not None
    for change in ({"enabled": False}, {"queries_disabled": True}, {"shutting_down": True}):
        records.registry.put_instance(replace(instance, **change))
        records.route(lambda route: route.servers == ((B, C),))
        records.registry.put_instance(instance)
        records.route(lambda route: route.servers == (SERVERS,))
    records.sessions[B].close()  # dies: the view still names it
    records.route(lambda route: route.servers == ((A, C),))
    records.put({"s0": {A: OFFLINE, B: ONLINE, C: ONLINE}}, {"s0": {A: ONLINE, C: ONLINE}})
    records.route(lambda route: route.servers == ((C,),))


def test_segments_that_nobody_has(records: Records) -> None:
    records.put({"old": both(), "s1": both()}, {"s1": both()})
    route = records.route(lambda route: route.segments == ("s1",))
    assert route.unavailable == (("old", 1 + NEW_SEGMENT_MS),)
    records.put({"old": both(), "s1": both()}, {"old": both(ERROR), "s1": both()})
    records.route(lambda route: route.unavailable == (("old", 0),))
    records.put({"old": both(OFFLINE), "s1": both()}, {"s1": both()})
    records.route(lambda route: route.unavailable == ())


def test_what_was_there_is_missed_however_new_it_is(records: Records) -> None:
    """New segments that no server has loaded are left out; segments that were already queried are reported as missing."""
    ideal = {"s0": both(), "s1": both()}
    records.put(ideal, {"s0": both()}, pushed_ms=NOW_MS)
    route = records.route(lambda route: route.segments == ("s0",))
    assert route.unavailable == (("s1", NOW_MS + NEW_SEGMENT_MS),)
    # it is pushed once more, and the servers are switched off before the broker has looked at it again
    records.routing.stop()
    records.registry.update_segment("t_OFFLINE", "s0", lambda r: r and r.with_changes(crc=2, refresh_time_ms=NOW_MS))
    for name in (A, B):
        records.registry.put_instance(Instance(name, name, 1, enabled=False))
    for changed in ({"s0"}, None):  # None: the connection to the store was lost
        records.routing._rebuild("t_OFFLINE", changed)
        assert records.routing.find("t")[0].unavailable == (("s0", 0), ("s1", NOW_MS + NEW_SEGMENT_MS))


@pytest.mark.parametrize("selector", ["balanced", "strictReplicaGroup"])
def test_servers_that_the_store_has_lost_are_asked_on(records: Records, selector: str) -> None:
    """Their sessions have expired, and the external view was rebuilt without them; they come back one by one."""
    records.config(instanceSelectorType=selector)
    ideal = {"s0": both(), "s1": both(CONSUMING)}
    records.put(ideal)
    records.route(lambda route: route.servers == ((A, B), (A, B)) and route.selector.value == selector)
    records.sessions[A].close()
    records.route(lambda route: route.servers == ((B,), (B,)))
    is_strict = selector == "strictReplicaGroup"  # where a server that missed a change may show rows twice
    assert records.routing.find("t")[0].spares == (() if is_strict else ((A,), (A,)))
    records.sessions[B].close()
    records.registry.put_external_view(Assignment(records.table, {}))
    records.routing.refresh(records.table)
    route = records.routing.find("t")[0]
    assert (route.servers, route.unavailable) == (((A, B), (A, B)), ())
    announce(records.store.new_session(), A)  # it has not reported its segments yet
    records.routing.refresh(records.table)
    assert records.routing.find("t")[0].servers == ((A, B), (A, B))
    records.put(ideal, {"s0": {A: ONLINE}, "s1": {A: CONSUMING}})
    records.route(lambda route: route.servers == ((A,), (A,)))
    for states in ({A: ERROR}, {A: OFFLINE}):
        records.put(ideal, {"s0": states, "s1": states})
        records.route(lambda route: route.servers == ((B,), (B,)))  # it may have been cut off when its peer failed
    records.put(ideal, {"s0": both(ERROR), "s1": both(OFFLINE)})
    records.route(lambda route: route.unavailable == (("s0", 0), ("s1", 0)))


def test_servers_unload_a_table_that_is_switched_off(records: Records) -> None:
    records.put({"s0": both()})
    records.route(lambda route: route.servers == ((A, B),))
    for flag in ("false", "true"):
        simple = {"HELIX_ENABLED": flag}
        records.registry.update_ideal_state(
            records.table, lambda known, new=simple: replace(known, simple={**known.simple, **new})
        )
        records.registry.put_external_view(Assignment(records.table, {}))
        records.route(lambda route, on=flag == "true": route.enabled == on and route.unavailable == (("s0", 0),))
    records.put({"s0": both()})
    records.route(lambda route: route.servers == ((A, B),))


def test_a_broker_that_starts_misses_new_segments_of_dead_servers(records: Records) -> None:
    """Others may have answered for them before it came."""
    records.put({"s0": both(), "s1": {B: ONLINE, C: ONLINE}}, {}, pushed_ms=NOW_MS)
    records.sessions[A].close()
    records.routing.stop()
    records.routing = RoutingTables(records.registry, records.clock)
    records.routing.start()
    assert records.routing.find("t")[0].unavailable == (("s0", 0), ("s1", NOW_MS + NEW_SEGMENT_MS))


def test_a_broker_starts_while_records_change(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that is deleted between reading the ideal state and the records does not keep the broker from starting."""
    records.put({"s0": both()})
    records.routing.stop()
    read, calls = records.registry.segment_documents, []

    def documents(table: str, names: Sequence[str]) -> Mapping[str, Any]:
        calls.append(table)
        return {} if len(calls) == 1 else read(table, names)

    monkeypatch.setattr(type(records.registry), "segment_documents", lambda _, table, names: documents(table, names))
    records.routing = RoutingTables(records.registry, records.clock)
    records.routing.start()
    assert records.routing.find("t")[0].segments == ("s0",)


def test_online_before_consuming_and_one_consuming_segment_each(records: Records) -> None:
    first, second, third = (f"t__0__{i}__20240101T0000Z" for i in range(3))
    other = "t__1__0__20240101T0000Z"
    ideal = {first: both(), second: both(), third: both(CONSUMING), other: both(CONSUMING)}
    # A has committed the first two; B still consumes the second, and only A the third
    view = {first: both(), second: {A: ONLINE, B: CONSUMING}, third: {A: CONSUMING}, other: both(CONSUMING)}
    records.put(ideal, view)
    route = records.route(lambda route: len(route.segments) == 4)
    assert dict(zip(route.segments, route.servers, strict=True)) == {first: (A, B), second: (A,), third: (A,), other: (A, B)}
    # A is gone: the second segment consumes still, so the third has to wait, and is not missing
    records.sessions[A].close()
    route = records.route(lambda route: len(route.segments) == 3)
    assert dict(zip(route.segments, route.servers, strict=True)) == {first: (B,), second: (B,), other: (B,)}


def test_what_follows_an_ended_segment_is_asked_for_until_it_is_known(tmp_path: Path) -> None:
    """The server of a committed segment already consumes the next one, to which the times of the first do not apply."""
    offline = TableConfig.offline("t")
    table = replace(offline, typed_name="t_REALTIME", table_type=TableType.REALTIME)
    records = Records(tmp_path, table)
    first, second = (f"t__0__{i}__20240101T0000Z" for i in range(2))
    summary = ColumnSummary(DataType.INT, 10, 0, 9, False, 10, 0, None)
    record = SegmentRecord(first, 1, 10, push_time_ms=1, download_url="u", column_stats=encode_columns({"n": summary}))
    records.registry.create_segment(records.table, record)
    later = Range("n", 100, None, True, False)

    def asked(route: TableRoute) -> list[int]:
        return route.pruning.kept_by(later, {field.name: field for field in route.schema.fields})

    try:
        records.put({first: both()})  # paused: nothing follows
        records.route(lambda route: route.segments == (first,) and asked(route) == [])
        records.put({first: both(CONSUMING)})  # recorded as committed, while the ideal state does not show it yet
        records.route(lambda route: route.segments == (first,) and asked(route) == [0])
        following = {first: both(), second: both(CONSUMING)}
        records.put(following, {first: both()})
        records.route(lambda route: route.segments == (first,) and asked(route) == [0])
        records.put(following)
        route = records.route(lambda route: len(route.segments) == 2)
        assert asked(route) == [1]
    finally:
        records.close()


@pytest.mark.parametrize(("pruners", "asked"), [(None, [0, 1, 2]), (["time"], [0, 1, 2]), (["partition"], [0, 2])])
def test_consuming_segments_are_pruned_where_the_table_names_the_partition_pruner(
    tmp_path: Path, pruners: list[str] | None, asked: list[int]
) -> None:
    """The third segment began when the stream had another number of partitions, so it may hold any key."""
    routing = RoutingConfig(segment_pruner_types=None if pruners is None else tuple(pruners))
    table = replace(TableConfig.offline("t"), typed_name="t_REALTIME", table_type=TableType.REALTIME, routing=routing)
    records = Records(tmp_path, table)
    names = [f"t__{partition}__0__20240101T0000Z" for partition in range(3)]
    try:
        for partition, name in enumerate(names):
            entry = {
                "functionName": "Modulo",
                "numPartitions": 3 if partition < 2 else 4,
                "partitions": [partition],
                "functionConfig": None,
            }
            text = orjson.dumps({"columnPartitionMap": {"n": entry}}).decode()
            record = SegmentRecord(name, status=IN_PROGRESS, start_offset="0", partition_metadata=text)
            records.registry.create_segment(records.table, record)
        records.put({name: both(CONSUMING) for name in names})
        route = records.route(lambda route: len(route.segments) == 3)
        fields = {field.name: field for field in route.schema.fields}
        assert list(route.pruning.kept_by(In("n", (3, 6)), fields)) == asked
    finally:
        records.close()


@pytest.mark.parametrize("selector", ["strictReplicaGroup", "multiStageReplicaGroup", "balanced"])
@pytest.mark.parametrize("section", [{"upsertConfig": {"mode": "FULL"}}, {"dedupConfig": {"dedupEnabled": True}}])
def test_partitions_with_keys_lie_on_servers_that_have_all_of_them(
    tmp_path: Path, selector: str, section: dict[str, Any]
) -> None:
    """However new their segments are, and whatever config an older version accepted."""
    records = Records(tmp_path, replace(TableConfig.offline("t"), typed_name="t_REALTIME", table_type=TableType.REALTIME))
    schema = {"schemaName": "t", "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}], "primaryKeyColumns": ["n"]}
    first, second, other = (f"t__{p}__{i}__20240101T0000Z" for p, i in ((0, 0), (0, 1), (1, 0)))
    uploaded, by_rows = "up__t__1__5__x", "pushed"
    summary = ColumnSummary(DataType.INT, 10, 0, 9, False, 10, 0, Partitioning("Modulo", 2, (0,), {}))
    record = SegmentRecord(
        by_rows, 1, 10, push_time_ms=NOW_MS, download_url="u", column_stats=encode_columns({"n": summary})
    )
    try:
        document = records.registry.get_table_config(records.table)
        assert document is not None
        records.registry.create_segment(records.table, record)
        records.put({first: both(), by_rows: both()}, pushed_ms=NOW_MS)
        records.route(lambda route: len(route.segments) == 2)
        records.registry.put_schema("t", schema)
        records.registry.delete_table_config(records.table)  # upserts are switched on while the broker knows two segments
        config = {**document, "routing": {"instanceSelectorType": selector}, **section}
        records.registry.create_table_config(records.table, config)
        ideal = {first: both(), second: both(CONSUMING), other: both(CONSUMING), uploaded: both(), by_rows: both()}
        records.put(ideal, {**ideal, second: {A: CONSUMING}, uploaded: {B: ONLINE}}, pushed_ms=NOW_MS)
        route = records.route(lambda route: len(route.segments) == 5 and bool(route.selector.value.startswith("strict")))
        found = dict(zip(route.segments, route.servers, strict=True))
        assert found == {first: (A,), second: (A,), by_rows: (A,), other: (B,), uploaded: (B,)}
        assert not route.optional
        assert not route.unavailable
        records.put(ideal, {**ideal, second: {A: CONSUMING}, by_rows: {B: ONLINE}}, pushed_ms=NOW_MS)
        route = records.route(lambda route: bool(route.unavailable))
        assert route.unavailable == ((by_rows, 0),)  # it was queried before, so it is reported immediately
    finally:
        records.close()


def test_strict_groups_leave_new_segments_out_for_a_while(records: Records) -> None:
    records.config(instanceSelectorType="strictReplicaGroup")
    records.put({"s0": both(), "s1": both()}, {"s0": both(), "s1": {A: ONLINE}})
    route = records.route(lambda route: len(route.segments) == 2 and route.selector.value == "strictReplicaGroup")
    assert route.servers == ((A,), (A,))  # B lacks an old one
    ideal = {"s0": both(), "s2": both()}
    records.put(ideal, {"s0": both(), "s2": {A: ONLINE}}, pushed_ms=NOW_MS)
    route = records.route(lambda route: route.segments == ("s0", "s2"))
    assert route.servers == ((A, B), (A, B))
    assert route.optional == {"s2"}
    assert route.stale_ms == NOW_MS + NEW_SEGMENT_MS
    records.clock.advance(NEW_SEGMENT_MS / 1000 + 1)
    records.routing.refresh("t_OFFLINE")
    route = records.route(lambda route: not route.optional)
    assert route.servers == ((A,), (A,))


def test_names_in_any_case_mean_one_table(records: Records) -> None:
    records.put({"s0": both()})
    records.route(lambda route: route.segments == ("s0",))
    for name in ("t", "T", "t_OFFLINE", "T_offline"):
        assert [route.table for route in records.routing.find(name)] == ["t_OFFLINE"]
    assert records.routing.find("t_REALTIME") == []


def test_a_replacement_that_is_completed_between_two_reads(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = LineageEntry("e", ("old",), ("new",), LineageState.IN_PROGRESS, 1)
    records.put({"old": both()})
    records.registry.update_lineage("t_OFFLINE", lambda lineage: lineage.with_entry(entry))
    records.put({"old": both(), "new": both()}, {"old": both()})
    read_view = Registry.get_external_view
    seen: list[Assignment | None] = []

    def view_before_completion(registry: Registry, table: str) -> Assignment | None:
        view = read_view(registry, table)
        if not seen:
            seen.append(view)
            registry.put_external_view(Assignment(table, {"old": both(), "new": both()}))
            done = replace(entry, state=LineageState.COMPLETED)
            registry.update_lineage(table, lambda lineage: lineage.with_entry(done))
        return view

    records.routing.stop()  # only the route below is to be read
    monkeypatch.setattr(Registry, "get_external_view", view_before_completion)
    route = RouteBuilder(records.registry).build("t_OFFLINE", {}, NOW_MS)
    assert seen
    assert route is not None
    assert route.segments == ("new",)

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError
from gamay.cluster.place.instance_partitions import tagged_instances
from gamay.cluster.place.placement import Strategy, place_new
from gamay.cluster.records.column_stats import (
    TEXT_BYTES_MAX,
    ColumnSummary,
    Partitioning,
    decode_bounds,
    encode_columns,
)
from gamay.cluster.records.invariants import InvariantError, name_problem
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import (
    ONLINE,
    Assignment,
    Instance,
    Lineage,
    LineageEntry,
    LineageState,
    SegmentRecord,
)
from gamay.cluster.records.registry import Registry, announce
from gamay.cluster.records.views import SegmentStatus, fold, segment_status, servers_of
from gamay.cluster.store import paths
from gamay.cluster.store.store import MAX_VALUE_BYTES, MetadataStore
from gamay.cluster.store.znrecord import CorruptRecordError, ZNRecord, decode, encode
from gamay.model.types import DataType

texts = st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=5)
SEGMENT = SegmentRecord("s", crc=1, total_docs=2, download_url="deepstore:t_OFFLINE/s__1.tar.gz")


@given(
    st.text(), texts, st.dictionaries(st.text(max_size=5), texts), st.dictionaries(st.text(max_size=5), st.lists(st.text()))
)
def test_records_are_read_as_written(
    name: str, simple: dict[str, str], maps: dict[str, dict[str, str]], lists: dict[str, list[str]]
) -> None:
    record = ZNRecord(name, simple, maps, lists)
    assert decode(encode(record)) == record


def test_large_records_are_compressed_and_equal_ones_are_equal_bytes() -> None:
    states = {f"trips_2024-01-01_2024-01-02_{i}": {"Server_a_8098": ONLINE} for i in range(10_000)}
    value = encode(Assignment("trips_OFFLINE", states).to_record())
    assert len(value) < MAX_VALUE_BYTES
    assert Assignment.from_record(decode(value)).states == states
    assert value == encode(Assignment("trips_OFFLINE", dict(reversed(states.items()))).to_record())


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"\x1f\x8bgarbage", b"{}", b"\xff"])
def test_foreign_values_are_told(value: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode(value)


def test_a_segment_record_survives_the_round_trip() -> None:
    record = SegmentRecord(
        "s",
        crc=7,
        total_docs=0,
        start_time_ms=1,
        end_time_ms=2,
        creation_time_ms=3,
        push_time_ms=4,
        refresh_time_ms=5,
        size_bytes=6,
        start_time_raw="a",
        end_time_raw="b",
        time_unit="MILLISECONDS",
        download_url="u",
        partition_metadata="{}",
        tier="hot",
        column_stats="{}",
        custom={"k": "v"},
        extra={"some.other": "field"},
    )
    assert SegmentRecord.from_record(record.to_record()) == record
    assert SEGMENT.to_record().simple["segment.start.time"] == "-1"


def test_an_instance_survives_the_round_trip() -> None:
    instance = Instance("Server_h_1", "h", 1, ("a", "b"), False, 2, 3, True, {"a": "1"}, {"x": "y"})
    assert Instance.from_record(instance.to_record()) == instance


def test_a_lineage_survives_the_round_trip_and_hides_the_right_side() -> None:
    entry = LineageEntry("e", ("a", "b"), ("c",), LineageState.IN_PROGRESS, 5)
    lineage = Lineage("t_OFFLINE").with_entry(entry)
    of_table = lineage.with_entry(LineageEntry("f", (), ("d",), LineageState.IN_PROGRESS, 6, is_of_table=True))
    for one in (lineage, of_table, of_table.with_custom({"a": "1", "b": "x"}).with_custom({"b": "y"})):
        assert Lineage.from_record(one.to_record()) == Lineage.from_record(one.to_large_record()) == one
    assert lineage.hidden_segments() == {"c"}
    done = LineageEntry("e", ("a", "b"), (), LineageState.COMPLETED, 5)
    assert Lineage.from_record(lineage.with_entry(done).to_record()).hidden_segments() == {"a", "b"}
    assert lineage.without(frozenset({"e"})).hidden_segments() == frozenset()


@pytest.mark.parametrize(
    "bad",
    [
        SEGMENT.with_changes(crc=-1),
        SEGMENT.with_changes(total_docs=-1),
        SEGMENT.with_changes(download_url=""),
        SEGMENT.with_changes(status="LOST"),
        SEGMENT.with_changes(start_time_ms=5, end_time_ms=4),
        SEGMENT.with_changes(name="a/b"),
    ],
)
def test_impossible_segment_records_are_never_written(store: MetadataStore, bad: SegmentRecord) -> None:
    with pytest.raises((InvariantError, InvalidConfigError)):
        Registry(store).create_segment("t_OFFLINE", bad)
    assert Registry(store).segment_names("t_OFFLINE") == []


def test_impossible_records_are_not_believed_either(store: MetadataStore) -> None:
    bad = SEGMENT.with_changes(crc=-1).to_record()
    store.create(paths.segment("t_OFFLINE", "s"), encode(bad))
    with pytest.raises(CorruptRecordError, match=r"SEGMENTS/t_OFFLINE/s is damaged: .*complete_segment_can_be_verified"):
        Registry(store).get_segment("t_OFFLINE", "s")


@pytest.mark.parametrize("states", [{"s": {}}, {"s": {"i": "SOMEWHERE"}}, {"a:b": {"i": ONLINE}}])
def test_impossible_ideal_states_are_refused(store: MetadataStore, states: dict[str, dict[str, str]]) -> None:
    registry = Registry(store)
    registry.create_ideal_state(Assignment.new_table("t_OFFLINE", 1))
    with pytest.raises(InvariantError):
        registry.update_ideal_state("t_OFFLINE", lambda ideal: ideal.with_segments(states))
    assert registry.must_get_ideal_state("t_OFFLINE").states == {}


def test_replacements_in_progress_must_not_overlap(store: MetadataStore) -> None:
    registry = Registry(store)
    registry.update_lineage("t", lambda li: li.with_entry(LineageEntry("1", ("a",), ("b",), LineageState.IN_PROGRESS, 1)))
    with pytest.raises(InvariantError):
        registry.update_lineage(
            "t", lambda li: li.with_entry(LineageEntry("2", ("a",), ("c",), LineageState.IN_PROGRESS, 1))
        )
    with pytest.raises(InvariantError):
        registry.update_lineage("t", lambda li: li.with_entry(LineageEntry("2", ("x",), ("x",), LineageState.COMPLETED, 1)))
    assert list(registry.get_lineage("t").entries) == ["1"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a:b", "a*", "a\nb", " a", "x" * 201, "ü" * 101])
def test_names_that_no_file_system_or_store_could_hold(name: str) -> None:
    assert name_problem(name) is not None


@pytest.mark.parametrize("name", ["trips_2024-01-01_0", "a b", "日本", "x" * 200, "a.b", "100%"])
def test_names_that_are_fine(name: str) -> None:
    assert name_problem(name) is None


def test_schemas_and_configs(store: MetadataStore) -> None:
    registry = Registry(store)
    registry.put_schema("t", {"schemaName": "t"})
    registry.put_schema("t", {"schemaName": "t", "tags": ["x"]})
    assert registry.get_schema("t") == {"schemaName": "t", "tags": ["x"]}
    assert registry.get_schema("u") is None
    document = {"tableName": "t_OFFLINE", "tableType": "OFFLINE", "tenants": {"a": 1}, "isDimTable": False}
    registry.create_table_config("t_OFFLINE", document)
    with pytest.raises(ConflictError):
        registry.create_table_config("t_OFFLINE", document)
    assert registry.get_table_config("t_OFFLINE") == document
    assert registry.resources_with_state() == []
    registry.create_ideal_state(Assignment.new_table("t_OFFLINE", 1))
    assert registry.resources_with_state() == ["t_OFFLINE"]
    with pytest.raises(NotFoundError):
        registry.update_ideal_state("u_OFFLINE", lambda ideal: ideal)


def test_one_announcement_for_each_instance(store: MetadataStore) -> None:
    session = store.new_session()
    announce(session, "Server_a_1")
    announce(session, "Server_a_1")
    with pytest.raises(ConflictError):
        announce(store, "Server_a_1")
    session.close()
    announce(store, "Server_a_1")
    assert Registry(store).live_instance_ids() == ["Server_a_1"]


def test_column_summaries_survive_the_round_trip() -> None:
    partition = Partitioning("Murmur", 4, (1, 3), {"seed": "1"})
    columns = {
        "i": ColumnSummary(DataType.LONG, 3, -(2**63), 2**63 - 1, True, 3, 0, partition),
        "d": ColumnSummary(DataType.DOUBLE, None, float("-inf"), 0.1, False, 3, 1, None),
        "b": ColumnSummary(DataType.BYTES, 2, b"\x00", b"\xff", False, 3, 0, None),
        "x": ColumnSummary(DataType.BIG_DECIMAL, 2, Decimal("1.50"), Decimal("1E+30"), False, 3, 0, None),
        "t": ColumnSummary(DataType.BOOLEAN, 2, False, True, False, 3, 0, None),
        "s": ColumnSummary(DataType.STRING, 2, "", "日本", False, 3, 0, None),
        "n": ColumnSummary(DataType.STRING, 0, None, None, True, 0, 0, None),
    }
    bounds = {name: (column.minimum, column.maximum, column.partition) for name, column in columns.items()}
    assert decode_bounds(encode_columns(columns)) == bounds
    assert decode_bounds("") == {}


def test_column_summaries_that_do_not_fit_lose_the_largest_columns() -> None:
    def summary(text: str) -> ColumnSummary:
        return ColumnSummary(DataType.STRING, 2, text, text, False, 3, 0, None)

    columns = {"huge": summary("x" * TEXT_BYTES_MAX), **{f"c{i}": summary("y" * 10) for i in range(100)}}
    text = encode_columns(columns)
    assert len(text) <= TEXT_BYTES_MAX
    assert decode_bounds(text).keys() == columns.keys() - {"huge"}


def test_segments_go_to_the_least_loaded_servers() -> None:
    servers = InstancePartitions("p", ((("s1", "s2", "s3"),),))
    placed = place_new(["a", "b", "c"], Strategy.BALANCED, servers, 2, {"old": {"s1": ONLINE}}, len)
    assert placed == {"a": ("s2", "s3"), "b": ("s1", "s2"), "c": ("s3", "s1")}
    with pytest.raises(InvalidConfigError, match="4 replicas"):
        place_new(["a"], Strategy.BALANCED, servers, 4, {}, len)


@given(st.integers(1, 5), st.integers(1, 40), st.data())
def test_balanced_assignment_never_differs_by_more_than_one(
    num_servers: int, num_segments: int, data: st.DataObject
) -> None:
    servers = tuple(f"s{i}" for i in range(num_servers))
    replication = data.draw(st.integers(1, num_servers))
    segments = [f"seg{i}" for i in range(num_segments)]
    placed = place_new(segments, Strategy.BALANCED, InstancePartitions("p", ((servers,),)), replication, {}, len)
    load = [sum(server in chosen for chosen in placed.values()) for server in servers]
    assert max(load) - min(load) <= 1
    assert {len(chosen) for chosen in placed.values()} == {replication}


def test_tagged_servers() -> None:
    instances = [
        Instance("Server_b_1", "b", 1, ("x",)),
        Instance("Server_a_1", "a", 1, ("x", "y")),
        Instance("Server_c_1", "c", 1, ("x",), enabled=False),
        Instance("Broker_a_1", "a", 1, ("x",)),
    ]
    assert tagged_instances(instances, "x") == ["Server_a_1", "Server_b_1", "Server_c_1"]


def test_views() -> None:
    view = fold("t", {"s1": {"a": ONLINE, "b": "ERROR"}, "s2": {"a": ONLINE}})
    assert view.states == {"a": {"s1": ONLINE, "s2": ONLINE}, "b": {"s1": "ERROR"}}
    ideal = Assignment("t", {"a": {"s1": ONLINE, "s2": ONLINE}, "b": {"s1": ONLINE}, "c": {"s1": ONLINE}})
    assert segment_status(ideal.states["a"], view.states["a"]) is SegmentStatus.GOOD
    assert segment_status(ideal.states["b"], view.states["b"]) is SegmentStatus.BAD
    assert segment_status(ideal.states["c"], None) is SegmentStatus.UPDATING
    assert servers_of("a", ideal, view, excluded=["s2"]) == ["s1"]
    assert servers_of("b", ideal, view) == []
    assert servers_of("c", ideal, None) == []

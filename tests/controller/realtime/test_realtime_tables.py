import pytest
from tests.controller.realtime.conftest import SCHEMA

from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.cluster.records.records import Instance
from gamay.controller.health.cluster_status import diagnose_table
from gamay.controller.realtime.ideal_steps import KEYS_MOVED
from gamay.controller.segments.segments import PushOptions
from gamay.controller.segments.verify import verify_folder
from gamay.ingest.stream.log.topic import TopicConfig, create_topic, open_topic
from gamay.storage.archive import pack

TABLE = "t_REALTIME"


def test_a_new_table_consumes_every_partition_of_its_stream(table) -> None:
    records, ideal = table.records(), table.ideal()
    assert sorted(records) == sorted(ideal.states) == ["t__0__0__20231114T2213Z", "t__1__0__20231114T2213Z"]
    for name, states in ideal.states.items():
        assert states == {"Server_a_1": "CONSUMING", "Server_b_1": "CONSUMING"}
        record = records[name]
        assert (record.status, record.start_offset, record.end_offset) == ("IN_PROGRESS", "0", "")
        assert (record.num_replicas, record.flush_threshold_rows) == (2, 100)
    shown = table.http.get("/segments/t/t__0__0__20231114T2213Z/metadata").json()
    assert shown["segment.realtime.status"] == "IN_PROGRESS"
    assert shown["segment.flush.threshold.size"] == "100"


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        ({}, 2_500_000),  # 5 million, shared by the two segments on each server
        ({"realtime.segment.flush.threshold.rows": "1000"}, 500),
        ({"realtime.segment.flush.threshold.rows": "0"}, 100_000),
        (
            {"realtime.segment.flush.threshold.segment.size": "50M", "realtime.segment.flush.autotune.initialRows": "7000"},
            7000,
        ),
    ],
)
def test_the_row_limit_is_divided_fixed_or_tuned(realtime, keys: dict[str, str], rows: int) -> None:
    realtime.topic()
    realtime.create(**keys)
    assert {record.flush_threshold_rows for record in realtime.records().values()} == {rows}


def test_partitions_go_round_the_servers(realtime) -> None:
    realtime.topic(4)
    realtime.create(replication=1)
    servers = [next(iter(realtime.ideal().states[name])) for name in sorted(realtime.ideal().states)]
    assert servers in (["Server_a_1", "Server_b_1"] * 2, ["Server_b_1", "Server_a_1"] * 2)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"streamType": "kinesis"}, "belongs to another stream type"),
        ({"stream.log.topic.name": "other"}, "other"),
        ({"stream.log.consumer.prop.auto.offset.reset": "earliest"}, "Write 'smallest'"),
        ({"realtime.segment.flush.threshold.time": "soon"}, "realtime.segment.flush.threshold.time"),
        ({"stream.log.consumer.type": "highlevel", "stream.log.metadata.populate": "true"}, "needs lowlevel"),
        ({"stream.log.fetch.timeout.milis": "1"}, "fetch.timeout.mil"),
    ],
)
def test_a_stream_that_cannot_be_read_makes_no_table(realtime, keys: dict[str, str], message: str) -> None:
    realtime.topic()
    answer = realtime.http.post("/tables", json=realtime.config(**keys))
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert realtime.registry.table_names() == []
    assert realtime.registry.resources_with_state() == []


@pytest.mark.parametrize(
    ("ingestion", "message"),
    [
        ({"transformConfigs": [{"columnName": "s", "transformFunction": "uper(x)"}]}, "Unknown function 'uper'"),
        ({"transformConfigs": [{"columnName": "s", "transformFunction": "concat(max(x), 'm')"}]}, "the aggregate max"),
        ({"filterConfig": {"filterFunction": "strcomp(s, 'x') = 0"}}, "Unknown function 'strcomp'"),
        ({"schemaConformingTransformerConfig": {}}, "schemaConformingTransformerConfig is not supported"),
        (
            {"enrichmentConfigs": [{"enricherType": "generateColumn", "properties": {"fieldToFunctionMap": {"s": "f(x)"}}}]},
            "Unknown function 'f'",
        ),
    ],
)
def test_rows_that_could_not_be_made_make_no_table(realtime, ingestion: dict[str, object], message: str) -> None:
    realtime.topic()
    config = realtime.config()
    config["ingestionConfig"] |= ingestion
    for path in ("/tables", "/tables/validate"):
        answer = realtime.http.post(path, json=config)
        assert (answer.status_code, message in answer.json()["error"]) == (400, True), answer.text


def test_a_table_is_created_with_defaults_for_timeouts_that_are_none(realtime) -> None:
    realtime.topic()
    config = realtime.config(**{"stream.log.fetch.timeout.millis": "soon"})
    assert realtime.http.post("/tables", json=config).json()["warnings"] == [
        "streamConfigMaps[0]: stream.log.fetch.timeout.millis: 'soon' is not a whole number; 5000 is taken instead"
    ]


def test_too_few_servers_make_no_table(realtime) -> None:
    realtime.topic()
    answer = realtime.http.post("/tables", json=realtime.config(replication=3), params={"validationTypesToSkip": "TENANT"})
    assert answer.status_code == 400
    assert "replica" in answer.json()["error"]
    assert realtime.registry.resources_with_state() == []


def test_a_deleted_table_leaves_nothing_and_can_be_created_again(table) -> None:
    table.commit(table.consuming(), 100, 100)
    assert table.http.delete("/tables/t").status_code == 200
    assert table.registry.resources_with_state() == []
    assert table.copies() == []
    table.create()
    assert [record.start_offset for record in table.records().values()] == ["0", "0"]


def test_new_segments_go_to_servers_that_were_tagged_meanwhile(realtime) -> None:
    realtime.topic(1)
    realtime.create(replication=1)
    first = next(iter(realtime.ideal().states[realtime.consuming()]))
    for name in "ab":
        instance = Instance(f"Server_{name}_1", name, 1, ())
        realtime.registry.put_instance(instance)
    realtime.registry.create_instance(Instance("Server_c_1", "c", 1, ("DefaultTenant_REALTIME",)))
    realtime.commit(realtime.consuming(), 10, 10)
    assert list(realtime.ideal().states[realtime.consuming()]) == ["Server_c_1"]
    # With no server left, it stays where it was rather than nowhere.
    realtime.registry.put_instance(Instance("Server_c_1", "c", 1, ()))
    realtime.commit(realtime.consuming(), 20, 10)
    assert list(realtime.ideal().states[realtime.consuming()]) == ["Server_c_1"]
    assert first in ("Server_a_1", "Server_b_1")


def test_a_partition_with_primary_keys_stays_where_it_is_whatever_the_tags_say(realtime) -> None:
    realtime.topic(1)
    realtime.role.schemas.add({**SCHEMA, "primaryKeyColumns": ["s"]})
    keyed = {"upsertConfig": {"mode": "FULL"}, "routing": {"instanceSelectorType": "strictReplicaGroup"}}
    assert realtime.http.post("/tables", json={**realtime.config(replication=1), **keyed}).status_code == 200
    (first,) = realtime.ideal().states[realtime.consuming()]
    for name in "ab":
        realtime.registry.put_instance(Instance(f"Server_{name}_1", name, 1, ()))
    realtime.registry.create_instance(Instance("Server_c_1", "c", 1, ("DefaultTenant_REALTIME",)))
    realtime.commit(realtime.consuming(), 10, 10)
    assert list(realtime.ideal().states[realtime.consuming()]) == [first]


@pytest.mark.parametrize("is_keyed", [True, False])
def test_a_segment_of_a_partition_that_nobody_consumes_is_refused_where_rows_have_keys(realtime, is_keyed) -> None:
    realtime.topic(2)
    realtime.role.schemas.add({**SCHEMA, "primaryKeyColumns": ["s"]})
    keyed = {"upsertConfig": {"mode": "FULL"}, "routing": {"instanceSelectorType": "strictReplicaGroup"}}
    config = {**realtime.config(), **(keyed if is_keyed else {})}
    assert realtime.http.post("/tables", json=config).status_code == 200

    def push(partition: int) -> None:
        folder = realtime.build(f"uploaded__t__{partition}__20240101T0000Z__0", 5)
        realtime.role.segments.push(TABLE, verify_folder(folder), folder, PushOptions())

    push(1)
    if is_keyed:
        with pytest.raises(InvalidConfigError, match=r"is of partition 7, which t_REALTIME does not consume.* one of 0, 1$"):
            push(7)
    else:
        push(7)


def test_a_pushed_segment_does_not_replace_one_that_is_consumed_and_keeps_the_offsets_of_a_complete_one(table) -> None:
    consumed = table.consuming()
    folder = table.build(consumed, 5)
    with pytest.raises(ConflictError, match="is being consumed"):
        table.role.segments.push(TABLE, verify_folder(folder), folder, PushOptions())
    table.commit(consumed, 100, 100)
    refreshed = table.build(consumed, 50)
    table.role.segments.push(TABLE, verify_folder(refreshed), refreshed, PushOptions())
    record = table.records()[consumed]
    assert (record.total_docs, record.status, record.start_offset, record.end_offset) == (50, "DONE", "0", "100")
    assert record.num_replicas == 2


def test_topics_that_appear_are_consumed_from_their_beginning(realtime) -> None:
    create_topic(realtime.folder / "streams", "events", TopicConfig(1))
    realtime.create(**{"stream.log.consumer.prop.auto.offset.reset": "largest"})
    config = realtime.config()
    maps = config["ingestionConfig"]["streamIngestionConfig"]["streamConfigMaps"]
    maps.append({**maps[0], "stream.log.topic.name": "more"})
    create_topic(realtime.folder / "streams", "more", TopicConfig(2))
    assert realtime.http.put("/tables/t", json=config).status_code == 200
    realtime.http.get("/periodictask/run", params={"taskname": "RealtimeSegmentValidationManager"})
    partitions = sorted(int(name.split("__")[1]) for name in realtime.ideal().states)
    assert partitions == [0, 10_000, 10_001]


@pytest.mark.parametrize("keys", [{}, {"upsertConfig": {"mode": "FULL"}}, {"dedupConfig": {"dedupEnabled": True}}])
def test_a_topic_whose_partitions_grow_moves_keys_until_older_segments_are_gone(realtime, keys, caplog) -> None:
    realtime.topic(2)
    if keys:
        keyed = {**realtime.http.get("/schemas/t").json(), "primaryKeyColumns": ["s"]}
        assert realtime.http.put("/schemas/t", params={"force": True}, json=keyed).status_code == 200
    config = {**realtime.config(), **keys, "routing": {"instanceSelectorType": "strictReplicaGroup"}}
    assert realtime.http.post("/tables", json=config).status_code == 200

    def told() -> list[str]:
        found = diagnose_table(realtime.ideal(), realtime.ideal(), {"Server_a_1", "Server_b_1"})
        return [finding.problem for finding in found]

    realtime.role.realtime.validate(TABLE)
    assert told() == []
    first = sorted(realtime.ideal().states)
    open_topic(realtime.folder / "streams", "events").alter(TopicConfig(3))
    realtime.role.realtime.validate(TABLE)
    assert "t__2__0__" in max(realtime.ideal().states)
    assert told() == ([KEYS_MOVED] if keys else [])
    assert caplog.text.count(f"table {TABLE}: partition 2 was added: {KEYS_MOVED}") == bool(keys)
    realtime.clock.advance(120)
    for partition in range(3):
        realtime.commit(realtime.consuming(partition), 5, 5)
    realtime.role.realtime.validate(TABLE)
    assert told() == ([KEYS_MOVED] if keys else [])
    earlier = sorted({*first, *(name for name in realtime.ideal().states if name.startswith("t__2__0__"))})
    realtime.registry.update_ideal_state(TABLE, lambda ideal: ideal.with_segments({}, frozenset(earlier)))
    assert told() == []


def test_the_row_limit_is_tuned_by_the_rows_that_were_consumed(realtime) -> None:
    """Compaction at the commit removes rows; the next segment will have as many of them."""
    realtime.topic(1)
    flush = "realtime.segment.flush."
    realtime.create(**{flush + "threshold.segment.size": "150K", flush + "autotune.initialRows": "50000"})
    segment = realtime.consuming()
    folder = realtime.build(segment, 30)
    archive = pack(folder, folder.with_suffix(".tar.gz"))
    assert realtime.ask("segmentConsumed", segment, 60_000, reason="rowLimit")["status"] == "COMMIT"
    realtime.ask("segmentCommitStart", segment, 60_000)
    location = realtime.send("segmentUpload", segment, 60_000, archive)["segmentLocation"]
    realtime.send(
        "segmentCommitEndWithMetadata", segment, 60_000, folder / "metadata.json", location=location, rowCount=60_000,
        segmentSizeBytes=100,
    )  # fmt: skip
    # 100 bytes of 30 rows are 200,000 of all, so 150 KB are 46,080 rows
    assert realtime.records()[realtime.consuming()].flush_threshold_rows in (46_079, 46_080)

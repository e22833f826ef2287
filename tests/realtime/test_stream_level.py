"""One consumer for a whole topic: each row once, across commits, restarts, and the change of a table to partitions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.broker.routes.consumer_kinds import of_one_way
from gamay.cluster.records.llc_name import STREAM_LEVEL, LlcName, partition_of
from gamay.ingest.stream.offsets import IntegerOffset
from gamay.ingest.stream.stream_level import TopicOffset
from gamay.model.table.table_config import TableConfig

MakeRealtime = Callable[..., Any]
Eventually = Callable[..., None]
TYPE = "stream.log.consumer.type"


@pytest.fixture(params=["log", pytest.param("kafka", marks=pytest.mark.kafka)])
def make_any(request: pytest.FixtureRequest, make_realtime: MakeRealtime) -> MakeRealtime:
    """`make_realtime` with each stream type in turn; its keys are given without `stream.<type>.`."""
    kafka = request.getfixturevalue("kafka") if request.param == "kafka" else None

    def make(partitions: int, segment_rows: int, **keys: str) -> Any:
        named = {f"stream.{request.param}.{key}": value for key, value in keys.items()}
        return make_realtime(partitions, segment_rows, kafka=kafka, **named)

    return make


def stream_level(segment: str) -> bool:
    return LlcName.must_parse(segment).is_stream_level


def test_places_in_a_topic() -> None:
    place = TopicOffset.parse("3:7;0:12")
    assert str(place) == "0:12;3:7"
    assert (place.total, place.moved(3, 9), place.moved(1, 4)) == (
        19,
        TopicOffset.parse("0:12;3:9"),
        TopicOffset.parse("0:12;1:4;3:7"),
    )
    assert TopicOffset.of({3: IntegerOffset(7), 0: IntegerOffset(12)}) == place
    assert place < place.moved(0, 13) > TopicOffset.parse("0:12;3:7") >= place
    assert TopicOffset.parse("") == TopicOffset(())
    for text in ("12", "0:a", "0:1:2"):
        with pytest.raises(InvalidConfigError, match="no place in a topic"):
            TopicOffset.parse(text)


def test_names_say_that_a_segment_is_of_a_whole_topic() -> None:
    name = LlcName.must_parse(f"t__{STREAM_LEVEL + 2}__4__20260101T0000Z")
    assert (name.is_stream_level, name.topic_index, name.stream_partition, partition_of(str(name))) == (True, 2, 0, None)
    plain = LlcName.must_parse("t__20003__4__20260101T0000Z")
    assert (plain.is_stream_level, plain.topic_index, plain.stream_partition) == (False, 2, 3)


@pytest.mark.parametrize(
    ("kind", "routing", "wanted"),
    [("highLevel", None, True), ("highLevel,simple", "KafkaHighLevel", True), ("highLevel,simple", None, False),
     ("simple", None, False), (None, None, False)],
)  # fmt: skip
def test_queries_read_one_kind_of_segments(kind: str | None, routing: str | None, wanted: bool) -> None:
    keys = {"streamType": "log", "stream.log.topic.name": "t"} | ({} if kind is None else {TYPE: kind})
    config = TableConfig.from_json(
        {"tableName": "t", "tableType": "REALTIME", "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
         "routing": {"routingTableBuilderName": routing} if routing else {}, "tenants": {}, "tableIndexConfig": {},
         "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [keys]}}}
    ).value  # fmt: skip
    both = {f"t__{STREAM_LEVEL}__0__20260101T0000Z": {}, "t__0__0__20260101T0000Z": {}, "uploaded": {}}
    found = of_one_way(config, both)
    assert [stream_level(name) for name in found if name != "uploaded"] == [wanted]
    assert "uploaded" in found


def test_each_row_counts_once_through_commits_and_restarts(
    make_any: MakeRealtime, eventually: Eventually, tmp_path: Path
) -> None:
    realtime = make_any(3, 500, **{"consumer.type": "highLevel"})
    for number in range(12):
        realtime.produce(150, number % 3)
    eventually(realtime.all_there)
    eventually(lambda: sorted(realtime.segments().values()) == ["CONSUMING"] + ["ONLINE"] * 3)
    assert all(map(stream_level, realtime.segments()))
    records = [realtime.rest("GET", f"/segments/t/{name}/metadata") for name in realtime.segments()]
    ends = [record["segment.realtime.endOffset"] for record in records[:-1]]
    assert [record["segment.realtime.startOffset"] for record in records[1:]] == ends
    assert [TopicOffset.parse(end).total for end in ends] == [500, 1000, 1500]
    if realtime.kind == "log":
        [group] = (tmp_path / "streams" / "t" / "groups").iterdir()
        assert group.name.startswith("t_REALTIME.Server_")
        eventually(lambda: _checkpoint(group) == ends[-1])
    realtime.stop()
    realtime.produce(40, 1)
    realtime.start()
    eventually(realtime.all_there)
    [consumer] = realtime.rest("GET", "/tables/t/consumingSegmentsInfo")["_segmentToConsumingInfoMap"].values()
    assert consumer[0]["consumerState"] == "CONSUMING"


def _checkpoint(group: Path) -> str:
    found = {int(path.stem): IntegerOffset(int(path.read_text())) for path in group.glob("*.offset")}
    return str(TopicOffset.of(dict(found)))


def test_a_table_moves_to_partitions_without_a_row_twice_or_missing(make_any: MakeRealtime, eventually: Eventually) -> None:
    realtime = make_any(2, 300, **{"consumer.type": "highLevel"})
    realtime.produce(400, 0)
    realtime.produce(350, 1)
    eventually(realtime.all_there)
    keys = realtime.table["ingestionConfig"]["streamIngestionConfig"]["streamConfigMaps"][0]

    def change(kind: str, routing: str | None) -> None:
        keys[f"stream.{realtime.kind}.consumer.type"] = kind
        realtime.table["routing"] = {"routingTableBuilderName": routing} if routing else {}
        realtime.rest("PUT", "/tables/t", json=realtime.table)
        realtime.rest("POST", "/tables/t/resumeConsumption")
        realtime.produce(60, 0)
        eventually(realtime.all_there)

    change("highLevel,simple", "KafkaHighLevel")
    assert {stream_level(name) for name, state in realtime.segments().items() if state == "CONSUMING"} == {True, False}
    realtime.produce(200, 1)
    eventually(realtime.all_there)
    change("simple", None)
    eventually(lambda: not any(stream_level(n) for n, state in realtime.segments().items() if state == "CONSUMING"))
    realtime.produce(200, 1)
    eventually(realtime.all_there)


@pytest.mark.parametrize(
    ("more", "message"),
    [({"pauselessConsumptionEnabled": True}, "pauseless"), ({"stream.log.metadata.populate": "true"}, "metadata.populate")],
)
def test_what_does_not_go_with_it_is_refused(make_realtime: MakeRealtime, more: dict[str, Any], message: str) -> None:
    realtime = make_realtime(start=False, **{TYPE: "highLevel"})
    ingestion = realtime.table["ingestionConfig"]["streamIngestionConfig"]
    target = ingestion["streamConfigMaps"][0] if next(iter(more)).startswith("stream.") else ingestion
    target.update(more)
    realtime.start()
    with pytest.raises(AssertionError, match=message):
        realtime.create()

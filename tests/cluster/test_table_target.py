"""Rebalance targets of segments from streams: the servers that consume them."""

from gamay.cluster.place.instance_partitions import default_partitions
from gamay.cluster.place.placement import place_consuming
from gamay.cluster.place.table_target import CONSUMING_KIND, TablePlan, target_states
from gamay.cluster.records.llc_name import STREAM_LEVEL, LlcName
from gamay.cluster.records.records import CONSUMING, IN_PROGRESS, SegmentRecord
from gamay.model.table.table_config import TableConfig

TABLE = "t_REALTIME"
SERVERS = [f"Server_{name}_1" for name in "abc"]


def plan(segments: list[LlcName]) -> TablePlan:
    document = {**TableConfig.offline("t").to_json(), "tableName": "t", "tableType": "REALTIME"}
    document["segmentsConfig"] = {"replication": "2", "timeColumnName": "ts"}
    config = TableConfig.from_json(document).value
    partitions = {CONSUMING_KIND: default_partitions("t_CONSUMING", TABLE, SERVERS)}
    return TablePlan(config, partitions, {str(s): SegmentRecord(str(s), status=IN_PROGRESS) for s in segments}, 0)


def test_partitions_of_every_topic_stay_where_they_are_consumed() -> None:
    topics = {0: (0, 1, 2), 10_000: (0, 1), 20_000: (0, 4), STREAM_LEVEL: (0, 1)}
    names = [LlcName("t", first + p, 0, "20240101T0000Z") for first, parts in topics.items() for p in parts]
    made = plan(names)
    present = {
        str(name): dict.fromkeys(place_consuming(name.partition % 10_000, made.partitions[CONSUMING_KIND], 2), CONSUMING)
        for name in names
    }
    assert target_states(made, present, include_consuming=True) == present

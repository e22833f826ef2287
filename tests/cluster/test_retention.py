"""Which segments a table's retention deletes."""

from typing import Any

import pytest

from gamay.cluster.records.records import Lineage, SegmentRecord
from gamay.cluster.records.retention import expired
from gamay.model.table.table_config import TableConfig

DAY = 86_400_000
NOW = 20_000 * DAY
RETAINED = {"replication": "1", "retentionTimeUnit": "DAYS", "retentionTimeValue": "10"}
REFRESH = {"batchIngestionConfig": {"segmentIngestionType": "REFRESH"}}
APPEND = {"batchIngestionConfig": {"segmentIngestionType": "APPEND"}}


@pytest.mark.parametrize(
    ("older", "batch", "goes"),
    [
        (None, {}, True),
        ("APPEND", {}, True),
        ("REFRESH", {}, False),
        (None, APPEND, True),
        (None, REFRESH, False),
        ("APPEND", REFRESH, False),
        ("REFRESH", APPEND, True),
    ],
)
def test_tables_that_are_replaced_as_a_whole_have_no_retention(older: str | None, batch: dict[str, Any], goes: bool) -> None:
    segments = {**RETAINED, **({} if older is None else {"segmentPushType": older})}
    document = {**TableConfig.offline("t").to_json(), "segmentsConfig": segments, "ingestionConfig": batch}
    config = TableConfig.from_json(document).value
    old = SegmentRecord("old", end_time_ms=NOW - 11 * DAY)
    assert config.replaces_all is not goes
    assert expired(config, [old], {"old": {"s": "ONLINE"}}, Lineage("t_OFFLINE"), NOW) == (["old"] if goes else [])

"""Which segments of a hybrid table's REALTIME half queries no longer read."""

from typing import Any

from gamay.cluster.records.records import DONE, IN_PROGRESS, Lineage, LineageEntry, LineageState, SegmentRecord
from gamay.cluster.records.retention import served_offline
from gamay.model.table.table_config import TableConfig

DAY = 86_400_000
YEAR_2020 = 18_262 * DAY


def config(kind: str = "REALTIME", **segments: Any) -> TableConfig:
    document = TableConfig.offline("t").to_json()
    document |= {"tableName": f"t_{kind}", "tableType": kind, "segmentsConfig": {"replication": "1", **segments}}
    return TableConfig.from_json(document).value


RETAINED = {"retentionTimeUnit": "DAYS", "retentionTimeValue": "1000"}


def test_completed_segments_that_end_before_the_boundary_go_whatever_their_age() -> None:
    records = [
        SegmentRecord("t__0__0__x", status=DONE, end_time_ms=YEAR_2020 - 1),
        SegmentRecord("t__0__1__x", status=DONE, end_time_ms=YEAR_2020),
        SegmentRecord("t__0__2__x", status=IN_PROGRESS, end_time_ms=YEAR_2020 - 1),
        SegmentRecord("t__1__0__x", status=DONE, end_time_ms=YEAR_2020 - 5),  # the last of its partition
        SegmentRecord("t__2__0__x", status=DONE, end_time_ms=-1),  # its end is unknown
        SegmentRecord("uploaded", end_time_ms=YEAR_2020 - 9),
        SegmentRecord("locked", end_time_ms=YEAR_2020 - 9),
    ]
    lineage = Lineage("t_REALTIME", {"1": LineageEntry("1", ("locked",), (), LineageState.IN_PROGRESS, 0)})
    found = served_offline(config(**RETAINED), records, lineage, YEAR_2020)
    assert found == ["t__0__0__x", "t__1__0__x", "uploaded"]


def test_other_tables_keep_their_retention() -> None:
    record = SegmentRecord("t__0__0__x", status=DONE, end_time_ms=1)
    none = Lineage("t_REALTIME", {})
    assert served_offline(config(**RETAINED), [record], none, None) is None
    assert served_offline(config(), [record], none, YEAR_2020) is None
    assert served_offline(config("OFFLINE", **RETAINED), [record], none, YEAR_2020) is None

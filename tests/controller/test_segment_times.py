"""Segments with times outside 1971 to 2071, pushed with and without the check of times."""

import pytest

from gamay.cluster.access.principals import ANYONE
from gamay.controller.segments.segments import PushOptions
from gamay.controller.segments.verify import SegmentTimeError, VerifiedSegment

TIMED = {"name": "n", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}


def test_segments_of_strange_times_are_taken_where_the_check_is_off(controller) -> None:
    timed = {"schemaName": "t", "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}], "dateTimeFieldSpecs": [TIMED]}
    document = controller.tables.document("t_OFFLINE") | {
        "segmentsConfig": {"replication": "1", "timeColumnName": "n", "retentionTimeUnit": "DAYS", "retentionTimeValue": "9"}
    }
    controller.tables.delete("t_OFFLINE")
    controller.schemas.delete("t")
    controller.schemas.add(timed)
    controller.tables.add(document, by=ANYONE)
    built = controller.built("early")  # n is 1: a day in 1970

    def push() -> None:
        controller.segments.push("t_OFFLINE", VerifiedSegment(built.info, built.folder), built.folder, PushOptions())

    with pytest.raises(SegmentTimeError, match="segmentTimeValueCheck to false"):
        push()
    controller.tables.replace("t", document | {"ingestionConfig": {"segmentTimeValueCheck": False}}, by=ANYONE)
    push()
    assert controller.segments.names("t_OFFLINE") == ["early"]

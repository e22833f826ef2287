"""Metrics of the placement of a table's segments."""

from gamay.cluster.records.records import CONSUMING, ERROR, OFFLINE, ONLINE, Assignment
from gamay.controller.metrics.gauges import measure_table

IDEAL = Assignment(
    "t_REALTIME",
    {
        "whole": {"a": ONLINE, "b": ONLINE},
        "half": {"a": ONLINE, "b": ONLINE},
        "gone": {"a": ONLINE, "b": ONLINE},
        "new": {"a": CONSUMING, "b": CONSUMING},
        "off": {"a": OFFLINE, "b": OFFLINE},
    },
)


def numbers(view: Assignment | None) -> dict[str, float]:
    return {one.name.removeprefix("pinot_controller_"): one.value for one in measure_table("t_REALTIME", 2, IDEAL, view)}


def test_segments_are_counted_by_what_servers_have() -> None:
    view = Assignment(
        "t_REALTIME",
        {
            "whole": {"a": ONLINE, "b": ONLINE},
            "half": {"a": ONLINE, "b": ERROR},
            "new": {"a": CONSUMING, "b": CONSUMING},
        },
    )
    assert numbers(view) == {
        "segmentCount": 5,
        "tableDisabled": 0,
        "percentSegmentsAvailable": 75,
        "segmentsInErrorState": 1,
        "segmentsWithLessReplicas": 2,
        "numberOfReplicas": 0,
        "percentOfReplicas": 0,
    }


def test_a_table_that_no_server_has_and_one_without_segments() -> None:
    nothing = numbers(None)
    assert (nothing["percentSegmentsAvailable"], nothing["numberOfReplicas"]) == (0, 0)
    empty = {one.name: one.value for one in measure_table("t_OFFLINE", 2, Assignment("t_OFFLINE", {}), None)}
    assert empty["pinot_controller_percentSegmentsAvailable"] == 100
    assert empty["pinot_controller_percentOfReplicas"] == 100

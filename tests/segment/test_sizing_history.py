"""The history of a table's completed segments."""

import json

import pytest

from gamay.segment.mutable import ColumnSizing, Sizing, SizingHistory
from gamay.segment.mutable.sizing import HISTORY_FILE, SEGMENTS_KEPT

HALF_HOUR_MS = 30 * 60 * 1000


def segment(rows, cardinality, width=8.0):
    return Sizing(rows, {"x": ColumnSizing(cardinality, width, 2.0)})


def test_without_history_there_are_defaults(tmp_path):
    expected = SizingHistory(tmp_path).expected(1000)
    assert expected.rows == 1000
    assert expected.column("x") == ColumnSizing()


def test_the_average_of_the_last_segments_is_expected(tmp_path):
    history = SizingHistory(tmp_path)
    for number in range(SEGMENTS_KEPT + 4):
        assert history.record(segment(100, number, float(number)), number * HALF_HOUR_MS)
    for known in (history, SizingHistory(tmp_path)):
        assert known.expected(5000).column("x") == ColumnSizing(round((4 + 19) / 2), 11.5, 2.0)
        assert known.expected(10).column("x").cardinality <= 10
    assert len(json.loads((tmp_path / HISTORY_FILE).read_text())["segments"]) == SEGMENTS_KEPT


def test_segments_that_complete_at_about_the_same_time_count_once(tmp_path):
    history = SizingHistory(tmp_path)
    assert history.record(segment(100, 10), 0)
    assert not history.record(segment(100, 90), HALF_HOUR_MS - 1)
    assert history.expected(100).column("x").cardinality == 10
    assert history.record(segment(100, 90), HALF_HOUR_MS)
    assert not history.record(segment(0, 0), 9 * HALF_HOUR_MS)
    assert history.expected(100).column("x").cardinality == 50


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2, "segments": []}', '{"version": 1, "segments": [{"rows": 1}]}']
)
def test_a_file_that_cannot_be_read_is_made_anew(tmp_path, text):
    (tmp_path / HISTORY_FILE).write_text(text)
    history = SizingHistory(tmp_path)
    assert history.expected(10) == Sizing(10, {})
    assert history.record(segment(100, 10), 0)
    assert SizingHistory(tmp_path).expected(100).column("x").cardinality == 10

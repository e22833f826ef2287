"""The choice of the next rows by a stream of a table's segments."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import PATIENCE_S

from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.spark.streaming.feed import Feed, from_offset, to_offset, to_read


def feed(segments, on_replace="fail", has_keys=False, hidden=(), replacements=(), merged=()):
    told = [{"name": n, "crc": crc, "uri": f"/{n}", "mergedFrom": dict(merged).get(n, [])} for n, crc in segments.items()]
    told.append({"name": "consuming", "crc": 0, "uri": None, "mergedFrom": []})
    half = {"table": "t_OFFLINE", "segments": told, "hidden": list(hidden)}
    half["replacements"] = [{"from": old, "to": new} for old, new in replacements]
    return Feed(half, on_replace, has_keys)


names = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1)


@given(st.dictionaries(names, st.integers(-(2**32), 2**32)))
def test_offsets_are_read_as_they_were_written(seen):
    assert from_offset(to_offset(seen)) == seen


def test_what_is_no_offset_is_told():
    with pytest.raises(InvalidConfigError, match="the checkpoint has no offset of a Gamay table"):
        from_offset({"index": 3})


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 4))
def test_each_segment_is_read_once_in_batches_of_few(appearing, most):
    there, seen, read = {}, {}, []
    for number in appearing:
        there[f"s{number}"] = number
        after = feed(there).after(seen, most)
        batch = to_read(seen, after)
        assert len(batch) <= most
        read += batch
        seen = after
    while batch := to_read(seen, after := feed(there).after(seen, most)):
        read += batch
        seen = after
    assert sorted(read) == sorted(there)


def test_segments_come_in_the_order_of_their_numbers():
    there = {f"t__0__{number}__x": number for number in range(12)}
    seen = feed(there).after({}, 10)
    assert sorted(seen.values()) == list(range(10))


def test_what_replaces_segments_that_were_read_is_told_or_left_out_or_read():
    segments, replacements = {"new": 2, "other": 3}, [(["old", "older"], ["new"])]
    for seen in ({"old": 1}, {"new": 1}):
        changed = feed(segments, hidden=["old"], replacements=replacements)
        with pytest.raises(ConflictError, match=r"segment 'new' .* say .option\('onReplace', 'skip'\)"):
            changed.after(seen, 9)
        skipping = feed(segments, "skip", hidden=["old"], replacements=replacements).after(seen, 9)
        assert to_read(seen, skipping) == {"other": 3}
        assert to_read(skipping, feed(segments).after(skipping, 9)) == {}
        reading = feed(segments, "read", hidden=["old"], replacements=replacements).after(seen, 9)
        assert to_read(seen, reading) == segments
    unread = feed(segments, hidden=["old"], replacements=replacements).after({}, 9)
    assert to_read({}, unread) == segments


def test_what_a_task_merged_of_segments_that_were_read_is_not_read_again():
    merged = feed({"m": 5}, merged={"m": ["a", "b"]}, hidden=["a", "b"])
    assert to_read({"a": 1, "b": 2}, merged.after({"a": 1, "b": 2}, 9)) == {}
    assert to_read({}, merged.after({}, 9)) == {"m": 5}
    with pytest.raises(ConflictError, match="has taken the place of 'a'"):
        merged.after({"a": 1}, 9)
    keyed = feed({"m": 5, "a": 9}, has_keys=True, merged={"m": ["a", "b"]})
    assert to_read({"a": 1}, keyed.after({"a": 1}, 9)) == {"m": 5}  # not what was compacted


def test_segments_that_are_gone_are_forgotten_and_hidden_ones_are_not():
    assert feed({"b": 2}, hidden=["c"]).after({"a": 1, "b": 2, "c": 3}, 9) == {"b": 2, "c": 3}


def test_planning_loads_no_engine() -> None:
    """Spark imports this in new processes, sometimes at every query."""
    code = "import sys, gamay.spark.source, gamay.spark.streaming.source; print({'numba', 'sqlglot'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert told.stdout.strip() == "set()", told.stderr

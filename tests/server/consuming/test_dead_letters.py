"""The file of dead letters: each listed once, replayed ones marked, at any point of failure."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.cluster.records.llc_name import STREAM_LEVEL
from gamay.server.consuming import dead_letters
from gamay.server.consuming.dead_letters import DeadLetter, DeadLetterKind, DeadLetters

COUNTS = {"UNDECODABLE": 0, "UNCONVERTIBLE": 0, "REJECTED": 0, "GAP": 0}


def letter(offset: str, payload: bytes | None = b"x", **more: Any) -> DeadLetter:
    return replace(DeadLetter("t__0__0__x", 0, offset, DeadLetterKind.UNDECODABLE, "no reason", 5, payload), **more)


def shown(letters: DeadLetters) -> list[tuple[str, str | None]]:
    return [(entry["offset"], entry["replayedTo"]) for entry in letters.entries(10)]


def test_dead_letters_are_listed_once_and_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "t" / "letters.jsonl"
    assert DeadLetters("t", path).add([letter("1"), letter("2")]) == 2
    again = DeadLetters("t", path)
    assert again.add([letter("2"), letter("3")]) == 1
    assert [entry["offset"] for entry in again.entries(10)] == ["1", "2", "3"]
    assert [entry["offset"] for entry in again.entries(2)] == ["2", "3"]
    assert again.entries(0) == []
    assert again.entries(10, offset="2")[0]["payload"] == "eA=="
    assert again.counts() == COUNTS | {"UNDECODABLE": 3}


def test_a_table_that_is_gone_writes_nothing_into_the_file_of_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "letters.jsonl"
    gone = DeadLetters("t", path)
    gone.close()
    assert gone.add([letter("1")]) == 0
    assert not path.exists()


def test_a_line_that_a_crash_cut_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "letters.jsonl"
    DeadLetters("t", path).add([letter("1"), letter("2")])
    path.write_bytes(path.read_bytes()[:-3])
    again = DeadLetters("t", path)
    assert again.add([letter("2")]) == 1
    assert [entry["offset"] for entry in DeadLetters("t", path).entries(10)] == ["1", "2"]


def test_what_was_replayed_is_known_after_a_restart_and_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "letters.jsonl"
    letters = DeadLetters("t", path)
    letters.add([letter("1"), letter("2"), letter("3")])
    letters.note_replayed({(0, "2"): "7", (1, "2"): "9", (0, "3"): "8"})  # of another partition: a replica has that one
    letters.note_replayed({(0, "3"): "11"})
    for one in (letters, DeadLetters("t", path)):
        assert shown(one) == [("1", None), ("2", "7"), ("3", "11")]
        assert one.counts() == COUNTS | {"UNDECODABLE": 3}
        assert one.find({(1, "2"), (0, "3"), (0, "4")})[1] == {(1, "2"): "9", (0, "3"): "11"}
        assert one.replayable(10) == ([(0, "1")], False)
        assert one.add([letter("2")]) == 0
    size = path.stat().st_size
    letters.note_replayed({(0, "3"): "11", (0, "2"): "7"})
    assert path.stat().st_size == size


def test_what_cannot_be_replayed_says_why(tmp_path: Path) -> None:
    letters = DeadLetters("t", tmp_path / "letters.jsonl")
    letters.add(
        [
            letter("1"),
            letter("2", None, kind=DeadLetterKind.GAP, next_offset="9"),
            letter("3", None),
            letter("0:4", partition=STREAM_LEVEL),
            letter("5", rows_taken=2),
            letter("6"),
        ]
    )
    reasons = [entry["notReplayable"] for entry in letters.entries(10)]
    assert [reasons[0], reasons[5]] == [None, None]
    for reason, words in zip(reasons[1:5], ("had lost", "was not kept", "reads the whole topic", "2 of them"), strict=True):
        assert words in reason
    assert letters.replayable(1) == ([(0, "1")], True)
    assert letters.replayable(2) == ([(0, "1"), (0, "6")], False)


def test_entries_of_older_files_have_no_key(tmp_path: Path) -> None:
    path = tmp_path / "letters.jsonl"
    older = letter("1").to_json()
    for name in ("key", "headers", "rowsTaken"):
        del older[name]
    path.write_bytes(orjson.dumps(older) + b"\n")
    (entry,) = DeadLetters("t", path).entries(1)
    assert (entry["key"], entry["headers"], entry["rowsTaken"], entry["notReplayable"]) == (None, None, 0, None)


def test_beyond_its_limit_a_file_has_offsets_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "PAYLOADS_MAX_BYTES", 100)
    letters = DeadLetters("t", tmp_path / "letters.jsonl")
    for offset in "12":
        letters.add([letter(offset, key=b"k", headers=[("h", b"v")])])
    kept = [(entry["payload"], entry["key"], entry["headers"]) for entry in letters.entries(2)]
    assert kept == [("eA==", "aw==", [["h", "dg=="]]), (None, None, None)]


def test_messages_are_found_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "FOUND_MAX_BYTES", 10)
    letters = DeadLetters("t", tmp_path / "letters.jsonl")
    letters.add([letter(str(n), b"12345") for n in range(5)])
    letters.note_replayed({(0, "4"): "9"})
    wanted = {(0, str(n)) for n in range(1, 5)}
    order = []
    while wanted:
        entries, replayed = letters.find(wanted)
        assert replayed == {(0, "4"): "9"}
        order.append([entry["offset"] for entry in entries])
        wanted -= {(0, entry["offset"]) for entry in entries}
    assert order == [["1", "2"], ["3", "4"]]


def test_a_file_that_could_not_be_written_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "letters.jsonl"
    letters = DeadLetters("t", path)
    letters.add([letter("1")])

    def full(_: int) -> None:
        path.write_bytes(path.read_bytes()[:-4])  # not all of it came to the disk
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            letters.add([letter("2")])
        with pytest.raises(OSError, match="No space"):
            letters.note_replayed({(0, "1"): "2"})
    assert shown(letters) == [("1", None)]
    assert letters.add([letter("2")]) == 1
    letters.note_replayed({(0, "1"): "3"})
    assert shown(letters) == shown(DeadLetters("t", path)) == [("1", "3"), ("2", None)]


OFFSETS = st.sampled_from("123")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), OFFSETS),
        st.tuples(st.just("note"), OFFSETS, st.sampled_from("789")),
        st.tuples(st.just("restart"), st.integers(0, 40)),
    ),
    max_size=12,
)


@given(STEPS)
def test_any_history_is_what_whole_lines_say(steps: list[tuple[Any, ...]]) -> None:
    """Model: the lines in their order; a restart loses the end that it truncates."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "letters.jsonl"
        letters, lines = DeadLetters("t", path), []
        for kind, *given_ in steps:
            if kind == "restart":
                size = max(path.stat().st_size - given_[0], 0) if path.exists() else 0
                if path.exists():
                    os.truncate(path, size)
                    lines = lines[: path.read_bytes().count(b"\n")]
                letters = DeadLetters("t", path)
            elif kind == "add":
                if letters.add([letter(given_[0])]):
                    lines.append((given_[0], None))
            else:
                before = path.stat().st_size if path.exists() else 0
                letters.note_replayed({(0, given_[0]): given_[1]})
                if path.stat().st_size > before:
                    lines.append((given_[0], given_[1]))
            marks = {offset: to for offset, to in lines if to is not None}
            assert shown(letters) == [(offset, marks.get(offset)) for offset, to in lines if to is None]

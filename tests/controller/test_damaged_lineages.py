"""An unreadable lineage is rebuilt as far as its remains and the existing segments determine it."""

from typing import Any

import orjson
import pytest
from benchmarks.attack.records import mutants

from gamay.cluster.records import invariants
from gamay.cluster.records.records import Lineage, LineageEntry, LineageState, WriterBatch
from gamay.cluster.store.znrecord import CorruptRecordError, encode, read_record
from gamay.controller.health.salvage import UndecidedError, lineage_of

NOW_MS = 2_000
PATH = "/PinotCluster/PROPERTYSTORE/SEGMENT_LINEAGE/t_OFFLINE"
DONE, OPEN, BACK = LineageState.COMPLETED, LineageState.IN_PROGRESS, LineageState.REVERTED


def lineage(*entries: tuple[str, str, str, LineageState], writers: Any = ()) -> Lineage:
    made = [
        LineageEntry(one, tuple(before.split()), tuple(after.split()), state, 1_000) for one, before, after, state in entries
    ]
    return Lineage("t_OFFLINE", {one.id: one for one in made}, dict(writers))


FULL = lineage(
    ("done", "a b", "c", DONE), ("open", "c", "d", OPEN), ("back", "c", "e", BACK), ("append", "", "f", OPEN),
    writers={"w": WriterBatch(7, 1_000)},
)  # fmt: skip
SHOWN = {"a", "b", "c", "d", "e", "f", "g"}


def is_readable(value: bytes) -> bool:
    try:
        read_record(PATH, value, lambda found: invariants.check(Lineage.from_record(found), invariants.LINEAGE))
    except CorruptRecordError:
        return False
    return True


def seen(found: Lineage, existing: set[str]) -> set[str]:
    return existing - found.hidden_segments()


@pytest.mark.parametrize("existing", [SHOWN, SHOWN - {"a", "b"}, set()])
def test_queries_see_the_same_segments_afterwards_or_somebody_is_asked(existing: set[str]) -> None:
    """Whichever field is damaged."""
    repaired = undecided = 0
    for what, value in mutants(encode(FULL.to_record())):
        if is_readable(value):
            continue
        try:
            found = lineage_of("t_OFFLINE", value, existing, NOW_MS)
        except UndecidedError:
            undecided += 1
            continue
        assert seen(found, existing) == seen(FULL, existing), what
        for entry in found.entries.values():
            before = FULL.entries[entry.id]
            assert (entry.segments_from, entry.segments_to, entry.state) == (
                before.segments_from, before.segments_to, before.state
            ), what  # fmt: skip
        assert found.writers["w"].number == 7
        repaired += 1
    assert repaired > 20
    assert undecided > 20


def test_times_and_ids_decide_nothing() -> None:
    document = FULL.to_record().to_json()
    document["id"] = "x"
    document["listFields"]["open"][3] = "NaN"
    document["simpleFields"]["writer/w"] = "7 then"
    found = lineage_of("t_OFFLINE", orjson.dumps(document), SHOWN, NOW_MS)
    assert (found.table, found.entries["open"].timestamp_ms, found.entries["done"].timestamp_ms) == (
        "t_OFFLINE",
        NOW_MS,
        1_000,
    )
    assert found.writers == {"w": WriterBatch(7, NOW_MS)}


@pytest.mark.parametrize(
    ("fields", "existing", "told"),
    [
        (["a", "b", "?", "1"], {"a", "b"}, "the state of entry x"),
        (["a", "b", "?", "1"], {"a"}, "the state of entry x"),
        (["a", "b", "?", "1"], {"b"}, None),  # a goes once the replacement is completed, and not before
        (["a", None, "COMPLETED", "1"], {"b"}, None),
        (["a", None, "COMPLETED", "1"], {"a", "b"}, "the list of segments of entry x"),
        ([None, "b", "IN_PROGRESS", "1"], {"a", "b"}, "the list of segments of entry x"),
        (["a", "b", "IN_PROGRESS"], {"a", "b"}, "the segments of entry x cannot be read"),
        (["a", "a", "IN_PROGRESS", "1"], {"a"}, "replaces"),
    ],
)
def test_what_decides(fields: list[Any], existing: set[str], told: str | None) -> None:
    value = orjson.dumps({"id": "t_OFFLINE", "simpleFields": {}, "mapFields": {}, "listFields": {"x": fields}})
    if told is None:
        assert lineage_of("t_OFFLINE", value, existing, NOW_MS) == Lineage("t_OFFLINE")
        return
    with pytest.raises(UndecidedError, match=told):
        lineage_of("t_OFFLINE", value, existing, NOW_MS)

"""Indexes of consuming segments: blocks are built in the background, and every row is found at any stage."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap
from tests.waiting import PATIENCE_S, eventually

from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.model.table.secondary_indexes import IndexDeclaration
from gamay.model.types import DataType
from gamay.query.bind.predicate import Filter, Match, Not
from gamay.query.filter.apply import apply_filter
from gamay.query.view.virtual import QuerySegment
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.secondary import growing
from gamay.segment.spi import Found, SecondaryIndex

BLOCK = 10
CONDITION = Call("like", (Column("s"), Literal("%odd%", DataType.STRING)))
IS_ODD = Match("s", CONDITION)


class OddIndex(SecondaryIndex):
    """The rows whose text holds `odd`; with `is_exact` False others as well."""

    kind = "odd"

    def __init__(self, docs: list[int], is_exact: bool) -> None:
        self._found = Found(BitMap(docs), is_exact)

    def find(self, condition: Expression) -> Found | None:
        return self._found if condition == CONDITION else None


class OddType:
    kind, needs, extra, of_blocks, is_portable = "odd", None, None, True, False
    may_build = threading.Event()
    builds = 0

    def build(self, columns: Sequence[Any], settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        assert self.may_build.wait(PATIENCE_S)
        if settings.get("fails"):
            raise ValueError("it does")
        (column,) = columns
        docs = [doc for doc, text in enumerate(column.values(0, column.num_docs).values.to_pylist()) if "odd" in text]
        nulls = sorted(column.null_docs or [])
        (folder / "docs").write_text(json.dumps(docs))
        type(self).builds += 1
        return {"nulls": nulls}

    def open(self, folder: Path, content: Any, columns: Any, settings: Mapping[str, Any]) -> OddIndex:
        docs = json.loads((folder / "docs").read_text())
        assert content["nulls"] == []
        return OddIndex(docs if settings["exact"] else list(range(BLOCK)), settings["exact"])


@pytest.fixture(params=[True, False], ids=["exact", "candidates"])
def make(request: Any, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(growing, "index_type", lambda kind: OddType())
    monkeypatch.setattr(growing, "missing_extra", lambda kind: None)
    monkeypatch.setattr(growing, "BLOCK_ROWS", BLOCK)
    OddType.may_build, OddType.builds = threading.Event(), 0

    def segment(*each: dict[str, Any]) -> MutableSegment:
        declared = tuple(IndexDeclaration("odd", ("s",), {"exact": request.param, **more}) for more in each or ({},))
        monkeypatch.setattr("gamay.segment.mutable.segment.declared_indexes", lambda config, schema: declared)
        schema = kit.schema(kit.field("s", DataType.STRING))
        return MutableSegment("m", schema, kit.config(noDictionaryColumns=["s"]), tmp_path / "buffers")

    yield segment
    OddType.may_build.set()


def add(kit: Any, segment: MutableSegment, start: int, count: int) -> None:
    schema = kit.schema(kit.field("s", DataType.STRING))
    texts = ["odd" if number % 3 == 1 else "even" for number in range(start, start + count)]
    segment.append(kit.batch(schema, {"s": texts}))


def found(segment: MutableSegment, filter_: Filter = IS_ODD) -> list[int]:
    result = apply_filter(filter_, QuerySegment(segment.view(), {}, ""))
    return result.matches().docs().tolist()


def covered(segment: MutableSegment) -> int:
    index = next(iter(segment.view().column("s").indexes), None)
    answer = None if index is None else index.find(CONDITION)
    return 0 if answer is None or answer.covered is None else answer.covered


def odd(count: int) -> list[int]:
    return list(range(1, count, 3))


def test_every_row_is_found_however_far_the_index_is(make: Any, kit: Any) -> None:
    segment = make()
    add(kit, segment, 0, 25)
    assert found(segment) == odd(25)  # nothing is built yet
    held = segment.view()
    OddType.may_build.set()
    eventually(lambda: covered(segment) == 20)
    assert OddType.builds == 2
    assert segment.view() is segment.view()
    add(kit, segment, 25, 3)
    assert found(segment) == odd(28)
    assert found(segment, Not(IS_ODD)) == sorted(set(range(28)) - set(odd(28)))
    for start in range(28, 60, 4):
        add(kit, segment, start, 4)
        assert found(segment) == odd(start + 4)
    add(kit, segment, 60, 1)
    eventually(lambda: OddType.builds == 6)
    assert apply_filter(IS_ODD, QuerySegment(held, {}, "")).matches().docs().tolist() == odd(25)
    segment.close()
    assert found(segment) == odd(61)


def test_rows_are_scanned_where_an_index_cannot_be_built(make: Any, kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    segment = make({"fails": True})
    OddType.may_build.set()
    add(kit, segment, 0, 25)
    eventually(lambda: "cannot be built" in caplog.text)
    add(kit, segment, 25, 25)
    assert found(segment) == odd(50)
    assert covered(segment) == 0


def test_an_index_grows_on_where_another_cannot_be_built(make: Any, kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    segment = make({"fails": True, "name": "one"}, {})
    OddType.may_build.set()
    add(kit, segment, 0, 25)
    eventually(lambda: covered(segment) == 20)
    add(kit, segment, 25, 25)
    eventually(lambda: covered(segment) == 50)
    assert found(segment) == odd(50)
    assert caplog.text.count("cannot be built") == 1


def test_a_closed_segment_builds_nothing_more(make: Any, kit: Any, tmp_path: Path) -> None:
    segment = make()
    add(kit, segment, 0, 25)
    segment.close()
    OddType.may_build.set()
    eventually(lambda: not any(thread.name == "index-blocks" for thread in threading.enumerate()))
    assert OddType.builds <= 1
    assert not (tmp_path / "buffers" / "m").exists()

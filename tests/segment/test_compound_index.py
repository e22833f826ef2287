"""The compound inverted index against the rows themselves, and errors for invalid files."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.clock import ManualClock
from gamay.base.errors import CorruptSegmentError, InvalidConfigError
from gamay.model.table.secondary_indexes import IndexDeclaration
from gamay.model.types import DataType
from gamay.query.bind.predicate import And, In, Range
from gamay.query.filter.apply import apply_filter
from gamay.query.view.virtual import QuerySegment
from gamay.segment.describe import describe
from gamay.segment.encode.format import read_metadata_file, write_metadata_file
from gamay.segment.encode.forward import id_dtype
from gamay.segment.read.reader import open_segment
from gamay.segment.secondary.compound import COMPOUND
from gamay.segment.secondary.files import INDEXES_FILE, read_index_list
from gamay.segment.write.secondary_indexes import add_indexes


class Source:
    """A column with the given ids; the contents of its dictionary do not matter."""

    data_type = DataType.INT
    single_value = True
    null_docs = None

    def __init__(self, name: str, ids: Any, cardinality: int, has_dictionary: bool = True) -> None:
        self.name, self.num_docs = name, len(ids)
        self.dictionary: Any = range(cardinality) if has_dictionary else None
        self._ids = np.asarray(ids, id_dtype(cardinality))

    def ids(self, start: int, stop: int) -> Any:
        return self._ids[start:stop]

    def values(self, start: int, stop: int) -> Any:
        raise AssertionError("built of ids")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lambda: tmp_path_factory.mktemp("compound")


def built(sources: list[Source], folder: Path) -> tuple[Any, Any]:
    content = json.loads(json.dumps(COMPOUND.build(sources, {}, folder)))
    COMPOUND.check(folder, content, sources)
    return COMPOUND.open(folder, content, sources, {}), content


@given(
    # the largest make numbers of one, two, four and eight bytes
    cardinalities=st.lists(st.sampled_from([1, 2, 5, 300, 70_000]), min_size=2, max_size=3),
    repeats=st.integers(0, 20),
    data=st.data(),
)
def test_each_combination_has_its_docs(folders: Any, cardinalities: list[int], repeats: int, data: st.DataObject) -> None:
    one = st.tuples(*(st.integers(max(0, count - 4), count - 1) for count in cardinalities))
    few = data.draw(st.lists(one, min_size=1, max_size=8))
    rows = np.array(data.draw(st.permutations(few * (repeats + 1))) if repeats else few).reshape(-1, len(cardinalities))
    sources = [Source(f"c{i}", rows[:, i], count) for i, count in enumerate(cardinalities)]
    index, content = built(sources, folders())
    if "note" in content:
        assert 2 * len(np.unique(rows, axis=0)) > len(rows)
        assert index.combines == ()
        return
    assert index.combines == tuple(source.name for source in sources)
    for _ in range(4):
        wanted = [
            sorted(data.draw(st.sets(st.integers(max(0, count - 5), count - 1), min_size=1, max_size=3)))
            for count in cardinalities
        ]
        holds = np.all([np.isin(rows[:, i], ids) for i, ids in enumerate(wanted)], axis=0)
        assert list(index.combined([np.array(ids, np.int32) for ids in wanted])) == np.flatnonzero(holds).tolist()


@pytest.mark.parametrize("cardinalities", [[1, 256], [256, 1], [1, 1, 1 << 16], [2, 128], [1, 1]])
def test_numbers_fill_their_type_to_the_last(folders: Any, cardinalities: list[int]) -> None:
    rows = [[0] * len(cardinalities), [count - 1 for count in cardinalities]] * 4
    sources = [Source(f"c{i}", [row[i] for row in rows], count) for i, count in enumerate(cardinalities)]
    index, _ = built(sources, folders())
    docs = index.combined([np.array([count - 1], np.int32) for count in cardinalities])
    assert list(docs) == [doc for doc, row in enumerate(rows) if row == rows[1]]


def test_an_empty_segment_has_an_empty_index(folders: Any) -> None:
    index, _ = built([Source("a", [], 1), Source("b", [], 1)], folders())
    assert not index.combined([np.array([0], np.int32)] * 2)


def test_combinations_that_hardly_repeat_are_left_out(folders: Any, caplog: pytest.LogCaptureFixture) -> None:
    rows = np.arange(100)
    index, content = built([Source("a", rows, 100), Source("b", rows % 7, 7)], folders())
    assert content == {"note": "left out: 100 combinations in 100 rows hardly repeat"}
    assert index.combines == ()
    assert "no compound_inverted index of a, b: 100 combinations in 100 rows hardly repeat" in caplog.text
    _, content = built([Source(name, rows, 1 << 22) for name in "abc"], folders())
    assert content == {"note": "left out: 4194304 x 4194304 x 4194304 combinations are beyond 63 bits"}


def test_columns_need_dictionaries_and_single_values(folders: Any) -> None:
    several = Source("b", [0, 0], 1)
    several.single_value = False
    for other in (Source("b", [0, 0], 1, has_dictionary=False), several):
        with pytest.raises(InvalidConfigError, match="of a, b needs single-value columns with dictionaries"):
            COMPOUND.build([Source("a", [0, 0], 1), other], {}, folders())


@pytest.mark.parametrize(
    "change",
    [
        {"cardinalities": [4, 2]},
        {"cardinalities": [3]},
        {"buffers": []},
        {"buffers": [["combinations", 64, 1 << 40, 0]]},
    ],
)
def test_files_of_others_must_fit_the_columns(folders: Any, change: dict[str, Any]) -> None:
    sources, folder = [Source("a", [0, 1, 2] * 4, 3), Source("b", [0, 1, 1] * 4, 2)], folders()
    _, content = built(sources, folder)
    with pytest.raises((CorruptSegmentError, KeyError)):
        COMPOUND.check(folder, content | change, sources)


def test_every_byte_of_others_is_checked_or_harmless(folders: Any) -> None:
    """For any contents of the file, a lookup fails only with the error for damage."""
    sources, folder = [Source("a", [0, 1, 2] * 40, 3), Source("b", [0, 1, 1] * 40, 2)], folders()
    _, content = built(sources, folder)
    (file,) = folder.iterdir()
    sound = file.read_bytes()
    found: list[str] = []
    for place in range(len(sound)):
        file.write_bytes(sound[:place] + bytes([sound[place] ^ 0x81]) + sound[place + 1 :])
        try:
            COMPOUND.check(folder, content, sources)
        except CorruptSegmentError as error:
            found.append(str(error))
            continue
        index = COMPOUND.open(folder, content, sources, {})
        docs = index.combined([np.arange(3, dtype=np.int32), np.arange(2, dtype=np.int32)])
        assert not docs or docs.max() < 120
    for reason in ("combinations do not ascend", "combinations beyond the dictionaries", "sets of docs", "is damaged"):
        assert any(reason in text for text in found), reason


def test_an_index_of_others_has_each_row(folders: Any) -> None:
    rows, folder = [0, 1, 2] * 40, folders()
    _, content = built([Source("a", rows[1:], 3), Source("b", rows[1:], 3)], folder)
    with pytest.raises(CorruptSegmentError, match="not one combination for each row"):
        COMPOUND.check(folder, content, [Source("a", rows, 3), Source("b", rows, 3)])


INDEX = [IndexDeclaration("compound_inverted", ("s", "n"), {})]


def test_an_index_is_shown_and_so_is_why_there_is_none(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    schema = kit.schema(kit.field("s", DataType.STRING), kit.field("n", DataType.INT))
    for numbers, note in (([i % 5 for i in range(200)], ""), (list(range(200)), "left out: 200 combinations in 200 rows")):
        folder = kit.build(schema, kit.config(), {"s": [f"t{i % 3}" for i in range(200)], "n": numbers})
        add_indexes(folder, INDEX, ManualClock())
        (line,) = [line for line in describe(folder).splitlines() if line.startswith("compound_inverted")]
        assert "s, n" in line
        assert (note in line) if note else line.endswith(" 0")
        segment = open_segment(folder)
        (stored,) = read_index_list(folder, segment.info.crc)
        assert [index.combines for index in segment.column("n").indexes] == [() if note else ("s", "n")]
        assert bool(stored.size_bytes) == (not note)


def test_a_pushed_index_of_other_dictionaries_is_not_used(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    schema = kit.schema(kit.field("s", DataType.STRING), kit.field("n", DataType.INT))
    folder = kit.build(schema, kit.config(), {"s": ["a", "b"] * 50, "n": [1, 2] * 50})
    add_indexes(folder, INDEX, ManualClock())
    assert [index.kind for index in open_segment(folder).column("s").indexes] == ["compound_inverted"]
    document = read_metadata_file(folder, INDEXES_FILE)
    document["indexes"][0]["content"]["cardinalities"] = [2, 3]
    write_metadata_file(folder, document, INDEXES_FILE)
    with caplog.at_level(logging.WARNING):
        assert open_segment(folder).column("s").indexes == ()
    assert "not of these dictionaries" in caplog.text


def test_further_predicates_of_a_column_hold_too(kit: Any) -> None:
    schema = kit.schema(kit.field("s", DataType.STRING), kit.field("n", DataType.INT))
    numbers = [i * i % 7 for i in range(200)]
    folder = kit.build(schema, kit.config(), {"s": [f"t{i % 3}" for i in range(200)], "n": numbers})
    add_indexes(folder, INDEX, ManualClock())
    parts = In("n", (1, 2)), In("s", ("t1",)), In("n", (2, 4)), Range("n", 0, 2, True, True)
    for filter_ in (And(parts), And(parts[::-1])):
        found = apply_filter(filter_, QuerySegment(open_segment(folder), {}, "")).matches().docs().tolist()
        assert found == [i for i in range(200) if numbers[i] == 2 and i % 3 == 1]

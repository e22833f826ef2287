"""Filters: every method of answering a predicate finds the rows of a naive scan."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.functions.arrow import arrow_type
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.vector import Vector
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.bind.predicate import And, Filter, In, IsNull, Match, Not, Or, Range, filter_columns
from gamay.query.filter.apply import FilterResult, apply_filter
from gamay.query.filter.values import in_test, range_test
from gamay.query.view.docset import DocRange, complement, doc_mask, intersect, unite
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import Segment
from gamay.segment.write.builder import SegmentBuilder

D = DataType
# what each column's rows are drawn from; text orders by UTF-8 bytes
DOMAINS: dict[str, list[Any]] = {
    "i": [-3, -1, 0, 1, 2, 5, 2**31 - 1, -(2**31)],
    "d": [-1.5, 0.0, 0.5, 2.0, float("inf"), float("-inf")],
    "s": ["", "A", "a", "é", "z", "\ufffd", "😀"],
    "dec": [Decimal("-1.5"), Decimal(0), Decimal("0.10"), Decimal(7)],
    "by": [b"", b"\x00", b"a", b"\xff"],
    "m": [1, 2, 3, 4],
    "sorted": list(range(0, 40, 3)),
}
FIELDS = (
    FieldSpec("i", D.INT),
    FieldSpec("d", D.DOUBLE),
    FieldSpec("s", D.STRING),
    FieldSpec("dec", D.BIG_DECIMAL),
    FieldSpec("by", D.BYTES),
    FieldSpec("m", D.INT, single_value=False),
    FieldSpec("sorted", D.INT),
)
SCHEMA = Schema("t", FIELDS)
ROWS = 600
NAMES = tuple(DOMAINS)


def _rows() -> dict[str, list[Any]]:
    rng = np.random.default_rng(5)
    columns: dict[str, list[Any]] = {
        name: [domain[k] for k in rng.integers(0, len(domain), ROWS)] for name, domain in DOMAINS.items()
    }
    columns["m"] = [[DOMAINS["m"][k] for k in rng.integers(0, 4, rng.integers(1, 4))] for _ in range(ROWS)]
    columns["sorted"].sort()
    columns["i"] = [None if k == 0 else value for k, value in zip(rng.integers(0, 9, ROWS), columns["i"], strict=True)]
    return columns


COLUMNS = _rows()
VARIANTS = {
    "plain": IndexingConfig(null_handling_enabled=True),
    "inverted": IndexingConfig(null_handling_enabled=True, inverted_index_columns=NAMES),
    "range": IndexingConfig(null_handling_enabled=True, range_index_columns=("i", "d", "sorted", "m")),
    "raw": IndexingConfig(null_handling_enabled=True, no_dictionary_columns=NAMES),
    "raw range": IndexingConfig(
        null_handling_enabled=True, no_dictionary_columns=NAMES, range_index_columns=("i", "d", "sorted")
    ),
}


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Segment]:
    """The rows as one segment of each variant."""
    built = {}
    for name, indexing in VARIANTS.items():
        folder: Path = tmp_path_factory.mktemp("segment")
        builder = SegmentBuilder(SCHEMA, TableConfig.offline("t", indexing=indexing), "t_0", folder)
        arrays = []
        for spec in FIELDS:
            values = COLUMNS[spec.name]
            if spec.data_type is D.BIG_DECIMAL:
                values = [format(value, "f") for value in values]
            arrays.append(pa.array(values, arrow_type(spec.data_type, spec.single_value)))
        builder.append(pa.RecordBatch.from_arrays(arrays, names=list(NAMES)))
        built[name] = open_segment(builder.build())
    return built


def place(value: Any) -> Any:
    """Return a value so that Python orders it as the engine does."""
    if isinstance(value, str):
        return value.encode()
    return value


def holds(filter_: Filter, row: int) -> bool:
    """Evaluate a filter on a row, naively."""
    if isinstance(filter_, And | Or):
        return (all if isinstance(filter_, And) else any)([holds(part, row) for part in filter_.parts])
    if isinstance(filter_, Not):
        return not holds(filter_.part, row)
    assert isinstance(filter_, In | Range | IsNull | Match)
    stored = COLUMNS[filter_.column][row]
    if isinstance(filter_, IsNull):
        return stored is None
    values = stored if isinstance(stored, list) else [-(2**31) if stored is None else stored]
    return any(_value_holds(filter_, value) for value in values)


def _value_holds(filter_: In | Range | Match, value: Any) -> bool:
    if isinstance(filter_, Match):
        return "a" in str(value).lower()
    if isinstance(filter_, In):
        return place(value) in [place(wanted) for wanted in filter_.values]
    low, high = filter_.lower, filter_.upper
    above = low is None or place(value) > place(low) or (filter_.lower_inclusive and place(value) == place(low))
    below = high is None or place(value) < place(high) or (filter_.upper_inclusive and place(value) == place(high))
    return above and below


def leaf(name: str) -> st.SearchStrategy[Filter]:
    """Return predicates on one column, with values that occur and one that does not."""
    absent: dict[str, list[Any]] = {
        "i": [3],
        "d": [0.25],
        "s": ["b"],
        "dec": [Decimal(3)],
        "by": [b"b"],
        "m": [9],
        "sorted": [4],
    }
    values = st.sampled_from(DOMAINS[name] + absent[name])
    one_sided = st.tuples(values, st.booleans(), st.booleans()).map(
        lambda t: Range(name, t[0], None, t[1], False) if t[2] else Range(name, None, t[0], False, t[1])
    )
    both = st.tuples(values, values, st.booleans(), st.booleans()).map(
        lambda t: Range(name, *sorted(t[:2], key=place), t[2], t[3])
    )
    some = st.lists(values, min_size=1, max_size=6, unique=True).map(lambda chosen: In(name, tuple(chosen)))
    return st.one_of(some, one_sided, both)


LIKE = Match("s", Call("like", (Column("s"), Literal("%a%", D.STRING))))
FILTERS: st.SearchStrategy[Filter] = st.recursive(
    st.one_of(*map(leaf, NAMES), st.just(IsNull("i")), st.just(LIKE)),
    lambda part: st.one_of(
        st.lists(part, min_size=2, max_size=4).map(lambda parts: And(tuple(parts))),
        st.lists(part, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
        part.map(Not),
    ),
    max_leaves=8,
)


@settings(max_examples=250, deadline=None)
@given(FILTERS)
def test_every_index_agrees_with_a_naive_scan(segments: dict[str, Segment], filter_: Filter) -> None:
    expected = [row for row in range(ROWS) if holds(filter_, row)]
    for name, segment in segments.items():
        result: FilterResult = apply_filter(filter_, segment)
        assert result.matches().docs().tolist() == expected, name
        assert result.count in (None, len(expected))


@given(st.sampled_from(NAMES).flatmap(lambda name: st.lists(leaf(name), min_size=2, max_size=3)))
def test_conditions_on_one_column_read_it_once(segments: dict[str, Segment], parts: list[Filter]) -> None:
    filter_ = And(tuple(parts))
    result = apply_filter(filter_, segments["plain"])
    assert result.matches().docs().tolist() == [row for row in range(ROWS) if holds(filter_, row)]
    if filter_columns(filter_) != ["m"]:  # different values of a row may satisfy the conditions
        assert result.entries.count <= ROWS


@pytest.mark.parametrize("name", ["i", "s"])
def test_indexes_read_no_values(segments: dict[str, Segment], name: str) -> None:
    filter_ = In(name, (DOMAINS[name][1],))
    for variant, entries in (("inverted", 0), ("plain", ROWS), ("raw", ROWS)):
        result = apply_filter(filter_, segments[variant])
        result.matches().docs()
        assert result.entries.count == entries


SETS = st.sets(st.integers(0, 49))
RANGES = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: DocRange(min(pair), max(pair)))


@given(RANGES, RANGES)
def test_ranges_combine_as_sets(one: DocRange, other: DocRange) -> None:
    mine, theirs = set(range(one.start, one.stop)), set(range(other.start, other.stop))

    def docs(found: Any) -> set[int]:
        return set(np.flatnonzero(doc_mask(found, 50)).tolist())

    assert docs(intersect(one, other)) == mine & theirs
    assert docs(unite(one, other)) == mine | theirs
    assert docs(complement(one, 50)) == set(range(50)) - mine


def test_nan_is_greater_than_every_number() -> None:
    values = Vector(D.DOUBLE, np.array([np.nan, 1.0, np.inf]))
    for predicate, expected in (
        (Range("d", 5.0, None, False, False), [True, False, True]),
        (Range("d", None, np.inf, False, True), [False, True, True]),
        (Range("d", 0.0, 2.0, True, True), [False, True, False]),
    ):
        assert range_test(predicate, D.DOUBLE)(values).tolist() == expected
    assert in_test(In("d", (float("nan"), 1.0)), D.DOUBLE)(values).tolist() == [True, True, False]

"""VECTOR_SIMILARITY and VECTOR_SIMILARITY_RADIUS on real segments, against NumPy."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, QueryError
from gamay.model.index.indexing import FieldConfig, Indexes, IndexingConfig
from gamay.model.index.vector_index import DISTANCES, VectorConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.search_settings import SearchSettings
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.prepared.statements import Statements
from gamay.query.reduce.merge import reduce
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.read.visible import VisibleDocs, VisibleSegment
from gamay.segment.spi import Segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

SCHEMA = Schema(
    "t",
    (FieldSpec("id", DataType.INT), FieldSpec("v", DataType.FLOAT, single_value=False)),
    enable_column_based_null_handling=True,
)
_ROWS, _DIMENSIONS = 300, 4
_RNG = np.random.default_rng(11)
# few different numbers, so that there are ties, and vectors without a direction
VECTORS = _RNG.integers(-1, 3, (2 * _ROWS, _DIMENSIONS)).astype(np.float32)
VECTORS[[5, 77, 400]] = 0
MISSING = [9, 130, 500]
SEARCHED = np.array([1.0, 0.5, -1.0, 2.0])


def distances(vectors: Any, name: str) -> Any:
    """By definition; NaN where there is none."""
    wide = vectors.astype(np.float64)
    if name == "COSINE":
        norms = np.sqrt((wide**2).sum(axis=1)) * np.sqrt((SEARCHED**2).sum())
        return np.where(norms == 0, np.nan, 1 - wide @ SEARCHED / np.where(norms == 0, 1, norms))
    if name in ("INNER_PRODUCT", "DOT_PRODUCT"):
        return -(wide @ SEARCHED)
    squares = ((wide - SEARCHED) ** 2).sum(axis=1)
    return np.sqrt(squares) if name == "L2" else squares


def nearest(found: Any, count: int) -> set[int]:
    """The places of the least numbers, of equal ones the first; rounded, as sums of another order are others."""
    order = np.argsort(np.round(found, 9), kind="stable")
    return {int(place) for place in order[:count] if not np.isnan(found[place])}


def batch(first: int) -> pa.RecordBatch:
    rows = [None if row in MISSING else VECTORS[row].tolist() for row in range(first, first + _ROWS)]
    ids = pa.array(range(first, first + _ROWS), pa.int32())
    return pa.RecordBatch.from_arrays([ids, pa.array(rows, pa.list_(pa.float32()))], names=["id", "v"])


class Table:
    """A segment that is built, and one that is consumed."""

    def __init__(self, folder: Path, encoding: str) -> None:
        raw = ("v",) if encoding == "raw" else ()
        config = TableConfig.offline("t", indexing=IndexingConfig(no_dictionary_columns=raw))
        builder = SegmentBuilder(SCHEMA, config, "t_0", folder)
        builder.append(batch(0))
        self.built = open_segment(builder.build())
        self.consuming = MutableSegment("t_1", SCHEMA, config, folder, clock=SYSTEM_CLOCK)
        self.consuming.append(batch(_ROWS))
        self.segments: list[Segment] = [self.built, self.consuming.view()]
        self.pool = WorkPool(2)

    def rows(self, sql: str, distance: str = "COSINE", segments: "list[Segment] | None" = None) -> list[Any]:
        settings = SearchSettings(distance={"v": distance} if distance != "COSINE" else {})
        _, bound = Statements(SCHEMA, settings).bind(parse_query(sql))
        deadline = Deadline.after_ms(60_000, SYSTEM_CLOCK)
        answer = reduce(bound, [execute(bound, segments or self.segments, self.pool, deadline, "host")])
        assert answer.table is not None
        return answer.table.rows()

    def ids(self, condition: str, distance: str = "COSINE", segments: "list[Segment] | None" = None) -> set[int]:
        found = self.rows(f"SELECT id FROM t WHERE {condition} LIMIT 1000", distance, segments)
        return {row[0] for row in found}


@pytest.fixture(scope="module", params=["dictionary", "raw"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = Table(tmp_path_factory.mktemp("segments"), request.param)
    yield made
    made.built.close()
    made.consuming.close()
    made.pool.close()


def expected(name: str, hidden: Any = ()) -> list[Any]:
    """The distances of both segments' rows."""
    found = distances(VECTORS, name)
    found[[*MISSING, *hidden]] = np.nan
    return [found[:_ROWS], found[_ROWS:]]


ARRAY = f"ARRAY[{', '.join(map(str, SEARCHED))}]"


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("count", [1, 10, 37, 1000])
def test_the_nearest_of_each_segment_are_found(table: Table, distance: str, count: int) -> None:
    first, second = expected(distance)
    wanted = nearest(first, count) | {place + _ROWS for place in nearest(second, count)}
    assert table.ids(f"VECTOR_SIMILARITY(v, {ARRAY}, {count})", distance) == wanted
    assert table.ids(f"NOT VECTOR_SIMILARITY(v, {ARRAY}, {count})", distance) == set(range(2 * _ROWS)) - wanted
    assert table.ids(f"VECTOR_SIMILARITY(v, {ARRAY}, {count}) OR id < 9", distance) == wanted | set(range(9))
    counted = table.rows(f"SELECT COUNT(*) FILTER (WHERE VECTOR_SIMILARITY(v, {ARRAY}, {count})), COUNT(*) FROM t", distance)
    assert counted == [(len(wanted), 2 * _ROWS)]


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("count", [1, 10, 37, 1000])
@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("id % 3 = 0", lambda row: row % 3 == 0),
        ("id >= 290 AND id % 7 <> 1 AND id < 500", lambda row: 290 <= row < 500 and row % 7 != 1),
        ("(id < 4 OR id = 471)", lambda row: row < 4 or row == 471),
        ("id < 0", lambda _: False),
    ],
)
def test_the_nearest_are_those_of_the_rows_that_the_other_conditions_let_through(
    table: Table, distance: str, count: int, condition: str, holds: Callable[[int], bool]
) -> None:
    first, second = expected(distance, [row for row in range(2 * _ROWS) if not holds(row)])
    wanted = nearest(first, count) | {place + _ROWS for place in nearest(second, count)}
    assert table.ids(f"{condition} AND VECTOR_SIMILARITY(v, {ARRAY}, {count})", distance) == wanted


def test_a_filter_clause_chooses_among_the_nearest(table: Table) -> None:
    first, second = expected("COSINE")
    wanted = nearest(first, 40) | {place + _ROWS for place in nearest(second, 40)}
    sql = f"SELECT COUNT(*) FILTER (WHERE id % 3 = 0), COUNT(*) FROM t WHERE VECTOR_SIMILARITY(v, {ARRAY}, 40)"
    assert table.rows(sql) == [(len([row for row in wanted if row % 3 == 0]), len(wanted))]


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("radius", [-3.0, 0.0, 0.4, 2.5, 30.0])
def test_vectors_within_a_distance_are_found(table: Table, distance: str, radius: float) -> None:
    far = np.concatenate(expected(distance))
    assert np.all(np.abs(far[~np.isnan(far)] - radius) > 1e-9) or distance != "COSINE"
    wanted = {int(row) for row in np.flatnonzero(far <= radius)}
    assert table.ids(f"VECTOR_SIMILARITY_RADIUS(v, {ARRAY}, {radius})", distance) == wanted
    some = {row for row in wanted if row < 40}
    assert table.ids(f"id < 40 AND VECTOR_SIMILARITY_RADIUS(v, {ARRAY}, {radius})", distance) == some


def test_defaults_are_ten_and_one_half(table: Table) -> None:
    assert table.ids(f"VECTOR_SIMILARITY(v, {ARRAY})") == table.ids(f"vectorSimilarity(v, {ARRAY}, 10)")
    assert table.ids(f"VECTOR_SIMILARITY_RADIUS(v, {ARRAY})") == table.ids(f"vectorSimilarityRadius(v, {ARRAY}, 0.5)")


def test_rows_that_do_not_count_take_no_place(table: Table) -> None:
    first = expected("EUCLIDEAN")[0]
    hidden = sorted(nearest(first, 20))
    mask = np.ones(_ROWS, np.bool_)
    mask[hidden] = False
    seen = VisibleSegment(table.built, VisibleDocs(np.packbits(mask, bitorder="little"), _ROWS))
    wanted = nearest(expected("EUCLIDEAN", hidden)[0], 5)
    assert len(wanted) == 5
    assert table.ids(f"VECTOR_SIMILARITY(v, {ARRAY}, 5)", "EUCLIDEAN", [seen]) == wanted


def test_nulls_are_near_nothing_and_not_far_either(table: Table) -> None:
    near = table.ids(f"VECTOR_SIMILARITY_RADIUS(v, {ARRAY}, 1000)", "L2")
    assert near == set(range(2 * _ROWS)) - set(MISSING)
    far = table.rows(
        f"SET enableNullHandling = true; SELECT COUNT(*) FROM t WHERE NOT VECTOR_SIMILARITY_RADIUS(v, {ARRAY}, 1)", "L2"
    )
    assert far == [(int(np.sum(np.concatenate(expected("L2")) > 1)),)]


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("VECTOR_SIMILARITY(v)", "2 to 3 argument"),
        ("VECTOR_SIMILARITY(v, ARRAY[1.0], 1, 'L2')", "2 to 3 argument"),
        ("VECTOR_SIMILARITY(id, ARRAY[1.0])", "argument 1 must be a multi-value column of FLOAT"),
        ("VECTOR_SIMILARITY(v, v)", "argument 2 must be an array of numbers"),
        ("VECTOR_SIMILARITY(v, ARRAY['a'])", "argument 2 must be an array of numbers"),
        ("VECTOR_SIMILARITY(v, ARRAY[1.0], 0)", "argument 3 must be a whole number from 1"),
        ("VECTOR_SIMILARITY(v, ARRAY[1.0], id)", "argument 3 must be a constant"),
        ("VECTOR_SIMILARITY_RADIUS(v, ARRAY[1.0], 'x')", "argument 3 must be a number"),
        (
            "CASE WHEN VECTOR_SIMILARITY(v, ARRAY[1.0]) THEN 1 ELSE 0 END = 1",
            "it is allowed as a condition on a column in WHERE or FILTER",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(table: Table, condition: str, says: str) -> None:
    with pytest.raises(QueryError, match=says) as raised:
        table.ids(condition)
    assert raised.value.code is ErrorCode.QUERY_VALIDATION


@pytest.mark.parametrize("name", ["VECTOR_SIMILARITY", "VECTOR_SIMILARITY_RADIUS"])
def test_vectors_of_another_length_are_an_error(table: Table, name: str) -> None:
    with pytest.raises(QueryError, match="The vectors of 'v' have 4 elements in some rows, but the search vector has 2"):
        table.ids(f"{name}(v, ARRAY[1, 2])")


def test_settings_of_a_vector_index_of_either_form() -> None:
    declared = (
        FieldConfig("a", indexes=Indexes(vector=VectorConfig(dimension=3, distance="L2"))),
        FieldConfig("b", index_type="VECTOR", properties={"vectorDistanceFunction": "inner_product"}),
        FieldConfig("c", index_type="VECTOR", properties={}),
        FieldConfig("d", properties={"vectorDistanceFunction": "L2"}),  # of no index
        FieldConfig("e", indexes=Indexes(vector=VectorConfig(distance="L2", disabled=True))),
    )
    config = replace(TableConfig.offline("t"), field_configs=declared)
    assert SearchSettings.of(config).distance == {"a": "L2", "b": "INNER_PRODUCT"}

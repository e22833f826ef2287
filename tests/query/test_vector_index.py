"""VECTOR_SIMILARITY with vector indexes, against a scan of the same rows."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.naive import vectors as naive

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import QueryError
from gamay.kernels.vector import clusters
from gamay.model.index.indexing import FieldConfig, Indexes
from gamay.model.index.vector_index import DISTANCES, VectorConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.search_settings import SearchSettings
from gamay.model.table.secondary_indexes import declared_indexes
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.execute.executor import execute
from gamay.query.execute.explain import explain_table
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.prepared.statements import Statements
from gamay.query.reduce.merge import reduce
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.read.visible import VisibleDocs, VisibleSegment
from gamay.segment.secondary import growing
from gamay.segment.secondary.vector import hnsw, index_type
from gamay.segment.spi import Segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.segment.write.secondary_indexes import add_indexes
from gamay.sql.parser import parse_query

SCHEMA = Schema(
    "t",
    (FieldSpec("id", DataType.INT), FieldSpec("v", DataType.FLOAT, single_value=False)),
    enable_column_based_null_handling=True,
)
SCANNED = "SET skipIndexes='v=vector'; "


def table_config(dimension: int, distance: str, kind: str = "IVF_FLAT", **properties: Any) -> TableConfig:
    properties = {"minRowsForIndex": 1, **properties} if kind != "HNSW" else properties
    config = VectorConfig(kind, dimension, distance, properties={name: str(value) for name, value in properties.items()})
    declared = FieldConfig("v", encoding_type="RAW", indexes=Indexes(vector=config))
    return replace(TableConfig.offline("t"), field_configs=(declared,))


def batch(vectors: Any, missing: Any = (), first: int = 0) -> pa.RecordBatch:
    rows: list[Any] = list(vectors)
    for row in missing:
        rows[row] = None
    ids = pa.array(range(first, first + len(rows)), pa.int32())
    return pa.RecordBatch.from_arrays([ids, pa.array(rows, pa.list_(pa.float32()))], names=["id", "v"])


def built(folder: Path, config: TableConfig, rows: pa.RecordBatch, name: str = "t_0") -> ImmutableSegment:
    builder = SegmentBuilder(SCHEMA, config, name, folder)
    builder.append(rows)
    path = builder.build()
    add_indexes(path, declared_indexes(config, SCHEMA), SYSTEM_CLOCK)
    return open_segment(path, own_indexes=True)


class Asked:
    """Answers queries on segments by one thread."""

    def __init__(self, pool: WorkPool, distance: str, *segments: Segment) -> None:
        self._pool, self._segments = pool, segments
        self._statements = Statements(SCHEMA, SearchSettings(distance={"v": distance} if distance != "COSINE" else {}))

    def result(self, sql: str) -> Any:
        _, bound = self._statements.bind(parse_query(sql))
        deadline = Deadline.after_ms(60_000, SYSTEM_CLOCK)
        return bound, execute(bound, self._segments, self._pool, deadline, "host")

    def ids(self, condition: str, options: str = "") -> list[int]:
        bound, found = self.result(f"{options}SELECT id FROM t WHERE {condition} ORDER BY id LIMIT 100000")
        answer = reduce(bound, [found])
        assert answer.table is not None
        return [row[0] for row in answer.table.rows()]

    def rows(self, sql: str) -> list[float]:
        bound, found = self.result(sql)
        answer = reduce(bound, [found])
        assert answer.table is not None
        return [row[0] for row in answer.table.rows()]

    def plans(self, sql: str) -> str:
        *options, query = sql.rpartition("; ")
        bound, found = self.result(f"{''.join(options)}EXPLAIN PLAN FOR {query}")
        return str(explain_table(bound, [found.plans]).rows())

    def plan(self, condition: str, options: str = "") -> str:
        bound, found = self.result(f"{options}EXPLAIN PLAN FOR SELECT id FROM t WHERE {condition} LIMIT 100")
        return str(explain_table(bound, [found.plans]).rows()[-1][0])


def array(vector: Any) -> str:
    return f"ARRAY[{', '.join(f'{x:.6f}' for x in vector)}]"


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkPool]:
    made = WorkPool(1)
    yield made
    made.close()


def made(kind: str, count: int, dimension: int) -> Any:
    """Return random vectors, unstructured or around some hundred centres."""
    rng = np.random.default_rng(dimension)
    if kind == "random":
        return rng.normal(size=(count, dimension)).astype(np.float32)
    centres = rng.normal(size=(100, dimension)) * 2
    return (centres[rng.integers(0, 100, count)] + rng.normal(size=(count, dimension))).astype(np.float32)


def found_share(asked: Asked, searched: Any, count: int, options: str = "") -> float:
    """Recall: the share of the rows of the scan that the index finds."""
    shares = []
    for vector in searched:
        condition = f"VECTOR_SIMILARITY(v, {array(vector)}, {count})"
        wanted = asked.ids(condition, SCANNED)
        assert len(wanted) == count
        shares.append(len(set(wanted) & set(asked.ids(condition, options))) / count)
    return float(np.mean(shares))


_COUNT, _SEARCHED = 4000, 20


@pytest.mark.parametrize("kind", ["random", "clustered"])
@pytest.mark.parametrize(
    ("index", "dimension", "distance"),
    [
        ("IVF_FLAT", 32, "COSINE"),
        ("IVF_FLAT", 256, "EUCLIDEAN"),
        ("IVF_ON_DISK", 64, "INNER_PRODUCT"),
        ("HNSW", 32, "L2"),
        ("HNSW", 64, "COSINE"),
        ("HNSW", 48, "DOT_PRODUCT"),
    ],
)
def test_recall_of_ten_is_at_least_95_in_100(
    pool: WorkPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, index: str, dimension: int, distance: str
) -> None:
    monkeypatch.setattr(index_type, "MIN_ROWS", 1)
    monkeypatch.setattr(hnsw, "_ROWS_PER_NODE", 5)  # as if there were more rows
    vectors = made(kind, _COUNT + _SEARCHED, dimension)
    config = table_config(dimension, distance, index, **({"beamWidth": 60} if index == "HNSW" else {}))
    segment = built(tmp_path, config, batch(vectors[:_COUNT]))
    asked = Asked(pool, distance, segment)
    if (index, kind) != ("HNSW", "random"):  # for which a graph may be no better than a scan
        assert asked.plan(f"VECTOR_SIMILARITY(v, {array(vectors[-1])}, 10)").startswith("VECTOR_SIMILARITY_INDEX(")
    assert found_share(asked, vectors[_COUNT:], 10) >= 0.95
    assert found_share(asked, vectors[_COUNT : _COUNT + 5], 300, "SET vectorMaxCandidates = 400; ") >= 0.95
    segment.close()


@pytest.fixture(scope="module", params=["IVF_FLAT", "HNSW"])
def indexed(request: pytest.FixtureRequest, pool: WorkPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Vectors of few different numbers, so that there are ties, of zeros, and rows without one; all searched completely."""
    rng = np.random.default_rng(3)
    vectors = rng.integers(-20, 21, (2000, 6)).astype(np.float32)
    vectors[[7, 900]] = 0
    missing = [3, 4, 1500]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_type, "MIN_ROWS", 1)
        segments = {
            distance: built(tmp_path_factory.mktemp("t"), table_config(6, distance, request.param), batch(vectors, missing))
            for distance in DISTANCES
        }
    yield vectors, missing, lambda name, *more: Asked(pool, name, *(more or (segments[name],))), segments
    for segment in segments.values():
        segment.close()


# all lists, or a graph that is walked through in large part
EVERYTHING = "SET vectorNprobe = 100000; SET vectorEfSearch = 1000; "


@pytest.mark.parametrize("distance", DISTANCES)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_rows_are_those_of_the_scan(indexed: Any, distance: str, data: st.DataObject) -> None:
    _, missing, asked_of, _ = indexed
    asked = asked_of(distance)
    vector = data.draw(st.lists(st.integers(-20, 20).map(lambda x: x + 0.37), min_size=6, max_size=6))
    count = data.draw(st.integers(1, 30))
    near = f"VECTOR_SIMILARITY(v, {array(vector)}, {count})"
    condition = data.draw(
        st.sampled_from([near, f"NOT {near}", f"{near} AND id % 3 = 0", f"{near} OR id < 5", f"id > 1000 AND NOT {near}"])
    )
    nulls = f"SET enableNullHandling = {data.draw(st.sampled_from(['true', 'false']))}; "
    assert asked.plan(near, EVERYTHING).startswith("VECTOR_SIMILARITY_INDEX(")
    assert asked.ids(condition, EVERYTHING + nulls) == asked.ids(condition, SCANNED + nulls)
    assert not set(asked.ids(near, EVERYTHING)) & set(missing)


HAVE_VECTORS = "id NOT IN (3, 4, 1500)"
FUNCTIONS = {
    "COSINE": "cosineDistance({}, {})", "L2": "l2Distance({1}, {0})", "EUCLIDEAN": "euclideanDistance({}, {})",
    "INNER_PRODUCT": "innerProduct({}, {}) DESC",
}  # fmt: skip


@pytest.mark.parametrize("distance", FUNCTIONS)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_order_by_distance_is_that_of_the_scan(indexed: Any, distance: str, data: st.DataObject) -> None:
    _, _, asked_of, _ = indexed
    asked = asked_of(distance)
    vector = array(data.draw(st.lists(st.integers(-20, 20).map(lambda x: x + 0.37), min_size=6, max_size=6)))
    order = FUNCTIONS[distance].format("v", vector)
    where = data.draw(st.sampled_from(["", "AND id % 3 = 0", "AND (id < 700 OR id > 1990)", "AND id = 12"]))
    limit = data.draw(st.sampled_from(["LIMIT 1", "LIMIT 5, 20", "LIMIT 3000"]))
    sql = f"SELECT {order.removesuffix(' DESC')} FROM t WHERE {HAVE_VECTORS} {where} ORDER BY {order} {limit}"
    assert asked.rows(EVERYTHING + sql) == pytest.approx(asked.rows(SCANNED + sql), abs=1e-9, nan_ok=True)
    if where != "AND id = 12":
        assert "VECTOR_SIMILARITY_INDEX(" in asked.plans(EVERYTHING + sql.replace("3000", "30"))
    assert "VECTOR_SIMILARITY" not in asked.plans(SCANNED + sql)


def test_an_order_by_distance_reads_few_rows(indexed: Any) -> None:
    vectors, _, asked_of, _ = indexed
    sql = f"SELECT id FROM t WHERE {HAVE_VECTORS} ORDER BY l2Distance(v, {array(vectors[1])}) LIMIT 5"
    _, few = asked_of("L2").result(sql)
    _, all_rows = asked_of("L2").result(SCANNED + sql)
    assert (few.stats.num_docs_scanned, all_rows.stats.num_docs_scanned) == (5, len(vectors) - 3)
    for old, new in ("LIMIT", "DESC LIMIT"), ("LIMIT", ", id LIMIT"), ("l2Distance", "l1Distance"):
        assert "VECTOR_SIMILARITY" not in asked_of("L2").plans(sql.replace(old, new)), new


@pytest.mark.parametrize("distance", ["COSINE", "INNER_PRODUCT", "L2"])
def test_rows_that_do_not_count_take_no_place(indexed: Any, distance: str) -> None:
    vectors, _, asked_of, segments = indexed
    vector = vectors[11] + 0.2
    near = f"VECTOR_SIMILARITY(v, {array(vector)}, 10)"
    hidden = asked_of(distance).ids(f"VECTOR_SIMILARITY(v, {array(vector)}, 60)", SCANNED)
    for least_hidden in (hidden[:30], [*hidden, *range(0, 2000, 2)], range(1950)):
        mask = np.ones(len(vectors), np.bool_)
        mask[list(least_hidden)] = False
        seen = VisibleSegment(segments[distance], VisibleDocs(np.packbits(mask, bitorder="little"), len(vectors)))
        asked = asked_of(distance, seen)
        assert asked.ids(near, EVERYTHING) == asked.ids(near, SCANNED)
        assert not set(asked.ids(near)) & set(least_hidden)


def test_searches_that_the_index_does_not_know_are_scanned(indexed: Any) -> None:
    _, _, asked_of, segments = indexed
    near = "VECTOR_SIMILARITY(v, ARRAY[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], {})"
    # another distance than the index was built for, as while segments are reloaded
    other = Asked(asked_of("L2")._pool, "COSINE", segments["L2"])
    assert other.plan(near.format(3)).startswith("VECTOR_SIMILARITY_EXACT_SCAN(distance:COSINE")
    assert other.ids(near.format(3)) == asked_of("COSINE").ids(near.format(3), SCANNED)
    assert asked_of("L2").plan(near.format(1500)).startswith("VECTOR_SIMILARITY_EXACT_SCAN(")
    assert len(asked_of("L2").ids(near.format(5000))) == 1997
    assert asked_of("COSINE").ids("VECTOR_SIMILARITY(v, ARRAY[0.0, 0, 0, 0, 0, 0], 3)") == []
    with pytest.raises(QueryError, match="have 6 elements in some rows, but the search vector has 2"):
        asked_of("L2").ids("VECTOR_SIMILARITY(v, ARRAY[1.0, 2.0], 3)")


def test_a_threshold_takes_the_place_of_the_number_of_rows(indexed: Any) -> None:
    vectors, _, asked_of, _ = indexed
    asked, vector = asked_of("L2"), vectors[50]
    within = asked.ids(f"VECTOR_SIMILARITY_RADIUS(v, {array(vector)}, 20)")
    near = f"VECTOR_SIMILARITY(v, {array(vector)}, 2)"
    assert len(within) > 2
    assert asked.ids(near, "SET vectorDistanceThreshold = '20'; ") == within
    assert asked.plan(near, "SET vectorDistanceThreshold = '20'; ").startswith("VECTOR_SIMILARITY_RADIUS(distance:L2")
    with pytest.raises(QueryError, match="vectorDistanceThreshold must be a number, not 'near'"):
        asked.ids(near, "SET vectorDistanceThreshold = 'near'; ")


def entries(asked: Asked, condition: str, options: str = "") -> int:
    """How many vectors had their distance computed exactly."""
    _, found = asked.result(f"{options}SELECT id FROM t WHERE {condition} LIMIT 100")
    return int(found.stats.num_entries_scanned_in_filter) // 16


def test_options_say_how_far_a_search_goes(pool: WorkPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = made("random", 3000, 16)
    ivf = Asked(pool, "L2", built(tmp_path, table_config(16, "L2", nlist=60), batch(vectors)))
    searched = np.random.default_rng(5).normal(size=(30, 16))
    shares = []
    for probes in (1, 5, 60):
        found = [set(ivf.ids(f"VECTOR_SIMILARITY(v, {array(v)})", f"SET vectorNprobe = {probes}; ")) for v in searched]
        wanted = [set(ivf.ids(f"VECTOR_SIMILARITY(v, {array(v)})", SCANNED)) for v in searched]
        shares.append(float(np.mean([len(a & b) / 10 for a, b in zip(found, wanted, strict=True)])))
    assert shares[0] < shares[1] < shares[2] == 1
    near = f"VECTOR_SIMILARITY(v, {array(searched[0])}, 10)"
    assert entries(ivf, near, "SET vectorMaxCandidates = 25; ") == 25
    assert entries(ivf, near) == 100
    assert entries(ivf, near, "SET vectorMaxCandidates = 1; ") == 10
    monkeypatch.setattr(index_type, "MIN_ROWS", 1)
    graph = Asked(pool, "L2", built(tmp_path, table_config(16, "L2", "HNSW", maxCon=4, beamWidth=8), batch(vectors), "t_1"))
    assert graph.plan(near).startswith("VECTOR_SIMILARITY_EXACT_SCAN(")  # a poor graph is not worth it
    assert entries(graph, near, "SET vectorEfSearch = 300; ") == 100
    shares = [
        float(np.mean([len(set(graph.ids(n, f"SET vectorEfSearch = {e}; ")) & set(graph.ids(n, SCANNED))) for n in asked]))
        for e in (100, 1500)
        for asked in [[f"VECTOR_SIMILARITY(v, {array(v)}, 10)" for v in searched]]
    ]
    assert shares[0] < shares[1]


def test_few_vectors_are_scanned(pool: WorkPool, tmp_path: Path) -> None:
    vectors = made("random", 600, 8)
    near = f"VECTOR_SIMILARITY(v, {array(vectors[5])}, 3)"
    for name, least, way in (("t_0", {}, "INDEX"), ("t_1", {"minRowsForIndex": 601}, "EXACT_SCAN")):
        segment = built(tmp_path, table_config(8, "L2", **least), batch(vectors), name)
        assert Asked(pool, "L2", segment).plan(near).startswith(f"VECTOR_SIMILARITY_{way}(")
        segment.close()


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        ([1.0, 2.0], "have 2 elements, not 4"),
        ([np.inf, 0.0, 0.0, 0.0], "elements above"),
        ([1e20, 0, 0, 0], "elements above"),
    ],
)
def test_vectors_that_cannot_be_indexed_are_scanned(
    pool: WorkPool, tmp_path: Path, caplog: pytest.LogCaptureFixture, odd: list[float], says: str
) -> None:
    rows = [*made("random", 500, 4), np.array(odd, np.float32)]
    segment = built(tmp_path, table_config(4, "L2"), batch(rows))
    asked = Asked(pool, "L2", segment)
    near = f"VECTOR_SIMILARITY(v, {array(rows[3])}, 3)"
    assert asked.plan(near).startswith("VECTOR_SIMILARITY_EXACT_SCAN(")
    assert says in caplog.text
    if len(odd) == 4:
        assert asked.ids(near) == asked.ids(near, SCANNED)
    segment.close()


def test_damaged_files_are_not_used(pool: WorkPool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    vectors = made("random", 500, 4)
    segment = built(tmp_path, table_config(4, "L2"), batch(vectors))
    near = f"VECTOR_SIMILARITY(v, {array(vectors[3])}, 3)"
    wanted = Asked(pool, "L2", segment).ids(near)
    segment.close()
    file = next((segment.path / "indexes" / "0").iterdir())
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    damaged = open_segment(segment.path, own_indexes=True)
    asked = Asked(pool, "L2", damaged)
    assert asked.plan(near).startswith("VECTOR_SIMILARITY_EXACT_SCAN(")
    assert asked.ids(near) == wanted
    assert "is damaged" in caplog.text
    damaged.close()
    # nor are those that came with a segment from elsewhere
    foreign = open_segment(segment.path)
    assert foreign.indexes == ()
    foreign.close()


def test_without_the_library_there_are_lists(pool: WorkPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = made("clustered", 3000, 8)
    monkeypatch.setattr(index_type, "MIN_ROWS", 1)
    monkeypatch.setattr(hnsw, "_ROWS_PER_NODE", 1)
    near = f"VECTOR_SIMILARITY(v, {array(vectors[3])}, 3)"
    graph = built(tmp_path, table_config(8, "L2", "HNSW"), batch(vectors), "t_0")
    monkeypatch.setattr(index_type, "_has_library", lambda: False)
    lists = built(tmp_path, table_config(8, "L2", "HNSW"), batch(vectors), "t_1")
    assert [index.content["form"] for segment in (graph, lists) for index in segment.indexes] == ["HNSW", "IVF"]
    # what was built while there was the library is not read
    assert Asked(pool, "L2", graph).plan(near).startswith("VECTOR_SIMILARITY_EXACT_SCAN(")
    assert Asked(pool, "L2", lists).plan(near).startswith("VECTOR_SIMILARITY_INDEX(")
    graph.close()
    lists.close()


def test_rows_are_found_while_they_arrive(pool: WorkPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "BLOCK_ROWS", 500)
    vectors = made("clustered", 2300, 8)
    consuming = MutableSegment("t_1", SCHEMA, table_config(8, "L2"), tmp_path, clock=SYSTEM_CLOCK)
    near = f"VECTOR_SIMILARITY(v, {array(vectors[3] + 0.1)}, 10)"
    for first in range(0, 2300, 230):
        consuming.append(batch(vectors[first : first + 230], [5], first))
        asked = Asked(pool, "L2", consuming.view())
        assert asked.ids(near, "SET vectorNprobe = 1000; ") == asked.ids(near, SCANNED)
    wait_until(lambda: consuming._indexes._num_blocks == 4)
    consuming.append(batch(vectors[:10], (), 2300))
    asked = Asked(pool, "L2", consuming.view())
    assert asked.plan(near).startswith("VECTOR_SIMILARITY_INDEX(")
    assert 2303 in asked.ids(near)
    # of one block hardly any of the nearest rows count, of the others all
    counts = np.ones(2310, np.bool_)
    counts[[row for row in asked.ids(near.replace(", 10)", ", 400)"), SCANNED) if row < 500]] = False
    partly = Asked(pool, "L2", VisibleSegment(consuming.view(), VisibleDocs(np.packbits(counts, bitorder="little"), 2310)))
    assert partly.ids(near, "SET vectorNprobe = 1000; ") == partly.ids(near, SCANNED)
    # all blocks but the rows behind them, whose vectors are all compared
    candidates = 4 * 100 + 310
    _, found = asked.result(f"SELECT id FROM t WHERE {near} LIMIT 100")
    assert found.stats.num_entries_scanned_in_filter <= 8 * candidates + 8
    consuming.close()


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(2000):
        if holds():
            return
        time.sleep(0.005)
    raise AssertionError("never")


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 9), width=st.integers(1, 19), k=st.integers(1, 5), seed=st.integers(0, 99))
def test_kernels_do_what_is_said(rows: int, width: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, centroids = (rng.integers(-9, 10, (n, width)).astype(np.float32) for n in (rows, k))
    vector, scales = rng.integers(-9, 10, width).astype(np.float32), rng.integers(1, 5, rows).astype(np.float32)
    cut = int(rng.integers(0, rows))
    ranges = np.array([[cut, rows], [0, cut]])
    products, squares = np.empty(rows, np.float32), np.empty(rows, np.float32)
    clusters.scaled_products(points, scales, ranges, vector, products)
    clusters.squared_differences(points, ranges, vector, squares)
    assert products.tolist() == naive.scaled_products(points, scales, ranges, vector)
    assert squares.tolist() == naive.squared_differences(points, ranges, vector)
    nearest = np.empty(rows, np.int32)
    halves = (centroids**2).sum(axis=1) / 2
    clusters.nearest_centroids(points, np.ascontiguousarray(centroids.T), halves, nearest)
    assert nearest.tolist() == naive.nearest_centroids(points, centroids)

"""Segments built by Spark from files: the same rows as DuckDB reads from these files."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from tests.spark.cluster import Cluster

from gamay.base.errors import ConflictError, InvalidConfigError, RecordError
from gamay.ingest.read.parts import ByteRange
from gamay.ingest.transform.operands import to_arrow
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.read.reader import open_segment
from gamay.segment.secondary.compound import CompoundIndexType
from gamay.spark import build_segments, write_dataframe
from gamay.spark.building.input_tasks import numbered, packed
from gamay.spark.building.report import BuildReport
from gamay.spark.building.segment_task import FileTask, build_segment
from gamay.spark.building.segments import InputFiles
from gamay.spark.building.target import SegmentTarget
from gamay.storage.archive import unpack

pytestmark = pytest.mark.spark


@pytest.fixture
def open_archives(tmp_path):
    """Unpack and open the segments of a report."""
    opened = []

    def open_all(report):
        for segment in report.segments:
            opened.append(open_segment(unpack(segment.uri, tmp_path / f"unpacked{len(opened)}")))
        return opened[-len(report.segments) :] if report.segments else []

    yield open_all
    for segment in opened:
        segment.close()


def rows_of(segments):
    tables = []
    for segment in segments:
        columns = {}
        for name in ("day", "city", "fare", "tags"):
            vector = segment.column(name).values(0, segment.num_docs)
            columns[name] = to_arrow(vector, segment.num_docs).to_pylist()
        tables.append(pa.table(columns))
    table = pa.concat_tables(tables)
    return sorted(map(tuple, zip(*(table[c].to_pylist() for c in table.column_names), strict=True)))


def expected(folder, where="true"):
    query = f"""SELECT day::INT, city, coalesce(fare::DOUBLE, 0), string_split(tags, ';')
                FROM read_csv('{folder}/**/*.csv', all_varchar=true, filename=true) WHERE {where}"""
    return sorted(duckdb.sql(query).fetchall())


GLOBAL = {"global_sequence": True}


def test_one_file_one_segment(spark, schema, table_config, files, tmp_path, open_archives):
    steps = []

    class Progress:
        def update(self, what, done, total):
            steps.append((what, done, total))

    inputs = InputFiles(str(files), **GLOBAL)
    report = build_segments(spark, schema, table_config(), inputs, str(tmp_path / "out"), progress=Progress())
    assert [s.name for s in report.segments] == [f"trips_OFFLINE_19000_19059_{i}" for i in range(3)]
    assert [s.uri.removeprefix(str(tmp_path)) for s in report.segments][2] == "/out/more/trips_OFFLINE_19000_19059_2.tar.zst"
    assert (report.rows_read, report.rows_written, report.num_files) == (600, 600, 3)
    assert rows_of(open_archives(report)) == expected(files)
    assert "3 segments, 600 rows" in report.lines()[1]
    what, done, total = steps[-1]
    assert (what, done) == ("building segments", total)


@pytest.mark.parametrize("partition_and_sort", [False, True])
def test_large_files_are_split(spark, schema, table_config, files, tmp_path, open_archives, partition_and_sort):
    quoted = files / "quoted.csv"
    quoted.write_text("day,city,fare,tags\n" + '19000,"two\nlines",1,t;u\n' * 60)
    (files / "regular.csv").write_text("day,city,fare,tags\n" + '19001,"one, line",1,t;u\n' * 60)
    report = build_segments(
        spark, schema, table_config(), InputFiles(str(files), **GLOBAL), str(tmp_path / "out"),
        bytes_per_task=1000, partition_and_sort=partition_and_sort,
    )  # fmt: skip
    assert rows_of(open_archives(report)) == expected(files)
    assert (report.rows_read, report.num_files) == (720, 5)
    if partition_and_sort:
        return
    made = [segment.input_uri for segment in report.segments]
    assert made.count(str(quoted)) == 1  # its records are not lines
    assert made.count(str(files / "regular.csv")) == 2
    assert made.count(str(files / "a.csv")) > 3


def test_small_files_are_packed(schema, table_config, files, tmp_path, open_archives):
    def piece(name, part=None):
        return FileTask(str(files / name), 7, name.rpartition("/")[0], "csv", {}, part)

    half = ByteRange(0, 4), ByteRange(4, 8)
    pieces = [
        (piece("a.csv"), 4), (piece("more/c.csv"), 4), (piece("b.csv"), 5), (piece("d.csv"), 2),
        (piece("e.csv", half[0]), 4), (piece("e.csv", half[1]), 4), (piece("f.csv"), 20), (piece("g.csv"), 1),
    ]  # fmt: skip
    tasks = numbered(list(packed(pieces, 10)), lambda file: file.sub_path)
    names = [[file.uri.removeprefix(f"{files}/") for file in task] for task in tasks]
    assert names == [["a.csv", "b.csv"], ["d.csv"], ["e.csv"], ["e.csv"], ["f.csv"], ["g.csv"], ["more/c.csv"]]
    assert [task[0].sequence_id for task in tasks] == [0, 1, 2, 3, 4, 5, 0]
    report = build_segment(tasks[0], SegmentTarget.of(schema, table_config(), str(tmp_path / "out")))
    (segment,) = open_archives(BuildReport((report,), 0))
    assert (report.rows_read, rows_of([segment])) == (400, expected(files, "filename NOT LIKE '%c.csv'"))


def test_segments_of_parts_cannot_be_named_after_files(spark, schema, table_config, files, tmp_path):
    target = replace(SegmentTarget.of(schema, table_config(), str(tmp_path)), name_type="inputFile", name_configs={
        "file.path.pattern": ".*/(.*)[.]csv", "segment.name.template": "${filePathPattern:\\\\1}",
    })  # fmt: skip
    with pytest.raises(InvalidConfigError, match="'inputFile' names each segment after its file"):
        build_segments(spark, schema, table_config(), str(files), str(tmp_path), target=target, bytes_per_task=100)


def test_partitioned_and_sorted(spark, schema, table_config, files, tmp_path, open_archives):
    partitioning = {"columnPartitionMap": {"city": {"functionName": "Murmur", "numPartitions": 3}}}
    config = table_config(segmentPartitionConfig=partitioning, sortedColumn=["city"])
    report = build_segments(
        spark, schema, config, InputFiles(str(files)), str(tmp_path / "out"), partition_and_sort=True, rows_per_segment=150
    )
    segments = open_archives(report)
    assert rows_of(segments) == expected(files)
    assert (report.rows_read, report.rows_written) == (600, 600)
    for segment in segments:
        assert len(segment.column("city").stats.partition.partitions) == 1
        assert segment.column("city").stats.is_sorted
        assert segment.num_docs <= 300


@pytest.mark.parametrize("partition_and_sort", [False, True])
def test_star_trees_are_built_on_executors(spark, schema, table_config, files, tmp_path, open_archives, partition_and_sort):
    tree = {"dimensionsSplitOrder": ["city", "day"], "functionColumnPairs": ["SUM__fare"], "maxSizeRatio": 100}
    config = table_config(starTreeIndexConfigs=[tree])
    report = build_segments(
        spark, schema, config, InputFiles(str(files), **GLOBAL), str(tmp_path / "out"), partition_and_sort=partition_and_sort
    )
    for segment in open_archives(report):
        (found,) = segment.star_trees()
        by_city = next(cuboid for cuboid in found.cuboids if cuboid.kept == (0,))
        counts = found.arrays["count(*)"][0][by_city.start : by_city.stop]
        assert counts.sum() == segment.num_docs
    assert report.segments[0].star_tree_bytes > 0
    told = [line for line in report.lines() if "bytes before packing, built in" in line]
    assert told[0].startswith(f"{len(report.segments)} star-tree")


def test_a_compound_index_is_built_on_executors_and_used_as_it_is(
    spark, schema, table_config, tmp_path, open_archives, monkeypatch
):
    def refused(*_):
        raise AssertionError("workers of Spark have built it, so this process need not")

    monkeypatch.setattr(CompoundIndexType, "build", refused)
    lines = [f"{19000 + row % 5},city{row // 3 % 7},{row},u" for row in range(500)]
    (tmp_path / "rows.csv").write_text("\n".join(["day,city,fare,tags", *lines]) + "\n")
    config = table_config(compoundInvertedIndexConfigs=[{"columns": ["city", "day"]}])
    report = build_segments(spark, schema, config, InputFiles(str(tmp_path / "rows.csv")), str(tmp_path / "out"))
    (segment,) = open_archives(report)
    assert [(one.kind, one.declaration.columns) for one in segment.indexes] == [("compound_inverted", ("city", "day"))]
    cluster = Cluster(tmp_path)
    try:
        cluster.create(schema.to_json(), config.to_json())
        cluster.client.upload_tar("trips", Path(report.segments[0].uri), table_type="OFFLINE")
        cluster.wait_for("trips", 500)
        where = "city = 'city4' AND day IN (19001, 19003)"
        shown = str(cluster.rows(f"EXPLAIN PLAN FOR SELECT fare FROM trips WHERE {where}"))
        assert "FILTER_COMPOUND_INVERTED_INDEX(indexLookUp:compound_inverted_index,operator:AND" in shown
        expected = [row for row in range(500) if row // 3 % 7 == 4 and row % 5 in (1, 3)]
        assert cluster.rows(f"SELECT fare FROM trips WHERE {where} ORDER BY fare LIMIT 500") == [
            (float(r),) for r in expected
        ]
    finally:
        cluster.stop()


def test_time_ranges(spark, schema, table_config, files, tmp_path, open_archives):
    report = build_segments(
        spark, schema, table_config(), str(files), str(tmp_path / "out"), partition_and_sort=True, rows_per_segment=100
    )
    segments = open_archives(report)
    assert rows_of(segments) == expected(files)
    ranges = sorted((s.column("day").stats.minimum, s.column("day").stats.maximum) for s in segments)
    assert len(ranges) > 3
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    assert all(s.column("day").stats.is_sorted for s in segments)


def test_a_table_without_time_or_sorted_column_is_cut_into_even_segments(spark, schema, files, tmp_path, open_archives):
    report = build_segments(
        spark,
        schema,
        TableConfig.offline("trips"),
        str(files),
        str(tmp_path / "out"),
        partition_and_sort=True,
        rows_per_segment=100,
    )
    segments = open_archives(report)
    assert rows_of(segments) == expected(files)
    assert len(segments) == 6
    assert all(70 < s.num_docs < 130 for s in segments)


def test_a_column_that_rows_cannot_be_sorted_by_is_refused(spark, schema, table_config, files, tmp_path):
    for column, reason in (("tags", "has several values in a row"), ("tgs", "is not in the schema")):
        with pytest.raises(InvalidConfigError, match=f"sortColumn: the column '{column}' {reason}"):
            build_segments(
                spark, schema, table_config(), str(files), str(tmp_path / "out"), partition_and_sort=True, sort_column=column
            )


def test_filter_and_errors_are_counted(spark, schema, table_config, files, tmp_path, open_archives):
    (files / "a.csv").open("a").write("broken\n19000,x,notanumber,t\n")
    ingestion = {"continueOnError": True, "filterConfig": {"filterFunction": "city = 'city1'"}}
    inputs = InputFiles(str(files), **GLOBAL)
    report = build_segments(spark, schema, table_config(ingestion), inputs, str(tmp_path / "out"))
    assert (report.rows_read, report.rows_filtered, report.rows_written, report.num_errors) == (602, 86, 515, 2)
    rows = [r for r in rows_of(open_archives(report)) if r[1] != "x"]
    (files / "a.csv").write_text("\n".join((files / "a.csv").read_text().split("\n")[:201]))
    assert rows == expected(files, "city <> 'city1'")
    assert any("a.csv, record 201: 1 values where the header has 4" in line for line in report.lines())
    assert any("a.csv, record 202: column 'fare': 'notanumber' is not a valid DOUBLE" in line for line in report.lines())


@pytest.mark.parametrize("partition_and_sort", [False, True])
def test_a_bad_record_fails_the_job(spark, schema, table_config, files, tmp_path, partition_and_sort):
    (files / "b.csv").open("a").write("19000,x,notanumber,t\n")
    with pytest.raises(RecordError, match=r"b\.csv, record 201: column 'fare': 'notanumber' is not a valid DOUBLE"):
        build_segments(
            spark, schema, table_config(), str(files), str(tmp_path / "out"), partition_and_sort=partition_and_sort
        )


@pytest.mark.parametrize("partition_and_sort", [False, True])
def test_an_output_folder_that_cannot_be_written(spark, schema, table_config, files, tmp_path, partition_and_sort):
    (tmp_path / "file").write_text("not a folder")
    output = str(tmp_path / "file" / "out")
    with pytest.raises(RecordError, match=r"cannot build a segment: .*file/out"):
        build_segments(spark, schema, table_config(), str(files), output, partition_and_sort=partition_and_sort)


def test_times_that_cannot_be(spark, schema, table_config, files, tmp_path):
    (files / "a.csv").write_text("day,city\n5,x\n")
    with pytest.raises(RecordError, match=r"a\.csv: the time column 'day' has the value 5, not in 1971 to 2071"):
        build_segments(spark, schema, table_config(), str(files), str(tmp_path / "out"))


def test_two_segments_of_one_name_are_refused(spark, schema, table_config, files, tmp_path):
    target = SegmentTarget(
        *_documents(schema, table_config()), str(tmp_path / "out"), "normalizedDate", {"exclude.sequence.id": "true"}
    )
    with pytest.raises(ConflictError, match="several segments of the job are named"):
        build_segments(spark, schema, table_config(), str(files), str(tmp_path / "out"), target=target)


def _documents(schema, config):
    target = SegmentTarget.of(schema, config, "")
    return target.schema_json, target.table_config_json


def test_existing_output_is_kept_unless_told(spark, schema, table_config, files, tmp_path):
    inputs = InputFiles(str(files / "a.csv"))
    first = build_segments(spark, schema, table_config(), inputs, str(tmp_path / "out"))
    second = build_segments(spark, schema, table_config(), inputs, str(tmp_path / "out"))
    assert second.segments[0].outcome == "KEPT"
    assert "were kept" in second.lines()[2]
    assert first.segments[0].uri == second.segments[0].uri


def test_empty_input(spark, schema, table_config, tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("day,city\n")
    report = build_segments(spark, schema, table_config(), str(path), str(tmp_path / "out"))
    assert (report.segments, report.rows_read) == ([], 0)
    with pytest.raises(InvalidConfigError, match=r"no row of .*empty\.csv is left"):
        build_segments(spark, schema, table_config(), str(path), str(tmp_path / "out"), fail_on_empty=True)


@pytest.mark.parametrize("partition_and_sort", [False, True])
def test_dataframe(spark, schema, table_config, files, tmp_path, open_archives, partition_and_sort):
    frame = spark.read.csv(str(files), header=True, recursiveFileLookup=True)
    frame = frame.selectExpr("day", "city", "fare", "split(tags, ';') AS tags").repartition(3)
    report = write_dataframe(
        frame, schema, table_config(), str(tmp_path / "out"), partition_and_sort=partition_and_sort, rows_per_segment=200
    )
    assert (report.rows_read, report.rows_written, len(report.segments)) == (600, 600, 3)
    assert rows_of(open_archives(report)) == expected(files)


MAPS = {
    "schemaName": "parcels",
    "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}],
    "complexFieldSpecs": [
        {
            "name": "m",
            "dataType": "MAP",
            "childFieldSpecs": {"key": {"dataType": "STRING"}, "value": {"dataType": "LONG"}},
        }
    ],
}


@pytest.mark.parametrize("form", ["map", "struct", "files", "sorted files"])
def test_maps(spark, tmp_path, open_archives, form):
    """Maps and structs of a DataFrame, and objects of JSON files, are the same maps in segments."""
    schema = Schema.from_json(MAPS).value
    config, out = TableConfig.offline("parcels"), str(tmp_path / "out")
    maps = [{"b": n, "a": 2 * n} if n % 3 else {"c": n} for n in range(30)]
    if "files" in form:
        (tmp_path / "in").mkdir()
        lines = [json.dumps({"id": n, "m": one}) for n, one in enumerate(maps)]
        (tmp_path / "in" / "rows.json").write_text("\n".join(lines) + "\n")
        files = InputFiles(str(tmp_path / "in"), data_format="json")
        report = build_segments(spark, schema, config, files, out, partition_and_sort=form == "sorted files")
    else:
        kind = "MAP<STRING, INT>" if form == "map" else "STRUCT<a: INT, b: INT, c: INT>"
        frame = spark.createDataFrame(list(enumerate(maps)), f"id INT, m {kind}").repartition(2)
        report = write_dataframe(frame, schema, config, out)
    found = {}
    for segment in open_archives(report):
        assert segment.column("m").dictionary is None
        ids, texts = (segment.column(name).values(0, segment.num_docs).values.tolist() for name in ("id", "m"))
        found |= dict(zip(ids, texts, strict=True))
    assert found == {n: json.dumps(one, sort_keys=True, separators=(",", ":")) for n, one in enumerate(maps)}


def test_a_hot_key_does_not_make_segments_larger_than_asked_for(spark, schema, table_config, tmp_path, open_archives):
    rows = spark.range(0, 1000, 1, 2).selectExpr("19000 AS day", "'c' AS city", "id / 2 AS fare", "array('t') AS tags")
    for partition_and_sort in (True, False):
        out = str(tmp_path / str(partition_and_sort))
        config = table_config()
        report = write_dataframe(rows, schema, config, out, partition_and_sort=partition_and_sort, rows_per_segment=100)
        segments = open_archives(report)
        assert sum(s.num_docs for s in segments) == 1000
        assert max(s.num_docs for s in segments) <= 150


def test_a_dataframe_is_computed_once_and_its_plan_is_not_asked_for(spark, schema, table_config, tmp_path, monkeypatch):
    computed = spark.sparkContext.accumulator(0)

    def counted(batches):
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    rows = spark.range(0, 100, 1, 2).selectExpr("19000 AS day", "'c' AS city", "id / 2 AS fare", "array('t') AS tags")
    rows = rows.mapInArrow(counted, rows.schema)
    monkeypatch.setattr(type(rows), "rdd", property(lambda _: pytest.fail("Spark Connect has no RDDs")))
    report = write_dataframe(rows.repartition(3), schema, table_config(), str(tmp_path / "out"))
    assert (report.rows_written, computed.value) == (100, 100)


def test_archives_can_be_read_by_others(spark, schema, table_config, files, tmp_path):
    report = build_segments(spark, schema, table_config(), InputFiles(str(files), **GLOBAL), str(tmp_path / "out"))
    assert {Path(segment.uri).stat().st_mode & 0o777 for segment in report.segments} == {0o644}

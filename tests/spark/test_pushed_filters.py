"""Spark filters as SQL conditions: the same rows as Spark itself selects."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from pyspark.sql import datasource as api
from pyspark.sql.functions import expr
from tests.spark.test_source import OFFLINE, SCHEMA, event_rows

from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.bind.binder import bind
from gamay.query.execute.matching_rows import matching_rows
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.spark.reading.pushed_filters import condition
from gamay.spark.reading.types import struct_type
from gamay.spark.reading.values import to_spark
from gamay.sql.parser import parse_query

pytestmark = pytest.mark.spark

AT = datetime(2023, 11, 17, tzinfo=UTC)
NAN = float("nan")
# a filter, the same in Spark's SQL, and whether Gamay takes it over
FILTERS = [
    (api.EqualTo(("city",), "city3"), "city = 'city3'", True),
    (api.EqualNullSafe(("city",), "city3"), "city <=> 'city3'", True),
    (api.Not(api.EqualTo(("city",), "city3")), "city <> 'city3'", True),
    (api.Not(api.EqualNullSafe(("city",), "city3")), "NOT (city <=> 'city3')", False),
    (api.In(("city",), ("city1", "it's")), "city IN ('city1', \"it's\")", True),
    (api.In(("city",), ("city1", None)), "city IN ('city1', null)", True),
    (api.Not(api.In(("city",), ("city1", "city2"))), "city NOT IN ('city1', 'city2')", True),
    (api.Not(api.In(("city",), ("city1", None))), "city NOT IN ('city1', null)", False),
    (api.GreaterThan(("city",), "city4"), "city > 'city4'", True),
    (api.StringStartsWith(("city",), "City"), "city LIKE 'City%'", True),
    (api.StringStartsWith(("city",), "city3"), "city LIKE 'city3%'", True),
    (api.StringEndsWith(("city",), "y3"), "city LIKE '%y3'", True),
    (api.StringContains(("city",), "ty_"), "contains(city, 'ty_')", True),
    (api.Not(api.StringContains(("city",), "ty3")), "NOT contains(city, 'ty3')", True),
    (api.IsNull(("city",)), "city IS NULL", True),
    (api.IsNotNull(("city",)), "city IS NOT NULL", True),
    (api.EqualTo(("ok",), True), "ok", True),
    (api.Not(api.EqualTo(("ok",), True)), "NOT ok", True),
    (api.LessThan(("ts",), AT), "ts < timestamp'2023-11-17 00:00:00'", True),
    (api.GreaterThan(("ts",), AT + timedelta(microseconds=1)), "ts > timestamp'2023-11-17 00:00:00.000001'", False),
    (api.EqualTo(("raw",), bytearray(b"\x00\x7b")), "raw = X'007B'", True),
    (api.EqualTo(("price",), Decimal("7.07")), "price = 7.07", True),
    (api.GreaterThan(("price",), Decimal("390.5")), "price > 390.5", True),
    (api.EqualTo(("small",), 0.5), "small = 0.5", True),
    (api.LessThan(("small",), 3.0), "small < 3", True),
    (api.GreaterThan(("small",), 95.0), "small > 95", False),
    (api.Not(api.LessThan(("small",), 3.0)), "NOT (small < 3)", False),
    (api.EqualTo(("small",), NAN), "isnan(small)", False),
    (api.LessThanOrEqual(("n",), 7), "n <= 7", True),
    (api.GreaterThanOrEqual(("n",), 193), "n >= 193", True),
    (api.GreaterThan(("n",), 5_000_000_000), "n > 5000000000", True),
    (api.In(("n",), (1, 5, 1000)), "n IN (1, 5, 1000)", True),
    (api.EqualTo(("doc",), '{"a":7}'), "doc = '{\"a\":7}'", False),
    (api.EqualTo(("tags",), ["t0", "u"]), "tags = array('t0', 'u')", False),
    (api.EqualTo(("attributes", "x"), 9), "attributes['x'] = 9", False),
]


@pytest.fixture(scope="module")
def segment(tmp_path_factory):
    schema, config = Schema.from_json(SCHEMA).value, TableConfig.from_json(OFFLINE).value
    builder = SegmentBuilder(schema, config, "s", tmp_path_factory.mktemp("segment"))
    for batch in event_rows(0, 200).to_batches():
        builder.append(Pipeline(schema, config).apply(batch))
    opened = open_segment(builder.build())
    yield opened
    opened.close()


@pytest.mark.parametrize("null_handling", [False, True], ids=["defaults", "nulls"])
def test_the_same_rows_as_spark(spark, segment, null_handling):
    schema = Schema.from_json(SCHEMA).value
    names = [spec.name for spec in schema.stored_fields]

    def selected(columns, where="1 = 1"):
        sql = f"SELECT {', '.join(columns)} FROM events WHERE {where}"
        options = "SET enableNullHandling = true; " if null_handling else ""
        return list(matching_rows(bind(parse_query(options + sql), schema), segment))

    from pyspark.sql.pandas.types import to_arrow_schema

    struct = struct_type(schema.stored_fields, "decimal(38,18)")
    (batch,) = selected(names)
    target = to_arrow_schema(struct, timezone="UTC")
    import pyarrow as pa

    table = pa.table([to_spark(batch[f.name], schema.field(f.name), f.type) for f in target], schema=target)
    frame = spark.createDataFrame(table)
    flags = frame.select("n", *[expr(text).alias(str(i)) for i, (_, text, _) in enumerate(FILTERS)]).collect()
    for i, (filter_, text, taken) in enumerate(FILTERS):
        where = condition(filter_, schema, null_handling)
        assert (where is not None) == taken, text
        if where is not None:
            found = [n for batch in selected(["n"], where) for n in batch["n"].to_pylist()]
            assert found == [row.n for row in flags if row[str(i)]], text

"""Compilation of the kernels of queries before a user waits for it, by small queries on generated segments.

Kernels are compiled for the types of their arguments, so the generated columns cover the widths of dictionary ids (1, 2
and 4
bytes), the raw number types, text and multi-value columns. Kernels in the cache on disk are only loaded.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.functions.arrow import arrow_type
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.fields import input_fields
from gamay.ingest.stream.offsets import IntegerOffset
from gamay.ingest.stream.plugins import open_decoder
from gamay.ingest.stream.spi import InputFields, MessageBatch
from gamay.model.schema.schema import Schema
from gamay.model.table.secondary_indexes import declared_indexes
from gamay.model.table.table_config import TableConfig
from gamay.query.bind.binder import BoundQuery, bind
from gamay.query.execute.executor import execute
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.query.startree.build import add_star_trees
from gamay.query.wire.result import encode_result, receive
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.spi import Segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.segment.write.secondary_indexes import add_indexes
from gamay.server.warmup.keys import warm_up_keys
from gamay.sql.parser import parse_query

_ROWS = 70_000  # more than 65,536 distinct values need ids of 4 bytes
_SEGMENTS = 2  # more than one, so that results are merged
_MESSAGES = 100
_LIMIT_MS = 600_000

_SCHEMA = {
    "schemaName": "warmup",
    "dimensionFieldSpecs": [
        {"name": "few", "dataType": "STRING"},
        {"name": "some", "dataType": "STRING"},
        {"name": "many", "dataType": "LONG"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
        {"name": "raw_text", "dataType": "STRING"},
        {"name": "doc", "dataType": "JSON"},
    ],
    "metricFieldSpecs": [
        {"name": "small", "dataType": "INT"},
        {"name": "medium", "dataType": "INT"},
        {"name": "wide", "dataType": "DOUBLE"},
        {"name": "raw_int", "dataType": "INT"},
        {"name": "raw_long", "dataType": "LONG"},
        {"name": "raw_double", "dataType": "DOUBLE"},
    ],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"}],
}
_CONFIG = {
    "tableName": "warmup",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
    "tenants": {},
    "tableIndexConfig": {
        "invertedIndexColumns": ["some"],
        "bloomFilterColumns": ["some"],
        "rangeIndexColumns": ["small"],
        "noDictionaryColumns": ["raw_int", "raw_long", "raw_double", "raw_text", "doc"],
    },
}
_QUERIES = (
    "SELECT cityHash32(some), cityHash64(some), cityHash128(some), murmurHash2(some) FROM warmup LIMIT 1",
    "SELECT COUNT(*), SUM(small), MIN(wide), MAX(raw_long), AVG(raw_double) FROM warmup",
    "SELECT COUNT(*), SUM(raw_int) FROM warmup WHERE few <> 'few_3' AND small > 10",
    "SELECT SUM(wide), SUM(raw_double), MIN(small), MAX(small) FROM warmup WHERE few IN ('few_1', 'few_4')",
    "SELECT COUNT(*) FROM warmup WHERE raw_long BETWEEN 100 AND 5000 OR many = 7",
    "SELECT few, COUNT(*), SUM(small), AVG(wide), MIN(raw_int), MAX(raw_double) FROM warmup GROUP BY few ORDER BY few",
    "SELECT few, COUNT(*), SUM(small) FROM warmup WHERE small < 50 GROUP BY few ORDER BY COUNT(*) DESC",
    "SELECT few, some, SUM(wide) FROM warmup GROUP BY few, some ORDER BY SUM(wide) DESC LIMIT 5",
    "SELECT many, COUNT(*), SUM(small) FROM warmup GROUP BY many ORDER BY COUNT(*) DESC, many LIMIT 5",
    "SELECT many, some, SUM(small) FROM warmup GROUP BY many, some ORDER BY SUM(small) DESC LIMIT 5",
    "SELECT tags, COUNT(*) FROM warmup WHERE tags <> 'tag_1' GROUP BY tags ORDER BY tags",
    "SELECT few, DISTINCTCOUNT(some), PERCENTILE(small, 95) FROM warmup GROUP BY few ORDER BY few",
    "SELECT few, AVG(medium), MAX(medium), PERCENTILE(medium, 95) FROM warmup WHERE small > 10 GROUP BY few ORDER BY few",
    "SELECT some, SUM(medium), PERCENTILE(many, 50), PERCENTILE(raw_double, 50) FROM warmup GROUP BY some LIMIT 5",
    "SELECT PERCENTILE(medium, 95), PERCENTILE(wide, 50), COUNT(*) FROM warmup WHERE some <> 'some_00017'",
    "SELECT DISTINCTCOUNT(many), DISTINCTCOUNTHLL(some) FROM warmup WHERE few = 'few_2'",
    "SELECT few, DISTINCTCOUNTHLL(some), DISTINCTCOUNTHLL(many), PERCENTILETDIGEST(small, 9) FROM warmup GROUP BY few",
    "SELECT DISTINCTCOUNT(few), DISTINCTCOUNTHLL(many), PERCENTILETDIGEST(small, 9), PERCENTILETDIGEST(wide, 9) FROM warmup",
    "SELECT few, SUM(small * wide) FROM warmup GROUP BY few ORDER BY few",
    "SELECT many, small, ts FROM warmup WHERE few = 'few_2' ORDER BY small DESC, ts LIMIT 5",
    "SELECT * FROM warmup WHERE some = 'some_00017' LIMIT 5",
    "SELECT few, MAX(medium) FROM warmup WHERE few <> 'few_2' AND medium BETWEEN 20 AND 22 AND ts < 9000 GROUP BY few",
    "SELECT DISTINCT few, small FROM warmup ORDER BY few, small LIMIT 5",
    "SELECT COUNT(*) FROM warmup WHERE some LIKE '%17%' AND ts >= 1000 AND ts < 50000",
    "SELECT few, STDDEV_POP(wide), VAR_POP(small) FROM warmup GROUP BY few ORDER BY few",
    "SELECT VALUEIN(tags, 'tag_1', 'tag_3'), COUNT(*) FROM warmup GROUP BY 1 ORDER BY 1",
    "SELECT COUNT(*), MAX(length(raw_text)) FROM warmup WHERE raw_text LIKE '%17%'",
    "SELECT raw_text, COUNT(*) FROM warmup WHERE REGEXP_LIKE(raw_text, 't.*[35]1$') GROUP BY raw_text LIMIT 5",
    "SELECT raw_text, doc FROM warmup WHERE some = 'some_00017' ORDER BY raw_text LIMIT 5",
    "SELECT SUM(JSON_EXTRACT_SCALAR(doc, '$.a', 'INT')) FROM warmup WHERE JSON_MATCH(doc, '\"$.b\" = ''few_2''')",
    "SELECT COUNT(*) FROM warmup WHERE TEXT_MATCH(raw_text, 'textsome_00017text OR t*7text')",
    "SELECT raw_text, textScore(raw_text, '\"textsome_00017text t\"~2') AS score FROM warmup ORDER BY score DESC LIMIT 5",
    "SELECT JSON_EXTRACT_SCALAR(doc, '$.b', 'STRING') AS b, COUNT(*) FROM warmup GROUP BY b ORDER BY b",
)

_TREES = {
    **_CONFIG,
    "tableIndexConfig": {
        "starTreeIndexConfigs": [
            {
                "dimensionsSplitOrder": ["few", "some"],
                "functionColumnPairs": ["SUM__wide", "SUM__raw_long", "MIN__wide", "MAX__wide"],
                "maxLeafRecords": 1,
                "maxSizeRatio": 100,
            }
        ],
        "jsonIndexColumns": ["doc"],
    },
    "fieldConfigList": [{"name": "some", "indexes": {"fst": {}, "text": {}}}],
}
_TREE_QUERIES = (
    "SELECT COUNT(*), SUM(wide), AVG(raw_long), MIN(wide), MAX(wide) FROM warmup WHERE some > 'some_00100'",
    "SELECT few, COUNT(*), SUM(raw_long), MIN(wide), MAX(wide) FROM warmup WHERE some = 'some_00007' GROUP BY few",
    "SELECT some, few, COUNT(*), SUM(wide), AVG(raw_long), MIN(wide), MAX(wide) FROM warmup GROUP BY some, few LIMIT 5",
    "SELECT few, SUM(wide) FROM warmup WHERE few > 'few_1' GROUP BY few",
    "SELECT COUNT(*) FROM warmup WHERE TEXT_MATCH(some, '\"some 00100\" OR some_0010*') AND some LIKE '%00100%'",
    "SELECT some, textScore(some, 'some_00100') AS score FROM warmup WHERE TEXT_MATCH(some, 'some_00100') ORDER BY 2 DESC",
    "SELECT COUNT(*) FROM warmup WHERE JSON_MATCH(doc, '\"$.a\" > 100 AND \"$.b\" <> ''few_2''')",
)


def warm_up(
    threads: int = 2,
    clock: Clock = SYSTEM_CLOCK,
    *,
    over_wire: bool = False,
    is_wanted: Callable[[], bool] = lambda: True,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """Run every warm-up query once, while `is_wanted` returns True; return the seconds that it took.

    over_wire: merge results as received from two other processes, like a broker: their arrays are read-only, for which
    kernels are compiled separately. tell: called with the numbers of finished and of all steps.
    """
    started_s = clock.monotonic_s()
    schema = Schema.from_json(_SCHEMA).value
    config = TableConfig.from_json(_CONFIG).value
    with tempfile.TemporaryDirectory(prefix="gamay-warmup-") as folder, WorkPool(threads) as pool:
        total = 3 + len(_QUERIES) + (not over_wire)
        tell(0, total)
        rows, sealed = _rows(schema), list[ImmutableSegment]()
        consuming = MutableSegment("warmup_consuming", schema, config, Path(folder), clock=clock)
        try:
            for number in range(_SEGMENTS):
                builder = SegmentBuilder(schema, config, f"warmup_{number}", Path(folder), clock=clock)
                builder.append(rows)
                sealed.append(open_segment(builder.build()))
            tell(1, total)
            _decode(rows, input_fields(schema, config))
            consuming.append(rows)
            segments: list[Segment] = [*sealed, consuming.view()]
            for done, sql in enumerate(_QUERIES, 2):
                if not is_wanted():
                    break
                tell(done, total)
                bound = bind(parse_query(sql), schema)
                parts = [[segment] for segment in segments] if over_wire else [segments]
                found = [execute(bound, part, pool, Deadline.after_ms(_LIMIT_MS, clock)) for part in parts]
                reduce(bound, [_sent(bound, result, clock) for result in found] if over_wire else found)
            tell(2 + len(_QUERIES), total)
            if not over_wire and is_wanted():  # a broker does not read star-trees
                sealed.append(_with_star_tree(rows, schema, Path(folder), clock))
                for sql in _TREE_QUERIES:
                    execute(bind(parse_query(sql), schema), sealed[-1:], pool, Deadline.after_ms(_LIMIT_MS, clock))
        finally:
            for segment in sealed:
                segment.close()
            consuming.close()
        if not over_wire:  # a broker has no keys
            tell(3 + len(_QUERIES), total)
            warm_up_keys(Path(folder), pool, clock, is_wanted)
        tell(total, total)
    return clock.monotonic_s() - started_s


def _with_star_tree(rows: pa.RecordBatch, schema: Schema, folder: Path, clock: Clock) -> ImmutableSegment:
    """Return a segment of the rows with a star-tree and a secondary index."""
    config = TableConfig.from_json(_TREES).value
    builder = SegmentBuilder(schema, config, "warmup_tree", folder, clock=clock)
    builder.append(rows)
    built = builder.build()
    add_star_trees(built, schema, config, clock)
    add_indexes(built, declared_indexes(config, schema), clock)
    return open_segment(built)


def _decode(rows: pa.RecordBatch, fields: InputFields) -> None:
    """Decode some rows as JSON messages, like consumers."""
    texts = [orjson.dumps(row, default=str) for row in rows.slice(0, _MESSAGES).to_pylist()]
    messages = MessageBatch(
        pa.array(texts, pa.binary()), pa.array(range(_MESSAGES)), np.zeros(_MESSAGES, np.int64), IntegerOffset(_MESSAGES)
    )
    keys = {"streamType": "log", "stream.log.topic.name": "warmup", "stream.log.decoder.class.name": "JSONMessageDecoder"}
    open_decoder(StreamConfig.parse(keys), fields).decode(messages)


def _sent(bound: BoundQuery, result: ServerResult, clock: Clock) -> ServerResult:
    """Return a result as received from another process."""
    return receive([memoryview(bytearray(buffer)) for buffer in encode_result(bound, result, ())]).result(bound, clock)


def _rows(schema: Schema) -> pa.RecordBatch:
    """Return a conformed batch whose columns have 5, 1,000 and `_ROWS` different values, among others."""
    row = np.arange(_ROWS)
    texts = {
        "few": pa.array([f"few_{i}" for i in range(5)]).take(pa.array(row % 5)),
        "some": pa.array([f"some_{i:05d}" for i in range(1000)]).take(pa.array(row * 7 % 1000)),
        "tags": pa.ListArray.from_arrays(
            pa.array(np.arange(_ROWS + 1, dtype=np.int32) * 2),
            pa.array([f"tag_{i}" for i in range(8)]).take(pa.array(np.arange(_ROWS * 2) % 8)),
        ),
    }
    texts["raw_text"] = pc.binary_join_element_wise("text", texts["some"], "")
    texts["doc"] = pa.array([f'{{"a": {number}, "b": "{text}"}}' for number, text in enumerate(texts["few"].to_pylist())])
    numbers = {
        "many": row,
        "small": row % 100,
        "medium": row % 1000,
        "wide": row / 3.0,
        "raw_int": row,
        "raw_long": row * 1_000_003,
        "raw_double": row / 7.0,
        "ts": row,
    }
    arrays = []
    for field in schema.stored_fields:
        wanted = arrow_type(field.data_type, field.single_value)
        arrays.append(texts[field.name] if field.name in texts else pa.array(numbers[field.name]).cast(wanted))
    return pa.RecordBatch.from_arrays(arrays, [field.name for field in schema.stored_fields])

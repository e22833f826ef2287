"""The choice of a cuboid is cached for the queries of a shape, no longer than its segment exists."""

import gc
from pathlib import Path
from weakref import ref

import pyarrow as pa

from gamay.base.clock import SYSTEM_CLOCK
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.bind.binder import bind
from gamay.query.bind.predicate import NOTHING, In
from gamay.query.prepared.lookup import PreparedLookup
from gamay.query.startree.build import add_star_trees
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}, {"name": "k", "dataType": "INT"}],
        "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    }
).value
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {
            "starTreeIndexConfigs": [
                {
                    "dimensionsSplitOrder": ["city", "k"],
                    "functionColumnPairs": ["SUM__n"],
                    "maxLeafRecords": 1,
                    "maxSizeRatio": 100,
                }
            ]
        },
    }
).value


def segment(folder: Path, name: str, cities: list[str]) -> ImmutableSegment:
    """Return a segment in which each city has ten rows of k = 0 to 4, and n = 1."""
    builder = SegmentBuilder(SCHEMA, CONFIG, name, folder, clock=SYSTEM_CLOCK)
    rows = {
        "city": [city for city in cities for _ in range(10)],
        "k": pa.array(list(range(5)) * 2 * len(cities), pa.int32()),
        "n": pa.array([1] * 10 * len(cities), pa.int64()),
    }
    names = [field.name for field in SCHEMA.stored_fields]
    builder.append(pa.RecordBatch.from_arrays([pa.array(rows[name]) for name in names], names))
    built = builder.build()
    add_star_trees(built, SCHEMA, CONFIG, SYSTEM_CLOCK)
    return open_segment(built)


def test_a_choice_goes_with_its_segment(tmp_path: Path) -> None:
    query = PreparedLookup.of(
        bind(parse_query("SELECT city, SUM(n) FROM t WHERE k = 1 GROUP BY city ORDER BY city"), SCHEMA)
    )
    assert query is not None
    first, other = segment(tmp_path, "a", ["x", "y"]), segment(tmp_path, "b", ["w", "y", "z"])
    for segments, expected in (
        ([first, other], [("w", 2.0), ("x", 2.0), ("y", 4.0), ("z", 2.0)]),
        ([first], [("x", 2.0), ("y", 2.0)]),
        ([other, first], [("w", 2.0), ("x", 2.0), ("y", 4.0), ("z", 2.0)]),
    ):
        for value, found in ((1, expected), (9, [])):
            answer = query.answer(In("k", (value,)), segments)
            assert answer is not None
            assert answer.table is not None
            assert answer.table.rows() == found
            assert answer.stats.num_docs_scanned == sum(row[1] for row in found) / 2
    nothing = query.answer(NOTHING, [first, other])
    assert nothing is None or (nothing.table is not None and nothing.table.rows() == [])
    gone, segments = ref(first), []
    first.close()
    del first
    gc.collect()
    assert gone() is None
    again = query.answer(In("k", (4,)), [other])
    assert again is not None
    assert again.table is not None
    assert again.table.rows() == [("w", 2.0), ("y", 2.0), ("z", 2.0)]

"""Columns with as many values as ids of one and two bytes can represent, one less and one more, and with nulls."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType as D
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

ON = "SET enableNullHandling=true; "
CARDINALITIES = (255, 256, 257, 65535, 65536, 65537)
FIELDS = (
    FieldSpec("n", D.LONG, default_null_value=0),
    FieldSpec("w", D.STRING, default_null_value="0"),
    FieldSpec("m", D.INT, single_value=False, default_null_value=0),
)
SCHEMA = Schema("t", FIELDS, enable_column_based_null_handling=True)


@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed"])
@pytest.mark.parametrize("cardinality", CARDINALITIES)
def test_values_and_nulls_of_full_ids(cardinality: int, indexed: bool, tmp_path: Path) -> None:
    count = cardinality + cardinality // 5 + 100
    rows = [None if i % 9 == 4 and i >= cardinality else i % cardinality for i in range(count)]
    words = [None if row is None else str(row) for row in rows]
    lists = [None if row is None else [row, (row + 1) % cardinality] for row in rows]
    names = tuple(field.name for field in FIELDS)
    config = TableConfig.offline(
        "t", indexing=IndexingConfig(null_handling_enabled=True, inverted_index_columns=names if indexed else ())
    )
    builder = SegmentBuilder(SCHEMA, config, "t_0", tmp_path)
    arrays = [pa.array(rows, pa.int64()), pa.array(words), pa.array(lists, pa.list_(pa.int32()))]
    builder.append(pa.RecordBatch.from_arrays(arrays, names=list(names)))
    segment = open_segment(builder.build())

    def ask(sql: str) -> list[tuple[Any, ...]]:
        bound = bind(parse_query(f"{ON}{sql} LIMIT 1000000"), SCHEMA)
        with WorkPool(1) as pool:
            table = reduce(bound, [execute(bound, [segment], pool, Deadline.after_ms(60_000, SYSTEM_CLOCK))]).table
        assert table is not None
        return table.rows()

    counts = Counter(rows)
    known = [row for row in rows if row is not None]
    assert dict(ask("SELECT n, count(*) FROM t GROUP BY n")) == counts
    assert dict(ask("SELECT n + 1, count(*) FROM t GROUP BY n + 1")) == {
        None if row is None else row + 1.0: times for row, times in counts.items()
    }
    assert dict(ask("SELECT concat(w, 'x'), count(*) FROM t GROUP BY concat(w, 'x')")) == {
        None if row is None else f"{row}x": times for row, times in counts.items()
    }
    every = Counter(value for values in lists for value in values or [None])
    assert dict(ask("SELECT m, count(*) FROM t GROUP BY m")) == every
    assert dict(ask("SELECT valueIn(m, 0, 1), count(*) FROM t GROUP BY valueIn(m, 0, 1)")) == {
        value: every[value] for value in (None, 0, 1)
    }
    assert ask("SELECT n * 2 FROM t") == [(None if row is None else row * 2.0,) for row in rows]
    assert ask("SELECT upper(w), n FROM t WHERE n IS NULL OR n < 2 ORDER BY n DESC") == sorted(
        ((None if row is None else str(row), row) for row in rows if row is None or row < 2),
        key=lambda pair: 2 if pair[1] is None else pair[1],
        reverse=True,
    )
    assert ask("SELECT sum(n * 2), count(upper(w)), min(n), distinctcount(w), countmv(m) FROM t") == [
        (sum(known) * 2.0, len(known), 0.0, cardinality, 2 * len(known))
    ]
    assert ask("SELECT count(*) FROM t WHERE n * 2 >= 0 AND length(w) > 0") == [(len(known),)]
    assert ask("SELECT count(*) FROM t WHERE NOT n * 2 > 10 OR w IS NULL") == [
        (sum(row is None or row <= 5 for row in rows),)
    ]

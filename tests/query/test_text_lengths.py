"""LENGTH of raw texts, whose lengths are stored separately: with non-ASCII texts, with nulls, and under filters."""

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

SCHEMA = Schema(
    "t",
    (FieldSpec("w", D.STRING, default_null_value="none"), FieldSpec("n", D.INT)),
    enable_column_based_null_handling=True,
)
ASCII = [None if i % 9 == 4 else "x" * (i % 300) for i in range(400)]
OTHERS = [None if i % 9 == 4 else "xé😀"[: i % 4] * (i % 50) for i in range(400)]


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("words", [ASCII, OTHERS, ASCII + OTHERS], ids=["ascii", "others", "both"])
def test_lengths(tmp_path: Path, words: list[str | None], nulls: bool) -> None:
    config = TableConfig.offline("t", indexing=IndexingConfig(null_handling_enabled=True, no_dictionary_columns=("w",)))
    builder = SegmentBuilder(SCHEMA, config, "t_0", tmp_path)
    builder.append(pa.RecordBatch.from_arrays([pa.array(words), pa.array(range(len(words)), pa.int32())], names=["w", "n"]))
    segment = open_segment(builder.build())

    def ask(sql: str) -> list[tuple[Any, ...]]:
        bound = bind(parse_query(f"SET enableNullHandling={str(nulls).lower()}; {sql} LIMIT 10000"), SCHEMA)
        with WorkPool(1) as pool:
            table = reduce(bound, [execute(bound, [segment], pool, Deadline.after_ms(60_000, SYSTEM_CLOCK))]).table
        assert table is not None
        return table.rows()

    texts = [word if word is not None or nulls else "none" for word in words]
    lengths = [None if text is None else units(text) for text in texts]
    in_bytes = [None if text is None else len(text.encode()) for text in texts]
    rows = range(len(words))
    assert ask("SELECT length(w) FROM t") == [(length,) for length in lengths]
    assert ask("SELECT w, octetLength(w), charLength(w) FROM t") == [
        (text, size, None if text is None else len(text)) for text, size in zip(texts, in_bytes, strict=True)
    ]
    for condition, kept in [
        ("n % 7 = 3", [i for i in rows if i % 7 == 3]),
        ("n % 90 = 3", [i for i in rows if i % 90 == 3]),
        ("length(w) > 20", [i for i in rows if lengths[i] is not None and lengths[i] > 20]),
    ]:
        assert ask(f"SELECT length(w) + 1, n FROM t WHERE {condition}") == [
            (None if lengths[i] is None else lengths[i] + 1.0, i) for i in kept
        ]
    known = [length for length in lengths if length is not None]
    assert ask("SELECT sum(length(w)), max(length(w)) FROM t") == [(sum(known), max(known))]

"""The predictions of `gamay admin realtime-provisioning`, compared with consuming and sealed segments of random tables.

    python -m benchmarks.provisioning [--rows 400000] [--seeds 8]

Each seed makes a table: columns of all types, with many values or few, drawn evenly or by Zipf's law, single- and
multi-value, raw with each codec or with a dictionary, ids packed or not, with nulls, in random order or in the order of
time, with inverted, range and Bloom indexes. Predicted is from made-up rows, given how many values each column has at all
and how many the real rows have; and from the first rows. Prints predicted over real bytes, and the worst.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import report
from gamay.functions.arrow import conformed_schema
from gamay.model.index.column_index import PACKED_PROPERTY
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.mutable import MutableSegment
from gamay.segment.mutable.sizing import Sizing
from gamay.server.provisioning.plan import Sample, measure
from gamay.server.provisioning.sample_rows import made_up_rows

ROWS, SEEDS, SAMPLES = 400_000, 8, (3_000, 10_000, 30_000)
CASES = (*map(str, range(SEEDS)), "the worst")
_KINDS = ("cardinalities", "of the rows", *(f"{rows:,} rows" for rows in SAMPLES))
SHAPES = {
    "provisioning: consuming": report.Shape(("table", "columns", "MB", *_KINDS), CASES),
    "provisioning: sealed": report.Shape(("table", "columns", "MB", *_KINDS), CASES),
}
_NOW_MS = 1_700_000_000_000
_TYPES = ("INT", "LONG", "FLOAT", "DOUBLE", "STRING", "BYTES", "TIMESTAMP", "BIG_DECIMAL", "BOOLEAN")
_CODECS = ("PASS_THROUGH", "LZ4", "ZSTANDARD", "SNAPPY", "GZIP")


@dataclass(frozen=True)
class Column:
    """How a column of a random table is drawn. skew: exponent of Zipf's law, 0 for values drawn evenly."""

    name: str
    data_type: str
    cardinality: int
    length: int
    per_row: int
    skew: float
    null_share: float


@dataclass(frozen=True)
class RandomTable:
    """A table with a time column `ts` behind columns of any kind."""

    columns: tuple[Column, ...]
    schema: Schema
    config: TableConfig
    tick_rows: int

    def rows(self, number: int, seed: int) -> pa.Table:
        """Return conformed rows."""
        rng = np.random.default_rng(seed)
        target = conformed_schema(self.schema)
        drawn = {column.name: _drawn(column, number, rng, target.field(column.name).type) for column in self.columns}
        drawn["ts"] = pa.array(_NOW_MS + np.arange(number) // self.tick_rows)
        return pa.Table.from_arrays([drawn[name] for name in target.names], schema=target)

    def characteristics(self, number: int) -> dict[str, dict[str, int]]:
        """Return the columns' characteristics in the form of a schema with metadata."""
        own = {
            column.name: {
                "cardinality": column.cardinality,
                "averageLength": column.length,
                "numValuesPerEntry": column.per_row,
            }
            for column in self.columns
        }
        return own | {"ts": {"cardinality": -(-number // self.tick_rows)}}


def random_table(seed: int) -> RandomTable:
    """Return the table of a seed."""
    rng = np.random.default_rng(seed)
    columns, specs, raw, indexes = [], [], [], dict[str, list[str]]()
    fields: list[dict[str, Any]] = []
    for number in range(int(rng.integers(3, 9))):
        data_type, name = str(rng.choice(_TYPES)), f"c{number}"
        cardinality = 2 if data_type == "BOOLEAN" else int(10 ** rng.uniform(0.5, 6))
        per_row = int(rng.integers(2, 6)) if data_type in ("INT", "LONG", "STRING") and rng.random() < 0.25 else 1
        skew = float(rng.choice((0, 0, 0.8, 1.1)))
        null_share = float(rng.choice((0, 0, 0.02, 0.3))) if per_row == 1 else 0.0
        columns.append(Column(name, data_type, cardinality, int(rng.integers(8, 40)), per_row, skew, null_share))
        specs.append({"name": name, "dataType": data_type} | ({"singleValueField": False} if per_row > 1 else {}))
        if rng.random() < 0.35:
            raw.append(name)
            codec = str(rng.choice(_CODECS))
            fields.append({"name": name, "encodingType": "RAW", "compressionCodec": codec})
        else:
            for index in ("invertedIndexColumns", "bloomFilterColumns", "rangeIndexColumns"):
                if rng.random() < 0.3 and not (data_type == "BOOLEAN" and index != "invertedIndexColumns"):
                    indexes.setdefault(index, []).append(name)
    schema = {
        "schemaName": "t",
        "dimensionFieldSpecs": specs,
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
        ],
    }
    indexing: dict[str, Any] = {"noDictionaryColumns": raw, "nullHandlingEnabled": True, "streamConfigs": {}, **indexes}
    indexing["optimizeDictionary"] = bool(rng.random() < 0.3)
    sortable = [column.name for column in columns if column.per_row == 1 and column.cardinality < 10_000]
    if sortable and rng.random() < 0.3:
        indexing["sortedColumn"] = sortable[:1]
    packed = [spec["name"] for spec in specs if spec["name"] not in raw and rng.random() < 0.2]
    fields += [{"name": name, "encodingType": "DICTIONARY", "properties": {PACKED_PROPERTY: "true"}} for name in packed]
    config = {
        "tableName": "t",
        "tableType": "REALTIME",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": indexing,
        "fieldConfigList": fields,
        "metadata": {},
    }
    tick_rows = int(10 ** rng.uniform(0, 3))
    return RandomTable(tuple(columns), Schema.from_json(schema).value, TableConfig.from_json(config).value, tick_rows)


def _drawn(column: Column, number: int, rng: np.random.Generator, arrow_type: pa.DataType) -> pa.Array:
    count = number * column.per_row
    if column.skew:
        weights = np.arange(1, column.cardinality + 1, dtype=np.float64) ** -column.skew
        ends = np.cumsum(weights)
        ids = np.searchsorted(ends, rng.random(count) * ends[-1])
        ids = rng.permutation(column.cardinality)[np.minimum(ids, column.cardinality - 1)]
    else:
        ids = rng.integers(0, column.cardinality, count)
    values = _values(column, ids)
    if column.per_row > 1:
        offsets = pa.array(np.arange(0, count + 1, column.per_row, dtype=np.int32))
        return pa.ListArray.from_arrays(offsets, values).cast(arrow_type)
    if column.null_share:
        values = pa.array(values.to_pylist(), values.type, mask=rng.random(number) < column.null_share)
    return values.cast(arrow_type)


def _values(column: Column, ids: "np.ndarray[Any, np.dtype[np.int64]]") -> pa.Array:
    if column.data_type == "BOOLEAN":
        return pa.array(ids % 2 == 1)
    if column.data_type in ("STRING", "BYTES", "BIG_DECIMAL"):
        width = 1 if column.data_type == "BIG_DECIMAL" else column.length
        texts = [f"{number:0{width}d}" for number in range(column.cardinality)]
        return pa.array(texts).take(pa.array(ids))
    kind = {"INT": np.int32, "FLOAT": np.float32, "DOUBLE": np.float64}.get(column.data_type, np.int64)
    return pa.array(ids.astype(kind))


def real_bytes(table: RandomTable, rows: pa.Table) -> tuple[int, int]:
    """Return the memory reserved by a consuming segment of the rows, and the size of the sealed one."""
    with tempfile.TemporaryDirectory(prefix="gamay-provisioning-") as folder:
        segment = MutableSegment("s", table.schema, table.config, Path(folder), Sizing(rows.num_rows))
        try:
            for batch in rows.combine_chunks().to_batches(5000):
                segment.append(batch)
            reserved = sum(use.reserved for parts in segment.memory().values() for use in parts.values())
            built = segment.seal(Path(folder) / "sealed", durable=False)
            return reserved, sum(path.stat().st_size for path in built.iterdir())
        finally:
            segment.close()


def predictions(table: RandomTable, rows: pa.Table, samples: tuple[int, ...]) -> Iterator[Sample]:
    """Yield the predictions from the true cardinalities, from those of the rows, and from each sample's rows."""
    own = table.characteristics(rows.num_rows)
    at_all = {name: known["cardinality"] for name, known in own.items()}
    made_up = made_up_rows(table.schema, own, 10_000, _NOW_MS)
    of_rows = {name: _distinct(rows[name]) for name in at_all}
    given = ((made_up, at_all), (made_up, of_rows))
    for sample, known in (*given, *((rows.slice(0, number), None) for number in samples)):
        with tempfile.TemporaryDirectory(prefix="gamay-provisioning-") as folder:
            yield measure(table.schema, table.config, sample, Path(folder), known)


def _distinct(column: pa.ChunkedArray) -> int:
    values = pc.list_flatten(column) if pa.types.is_list(column.type) else column
    return int(pc.count_distinct(values).as_py())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="of the segments that are predicted")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="tables")
    arguments = report.arguments_of(parser)
    cases = (*map(str, range(arguments.seeds)), CASES[-1])
    shapes = {name: report.Shape(shape.headings, cases) for name, shape in SHAPES.items()}
    reports = [report.Report(name, shape) for name, shape in shapes.items()]
    ratios: list[list[list[float]]] = [[], []]
    for seed in range(arguments.seeds):
        table = random_table(seed)
        rows = table.rows(arguments.rows, seed)
        real = real_bytes(table, rows)
        told = [
            (sample.consuming_bytes(rows.num_rows), sample.sealed_bytes(rows.num_rows))
            for sample in predictions(table, rows, SAMPLES)
        ]
        for kind, found in enumerate(reports):
            own = [prediction[kind] / real[kind] for prediction in told]
            ratios[kind].append(own)
            found.add(str(seed), str(len(table.columns) + 1), f"{real[kind] / 1e6:.1f}", *(f"{ratio:.2f}" for ratio in own))
    for kind, found in enumerate(reports):
        worst = (max(column, key=lambda ratio: abs(np.log(ratio))) for column in zip(*ratios[kind], strict=True))
        found.add(CASES[-1], "", "", *(f"{ratio:.2f}" for ratio in worst))
        found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()

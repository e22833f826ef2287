"""The process from which PySpark's workers are forked, with modules and kernels already loaded.

Importing NumPy, Arrow and the compiled kernels takes about a second, and so does loading the kernels that build a segment;
workers forked from this daemon inherit both. Local sessions set `spark.python.daemon.module` to it, since their executors
always have Gamay installed.
"""

import gc
import tempfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.daemon import manager

import gamay.spark.building.segments  # for workers that build
import gamay.spark.reading.scan  # noqa: F401 - for workers that read
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.write.builder import SegmentBuilder
from gamay.storage.archive import pack

_TYPES = ("INT", "LONG", "FLOAT", "DOUBLE", "STRING")


def load_kernels() -> None:
    """Load the kernels by building a small segment with columns of the usual types, and packing it."""
    fields: list[dict[str, object]] = [{"name": kind.lower(), "dataType": kind} for kind in _TYPES]
    fields += [{"name": "many", "dataType": "STRING", "singleValueField": False}]
    schema = Schema.from_json({"schemaName": "loaded", "dimensionFieldSpecs": fields}).value
    config = TableConfig.offline("loaded")
    numbers = [n % 7 for n in range(64)]
    columns = {kind.lower(): [str(n) for n in numbers] if kind == "STRING" else numbers for kind in _TYPES}
    with suppress(OSError), tempfile.TemporaryDirectory() as folder:  # workers then load them themselves, and report errors
        builder = SegmentBuilder(schema, config, "loaded", Path(folder))
        builder.append(Pipeline(schema, config).apply(pa.RecordBatch.from_pydict({**columns, "many": [["a", "b"]] * 64})))
        pack(builder.build(), Path(folder) / "loaded.tar.zst")


if __name__ == "__main__":
    load_kernels()
    gc.collect()
    gc.freeze()  # workers collect garbage after each task, and traversing the objects loaded here takes 0.1 s
    manager()

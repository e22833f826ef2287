"""`gamay.spark.dry_run`: the segments that a write would create, and their sizes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from gamay.base.ids import RANDOM_IDS
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.spark.building.target import ARCHIVE_SUFFIX
from gamay.spark.source_options import WriteOptions
from gamay.spark.writing.hidden import Announced
from gamay.spark.writing.layout import WriteLayout
from gamay.spark.writing.new_table import new_documents
from gamay.spark.writing.segment_writer import TaskWriter
from gamay.spark.writing.sink import HiddenJob, read_documents
from gamay.storage.archive import ZSTD_LEVEL_JOBS, pack

_COLUMNS = "segment STRING, rows BIGINT, bytes BIGINT, archiveBytes BIGINT"


def dry_run(frame: Any, controller: str, table: str, **options: str) -> Any:
    """Return a DataFrame of the segments that a write would create: `segment`, `rows`, `bytes`, `archiveBytes`.

    Executors build and delete the segments when it is evaluated; nothing is uploaded, and no table is created. bytes: on a
    server's disk. archiveBytes: in the deep store. options: of a write in the format `gamay`.
    Raises InvalidConfigError, NotFoundError for an unknown table unless it is to be created, and the errors of
    `HttpService.request`.
    """
    wanted = WriteOptions.of({"controller": controller, "table": table, **options}, RANDOM_IDS.new)
    with wanted.cluster.client() as client:
        if wanted.create_table and wanted.cluster.table not in client.list_tables():
            schema, config = new_documents(wanted, to_arrow_schema(frame.schema, timezone="UTC"))
            WriteLayout.of(wanted, schema, config)
        else:
            schema, config = read_documents(client, wanted)
    return frame.mapInArrow(_builder(wanted, orjson.dumps(schema.to_json()), orjson.dumps(config.to_json())), _COLUMNS)


def _builder(
    options: WriteOptions, schema_json: bytes, config_json: bytes
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        schema = Schema.from_json(orjson.loads(schema_json)).value
        config = TableConfig.from_json(orjson.loads(config_json)).value
        sizes: dict[str, tuple[int, int]] = {}

        def measure(folder: Path, name: str, num_docs: int) -> Announced:
            archive = pack(folder, folder.with_name(f"{name}{ARCHIVE_SUFFIX}"), ZSTD_LEVEL_JOBS)
            sizes[name] = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()), archive.stat().st_size
            return Announced(name, "", num_docs, sizes[name][1])

        context: Any = TaskContext.get()
        job = HiddenJob(options.cluster.table, options.table_type, options.job_id)
        prefix = f"{job.prefix}{context.partitionId():05d}_0"
        for one in TaskWriter(options, schema, config, measure, prefix).write(batches):
            size, archive_size = sizes.pop(one.name)
            row = {"segment": one.name, "rows": one.num_docs, "bytes": size, "archiveBytes": archive_size}
            yield pa.RecordBatch.from_pylist([row])

    return build

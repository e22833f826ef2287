"""What users hand over as data, as rows for a table."""

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.ingest.infer import infer_file_schema, infer_schema
from gamay.ingest.pipeline import Pipeline
from gamay.ingest.readers import format_of, open_reader
from gamay.ingest.run import conformed_batches
from gamay.model.schema import Schema

_BATCH_ROWS = 1 << 18
_CANNOT = "cannot read rows from"
_EXPECTED = (
    "give an Arrow table or reader, a pandas or Polars DataFrame, or paths or globs of csv, json, parquet, avro or orc files"
)


@dataclass(frozen=True, slots=True)
class Source:
    """Rows that can be read once.

    infer: returns a schema of the given name for them. rows: yields conformed batches, made by a table's pipeline.
    """

    infer: Callable[[str], Schema]
    rows: Callable[[Pipeline], Iterator[pa.RecordBatch]]


def open_source(data: Any) -> Source:
    """Return the rows of an Arrow table, batch or reader, a pandas or Polars DataFrame, or of files by paths or globs.

    Raises NotFoundError when there is no such file, InvalidConfigError for anything else.
    """
    if isinstance(data, str | os.PathLike):
        return _files([os.fspath(data)])
    if isinstance(data, list | tuple):
        if not data or not all(isinstance(path, str | os.PathLike) for path in data):
            raise InvalidConfigError(f"{_CANNOT} a list that is empty or holds other things than paths: {_EXPECTED}")
        return _files([os.fspath(path) for path in data])
    if _is_lazy_frame(data):
        data = data.collect()
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif type(data).__module__.partition(".")[0] == "pandas":
        # pandas keeps texts and missing values in forms of its own, which only this conversion understands
        data = pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, pa.Table):
        return _arrow(data.schema, data.to_batches(max_chunksize=_BATCH_ROWS))
    if hasattr(data, "__arrow_c_stream__"):
        reader = data if isinstance(data, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(data)
        return _arrow(reader.schema, reader)
    raise InvalidConfigError(f"{_CANNOT} {type(data).__name__}: {_EXPECTED}")


def _is_lazy_frame(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "polars" and type(data).__name__ == "LazyFrame"


def _arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Source:
    def rows(pipeline: Pipeline) -> Iterator[pa.RecordBatch]:
        pipeline.check_columns(schema.names)
        for batch in batches:
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield pipeline.apply(batch.slice(start, _BATCH_ROWS))

    return Source(lambda name: infer_schema(name, schema), rows)


def _files(patterns: Sequence[str]) -> Source:
    paths = [path for pattern in patterns for path in ([pattern] if "://" in pattern else _expand(pattern))]

    def rows(pipeline: Pipeline) -> Iterator[pa.RecordBatch]:
        for path in paths:
            yield from conformed_batches(open_reader(path, format_of(path)), pipeline)

    return Source(lambda name: infer_file_schema(name, paths[0], format_of(paths[0])), rows)


def _expand(pattern: str) -> list[str]:
    path = Path(pattern).expanduser()
    if path.is_dir():
        found = sorted(str(p) for p in path.rglob("*") if p.is_file() and not p.name.startswith((".", "_")))
    else:
        found = [str(path)] if path.is_file() else sorted(glob.glob(str(path), recursive=True))
    if not found:
        raise NotFoundError(f"there is no file '{pattern}'")
    return found

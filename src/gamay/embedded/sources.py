"""What users hand over as data, as Arrow batches."""

import glob
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gamay.base.errors import InvalidConfigError, NotFoundError


@dataclass(frozen=True, slots=True)
class Source:
    """Rows that can be read, with what is known of their form beforehand.

    schema: of all batches; for files, of the first batch. batches: begins anew with each call, except for a record batch
    reader, which can be read once.
    """

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]


def open_source(data: Any) -> Source:
    """Return the rows of an Arrow table, batch or reader, a pandas or Polars DataFrame, or of files by path or glob.

    Raises NotFoundError when there is no such file, InvalidConfigError for anything else.
    """
    if isinstance(data, str | os.PathLike):
        return _files(os.fspath(data))
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if type(data).__module__.partition(".")[0] == "pandas":
        # pandas keeps texts and missing values in forms of its own, which only this conversion understands
        data = pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, pa.Table):
        table = data
        return Source(table.schema, lambda: iter(table.to_batches()))
    if not isinstance(data, pa.RecordBatchReader) and hasattr(data, "__arrow_c_stream__"):
        exporter = data
        schema = pa.RecordBatchReader.from_stream(exporter).schema
        return Source(schema, lambda: iter(pa.RecordBatchReader.from_stream(exporter)))
    if isinstance(data, pa.RecordBatchReader):
        reader = data
        return Source(reader.schema, lambda: iter(reader))
    raise InvalidConfigError(
        f"cannot read rows from {type(data).__name__}: give an Arrow table or reader, a pandas or Polars DataFrame, "
        "or a path or glob of csv, json, parquet, avro or orc files"
    )


def _files(pattern: str) -> Source:
    from gamay.ingest.readers import format_of, open_reader

    paths = [pattern] if "://" in pattern else _expand(pattern)
    first = next(iter(open_reader(paths[0], format_of(paths[0]))), None)
    if first is None:
        raise InvalidConfigError(f"'{paths[0]}' holds no rows, so the columns cannot be told from it")

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            yield from open_reader(path, format_of(path))

    return Source(first.schema, batches)


def _expand(pattern: str) -> list[str]:
    if Path(pattern).is_dir():
        found = sorted(
            str(path) for path in Path(pattern).rglob("*") if path.is_file() and not path.name.startswith((".", "_"))
        )
    else:
        found = [pattern] if Path(pattern).is_file() else sorted(glob.glob(pattern, recursive=True))
    if not found:
        raise NotFoundError(f"there is no file '{pattern}'")
    return found

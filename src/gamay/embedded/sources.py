"""Conversion of users' data to rows for a table; warns of what a table cannot store."""

import glob
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from gamay.base.errors import InvalidConfigError, NotFoundError, nearest
from gamay.base.telling import tell
from gamay.ingest.infer import check_kept, infer_file_schema, infer_schema, sources_of
from gamay.ingest.read.readers import format_of, open_reader
from gamay.ingest.read.records import RecordReader
from gamay.ingest.run import conformed_batches
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.datetime_format import TIMESTAMP_FORMAT
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema

_BATCH_ROWS = 1 << 18
_CANNOT = "cannot read rows from"
_EXPECTED = (
    "give an Arrow table or reader, a pandas or Polars DataFrame, a dict of columns, a list of dicts, a NumPy array with "
    "named fields, or paths or globs of csv, json, parquet, avro or orc files"
)


@dataclass(frozen=True, slots=True)
class Source:
    """Rows that can be read once.

    infer: returns a schema of the given name for them, with the given time column, if any. rows: yields batches in the
    schema's types, made by a table's pipeline. type_of: returns the type of a column in the data, None if it has none.
    """

    infer: Callable[[str, str | None], Schema]
    rows: Callable[[Pipeline], Iterator[pa.RecordBatch]]
    type_of: Callable[[str], pa.DataType | None] = lambda name: None

    def tell_of_time(self, field: FieldSpec) -> None:
        """Warn how an inferred time column is interpreted, where the type of its values does not determine it."""
        if not pa.types.is_temporal(self.type_of(field.name) or pa.null()):
            written = (
                "" if field.format is None or field.format == TIMESTAMP_FORMAT else f" of the format {field.format.text}"
            )
            tell(
                f"the time column '{field.name}' is taken for {field.data_type.value}{written}; if that is wrong, give a "
                "schema that says what it is"
            )


def open_source(data: Any, reader: Mapping[str, Any] | None = None) -> Source:
    """Return the rows of data in memory, or of files by paths or globs; see `Database.append`.

    reader: options for reading files, the keys of `recordReaderSpec.configs`.
    Raises NotFoundError for a missing file, InvalidConfigError for unsupported data.
    """
    if isinstance(data, str | os.PathLike):
        return _files([os.fspath(data)], reader)
    if isinstance(data, list | tuple) and data and all(isinstance(path, str | os.PathLike) for path in data):
        return _files([os.fspath(path) for path in data], reader)
    if reader is not None:
        raise InvalidConfigError(f"reader={dict(reader)} is how files are read; the data is a {type(data).__name__}")
    module = type(data).__module__.partition(".")[0]
    if module == "polars" and type(data).__name__ == "LazyFrame":
        data = data.collect()
    if module == "pandas" and type(data).__name__ == "DataFrame":
        data = _of_pandas(data)
    elif isinstance(data, list | tuple):
        data = _of_dicts(data)
    elif isinstance(data, Mapping):
        data = _of_columns(data)
    elif module == "numpy":
        data = _of_numpy(data)
    return _of_arrow(data)


# -- data in memory


def _of_arrow(data: Any) -> Source:
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _batches(data.schema, data.to_batches(max_chunksize=_BATCH_ROWS))
    try:
        if isinstance(data, pa.RecordBatchReader):
            return _batches(data.schema, data)
        if hasattr(data, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(data)
            return _batches(reader.schema, reader)
        if hasattr(data, "__arrow_c_array__"):
            return _of_arrow(pa.record_batch(data))
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InvalidConfigError(
            f"{_CANNOT} {type(data).__name__}, which is not a table ({error}); a series becomes one with to_frame()"
        ) from error
    hint = "; a series becomes a table with to_frame()" if type(data).__name__ == "Series" else ""
    raise InvalidConfigError(f"{_CANNOT} {type(data).__name__}{hint}: {_EXPECTED}")


def _of_pandas(frame: Any) -> pa.Table:
    """Convert a pandas DataFrame; its own representations of strings and missing values need pandas' conversion."""
    names = [name for name in frame.index.names if name is not None]
    if names or frame.index.dtype.kind not in "iu":
        shown = f"index ({', '.join(map(str, names))})" if names else f"index (of {frame.index.dtype})"
        tell(f"the {shown} of the DataFrame is not stored; reset_index() makes it a column, reset_index(drop=True) drops it")
    arrays: dict[str, Any] = {}
    _check_distinct([str(name) for name in frame.columns])
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        try:
            arrays[str(name)] = pa.Array.from_pandas(column)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _unreadable(str(name), str(column.dtype), error) from error
    return pa.table(arrays)


def _of_dicts(rows: Sequence[Any]) -> pa.Table:
    """Return a list of dicts as a table with all their keys; missing values are null."""
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        kinds = ", ".join(sorted({type(row).__name__ for row in rows})) or "nothing"
        raise InvalidConfigError(f"{_CANNOT} a list of {kinds}, which has no names of columns: {_EXPECTED}")
    names = dict.fromkeys(name for row in rows for name in row)
    return _of_columns({name: [row.get(name) for row in rows] for name in names})


def _of_columns(columns: Mapping[Any, Any]) -> pa.Table:
    """Return columns by name as a table."""
    if not columns:
        raise InvalidConfigError(f"{_CANNOT} an empty dict: {_EXPECTED}")
    arrays = {}
    for name, values in columns.items():
        if not isinstance(name, str):
            raise InvalidConfigError(f"{_CANNOT} a dict with the key {name!r}: the names of columns are texts")
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise InvalidConfigError(
                f"{_CANNOT} a dict whose '{name}' is of type {type(values).__name__}: each column is a list or an array"
            )
        arrays[name] = _column(name, values)
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InvalidConfigError(f"{_CANNOT} a dict of columns that are not equally long ({shown})")
    return pa.table(arrays)


def _column(name: str, values: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if getattr(values, "ndim", 1) == 2:
            values = list(values)
        if hasattr(values, "mask") and hasattr(values, "data"):  # a masked array of NumPy
            numpy = sys.modules["numpy"]
            return pa.array(values.data, mask=numpy.ma.getmaskarray(values))
        return pa.array(values, from_pandas=type(values).__module__.startswith("pandas"))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _unreadable(name, str(getattr(values, "dtype", type(values).__name__)), error) from error


def _of_numpy(array: Any) -> pa.Table:
    names = getattr(getattr(array, "dtype", None), "names", None)
    if not names:
        raise InvalidConfigError(
            f"{_CANNOT} a NumPy array without named fields: give a dict of its columns, such as "
            "{'x': array[:, 0], 'y': array[:, 1]}"
        )
    return _of_columns({name: array[name] for name in names})


def _unreadable(name: str, kind: str, error: Exception) -> InvalidConfigError:
    return InvalidConfigError(
        f"column '{name}' ({kind}) has no type that a table could have: {error}. Values of one type are needed; "
        "text does for all, with .astype(str) of pandas and NumPy"
    )


def _check_distinct(names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InvalidConfigError(f"{_CANNOT} data in which the column '{name}' occurs twice: rename one")


def _batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Source:
    _check_distinct(schema.names)
    waiting = iter(batches)
    first = next(waiting, None)  # an inferred time column depends on its values
    whole = waiting if first is None else chain([first], waiting)

    def infer(name: str, time_column: str | None) -> Schema:
        source = sources_of(schema.names).get(time_column or "")
        sample = None if source is None or first is None else pa.chunked_array([first.column(source)])
        return _with_names_told(infer_schema(name, schema, time_column, sample))

    def rows(pipeline: Pipeline) -> Iterator[pa.RecordBatch]:
        pipeline.check_columns(schema.names)
        for field in schema:
            check_kept(field.name, field.type)
        _tell_left_out(pipeline, schema.names)
        fine = [f.name for f in schema if pa.types.is_timestamp(f.type) and f.type.unit in ("us", "ns")]
        cut: set[str] = set()
        for batch in whole:
            cut.update(name for name in fine if name not in cut and _is_cut(batch.column(name)))
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield pipeline.apply(batch.slice(start, _BATCH_ROWS))
        if cut:
            tell(f"the times of column '{min(cut)}' are cut to milliseconds; a LONG column keeps what is finer")
        _tell_trimmed(pipeline)

    def type_of(name: str) -> pa.DataType | None:
        return schema.field(name).type if name in schema.names else None

    return Source(infer, rows, type_of)


def _with_names_told(schema: Schema) -> Schema:
    renamed = [f"{spec.transform_function} is '{spec.name}'" for spec in schema.fields if spec.transform_function]
    if renamed:
        tell(f"names of columns have neither spaces nor a leading $, so that {', '.join(renamed)}")
    return schema


def _is_cut(times: pa.Array) -> bool:
    """Whether a column has times finer than milliseconds."""
    per_ms = 1_000 if times.type.unit == "us" else 1_000_000
    counts = times.cast(pa.int64()).drop_null().to_numpy(zero_copy_only=False)
    return bool((counts % per_ms).any())


# -- files


def _files(patterns: Sequence[str], config: Mapping[str, Any] | None) -> Source:
    paths = [path for pattern in patterns for path in ([pattern] if "://" in pattern else _expand(pattern))]

    def infer(name: str, time_column: str | None) -> Schema:
        return _with_names_told(infer_file_schema(name, paths[0], format_of(paths[0]), config, time_column))

    def rows(pipeline: Pipeline) -> Iterator[pa.RecordBatch]:
        told: set[str] = set()
        for path in paths:
            reader = _Telling(open_reader(path, format_of(path), config), pipeline, told)
            yield from conformed_batches(reader, pipeline)
        _tell_trimmed(pipeline)

    return Source(infer, rows)


class _Telling:
    """A record reader that warns of skipped columns, once for each."""

    def __init__(self, reader: RecordReader, pipeline: Pipeline, told: set[str]) -> None:
        self._reader, self._pipeline, self._told = reader, pipeline, told
        self.file = reader.file
        self.position = reader.position

    @property
    def errors(self) -> Any:
        return self._reader.errors

    @property
    def num_errors(self) -> int:
        return self._reader.num_errors

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            names = [name for name in batch.schema.names if name not in self._told]
            if names:
                self._told.update(names)
                self._pipeline.check_columns(batch.schema.names, self.file)
                _tell_left_out(self._pipeline, names)
            yield batch


def _expand(pattern: str) -> list[str]:
    path = Path(pattern).expanduser()
    if path.is_dir():
        found = sorted(str(p) for p in path.rglob("*") if p.is_file() and not p.name.startswith((".", "_")))
    else:
        found = [str(path)] if path.is_file() else sorted(glob.glob(str(path), recursive=True))
    if not found:
        raise NotFoundError(f"there is no file '{pattern}'")
    return found


# -- warnings


def _tell_left_out(pipeline: Pipeline, names: Sequence[str]) -> None:
    left_out = pipeline.left_out(names)
    if not left_out:
        return
    known = [field.name for field in pipeline.schema.stored_fields]
    columns = "column" if len(left_out) == 1 else "columns"
    tell(
        f"table '{pipeline.schema.name}' has no {columns} {', '.join(left_out)}, which the data have: left out. "
        f"The table has {', '.join(known)}.{nearest(left_out[0], known)}"
    )


def _tell_trimmed(pipeline: Pipeline) -> None:
    if pipeline.stats.values_trimmed:
        tell(
            f"{pipeline.stats.values_trimmed} values are longer than the maxLength of their column, 512 characters unless "
            "the schema says otherwise, or have a character NUL; they are cut there"
        )

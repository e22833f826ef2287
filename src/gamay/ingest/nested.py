"""Nested input made flat, as `complexTypeConfig` says: objects become columns, lists become rows, the rest JSON text."""

from collections.abc import Container
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import RecordError
from gamay.ingest.arrays import is_json_text, plain
from gamay.ingest.convert_text import nested_to_json
from gamay.ingest.rows import Rows
from gamay.model.table_config import ComplexTypeConfig


def flatten(rows: Rows, config: ComplexTypeConfig, wanted: Container[str] = ()) -> Rows:
    """Return the rows with `a: {b: 1}` as column `a.b`, and one row for each element of the lists to unnest.

    wanted: the names of columns that stay as JSON text beside what they hold, when they are objects.
    A row whose list is empty or missing stays. Raises RecordError when a renamed prefix meets an existing column.
    """
    _expand_objects(rows, config.delimiter, wanted)
    for path in sorted(config.fields_to_unnest, key=lambda p: p.count(config.delimiter)):
        column = rows.columns.get(path)
        if column is not None and pa.types.is_list(column.type):
            rows = _unnest(rows, path)
            _expand_objects(rows, config.delimiter, wanted)
    _write_collections(rows, config.collection_not_unnested_to_json)
    for prefix, replacement in config.prefixes_to_rename.items():
        _rename(rows, prefix, replacement)
    return rows


def _expand_objects(rows: Rows, delimiter: str, wanted: Container[str]) -> None:
    pending = list(rows.columns)
    while pending:
        name = pending.pop()
        given = rows.columns[name]
        column = _as_nested(given)
        if not pa.types.is_struct(column.type):
            rows.put(name, column)
            continue
        if name in wanted:  # as plain text, which is not taken apart again
            rows.put(name, given.storage if is_json_text(given.type) else nested_to_json(column))
        else:
            del rows.columns[name]
        for field, child in zip(column.type, column.flatten(), strict=True):
            child_name = f"{name}{delimiter}{field.name}"
            rows.put(child_name, child)
            pending.append(child_name)


def _as_nested(column: pa.Array) -> pa.Array:
    """Return JSON text as Arrow's nested types where its values have one shape, maps as structs; others unchanged."""
    if pa.types.is_map(column.type):
        values = column.to_pylist(maps_as_pydicts="strict")
    elif is_json_text(column.type):
        values = [None if text is None else orjson.loads(text) for text in column.storage.to_pylist()]
    else:
        return plain(column)
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return column


def _unnest(rows: Rows, path: str) -> Rows:
    column = rows.columns[path]
    lengths = np.asarray(pc.list_value_length(column).fill_null(0))
    parents = np.repeat(np.arange(rows.num_rows, dtype=np.int64), np.maximum(lengths, 1))
    has_value = np.repeat(lengths > 0, np.maximum(lengths, 1))
    element = np.cumsum(has_value) - 1
    values = pc.list_flatten(column)
    del rows.columns[path]
    unnested = rows.take(parents)
    unnested.put(path, values.take(pa.array(element, mask=~has_value)))
    return unnested


def _write_collections(rows: Rows, which: str) -> None:
    for name, column in list(rows.columns.items()):
        if pa.types.is_list(column.type) and which != "NONE":
            is_primitive = not pa.types.is_nested(column.type.value_type)
            if which == "ALL" or not is_primitive:
                rows.put(name, pa.ExtensionArray.from_storage(pa.json_(), nested_to_json(column)))


def _rename(rows: Rows, prefix: str, replacement: str) -> None:
    for name in [n for n in rows.columns if n.startswith(prefix)]:
        renamed = replacement + name[len(prefix) :]
        if renamed in rows.columns:
            raise RecordError(f"renaming '{name}' to '{renamed}' (prefixesToRename) meets a column of that name")
        column: Any = rows.columns.pop(name)
        rows.put(renamed, column)

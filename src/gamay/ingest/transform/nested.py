"""Flattening of nested input by `complexTypeConfig`: objects become columns, lists become rows, the rest JSON text.

Columns with nested Arrow types (structs, lists) are flattened as columns. JSON text is parsed and flattened value by value,
since the result for one value must not depend on the shapes of the others in its batch.
"""

from collections.abc import Container
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import RecordError
from gamay.ingest.convert.arrays import is_json_text, plain
from gamay.ingest.convert.objects import json_text, read_json
from gamay.ingest.convert.texts import nested_to_json
from gamay.ingest.convert.typed import typed_column
from gamay.ingest.transform.rows import Rows
from gamay.model.schema.schema import Schema
from gamay.model.table.ingestion import ComplexTypeConfig
from gamay.model.types import DataType

_NO_COLUMNS: Container[str] = ()


def flatten(rows: Rows, config: ComplexTypeConfig, schema: Schema | None = None) -> Rows:
    """Return the rows with `a: {b: 1}` as column `a.b`, and one row per element of the lists to unnest.

    schema: objects that are columns of the schema are also kept as JSON text.
    A row with an empty or missing list is kept. Raises RecordError if a renamed column conflicts with an existing value.
    """
    return _Flattening(rows, config, schema).result()


class _Flattening:
    """A flattening in progress. `_read` holds parsed JSON text as Python values by column; other columns stay in Arrow."""

    def __init__(self, rows: Rows, config: ComplexTypeConfig, schema: Schema | None) -> None:
        self._rows, self._config, self._schema = rows, config, schema
        self._wanted: Container[str] = _NO_COLUMNS if schema is None else schema
        self._read: dict[str, list[Any]] = {}
        for name, column in list(rows.columns.items()):
            if is_json_text(column.type) or (pa.types.is_floating(column.type) and self._is_json(name)):
                self._read[name] = _values(rows.columns.pop(name))
                rows.typed.pop(name, None)

    def result(self) -> Rows:
        config = self._config
        self._expand()
        for path in sorted(config.fields_to_unnest, key=lambda p: p.count(config.delimiter)):
            self._unnest(path)
            self._expand()
        self._write_collections()
        for prefix, replacement in config.prefixes_to_rename.items():
            for name in [n for n in chain(self._rows.columns, self._read) if n.startswith(prefix)]:
                self._rename(name, replacement + name[len(prefix) :])
        for name, values in self._read.items():
            self._rows.put(name, self._typed(name, values))
        return self._rows

    # objects

    def _expand(self) -> None:
        self._expand_structs()
        pending = [name for name, values in self._read.items() if _has_objects(values)]
        while pending:
            name = pending.pop()
            values = self._read[name]
            for key in dict.fromkeys(chain.from_iterable(v for v in values if isinstance(v, dict))):
                child = f"{name}{self._config.delimiter}{key}"
                found = [v.get(key) if isinstance(v, dict) else None for v in values]
                self._read[child] = self._above(child, found)
                if _has_objects(found):
                    pending.append(child)
            if name in self._wanted:  # as text, which is not flattened again
                self._read[name] = [json_text(v) if isinstance(v, dict) else v for v in values]
            else:
                self._put_rest(name, [None if isinstance(v, dict) else v for v in values])

    def _above(self, name: str, values: list[Any]) -> list[Any]:
        """Return the values, with nulls filled from an existing column of that name, which is removed."""
        known = self._taken(name)
        return values if known is None else [b if v is None else v for v, b in zip(values, known, strict=True)]

    def _taken(self, name: str) -> list[Any] | None:
        """Remove a column and return its values, or None if there is no such column."""
        column = self._rows.columns.pop(name, None)
        self._rows.typed.pop(name, None)
        return self._read.pop(name, None) if column is None else plain(column).to_pylist()

    def _put_rest(self, name: str, values: list[Any]) -> None:
        """Keep the values of a column that are not objects; remove the column if there are none."""
        if any(value is not None for value in values):
            self._read[name] = values
        else:
            del self._read[name]

    def _expand_structs(self) -> None:
        pending = list(self._rows.columns)
        while pending:
            name = pending.pop()
            column = _without_maps(self._rows.columns[name])
            if not pa.types.is_struct(column.type):
                self._rows.put(name, column)
                continue
            if name in self._wanted:
                self._rows.put(name, nested_to_json(column))
            else:
                del self._rows.columns[name]
            for field, child in zip(column.type, column.flatten(), strict=True):
                child_name = f"{name}{self._config.delimiter}{field.name}"
                self._rows.put(child_name, child)
                pending.append(child_name)

    # lists

    def _unnest(self, path: str) -> None:
        if path in self._read:
            values = self._read[path]
            lengths = np.array([len(v) if isinstance(v, list) else 1 for v in values], np.int64)
            elements = [v if isinstance(v, list) and v else [None if isinstance(v, list) else v] for v in values]
            self._repeat(np.maximum(lengths, 1))
            self._read[path] = list(chain.from_iterable(elements))
            return
        column = self._rows.columns.get(path)
        if column is None or not pa.types.is_list(column.type):
            return
        lengths = np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)
        repeats = np.maximum(lengths, 1)
        has_value = np.repeat(lengths > 0, repeats)
        element = np.cumsum(has_value) - 1
        values_of = pc.list_flatten(column)
        del self._rows.columns[path]
        self._repeat(repeats)
        self._rows.put(path, values_of.take(pa.array(element, mask=~has_value)))

    def _repeat(self, repeats: "npt.NDArray[np.int64]") -> None:
        parents = np.repeat(np.arange(self._rows.num_rows, dtype=np.int64), repeats)
        self._rows = self._rows.take(parents)
        places = parents.tolist()
        self._read = {name: [values[at] for at in places] for name, values in self._read.items()}

    def _write_collections(self) -> None:
        which = self._config.collection_not_unnested_to_json
        if which == "NONE":
            return
        for name, column in list(self._rows.columns.items()):
            if pa.types.is_list(column.type) and (which == "ALL" or pa.types.is_nested(column.type.value_type)):
                self._rows.put(name, pa.ExtensionArray.from_storage(pa.json_(), nested_to_json(column)))
        for name, values in self._read.items():
            self._read[name] = [json_text(v) if _is_written(v, which) else v for v in values]

    # names and types

    def _rename(self, name: str, renamed: str) -> None:
        if name in self._rows.columns and renamed not in self._rows.columns and renamed not in self._read:
            column = self._rows.columns[name]
            del self._rows.columns[name]
            self._rows.put(renamed, column)
            return
        values, known = self._taken(name) or [], self._taken(renamed)
        if known is not None:
            if any(v is not None and k is not None for v, k in zip(values, known, strict=True)):
                raise RecordError(f"renaming '{name}' to '{renamed}' (prefixesToRename) meets a column of that name")
            values = [k if v is None else v for v, k in zip(values, known, strict=True)]
        self._read[renamed] = values

    def _is_json(self, name: str) -> bool:
        return self._schema is not None and name in self._schema and self._schema.field(name).data_type is DataType.JSON

    def _typed(self, name: str, values: list[Any]) -> pa.Array:
        if self._schema is None or name not in self._schema:
            return typed_column(values, None, multi_value=False)
        spec = self._schema.field(name)
        return typed_column(values, spec.data_type, multi_value=not spec.single_value)


def _values(column: pa.Array) -> list[Any]:
    is_text = is_json_text(column.type)
    values: list[Any] = (column.storage if is_text else column).to_pylist()
    return [None if text is None else read_json(text.encode()) for text in values] if is_text else values


def _has_objects(values: list[Any]) -> bool:
    return any(isinstance(value, dict) for value in values)


def _is_written(value: Any, which: str) -> bool:
    """Whether a list is written as JSON text."""
    return isinstance(value, list) and (which == "ALL" or any(isinstance(item, dict | list) for item in value))


def _without_maps(column: pa.Array) -> pa.Array:
    """Return a map column as structs if possible, and other columns in plain form."""
    if pa.types.is_map(column.type):
        try:
            return pa.array(column.to_pylist(maps_as_pydicts="strict"))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return column
    return plain(column)

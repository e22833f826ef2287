"""PARTIAL upsert: a row is merged with the row that it replaces, by a strategy for each column.

| strategy        | both have a value           | the new one is null | the old one is null |
| --------------- | --------------------------- | ------------------- | ------------------- |
| OVERWRITE       | the new                     | the old             | the new             |
| IGNORE          | the old                     | the old             | the new             |
| INCREMENT       | their sum                   | the old             | the new             |
| APPEND          | old values, then new ones   | the old             | the new             |
| UNION           | all values once, ascending  | the old             | the new             |
| MAX, MIN        | the greater, the smaller    | the old             | the new             |
| FORCE_OVERWRITE | the new                     | null                | the new             |

A batch is merged by column; later rows of a key in it see the results of earlier ones.
A sum out of the type's range is clamped to the greatest or smallest value of the type, and counted.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.arrays import Array
from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import arrow_scalar, arrow_type
from gamay.functions.vector import Vector
from gamay.kernels.keys import merging as kernels
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.ingestion import UpsertConfig
from gamay.model.types import DataType
from gamay.segment.encode.storage_form import from_arrow
from gamay.segment.spi import Segment
from gamay.upsert.index.comparing import ordered

Stored: TypeAlias = "Sequence[tuple[Segment, np.ndarray[Any, np.dtype[np.int32]]]]"
Transform: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]

_CHOICES = {
    "OVERWRITE": kernels.OVERWRITE,
    "IGNORE": kernels.IGNORE,
    "MAX": kernels.MAX,
    "MIN": kernels.MIN,
    "FORCE_OVERWRITE": kernels.FORCE_OVERWRITE,
}


class RejectedRowsError(Exception):
    """Some rows of a batch cannot be merged. reasons: by row."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(f"{len(reasons)} rows cannot be merged")
        self.reasons = reasons


class RowMerger(Protocol):
    """A user's class, the value of `partialUpsertMergerClass`; created with (primary key columns, comparison columns,
    config)."""

    def merge(self, previous: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the Python values of the merged row; omitted columns keep the new row's values.

        If it raises, the new row is dropped and added to the table's dead letters.
        """
        ...


class Merger:
    """Merger of the rows of one table; `open` must precede the first `merge`.

    transform: `postPartialUpsertTransformConfigs`, applied to the merged batch.
    """

    def __init__(
        self, schema: Schema, config: UpsertConfig, comparison: Sequence[str], transform: "Transform | None"
    ) -> None:
        fixed = {*schema.primary_key_columns, *comparison}
        self._fields = [spec for spec in schema.stored_fields if spec.name not in fixed]
        self._strategies = {
            spec.name: config.partial_upsert_strategies.get(spec.name, config.default_partial_upsert_strategy).upper()
            for spec in self._fields
        }
        self._transform = transform
        self._schema, self._config, self._comparison = schema, config, comparison
        self._row_merger: RowMerger | None = None
        self.num_bounded = 0

    def open(self) -> None:
        """Load the user's merger class, if configured.

        Not done by the constructor, since sealed segments are served without a merger. Raises InvalidConfigError if the
        class cannot be imported or instantiated.
        """
        path = self._config.partial_upsert_merger_class
        if path is None or self._row_merger is not None:
            return
        where = "partialUpsertMergerClass"
        merger = load_class(path, where)
        try:
            made = merger(list(self._schema.primary_key_columns), list(self._comparison), self._config)
        except Exception as error:
            raise InvalidConfigError(
                f"upsertConfig.{where} is '{path}', which cannot be made with (primary key columns, comparison columns, "
                f"upsertConfig): {error!r}"
            ) from error
        if not callable(getattr(made, "merge", None)):
            raise InvalidConfigError(f"upsertConfig.{where} is '{path}', which has no method merge(previous, new)")
        self._row_merger = made

    def merge(self, batch: pa.RecordBatch, sources: Array, stored: Stored) -> pa.RecordBatch:
        """Return the merged batch.

        sources: int64 [rows]: the row that each row is merged with, -1 for none: an earlier row of the batch or, from
        batch.num_rows on, one of the `stored` rows (segment, ascending doc ids), numbered consecutively.
        Raises RejectedRowsError for rows that the user's class rejects, or for which it returns invalid values.
        """
        if (sources >= 0).any():
            batch = self._by_rows(batch, sources, stored) if self._row_merger else self._by_columns(batch, sources, stored)
        return batch if self._transform is None else self._transform(batch)

    def _by_columns(self, batch: pa.RecordBatch, sources: Array, stored: Stored) -> pa.RecordBatch:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for spec in self._fields:
            new, strategy = columns[spec.name], self._strategies[spec.name]
            values = pa.concat_arrays([new, *(stored_array(segment, spec, docs) for segment, docs in stored)])
            if strategy in _CHOICES:
                columns[spec.name] = self._chosen(spec, strategy, values, sources)
            elif strategy == "INCREMENT":
                columns[spec.name] = self._sums(spec, values, sources)
            else:
                columns[spec.name] = _joined(spec, values, sources, strategy == "UNION")
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)

    def _chosen(self, spec: FieldSpec, strategy: str, values: pa.Array, sources: Array) -> pa.Array:
        valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
        order = _order(values, spec) if strategy in ("MAX", "MIN") else np.empty(0, np.int64)
        chosen = np.empty(len(sources), np.int64)
        kernels.choose_values(_CHOICES[strategy], sources, valid, order, chosen)
        return values.take(pa.array(chosen))

    def _sums(self, spec: FieldSpec, values: pa.Array, sources: Array) -> pa.Array:
        if spec.data_type is DataType.BIG_DECIMAL:
            return _decimal_sums(values, sources)
        valid = pc.is_valid(values).to_numpy(zero_copy_only=False).copy()
        numbers = from_arrow(_filled(values, spec), spec.data_type)
        is_float = numbers.dtype.kind == "f"
        # a FLOAT is rounded at every row, so that batch boundaries do not matter
        wide = numbers.astype(numbers.dtype if is_float else np.int64)
        limits = None if is_float else np.iinfo(numbers.dtype)
        low, high = (-np.inf, np.inf) if limits is None else (int(limits.min), int(limits.max))
        self.num_bounded += int(kernels.add_values(sources, valid, wide, low, high))
        rows = slice(0, len(sources))
        return pa.array(wide[rows].astype(numbers.dtype), mask=~valid[rows]).cast(values.type)

    def _by_rows(self, batch: pa.RecordBatch, sources: Array, stored: Stored) -> pa.RecordBatch:
        """Merge by the user's class, row by row."""
        assert self._row_merger is not None
        rows = batch.to_pylist()
        specs = {spec.name: spec for spec in self._fields}
        old: list[dict[str, Any]] = []
        for segment, docs in stored:
            arrays = {name: stored_array(segment, spec, docs).to_pylist() for name, spec in specs.items()}
            old += [{name: values[i] for name, values in arrays.items()} for i in range(len(docs))]
        reasons: dict[int, str] = {}
        after: set[int] = set()  # rows that follow a rejected one are merged again without it
        for i in map(int, np.flatnonzero(sources >= 0)):
            source = int(sources[i])
            if source in reasons or source in after:
                after.add(i)
                continue
            previous = rows[source] if source < len(rows) else {**rows[i], **old[source - len(rows)]}
            try:
                merged = self._row_merger.merge(previous, dict(rows[i]))
                for name in specs.keys() & merged.keys():
                    rows[i][name] = pa.scalar(merged[name], batch.schema.field(name).type).as_py()
            except Exception as error:  # noqa: BLE001 - user code; an error only rejects this row
                reasons[i] = f"{type(self._row_merger).__name__} cannot merge the row: {error!r}"
        if not reasons:
            return pa.RecordBatch.from_pylist(rows, schema=batch.schema)
        raise RejectedRowsError(reasons)


def load_class(path: str, where: str, section: str = "upsert") -> Callable[..., Any]:
    """Return the class that a config names as `module.Class`. Raises InvalidConfigError."""
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise InvalidConfigError(
            f"{section}Config.{where} is '{path}', which cannot be imported ({error}); give module.Class of a Python class "
            "that the servers can import"
        ) from error
    if not callable(found):
        raise InvalidConfigError(f"{section}Config.{where} is '{path}', which is no class")
    return found  # type: ignore[no-any-return]


def stored_array(segment: Segment, spec: FieldSpec, docs: "np.ndarray[Any, np.dtype[np.int32]]") -> pa.Array:
    """Return the values of rows of a segment (ascending doc ids) as an Arrow array of the schema's type, with nulls."""
    kind = arrow_type(spec.data_type, spec.single_value)
    if spec.name not in segment.column_names:
        return pa.nulls(len(docs), kind)
    column = segment.column(spec.name)
    vector = column.values_at(docs)
    values = _arrow_values(vector)
    if vector.offsets is None:
        array = values.cast(kind)
    else:
        array = pa.ListArray.from_arrays(pa.array(vector.offsets.astype(np.int32)), values.cast(kind.value_type)).cast(kind)
    if not column.null_docs:
        return array
    nulls = np.isin(docs, np.asarray(column.null_docs.to_array()))
    return pc.if_else(pa.array(nulls), pa.scalar(None, array.type), array)


def _arrow_values(vector: Vector) -> pa.Array:
    if vector.type is DataType.BIG_DECIMAL:
        return pa.array([format(value, "f") for value in vector.values], pa.string())
    if isinstance(vector.values, np.ndarray):
        array = pa.array(vector.values)
        return array.cast(pa.timestamp("ms")) if vector.type is DataType.TIMESTAMP else array
    return vector.values


def _filled(values: pa.Array, spec: FieldSpec) -> pa.Array:
    return pc.fill_null(values, arrow_scalar(spec.default_null_value, spec.data_type)) if values.null_count else values


def _order(values: pa.Array, spec: FieldSpec) -> Array:
    """Return order-preserving int64 for values; arbitrary for nulls."""
    if spec.data_type.is_fixed_width:
        return ordered(from_arrow(_filled(values, spec), spec.data_type))
    coded = values.dictionary_encode()
    entries = coded.dictionary.to_pylist()
    is_decimal = spec.data_type is DataType.BIG_DECIMAL
    ranks = np.zeros(len(entries) + 1, np.int64)
    ranks[:-1] = _ranks([Decimal(entry) for entry in entries] if is_decimal else entries)
    found: Array = ranks[coded.indices.fill_null(len(entries)).to_numpy()]
    return found


def _ranks(values: Sequence[Any]) -> list[int]:
    """Return the rank of each value among the distinct ones."""
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return [places[value] for value in values]


def _decimal_sums(values: pa.Array, sources: Array) -> pa.Array:
    numbers = [None if text is None else Decimal(text) for text in values.to_pylist()]
    for i in np.flatnonzero(sources >= 0):
        old, new = numbers[sources[i]], numbers[i]
        numbers[i] = new if old is None else old if new is None else old + new
    return pa.array([None if n is None else format(n, "f") for n in numbers[: len(sources)]], values.type)


def _joined(spec: FieldSpec, values: pa.Array, sources: Array, is_union: bool) -> pa.Array:
    """Return the lists of the batch's rows joined with those of the rows that they replace; empty ones are null."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    coded = values.flatten().dictionary_encode()
    dictionary = coded.dictionary
    codes = coded.indices.fill_null(len(dictionary)).to_numpy().astype(np.int64)
    if is_union:
        ascending = np.argsort(_order(dictionary, spec), kind="stable")
        ranks = np.arange(len(dictionary) + 1)
        ranks[ascending] = np.arange(len(dictionary))
        dictionary, codes = dictionary.take(pa.array(ascending)), ranks[codes]
    sizes = np.empty(len(sources), np.int64)
    kernels.list_sizes(sources, offsets, sizes)
    starts = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), np.int64)
    kernels.join_lists(sources, offsets, codes, is_union, starts, sizes, out)
    ends = np.zeros(len(sources) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    taken = out[np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])]
    elements = dictionary.take(pa.array(taken, mask=taken == len(dictionary)))
    lists = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), elements, mask=pa.array(sizes == 0))
    return lists.cast(values.type)

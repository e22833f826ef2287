"""The input of metrics that are aggregated during consumption.

In a conformed batch such a metric holds, in each row, the value to aggregate: of the metric's type for SUM, MIN and MAX;
plain decimal text for SUMPRECISION; for sketches as `gamay.functions.sketch.additions` defines. COUNT needs no input.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.scalar.text.encoded import decimal_of_bytes
from gamay.functions.sketch.additions import additions_of, dense, kind_of
from gamay.functions.sketch.registers import RegisterKind
from gamay.ingest.convert.arrays import Mask, is_json_text, null_where, plain
from gamay.ingest.convert.values import convert
from gamay.ingest.transform.operands import data_type_of, to_vector
from gamay.ingest.transform.rows import Failures, Rows, describe_value
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.rollup import Rollup, RollupFunction
from gamay.model.types import DataType

_TYPES = {str: DataType.STRING, int: DataType.LONG, float: DataType.DOUBLE, bool: DataType.BOOLEAN}
# decimals in BYTES have a scale of 16 bits
_DECIMAL_CHARS_MAX = 32_000


class AggregatedMetrics:
    """The aggregated metrics of one table, to be filled from its source columns."""

    def __init__(self, schema: Schema, rollups: "tuple[Rollup, ...]") -> None:
        self._schema = schema
        self._rollups = [rollup for rollup in rollups if rollup.function is not RollupFunction.COUNT]

    def fill(self, rows: Rows, delimiter: str | None, failures: Failures) -> None:
        """Set each metric to the values to aggregate; delimiter: splits the text of a multi-value column into its values.

        Invalid values are reported as failures, and become null.
        """
        found = []
        for rollup in self._rollups:
            assert rollup.source is not None
            if rollup.function.is_sketch:
                array, failed = self._additions(rollup, rollup.source, rows, delimiter)
            elif rollup.function is RollupFunction.SUM_PRECISION:
                array, failed = self._decimals(rollup.source, rows, delimiter)
            elif rollup.source == rollup.metric:
                continue
            else:
                array, failed = rows.columns.get(rollup.source, pa.nulls(rows.num_rows)), None
            if failed is not None and failed.any():
                failures.add(rows, failed, _reason(rollup, rows))
            found.append((rollup, array))
        for rollup, array in found:  # after all are computed, as a metric may be the source of others
            rows.put(rollup.metric, array)
            if rollup.function.is_sketch or rollup.function is RollupFunction.SUM_PRECISION:
                is_text = self._schema.field(rollup.metric).data_type is DataType.BIG_DECIMAL
                rows.typed[rollup.metric] = array.cast(pa.string() if is_text else pa.binary()), None

    def is_taken_in_whole(self, name: str) -> bool:
        """Whether a metric holds text or sketch input rather than values of its type, so that length limits do not apply."""
        functions = (rollup.function for rollup in self._rollups if rollup.metric == name)
        return any(function.is_sketch or function is RollupFunction.SUM_PRECISION for function in functions)

    def _source(self, name: str, rows: Rows, delimiter: str | None) -> tuple[pa.Array, DataType, Mask | None]:
        """Return a column, its type (of the schema, else that of the input values), and which rows failed."""
        if name in self._schema:
            spec = self._schema.field(name)
            values, failed = rows.converted(spec, delimiter)
            return values, spec.data_type, failed
        array = plain(rows.columns.get(name, pa.nulls(rows.num_rows)))
        data_type, is_single = data_type_of(array.type)
        if not is_single or data_type is DataType.JSON:
            return pa.nulls(rows.num_rows, pa.string()), DataType.STRING, np.asarray(pc.is_valid(array))
        values, failed = convert(array, FieldSpec(name, data_type))
        return values, data_type, failed

    def _additions(self, rollup: Rollup, source: str, rows: Rows, delimiter: str | None) -> tuple[pa.Array, Mask | None]:
        kind = kind_of(rollup)
        column = rows.columns.get(source)
        if column is not None and source not in self._schema and is_json_text(column.type):
            return _mixed_additions(kind, column.storage)
        values, data_type, failed = self._source(source, rows, delimiter)
        if data_type is not DataType.BYTES:
            return _scattered(len(values), [_additions_at(kind, values, data_type)]), failed
        return _each_distinct(values, lambda data: dense(kind, data), failed)

    def _decimals(self, source: str, rows: Rows, delimiter: str | None) -> tuple[pa.Array, Mask | None]:
        values, data_type, failed = self._source(source, rows, delimiter)
        if data_type is DataType.BYTES:
            return _each_distinct(values, lambda data: format(decimal_of_bytes(data), "f").encode(), failed)
        texts, wrong = convert(values, FieldSpec(source, DataType.BIG_DECIMAL))
        if (pc.max(pc.binary_length(texts)).as_py() or 0) > _DECIMAL_CHARS_MAX:
            too_long = np.asarray(pc.greater(pc.binary_length(texts), _DECIMAL_CHARS_MAX).fill_null(False))
            texts, wrong = null_where(texts, too_long), too_long if wrong is None else wrong | too_long
        return texts, failed if wrong is None else wrong if failed is None else failed | wrong


def _reason(rollup: Rollup, rows: Rows) -> Callable[[int], str]:
    source = rollup.source or ""
    wanted = (
        "a number" if rollup.function is RollupFunction.SUM_PRECISION else f"a value or sketch for {rollup.function.value}"
    )
    # keep the input column: the metric may be its own source and is replaced later
    given = {source: rows.columns[source]}
    return lambda row: f"metric '{rollup.metric}': {describe_value(given, source, row)} of '{source}' is not {wanted}"


def _additions_at(kind: RegisterKind, values: pa.Array, data_type: DataType) -> tuple[Mask, pa.Array]:
    """Return which rows have a value, and the sketch input of these rows."""
    present = np.asarray(pc.is_valid(values))
    kept = values if present.all() else values.filter(pa.array(present))
    return present, additions_of(kind, to_vector(kept, data_type, single_value=True))


def _mixed_additions(kind: RegisterKind, texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    """Return the sketch input of JSON values, each converted by its own type, and which failed."""
    values = [None if text is None else _read_json(text) for text in texts.to_pylist()]
    types = [_TYPES.get(type(value)) for value in values]
    failed = np.array([value is not None and kind is None for value, kind in zip(values, types, strict=True)], np.bool_)
    parts = []
    for data_type in _TYPES.values():
        chosen = [value if kind is data_type else None for value, kind in zip(values, types, strict=True)]
        converted, wrong = convert(pa.array(chosen), FieldSpec("", data_type))
        parts.append(_additions_at(kind, converted, data_type))
        failed = failed if wrong is None else failed | wrong
    return _scattered(len(values), parts), failed


def _read_json(text: str) -> Any:
    """Return a JSON value; integers beyond 64 bits as text."""
    value = json.loads(text)
    return text if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _scattered(num_rows: int, parts: list[tuple[Mask, pa.Array]]) -> pa.Array:
    """Return an array with the values of each part in the rows of its mask, null elsewhere; masks do not overlap."""
    if len(parts) == 1 and parts[0][0].all():
        return parts[0][1]
    places = np.full(num_rows, -1, np.int64)
    first = 0
    for mask, values in parts:
        places[mask] = np.arange(first, first + len(values))
        first += len(values)
    joined = pa.concat_arrays([values for _, values in parts]) if parts else pa.array([], pa.binary())
    return joined.take(pa.array(places, mask=places < 0))


def _each_distinct(values: pa.Array, read: Callable[[bytes], bytes], failed: Mask | None) -> tuple[pa.Array, Mask | None]:
    """Apply `read` once to each distinct byte string; return the results, and which rows failed with ValueError."""
    encoded = values.dictionary_encode()
    results = list(_read_each(encoded.dictionary.to_pylist(), read))
    array = pa.array(results, pa.binary()).take(encoded.indices)
    wrong = np.asarray(pc.is_valid(values)) & np.asarray(pc.is_null(array))
    if not wrong.any():
        return array, failed
    return null_where(array, wrong), wrong if failed is None else failed | wrong


def _read_each(values: list[bytes], read: Callable[[bytes], bytes]) -> Iterator[bytes | None]:
    for value in values:
        try:
            yield read(value)
        except ValueError:
            yield None

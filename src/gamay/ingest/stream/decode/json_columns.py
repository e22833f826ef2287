"""Batch parsing of flat fields of JSON objects by Arrow, used only where it returns exactly the values written."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from gamay.ingest.read.json import text_like_times
from gamay.ingest.stream.spi import InputFields
from gamay.model.types import DataType

_KNOWN = {
    DataType.INT: pa.int64(),
    DataType.LONG: pa.int64(),
    DataType.FLOAT: pa.float64(),
    DataType.DOUBLE: pa.float64(),
    DataType.BIG_DECIMAL: pa.string(),
    DataType.STRING: pa.string(),
    DataType.JSON: pa.string(),
    DataType.BYTES: pa.string(),
    DataType.UUID: pa.string(),
}
"""The type as which a field is parsed first. If it is written differently (numbers in quotes), the type found is kept."""

_EXACT_DOUBLES_BELOW = float(2**53)


class JsonColumns:
    """A reader of the wanted fields of objects that remembers the type in which each field was written."""

    def __init__(self, fields: InputFields) -> None:
        self._fields = fields
        self._types = {
            name: pa.list_(_KNOWN[kind]) if name in fields.multi_value else _KNOWN[kind]
            for name, kind in fields.types.items()
            if kind in _KNOWN and fields.wants(name)
        }

    def read(self, lines: pa.Buffer, objects: int) -> pa.RecordBatch | None:
        """Return the wanted fields, or None if another parser must read them. objects: the expected number of rows."""
        names = self._fields.names
        if names is not None and len(self._types) == len(names):
            rows = _parse(lines, self._types, "ignore")
            if rows is not None:
                return rows if rows.num_rows == objects and self._are_exact(rows) else None
        return self._read_otherwise(lines, objects)

    def _read_otherwise(self, lines: pa.Buffer, objects: int) -> pa.RecordBatch | None:
        """Parse with inferred types, and keep these for the next batch if they are faithful; else return None."""
        text = {name: kind for name, kind in self._types.items() if _is_text(kind)}
        rows = _parse(lines, text, "infer")
        if rows is not None and (times := text_like_times(rows.schema)):
            rows = _parse(lines, text | times, "infer")
        if rows is None or rows.num_rows != objects:
            return None
        rows = self._only_wanted(rows)
        if rows is None or not self._are_exact(rows):
            return None
        found = {field.name: field.type for field in rows.schema if not _is_null(field.type)}
        absent = (self._fields.names or frozenset()) - found.keys() - self._types.keys()
        self._types |= found | dict.fromkeys(absent, pa.string())
        return rows

    def _only_wanted(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        names, columns = [], []
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            if not self._fields.wants(name):
                continue
            target = self._fields.types.get(name)
            if not _is_faithful(column.type, target, name in self._fields.multi_value):
                return None
            if self._fields.is_as_written(name) and (pa.types.is_floating(column.type) or pa.types.is_list(column.type)):
                return None  # a value read as a double may have been written as an integer
            if target in (DataType.FLOAT, DataType.DOUBLE) and pa.types.is_integer(column.type):
                column = column.cast(pa.float64(), safe=False)
            names.append(name)
            columns.append(column)
        if not names:
            return None
        return pa.RecordBatch.from_arrays(columns, names)

    def _are_exact(self, rows: pa.RecordBatch) -> bool:
        """Whether all doubles of fields without a type are below 2^53, and so cannot be rounded integers."""
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            if pa.types.is_float64(column.type) and name not in self._fields.types:
                extremes = pc.min_max(column).as_py()
                low, high = extremes["min"], extremes["max"]
                if low is not None and not (low > -_EXACT_DOUBLES_BELOW and high < _EXACT_DOUBLES_BELOW):
                    return False
        return True


def _parse(lines: pa.Buffer, types: dict[str, pa.DataType], others: str) -> pa.RecordBatch | None:
    try:
        table = pa_json.read_json(
            pa.BufferReader(lines),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=min(lines.size + 1, (1 << 31) - 1)),
            parse_options=pa_json.ParseOptions(explicit_schema=pa.schema(types.items()), unexpected_field_behavior=others),
        )
        table.validate()  # detects lists whose leading null the parser lost
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind.value_type if pa.types.is_list(kind) else kind))


def _is_null(kind: pa.DataType) -> bool:
    return bool(pa.types.is_null(kind) or (pa.types.is_list(kind) and pa.types.is_null(kind.value_type)))


def _is_faithful(kind: pa.DataType, target: DataType | None, multi_value: bool) -> bool:
    """Whether values parsed as `kind` convert to the same column values as when each is parsed separately."""
    if pa.types.is_list(kind):
        if not multi_value and target is not None:
            return False
        kind = kind.value_type
    if pa.types.is_nested(kind):
        return False
    if pa.types.is_null(kind) or pa.types.is_string(kind):
        return True
    match target:
        case DataType.INT | DataType.LONG | DataType.TIMESTAMP:
            return bool(pa.types.is_integer(kind))
        case DataType.FLOAT | DataType.DOUBLE:
            return bool(pa.types.is_floating(kind) or (pa.types.is_integer(kind) and not multi_value))
        case DataType.BOOLEAN | None:
            return True
    return False

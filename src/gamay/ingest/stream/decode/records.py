"""Conversion of decoded records (dicts) to columns, independently of the other records in the batch.

Replicas read the same messages in different batches. So the conversion of a value must depend on the value and the column's
type only, never on the Arrow type inferred for all values of a batch.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.ingest.convert.objects import joined_as_written, values_as_written
from gamay.ingest.convert.texts import to_text
from gamay.ingest.convert.typed import FLOAT_MAX, lists_column, typed_column
from gamay.ingest.stream.spi import DecodedBatch, InputFields, Int64s, MessageBatch, Undecodable
from gamay.model.types import DataType


def records_to_rows(records: Sequence[Mapping[str, Any]], fields: InputFields) -> pa.RecordBatch:
    """Return a column for each wanted key that occurs; missing keys are null."""
    names = [name for name in dict.fromkeys(chain.from_iterable(records)) if fields.wants(name)]
    if not names:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(records), pa.struct([])))
    arrays = [_column([record.get(name) for record in records], name, fields) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names)


def _column(values: list[Any], name: str, fields: InputFields) -> pa.Array:
    if fields.is_as_written(name):  # as for nested input, which `gamay.ingest.transform.nested` flattens value by value
        return values_as_written(values)
    return typed_column(values, fields.types.get(name), multi_value=name in fields.multi_value)


# -- messages one by one


def decode_each(
    messages: MessageBatch, fields: InputFields, decode: Callable[[bytes], Mapping[str, Any] | None], what: str
) -> DecodedBatch:
    """Decode messages one by one.

    decode: returns None for a message without a row, and raises for one that is not `what`.
    """
    records: list[Mapping[str, Any]] = []
    places: list[int] = []
    undecodable: list[Undecodable] = []
    for place, payload in enumerate(messages.payloads.to_pylist()):
        if payload is None:
            continue
        try:
            record = decode(payload)
        except Exception as error:  # noqa: BLE001 - decoders raise any error on damaged input
            undecodable.append(Undecodable(place, not_a(what, error)))
            continue
        if record is not None:
            records.append(record)
            places.append(place)
    return DecodedBatch(records_to_rows(records, fields), np.array(places, np.int64), undecodable)


def not_a(what: str, error: BaseException) -> str:
    """Return the reason why a message could not be decoded, in one line."""
    detail = " ".join(str(error).split())
    return f"not {what}: {detail or type(error).__name__}"[:500]


def joined(parts: Sequence[DecodedBatch], starts: Sequence[int], fields: InputFields) -> DecodedBatch:
    """Return the rows of consecutive parts of a batch; `starts`: the first message of each part."""
    names = dict.fromkeys(name for part in parts for name in part.rows.schema.names)
    columns = [_concatenated([_named(part.rows, name) for part in parts], name, fields) for name in names]
    places = [part.message_of_row + start for part, start in zip(parts, starts, strict=True)]
    bad = [Undecodable(b.message + s, b.reason) for p, s in zip(parts, starts, strict=True) for b in p.undecodable]
    message_of_row: Int64s = np.concatenate(places) if places else np.empty(0, np.int64)
    if not names:
        return DecodedBatch(records_to_rows([{}] * len(message_of_row), fields), message_of_row, bad)
    return DecodedBatch(pa.RecordBatch.from_arrays(columns, list(names)), message_of_row, bad)


def merged(
    one: DecodedBatch, places: Int64s, other: DecodedBatch, other_places: Int64s, fields: InputFields
) -> DecodedBatch:
    """Return the rows of two parts of a batch in the order of their messages; places: those of the parts' messages."""
    both = joined([one, other], [0, 0], fields)
    message_of_row = np.concatenate([places[one.message_of_row], other_places[other.message_of_row]])
    bad = [
        Undecodable(int(at[b.message]), b.reason) for p, at in ((one, places), (other, other_places)) for b in p.undecodable
    ]
    rows = both.rows
    if other.rows.num_rows:
        order = np.argsort(message_of_row, kind="stable")
        rows, message_of_row = rows.take(pa.array(order)), message_of_row[order]
    return DecodedBatch(rows, message_of_row, sorted(bad, key=lambda b: b.message))


def _named(rows: pa.RecordBatch, name: str) -> pa.Array:
    at = rows.schema.get_field_index(name)
    return rows.column(at) if at >= 0 else pa.nulls(rows.num_rows)


def _concatenated(arrays: list[pa.Array], name: str, fields: InputFields) -> pa.Array:
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(kinds) > 1:
        return (
            joined_as_written(arrays) if fields.is_as_written(name) else _in_one_type(arrays, kinds, fields.types.get(name))
        )
    if not kinds:
        return pa.nulls(sum(map(len, arrays)))
    (kind,) = kinds
    return pa.concat_arrays([pa.nulls(len(a), kind) if pa.types.is_null(a.type) else a for a in arrays])


def _in_one_type(arrays: list[pa.Array], kinds: set[pa.DataType], target: DataType | None) -> pa.Array:
    """Return the arrays as one: numbers of a field without a type as doubles, otherwise text that converts to each value."""
    if target is None and all(pa.types.is_integer(k) or pa.types.is_floating(k) for k in kinds):
        return pa.concat_arrays([a.cast(pa.float64(), safe=False) for a in arrays])
    if any(pa.types.is_list(k) for k in kinds):
        return lists_column([value for array in arrays for value in array.to_pylist()], target or DataType.STRING)
    return pa.concat_arrays([_texts(a, target) for a in arrays])


def _texts(array: pa.Array, target: DataType | None) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    text = to_text(array)
    if target is DataType.FLOAT and pa.types.is_floating(array.type):
        beyond = pc.and_(pc.greater(pc.abs(array), FLOAT_MAX), pc.is_finite(array))
        text = pc.if_else(beyond, pc.binary_join_element_wise(text, "is beyond the range", " "), text)
    return text

"""Conversion of maps to the text of MAP columns: a JSON object with ordered keys and values in the column's type.

| values of type         | are written as                                                     |
| ---------------------- | ------------------------------------------------------------------ |
| INT, LONG              | whole numbers                                                      |
| TIMESTAMP              | whole numbers: milliseconds since 1970                             |
| FLOAT, DOUBLE          | numbers; infinities are the texts `Infinity` and `-Infinity`       |
| BOOLEAN                | true, false                                                        |
| BIG_DECIMAL            | texts, plain, so that no reader makes doubles of them              |
| STRING, BYTES, UUID    | texts: BYTES in hexadecimal, UUID in groups                        |
| JSON                   | the value itself                                                   |

A key without a value, or with null, is omitted; of equal keys the last one wins. Equal maps have equal texts.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.convert import convert_values
from gamay.ingest.convert.arrays import Mask, list_array, null_where
from gamay.ingest.convert.objects import json_text, read_json
from gamay.ingest.convert.texts import nested_to_json, to_text
from gamay.ingest.convert.typed import typed_column
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType

Convert: TypeAlias = Callable[[pa.Array, FieldSpec], tuple[pa.Array, Mask | None]]
Int64s: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_MUST_BE_ESCAPED = r'["\\\x00-\x1f]'
_TEXTS = (DataType.STRING, DataType.BIG_DECIMAL)
_BINARY = (DataType.BYTES, DataType.UUID)
_MEMBERS = ["key", "value"]


class _Entries(NamedTuple):
    """Entries of maps: the row of each, int64, its key, and its value of any Arrow type."""

    rows: Int64s
    keys: pa.Array
    values: pa.Array


def to_map_text(array: pa.Array, field: FieldSpec, convert: Convert) -> tuple[pa.Array, Mask | None]:
    """Return maps, structs, or JSON text of objects as the text of a MAP column, and which rows failed (null in the result).

    array: as returned by `plain`. convert: converts values to the type of a column, here of the map's keys and values.
    """
    present = np.asarray(pc.is_valid(array))
    failed = np.zeros(len(array), np.bool_)
    parts = _entries(array, field.child_fields["value"].data_type, present, failed)
    texts = _joined([_written(part, field, convert, failed) for part in parts], len(array))
    gone = ~present | failed
    return (null_where(texts, gone) if gone.any() else texts), (failed if failed.any() else None)


def to_lists(array: pa.Array, value_type: DataType) -> tuple[pa.Array, pa.Array, Mask | None]:
    """Return the ordered keys of maps and their values as two lists, and which rows are not maps (null in both lists).

    array: as returned by `plain`, in a form that `to_map_text` accepts. value_type: of the column for the values.
    """
    if pa.types.is_struct(array.type):  # members may have different types, lists have a single one
        array = nested_to_json(array)
    present = np.asarray(pc.is_valid(array))
    failed = np.zeros(len(array), np.bool_)
    entries = _in_order(_entries(array, value_type, present, failed))
    counts = np.bincount(entries.rows, minlength=len(array)).astype(np.int64)
    keys, values = list_array(counts, entries.keys), list_array(counts, entries.values)
    return keys, values, failed if failed.any() else None


# -- entries


def _entries(array: pa.Array, value_type: DataType, present: Mask, failed: Mask) -> list[_Entries]:
    """Return the entries of maps; update which rows have none after all (present), and which are not maps (failed)."""
    kind = array.type
    if pa.types.is_string(kind):
        return [_of_texts(array, value_type, present, failed)]
    if pa.types.is_map(kind) or _is_list_of_entries(kind):
        return [_of_maps(array, present)]
    if pa.types.is_struct(kind):
        return list(_of_structs(array))
    failed |= present
    return []


def _of_texts(array: pa.Array, value_type: DataType, present: Mask, failed: Mask) -> _Entries:
    """Return the entries of JSON objects; `null` is a missing map, other non-objects fail."""
    rows: list[int] = []
    keys: list[str] = []
    values: list[Any] = []
    for row, text in enumerate(array.to_pylist()):
        if text is None:
            continue
        try:
            found = read_json(text.encode())
        except ValueError:
            found = text
        if found is None:
            present[row] = False
        elif not isinstance(found, dict):
            failed[row] = True
        else:
            rows += [row] * len(found)
            keys += found
            values += found.values()
    if value_type is DataType.JSON:
        column = pa.array([None if item is None else json_text(item) for item in values], pa.string())
    else:
        column = typed_column(values, value_type, multi_value=False)
    return _Entries(np.array(rows, np.int64), pa.array(keys, pa.string()), column)


def _is_list_of_entries(kind: pa.DataType) -> bool:
    """Whether a type is a form of maps of some writers: lists of structs of a key and a value."""
    return pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and [f.name for f in kind.value_type] == _MEMBERS


def _of_maps(array: pa.Array, present: Mask) -> _Entries:
    if pa.types.is_map(array.type):
        keys, items = array.keys, array.items
    else:
        keys, items = array.values.flatten()
    offsets = np.asarray(array.offsets).astype(np.int64)
    rows = np.repeat(np.arange(len(array), dtype=np.int64), np.diff(offsets))
    first, count = int(offsets[0]), len(rows)
    entries = _Entries(rows, keys.slice(first, count), items.slice(first, count))
    kept = present[rows]
    return entries if kept.all() else _taken(entries, np.flatnonzero(kept))


def _of_structs(array: pa.Array) -> Iterator[_Entries]:
    rows = np.arange(len(array), dtype=np.int64)
    for member, values in zip(array.type, array.flatten(), strict=True):
        yield _Entries(rows, pa.repeat(member.name, len(array)), values)


def _taken(entries: _Entries, places: Int64s) -> _Entries:
    at = pa.array(places)
    return _Entries(entries.rows[places], entries.keys.take(at), entries.values.take(at))


# -- their text


def _written(entries: _Entries, field: FieldSpec, convert: Convert, failed: Mask) -> _Entries:
    """Return entries with the JSON text of each value, null if it is missing; rows with an unconvertible value fail."""
    keys, bad_keys = convert(entries.keys, field.child_fields["key"])
    values, bad_values = convert(entries.values, field.child_fields["value"])
    for bad in (bad_keys, bad_values):
        if bad is not None:
            failed[entries.rows[bad]] = True
    kept = np.flatnonzero(np.asarray(pc.is_valid(keys)))
    known = np.asarray(pc.is_valid(values))
    texts = _value_texts(values.filter(pa.array(known)), field.child_fields["value"].data_type)
    places = np.where(known, np.cumsum(known) - 1, 0)
    written = _Entries(entries.rows, keys, texts.take(pa.array(places, mask=~known)))
    return written if len(kept) == len(keys) else _taken(written, kept)


def _value_texts(values: pa.Array, kind: DataType) -> pa.Array:
    """Return the JSON text of values of a column's type, without nulls."""
    if kind in _TEXTS:
        return _quoted(values)
    if kind in _BINARY:
        return _quoted(convert_values(values, kind, DataType.STRING))
    if kind is DataType.JSON:
        return pa.array([json_text(read_json(text.encode())) for text in values.to_pylist()], pa.string())
    if kind is DataType.TIMESTAMP:
        return values.view(pa.int64()).cast(pa.string())
    if kind not in (DataType.FLOAT, DataType.DOUBLE):
        return values.cast(pa.string())
    texts, is_infinite = to_text(values), pc.is_inf(values)
    return pc.if_else(is_infinite, _quoted(texts), texts) if pc.any(is_infinite).as_py() else texts


def _quoted(texts: pa.Array) -> pa.Array:
    """Return texts as JSON strings."""
    quote = pa.scalar('"')
    quoted = pc.binary_join_element_wise(quote, texts, quote, "")
    escaped = pc.match_substring_regex(texts, _MUST_BE_ESCAPED)
    if not pc.any(escaped, min_count=0).as_py():
        return quoted
    rest = [orjson.dumps(text).decode() for text in texts.filter(escaped).to_pylist()]
    return pc.replace_with_mask(quoted, escaped, pa.array(rest, pa.string()))


def _joined(parts: list[_Entries], num_rows: int) -> pa.Array:
    """Return the text of each row's map: `{}` where it has no entries."""
    entries = _in_order(parts)
    names = entries.keys.dictionary_encode()
    keys = _quoted(names.dictionary).take(names.indices)
    texts = pc.binary_join_element_wise(keys, entries.values, ":")
    offsets = np.zeros(num_rows + 1, np.int32)
    np.cumsum(np.bincount(entries.rows, minlength=num_rows), out=offsets[1:])
    inner = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), ",")
    return pc.binary_join_element_wise("{", inner, "}", "")


def _in_order(parts: list[_Entries]) -> _Entries:
    """Return the effective entries, ordered by row and key."""
    if not parts:
        return _Entries(np.empty(0, np.int64), pa.array([], pa.string()), pa.array([], pa.string()))
    rows = np.concatenate([part.rows for part in parts])
    keys = pa.concat_arrays([part.keys for part in parts])
    values = pa.concat_arrays([part.values for part in parts])
    codes = keys.dictionary_encode()
    rank = np.empty(len(codes.dictionary), np.int64)
    rank[np.asarray(pc.sort_indices(codes.dictionary))] = np.arange(len(rank))
    ranks = rank[np.asarray(codes.indices)] if len(rank) else np.empty(0, np.int64)
    order = np.lexsort((ranks, rows))  # stable: equal keys of a row keep their order
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = (np.diff(rows[order]) != 0) | (np.diff(ranks[order]) != 0)
    order = order[is_last & np.asarray(pc.is_valid(values))[order]]
    return _taken(_Entries(rows, keys, values), order)

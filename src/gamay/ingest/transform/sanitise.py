"""The final checks of text before it is stored: NUL characters and lengths."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.ingest.convert.arrays import Mask, list_array, null_where, rows_of_values
from gamay.model.schema.field_spec import FieldSpec, MaxLengthExceedStrategy


class Sanitised(NamedTuple):
    """A column whose values may be stored.

    num_changed: the number of changed values. changed: a mask of the rows with one, None if there are none. failed: a mask
    of the rows with a value that is too long for a column with the strategy ERROR.
    """

    values: pa.Array
    num_changed: int = 0
    changed: Mask | None = None
    failed: Mask | None = None


def sanitise(array: pa.Array, field: FieldSpec) -> Sanitised:
    """Return a conformed text or bytes column with values that may not be stored changed.

    Text is truncated at its first NUL character; then the column's strategy is applied to values that exceed its maximum
    length (characters of text, bytes of BYTES).
    """
    if field.single_value:
        return _sanitise_values(array, field)
    found = _sanitise_values(pc.list_flatten(array), field)
    if found.changed is None and found.failed is None:
        return Sanitised(array)
    rows = rows_of_values(array)
    kept = np.asarray(pc.is_valid(found.values))
    failed = None if found.failed is None else _rows_of(found.failed, rows, len(array))
    if failed is not None:
        kept &= ~failed[rows]
    changed = None if found.changed is None else _rows_of(found.changed, rows, len(array))
    counts = np.bincount(rows[kept], minlength=len(array)).astype(np.int64)
    return Sanitised(list_array(counts, found.values.filter(pa.array(kept))), found.num_changed, changed, failed)


def _rows_of(values: Mask, rows: "np.ndarray[Any, np.dtype[np.int64]]", num_rows: int) -> Mask:
    """Return a mask of the rows that have a selected value. rows: the row of each value."""
    found = np.zeros(num_rows, np.bool_)
    found[rows[values]] = True
    return found


def _sanitise_values(array: pa.Array, field: FieldSpec) -> Sanitised:
    changed = None
    if field.data_type.is_text:
        array, changed = _cut_at_nul(array)
    strategy = field.max_length_exceed_strategy
    # the length in bytes is known without decoding the text, and is never less than the length in characters
    may_be_long = strategy is not MaxLengthExceedStrategy.NO_ACTION and len(array)
    if not may_be_long or (pc.max(pc.binary_length(array)).as_py() or 0) <= field.max_length:
        return _changed(array, changed)
    lengths = pc.utf8_length(array) if field.data_type.is_text else pc.binary_length(array)
    too_long = np.asarray(pc.greater(lengths, field.max_length).fill_null(False))
    if not too_long.any():
        return _changed(array, changed)
    either = too_long if changed is None else changed | too_long
    match strategy:
        case MaxLengthExceedStrategy.TRIM_LENGTH:
            cut = pc.utf8_slice_codeunits if field.data_type.is_text else pc.binary_slice
            return _changed(cut(array, 0, field.max_length), either)
        case MaxLengthExceedStrategy.SUBSTITUTE_DEFAULT_VALUE:
            return _changed(null_where(array, too_long), either)
        case _:
            left = None if changed is None else changed & ~too_long
            return _changed(null_where(array, too_long), left)._replace(failed=too_long)


def _changed(values: pa.Array, changed: Mask | None) -> Sanitised:
    return Sanitised(values, 0 if changed is None else int(np.count_nonzero(changed)), changed)


def _cut_at_nul(array: pa.Array) -> tuple[pa.Array, Mask | None]:
    # only text with a zero byte has a NUL, and searching bytes is far cheaper than searching text
    if _bytes_of(array).min(initial=1):
        return array, None
    has_nul = np.asarray(pc.greater_equal(pc.find_substring(array, "\x00"), 0).fill_null(False))
    if not has_nul.any():
        return array, None
    return pc.replace_substring_regex(array, r"(?s)\x00.*", ""), has_nul


def _bytes_of(array: pa.Array) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Return a view of the bytes of a text array's values; of a slice, those of its own values only."""
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return np.empty(0, np.uint8)
    starts = np.frombuffer(offsets, np.int32)
    return np.frombuffer(data, np.uint8)[starts[array.offset] : starts[array.offset + len(array)]]

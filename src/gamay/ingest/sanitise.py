"""The last checks of text before it is stored: NUL characters and lengths."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.ingest.arrays import Mask, list_array, null_where
from gamay.model.field_spec import FieldSpec, MaxLengthExceedStrategy


def sanitise(array: pa.Array, field: FieldSpec) -> tuple[pa.Array, int, Mask | None]:
    """Return a conformed text or bytes column without what may not be stored.

    Text is cut at its first NUL character; then the column's strategy says what happens to values above its maximum length
    (characters of text, bytes of BYTES). Also returned: how many values were changed, and which rows fail (strategy ERROR).
    """
    if field.single_value:
        return _sanitise_values(array, field)
    values = pc.list_flatten(array)
    sanitised, changed, failed = _sanitise_values(values, field)
    if not changed and failed is None:
        return array, 0, None
    rows = np.asarray(pc.list_parent_indices(array))
    kept = np.asarray(pc.is_valid(sanitised))
    failed_rows: Mask | None = None
    if failed is not None:
        failed_rows = np.zeros(len(array), np.bool_)
        failed_rows[rows[failed]] = True
        kept &= ~failed_rows[rows]
    counts = np.bincount(rows[kept], minlength=len(array)).astype(np.int64)
    return list_array(counts, sanitised.filter(pa.array(kept))), changed, failed_rows


def _sanitise_values(array: pa.Array, field: FieldSpec) -> tuple[pa.Array, int, Mask | None]:
    changed = 0
    if field.data_type.is_text:
        array, changed = _cut_at_nul(array)
    strategy = field.max_length_exceed_strategy
    if strategy is MaxLengthExceedStrategy.NO_ACTION:
        return array, changed, None
    # the length in bytes is known without reading the text, and is never less than the length in characters
    if not len(array) or (pc.max(pc.binary_length(array)).as_py() or 0) <= field.max_length:
        return array, changed, None
    lengths = pc.utf8_length(array) if field.data_type.is_text else pc.binary_length(array)
    too_long = np.asarray(pc.greater(lengths, field.max_length).fill_null(False))
    if not too_long.any():
        return array, changed, None
    changed += int(too_long.sum())
    match strategy:
        case MaxLengthExceedStrategy.TRIM_LENGTH:
            cut = pc.utf8_slice_codeunits if field.data_type.is_text else pc.binary_slice
            return cut(array, 0, field.max_length), changed, None
        case MaxLengthExceedStrategy.SUBSTITUTE_DEFAULT_VALUE:
            return null_where(array, too_long), changed, None
        case _:
            return null_where(array, too_long), 0, too_long


def _cut_at_nul(array: pa.Array) -> tuple[pa.Array, int]:
    # no buffer without a zero byte holds text with a NUL, and looking for one is far cheaper than a text search
    data = array.buffers()[2]
    if data is None or b"\x00" not in memoryview(data).tobytes():
        return array, 0
    positions = pc.find_substring(array, "\x00")
    has_nul = pc.greater_equal(positions, 0).fill_null(False)
    changed = int(pc.sum(has_nul).as_py() or 0)
    return (pc.replace_substring_regex(array, r"(?s)\x00.*", "") if changed else array), changed

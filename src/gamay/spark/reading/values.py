"""Conversion of columns of results to Spark's types, see `gamay.spark.reading.types`."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import arrow_type
from gamay.ingest.convert.maps import to_lists
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType


def to_spark(array: pa.Array, spec: FieldSpec, target: pa.DataType) -> pa.Array:
    """Return a conformed column in its Arrow type for Spark, `target`.

    Raises InvalidConfigError for a value that does not fit, such as a decimal with too many digits.
    """
    if spec.data_type is DataType.MAP:
        array = _maps(array, spec, target)
    try:
        return array if array.type == target else array.cast(target)
    except pa.ArrowInvalid as error:
        hint = ""
        if spec.data_type is DataType.BIG_DECIMAL:
            hint = "; say .option('bigDecimal', 'decimal(p,s)') with more places, or 'string'"
        raise InvalidConfigError(f"column '{spec.name}' has a value that is no {target}: {error}{hint}") from error


def _maps(array: pa.Array, spec: FieldSpec, target: pa.DataType) -> pa.Array:
    value = spec.child_fields["value"]
    keys, values, _ = to_lists(array, value.data_type)
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(np.asarray(pc.list_value_length(keys).fill_null(0)), out=offsets[1:])
    typed = values.flatten().cast(arrow_type(value.data_type))
    items = to_spark(typed, value, target.item_type)
    maps = pa.MapArray.from_arrays(pa.array(offsets), keys.flatten(), items)
    return pc.if_else(pc.is_valid(array), maps, None) if array.null_count else maps

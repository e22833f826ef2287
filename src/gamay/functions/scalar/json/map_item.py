"""Values of maps by key: `m['k']`, or `item(m, 'k')`, has the type of the map's values.

Maps are JSON objects whose values were converted to one type at ingestion, so that the values at a key are found and
parsed for whole columns at once; `gamay.ingest.convert.maps` defines how values of each type are written. A row without
the key yields the type's default, NULL under null handling.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.functions.arguments import wrong
from gamay.functions.arrow import binary_buffers
from gamay.functions.convert import array_of, convert_values, placeholder, to_vector
from gamay.functions.expression import ITEM, Call, Literal
from gamay.functions.items import WRITTEN
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.json.path import Extraction, scalar_of
from gamay.functions.scalar.json.scan import Found, scan
from gamay.functions.scalar.json.steps import MISSING, Step, parse_document, read_path
from gamay.functions.vector import Operand, Scalar, Values, Vector, concat, take
from gamay.kernels.json.paths import ESCAPED, NESTED, NULL, TEXT, UNSURE, close_nested
from gamay.kernels.json.paths import MISSING as NOT_FOUND
from gamay.model.types import DataType

NAME = "item"
_AS_WRITTEN = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BOOLEAN, DataType.STRING)
_ARGUMENTS = 4


def _constants(call: Call) -> tuple[str, DataType, Any]:
    """Return the key, the type of the values, and the result for a missing one (None for NULL)."""
    key, kind, default = call.args[1:]
    assert isinstance(key, Literal)
    assert isinstance(kind, Literal)
    assert isinstance(default, Literal)
    return str(key.value), DataType(kind.value), default.value


def _result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    return _constants(call)[1], False


def _compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    key, kind, default = _constants(call)
    is_constant = isinstance(args[0], Scalar)
    maps = to_vector(args[0], 1 if is_constant else num_rows)
    found = _read(maps, key, kind, default) if kind in _AS_WRITTEN else _converted(maps, key, kind, default)
    if not is_constant:
        return found
    return Scalar(None if found.nulls is not None and found.nulls[0] else found.values.tolist()[0], kind)


def _read(maps: Vector, key: str, kind: DataType, default: Any) -> Vector:
    """Return the values at a key, of a type that is parsed in place; the default (null if None) where the key is missing."""
    steps: tuple[Step, ...] = (("key", key),)
    found = Extraction(NAME, key, kind, False, default).plain_results(
        maps, steps, lambda text: read_path(parse_document(text), steps), is_json=True
    )
    assert found is not None  # a name is a plain path
    return found


def _converted(maps: Vector, key: str, kind: DataType, default: Any) -> Vector:
    """Return the values at a key, of types that are stored as LONG or STRING."""
    written = DataType.LONG if kind is DataType.TIMESTAMP else DataType.STRING
    whole = Vector(maps.type, maps.values)
    found = _documents(maps.values, (("key", key),)) if kind is DataType.JSON else _read(whole, key, written, None)
    values, nulls, missing = found.values, maps.nulls, found.nulls
    if missing is None:
        return Vector(kind, convert_values(values, found.type, kind), None, nulls)
    rows = np.flatnonzero(~missing)
    values = convert_values(take(values, rows), found.type, kind)
    if default is None:
        nulls = missing if nulls is None else nulls | missing
    return Vector(
        kind, _spread(values, rows, len(missing), placeholder(kind) if default is None else default, kind), None, nulls
    )


def _spread(values: Values, rows: "np.ndarray[Any, Any]", num_rows: int, other: Any, kind: DataType) -> Values:
    """Return an array with values at some rows, and another value elsewhere."""
    places = np.full(num_rows, len(values))
    places[rows] = np.arange(len(rows))
    return take(concat([values, array_of([other], kind)]), places)


def _documents(maps: pa.StringArray, steps: tuple[Step, ...]) -> Vector:
    """Return the JSON text at a key of each map; null if there is none."""
    found = scan(maps, steps, is_json=True)
    assert found is not None
    missing = found.is_one_of(NOT_FOUND, NULL)
    unsure = found.rows(UNSURE)  # a key with a backslash is nearby
    values = [read_path(parse_document(text), steps) for text in take(maps, unsure).to_pylist()]
    absent = np.array([value is MISSING or value is None for value in values], np.bool_)
    missing[unsure[absent]] = True
    rest = [scalar_of(value, DataType.JSON) for value, is_absent in zip(values, absent, strict=True) if not is_absent]
    plain = np.flatnonzero(~(missing | found.is_one_of(UNSURE)))
    texts = concat([_slices(maps, found, plain), pa.array(rest, pa.string())])
    rows = np.concatenate([plain, unsure[~absent]])
    return Vector(DataType.JSON, _spread(texts, rows, len(missing), "null", DataType.JSON), None, missing)


def _slices(maps: pa.StringArray, found: Found, rows: "np.ndarray[Any, Any]") -> pa.StringArray:
    """Return the texts at some rows: objects and arrays up to their end, strings with their quotes."""
    begins, ends = found.begins.copy(), found.ends.copy()
    quoted, nested = found.rows(TEXT, ESCAPED), found.rows(NESTED)
    begins[quoted] -= 1
    ends[quoted] += 1
    closed = np.empty(len(nested), np.int64)
    close_nested(found.data, begins[nested], _stops(maps)[nested], closed)
    ends[nested] = closed
    return Found(found.kinds, begins, ends, found.data).texts(rows)


def _stops(maps: pa.StringArray) -> "np.ndarray[Any, Any]":
    """Return the end of each text in the bytes of the array."""
    return binary_buffers(maps)[0][1:].astype(np.int64)


def _unbound_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    raise wrong(NAME, WRITTEN)


def _unbound(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    """The value of a map at a key, `m['key']`; of the type of the map's values."""
    raise wrong(NAME, WRITTEN)


register_scalar([NAME], ScalarFunction(NAME, 2, 2, _unbound_type, _unbound, can_fold=False))
register_scalar([ITEM], ScalarFunction(NAME, _ARGUMENTS, _ARGUMENTS, _result_type, _compute, can_fold=False))

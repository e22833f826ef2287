"""Generated rows for a schema with characteristics: `cardinality`, `averageLength`, `numValuesPerEntry` of columns."""

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from gamay.base.errors import InvalidConfigError
from gamay.base.rng import new_rng
from gamay.functions.arrow import conformed_schema
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType

CHARACTERISTICS = ("cardinality", "averageLength", "numValuesPerEntry")
_SPECS = ("dimensionFieldSpecs", "metricFieldSpecs", "dateTimeFieldSpecs")
_LENGTH = 16
_HOUR_MS = 3_600_000


def split_characteristics(document: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
    """Return a schema without its characteristics, and these by column. Raises InvalidConfigError."""
    plain, found = dict(document), dict[str, dict[str, int]]()
    for key in _SPECS:
        specs = []
        for spec in document.get(key) or []:
            own = {name: spec[name] for name in CHARACTERISTICS if name in spec}
            for name, value in own.items():
                if not isinstance(value, int | float) or isinstance(value, bool) or not 1 <= value < math.inf:
                    raise InvalidConfigError(f"{key}: '{name}' of '{spec.get('name')}' must be 1 at least, not {value!r}")
            found[str(spec.get("name"))] = {name: round(value) for name, value in own.items()}
            specs.append({name: value for name, value in spec.items() if name not in CHARACTERISTICS})
        if specs:
            plain[key] = specs
    if columns := [name for name, own in found.items() if "cardinality" not in own]:
        raise InvalidConfigError(f"the schema has no 'cardinality' of {', '.join(columns)}; each column needs one")
    return plain, found


def made_up_rows(
    schema: Schema, characteristics: Mapping[str, Mapping[str, int]], num_rows: int, now_ms: int, seed: int = 1
) -> pa.Table:
    """Return rows with the given characteristics: values are drawn at random from `cardinality` distinct ones."""
    chance = new_rng(seed)
    target = conformed_schema(schema)
    columns = []
    for spec, field in zip(schema.stored_fields, target, strict=True):
        own = characteristics.get(spec.name, {})
        per_row = 1 if spec.single_value else own.get("numValuesPerEntry", 1)
        drawn = [chance.randrange(own["cardinality"]) for _ in range(num_rows * per_row)]
        values = [_value(spec, number, own.get("averageLength", _LENGTH), now_ms) for number in drawn]
        if not spec.single_value:
            values = [values[i * per_row : (i + 1) * per_row] for i in range(num_rows)]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=target)


def _value(spec: FieldSpec, number: int, length: int, now_ms: int) -> Any:
    """Return the value number `number` of a column, from 0."""
    if spec.format is not None:
        return spec.format.from_millis(now_ms - now_ms % _HOUR_MS + number)
    kind = spec.data_type
    if kind is DataType.BOOLEAN:
        return number % 2 == 1
    if kind in (DataType.JSON, DataType.MAP):
        return f'{{"k":"{number:0{max(1, length - 8)}d}"}}'
    if kind.is_text:
        return f"{number:0{length}d}"
    if kind is DataType.UUID:
        return number.to_bytes(16, "big")
    if kind.is_binary:
        return number.to_bytes(max(8, length), "big")
    if kind is DataType.BIG_DECIMAL:
        return str(number)
    return number % (2**31) if kind is DataType.INT else number

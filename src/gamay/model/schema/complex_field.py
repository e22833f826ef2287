"""Columns of `complexFieldSpecs`: maps from texts to values of one type."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gamay.model.parse import EMPTY_MAP, REQUIRED, TEXT, At, Form, Shape, key, map_of, section
from gamay.model.schema.default_null import null_value_from_json, null_value_to_json
from gamay.model.schema.field_spec import UNSUPPORTED_TYPES, FieldSpec, SpecKeys, check_list, to_field_spec
from gamay.model.types import DataType, FieldRole

_CHILDREN = ("key", "value")
_INSTEAD = "store the value as JSON text in a dimension of type JSON"


def _read_complex_type(value: Any, at: At) -> DataType:
    name = TEXT.read(value, at).strip().upper()
    if name in UNSUPPORTED_TYPES:
        raise at.says(f"{name} columns are not supported; {_INSTEAD}")
    if name != DataType.MAP.value:
        raise at.says(f"{name} is not a type of complex columns, only MAP is; declare the column as a dimension")
    return DataType.MAP


def _read_child(value: Any, at: At) -> FieldSpec:
    """Read the spec of a key or a value, whose name is optional."""
    if not isinstance(value, dict):
        raise at.bad(value, "an object with a dataType")
    raw = _CHILD_KEYS.read({"name": at.pointer.rpartition("/")[2], **value}, at)
    role = FieldRole.DIMENSION if raw.field_type is None else FieldRole(raw.field_type)
    if role not in (FieldRole.DIMENSION, FieldRole.METRIC):
        raise at.child("fieldType").says(f"{role.value} is not one of DIMENSION, METRIC, which a key or a value can be")
    if not raw.single_value:
        raise at.child("singleValueField").says("a map has one value for each key; declare the value as JSON for lists")
    return to_field_spec(raw, role, at)


_CHILD_KEYS: Shape[SpecKeys] = section(SpecKeys)
_CHILD: Shape[FieldSpec] = Shape(_read_child, FieldSpec.to_json, form=replace(_CHILD_KEYS.form, names=("name",)))


@dataclass(frozen=True)
class _ComplexSpecKeys(SpecKeys):
    data_type: DataType = key(
        "dataType", Shape(_read_complex_type, lambda data_type: data_type.value, form=Form("choice", ("MAP",))), REQUIRED
    )
    child_fields: Mapping[str, FieldSpec] = key("childFieldSpecs", map_of(_CHILD), EMPTY_MAP)


_COMPLEX_KEYS: Shape[_ComplexSpecKeys] = section(_ComplexSpecKeys)


def _read_complex(value: Any, at: At) -> FieldSpec:
    raw = _COMPLEX_KEYS.read(value, at)
    check_list(raw.field_type, FieldRole.COMPLEX, at)
    children, where = raw.child_fields, at.child("childFieldSpecs")
    if sorted(children) != sorted(_CHILDREN):
        raise where.says(f"a MAP must have the children key and value, not {', '.join(children) or 'none'}")
    if children["key"].data_type is not DataType.STRING:
        raise where.child("key").says(f"keys of a MAP must be STRING, not {children['key'].data_type.value}")
    spec = to_field_spec(raw, FieldRole.COMPLEX, at, children)
    return spec if raw.default_null_value is None else _with_typed_default(spec, at.child("defaultNullValue"))


def _with_typed_default(spec: FieldSpec, at: At) -> FieldSpec:
    """Return the column with the values of its default in the form of their type."""
    kind = spec.child_fields["value"].data_type
    given = json.loads(str(spec.default_null_value))
    try:
        typed = {name: _value_to_json(value, kind) for name, value in given.items() if value is not None}
    except ValueError as error:
        raise at.says(f"a value of the MAP is not {kind.value}: {error}") from None
    return replace(spec, default_null_value=null_value_from_json(typed, DataType.MAP))


def _value_to_json(value: Any, kind: DataType) -> Any:
    """Return a value of a map in its stored JSON form; see `gamay.ingest.convert.maps`."""
    typed = null_value_from_json(value, kind)
    if kind is DataType.TIMESTAMP:
        return typed
    return json.loads(str(typed)) if kind is DataType.JSON else null_value_to_json(typed, kind)


COMPLEX_FIELD: Shape[FieldSpec] = Shape(_read_complex, FieldSpec.to_json, form=_COMPLEX_KEYS.form)

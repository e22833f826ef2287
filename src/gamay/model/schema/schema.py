"""The columns of a table."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.parse import (
    COLUMNS,
    FLAG,
    REMARK,
    REQUIRED,
    TEXT,
    VERBATIM,
    At,
    Form,
    Parsed,
    Shape,
    key,
    list_of,
    read_document,
    section,
)
from gamay.model.schema.complex_field import COMPLEX_FIELD
from gamay.model.schema.default_null import NullValue
from gamay.model.schema.field_spec import FieldSpec, MaxLengthExceedStrategy, field_spec_shape
from gamay.model.schema.time_field import GranularitySpec, TimeFieldSpec
from gamay.model.types import DataType, FieldRole

__all__ = [
    "BUILT_IN_COLUMNS",
    "FieldSpec",
    "MaxLengthExceedStrategy",
    "NullValue",
    "Schema",
    "check_backward_compatible",
]

_PROVIDER = "gamay"

# on every segment, computed on demand; `SELECT *` hides them
BUILT_IN_COLUMNS: Mapping[str, FieldSpec] = {
    name: FieldSpec(name, data_type, single_value=single_value, virtual_column_provider=_PROVIDER)
    for name, data_type, single_value in (
        ("$docId", DataType.INT, True),
        ("$hostName", DataType.STRING, True),
        ("$segmentName", DataType.STRING, True),
        ("$partitionId", DataType.STRING, False),
        ("$creationTime", DataType.TIMESTAMP, True),
        ("$startTime", DataType.TIMESTAMP, True),
        ("$endTime", DataType.TIMESTAMP, True),
        ("$totalDocs", DataType.INT, True),
        ("$crc", DataType.LONG, True),
    )
}


@dataclass(frozen=True)
class Schema:
    """A named list of columns: dimensions, metrics, date-times, then maps, each in the order of declaration.

    time_field: the older `timeFieldSpec` that declared one of the date-time columns, None if there is none. Construction
    does not validate; `validation.validate_schema` does.
    """

    name: str
    fields: tuple[FieldSpec, ...]
    primary_key_columns: tuple[str, ...] = ()
    enable_column_based_null_handling: bool = False
    description: str | None = None
    tags: tuple[str, ...] = ()
    time_field: TimeFieldSpec | None = None

    @classmethod
    def from_json(cls, document: Any) -> Parsed["Schema"]:
        """Parse schema JSON (a dict); raises InvalidConfigError with all formal problems."""
        name = document.get("schemaName") if isinstance(document, dict) else None
        parsed = read_document(SchemaKeys, document, f"schema '{name}'" if name else "the schema")
        return Parsed(_to_schema(parsed.value), parsed.unrecognized, parsed.suggestions)

    def to_json(self) -> dict[str, Any]:
        """Return the schema in Pinot's form."""
        written: dict[str, Any] = {"schemaName": self.name}
        if self.description is not None:
            written["description"] = self.description
        if self.tags:
            written["tags"] = list(self.tags)
        written["enableColumnBasedNullHandling"] = self.enable_column_based_null_handling
        for name, role in _LISTS.items():
            specs = [f.to_json() for f in self.fields if f.role is role and not self._is_time_field(f)]
            if specs:
                written[name] = specs
        if self.time_field is not None:
            written["timeFieldSpec"] = _TIME_FIELD.write((self.time_field, None))
        if self.primary_key_columns:
            written["primaryKeyColumns"] = list(self.primary_key_columns)
        return written

    def field(self, name: str) -> FieldSpec:
        """Return the column of exactly that name; raises KeyError."""
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The names of all declared columns."""
        return tuple(f.name for f in self.fields)

    @cached_property
    def stored_fields(self) -> tuple[FieldSpec, ...]:
        """The columns that segments hold."""
        return tuple(f for f in self.fields if not f.is_virtual)

    @cached_property
    def _by_name(self) -> dict[str, FieldSpec]:
        return {f.name: f for f in self.fields}

    def _is_time_field(self, spec: FieldSpec) -> bool:
        return (
            self.time_field is not None and spec.name == self.time_field.outgoing.name and spec.role is FieldRole.DATE_TIME
        )


def check_backward_compatible(old: Schema, new: Schema) -> None:
    """Raise InvalidConfigError, naming every breaking change, unless segments built with `old` can be read with `new`."""
    problems: list[str] = []
    for before in old.fields:
        if before.name not in new:
            hint = nearest(before.name, set(new.column_names) - set(old.column_names))
            problems.append(f"column '{before.name}' is gone; columns can be added but not removed or renamed.{hint}")
            continue
        after = new.field(before.name)
        if after.data_type is not before.data_type:
            problems.append(
                f"column '{before.name}' changes its type from {before.data_type.value} to {after.data_type.value}; "
                "add a new column instead"
            )
        if after.single_value != before.single_value:
            kinds = ("multi-value", "single-value")
            problems.append(
                f"column '{before.name}' changes from {kinds[before.single_value]} to {kinds[after.single_value]}"
            )
        problems += _child_changes(before, after)
    if old.primary_key_columns and old.primary_key_columns != new.primary_key_columns:
        problems.append(
            f"the primary key changes from {list(old.primary_key_columns)} to {list(new.primary_key_columns)}; "
            "it can be added but not changed"
        )
    if problems:
        raise InvalidConfigError(f"schema '{new.name}' is not compatible with what is stored: {'; '.join(problems)}")


def _child_changes(before: FieldSpec, after: FieldSpec) -> Iterator[str]:
    for name, child in before.child_fields.items():
        present = after.child_fields.get(name)
        if present is not None and present.data_type is not child.data_type:
            yield (
                f"the {name} of column '{before.name}' changes its type from {child.data_type.value} to "
                f"{present.data_type.value}; add a new column instead"
            )


# --- JSON -------------------------------------------------------------------------------------------------------------

_LISTS = {
    "dimensionFieldSpecs": FieldRole.DIMENSION,
    "metricFieldSpecs": FieldRole.METRIC,
    "dateTimeFieldSpecs": FieldRole.DATE_TIME,
    "complexFieldSpecs": FieldRole.COMPLEX,
}


_OF_COLUMN = ("name", "dataType", "timeType", "timeUnitSize", "timeunitSize", "timeFormat")


def _read_time_field(value: Any, at: At) -> tuple[TimeFieldSpec, FieldSpec | None]:
    spec = _TIME_FIELD_KEYS.read(_with_incoming(value), at)
    return spec, spec.to_field(at)


def _with_incoming(value: Any) -> Any:
    """Convert a time field that names its column itself, as in the first version, to the later form."""
    if not isinstance(value, dict) or "name" not in value or "incomingGranularitySpec" in value:
        return value
    own = {name: setting for name, setting in value.items() if name in _OF_COLUMN}
    return {"incomingGranularitySpec": own, **{name: value[name] for name in value if name not in own}}


@dataclass(frozen=True)
class _NamedTimeField(GranularitySpec):
    """The first form of a time field, which names its column itself."""

    default_null_value: Any = key("defaultNullValue", VERBATIM)
    transform_function: str | None = key("transformFunction", TEXT)


_TIME_FIELD_KEYS: Shape[TimeFieldSpec] = section(TimeFieldSpec)
_TIME_FIELD: Shape[tuple[TimeFieldSpec, FieldSpec | None]] = Shape(
    _read_time_field,
    lambda time_field: _TIME_FIELD_KEYS.write(time_field[0]),
    form=Form("either", items=(_TIME_FIELD_KEYS.form, section(_NamedTimeField).form)),
)


@dataclass(frozen=True)
class SchemaKeys:
    name: str = key("schemaName", TEXT, REQUIRED)
    description: str | None = key("description", REMARK)
    tags: tuple[str, ...] = key("tags", list_of(TEXT), ())
    column_nulls: bool = key("enableColumnBasedNullHandling", FLAG, False)
    dimensions: tuple[FieldSpec, ...] = key("dimensionFieldSpecs", list_of(field_spec_shape(FieldRole.DIMENSION)), ())
    metrics: tuple[FieldSpec, ...] = key("metricFieldSpecs", list_of(field_spec_shape(FieldRole.METRIC)), ())
    date_times: tuple[FieldSpec, ...] = key("dateTimeFieldSpecs", list_of(field_spec_shape(FieldRole.DATE_TIME)), ())
    time_field: tuple[TimeFieldSpec, FieldSpec] | None = key("timeFieldSpec", _TIME_FIELD)
    complex_fields: tuple[FieldSpec, ...] = key("complexFieldSpecs", list_of(COMPLEX_FIELD), ())
    primary_key_columns: tuple[str, ...] = key("primaryKeyColumns", COLUMNS, ())


def _to_schema(keys: SchemaKeys) -> Schema:
    time_fields: Iterable[FieldSpec] = () if keys.time_field is None else (keys.time_field[1],)
    return Schema(
        name=keys.name,
        fields=(*keys.dimensions, *keys.metrics, *keys.date_times, *time_fields, *keys.complex_fields),
        primary_key_columns=keys.primary_key_columns,
        enable_column_based_null_handling=keys.column_nulls,
        description=keys.description,
        tags=keys.tags,
        time_field=None if keys.time_field is None else keys.time_field[0],
    )

"""One column of a schema."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.parse import (
    EMPTY_MAP,
    FLAG,
    INTEGER,
    REMARK,
    REQUIRED,
    TEXT,
    TEXT_MAP,
    VERBATIM,
    At,
    Form,
    Shape,
    choice,
    key,
    list_of,
    section,
)
from gamay.model.schema.datetime_format import TIMESTAMP_FORMAT, DateTimeFormat, Granularity
from gamay.model.schema.default_null import (
    COLUMN_TYPES,
    NullValue,
    default_null_value,
    null_value_from_json,
    null_value_to_json,
)
from gamay.model.types import DataType, FieldRole

DEFAULT_MAX_LENGTH = 512
BY_TYPE: Any = None  # an argument for the default of the column's type and role
UNSUPPORTED_TYPES = ("LIST", "STRUCT", "OPEN_STRUCT")


class MaxLengthExceedStrategy(Enum):
    """The handling of STRING, JSON or BYTES values that are longer than the column's maximum."""

    TRIM_LENGTH = "TRIM_LENGTH"
    ERROR = "ERROR"
    SUBSTITUTE_DEFAULT_VALUE = "SUBSTITUTE_DEFAULT_VALUE"
    NO_ACTION = "NO_ACTION"


def default_strategy(data_type: DataType) -> MaxLengthExceedStrategy:
    """Return how a column of a type handles values that are too long, unless its spec says otherwise."""
    return MaxLengthExceedStrategy.TRIM_LENGTH if data_type is DataType.STRING else MaxLengthExceedStrategy.NO_ACTION


@dataclass(frozen=True)
class FieldSpec:
    """A column: name, type, role, and the stored value of missing or overlong ones.

    default_null_value: Python form as in `default_null.default_null_value`; BY_TYPE for the default of the role and type.
    max_length: the maximum of characters (STRING, JSON) or bytes (BYTES); other types ignore it.
    max_length_exceed_strategy: BY_TYPE for the default of the type.
    format, granularity: date-time columns only; a TIMESTAMP column's format is always `TIMESTAMP`.
    date_time_type: PRIMARY, SECONDARY or DERIVED, as in the first date-time columns; without effect.
    transform_function: the text of an expression that computes the column (older place; see `ingestion.transforms`).
    child_fields: for a MAP, the specs of its `key` and its `value`.
    """

    name: str
    data_type: DataType
    role: FieldRole = FieldRole.DIMENSION
    single_value: bool = True
    default_null_value: NullValue = BY_TYPE
    not_null: bool = False
    max_length: int = DEFAULT_MAX_LENGTH
    max_length_exceed_strategy: MaxLengthExceedStrategy = BY_TYPE
    allow_trailing_zeros: bool = False
    transform_function: str | None = None
    virtual_column_provider: str | None = None
    format: DateTimeFormat | None = None
    granularity: Granularity | None = None
    date_time_type: str | None = None
    sample_value: str | int | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    field_id: int | None = None
    aliases: tuple[str, ...] = ()
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    child_fields: Mapping[str, "FieldSpec"] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.default_null_value is BY_TYPE:
            object.__setattr__(self, "default_null_value", default_null_value(self.data_type, self.role))
        elif isinstance(self.default_null_value, float):
            object.__setattr__(self, "default_null_value", self.default_null_value + 0.0)  # normalises -0.0
        if self.max_length_exceed_strategy is BY_TYPE:
            object.__setattr__(self, "max_length_exceed_strategy", default_strategy(self.data_type))
        if self.role is FieldRole.DATE_TIME and self.data_type is DataType.TIMESTAMP and self.format is None:
            object.__setattr__(self, "format", TIMESTAMP_FORMAT)

    @property
    def is_virtual(self) -> bool:
        """Whether the column is computed at query time and never stored."""
        return bool(self.virtual_column_provider)

    def to_json(self) -> dict[str, Any]:
        """Return the spec in Pinot's form: defaults are omitted, except type and name."""
        written: dict[str, Any] = {"name": self.name, "dataType": self.data_type.value, "fieldType": self.role.value}
        optional: dict[str, tuple[Any, bool]] = {
            "singleValueField": (False, not self.single_value),
            "notNull": (True, self.not_null),
            "maxLength": (self.max_length, self.max_length != DEFAULT_MAX_LENGTH),
            "maxLengthExceedStrategy": (
                self.max_length_exceed_strategy.value,
                self.max_length_exceed_strategy is not default_strategy(self.data_type),
            ),
            "allowTrailingZeros": (True, self.allow_trailing_zeros),
            "defaultNullValue": (
                null_value_to_json(self.default_null_value, self.data_type),
                self.default_null_value != default_null_value(self.data_type, self.role),
            ),
            "transformFunction": (self.transform_function, self.transform_function is not None),
            "virtualColumnProvider": (self.virtual_column_provider, self.virtual_column_provider is not None),
            "format": (self.format and self.format.text, self.format is not None),
            "granularity": (self.granularity and self.granularity.text, self.granularity is not None),
            "dateTimeType": (self.date_time_type, self.date_time_type is not None),
            "sampleValue": (self.sample_value, self.sample_value is not None),
            "description": (self.description, self.description is not None),
            "tags": (list(self.tags), bool(self.tags)),
            "fieldId": (self.field_id, self.field_id is not None),
            "aliases": (list(self.aliases), bool(self.aliases)),
            "metadata": (dict(self.metadata), bool(self.metadata)),
            "childFieldSpecs": ({n: child.to_json() for n, child in self.child_fields.items()}, bool(self.child_fields)),
        }
        written.update({name: value for name, (value, given) in optional.items() if given})
        return written


# --- JSON -----------------------------------------------------------------------------------------------------------


def _read_data_type(value: Any, at: At) -> DataType:
    name = TEXT.read(value, at).strip().upper()
    if name == DataType.MAP.value:
        raise at.says("a MAP column stands in complexFieldSpecs, with childFieldSpecs for its key and its value")
    if name in UNSUPPORTED_TYPES:
        raise at.says(f"{name} columns are not supported; store the value as JSON text in a column of type JSON")
    accepted = [t.value for t in COLUMN_TYPES]
    if name not in accepted:
        raise at.bad(value, f"one of {', '.join(accepted)}.{nearest(name, accepted)}")
    return DataType(name)


def _read_sample_value(value: Any, at: At) -> str | int:
    return value if isinstance(value, int) and not isinstance(value, bool) else TEXT.read(value, at)


DEFAULT_VALUE: Shape[Any] = dataclasses.replace(VERBATIM, takes_empty=True)
_TAKES_EMPTY = (DataType.STRING, DataType.JSON, DataType.BYTES)
DATA_TYPE: Shape[DataType] = Shape(
    _read_data_type, lambda data_type: data_type.value, form=Form("choice", tuple(kind.value for kind in COLUMN_TYPES))
)


@dataclass(frozen=True)
class SpecKeys:
    """The keys of every field spec, before they are interpreted by type."""

    name: str = key("name", TEXT, REQUIRED)
    data_type: DataType = key("dataType", DATA_TYPE, REQUIRED)
    field_type: str | None = key("fieldType", choice("DIMENSION", "METRIC", "TIME", "DATE_TIME", "COMPLEX"))
    single_value: bool = key("singleValueField", FLAG, True)
    not_null: bool = key("notNull", FLAG, False)
    max_length: int = key("maxLength", INTEGER, DEFAULT_MAX_LENGTH)
    strategy: str | None = key("maxLengthExceedStrategy", choice(*(s.value for s in MaxLengthExceedStrategy)))
    allow_trailing_zeros: bool = key("allowTrailingZeros", FLAG, False)
    default_null_value: Any = key("defaultNullValue", DEFAULT_VALUE)
    transform_function: str | None = key("transformFunction", TEXT)
    virtual_column_provider: str | None = key("virtualColumnProvider", TEXT)
    description: str | None = key("description", REMARK)
    tags: tuple[str, ...] = key("tags", list_of(TEXT), ())
    field_id: int | None = key("fieldId", INTEGER)
    aliases: tuple[str, ...] = key("aliases", list_of(TEXT), ())
    metadata: Mapping[str, str] = key("metadata", TEXT_MAP, EMPTY_MAP)


@dataclass(frozen=True)
class _DateTimeSpecKeys(SpecKeys):
    format: str = key("format", TEXT, "")
    granularity: str = key("granularity", TEXT, "")
    date_time_type: str | None = key("dateTimeType", choice("PRIMARY", "SECONDARY", "DERIVED"))
    sample_value: str | int | None = key("sampleValue", Shape(_read_sample_value, lambda value: value, form=TEXT.form))


def field_spec_shape(role: FieldRole) -> Shape[FieldSpec]:
    """Return the shape of a field spec in the list of that role."""
    keys: Shape[Any] = section(_DateTimeSpecKeys if role is FieldRole.DATE_TIME else SpecKeys)

    def read(value: Any, at: At) -> FieldSpec:
        raw = keys.read(value, at)
        check_list(raw.field_type, role, at)
        return to_field_spec(raw, role, at)

    return Shape(read, FieldSpec.to_json, form=keys.form)


def check_list(field_type: str | None, role: FieldRole, at: At) -> None:
    """Raise BadValueError for a spec whose own role is not that of the list that contains it."""
    if field_type not in (None, role.value):
        raise at.child("fieldType").says(f"{field_type} stands in the list of {role.value} columns; move it to its own list")


def read_null_value(value: Any, data_type: DataType, at: At) -> NullValue:
    """Return the Python form of the `defaultNullValue` at a position, BY_TYPE if it is absent, or empty and not text."""
    if value is None or (value == "" and data_type not in _TAKES_EMPTY):
        return BY_TYPE  # type: ignore[no-any-return]
    try:
        return null_value_from_json(value, data_type)
    except ValueError as error:
        raise at.bad(value, f"a default of type {data_type.value}: {error}") from None


def to_field_spec(raw: Any, role: FieldRole, at: At, child_fields: Mapping[str, FieldSpec] | None = None) -> FieldSpec:
    """Return the column of parsed keys; raises BadValueError for an invalid default or format."""
    is_date_time = isinstance(raw, _DateTimeSpecKeys)
    return FieldSpec(
        name=raw.name,
        data_type=raw.data_type,
        role=role,
        single_value=raw.single_value,
        default_null_value=read_null_value(raw.default_null_value, raw.data_type, at.child("defaultNullValue")),
        not_null=raw.not_null,
        max_length=raw.max_length,
        max_length_exceed_strategy=MaxLengthExceedStrategy(raw.strategy)
        if raw.strategy
        else default_strategy(raw.data_type),
        allow_trailing_zeros=raw.allow_trailing_zeros,
        transform_function=raw.transform_function,
        virtual_column_provider=raw.virtual_column_provider,
        format=_read_format(raw, at) if is_date_time else None,
        granularity=_read_granularity(raw, at) if is_date_time else None,
        date_time_type=raw.date_time_type if is_date_time else None,
        sample_value=raw.sample_value if is_date_time else None,
        description=raw.description,
        tags=raw.tags,
        field_id=raw.field_id,
        aliases=raw.aliases,
        metadata=raw.metadata,
        child_fields=child_fields or {},
    )


def _read_format(raw: _DateTimeSpecKeys, at: At) -> DateTimeFormat:
    if raw.data_type is DataType.TIMESTAMP:
        return TIMESTAMP_FORMAT
    if not raw.format:
        raise at.says("the key 'format' is missing; a date-time column needs one, such as '1:MILLISECONDS:EPOCH'")
    try:
        return DateTimeFormat.parse(raw.format)
    except InvalidConfigError as error:
        raise at.child("format").says(str(error)) from None


def _read_granularity(raw: _DateTimeSpecKeys, at: At) -> Granularity:
    if not raw.granularity:
        raise at.says("the key 'granularity' is missing; a date-time column needs one, such as '1:MILLISECONDS'")
    try:
        return Granularity.parse(raw.granularity)
    except InvalidConfigError as error:
        raise at.child("granularity").says(str(error)) from None

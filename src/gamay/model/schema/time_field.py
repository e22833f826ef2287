"""The older `timeFieldSpec`: a time column in its incoming and its stored form."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.base.sql_names import quoted
from gamay.model.parse import INTEGER, REQUIRED, TEXT, VERBATIM, At, Shape, key, section
from gamay.model.schema.datetime_format import DateTimeFormat, Granularity
from gamay.model.schema.field_spec import DATA_TYPE, FieldSpec, read_null_value
from gamay.model.types import DataType, FieldRole
from gamay.model.units import TimeUnit


def _read_unit(value: Any, at: At) -> TimeUnit:
    try:
        return TimeUnit.parse(TEXT.read(value, at))
    except InvalidConfigError as error:
        raise at.says(str(error)) from None


TIME_UNIT: Shape[TimeUnit] = Shape(_read_unit, lambda unit: unit.name, form=TEXT.form)


@dataclass(frozen=True)
class GranularitySpec:
    """A time column in one of its two forms."""

    name: str = key("name", TEXT, REQUIRED)
    data_type: DataType = key("dataType", DATA_TYPE, REQUIRED)
    time_unit: TimeUnit = key("timeType", TIME_UNIT, REQUIRED)
    size: int = key("timeUnitSize", INTEGER, 1, aliases=["timeunitSize"])
    time_format: str = key("timeFormat", TEXT, "EPOCH")

    @property
    def is_epoch(self) -> bool:
        """Whether the column counts units since 1970."""
        return self.time_format == "EPOCH"

    @property
    def quoted(self) -> str:
        """The column's name in an expression, where a bare name may be an SQL keyword."""
        return quoted(self.name)


@dataclass(frozen=True)
class TimeFieldSpec:
    """The older time column; `to_field` returns the equivalent date-time column."""

    incoming: GranularitySpec = key("incomingGranularitySpec", section(GranularitySpec), REQUIRED)
    outgoing_given: GranularitySpec | None = key("outgoingGranularitySpec", section(GranularitySpec))
    default_null_value: Any = key("defaultNullValue", VERBATIM)
    transform_function: str | None = key("transformFunction", TEXT)

    @property
    def outgoing(self) -> GranularitySpec:
        """The stored form."""
        return self.outgoing_given or self.incoming

    def to_field(self, at: At) -> FieldSpec:
        """Return the date-time column; raises BadValueError if incoming cannot be converted to outgoing."""
        out = self.outgoing
        try:
            date_format = DateTimeFormat.parse(f"{out.size}:{out.time_unit.name}:{out.time_format}")
            granularity = Granularity.parse(f"{out.size}:{out.time_unit.name}")
        except InvalidConfigError as error:
            raise at.says(str(error)) from None
        return FieldSpec(
            name=out.name,
            data_type=out.data_type,
            role=FieldRole.DATE_TIME,
            default_null_value=read_null_value(self.default_null_value, out.data_type, at.child("defaultNullValue")),
            transform_function=self.transform_function or self._conversion(at),
            format=date_format,
            granularity=granularity,
        )

    def _conversion(self, at: At) -> str | None:
        """Return the expression that computes the outgoing value from the incoming column."""
        incoming, out = self.incoming, self.outgoing
        if incoming == out:
            return None
        if incoming.name == out.name:
            raise at.says(f"incoming and outgoing differ, so they need different names; both are '{out.name}'")
        if dataclasses.replace(incoming, name=out.name, data_type=out.data_type) == out:
            return incoming.quoted
        if not (incoming.is_epoch and out.is_epoch):
            raise at.says(
                "incoming and outgoing differ and are not both EPOCH; use a dateTimeFieldSpecs column and a transform"
            )
        return _from_millis(out, _to_millis(incoming, at), at)


def _to_millis(spec: GranularitySpec, at: At) -> str:
    if spec.time_unit is TimeUnit.MILLISECONDS and spec.size == 1:
        return spec.quoted
    if spec.size == 1:
        return f"fromEpoch{_suffix(spec, at)}({spec.quoted})"
    return f"fromEpoch{_suffix(spec, at)}Bucket({spec.quoted}, {spec.size})"


def _from_millis(spec: GranularitySpec, millis: str, at: At) -> str:
    if spec.time_unit is TimeUnit.MILLISECONDS and spec.size == 1:
        return millis
    if spec.size == 1:
        return f"toEpoch{_suffix(spec, at)}({millis})"
    return f"toEpoch{_suffix(spec, at)}Bucket({millis}, {spec.size})"


def _suffix(spec: GranularitySpec, at: At) -> str:
    if spec.time_unit not in (TimeUnit.SECONDS, TimeUnit.MINUTES, TimeUnit.HOURS, TimeUnit.DAYS):
        raise at.says(
            f"a time column of {spec.size} {spec.time_unit.name} cannot be converted; "
            "use a dateTimeFieldSpecs column and a transform"
        )
    return spec.time_unit.name.capitalize()

"""The timestamp index: derived columns with the times of another column truncated to units, such as `$ts$DAY` for `ts`.

Such a column is of type TIMESTAMP, and equals `dateTrunc('DAY', ts)` in each row. It is not part of the schema.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gamay.model.index.indexing import GRANULARITIES, FieldConfig
from gamay.model.schema.datetime_format import TIMESTAMP_FORMAT, Granularity
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType, FieldRole

INDEXED_TYPES = (DataType.LONG, DataType.TIMESTAMP)
"""Types of columns that can have the index; a LONG is a count of milliseconds since the epoch."""

MILLIS_SUFFIX = ":LONG"
"""The suffix of the name of such a column where a segment shows it as LONG, which is the type of dateTrunc."""

_NAME = re.compile(r"\$(.+)\$([A-Za-z]+)")


@dataclass(frozen=True, slots=True)
class TimestampColumn:
    """A column that a timestamp index derives: the times of the column `base`, truncated to one of GRANULARITIES."""

    base: str
    granularity: str

    @property
    def name(self) -> str:
        return f"${self.base}${self.granularity}"

    @property
    def millis_name(self) -> str:
        """Its name as LONG."""
        return self.name + MILLIS_SUFFIX

    @property
    def spec(self) -> FieldSpec:
        """The column as a field of a schema."""
        every_ms = Granularity.parse("1:MILLISECONDS")
        return FieldSpec(self.name, DataType.TIMESTAMP, FieldRole.DATE_TIME, format=TIMESTAMP_FORMAT, granularity=every_ms)


def timestamp_column(name: str) -> TimestampColumn | None:
    """Parse a name such as `$ts$DAY`; return None for other names. The granularity is case-insensitive."""
    match = _NAME.fullmatch(name)
    granularity = match[2].upper() if match else ""
    return TimestampColumn(match[1], granularity) if match and granularity in GRANULARITIES else None


def has_timestamps(spec: FieldSpec) -> bool:
    """Whether a column can have a timestamp index."""
    return spec.single_value and spec.data_type in INDEXED_TYPES


def timestamp_columns(schema: Schema, declared: FieldConfig | None, spec: FieldSpec) -> Iterator[TimestampColumn]:
    """Yield the columns to derive from a column, finer granularities first.

    Declarations that `gamay.model.rules.indexes` refuses, but older stored tables may have, are skipped.
    """
    if declared is None or declared.timestamp is None or not has_timestamps(spec):
        return
    for granularity in GRANULARITIES:
        derived = TimestampColumn(spec.name, granularity)
        if granularity in declared.timestamp.granularities and derived.name not in schema:
            yield derived

"""Declared types and ranges of the fields of `metadata.json`; `check_shape` rejects all others."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from gamay.model.index.timestamp_index import TimestampColumn, timestamp_column

_INT64 = 2**63 - 1
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Values: TypeAlias = Annotated[int, Meta(ge=0, le=2**40)]
_Bytes: TypeAlias = Annotated[int, Meta(ge=0, le=2**48)]
_Crc: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
_Millis: TypeAlias = Annotated[int, Meta(ge=-_INT64, le=_INT64)]
_Name: TypeAlias = Annotated[str, Meta(min_length=1)]


class _Partition(Struct, rename="camel"):
    function_name: _Name
    num_partitions: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    partitions: list[_Count]
    function_config: dict[str, str]


class _Frame(Struct):
    base: Annotated[int, Meta(ge=-(2**63), le=_INT64)]
    exponent: Annotated[int, Meta(ge=0, le=15)]
    divides: bool


class _Column(Struct, rename="camel"):
    """One entry of `columns`; `min`, `max` and `total` depend on its type, and are checked when they are read."""

    name: _Name
    data_type: _Name
    single_value: bool
    encoding: _Name
    id_bits: Annotated[int, Meta(ge=1, le=32)] | None
    packed: bool
    codec: str | None
    cardinality: _Count | None
    min: Any
    max: Any
    total: float | str | None
    sorted: bool
    num_values: _Values
    max_values_per_row: _Count
    num_nulls: _Count
    partition: _Partition | None
    buffers: list[tuple[_Name, _Bytes, _Bytes, _Crc]]
    frame: _Frame | None = None
    reason: str = ""


class _Segment(Struct, rename="camel"):
    name: _Name
    table: str
    crc: _Crc
    creation_time_ms: _Millis
    num_docs: _Count
    time_column: str | None
    start_time_ms: _Millis | None
    end_time_ms: _Millis | None
    start_time_raw: Any
    end_time_raw: Any
    columns: list[_Column]
    timestamp_columns: dict[_Name, tuple[_Name, _Name]] = msgspec.field(default_factory=dict)


# msgspec inspects the fields of a type on first use, and crashes when two threads do so concurrently, as when segments are
# loaded in parallel. Creating a decoder here inspects them at import.
msgspec.json.Decoder(_Segment)


def check_shape(document: Any) -> None:
    """Raise ValueError, with the path of the field, for a document of another shape."""
    try:
        segment = msgspec.convert(document, _Segment)
    except msgspec.ValidationError as reason:
        raise ValueError(str(reason)) from None
    names = [column.name for column in segment.columns]
    if len(set(names)) < len(names):
        raise ValueError("a column is listed twice")
    for name, (base, granularity) in segment.timestamp_columns.items():
        if timestamp_column(name) != TimestampColumn(base, granularity) or not {name, base} <= set(names):
            raise ValueError(f"'{name}' is not a column that a timestamp index derives from column '{base}'")

"""Metrics that are aggregated while a segment consumes: `aggregateMetrics` and `aggregationConfigs`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.schema import Schema
from gamay.model.table_config import TableConfig
from gamay.model.types import DataType, FieldRole

_CALL = re.compile(r'\s*(\w+)\s*\(\s*(\*|"[^"]+"|[^\s()",]+)\s*\)\s*')
ROLLED_UP_TYPES = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE)


class RollupFunction(Enum):
    """How a row's value joins that of the row with the same dimensions."""

    SUM = "SUM"
    MIN = "MIN"
    MAX = "MAX"
    COUNT = "COUNT"


@dataclass(frozen=True, slots=True)
class Rollup:
    """One metric. source: the input column whose values are aggregated; None for COUNT, which counts rows."""

    metric: str
    function: RollupFunction
    source: str | None


def parse_rollup(metric: str, text: str) -> Rollup:
    """Read an `aggregationFunction` such as `SUM(price)`; raises InvalidConfigError."""
    what = f"the aggregationFunction '{text}' of '{metric}'"
    found = _CALL.fullmatch(text)
    names = [function.value for function in RollupFunction]
    if found is None:
        raise InvalidConfigError(f"{what} must be a function of one column, such as SUM(price)")
    name, argument = found[1].replace("_", "").upper(), found[2].strip('"')
    if name not in names:
        raise InvalidConfigError(f"{what} cannot be kept up while rows come; use {', '.join(names)}.{nearest(name, names)}")
    if argument == "*" and name != "COUNT":
        raise InvalidConfigError(f"{what} must name a column")
    function = RollupFunction(name)
    return Rollup(metric, function, None if function is RollupFunction.COUNT else argument)


def rollups_of(schema: Schema, config: TableConfig) -> tuple[Rollup, ...]:
    """Return how each metric is aggregated, none for a table that keeps every row; raises InvalidConfigError."""
    if config.ingestion.aggregations:
        return tuple(parse_rollup(a.column_name, a.aggregation_function) for a in config.ingestion.aggregations)
    if not config.indexing.aggregate_metrics:
        return ()
    metrics = [spec.name for spec in schema.stored_fields if spec.role is FieldRole.METRIC]
    return tuple(Rollup(name, RollupFunction.SUM, name) for name in metrics)


def rollup_problems(schema: Schema, config: TableConfig) -> Iterator[str]:
    """Yield a sentence for everything that keeps rows with equal dimensions from being merged."""
    for spec in schema.stored_fields:
        if not spec.single_value:
            yield f"metrics cannot be aggregated during ingestion beside the multi-value column '{spec.name}'"
        has_dictionary = config.column_index(schema, spec.name).dictionary
        if spec.role is FieldRole.METRIC:
            if has_dictionary:
                yield f"the metric '{spec.name}' is aggregated during ingestion and must be in noDictionaryColumns"
            if spec.data_type not in ROLLED_UP_TYPES:
                names = ", ".join(t.value for t in ROLLED_UP_TYPES)
                yield f"the metric '{spec.name}' is aggregated during ingestion and must be one of {names}"
        elif not has_dictionary:
            yield (
                f"the column '{spec.name}' must have a dictionary: metrics are aggregated during ingestion, and rows are "
                "merged by the dictionary ids of their dimensions"
            )

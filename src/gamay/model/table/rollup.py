"""Metrics that are aggregated while a segment consumes: `aggregateMetrics` and `aggregationConfigs`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.schema.schema import Schema
from gamay.model.table.sketch_limits import HLL_PLUS_PRECISION_RANGE, LOG2M_RANGE, SPARSE_PRECISION_MAX
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole

_CALL = re.compile(r'\s*(\w+)\s*\(\s*(\*|"[^"]+"|[^\s()",]+)\s*((?:,\s*[^\s(),]+\s*)*)\)\s*')
_NUMBERS = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE)
_PRECISION_MAX = 1000
_SCALE_MAX = 1000


class RollupFunction(Enum):
    """A function that aggregates a row's value into that of the row with equal dimensions."""

    SUM = "SUM"
    MIN = "MIN"
    MAX = "MAX"
    COUNT = "COUNT"
    DISTINCT_COUNT_HLL = "DISTINCTCOUNTHLL"
    DISTINCT_COUNT_HLL_PLUS = "DISTINCTCOUNTHLLPLUS"
    SUM_PRECISION = "SUMPRECISION"

    @property
    def is_sketch(self) -> bool:
        """Whether the metric holds serialised sketches."""
        return self in (RollupFunction.DISTINCT_COUNT_HLL, RollupFunction.DISTINCT_COUNT_HLL_PLUS)

    @property
    def metric_types(self) -> tuple[DataType, ...]:
        """The valid types of a metric with this function."""
        if self.is_sketch:
            return (DataType.BYTES,)
        return (DataType.BIG_DECIMAL, DataType.BYTES) if self is RollupFunction.SUM_PRECISION else _NUMBERS


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    numbers: range
    required: bool = False


_PARAMETERS: Mapping[RollupFunction, tuple[_Parameter, ...]] = {
    RollupFunction.DISTINCT_COUNT_HLL: (_Parameter("log2m", LOG2M_RANGE),),
    RollupFunction.DISTINCT_COUNT_HLL_PLUS: (
        _Parameter("p", HLL_PLUS_PRECISION_RANGE),
        _Parameter("sp", range(SPARSE_PRECISION_MAX + 1)),
    ),
    RollupFunction.SUM_PRECISION: (
        _Parameter("precision", range(1, _PRECISION_MAX + 1), required=True),
        _Parameter("scale", range(-_SCALE_MAX, _SCALE_MAX + 1)),
    ),
}


@dataclass(frozen=True, slots=True)
class Rollup:
    """The aggregation of one metric.

    source: the input column whose values are aggregated; None for COUNT, which counts rows. parameters: those given, in
    the order of the call: `log2m`; `p`, `sp`; `precision`, `scale`.
    """

    metric: str
    function: RollupFunction
    source: str | None
    parameters: tuple[int, ...] = ()


def parse_rollup(metric: str, text: str) -> Rollup:
    """Parse an `aggregationFunction` such as `SUM(price)`; raises InvalidConfigError."""
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
    parameters = _parameters(function, [part.strip().strip("'") for part in found[3].split(",")[1:]], what)
    return Rollup(metric, function, None if function is RollupFunction.COUNT else argument, parameters)


def _parameters(function: RollupFunction, given: list[str], what: str) -> tuple[int, ...]:
    known = _PARAMETERS.get(function, ())
    if len(given) > len(known):
        most = ", ".join(["the column", *(parameter.name for parameter in known)])
        raise InvalidConfigError(f"{what} has too many arguments; {function.value} takes {most}")
    for parameter in known[len(given) :]:
        if parameter.required:
            raise InvalidConfigError(
                f"{what} needs its {parameter.name}, which tells how much room a value takes: "
                f"{function.value}(column, {parameter.name})"
            )
    numbers = []
    for parameter, text in zip(known, given, strict=False):
        number = int(text) if re.fullmatch(r"-?\d{1,9}", text) else None
        if number is None or number not in parameter.numbers:
            first, last = parameter.numbers[0], parameter.numbers[-1]
            raise InvalidConfigError(f"{what}: {parameter.name} must be a whole number from {first} to {last}, not '{text}'")
        numbers.append(number)
    if function is RollupFunction.DISTINCT_COUNT_HLL_PLUS and len(numbers) == 2 and 0 < numbers[1] < numbers[0]:
        raise InvalidConfigError(f"{what}: sp must be 0 or at least p, not {numbers[1]} with p {numbers[0]}")
    return tuple(numbers)


def rollups_of(schema: Schema, config: TableConfig) -> tuple[Rollup, ...]:
    """Return how each metric is aggregated, empty for a table that keeps every row; raises InvalidConfigError."""
    if config.ingestion.aggregations:
        return tuple(parse_rollup(a.column_name, a.aggregation_function) for a in config.ingestion.aggregations)
    if not config.indexing.aggregate_metrics:
        return ()
    metrics = [spec.name for spec in schema.stored_fields if spec.role is FieldRole.METRIC]
    return tuple(Rollup(name, RollupFunction.SUM, name) for name in metrics)


def rollup_problems(schema: Schema, config: TableConfig) -> Iterator[str]:
    """Yield a sentence for each reason why rows with equal dimensions cannot be merged.

    An invalid function has no sentence here: `parse_rollup` reports it.
    """
    functions = _functions_of_metrics(schema, config)
    for spec in schema.stored_fields:
        if not spec.single_value:
            yield f"metrics cannot be aggregated during ingestion beside the multi-value column '{spec.name}'"
        has_dictionary = config.column_index(schema, spec.name).dictionary
        if spec.role is FieldRole.METRIC:
            if has_dictionary:
                yield f"the metric '{spec.name}' is aggregated during ingestion and must be in noDictionaryColumns"
            function = functions.get(spec.name)
            if function is not None and spec.data_type not in function.metric_types:
                names = ", ".join(t.value for t in function.metric_types)
                yield (
                    f"the metric '{spec.name}' is aggregated during ingestion by {function.value} and must be one of "
                    f"{names}, not {spec.data_type.value}"
                )
        elif not has_dictionary:
            yield (
                f"the column '{spec.name}' must have a dictionary: metrics are aggregated during ingestion, and rows are "
                "merged by the dictionary ids of their dimensions"
            )


def _functions_of_metrics(schema: Schema, config: TableConfig) -> dict[str, RollupFunction]:
    found = {}
    for aggregation in config.ingestion.aggregations:
        try:
            rollup = parse_rollup(aggregation.column_name, aggregation.aggregation_function)
        except InvalidConfigError:
            continue
        found[rollup.metric] = rollup.function
    if config.ingestion.aggregations:
        return found
    return {rollup.metric: rollup.function for rollup in rollups_of(schema, config)}

"""The input fields that a table reads, so that decoders can skip the others."""

from collections.abc import Iterator

from gamay.base.errors import InvalidConfigError, QueryError
from gamay.functions.expression import column_names
from gamay.ingest.stream.spi import ALL_FIELDS, InputFields
from gamay.ingest.transform.map_pairs import MapPairs
from gamay.model.schema.schema import Schema
from gamay.model.table.rollup import RollupFunction, parse_rollup
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression


def input_fields(schema: Schema, table: TableConfig) -> InputFields:
    """Return the fields to decode: the schema's columns and the fields read by the ingestion config's expressions.

    If nested input is flattened, these are all fields. Types in `sourceFieldConfigs` override those of columns.
    """
    if table.ingestion.complex_type is not None:
        return ALL_FIELDS
    declared = {c.name: c.data_type.upper() for c in table.ingestion.source_fields}
    names = {spec.name for spec in schema.stored_fields} | declared.keys() | set(MapPairs(schema).sources)
    for text in _expressions(schema, table):
        try:
            names.update(column_names(parse_expression(text)))
        except QueryError:  # the pipeline refuses it with the right words
            continue
    types = {spec.name: spec.data_type for spec in schema.stored_fields}
    multi_value = {spec.name for spec in schema.stored_fields if not spec.single_value}
    for name, kind in declared.items():
        types.pop(name, None)
        multi_value.discard(name)
        if kind in DataType.__members__:
            types[name] = DataType[kind]
    counted, summed = _aggregated_sources(table)
    types |= dict.fromkeys(summed - counted - types.keys() - declared.keys(), DataType.BIG_DECIMAL)
    as_written = counted - types.keys() - declared.keys()
    return InputFields(frozenset(names), types, frozenset(multi_value), frozenset(as_written))


def _aggregated_sources(table: TableConfig) -> tuple[set[str], set[str]]:
    """Return the fields that are aggregated into sketches during ingestion, and those aggregated by SUMPRECISION."""
    counted, summed = set(), set()
    for aggregation in table.ingestion.aggregations:
        try:
            rollup = parse_rollup(aggregation.column_name, aggregation.aggregation_function)
        except InvalidConfigError:  # the pipeline refuses it with the right words
            continue
        if rollup.source is not None and rollup.function.is_sketch:
            counted.add(rollup.source)
        elif rollup.source is not None and rollup.function is RollupFunction.SUM_PRECISION:
            summed.add(rollup.source)
    return counted, summed


def _expressions(schema: Schema, table: TableConfig) -> Iterator[str]:
    ingestion = table.ingestion
    yield from (t.transform_function for t in ingestion.transforms)
    yield from (spec.transform_function for spec in schema.stored_fields if spec.transform_function)
    yield from (a.aggregation_function for a in ingestion.aggregations)
    if ingestion.filter_function:
        yield ingestion.filter_function
    for enrichment in ingestion.enrichments:
        functions = (enrichment.properties or {}).get("fieldToFunctionMap", {})
        yield from (str(text) for text in functions.values())

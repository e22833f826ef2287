"""The definition of a star-tree: its config, bound as the query that computes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gamay.base.errors import InvalidConfigError, QueryError
from gamay.functions.expression import Column, Expression, column_names
from gamay.functions.text import to_text
from gamay.model.index.indexing import StarTreeConfig
from gamay.model.index.timestamp_index import timestamp_column
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole
from gamay.query.bind.aggregates import BoundAggregate
from gamay.query.bind.binder import BoundQuery, bind
from gamay.segment.encode.metadata import ColumnMeta, Encoding
from gamay.sql.parser import parse_query

_DEFAULT_CARDINALITY_MAX = 10_000
_TIMES = (FieldRole.DATE_TIME, FieldRole.TIME)
_DEFAULT_LEAF_RECORDS = 10_000
# Constant arguments, in order, by function, for functions that accept any; without the percentile, which does not affect the
# partial: one tree answers all percentiles.
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "distinctcounthll": ("log2m",),
    "distinctcounthllplus": ("p", "sp"),
    "distinctcountull": ("p",),
    "distinctcountcpcsketch": ("lgK",),
    "sumprecision": ("precision", "scale"),
    "percentiletdigest": ("compressionFactor",),
    "percentilekll": ("K",),
}
_NOMINAL_ENTRIES = "nominalEntries"
_PERCENTILES = ("percentileest", "percentiletdigest", "percentilekll")
_ANY_PERCENTILE = "50"


@dataclass(frozen=True)
class TreeDefinition:
    """One star-tree of a table, bound to its schema.

    config: in its JSON form, to recognise a tree that already exists. bound: the query `SELECT count(*), <aggregates> GROUP
    BY <dimensions>` whose groups are the tree's finest records. unstarred: positions of dimensions that every cuboid keeps.
    leaf_records: cuboids of up to this many records are not reduced further.
    """

    config: Mapping[str, Any]
    bound: BoundQuery
    unstarred: frozenset[int]
    leaf_records: int

    @property
    def dimensions(self) -> tuple[Expression, ...]:
        return self.bound.rows

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The position of each dimension, by its name."""
        return {to_text(dimension): place for place, dimension in enumerate(self.dimensions)}

    @cached_property
    def reads(self) -> frozenset[str]:
        """The columns from which the dimensions are computed."""
        return frozenset(name for dimension in self.dimensions for name in column_names(dimension))

    @cached_property
    def by_expression(self) -> dict[Expression, Expression]:
        """For each computed dimension, the column that replaces it in the tree."""
        return {dimension: Column(to_text(dimension)) for dimension in self.dimensions if not isinstance(dimension, Column)}

    @property
    def aggregates(self) -> tuple[BoundAggregate, ...]:
        return self.bound.aggregates


def tree_definitions(schema: Schema, config: TableConfig, columns: Mapping[str, ColumnMeta]) -> Iterator[TreeDefinition]:
    """Yield the trees that a segment with these columns should have; raises InvalidConfigError for an invalid tree."""
    indexing = config.indexing
    for position, tree in enumerate(indexing.star_tree_configs):
        yield define(schema, tree, f"starTreeIndexConfigs[{position}]")
    default = _default_tree(schema, columns) if indexing.enable_default_star_tree else None
    if default is not None:
        yield define(schema, default, "the default star-tree")


def _default_tree(schema: Schema, columns: Mapping[str, ColumnMeta]) -> StarTreeConfig | None:
    """Return the tree of `enableDefaultStarTree`: dimensions with few values, then times, by descending cardinality."""
    of_role: dict[bool, list[tuple[int, str]]] = {False: [], True: []}
    for spec in schema.stored_fields:
        column = columns.get(spec.name)
        if column is None or not spec.single_value or column.encoding is not Encoding.DICTIONARY:
            continue
        cardinality = column.stats.cardinality or 0
        if spec.role in (FieldRole.DIMENSION, *_TIMES) and cardinality <= _DEFAULT_CARDINALITY_MAX:
            of_role[spec.role in _TIMES].append((-cardinality, spec.name))
    dimensions = [name for found in of_role.values() for _, name in sorted(found)]
    if not dimensions:
        return None
    metrics = [
        s.name for s in schema.stored_fields if s.role is FieldRole.METRIC and s.single_value and s.data_type.is_numeric
    ]
    return StarTreeConfig(tuple(dimensions), function_column_pairs=("COUNT__*", *(f"SUM__{name}" for name in metrics)))


def define(schema: Schema, tree: StarTreeConfig, where: str) -> TreeDefinition:
    """Bind a tree's config; `where` names it in errors. Raises InvalidConfigError."""
    aggregates = list(dict.fromkeys(["count(*)", *_aggregate_texts(schema, tree)]))
    names = tree.dimensions_split_order
    config = {
        "dimensions": [_term(schema, name) for name in names],
        "skipStarNodeCreation": [names.index(name) for name in tree.skip_star_node_creation],
        "aggregates": aggregates,
        "maxSizeRatio": tree.max_size_ratio,
        "maxLeafRecords": tree.max_leaf_records if tree.max_leaf_records > 0 else _DEFAULT_LEAF_RECORDS,
    }
    try:
        definition = bound_definition(schema, config)
    except QueryError as error:
        raise InvalidConfigError(f"{where}: {error}") from None
    if definition.bound.scores:
        raise InvalidConfigError(f"{where}: {next(iter(definition.bound.scores))} is computed for each query, not kept")
    for row, (data_type, is_multi_value) in zip(definition.dimensions, definition.bound.row_types, strict=True):
        if is_multi_value or data_type in (DataType.MAP, DataType.OBJECT, DataType.UNKNOWN):
            raise InvalidConfigError(f"{where}: {to_text(row)} cannot be a dimension: it is no single value")
    return definition


def bound_definition(schema: Schema, config: Mapping[str, Any]) -> TreeDefinition:
    """Bind a `TreeDefinition.config` read from a tree's file; raises QueryError for columns that no longer exist."""
    dimensions, aggregates = config["dimensions"], config["aggregates"]
    text = f"SELECT {', '.join(aggregates)} FROM t GROUP BY {', '.join(dimensions)}"  # noqa: S608 - of the table's owner
    bound = bind(parse_query(text), schema)
    return TreeDefinition(config, bound, frozenset(config["skipStarNodeCreation"]), config["maxLeafRecords"])


def _term(schema: Schema, name: str) -> str:
    """Return a column or an expression of a config as SQL; `$ts$DAY` is the timestamp index's name for the days of `ts`."""
    derived = None if name in schema else timestamp_column(name)
    if derived is not None:
        return f"dateTrunc('{derived.granularity}', {_term(schema, derived.base)})"
    return '"' + name.replace('"', '""') + '"' if name in schema else name


def _aggregate_texts(schema: Schema, tree: StarTreeConfig) -> Iterator[str]:
    for pair in tree.function_column_pairs:
        function, _, column = pair.partition("__")
        yield _aggregate_text(schema, function, column, {})
    for aggregation in tree.aggregations:
        given = dict(aggregation.function_parameters or {})
        yield _aggregate_text(schema, aggregation.aggregation_function, aggregation.column_name or "*", given)


def _aggregate_text(schema: Schema, function: str, column: str, parameters: Mapping[str, Any]) -> str:
    name = function.lower().replace("_", "")
    if column == "*":
        return f"{name}(*)"
    plain = name.replace("raw", "")
    arguments = [_term(schema, column)]
    if plain in _PERCENTILES:
        arguments.append(_ANY_PERCENTILE)
    known = _PARAMETERS.get(plain, ())
    if _NOMINAL_ENTRIES in parameters and not known:
        size = parameters[_NOMINAL_ENTRIES]
        arguments.append(f"'{_NOMINAL_ENTRIES}={size}'" if "theta" in plain else str(size))
        known = (_NOMINAL_ENTRIES,)
    else:
        arguments += [str(parameters[key]) for key in known if key in parameters]
    if unknown := [key for key in parameters if key not in known]:
        raise InvalidConfigError(
            f"aggregationConfigs: {function} has no parameter '{unknown[0]}'; it takes {', '.join(known) or 'none'}"
        )
    return f"{name}({', '.join(arguments)})"

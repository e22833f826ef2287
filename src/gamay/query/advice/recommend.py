"""Index recommendations for a planned table, from its schema, cardinalities and weighted queries.

Input and output have the format of Pinot's `PUT /tables/recommender`; the recommendations follow from the conditions of the
queries and the capabilities of Gamay's indexes.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.model.index.kinds import COMPOUND_INVERTED
from gamay.model.schema.schema import Schema
from gamay.model.types import FieldRole
from gamay.query.advice.indexes import Candidate, Candidates, candidates
from gamay.query.bind.predicate import In
from gamay.query.startree.advice import ColumnSize, advise

# A bloom filter prunes if each segment holds a small part of a column's values; so does a partition.
_MANY_VALUES = 1000
_LISTS = {
    "inverted": "invertedIndexColumns",
    "range": "rangeIndexColumns",
    "json": "jsonIndexColumns",
    "text": "textIndexColumns",
    "fst": "fstIndexColumns",
}


def recommend(document: Any) -> dict[str, Any]:
    """Return a recommendation for `{"schema": …, "queriesWithWeights": {sql: weight}}`.

    Field specs may have a `cardinality`, the number of distinct values; star-trees and compound indexes are
    recommended for columns with one. Other keys of Pinot's input are accepted and have no effect. Raises InvalidConfigError.
    """
    schema, cardinalities, weights = _input(document)

    def share(conditions: Sequence[In]) -> float | None:
        """Return the fraction of matching rows, assuming equally frequent values and independent columns."""
        if not all(one.column in cardinalities for one in conditions):
            return None
        return prod(min(1.0, len(one.values) / cardinalities[one.column]) for one in conditions)

    found = candidates(weights, schema, {}, share)
    votes = _votes(found.by_query, weights)
    sorted_column = _sorted_column(votes, schema)
    compounds = [one for one in votes if one.kind == COMPOUND_INVERTED]
    lists: dict[str, list[str]] = {name: [] for name in _LISTS.values()}
    needed = {sql: [one for one in wanted if one not in found.covered[sql]] for sql, wanted in found.by_query.items()}
    for one in _votes(needed, weights):
        if one.kind != COMPOUND_INVERTED and (one.columns != (sorted_column,) or one.kind not in ("inverted", "range")):
            lists[_LISTS[one.kind]].extend(one.columns)
    inverted = [column for one in votes if one.kind == "inverted" for column in one.columns]
    compared = [column for column in inverted if cardinalities.get(column, 0) >= _MANY_VALUES]
    sizes = {spec.name: ColumnSize(spec.single_value, cardinalities.get(spec.name)) for spec in schema.stored_fields}
    read = {name for names in found.filtered.values() for name in names}
    return {
        "indexConfig": {
            **lists,
            "compoundInvertedIndexConfigs": [{"columns": list(one.columns)} for one in compounds],
            "sortedColumn": sorted_column,
            "bloomFilterColumns": compared,
            "noDictionaryColumns": [
                spec.name for spec in schema.stored_fields if spec.role is FieldRole.METRIC and spec.name not in read
            ],
            "starTreeIndexConfigs": advise(schema, sizes, weights).trees,
        },
        "partitionConfig": {"partitionDimension": compared[0] if compared else None},
        "flaggedQueries": {"flaggedQueries": _flagged(found)},
    }


def _input(document: Any) -> tuple[Schema, dict[str, int], dict[str, float]]:
    if not isinstance(document, dict) or not isinstance(document.get("schema"), dict):
        raise InvalidConfigError('the input has no schema; expected {"schema": {…}, "queriesWithWeights": {"SELECT …": 1}}')
    weights = document.get("queriesWithWeights")
    if not isinstance(weights, dict) or not weights or not all(_is_number(weight) for weight in weights.values()):
        raise InvalidConfigError("'queriesWithWeights' must be an object of queries and their weights, at least one")
    own = dict(document["schema"])
    cardinalities: dict[str, int] = {}
    for key in ("dimensionFieldSpecs", "metricFieldSpecs", "dateTimeFieldSpecs"):
        specs = own.get(key)
        if isinstance(specs, list):
            own[key] = [_without_sizes(spec, cardinalities) for spec in specs]
    return Schema.from_json(own).value, cardinalities, {str(sql): float(weight) for sql, weight in weights.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _without_sizes(spec: Any, cardinalities: dict[str, int]) -> Any:
    """Remove the statistics from a field spec, and record its cardinality."""
    if not isinstance(spec, dict):
        return spec
    cardinality = spec.get("cardinality")
    if cardinality is not None:
        if not _is_number(cardinality) or cardinality < 1:
            raise InvalidConfigError(f"the cardinality of '{spec.get('name')}' must be a whole number from 1")
        cardinalities[str(spec.get("name"))] = int(cardinality)
    sizes = ("cardinality", "numValuesPerEntry", "averageLength", "minLength", "maxLength")
    return {key: value for key, value in spec.items() if key not in sizes}


def _votes(by_query: Mapping[str, Sequence[Candidate]], weights: Mapping[str, float]) -> list[Candidate]:
    """Return the candidates in descending order of their queries' weights."""
    votes: dict[Candidate, float] = {}
    for sql, wanted in by_query.items():
        for one in wanted:
            votes[one] = votes.get(one, 0.0) + weights[sql]
    return sorted(votes, key=lambda one: -votes[one])


def _sorted_column(votes: list[Candidate], schema: Schema) -> str | None:
    """Return the single-value column by which to sort, for the heaviest comparisons."""
    compared = (column for one in votes if one.kind in ("inverted", "range") for column in one.columns)
    return next((column for column in compared if schema.field(column).single_value), None)


def _flagged(found: Candidates) -> dict[str, dict[str, str]]:
    refused = {sql: {"ERROR": reason} for sql, reason in found.refused.items()}
    unfiltered = [sql for sql, names in found.filtered.items() if not names]
    return refused | {sql: {"WARNING": "it has no filter, so it reads all rows"} for sql in unfiltered}

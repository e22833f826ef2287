"""Compound inverted indexes in table configs: valid and invalid declarations, and dictionaries kept for their columns."""

from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.model.rules.validation import validate_table_config
from gamay.model.rules.without_effect import without_effect
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.secondary_indexes import IndexDeclaration, declared_indexes
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole

SCHEMA = Schema(
    "t",
    (
        FieldSpec("country", DataType.STRING),
        FieldSpec("device", DataType.STRING),
        FieldSpec("tags", DataType.STRING, single_value=False),
        FieldSpec("m", DataType.MAP),
        FieldSpec("n", DataType.INT),
        FieldSpec("price", DataType.DOUBLE, role=FieldRole.METRIC),
    ),
)


def config(*columns: list[str], fields: tuple[dict[str, Any], ...] = (), **indexing: Any) -> TableConfig:
    compound = {"compoundInvertedIndexConfigs": [{"columns": each} for each in columns]}
    document = {"tableIndexConfig": {**compound, **indexing}, "fieldConfigList": list(fields)}
    return TableConfig.from_json(TableConfig.offline("t").to_json() | document).value


def test_an_index_is_declared_in_the_order_of_its_columns() -> None:
    given = config(["device", "country"], ["country", "device", "n"])
    validate_table_config(given, SCHEMA)
    assert declared_indexes(given, SCHEMA) == (
        IndexDeclaration("compound_inverted", ("device", "country"), {}),
        IndexDeclaration("compound_inverted", ("country", "device", "n"), {}),
    )
    assert TableConfig.from_json(given.to_json()).value == given
    assert not list(without_effect(given))


RAW = {"name": "n", "encodingType": "RAW"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (config(["country", "devise"]), r"compoundInvertedIndexConfigs\[0\] .*'devise'.*'device'"),
        (config(["country", "device"], ["n"]), r"Configs\[1\] has 1 columns; a compound inverted index has two or three"),
        (config([]), r"Configs\[0\] has 0 columns"),
        (config(["country", "device", "n", "price"]), "has 4 columns"),
        (config(["country", "country"]), "has the column 'country' more than once"),
        (config(["country", "device"], ["device", "country"]), r"Configs\[1\] has the same columns as an earlier one"),
        (config(["country", "tags"]), "names 'tags', a multi-value column"),
        (config(["country", "m"]), "names 'm', which is declared without the dictionary"),
        (config(["country", "n"], noDictionaryColumns=["n"]), "names 'n', which is declared without the dictionary"),
        (config(["country", "n"], fields=(RAW,)), "names 'n', which is declared without the dictionary"),
    ],
)
def test_what_makes_no_sense_is_refused(given: TableConfig, reason: str) -> None:
    with pytest.raises(InvalidConfigError, match=reason):
        validate_table_config(given, SCHEMA)


@pytest.mark.parametrize("missing", [{}, {"columns": None}])
def test_an_index_names_its_columns(missing: dict[str, Any]) -> None:
    document = TableConfig.offline("t").to_json() | {"tableIndexConfig": {"compoundInvertedIndexConfigs": [missing]}}
    with pytest.raises(InvalidConfigError, match="columns"):
        TableConfig.from_json(document)


def test_no_single_column_has_the_kind() -> None:
    fields = [{"name": "n", "indexes": {"compound_inverted": {}}}]
    document = TableConfig.offline("t").to_json() | {"fieldConfigList": fields}
    assert "/fieldConfigList/0/indexes/compound_inverted" in TableConfig.from_json(document).unrecognized


@pytest.mark.parametrize("indexing", [{}, {"optimizeDictionary": True}, {"optimizeDictionaryForMetrics": True}])
def test_columns_keep_their_dictionaries(indexing: dict[str, Any]) -> None:
    for given, may_drop in ((config(["country", "price"], **indexing), False), (config(**indexing), True)):
        found = given.column_index(SCHEMA, "price")
        assert (found.dictionary, found.may_drop_dictionary) == (True, may_drop)


def test_a_raw_column_that_has_a_dictionary_all_the_same_can_be_named() -> None:
    validate_table_config(config(["country", "n"], fields=({**RAW, "indexes": {"inverted": {}}},)), SCHEMA)

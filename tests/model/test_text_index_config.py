"""Text indexes in table configs: equivalent forms, errors for invalid settings, warnings for those without effect."""

from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.model.rules.validation import validate_table_config
from gamay.model.rules.without_effect import without_effect
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.search_settings import SearchSettings
from gamay.model.table.secondary_indexes import declared_indexes
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType

SCHEMA = Schema(
    "t",
    (
        FieldSpec("s", DataType.STRING),
        FieldSpec("tags", DataType.STRING, single_value=False),
        FieldSpec("doc", DataType.JSON),
        FieldSpec("n", DataType.INT),
    ),
)


def config(*fields: dict[str, Any], **indexing: Any) -> TableConfig:
    document = TableConfig.offline("t").to_json() | {"fieldConfigList": list(fields), "tableIndexConfig": indexing}
    return TableConfig.from_json(document).value


def refusal(*fields: dict[str, Any], **indexing: Any) -> str:
    with pytest.raises(InvalidConfigError) as raised:
        validate_table_config(config(*fields, **indexing), SCHEMA)
    return str(raised.value)


@pytest.mark.parametrize(
    "forms",
    [
        ({"name": "s", "indexes": {"text": {"caseSensitive": True, "stopWordsInclude": ["x", "y"]}}}, {}),
        ({"name": "s", "indexTypes": ["TEXT"], "properties": {"caseSensitive": "TRUE", "stopWordInclude": "x, y"}}, {}),
        ({"name": "s", "indexType": "TEXT", "properties": {"caseSensitive": "true", "stopWordsInclude": "x,y"}}, {}),
        ({"name": "s"}, {"columns": ["s"], "properties": {"caseSensitive": "true", "stopWordInclude": "x,y"}}),
        (
            {"name": "s"},
            {
                "columns": ["s"],
                "properties": {"caseSensitive": "false", "stopWordsInclude": ["x", "y"]},
                "perColumnProperties": {"s": {"caseSensitive": True}},
            },
        ),
    ],
)
def test_all_forms_say_the_same(forms: tuple[dict[str, Any], dict[str, Any]]) -> None:
    field, shared = forms
    given = config(field, **({"multiColumnTextIndexConfig": shared} if shared else {}))
    validate_table_config(given, SCHEMA)
    (index,) = declared_indexes(given, SCHEMA)
    assert (index.kind, index.columns, index.settings) == ("text", ("s",), {"caseSensitive": ["s"]})
    assert SearchSettings.of(given).text == {"s": '{"caseSensitive": true, "stopWordsInclude": ["x", "y"]}'}
    assert without_effect(given) == []
    assert TableConfig.from_json(given.to_json()).value == given


def test_what_only_says_how_queries_are_meant_builds_nothing_anew() -> None:
    plain, stop_words = ({}, {"stopWordsExclude": ["the"], "useANDForMultiTermQueries": True})
    both = [declared_indexes(config({"name": "s", "indexes": {"text": text}}), SCHEMA) for text in (plain, stop_words)]
    assert both[0] == both[1] != ()


def test_an_index_of_several_columns_is_one() -> None:
    shared = {"columns": ["doc", "tags"], "perColumnProperties": {"tags": {"caseSensitive": "true"}}}
    given = config({"name": "s", "indexes": {"text": {}}}, multiColumnTextIndexConfig=shared)
    validate_table_config(given, SCHEMA)
    assert [(index.columns, index.settings) for index in declared_indexes(given, SCHEMA)] == [
        (("s",), {}),
        (("doc", "tags"), {"caseSensitive": ["tags"]}),
    ]
    disabled = config({"name": "s", "indexes": {"text": {"disabled": True}}})
    assert declared_indexes(disabled, SCHEMA) == ()


@pytest.mark.parametrize(
    ("shared", "problem"),
    [
        ({"columns": []}, "multiColumnTextIndexConfig has no columns"),
        ({"columns": ["s", "s"]}, "has the column 's' more than once"),
        ({"columns": ["n"]}, "names 'n' of type INT; a text index needs STRING or JSON"),
        ({"columns": ["gone"]}, "gone"),
        ({"columns": ["doc"]}, "the text index of 'doc' is declared twice"),
        ({"columns": ["s"], "perColumnProperties": {"tags": {}}}, "perColumnProperties of 'tags', which is not among"),
        (
            {"columns": ["s"], "properties": {"caseSensitiv": "true"}},
            "is unknown to a text index. Did you mean 'caseSensi",
        ),
        ({"columns": ["s"], "properties": {"caseSensitive": "perhaps"}}, 'caseSensitive: "perhaps" is not true or false'),
    ],
)
def test_what_an_index_of_several_columns_cannot_be(shared: dict[str, Any], problem: str) -> None:
    assert problem in refusal({"name": "doc", "indexes": {"text": {}}}, multiColumnTextIndexConfig=shared)


def test_settings_that_cannot_be_read_are_refused() -> None:
    field = {"name": "s", "indexType": "TEXT", "properties": {"caseSensitive": "perhaps"}}
    assert "the properties of column 's' is not valid: /caseSensitive" in refusal(field)
    assert declared_indexes(config(field), SCHEMA) == ()  # stored without validation
    assert "has a text index, which needs STRING or JSON" in refusal({"name": "n", "indexes": {"text": {}}})


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ({"indexes": {"text": {"luceneUseCompoundFile": False}}}, "luceneUseCompoundFile"),
        ({"indexes": {"text": {"storeInSegmentFile": True}}}, "storeInSegmentFile"),
        ({"indexType": "TEXT", "properties": {"luceneMaxBufferSizeMB": "10"}}, "luceneMaxBufferSizeMB"),
        ({"indexType": "TEXT", "properties": {"rawValueForTextIndex": "n"}}, "rawValue"),
        ({"indexType": "TEXT", "properties": {"luceneAnalyzerClass": "my.Analyzer"}}, "luceneAnalyzerClass"),
        ({"indexType": "TEXT", "properties": {"fstType": "native"}}, "the property fstType"),
    ],
)
def test_settings_without_effect_are_named(field: dict[str, Any], key: str) -> None:
    (sentence,) = without_effect(config({"name": "s", **field}))
    assert f"{key} has no effect: " in sentence

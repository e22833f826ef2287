"""Settings of indexes and segments: what is refused, and what is reported as without effect."""

from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.model.index import vector_index
from gamay.model.rules.validation import validate_table_config
from gamay.model.rules.without_effect import without_effect
from gamay.model.schema.schema import Schema
from gamay.model.table.secondary_indexes import IndexDeclaration, declared_indexes
from gamay.model.table.table_config import TableConfig

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "STRING"},
            {"name": "a", "dataType": "STRING"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "m", "dataType": "LONG"}],
        "dateTimeFieldSpecs": [{"name": "ts", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:DAYS"}],
        "primaryKeyColumns": ["id"],
    }
).value


def config(indexing: dict[str, Any] | None = None, *fields: dict[str, Any], **parts: Any) -> TableConfig:
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1", "timeColumnName": "ts"},
        "tenants": {},
        "tableIndexConfig": indexing or {},
        "fieldConfigList": list(fields),
        **parts,
    }
    parsed = TableConfig.from_json(document)
    assert not parsed.unrecognized
    return parsed.value


def refusal(subject: TableConfig) -> str:
    try:
        validate_table_config(subject, SCHEMA)
    except InvalidConfigError as error:
        return str(error)
    return ""


def off(name: str) -> dict[str, Any]:
    return {"name": name, "indexes": {"forward": {"disabled": True}, "inverted": {}}}


UPSERT = {"upsertConfig": {"mode": "FULL", "comparisonColumns": ["ts"]}}


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        (config(None, off("a")), ""),
        (config(None, off("tags")), ""),
        (config({"optimizeDictionary": True}, off("a")), "optimizeDictionary"),
        (config({"optimizeDictionaryForMetrics": True}, off("a")), "optimizeDictionary"),
        (config(None, off("a"), tableType="REALTIME"), "only OFFLINE tables"),
        (config(None, off("a"), isDimTable=True), "lookUp reads"),
        (config(None, off("id"), **UPSERT), "the values of the primary key are read"),
        (config(None, off("ts"), **UPSERT), "the values of a comparison column are read"),
    ],
)
def test_where_the_forward_index_can_be_disabled(subject: TableConfig, reason: str) -> None:
    problems = refusal(subject)
    assert (reason in problems) if reason else "forward index" not in problems
    assert not any("forwardIndexDisabled" in sentence for sentence in without_effect(subject))


def test_a_forward_index_that_cannot_go_is_told() -> None:
    bare = config({"noDictionaryColumns": ["m"]}, {"name": "m", "properties": {"forwardIndexDisabled": "true"}})
    assert refusal(bare) == ""
    (sentence,) = without_effect(bare)
    assert "column 'm': forwardIndexDisabled needs an inverted index" in sentence


RAW = {"encodingType": "RAW"}


@pytest.mark.parametrize(
    ("indexing", "fields", "reason"),
    [
        ({"noDictionaryConfig": {"a": "GZIP", "m": "ZSTANDARD", "tags": ""}}, [], ""),
        (
            {"noDictionaryConfig": {"a": "GZIPP"}},
            [],
            "the compressionCodec 'GZIPP' of 'a' is not one of PASS_THROUGH, SNAPPY",
        ),
        ({"noDictionaryConfig": {"a": "MV_ENTRY_DICT"}}, [], "does not work with its encodingType RAW"),
        ({}, [{"name": "a", **RAW, "compressionCodec": "CLP"}], "the compressionCodec 'CLP' of 'a' is not one of"),
        (
            {},
            [{"name": "m", **RAW, "compressionCodec": "DELTADELTA"}],
            "the compressionCodec 'DELTADELTA' of 'm' is not one of",
        ),
    ],
)
def test_which_codecs_are_accepted(indexing: dict[str, Any], fields: list[dict[str, Any]], reason: str) -> None:
    problems = refusal(config(indexing, *fields))
    assert (reason in problems) if reason else problems == ""


@pytest.mark.parametrize(
    ("indexing", "field", "sentence"),
    [
        ({}, {"name": "tags", "compressionCodec": "MV_ENTRY_DICT"}, "the compressionCodec MV_ENTRY_DICT changes nothing"),
        ({}, {"name": "a", **RAW, "compressionCodec": "GZIP", "indexes": {"inverted": {}}}, "GZIP changes nothing"),
        ({"noDictionaryConfig": {"a": "GZIP"}}, {"name": "a", **RAW, "compressionCodec": "LZ4"}, "fieldConfigList has LZ4"),
        ({"noDictionaryConfig": {"a": "GZIP"}}, {"name": "a", **RAW}, ""),
    ],
)
def test_codecs_that_change_nothing_are_told(indexing: dict[str, Any], field: dict[str, Any], sentence: str) -> None:
    told = without_effect(config(indexing, field))
    assert (len(told) == 1 and sentence in told[0]) if sentence else told == []


COLD = [
    {
        "name": "cold",
        "segmentSelectorType": "time",
        "segmentAge": "30d",
        "storageType": "pinot_server",
        "serverTag": "c_OFFLINE",
    }
]


@pytest.mark.parametrize(
    ("overwrites", "reason"),
    [
        ({"cold": {"invertedIndexColumns": ["a"]}}, ""),
        (
            {"cold": {"invertedIndexColumns": ["b"]}},
            "with the tierOverwrites of 'cold', tableIndexConfig.invertedIndexColumns",
        ),
        ({"cold": {"noDictionaryConfig": {"a": "LZ5"}}}, "with the tierOverwrites of 'cold', the compressionCodec 'LZ5'"),
        ({"consuming": {"loadMode": 7}}, "loadMode"),
        ({"cold": 7}, "tierOverwrites.cold must be an object"),
    ],
)
def test_overwrites_are_validated_as_they_hold(overwrites: dict[str, Any], reason: str) -> None:
    subject = config({"tierOverwrites": overwrites}, tierConfigs=COLD)
    problems = refusal(subject)
    assert (reason in problems) if reason else problems == ""


def test_a_problem_of_the_table_is_told_once() -> None:
    subject = config({"invertedIndexColumns": ["b"], "tierOverwrites": {"cold": {}}}, tierConfigs=COLD)
    assert refusal(subject).count("names the column 'b'") == 1


def test_overwrites_of_unknown_tiers_and_keys_are_told() -> None:
    overwrites = {"cold": {"sortedColum": ["a"]}, "consuming": {"sortedColumn": ["a"]}, "hot": {}}
    field = {"name": "a", "tierOverwrites": {"cold": {"indexTypos": []}}}
    assert without_effect(config({"tierOverwrites": overwrites}, field, tierConfigs=COLD)) == [
        "tierOverwrites.cold: /tableIndexConfig/sortedColum is unknown",
        "tierOverwrites.cold: /fieldConfigList/0/indexTypos is unknown",
        "tierOverwrites.hot: tierConfigs has no tier 'hot'; the overwrites are kept",
    ]


HAS_BLOOM = {"a": {"loadOnHeap": True}, "m": {}}
WITHOUT_EFFECT: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"segmentFormatVersion": "v1"}, {}, "tableIndexConfig.segmentFormatVersion"),
    ({"onHeapDictionaryColumns": ["a"]}, {}, "tableIndexConfig.onHeapDictionaryColumns"),
    ({"varLengthDictionaryColumns": ["a"]}, {}, "tableIndexConfig.varLengthDictionaryColumns"),
    ({"optimizeDictionaryType": True}, {}, "tableIndexConfig.optimizeDictionaryType"),
    ({"rangeIndexVersion": 1}, {}, "tableIndexConfig.rangeIndexVersion"),
    ({"columnMajorSegmentBuilderEnabled": False}, {}, "tableIndexConfig.columnMajorSegmentBuilderEnabled"),
    (
        {"createInvertedIndexDuringSegmentGeneration": True},
        {},
        "tableIndexConfig.createInvertedIndexDuringSegmentGeneration",
    ),
    ({"autoGeneratedInvertedIndex": True}, {}, "tableIndexConfig.autoGeneratedInvertedIndex"),
    ({"optimizeNoDictStatsCollection": True}, {}, "tableIndexConfig.optimizeNoDictStatsCollection"),
    ({"compressionStatsEnabled": True}, {}, "tableIndexConfig.compressionStatsEnabled"),
    ({"segmentNameGeneratorType": "normalizedDate"}, {}, "tableIndexConfig.segmentNameGeneratorType"),
    ({"enableDynamicStarTreeCreation": True}, {}, "tableIndexConfig.enableDynamicStarTreeCreation"),
    ({"bloomFilterConfigs": HAS_BLOOM}, {}, "tableIndexConfig.bloomFilterConfigs.loadOnHeap"),
    ({}, {"indexes": {"dictionary": {"onHeap": True}}}, "indexes.dictionary.onHeap"),
    ({}, {"indexes": {"dictionary": {"intern": {"capacity": 5}}}}, "indexes.dictionary.intern"),
    ({}, {"indexes": {"dictionary": {"useVarLengthDictionary": True}}}, "indexes.dictionary.useVarLengthDictionary"),
    ({}, {"indexes": {"forward": {"rawIndexWriterVersion": 2}}}, "indexes.forward.rawIndexWriterVersion"),
    ({}, {"indexes": {"forward": {"configs": {"x": 1}}}}, "indexes.forward.configs"),
    ({}, {"indexes": {"range": {"version": 1}}}, "indexes.range.version"),
    ({}, {"indexes": {"bloom": {"loadOnHeap": True}}}, "indexes.bloom.loadOnHeap"),
    ({}, {"indexes": {"null": {"disabled": True}}}, "indexes.null"),
    ({}, {"indexType": "SORTED"}, "indexTypes SORTED"),
    ({}, {"properties": {"rawIndexWriterVersion": "2"}}, "the property rawIndexWriterVersion"),
]


@pytest.mark.parametrize(("indexing", "field", "named"), WITHOUT_EFFECT, ids=[named for *_, named in WITHOUT_EFFECT])
def test_what_has_no_effect_is_told(indexing: dict[str, Any], field: dict[str, Any], named: str) -> None:
    (sentence,) = without_effect(config(indexing, {"name": "a", **field}))
    assert named in sentence


def test_defaults_and_what_acts_are_not_told() -> None:
    indexing = {
        "segmentFormatVersion": "v3", "loadMode": "MMAP", "rangeIndexVersion": 2, "columnMajorSegmentBuilderEnabled": True,
        "createInvertedIndexDuringSegmentGeneration": False, "optimizeDictionaryType": False,
        "columnMinMaxValueGeneratorMode": "TIME", "noDictionaryConfig": {"m": "LZ4"}, "skipSegmentPreprocess": True,
    }  # fmt: skip
    packed = {"name": "a", "properties": {"forwardIndexBitPacked": "true", "deriveNumDocsPerChunkForRawIndex": "true"}}
    searched = {"name": "tags", "indexTypes": ["TEXT"], "properties": {"fstType": "native"}}
    (unknown,) = without_effect(config(indexing, packed, searched))
    assert "the property fstType has no effect: it is unknown" in unknown
    assert without_effect(TableConfig.from_json(config(indexing, packed).to_json()).value) == []


def test_a_json_index_has_the_same_settings_in_each_form() -> None:
    settings = {"maxLevels": 2, "includePaths": ["$.a", "$.b[*]"], "skipInvalidJson": True}
    texts = {"maxLevels": "2", "includePaths": "$.a, $.b[*]", "skipInvalidJson": "true", "maxValueLength": "0"}
    declared = [
        declared_indexes(config(indexing, *fields), SCHEMA)
        for indexing, fields in (
            ({"jsonIndexConfigs": {"a": settings}, "jsonIndexColumns": ["a"]}, []),
            ({}, [{"name": "a", "indexes": {"json": settings}}]),
            ({}, [{"name": "a", "indexTypes": ["JSON"], "properties": texts}]),
            ({}, [{"name": "a", "indexType": "JSON", "properties": {**texts, "includePaths": '["$.a", "$.b[*]"]'}}]),
        )
    ]
    assert declared == [(IndexDeclaration("json", ("a",), settings),)] * 4
    for indexing, settings in (({"jsonIndexColumns": ["a"]}, {}), ({}, {"maxLevels": -1, "maxValueLength": 0})):
        fields = [{"name": "a", "indexes": {"json": settings}}] if settings else []
        assert declared_indexes(config(indexing, *fields), SCHEMA) == (IndexDeclaration("json", ("a",), {}),)
    assert declared_indexes(config({}, {"name": "a", "indexes": {"json": {"disabled": True}}}), SCHEMA) == ()


def test_settings_of_json_indexes_without_effect_are_told() -> None:
    settings = {"disableCrossArrayUnnest": True, "maxBytesSize": 5, "maxLevels": 3}
    told = without_effect(config({"jsonIndexConfigs": {"a": settings}}))
    assert [sentence.partition(" has no effect")[0] for sentence in told] == [
        "tableIndexConfig.jsonIndexConfigs.a: disableCrossArrayUnnest",
        "tableIndexConfig.jsonIndexConfigs.a: maxBytesSize",
    ]
    told = without_effect(config({}, {"name": "a", "indexes": {"json": settings}}))
    assert [sentence.partition(" has no effect")[0] for sentence in told] == [
        "fieldConfigList of column 'a': indexes.json.disableCrossArrayUnnest",
        "fieldConfigList of column 'a': indexes.json.maxBytesSize",
    ]


def test_settings_of_an_h3_index_have_two_forms() -> None:
    newer: dict[str, Any] = {"name": "a", "indexes": {"h3": {"resolution": [9, 5, 9]}}}
    for declared, resolutions in (
        (newer, [5, 9]),
        ({"name": "a", "indexes": {"h3": {"resolutions": "9, 5"}}}, [5, 9]),
        ({"name": "a", "indexType": "H3", "properties": {"resolutions": "9,5"}}, [5, 9]),
        ({"name": "a", "indexTypes": ["H3"]}, [7]),
        ({"name": "a", "indexes": {"h3": {}}}, [7]),
    ):
        subject = config(None, declared)
        validate_table_config(subject, SCHEMA)
        assert without_effect(subject) == []
        assert declared_indexes(subject, SCHEMA) == (IndexDeclaration("h3", ("a",), {"resolutions": resolutions}),)
    disabled = config(None, {"name": "a", "indexes": {"h3": {"disabled": True}}})
    damaged = config(None, {"name": "a", "indexType": "H3", "properties": {"resolutions": "99"}})
    assert declared_indexes(disabled, SCHEMA) == declared_indexes(damaged, SCHEMA) == ()
    (told,) = without_effect(config(None, {"name": "a", "indexType": "H3", "properties": {"resolution": "5"}}))
    assert "the property resolution has no effect" in told


def test_the_library_of_an_index_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gamay.model.rules.without_effect.find_spec", lambda name: None)
    (told,) = without_effect(config(None, {"name": "a", "indexes": {"h3": {}}}))
    assert "needs the package h3" in told
    assert "pip install 'gamay[geo]'" in told


VECTOR = {"vectorDimension": 8, "vectorDistanceFunction": "L2"}
QUANTIZED = {"nlist": "9", "pqM": "4", "pqNbits": "8", "trainSampleSize": "9", "trainingSeed": "1", "quantizer": "PQ"}


@pytest.mark.parametrize(
    ("vector", "told"),
    [
        ({"vectorIndexType": "IVF_FLAT", "properties": {"nlist": "9", "quantizer": "FLAT"}}, []),
        ({"vectorIndexType": "IVF_FLAT", "properties": {"quantizer": "SQ8"}}, ["quantizer"]),
        ({"vectorIndexType": "IVF_PQ", "properties": QUANTIZED}, ["quantizer", "pqM, pqNbits"]),
        ({"version": 2, "storeInSegmentFile": True}, ["version", "storeInSegmentFile"]),
        ({"properties": {"maxCon": "8", "commitDocs": "5", "mode": "x"}}, ["mode, commitDocs"]),
    ],
)
def test_what_a_vector_index_does_not_do_is_told(vector: dict[str, Any], told: list[str]) -> None:
    subject = config(None, {"name": "v", "encodingType": "RAW", "indexes": {"vector": VECTOR | vector}})
    found = without_effect(subject)
    assert [sentence.split(" has no effect")[0].rpartition("indexes.vector: ")[2] for sentence in found] == told


def test_a_library_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = config(None, {"name": "v", "indexes": {"vector": VECTOR}})
    assert without_effect(subject) == []
    monkeypatch.setattr(vector_index, "find_spec", lambda name: None)
    (sentence,) = without_effect(subject)
    assert "usearch is not installed here (pip install 'gamay[vector]'), and servers without it build IVF_FLAT" in sentence


def test_both_forms_of_a_vector_index_give_the_same_settings() -> None:
    newer = config(None, {"name": "v", "indexes": {"vector": {**VECTOR, "properties": {"maxCon": "8"}}}})
    older = {"vectorIndexType": "hnsw", "vectorDimension": "8", "vectorDistanceFunction": "l2", "maxCon": "8"}
    both = (newer, config(None, {"name": "v", "indexType": "VECTOR", "properties": older}))
    schema = Schema.from_json(
        {"schemaName": "t", "dimensionFieldSpecs": [{"name": "v", "dataType": "FLOAT", "singleValueField": False}]}
    ).value
    first, second = (declared_indexes(subject, schema) for subject in both)
    assert first == second
    assert first[0].settings == {**VECTOR, "vectorIndexType": "HNSW", "maxCon": 8, "beamWidth": 100}

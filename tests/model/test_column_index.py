"""Combining all declarations about a column."""

import itertools
from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.model.index.column_index import RAW_CODECS, ColumnIndexConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole

SCHEMA = Schema("t", (FieldSpec("a", DataType.INT), FieldSpec("m", DataType.DOUBLE, FieldRole.METRIC)))


def folded(
    indexing: dict[str, Any] | None = None, field: dict[str, Any] | None = None, column: str = "a"
) -> ColumnIndexConfig:
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {},
        "tenants": {},
        "tableIndexConfig": indexing or {},
        "fieldConfigList": [{"name": column, **field}] if field is not None else [],
    }
    parsed = TableConfig.from_json(document)
    assert not parsed.unrecognized
    return parsed.value.column_index(SCHEMA, column)


def test_nothing_declared() -> None:
    assert folded() == ColumnIndexConfig()
    assert folded(field={}) == ColumnIndexConfig()


RAW_WAYS: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = [
    ({"noDictionaryColumns": ["a"]}, None),
    ({"noDictionaryConfig": {"a": ""}}, None),
    (None, {"encodingType": "RAW"}),
    (None, {"indexes": {"forward": {"encodingType": "RAW"}}}),
    (None, {"indexes": {"dictionary": {"disabled": True}}}),
]


@pytest.mark.parametrize(("indexing", "field"), RAW_WAYS)
def test_every_way_to_say_raw(indexing: Any, field: Any) -> None:
    config = folded(indexing, field)
    assert (config.dictionary, config.codec) == (False, None)


def test_a_declared_codec_is_kept_for_metrics_too() -> None:
    assert folded(None, {"encodingType": "RAW", "compressionCodec": "ZSTANDARD"}, column="m").codec == "ZSTANDARD"


@pytest.mark.parametrize("codec", RAW_CODECS)
def test_codecs(codec: str) -> None:
    assert folded(None, {"encodingType": "RAW", "compressionCodec": codec.lower()}).codec == codec
    assert folded(None, {"encodingType": "RAW", "indexes": {"forward": {"compressionCodec": codec}}}).codec == codec
    assert folded(None, {"compressionCodec": codec}).codec is None


@pytest.mark.parametrize("codec", RAW_CODECS)
def test_codecs_of_no_dictionary_config(codec: str) -> None:
    assert folded({"noDictionaryConfig": {"a": codec.lower()}}).codec == codec
    assert folded({"noDictionaryConfig": {"a": codec}}, {"encodingType": "RAW", "compressionCodec": "LZ4"}).codec == "LZ4"
    assert folded({"noDictionaryConfig": {"m": codec}}, column="m").codec == codec
    assert folded({"noDictionaryConfig": {"m": codec}}).codec is None


def test_a_listed_codec_of_older_tables_may_be_any_text() -> None:
    assert folded({"noDictionaryConfig": {"a": "x"}}) == folded({"noDictionaryConfig": {"a": ""}})


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match="Did you mean 'ZSTANDARD'"):
        folded(None, {"encodingType": "RAW", "compressionCodec": "ZSTANDART"})


OLDER = {"inverted": "invertedIndexColumns", "range": "rangeIndexColumns", "bloom": "bloomFilterColumns"}


@pytest.mark.parametrize("index", OLDER)
def test_every_way_to_ask_for_an_index(index: str) -> None:
    ways = [folded({OLDER[index]: ["a"]}), folded(None, {"indexes": {index: {}}})]
    if index != "bloom":
        ways += [folded(None, {"indexType": index.upper()}), folded(None, {"indexTypes": [index.upper()]})]
    assert len(set(map(repr, ways))) == 1
    assert bool(getattr(ways[0], index))
    assert not getattr(folded(None, {"indexes": {index: {"disabled": True}}}), index)


def test_bloom_parameters() -> None:
    config = folded({"bloomFilterColumns": ["a"], "bloomFilterConfigs": {"a": {"fpp": 0.01, "maxSizeInBytes": 99}}}).bloom
    assert config is not None
    assert (config.fpp, config.max_size_bytes) == (0.01, 99)
    assert folded({"bloomFilterColumns": ["m"]}).bloom is None


def test_an_index_that_needs_a_dictionary_brings_it_back() -> None:
    for field in ({"indexes": {"inverted": {}}}, {"indexes": {"dictionary": {}}}):
        config = folded(None, {"encodingType": "RAW", **field})
        assert (config.dictionary, config.codec) == (True, None)


def test_dictionaries_can_be_optimised_away_unless_an_index_needs_them() -> None:
    flags = itertools.product([False, True], repeat=3)
    for everywhere, metrics, inverted in flags:
        indexing = {"optimizeDictionary": everywhere, "optimizeDictionaryForMetrics": metrics}
        indexing |= {"invertedIndexColumns": ["a", "m"]} if inverted else {}
        assert folded(indexing, column="a").optimize_dictionary == (everywhere and not inverted)
        assert folded(indexing, column="m").optimize_dictionary == ((everywhere or metrics) and not inverted)


def test_only_metrics_of_which_nothing_is_said_may_be_raw_by_cost() -> None:
    assert folded({}, column="m").by_cost
    assert folded({}, column="m").may_drop_dictionary
    assert not folded({}, column="a").by_cost
    for indexing in (
        {"noDictionaryColumns": ["m"]}, {"invertedIndexColumns": ["m"]}, {"rangeIndexColumns": ["m"]},
        {"optimizeDictionary": True}, {"optimizeDictionaryForMetrics": True},
    ):  # fmt: skip
        assert not folded(indexing, column="m").by_cost
    for field in (
        {"encodingType": "DICTIONARY"}, {"indexes": {"dictionary": {}}},
        {"indexes": {"forward": {"encodingType": "DICTIONARY"}}},
        {"properties": {"forwardIndexBitPacked": "true"}},
    ):  # fmt: skip
        assert not folded(None, field, column="m").by_cost


def test_chunks_and_partitions() -> None:
    config = folded(
        {"segmentPartitionConfig": {"columnPartitionMap": {"a": {"functionName": "MODULO", "numPartitions": "4"}}}},
        {"encodingType": "RAW", "indexes": {"forward": {"targetMaxChunkSize": "64K", "targetDocsPerChunk": 7}}},
    )
    assert (config.target_max_chunk_size, config.target_docs_per_chunk) == (65536, 7)
    derived = {"encodingType": "RAW", "indexes": {"forward": {"targetDocsPerChunk": 7, "deriveNumDocsPerChunk": True}}}
    older = {
        "indexes": {"forward": {"targetDocsPerChunk": 7}}, "properties": {"deriveNumDocsPerChunkForRawIndex": "true"},
    }  # fmt: skip
    for field in (derived, older):
        assert folded(None, field).target_docs_per_chunk == ColumnIndexConfig().target_docs_per_chunk
    assert config.partition is not None
    assert (config.partition.function_name, config.partition.num_partitions) == ("Modulo", 4)

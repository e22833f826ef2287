"""Settings of `tableIndexConfig` and `fieldConfigList` without effect: sentences for the author of such a config."""

from collections.abc import Iterator
from contextlib import suppress

from gamay.base.errors import InvalidConfigError
from gamay.model.index.column_index import (
    DERIVE_PROPERTY,
    DICTIONARY_CODECS,
    FORWARD_DISABLED_PROPERTY,
    PACKED_PROPERTY,
    asks_for_dictionary,
    declared_codec,
    forward_disabled,
    has_inverted,
)
from gamay.model.index.indexing import (
    DictionaryConfig,
    FieldConfig,
    ForwardConfig,
    IndexingConfig,
    RangeConfig,
    StarTreeAggregation,
    TextConfig,
)
from gamay.model.index.json_index import unused_of
from gamay.model.index.vector_index import VectorConfig, unused_vector_settings
from gamay.model.table.secondary_indexes import H3_PROPERTIES, vector_config
from gamay.model.table.table_config import TableConfig
from gamay.model.table.text_index import TEXT_KEYS, text_indexes
from gamay.model.table.tier_overwrites import overwritten_tiers, unknown_keys, unknown_tiers


def unused_index_settings(config: TableConfig) -> Iterator[str]:
    """Yield a sentence for each setting of indexes and segments without effect, with its key."""
    for key, (is_set, why) in settings_of_table(config.indexing).items():
        if is_set:
            yield f"tableIndexConfig.{key} has no effect: {why}"
    yield from _unused_overwrites(config)
    yield from _unused_of_texts(config)
    for declared in config.field_configs:
        yield from _unused_of_column(config, declared)
    for column, json_config in config.indexing.json_index_configs.items():
        yield from (f"tableIndexConfig.jsonIndexConfigs.{column}: {sentence}" for sentence in unused_of(json_config))
    for column, codec in config.indexing.no_dictionary_config.items():
        chosen = declared_codec(config.indexing, config.field_config(column), column)
        if codec and chosen != codec:
            yield f"tableIndexConfig.noDictionaryConfig: fieldConfigList has {chosen} for '{column}', not {codec}"


_NO_LUCENE = "indexes have Gamay's own file format, in the segment's folder"
_WORDS_OF = "words are those of StandardAnalyzer, which caseSensitive, stopWordsInclude and stopWordsExclude change"
_AT_ONCE = (
    "rows of consuming segments are searchable immediately, by indexes of blocks of rows and a scan of those that follow"
)
_RAW_KEPT = "a column stores its texts beside their index"

_PROPERTIES = {PACKED_PROPERTY, FORWARD_DISABLED_PROPERTY, DERIVE_PROPERTY}
_SEARCHED = {"FST", "IFST", "JSON", "VECTOR", "OPEN_STRUCT"}

_LENGTHS = "entries of a text dictionary are stored with variable length"
_MAPPED = "it is memory-mapped with its segment, whose loadMode decides whether files are read into memory"
_BY_BYTES = "there is one format of raw columns, whose chunks targetMaxChunkSize and targetDocsPerChunk limit"
_ONE_RANGE_INDEX = "there is one kind of range index, which is exact for single-value and multi-value columns"
_BUILT = "segments are built column by column, with all their indexes"


def settings_of_text(text: TextConfig) -> dict[str, tuple[object, str]]:
    """Return the keys of a text index without effect: whether each is set, and why it has no effect."""
    usual = TextConfig()
    return {
        "rawValue": (text.raw_value is not None, _RAW_KEPT),
        "noRawDataForTextIndex": (text.no_raw_data, _RAW_KEPT),
        "queryCache": (text.query_cache, "an index finds the rows of a word as fast as a cache would"),
        "luceneUseCompoundFile": (text.use_compound_file != usual.use_compound_file, _NO_LUCENE),
        "luceneMaxBufferSizeMB": (text.max_buffer_size_mb != usual.max_buffer_size_mb, _NO_LUCENE),
        "storeInSegmentFile": (text.store_in_segment_file, _NO_LUCENE),
        "useLogByteSizeMergePolicy": (
            text.use_log_byte_size_merge_policy,
            "an index is written in one step and never merged",
        ),
        "docIdTranslatorMode": (text.doc_id_translator_mode is not None, "doc ids of an index are those of its segment"),
        "luceneAnalyzerClass": (text.analyzer_class != usual.analyzer_class, _WORDS_OF),
        "luceneAnalyzerClassArgs": (text.analyzer_class_args, _WORDS_OF),
        "luceneAnalyzerClassArgTypes": (text.analyzer_class_arg_types, _WORDS_OF),
        "luceneQueryParserClass": (
            text.query_parser_class != usual.query_parser_class,
            "the third argument of TEXT_MATCH chooses the parser: 'parser=COMPLEX'",
        ),
        "reuseMutableIndex": (text.reuse_mutable_index, _AT_ONCE),
        "luceneNRTCachingDirectoryMaxBufferSizeMB": (text.caching_buffer_size_mb, _AT_ONCE),
    }


def _unused_of_texts(config: TableConfig) -> Iterator[str]:
    for columns in text_indexes(config):
        for column, text in columns.items():
            for key, (is_set, why) in settings_of_text(text).items():
                if is_set:
                    yield f"the text index of '{column}': {key} has no effect: {why}"


def settings_of_table(indexing: IndexingConfig) -> dict[str, tuple[object, str]]:
    """Return the keys of `tableIndexConfig` without effect: whether each is set, and why it has no effect."""
    older_format = indexing.segment_format_version not in (None, "v3")
    unused: dict[str, tuple[object, str]] = {
        "segmentFormatVersion": (older_format, "segments have one format, whose indexes are in one file, as those of v3"),
        "onHeapDictionaryColumns": (indexing.on_heap_dictionary_columns, f"a dictionary is not on a heap: {_MAPPED}"),
        "varLengthDictionaryColumns": (indexing.var_length_dictionary_columns, _LENGTHS),
        "optimizeDictionaryType": (indexing.optimize_dictionary_type, _LENGTHS),
        "rangeIndexVersion": (indexing.range_index_version != IndexingConfig().range_index_version, _ONE_RANGE_INDEX),
        "columnMajorSegmentBuilderEnabled": (not indexing.column_major_segment_builder_enabled, _BUILT),
        "createInvertedIndexDuringSegmentGeneration": (indexing.create_inverted_index_during_segment_generation, _BUILT),
        "autoGeneratedInvertedIndex": (
            indexing.auto_generated_inverted_index,
            "invertedIndexColumns and fieldConfigList say which columns have an inverted index",
        ),
        "optimizeNoDictStatsCollection": (
            indexing.optimize_no_dict_stats_collection,
            "the cardinality of raw columns is never counted",
        ),
        "compressionStatsEnabled": (indexing.compression_stats_enabled, "only the stored sizes are recorded"),
        "segmentNameGeneratorType": (
            indexing.segment_name_generator_type,
            "segments are named by job specs, and those that tasks build by the tasks",
        ),
        "enableDynamicStarTreeCreation": (
            indexing.enable_dynamic_star_tree_creation,
            "servers update star-trees to the table config whenever they load a segment, like other indexes",
        ),
        "starTreeIndexConfigs.aggregationConfigs": (
            any(_says_how_stored(part) for tree in indexing.star_tree_configs for part in tree.aggregations),
            "compressionCodec, indexVersion and the sizes of chunks have no effect: the records of star-trees are "
            "memory-mapped uncompressed",
        ),
    }
    loaded = [column for column, bloom in indexing.bloom_filter_configs.items() if bloom.load_on_heap]
    return unused | {"bloomFilterConfigs.loadOnHeap": (loaded, _MAPPED)}


def _says_how_stored(part: StarTreeAggregation) -> bool:
    return any((part.compression_codec, part.derive_num_docs_per_chunk, part.index_version, part.target_max_chunk_size,
                part.target_docs_per_chunk))  # fmt: skip


def _unused_overwrites(config: TableConfig) -> Iterator[str]:
    unknown = unknown_tiers(config)
    for tier in overwritten_tiers(config):
        if tier in unknown:
            yield f"tierOverwrites.{tier}: tierConfigs has no tier '{tier}'; the overwrites are kept"
        with suppress(InvalidConfigError):  # stored without validation
            for pointer in unknown_keys(config, tier):
                yield f"tierOverwrites.{tier}: {pointer} is unknown"


def _unused_of_column(config: TableConfig, declared: FieldConfig) -> Iterator[str]:
    where = f"fieldConfigList of column '{declared.name}'"
    if forward_disabled(declared) and not has_inverted(config.indexing, declared, declared.name):
        yield (
            f"{where}: forwardIndexDisabled needs an inverted index, which then holds the rows; without one the forward "
            "index is kept"
        )
    for key, (is_set, why) in settings_of_column(declared).items():
        if is_set:
            yield f"{where}: {key} has no effect: {why}"
    if declared.indexes.json is not None:
        yield from (f"{where}: indexes.json.{sentence}" for sentence in unused_of(declared.indexes.json))
    codec = declared_codec(config.indexing, declared, declared.name) or ""
    if codec.upper() in DICTIONARY_CODECS:
        yield f"{where}: ids of rows are stored uncompressed, so the compressionCodec {codec} changes nothing"
    elif codec and asks_for_dictionary(config.indexing, declared, declared.name):
        yield f"{where}: an index needs its dictionary, so rows are ids and the compressionCodec {codec} changes nothing"


def settings_of_column(declared: FieldConfig) -> dict[str, tuple[object, str]]:
    """Return the keys of a field config without effect: whether each is set, and why it has no effect."""
    indexes = declared.indexes
    dictionary, forward = indexes.dictionary or DictionaryConfig(), indexes.forward or ForwardConfig()
    unused: dict[str, tuple[object, str]] = {
        "indexes.dictionary.onHeap": (dictionary.on_heap, f"a dictionary is not on a heap: {_MAPPED}"),
        "indexes.dictionary.intern": (
            dictionary.intern and not dictionary.intern.disabled,
            f"a dictionary has no objects: {_MAPPED}",
        ),
        "indexes.dictionary.useVarLengthDictionary": (dictionary.use_var_length_dictionary, _LENGTHS),
        "indexes.forward.rawIndexWriterVersion": (
            forward.raw_index_writer_version != ForwardConfig().raw_index_writer_version,
            _BY_BYTES,
        ),
        "indexes.forward.configs": (forward.configs, _BY_BYTES),
        "indexes.range.version": (indexes.range and indexes.range.version != RangeConfig().version, _ONE_RANGE_INDEX),
        "indexes.bloom.loadOnHeap": (indexes.bloom and indexes.bloom.load_on_heap, _MAPPED),
        "indexes.null": (indexes.null, "null handling of the schema or of tableIndexConfig decides whether nulls are kept"),
        "indexTypes SORTED": (
            "SORTED" in declared.all_index_types,
            "tableIndexConfig.sortedColumn says what rows are sorted by",
        ),
        "timestampConfig": (
            ("TIMESTAMP" in declared.all_index_types or declared.timestamp)
            and not (declared.timestamp and declared.timestamp.granularities),
            "its granularities are the columns that a timestamp index derives, and there are none",
        ),
    }
    if (vector := _vector(declared)) is not None:
        unused |= {f"indexes.vector: {key}": told for key, told in unused_vector_settings(vector).items()}
    asked = set(declared.all_index_types)
    if not _SEARCHED & asked:  # whose settings are among the properties
        known = {*_PROPERTIES, *(H3_PROPERTIES if "H3" in asked else ()), *(TEXT_KEYS if "TEXT" in asked else ())}
        unknown = sorted(declared.properties.keys() - known)
        unused |= {f"the property {name}": (True, "it is unknown, or does not apply to the column") for name in unknown}
    return unused


def _vector(declared: FieldConfig) -> VectorConfig | None:
    with suppress(InvalidConfigError):  # stored without validation
        return vector_config(declared)
    return None

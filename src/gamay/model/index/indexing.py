"""`tableIndexConfig` and `fieldConfigList`: the declarations of indexes, in the older and the newer form."""

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any

from gamay.model.index.json_index import JsonIndexConfig
from gamay.model.index.kinds import KINDS_OF_TABLES, SECONDARY_TYPES
from gamay.model.index.vector_index import VectorConfig
from gamay.model.parse import (
    COLUMNS,
    EMPTY_MAP,
    FLAG,
    INTEGER,
    NUMBER,
    OBJECT,
    REQUIRED,
    TEXT,
    TEXT_MAP,
    VERBATIM,
    At,
    Form,
    Shape,
    choice,
    key,
    keys_of,
    list_of,
    map_of,
    section,
)

PARTITION_FUNCTIONS = ("Modulo", "Murmur", "Murmur2", "Murmur3", "Fnv", "HashCode", "ByteArray", "BoundedColumnValue")


@dataclass(frozen=True)
class PartitionConfig:
    """How a column's values are assigned to partitions; the function's name is spelled as in PARTITION_FUNCTIONS."""

    function_name: str = key("functionName", choice(*PARTITION_FUNCTIONS), REQUIRED)
    num_partitions: int = key("numPartitions", INTEGER, REQUIRED)
    function_config: Mapping[str, str] = key("functionConfig", TEXT_MAP, EMPTY_MAP)


def column_values(text: str, separators: str) -> list[str]:
    """Return the `columnValues` of BoundedColumnValue: all characters of the delimiter separate, empty parts are dropped."""
    return [
        value for value in text.translate(dict.fromkeys(map(ord, separators), separators[0])).split(separators[0]) if value
    ]


@dataclass(frozen=True)
class SegmentPartitionConfig:
    """The partitioned columns."""

    columns: Mapping[str, PartitionConfig] = key(
        "columnPartitionMap", map_of(section(PartitionConfig)), EMPTY_MAP, always=True
    )


@dataclass(frozen=True)
class BloomConfig:
    """A bloom filter: its rate of false positives, and its size limit in bytes (0: none), which takes precedence."""

    fpp: float = key("fpp", NUMBER, 0.05)
    max_size_bytes: int = key("maxSizeInBytes", INTEGER, 0)
    load_on_heap: bool = key("loadOnHeap", FLAG, False)
    disabled: bool = key("disabled", FLAG, False)


@dataclass(frozen=True)
class RangeConfig:
    """A range index."""

    version: int = key("version", INTEGER, 2)
    disabled: bool = key("disabled", FLAG, False)


@dataclass(frozen=True)
class InvertedConfig:
    """An inverted index."""

    disabled: bool = key("disabled", FLAG, False)


@dataclass(frozen=True)
class InternConfig:
    """Sharing of equal dictionary values between segments."""

    disabled: bool = key("disabled", FLAG, False)
    capacity: int = key("capacity", INTEGER, 0)


@dataclass(frozen=True)
class DictionaryConfig:
    """A dictionary."""

    disabled: bool = key("disabled", FLAG, False)
    on_heap: bool = key("onHeap", FLAG, False)
    use_var_length_dictionary: bool = key("useVarLengthDictionary", FLAG, False)
    intern: InternConfig | None = key("intern", section(InternConfig))


@dataclass(frozen=True)
class ForwardConfig:
    """A forward index: the column's values in document order."""

    disabled: bool = key("disabled", FLAG, False)
    encoding_type: str | None = key("encodingType", choice("DICTIONARY", "RAW"))
    compression_codec: str | None = key("compressionCodec", TEXT)
    codec_spec: str | None = key("codecSpec", TEXT)
    derive_num_docs_per_chunk: bool = key("deriveNumDocsPerChunk", FLAG, False)
    raw_index_writer_version: int = key("rawIndexWriterVersion", INTEGER, 4)
    target_max_chunk_size: str = key("targetMaxChunkSize", TEXT, "1MB")
    target_docs_per_chunk: int = key("targetDocsPerChunk", INTEGER, 1000)
    configs: Any = key("configs", VERBATIM)


_H3_RESOLUTIONS = (7,)
_STRING = Form("string")


def _read_resolutions(value: Any, at: At) -> tuple[int, ...]:
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list) or not all(str(one).strip() in map(str, range(16)) for one in given):
        raise at.bad(value, "a list of whole numbers from 0 to 15")
    return tuple(sorted({int(one) for one in given})) or _H3_RESOLUTIONS


@dataclass(frozen=True)
class H3Config:
    """An H3 index: the resolutions of its cells, ascending; for a column of longitudes also the column of latitudes."""

    resolutions: tuple[int, ...] = key(
        "resolution",
        Shape(_read_resolutions, list, form=Form("either", items=(_STRING, list_of(TEXT).form))),
        _H3_RESOLUTIONS,
        aliases=("resolutions",),
    )
    latitude_column: str | None = key("latitudeColumn", TEXT)
    disabled: bool = key("disabled", FLAG, False)


def _read_words(value: Any, at: At) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else COLUMNS.read(value, at)  # properties are texts
    return tuple(word.strip() for word in words if word.strip())


_WORDS = Shape(_read_words, list, form=Form("either", items=(_STRING, COLUMNS.form)))


@dataclass(frozen=True)
class TextConfig:
    """A text index, and how TEXT_MATCH works on its column. Keys of Lucene's files and caches are kept without effect."""

    disabled: bool = key("disabled", FLAG, False)
    use_and: bool = key("useANDForMultiTermQueries", FLAG, False, aliases=("useANDForMultiTermTextIndexQueries",))
    case_sensitive: bool = key("caseSensitive", FLAG, False)
    stop_words_include: tuple[str, ...] = key("stopWordsInclude", _WORDS, (), aliases=("stopWordInclude",))
    stop_words_exclude: tuple[str, ...] = key("stopWordsExclude", _WORDS, (), aliases=("stopWordExclude",))
    open_phrases: bool = key("enablePrefixSuffixMatchingInPhraseQueries", FLAG, False)
    raw_value: str | None = key("rawValue", TEXT, aliases=("rawValueForTextIndex",))
    no_raw_data: bool = key("noRawDataForTextIndex", FLAG, False)
    query_cache: bool = key("queryCache", FLAG, False, aliases=("enableQueryCacheForTextIndex",))
    use_compound_file: bool = key("luceneUseCompoundFile", FLAG, True)
    max_buffer_size_mb: int = key("luceneMaxBufferSizeMB", INTEGER, 500)
    analyzer_class: str = key("luceneAnalyzerClass", TEXT, "org.apache.lucene.analysis.standard.StandardAnalyzer")
    analyzer_class_args: tuple[str, ...] = key("luceneAnalyzerClassArgs", _WORDS, ())
    analyzer_class_arg_types: tuple[str, ...] = key("luceneAnalyzerClassArgTypes", _WORDS, ())
    query_parser_class: str = key("luceneQueryParserClass", TEXT, "org.apache.lucene.queryparser.classic.QueryParser")
    reuse_mutable_index: bool = key("reuseMutableIndex", FLAG, False)
    caching_buffer_size_mb: int = key("luceneNRTCachingDirectoryMaxBufferSizeMB", INTEGER, 0)
    use_log_byte_size_merge_policy: bool = key(
        "useLogByteSizeMergePolicy", FLAG, False, aliases=("luceneUseLogByteSizeMergePolicy",)
    )
    doc_id_translator_mode: str | None = key("docIdTranslatorMode", TEXT, aliases=("luceneDocIdTranslatorMode",))
    store_in_segment_file: bool = key("storeInSegmentFile", FLAG, False)


@dataclass(frozen=True)
class MultiColumnTextConfig:
    """One text index of several columns. properties: settings of `indexes.text` for all; a column's own win."""

    columns: tuple[str, ...] = key("columns", COLUMNS, REQUIRED)
    properties: Mapping[str, Any] = key("properties", OBJECT, EMPTY_MAP)
    per_column_properties: Mapping[str, Mapping[str, Any]] = key("perColumnProperties", map_of(OBJECT), EMPTY_MAP)


@dataclass(frozen=True)
class CompoundInvertedConfig:
    """One inverted index of two or three single-value columns: the rows of each combination of their values."""

    columns: tuple[str, ...] = key("columns", COLUMNS, REQUIRED)


@dataclass(frozen=True)
class Indexes:
    """The `indexes` of a field config: each index by its name; an empty object enables it with its defaults."""

    dictionary: DictionaryConfig | None = key("dictionary", section(DictionaryConfig))
    forward: ForwardConfig | None = key("forward", section(ForwardConfig))
    inverted: InvertedConfig | None = key("inverted", section(InvertedConfig))
    range: RangeConfig | None = key("range", section(RangeConfig))
    bloom: BloomConfig | None = key("bloom", section(BloomConfig))
    null: Mapping[str, Any] | None = key("null", OBJECT)
    fst: Mapping[str, Any] | None = key("fst", OBJECT)
    ifst: Mapping[str, Any] | None = key("ifst", OBJECT)
    text: TextConfig | None = key("text", section(TextConfig))
    json: JsonIndexConfig | None = key("json", section(JsonIndexConfig))
    h3: H3Config | None = key("h3", section(H3Config))
    vector: VectorConfig | None = key("vector", section(VectorConfig))
    open_struct: Mapping[str, Any] | None = key("open_struct", OBJECT)

    def get(self, kind: str) -> Any:
        """Return the declaration of a kind, the dataclass or the mapping of its field; None without it."""
        return getattr(self, kind)


# kinds without a field in the class above: any object, which their types validate
_PLAIN_KINDS = [kind for kind in SECONDARY_TYPES if kind not in keys_of(Indexes) and kind not in KINDS_OF_TABLES]
_AnyIndexes: type[Indexes] = make_dataclass(
    "_AnyIndexes",
    [(kind, object, key(kind, OBJECT)) for kind in _PLAIN_KINDS],
    bases=(Indexes,),
    namespace={"__module__": __name__},
    frozen=True,
)


GRANULARITIES = ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


@dataclass(frozen=True)
class TimestampConfig:
    """The granularities with a derived column each."""

    granularities: tuple[str, ...] = key("granularities", list_of(choice(*GRANULARITIES)), ())


INDEX_TYPES = choice(
    "INVERTED", "SORTED", "TEXT", "FST", "IFST", "H3", "JSON", "TIMESTAMP", "VECTOR", "RANGE", "OPEN_STRUCT",
    *(kind.upper() for kind in _PLAIN_KINDS),
)  # fmt: skip


@dataclass(frozen=True)
class FieldConfig:
    """The declarations about one column's encoding and indexes."""

    name: str = key("name", TEXT, REQUIRED)
    encoding_type: str | None = key("encodingType", choice("DICTIONARY", "RAW"))
    index_type: str | None = key("indexType", INDEX_TYPES)
    index_types: tuple[str, ...] = key("indexTypes", list_of(INDEX_TYPES), ())
    indexes: Indexes = key("indexes", section(_AnyIndexes), _AnyIndexes())
    compression_codec: str | None = key("compressionCodec", TEXT)
    timestamp: TimestampConfig | None = key("timestampConfig", section(TimestampConfig))
    properties: Mapping[str, str] = key("properties", TEXT_MAP, EMPTY_MAP)
    tier_overwrites: Mapping[str, Any] | None = key("tierOverwrites", OBJECT)

    @property
    def all_index_types(self) -> tuple[str, ...]:
        """`indexTypes` and the older `indexType` together."""
        older = () if self.index_type is None or self.index_type in self.index_types else (self.index_type,)
        return (*self.index_types, *older)


@dataclass(frozen=True)
class StarTreeAggregation:
    """An aggregate that a star-tree stores."""

    aggregation_function: str = key("aggregationFunction", TEXT, REQUIRED)
    column_name: str | None = key("columnName", TEXT)
    function_parameters: Mapping[str, Any] | None = key("functionParameters", OBJECT)
    compression_codec: str | None = key("compressionCodec", TEXT)
    derive_num_docs_per_chunk: bool | None = key("deriveNumDocsPerChunk", FLAG)
    index_version: int | None = key("indexVersion", INTEGER)
    target_max_chunk_size: str | None = key("targetMaxChunkSize", TEXT)
    target_docs_per_chunk: int | None = key("targetDocsPerChunk", INTEGER)


@dataclass(frozen=True)
class StarTreeConfig:
    """A star-tree. max_size_ratio: the maximum ratio of its bytes to those of its segment's columns."""

    dimensions_split_order: tuple[str, ...] = key("dimensionsSplitOrder", list_of(TEXT), REQUIRED)
    skip_star_node_creation: tuple[str, ...] = key("skipStarNodeCreationForDimensions", list_of(TEXT), ())
    function_column_pairs: tuple[str, ...] = key("functionColumnPairs", list_of(TEXT), ())
    aggregations: tuple[StarTreeAggregation, ...] = key("aggregationConfigs", list_of(section(StarTreeAggregation)), ())
    max_leaf_records: int = key("maxLeafRecords", INTEGER, 10000)
    max_size_ratio: float = key("maxSizeRatio", NUMBER, 1.0)


def _read_sorted_column(value: Any, at: At) -> tuple[str, ...]:
    return COLUMNS.read([value] if isinstance(value, str) else value, at)  # the oldest files name just one


@dataclass(frozen=True)
class IndexingConfig:
    """`tableIndexConfig`. `column_index.column_index` merges its declarations about one column."""

    load_mode: str | None = key("loadMode", choice("MMAP", "HEAP"))
    segment_format_version: str | None = key("segmentFormatVersion", choice("v1", "v2", "v3"))
    sorted_columns: tuple[str, ...] = key("sortedColumn", Shape(_read_sorted_column, list, form=_WORDS.form), ())
    inverted_index_columns: tuple[str, ...] = key("invertedIndexColumns", COLUMNS, ())
    range_index_columns: tuple[str, ...] = key("rangeIndexColumns", COLUMNS, ())
    range_index_version: int = key("rangeIndexVersion", INTEGER, 2)
    json_index_columns: tuple[str, ...] = key("jsonIndexColumns", COLUMNS, ())
    json_index_configs: Mapping[str, JsonIndexConfig] = key("jsonIndexConfigs", map_of(section(JsonIndexConfig)), EMPTY_MAP)
    bloom_filter_columns: tuple[str, ...] = key("bloomFilterColumns", COLUMNS, ())
    bloom_filter_configs: Mapping[str, BloomConfig] = key("bloomFilterConfigs", map_of(section(BloomConfig)), EMPTY_MAP)
    no_dictionary_columns: tuple[str, ...] = key("noDictionaryColumns", COLUMNS, ())
    no_dictionary_config: Mapping[str, str] = key("noDictionaryConfig", TEXT_MAP, EMPTY_MAP)
    on_heap_dictionary_columns: tuple[str, ...] = key("onHeapDictionaryColumns", COLUMNS, ())
    var_length_dictionary_columns: tuple[str, ...] = key("varLengthDictionaryColumns", COLUMNS, ())
    stream_configs: Mapping[str, str] = key("streamConfigs", TEXT_MAP, EMPTY_MAP)
    star_tree_configs: tuple[StarTreeConfig, ...] = key("starTreeIndexConfigs", list_of(section(StarTreeConfig)), ())
    enable_default_star_tree: bool = key("enableDefaultStarTree", FLAG, False)
    enable_dynamic_star_tree_creation: bool = key("enableDynamicStarTreeCreation", FLAG, False)
    segment_partition: SegmentPartitionConfig | None = key("segmentPartitionConfig", section(SegmentPartitionConfig))
    aggregate_metrics: bool = key("aggregateMetrics", FLAG, False)
    null_handling_enabled: bool = key("nullHandlingEnabled", FLAG, False)
    column_min_max_value_generator_mode: str | None = key(
        "columnMinMaxValueGeneratorMode", choice("NONE", "TIME", "NON_METRIC", "ALL")
    )
    column_major_segment_builder_enabled: bool = key("columnMajorSegmentBuilderEnabled", FLAG, True)
    skip_segment_preprocess: bool = key("skipSegmentPreprocess", FLAG, False)
    optimize_no_dict_stats_collection: bool = key("optimizeNoDictStatsCollection", FLAG, False)
    optimize_dictionary: bool = key("optimizeDictionary", FLAG, False)
    optimize_dictionary_for_metrics: bool = key("optimizeDictionaryForMetrics", FLAG, False)
    optimize_dictionary_type: bool = key("optimizeDictionaryType", FLAG, False)
    no_dictionary_size_ratio_threshold: float = key("noDictionarySizeRatioThreshold", NUMBER, 0.85)
    no_dictionary_cardinality_ratio_threshold: float | None = key("noDictionaryCardinalityRatioThreshold", NUMBER)
    segment_name_generator_type: str | None = key("segmentNameGeneratorType", TEXT)
    auto_generated_inverted_index: bool = key("autoGeneratedInvertedIndex", FLAG, False)
    create_inverted_index_during_segment_generation: bool = key("createInvertedIndexDuringSegmentGeneration", FLAG, False)
    multi_column_text_index: MultiColumnTextConfig | None = key("multiColumnTextIndexConfig", section(MultiColumnTextConfig))
    compound_inverted_indexes: tuple[CompoundInvertedConfig, ...] = key(
        "compoundInvertedIndexConfigs", list_of(section(CompoundInvertedConfig)), ()
    )
    tier_overwrites: Mapping[str, Any] | None = key("tierOverwrites", OBJECT)
    compression_stats_enabled: bool = key("compressionStatsEnabled", FLAG, False)

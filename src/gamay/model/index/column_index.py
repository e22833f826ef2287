"""One column's encoding and indexes, merged from the lists of `tableIndexConfig` and from its field config."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.index.indexing import BloomConfig, FieldConfig, ForwardConfig, Indexes, IndexingConfig, PartitionConfig
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType, FieldRole
from gamay.model.units import parse_data_size

RAW_CODECS = ("PASS_THROUGH", "SNAPPY", "ZSTANDARD", "LZ4", "GZIP")
# properties of field configs
PACKED_PROPERTY = "forwardIndexBitPacked"
DERIVE_PROPERTY = "deriveNumDocsPerChunkForRawIndex"
FORWARD_DISABLED_PROPERTY = "forwardIndexDisabled"
DICTIONARY_CODECS = ("MV_ENTRY_DICT",)  # compresses dictionary ids of multi-value columns; ids are stored plain here


@dataclass(frozen=True)
class ColumnIndexConfig:
    """The storage and indexes of a column.

    dictionary: store distinct values and ids rather than raw values. optimize_dictionary: unless that takes more space.
    by_cost: unless rows are read faster without it. forward: store the values of rows; without it, they are derived from
    dictionary and inverted index if possible. codec: of raw values, one of RAW_CODECS; None if none is declared: then the
    rows decide. target_max_chunk_size: bytes.
    """

    dictionary: bool = True
    forward: bool = True
    optimize_dictionary: bool = False
    by_cost: bool = False
    codec: str | None = None
    inverted: bool = False
    range: bool = False
    bloom: BloomConfig | None = None
    target_docs_per_chunk: int = 1000
    target_max_chunk_size: int = 1 << 20
    partition: PartitionConfig | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def may_drop_dictionary(self) -> bool:
        """Whether the values of a segment determine if it has the dictionary."""
        return self.optimize_dictionary or self.by_cost

    @property
    def packed(self) -> bool:
        """Whether dictionary ids are stored in the fewest bits instead of whole bytes: smaller in memory, slower to read."""
        return self.properties.get(PACKED_PROPERTY, "").lower() == "true"


def column_index(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> ColumnIndexConfig:
    """Merge all declarations about a column; raises InvalidConfigError for an unknown codec or chunk size.

    A raw column with an index that needs a dictionary is stored with its dictionary: results are the same, and such
    columns rarely gain from having both.
    """
    column = spec.name
    indexes = declared.indexes if declared else Indexes()
    forward = indexes.forward or ForwardConfig()
    inverted = has_inverted(indexing, declared, column)
    dictionary = has_dictionary(indexing, declared, spec)
    is_metric = spec.role is FieldRole.METRIC
    optimize = indexing.optimize_dictionary or (indexing.optimize_dictionary_for_metrics and is_metric)
    is_measured = is_metric and spec.data_type in (DataType.FLOAT, DataType.DOUBLE)  # integers may be group keys
    partitions = indexing.segment_partition.columns if indexing.segment_partition else {}
    return ColumnIndexConfig(
        dictionary=dictionary,
        forward=not (forward_disabled(declared) and inverted),
        optimize_dictionary=dictionary and optimize and not (inverted or in_compound(indexing, column)),
        by_cost=dictionary and is_measured and not (optimize or names_encoding(indexing, declared, spec)),
        codec=None if dictionary else raw_codec(indexing, declared, spec),
        inverted=inverted,
        range=has_range(indexing, declared, column),
        bloom=bloom_of(indexing, declared, column),
        target_docs_per_chunk=_target_docs_per_chunk(declared, forward),
        target_max_chunk_size=parse_data_size(forward.target_max_chunk_size),
        partition=partitions.get(column),
        properties=declared.properties if declared else {},
    )


def is_raw(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> bool:
    """Whether the column is declared without dictionary; a MAP, whose values rarely repeat, never has one."""
    column = spec.name
    if spec.data_type is DataType.MAP or column in indexing.no_dictionary_columns or column in indexing.no_dictionary_config:
        return True
    if declared is None:
        return False
    forward, dictionary = declared.indexes.forward, declared.indexes.dictionary
    return "RAW" in (declared.encoding_type, forward and forward.encoding_type) or bool(dictionary and dictionary.disabled)


def has_dictionary(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> bool:
    """Whether the column is stored with a dictionary: unless it is raw and no declared index needs one."""
    return asks_for_dictionary(indexing, declared, spec.name) or not is_raw(indexing, declared, spec)


def names_encoding(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> bool:
    """Whether a declaration determines how the column is stored, or requires it."""
    if is_raw(indexing, declared, spec) or asks_for_dictionary(indexing, declared, spec.name):
        return True
    forward = declared.indexes.forward if declared else None
    named = (declared and declared.encoding_type, forward and forward.encoding_type)
    is_packed = declared is not None and declared.properties.get(PACKED_PROPERTY, "").lower() == "true"
    return any(named) or is_packed or has_range(indexing, declared, spec.name)


def asks_for_dictionary(indexing: IndexingConfig, declared: FieldConfig | None, column: str) -> bool:
    """Whether a declaration needs a dictionary, even of a raw column."""
    return asks_alone(indexing, declared, column) or in_compound(indexing, column)


def asks_alone(indexing: IndexingConfig, declared: FieldConfig | None, column: str) -> bool:
    """Whether a declaration about this column alone needs a dictionary, even of a raw column."""
    explicit = declared.indexes.dictionary if declared else None
    return (explicit is not None and not explicit.disabled) or has_inverted(indexing, declared, column)


def in_compound(indexing: IndexingConfig, column: str) -> bool:
    """Whether a compound inverted index includes the column."""
    return any(column in one.columns for one in indexing.compound_inverted_indexes)


def has_inverted(indexing: IndexingConfig, declared: FieldConfig | None, column: str) -> bool:
    """Whether an inverted index is declared."""
    new = declared.indexes.inverted if declared else None
    if new is not None:
        return not new.disabled
    return column in indexing.inverted_index_columns or _has_type(declared, "INVERTED")


def forward_disabled(declared: FieldConfig | None) -> bool:
    """Whether the forward index is disabled, which takes effect only with an inverted index."""
    if declared is None:
        return False
    older = declared.properties.get(FORWARD_DISABLED_PROPERTY, "").lower() == "true"
    return older or bool(declared.indexes.forward and declared.indexes.forward.disabled)


def has_range(indexing: IndexingConfig, declared: FieldConfig | None, column: str) -> bool:
    """Whether a range index is declared."""
    new = declared.indexes.range if declared else None
    if new is not None:
        return not new.disabled
    return column in indexing.range_index_columns or _has_type(declared, "RANGE")


def bloom_of(indexing: IndexingConfig, declared: FieldConfig | None, column: str) -> BloomConfig | None:
    """Return the declared bloom filter."""
    bloom = declared.indexes.bloom if declared else None
    bloom = bloom or indexing.bloom_filter_configs.get(column)
    if bloom is None and column in indexing.bloom_filter_columns:
        bloom = BloomConfig()
    return None if bloom is None or bloom.disabled else bloom


def declared_codec(indexing: IndexingConfig, declared: FieldConfig | None, column: str) -> str | None:
    """Return the compression codec as declared; that of the field config takes precedence over `noDictionaryConfig`."""
    forward = declared.indexes.forward if declared else None
    own = (forward and forward.compression_codec) or (declared and declared.compression_codec)
    return own or indexing.no_dictionary_config.get(column) or None


def raw_codec(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> str | None:
    """Return the declared codec of the column's raw values; raises InvalidConfigError naming the accepted ones."""
    codec = declared_codec(indexing, declared, spec.name)
    is_listed = codec is not None and codec == indexing.no_dictionary_config.get(spec.name)
    if codec is None or (is_listed and codec.upper() not in RAW_CODECS):
        return None  # tables stored before `noDictionaryConfig` was validated may have any text there
    if codec.upper() not in RAW_CODECS:
        raise InvalidConfigError(
            f"the compressionCodec '{codec}' of column '{spec.name}' is not one of {', '.join(RAW_CODECS)}."
            f"{nearest(codec, RAW_CODECS)}"
        )
    return codec.upper()


def _target_docs_per_chunk(declared: FieldConfig | None, forward: ForwardConfig) -> int:
    """Return the target number of docs per chunk; by default, or if it is to be derived, the size in bytes decides."""
    older = declared is not None and declared.properties.get(DERIVE_PROPERTY, "").lower() == "true"
    derived = older or forward.derive_num_docs_per_chunk
    return ForwardConfig().target_docs_per_chunk if derived else forward.target_docs_per_chunk


def _has_type(declared: FieldConfig | None, index_type: str) -> bool:
    return declared is not None and index_type in declared.all_index_types

"""Rules for `tableIndexConfig` and `fieldConfigList`; each yields a sentence for every violation."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.index.column_index import (
    DICTIONARY_CODECS,
    RAW_CODECS,
    asks_alone,
    bloom_of,
    declared_codec,
    forward_disabled,
    has_inverted,
    has_range,
    is_raw,
)
from gamay.model.index.indexing import FieldConfig, IndexingConfig, PartitionConfig, column_values
from gamay.model.index.json_index import problems_of
from gamay.model.index.timestamp_index import INDEXED_TYPES, TimestampColumn
from gamay.model.index.vector_index import vector_problems
from gamay.model.rules.subject import TableRule, TableSubject, complaint, duplicates, missing_column
from gamay.model.rules.text_indexes import TEXT_INDEX_RULES
from gamay.model.schema.schema import FieldSpec
from gamay.model.table.secondary_indexes import h3_config, is_declared, json_index, vector_config
from gamay.model.table.table_name import TableType
from gamay.model.types import DataType
from gamay.model.units import parse_data_size

_NORMALIZERS = ("POSITIVE_MODULO", "ABS", "MASK", "PRE_MODULO_ABS", "NO_OP")
_FUNCTION_KEYS = {
    "Murmur": ("useRawBytes",),
    "Murmur2": ("useRawBytes",),
    "Murmur3": ("seed", "variant", "useRawBytes"),
    "Fnv": ("variant", "useRawBytes", "negativePartitionHandling"),
    "BoundedColumnValue": ("columnValues", "columnValuesDelimiter"),
}
_SEED = re.compile(r"[-+]?[0-9]{1,10}")
_VARIANTS = {"Murmur3": ("x86_32", "x64_32"), "Fnv": ("fnv1a_32", "fnv1_32", "fnv1a_64", "fnv1_64")}


def _columns_exist(subject: TableSubject) -> Iterator[str]:
    indexing = subject.config.indexing
    lists = {
        "sortedColumn": indexing.sorted_columns,
        "invertedIndexColumns": indexing.inverted_index_columns,
        "rangeIndexColumns": indexing.range_index_columns,
        "jsonIndexColumns": indexing.json_index_columns,
        "jsonIndexConfigs": tuple(indexing.json_index_configs),
        "bloomFilterColumns": indexing.bloom_filter_columns,
        "bloomFilterConfigs": tuple(indexing.bloom_filter_configs),
        "noDictionaryColumns": indexing.no_dictionary_columns,
        "noDictionaryConfig": tuple(indexing.no_dictionary_config),
        "onHeapDictionaryColumns": indexing.on_heap_dictionary_columns,
        "varLengthDictionaryColumns": indexing.var_length_dictionary_columns,
        "segmentPartitionConfig": tuple(indexing.segment_partition.columns) if indexing.segment_partition else (),
    }
    for name, columns in lists.items():
        for column in columns:
            yield from filter(None, [missing_column(subject.schema, column, f"tableIndexConfig.{name}")])
        for column in duplicates(columns):
            yield f"tableIndexConfig.{name} has the column '{column}' more than once"
    for declared in subject.config.field_configs:
        yield from filter(None, [missing_column(subject.schema, declared.name, "fieldConfigList")])
    for name in duplicates(f.name for f in subject.config.field_configs):
        yield f"fieldConfigList has the column '{name}' more than once; put everything into one entry"


def _each_column(
    check: Callable[[IndexingConfig, FieldConfig | None, FieldSpec], Iterator[str]],
) -> TableRule:
    """Return the rule that applies a check to every column."""

    def rule(subject: TableSubject) -> Iterator[str]:
        for spec in subject.schema.stored_fields:
            yield from check(subject.config.indexing, subject.config.field_config(spec.name), spec)

    return rule


def _sorted(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> Iterator[str]:
    if spec.name in indexing.sorted_columns and not spec.single_value:
        yield f"tableIndexConfig.sortedColumn names '{spec.name}', a multi-value column; rows cannot be sorted by lists"


def _maps(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> Iterator[str]:
    """A MAP has a raw forward index, and may have a JSON index; `_special` excludes other special ones."""
    if spec.data_type is not DataType.MAP:
        return
    dictionary, name = declared.indexes.dictionary if declared else None, spec.name
    asked = {
        "a dictionary": (dictionary is not None and not dictionary.disabled)
        or (declared is not None and declared.encoding_type == "DICTIONARY")
        or name in (*indexing.on_heap_dictionary_columns, *indexing.var_length_dictionary_columns),
        "an inverted index": has_inverted(indexing, declared, name),
        "a range index": has_range(indexing, declared, name),
        "a bloom filter": bloom_of(indexing, declared, name) is not None,
        "the order of the rows (sortedColumn)": name in indexing.sorted_columns,
        "partitions": indexing.segment_partition is not None and name in indexing.segment_partition.columns,
    }
    for what in (what for what, is_asked in asked.items() if is_asked):
        yield (
            f"the MAP column '{name}' cannot have {what}; copy the values that are searched for into columns of their own, "
            f"as by the transform {name}['key']"
        )


def _dictionary(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> Iterator[str]:
    if spec.data_type is DataType.MAP:
        return
    listed = spec.name in indexing.no_dictionary_columns or spec.name in indexing.no_dictionary_config
    dictionary = declared.indexes.dictionary if declared else None
    if listed and declared is not None and declared.encoding_type == "DICTIONARY":
        yield (
            f"the column '{spec.name}' is in noDictionaryColumns and has encodingType DICTIONARY in "
            "fieldConfigList; keep one"
        )
    if (listed or (dictionary and dictionary.disabled)) and has_inverted(indexing, declared, spec.name):
        yield f"the column '{spec.name}' has an inverted index, which needs the dictionary that is switched off"
    for name in ("on_heap_dictionary_columns", "var_length_dictionary_columns"):
        if listed and spec.name in getattr(indexing, name):
            key = "onHeapDictionaryColumns" if name.startswith("on") else "varLengthDictionaryColumns"
            yield f"the column '{spec.name}' is in both noDictionaryColumns and {key}; keep one"
    var_length = spec.name in indexing.var_length_dictionary_columns or (dictionary and dictionary.use_var_length_dictionary)
    if var_length and (spec.data_type.is_fixed_width or spec.data_type is DataType.UUID):
        yield (
            f"the column '{spec.name}' asks for a dictionary of variable length, but all {spec.data_type.value} "
            "values are equally long"
        )
    intern = dictionary.intern if dictionary else None
    if intern and not intern.disabled and not (dictionary and dictionary.on_heap and intern.capacity > 0):
        yield f"the dictionary of '{spec.name}' has intern, which needs onHeap true and a capacity above 0"


def _range(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> Iterator[str]:
    if not has_range(indexing, declared, spec.name) or spec.data_type is DataType.MAP:
        return
    raw = is_raw(indexing, declared, spec)
    if raw and not (spec.data_type.is_numeric or spec.data_type is DataType.TIMESTAMP or spec.data_type is DataType.BOOLEAN):
        yield (
            f"the column '{spec.name}' of type {spec.data_type.value} has a range index, which needs a number or "
            "a dictionary"
        )
    own = declared.indexes.range if declared else None
    version = own.version if own else indexing.range_index_version
    if version not in (1, 2):
        yield f"the range index of '{spec.name}' has version {version}; it must be 1 or 2"
    elif version == 1 and raw and has_inverted(indexing, declared, spec.name):
        yield (
            f"the range index of '{spec.name}' has version 1, which does not work with RAW encoding beside a "
            "dictionary; use 2"
        )


def _bloom(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> Iterator[str]:
    bloom = bloom_of(indexing, declared, spec.name)
    if bloom is None:
        return
    if spec.data_type is DataType.BOOLEAN:
        yield f"the BOOLEAN column '{spec.name}' has a bloom filter, which could never exclude a segment"
    if not 0 < bloom.fpp < 1:
        yield f"the bloom filter of '{spec.name}' has fpp {bloom.fpp}; it must be between 0 and 1"
    if bloom.max_size_bytes < 0:
        yield f"the bloom filter of '{spec.name}' has maxSizeInBytes {bloom.max_size_bytes}; it must not be negative"


# index: (accepted types, needs single value, needs multi value, needs dictionary)
_SPECIAL: dict[str, tuple[tuple[DataType, ...], bool | None, bool]] = {
    "fst": ((DataType.STRING,), True, True),
    "ifst": ((DataType.STRING,), True, True),
    "text": ((DataType.STRING, DataType.JSON), None, False),
    "json": ((DataType.STRING, DataType.JSON, DataType.MAP), True, False),
    "h3": ((DataType.BYTES, DataType.STRING), True, False),
    "vector": ((DataType.FLOAT,), False, False),
    "timestamp": (INDEXED_TYPES, True, False),
}


def _special(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> Iterator[str]:
    try:
        json_config = json_index(indexing, declared, spec.name)
    except InvalidConfigError as error:
        yield f"the properties of the column '{spec.name}' are not valid for a JSON index: {error}"
        return
    for sentence in problems_of(json_config) if json_config is not None else ():
        yield f"the json index of '{spec.name}' has invalid settings: {sentence}"
    for name, (types, single, needs_dictionary) in _SPECIAL.items():
        if not (_is_declared(declared, name) or (name == "json" and json_config is not None)):
            continue
        if name == "h3" and declared is not None and _has_latitude(declared):
            types = _COORDINATES
        if spec.data_type not in types:
            accepted = " or ".join(t.value for t in types)
            yield f"the column '{spec.name}' of type {spec.data_type.value} has a {name} index, which needs {accepted}"
        if single is not None and spec.single_value != single:
            kind = "single-value" if single else "multi-value"
            yield f"the column '{spec.name}' has a {name} index, which needs a {kind} column"
        switched_off = spec.name in indexing.no_dictionary_columns or spec.name in indexing.no_dictionary_config
        if needs_dictionary and switched_off:
            yield f"the column '{spec.name}' has a {name} index, which needs the dictionary that is switched off"


def _timestamps(subject: TableSubject) -> Iterator[str]:
    for declared in subject.config.field_configs:
        for granularity in declared.timestamp.granularities if declared.timestamp else ():
            derived = TimestampColumn(declared.name, granularity)
            if derived.name in subject.schema:
                yield (
                    f"timestampConfig of '{declared.name}' makes a column '{derived.name}', which the schema has already; "
                    f"rename that column, or leave {granularity} out"
                )


_COORDINATES = (DataType.DOUBLE, DataType.FLOAT)


def _compound(subject: TableSubject) -> Iterator[str]:
    indexing, seen = subject.config.indexing, set()
    for number, columns in enumerate(one.columns for one in indexing.compound_inverted_indexes):
        where = f"tableIndexConfig.compoundInvertedIndexConfigs[{number}]"
        if not 2 <= len(columns) <= 3:
            yield f"{where} has {len(columns)} columns; a compound inverted index has two or three"
        for column in duplicates(columns):
            yield f"{where} has the column '{column}' more than once"
        if frozenset(columns) in seen:
            yield f"{where} has the same columns as an earlier one; keep one"
        seen.add(frozenset(columns))
        for column in dict.fromkeys(columns):
            missing = missing_column(subject.schema, column, where)
            if missing is not None:
                yield missing
                continue
            spec, declared = subject.schema.field(column), subject.config.field_config(column)
            if not spec.single_value:
                yield f"{where} names '{column}', a multi-value column; a compound inverted index needs single-value ones"
            if is_raw(indexing, declared, spec) and not asks_alone(indexing, declared, column):
                yield f"{where} names '{column}', which is declared without the dictionary that the index needs"


def _has_latitude(declared: FieldConfig) -> bool:
    with suppress(InvalidConfigError):  # `_h3` reports it
        return h3_config(declared).latitude_column is not None
    return False


def _h3(subject: TableSubject) -> Iterator[str]:
    for declared in subject.config.field_configs:
        if not is_declared(declared, "h3"):
            continue
        yield from complaint(lambda declared=declared: h3_config(declared), f"fieldConfigList of '{declared.name}'")  # type: ignore[misc]
        if not _has_latitude(declared):
            continue
        latitude, where = h3_config(declared).latitude_column or "", f"the h3 index of '{declared.name}'"
        if latitude not in subject.schema:
            yield from filter(None, [missing_column(subject.schema, latitude, f"latitudeColumn of {where}")])
        elif latitude == declared.name:
            yield f"{where} has the column itself as latitudeColumn; name the one of latitudes"
        elif (spec := subject.schema.field(latitude)).data_type not in _COORDINATES or not spec.single_value:
            yield f"{where} has the latitudeColumn '{latitude}', which must be a single-value column of DOUBLE or FLOAT"


def _vector(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> Iterator[str]:
    try:
        config = vector_config(declared)
    except InvalidConfigError as error:
        yield f"the properties of '{spec.name}': {error}"
        return
    if config is not None:
        yield from vector_problems(config, spec.name)


def _is_declared(declared: FieldConfig | None, index: str) -> bool:
    if index == "timestamp":
        return declared is not None and declared.timestamp is not None
    return declared is not None and is_declared(declared, index)


def _declared_twice(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> Iterator[str]:
    if declared is None:
        return
    name, indexes = spec.name, declared.indexes
    older = {
        "inverted": (indexes.inverted, name in indexing.inverted_index_columns and "invertedIndexColumns"),
        "range": (indexes.range, name in indexing.range_index_columns and "rangeIndexColumns"),
        "bloom": (
            indexes.bloom,
            (name in indexing.bloom_filter_columns and "bloomFilterColumns")
            or (name in indexing.bloom_filter_configs and "bloomFilterConfigs"),
        ),
        "json": (
            indexes.json,
            (name in indexing.json_index_columns and "jsonIndexColumns")
            or (name in indexing.json_index_configs and "jsonIndexConfigs"),
        ),
        **{index: (getattr(indexes, index), False) for index in ("text", "fst", "ifst", "h3", "vector", "open_struct")},
    }
    for index, (new, listed) in older.items():
        typed = index.upper() in declared.all_index_types and "indexType"
        for place in filter(None, (listed, typed)):
            if new is not None:
                yield (
                    f"the {index} index of '{name}' is declared twice: in fieldConfigList.indexes and in {place}; keep "
                    "the former"
                )


def _codec(indexing: IndexingConfig, declared: FieldConfig | None, spec: FieldSpec) -> Iterator[str]:
    forward = declared.indexes.forward if declared else None
    codec = declared_codec(indexing, declared, spec.name)
    raw = is_raw(indexing, declared, spec)
    if forward is not None and forward.codec_spec is not None:
        yield f"the forward index of '{spec.name}' has a codecSpec, which is not supported; use compressionCodec"
    if codec is not None:
        accepted = RAW_CODECS if raw else DICTIONARY_CODECS
        if codec.upper() not in (*RAW_CODECS, *DICTIONARY_CODECS):
            yield (
                f"the compressionCodec '{codec}' of '{spec.name}' is not one of {', '.join(accepted)}."
                f"{nearest(codec, (*RAW_CODECS, *DICTIONARY_CODECS))}"
            )
        elif codec.upper() not in accepted:
            encoding = "RAW" if raw else "DICTIONARY"
            yield (
                f"the compressionCodec '{codec}' of '{spec.name}' does not work with its encodingType {encoding}, "
                f"for which there {'are' if len(accepted) > 1 else 'is'} {', '.join(accepted)}"
            )
    if forward is not None:
        yield from complaint(lambda: parse_data_size(forward.target_max_chunk_size), f"targetMaxChunkSize of '{spec.name}'")
        if forward.target_docs_per_chunk < 1:
            yield f"the targetDocsPerChunk of '{spec.name}' is {forward.target_docs_per_chunk}; it must be at least 1"


def _forward_disabled(subject: TableSubject) -> Iterator[str]:
    config = subject.config
    read = _columns_that_servers_read(subject)
    for declared in filter(forward_disabled, config.field_configs):
        disabled = f"the forward index of '{declared.name}' is disabled"
        if config.table_type is not TableType.OFFLINE:
            yield f"{disabled}, which only OFFLINE tables can do"
        if config.indexing.optimize_dictionary or config.indexing.optimize_dictionary_for_metrics:
            yield f"{disabled}, which does not work with optimizeDictionary"
        if config.is_dim_table:
            yield f"{disabled}, but lookUp reads the columns of a dimension table"
        if declared.name in read:
            yield f"{disabled}, but the values of {read[declared.name]} are read whenever a segment is loaded"


def _columns_that_servers_read(subject: TableSubject) -> dict[str, str]:
    """Return the columns that decide which row of a key is valid, with the role of each."""
    config = subject.config
    if not config.has_keys:
        return {}
    upsert = config.active_upsert
    deletes = None if upsert is None else upsert.delete_record_column
    return {
        **dict.fromkeys(config.compared_columns, "a comparison column"),
        deletes or "": "the delete column",
        **dict.fromkeys(subject.schema.primary_key_columns, "the primary key"),
    }


def _partitions(subject: TableSubject) -> Iterator[str]:
    partitions = subject.config.indexing.segment_partition
    for column, partition in (partitions.columns if partitions else {}).items():
        if column in subject.schema and not subject.schema.field(column).single_value:
            yield f"segmentPartitionConfig names '{column}', a multi-value column; a row must be in one partition"
        yield from _partition(f"segmentPartitionConfig of '{column}'", partition)


def _partition(where: str, partition: PartitionConfig) -> Iterator[str]:
    config = partition.function_config
    if partition.num_partitions < 1:
        yield f"{where}: numPartitions is {partition.num_partitions}; it must be at least 1"
    if partition.function_name == "BoundedColumnValue":
        values, delimiter = config.get("columnValues"), config.get("columnValuesDelimiter")
        if not values or not delimiter:
            yield f"{where}: BoundedColumnValue needs columnValues and columnValuesDelimiter in functionConfig"
        elif partition.num_partitions != (expected := len(column_values(values, delimiter)) + 1):
            yield (
                f"{where}: numPartitions is {partition.num_partitions}; it must be {expected}, one more than there "
                "are columnValues"
            )
    variants, variant = _VARIANTS.get(partition.function_name, ()), config.get("variant")
    if variants and variant is not None and variant.lower() not in variants:
        yield f"{where}: the variant '{variant}' is not one of {', '.join(variants)}.{nearest(variant, variants)}"
    known = (*_FUNCTION_KEYS.get(partition.function_name, ()), "partitionIdNormalizer")
    for name in config:
        if name not in known:
            yield f"{where}: {name} of functionConfig is unknown to {partition.function_name}.{nearest(name, known)}"
    seed = config.get("seed", "0")
    if _SEED.fullmatch(seed) is None or not -(2**31) <= int(seed) < 2**31:
        yield f"{where}: the seed '{seed}' is not a whole number of 32 bits"
    raw_bytes = config.get("useRawBytes", "false")
    if raw_bytes.lower() not in ("true", "false"):
        yield f"{where}: useRawBytes must be true or false, not '{raw_bytes}'"
    handling = config.get("negativePartitionHandling")
    if partition.function_name.lower() == "fnv" and handling is not None and handling.lower() not in ("mask", "abs"):
        yield f"{where}: negativePartitionHandling must be mask or abs, not '{handling}'"
    normalizer = config.get("partitionIdNormalizer")
    if normalizer is not None and normalizer.upper() not in _NORMALIZERS:
        yield (
            f"{where}: the partitionIdNormalizer '{normalizer}' is not one of {', '.join(_NORMALIZERS)}."
            f"{nearest(normalizer, _NORMALIZERS)}"
        )


INDEX_RULES: tuple[TableRule, ...] = (
    _columns_exist,
    _each_column(_sorted),
    _each_column(_maps),
    _each_column(_dictionary),
    _each_column(_range),
    _each_column(_bloom),
    _each_column(_special),
    _h3,
    _each_column(_vector),
    _each_column(_declared_twice),
    _each_column(_codec),
    _forward_disabled,
    _timestamps,
    _partitions,
    _compound,
    *TEXT_INDEX_RULES,
)

"""The vector index of a column as declared: `indexes.vector`, or the older `properties` of a field config."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.parse import (
    EMPTY_MAP,
    FLAG,
    INTEGER,
    TEXT,
    TEXT_MAP,
    choice,
    key,
    keys_of,
    read_document,
    write_section,
)

DISTANCES = ("COSINE", "INNER_PRODUCT", "EUCLIDEAN", "DOT_PRODUCT", "L2")
INDEX_TYPES = ("HNSW", "IVF_FLAT", "IVF_PQ", "IVF_ON_DISK")
DIMENSION_MAX = 1 << 16
HNSW_LIBRARY = "usearch"
_PQ_BITS = (4, 6, 8)
_LUCENE = ("maxDimensions", "maxBufferSizeMB", "useCompoundFile", "mode", "commit", "commitIntervalMs", "commitDocs")


@dataclass(frozen=True)
class VectorConfig:
    """A vector index. properties: those of its type, see HnswProperties and IvfProperties."""

    index_type: str = key("vectorIndexType", TEXT, "HNSW")
    dimension: int = key("vectorDimension", INTEGER, 0)
    distance: str | None = key("vectorDistanceFunction", TEXT)
    version: int = key("version", INTEGER, 1)
    store_in_segment_file: bool = key("storeInSegmentFile", FLAG, False)
    properties: Mapping[str, str] = key("properties", TEXT_MAP, EMPTY_MAP)
    disabled: bool = key("disabled", FLAG, False)

    @staticmethod
    def of_properties(properties: Mapping[str, str]) -> "VectorConfig":
        """Parse the older form, in which the properties hold all settings. Raises InvalidConfigError."""
        own = {name: value for name, value in properties.items() if name in _OWN_KEYS}
        rest = {name: value for name, value in properties.items() if name not in _OWN_KEYS}
        given = {"vectorDistanceFunction": DISTANCES[0], **own, "properties": rest}
        return read_document(VectorConfig, given, "the vector index").value

    @property
    def distance_name(self) -> str:
        """The distance, one of DISTANCES in a valid config; empty if none is declared."""
        return (self.distance or "").upper()

    @property
    def type_name(self) -> str:
        """The index type, one of INDEX_TYPES in a valid config."""
        return self.index_type.upper()

    @cached_property
    def own(self) -> "HnswProperties | IvfProperties":
        """The properties of the index type. Raises InvalidConfigError."""
        return read_document(_properties_of(self.type_name), dict(self.properties), f"the {self.type_name} index").value

    def settings(self) -> dict[str, Any]:
        """Return the settings that an index is built with, as JSON types, equal for both forms."""
        given = write_section(self.own)
        return {
            "vectorIndexType": self.type_name,
            "vectorDimension": self.dimension,
            "vectorDistanceFunction": self.distance_name,
            **{name: value for name, value in given.items() if name in _EFFECTIVE},
        }


_OWN_KEYS = {described.name for described in keys_of(VectorConfig).values()} - {"properties", "disabled"}


@dataclass(frozen=True)
class HnswProperties:
    """The properties of HNSW: edges of a node, and nodes that are visited when one is added. The others are Lucene's."""

    max_connections: int = key("maxCon", INTEGER, 16)
    beam_width: int = key("beamWidth", INTEGER, 100)
    max_dimensions: int | None = key("maxDimensions", INTEGER)
    max_buffer_size_mb: str | None = key("maxBufferSizeMB", TEXT)
    use_compound_file: bool | None = key("useCompoundFile", FLAG)
    mode: str | None = key("mode", TEXT)
    commit: str | None = key("commit", TEXT)
    commit_interval_ms: int | None = key("commitIntervalMs", INTEGER)
    commit_docs: int | None = key("commitDocs", INTEGER)


@dataclass(frozen=True)
class IvfProperties:
    """The properties of IVF indexes: number of lists, rows and seed of their training, and minimum number of rows."""

    nlist: int | None = key("nlist", INTEGER)
    train_sample_size: int | None = key("trainSampleSize", INTEGER)
    training_seed: int | None = key("trainingSeed", INTEGER)
    min_rows_for_index: int | None = key("minRowsForIndex", INTEGER)
    quantizer: str | None = key("quantizer", choice("FLAT", "SQ8", "SQ4", "PQ"))
    pq_m: int | None = key("pqM", INTEGER)
    pq_nbits: int | None = key("pqNbits", INTEGER)


_EFFECTIVE = ("maxCon", "beamWidth", "nlist", "trainSampleSize", "trainingSeed", "minRowsForIndex")
_PQ_KEYS = ("nlist", "pqM", "pqNbits", "trainSampleSize", "trainingSeed")


def _properties_of(index_type: str) -> type[HnswProperties] | type[IvfProperties]:
    return HnswProperties if index_type == "HNSW" else IvfProperties


def _known_properties(index_type: str) -> list[str]:
    names = [described.name for described in keys_of(_properties_of(index_type)).values()]
    return [name for name in names if index_type == "IVF_PQ" or not name.startswith("pq")]


def vector_problems(config: VectorConfig, column: str) -> Iterator[str]:
    """Yield a sentence for each problem of a column's vector index."""
    distance, index_type, where = config.distance_name, config.type_name, f"the vector index of '{column}'"
    if not distance:
        yield f"{where} has no vectorDistanceFunction; it must be one of {', '.join(DISTANCES)}"
    elif distance not in DISTANCES:
        yield (
            f"the vectorDistanceFunction '{distance}' of '{column}' is not one of {', '.join(DISTANCES)}."
            f"{nearest(distance, DISTANCES)}"
        )
    if not 0 < config.dimension <= DIMENSION_MAX:
        yield f"{where} has vectorDimension {config.dimension}; it must be the length of the vectors, 1 to {DIMENSION_MAX}"
    if index_type not in INDEX_TYPES:
        yield (
            f"the vectorIndexType '{config.index_type}' of '{column}' is not one of {', '.join(INDEX_TYPES)}."
            f"{nearest(index_type, INDEX_TYPES)}"
        )
        return
    known = _known_properties(index_type)
    for name in config.properties:
        if name not in known:
            yield f"{where}: the property {name} is unknown to {index_type}.{nearest(name, known)}"
    try:
        own = config.own
    except InvalidConfigError as error:
        yield f"{where}: {error}"
        return
    yield from (f"{where}: {problem}" for problem in _property_problems(own, config))


def _property_problems(own: HnswProperties | IvfProperties, config: VectorConfig) -> Iterator[str]:
    if isinstance(own, HnswProperties):
        if not 2 <= own.max_connections <= 512:
            yield f"maxCon is {own.max_connections}; it must be 2 to 512"
        if not 1 <= own.beam_width <= 3200:
            yield f"beamWidth is {own.beam_width}; it must be 1 to 3200"
        return
    for name, value in (("nlist", own.nlist), ("trainSampleSize", own.train_sample_size)):
        if value is not None and value < 1:
            yield f"{name} is {value}; it must be at least 1"
    if own.min_rows_for_index is not None and own.min_rows_for_index < 0:
        yield f"minRowsForIndex is {own.min_rows_for_index}; it must not be negative"
    if own.training_seed is not None and own.training_seed < 0:
        yield f"trainingSeed is {own.training_seed}; it must not be negative"
    if own.nlist is not None and own.train_sample_size is not None and own.train_sample_size < own.nlist:
        yield f"trainSampleSize is {own.train_sample_size}; it must be at least nlist, which is {own.nlist}"
    if config.type_name == "IVF_PQ":
        if missing := [name for name in _PQ_KEYS if name not in config.properties]:
            yield f"IVF_PQ needs the properties {', '.join(missing)}"
        if own.pq_m is not None and (own.pq_m < 1 or config.dimension % own.pq_m):
            yield f"pqM is {own.pq_m}; it must divide vectorDimension, which is {config.dimension}"
        if own.pq_nbits is not None and own.pq_nbits not in _PQ_BITS:
            yield f"pqNbits is {own.pq_nbits}; it must be one of {', '.join(map(str, _PQ_BITS))}"
    elif own.quantizer == "PQ":
        yield "the quantizer PQ is for IVF_PQ only"


def unused_vector_settings(config: VectorConfig) -> dict[str, tuple[object, str]]:
    """Return the keys of a vector index without effect: whether each is set, and why it has no effect."""
    given = config.properties
    is_compressed = config.type_name != "HNSW" and given.get("quantizer", "FLAT").upper() != "FLAT"
    compressed = "IVF indexes hold uncompressed vectors, so that distances are exact"
    return {
        "version": (config.version != 1, "there is one format of vector indexes"),
        "storeInSegmentFile": (config.store_in_segment_file, "indexes have files of their own beside that of the columns"),
        "quantizer": (is_compressed, compressed),
        "pqM, pqNbits": (config.type_name == "IVF_PQ", compressed),
        ", ".join(name for name in _LUCENE if name in given): (
            any(name in given for name in _LUCENE),
            "it is of a library that Gamay does not use",
        ),
        "vectorIndexType HNSW": (
            config.type_name == "HNSW" and find_spec(HNSW_LIBRARY) is None,
            f"{HNSW_LIBRARY} is not installed here (pip install 'gamay[vector]'), and servers without it build IVF_FLAT",
        ),
    }

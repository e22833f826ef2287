"""The stream keys of a table config, read and checked: one `StreamConfig` for each topic."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import isnan, nan
from typing import TypeVar

from gamay.base.errors import InvalidConfigError, nearest
from gamay.ingest.stream.offsets import LARGEST, OffsetCriteria
from gamay.model.table.table_config import TableConfig
from gamay.model.units import parse_data_size, parse_period

T = TypeVar("T")

DEFAULT_FLUSH_ROWS = 5_000_000
DEFAULT_FLUSH_SEGMENT_BYTES = 200 << 20
DEFAULT_FLUSH_MILLIS = 6 * 3_600_000
DEFAULT_AUTOTUNE_ROWS = 100_000
TOPIC_PARTITIONS_MAX = 10_000
"""Partition ids of a table with several topics are `topic index * TOPIC_PARTITIONS_MAX + partition of the stream`."""

_LOW_LEVEL = ("lowlevel", "simple")
_HIGH_LEVEL = ("highlevel",)
_FLUSH = "realtime.segment.flush."
_ROWS, _SIZE, _TIME = _FLUSH + "threshold.rows", _FLUSH + "threshold.size", _FLUSH + "threshold.time"
_SEGMENT_ROWS, _SEGMENT_SIZE = _FLUSH + "threshold.segment.rows", _FLUSH + "threshold.segment.size"
_MEMORY = _FLUSH + "threshold.memory"
_DESIRED_SIZE = _FLUSH + "desired.size"
_VARIANCE, _INITIAL_ROWS = _FLUSH + "threshold.variance.fraction", _FLUSH + "autotune.initialRows"
_RESET = "realtime.segment.offsetAutoReset."

_DOWNLOAD_TIMEOUT = "realtime.segment.pauseless.download.timeoutSeconds"
_GENERAL_KEYS = (
    "streamType", "topic.consumption.rate.limit", "partition.consumption.rate.limit", _ROWS, _SIZE, _SIZE + ".llc",
    _SEGMENT_ROWS, _SEGMENT_SIZE, _DESIRED_SIZE, _MEMORY, _TIME, _TIME + ".llc", _VARIANCE, _INITIAL_ROWS,
    "realtime.segment.commit.timeoutSeconds", "realtime.segment.serverUploadToDeepStore",
    _DOWNLOAD_TIMEOUT, _RESET + "enable", _RESET + "offsetThreshold",
    _RESET + "timeThresholdSeconds", "realtime.segment.isBackfillTopic",
)  # fmt: skip
_TYPED_KEYS = (
    "topic.name", "decoder.class.name", "consumer.factory.class.name", "consumer.prop.auto.offset.reset", "consumer.type",
    "fetch.timeout.millis", "connection.timeout.millis", "idle.timeout.millis", "metadata.populate",
)  # fmt: skip
_DECODER_PROP = "decoder.prop."
_CONSUMER_PROP = "consumer.prop."
_EMPTY_IS_A_VALUE = (_DECODER_PROP + "nullStringValue", _CONSUMER_PROP)
"""Where the empty string says something; elsewhere it is what nobody filled in."""


@dataclass(frozen=True, slots=True)
class FlushThresholds:
    """Thresholds at which a consuming segment is complete. Exactly one of the first three is set, the others are None.

    rows: for all partitions of the table on one server together, to be divided among them.
    segment_rows: for one segment. segment_bytes: desired size of a segment, by which the row limit
    is tuned from segment to segment, starting with `initial_rows`.
    variance_fraction: in [0, 0.5), the maximum random deviation of a segment's row limit, so that not all
    partitions commit at the same time. memory_bytes: memory limit of a consuming segment's rows on a server, in addition to
    the other thresholds; None is unlimited.
    """

    rows: int | None = DEFAULT_FLUSH_ROWS
    segment_rows: int | None = None
    segment_bytes: int | None = None
    time_ms: int = DEFAULT_FLUSH_MILLIS
    variance_fraction: float = 0.0
    initial_rows: int = DEFAULT_AUTOTUNE_ROWS
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetAutoReset:
    """When to jump to the end of the stream at commit: messages behind, or seconds behind; None disables it."""

    offset_threshold: int | None = None
    time_threshold_s: int | None = None


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """One topic of a table.

    decoder_name, factory_name: as written, None when absent: the name of a plug-in, or a class name of Pinot.
    decoder_properties: the keys below `decoder.prop.`, without that prefix; so `consumer_properties` below `consumer.prop.`
    (except `auto.offset.reset`). properties: the other keys below `stream.<type>.`, without it, which the plug-in judges.
    client_properties: keys without a prefix that are not of Gamay's: settings of the stream's client library.
    warnings: sentences about invalid values that are ignored, as in Pinot; their defaults apply.
    rate limits: messages per second, None for no limit. idle_timeout_ms: None for never.
    """

    stream_type: str
    topic: str
    decoder_name: str | None = None
    decoder_properties: Mapping[str, str] = field(default_factory=dict)
    factory_name: str | None = None
    is_low_level: bool = True
    is_high_level: bool = False
    offset_criteria: OffsetCriteria = LARGEST
    fetch_timeout_ms: int = 5_000
    connection_timeout_ms: int = 30_000
    idle_timeout_ms: int | None = 180_000
    metadata_populate: bool = False
    topic_rate_limit: float | None = None
    partition_rate_limit: float | None = None
    flush: FlushThresholds = FlushThresholds()
    high_level_flush: FlushThresholds = FlushThresholds()
    commit_timeout_s: int | None = None
    server_upload_to_deep_store: bool | None = None
    offset_auto_reset: OffsetAutoReset | None = None
    is_backfill_topic: bool = False
    stop_on_decode_error: bool = False
    consumer_properties: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    client_properties: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @classmethod
    def parse(cls, keys: Mapping[str, str], where: str = "streamConfigs") -> "StreamConfig":
        """Read one stream map; raises InvalidConfigError with every problem in it, each with its key."""
        reader = _Reader(keys, where)
        config = _read(cls, reader)
        if reader.problems:
            raise InvalidConfigError("; ".join(reader.problems))
        return config

    def property_key(self, name: str) -> str:
        """Return the whole key of one of this stream's own properties, for messages."""
        return f"stream.{self.stream_type}.{name}"


def stream_configs(table: TableConfig) -> tuple[StreamConfig, ...]:
    """Return the topics of a table, in the order in which they are written; empty when it has none.

    Raises InvalidConfigError for invalid keys and for incompatible topics.
    """
    stream = table.ingestion.stream
    if stream is not None and table.indexing.stream_configs:
        raise InvalidConfigError("streamConfigMaps and tableIndexConfig.streamConfigs exclude each other; keep the former")
    if stream is None:
        older = table.indexing.stream_configs
        return (_parse(tuple(older.items()), "tableIndexConfig.streamConfigs"),) if older else ()
    found = tuple(
        _parse(tuple(keys.items()), f"streamConfigMaps[{position}]")
        for position, keys in enumerate(stream.stream_config_maps)
    )
    for other in found[1:]:
        if other.stream_type != found[0].stream_type:
            raise InvalidConfigError("all streamConfigMaps of a table need the same streamType")
        if other.flush != found[0].flush:
            raise InvalidConfigError("all streamConfigMaps of a table need the same flush thresholds")
    if len({config.topic for config in found}) < len(found):
        raise InvalidConfigError("streamConfigMaps name a topic twice")
    return found


@lru_cache(256)  # needed for every request of a server to the controller
def _parse(keys: tuple[tuple[str, str], ...], where: str) -> StreamConfig:
    return StreamConfig.parse(dict(keys), where)


class _Reader:
    """Reader of the keys of a stream map; collects problems, and continues with defaults."""

    def __init__(self, keys: Mapping[str, str], where: str) -> None:
        self.keys = dict(keys)
        self.where = where
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def says(self, key: str, problem: str) -> None:
        sentence = f"{self.where}: {key}: {problem}"
        if sentence not in self.problems:  # thresholds are read for both kinds of consumers
            self.problems.append(sentence)

    def read(self, key: str, convert: Callable[[str], T], default: T) -> T:
        value, problem = self._converted(key, convert, default)
        if problem:
            self.says(key, problem)
        return value

    def read_or_warn(self, key: str, convert: Callable[[str], T], default: T) -> T:
        """Read a value with a warning if it is invalid: Pinot then uses the default, so the table must not be rejected."""
        value, problem = self._converted(key, convert, default)
        sentence = f"{self.where}: {key}: {problem}; {default} is taken instead"
        if problem and sentence not in self.warnings:
            self.warnings.append(sentence)
        return value

    def read_limit(self, key: str, convert: Callable[[str], int]) -> int:
        """Read a limit, 0 or less being none; Pinot writes -1 for that, and what is less is likely to be a mistake."""
        value = self.read(key, convert, -1)
        if value < -1:
            self.warn_unused(key, f"{value} is no limit; write one greater than 0, or leave the key out")
        return value

    def warn_unused(self, key: str, why: str) -> None:
        sentence = f"{self.where}: {key} has no effect: {why}"
        if self.keys.get(key, "").strip() and sentence not in self.warnings:
            self.warnings.append(sentence)

    def _converted(self, key: str, convert: Callable[[str], T], default: T) -> tuple[T, str]:
        text = self.keys.get(key)
        if text is None or not text.strip():
            return default, ""
        try:
            return convert(text.strip()), ""
        except (InvalidConfigError, ValueError) as error:
            return default, str(error)

    def first(self, *names: str) -> str:
        """Return the first key that is present, else the last one."""
        return next((name for name in names if self.keys.get(name, "").strip()), names[-1])


def _read(cls: type[StreamConfig], reader: _Reader) -> StreamConfig:
    stream_type = reader.keys.get("streamType", "").strip()
    if not stream_type:
        reader.says("streamType", "is required, such as 'kafka' or 'log'")
        return cls("", "")
    prefix = f"stream.{stream_type}."
    topic = reader.keys.get(prefix + "topic.name", "").strip()
    if not topic:
        reader.says(prefix + "topic.name", "is required")
    low, high = reader.read(prefix + "consumer.type", _consumer_types, (True, False))
    typed, general = _split(reader, prefix)
    decoder_properties = _below(typed, _DECODER_PROP)
    idle = reader.read_or_warn(prefix + "idle.timeout.millis", _integer, 180_000)
    reader.read(_DOWNLOAD_TIMEOUT, _positive, 600)
    reader.warn_unused(_DOWNLOAD_TIMEOUT, "a server tries until it has the segment")
    rates = [reader.read(f"{of}.consumption.rate.limit", _number, -1.0) for of in ("topic", "partition")]
    return cls(
        stream_type=stream_type,
        topic=topic,
        decoder_name=reader.keys.get(prefix + "decoder.class.name", "").strip() or None,
        decoder_properties=decoder_properties,
        factory_name=reader.keys.get(prefix + "consumer.factory.class.name", "").strip() or None,
        is_low_level=low,
        is_high_level=high,
        offset_criteria=reader.read(prefix + "consumer.prop.auto.offset.reset", OffsetCriteria.parse, LARGEST),
        fetch_timeout_ms=reader.read_or_warn(prefix + "fetch.timeout.millis", _positive, 5_000),
        connection_timeout_ms=reader.read_or_warn(prefix + "connection.timeout.millis", _positive, 30_000),
        idle_timeout_ms=None if idle < 0 else idle,
        metadata_populate=reader.read(prefix + "metadata.populate", _flag, False),
        topic_rate_limit=rates[0] if rates[0] > 0 else None,
        partition_rate_limit=rates[1] if rates[1] > 0 else None,
        flush=_thresholds(reader, reader.first(_ROWS, _SIZE + ".llc", _SIZE), reader.first(_TIME + ".llc", _TIME)),
        high_level_flush=_thresholds(reader, reader.first(_ROWS, _SIZE), _TIME),
        commit_timeout_s=reader.read("realtime.segment.commit.timeoutSeconds", _positive_or_none, None),
        server_upload_to_deep_store=reader.read("realtime.segment.serverUploadToDeepStore", _flag_or_none, None),
        offset_auto_reset=_auto_reset(reader),
        is_backfill_topic=reader.read("realtime.segment.isBackfillTopic", _flag, False),
        stop_on_decode_error=reader.read(f"{prefix}{_DECODER_PROP}stopOnDecodeError", _flag, False),
        consumer_properties=_below(typed, _CONSUMER_PROP),
        properties={k: v for k, v in typed.items() if not k.startswith((_DECODER_PROP, _CONSUMER_PROP))},
        client_properties=general,
        warnings=tuple(reader.warnings),
    )


def _split(reader: _Reader, prefix: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the keys for the plug-in: those below the prefix, and those without one."""
    typed: dict[str, str] = {}
    general: dict[str, str] = {}
    for key, value in reader.keys.items():
        if key.startswith(prefix):
            name = key[len(prefix) :]
            if name not in _TYPED_KEYS and (value or name.startswith(_EMPTY_IS_A_VALUE)):
                typed[name] = value
        elif key.startswith("stream."):
            reader.says(key, f"belongs to another stream type; this one's keys begin with '{prefix}'")
        elif key in _GENERAL_KEYS:
            continue
        elif key.startswith(("realtime.", "topic.consumption.", "partition.consumption.")):
            reader.says(key, f"is not a known key.{nearest(key, _GENERAL_KEYS)}")
        else:
            general[key] = value
    return typed, general


def _below(keys: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in keys.items() if key.startswith(prefix)}


def _thresholds(reader: _Reader, rows_key: str, time_key: str) -> FlushThresholds:
    size_key = reader.first(_SEGMENT_SIZE, _DESIRED_SIZE)
    rows = reader.read_limit(rows_key, _integer)
    segment_rows = reader.read_limit(_SEGMENT_ROWS, _integer)
    size = reader.read_limit(size_key, _size)
    decides = [(rows_key, rows), (_SEGMENT_ROWS, segment_rows), (size_key, size)]
    # the older pair of keys was used with both set: the size applied only if the rows were 0
    if size_key == _DESIRED_SIZE and rows > 0:
        decides, size = decides[:2], -1
    given = [key for key, value in decides if value > 0]
    if len(given) > 1:
        reader.says(given[0], f"at most one of these may be set: {', '.join(given)}")
    by_size = rows <= 0 and segment_rows <= 0 and (rows == 0 or size > 0)
    variance = reader.read_or_warn(_VARIANCE, _variance, 0.0)
    initial = reader.read_limit(_INITIAL_ROWS, _integer)
    return FlushThresholds(
        rows=rows if rows > 0 else DEFAULT_FLUSH_ROWS if segment_rows <= 0 and not by_size else None,
        segment_rows=segment_rows if rows <= 0 < segment_rows else None,
        segment_bytes=(size if size > 0 else DEFAULT_FLUSH_SEGMENT_BYTES) if by_size else None,
        time_ms=reader.read(time_key, _duration, DEFAULT_FLUSH_MILLIS),
        variance_fraction=variance,
        initial_rows=initial if initial > 0 else DEFAULT_AUTOTUNE_ROWS,
        memory_bytes=reader.read(_MEMORY, _memory, None),
    )


def _auto_reset(reader: _Reader) -> OffsetAutoReset | None:
    messages = reader.read(_RESET + "offsetThreshold", _integer, -1)
    seconds = reader.read(_RESET + "timeThresholdSeconds", _integer, -1)
    if not reader.read(_RESET + "enable", _flag, False):
        return None
    if messages <= 0 and seconds <= 0:
        reader.says(_RESET + "enable", "needs offsetThreshold or timeThresholdSeconds beside it")
    return OffsetAutoReset(messages if messages > 0 else None, seconds if seconds > 0 else None)


# -- values


def _consumer_types(text: str) -> tuple[bool, bool]:
    """Return whether partition-level and whether stream-level consumption is configured."""
    kinds = {kind.strip().lower() for kind in text.split(",")}
    unknown = kinds - {*_LOW_LEVEL, *_HIGH_LEVEL}
    if unknown:
        raise InvalidConfigError(f"'{text}' is not a consumer type; use lowlevel (or simple), highlevel, or both")
    return bool(kinds & set(_LOW_LEVEL)), bool(kinds & set(_HIGH_LEVEL))


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
        raise InvalidConfigError(f"'{text}' is not a whole number")
    return int(text)


def _memory(text: str) -> int | None:
    if (size := parse_data_size(text)) <= 0:
        raise InvalidConfigError(f"'{text}' is no memory for rows; write a size like 512M, or leave the key out")
    return size


def _positive(text: str) -> int:
    number = _integer(text)
    if number <= 0:
        raise InvalidConfigError(f"{number} must be greater than 0")
    return number


def _positive_or_none(text: str) -> int | None:
    return _positive(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = nan
    if isnan(number):
        raise InvalidConfigError(f"'{text}' is not a number")
    return number


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidConfigError(f"'{text}' is neither true nor false")
    return text.lower() == "true"


def _flag_or_none(text: str) -> bool | None:
    return _flag(text)


def _size(text: str) -> int:
    return _integer(text) if text.startswith("-") else parse_data_size(text)


def _variance(text: str) -> float:
    fraction = _number(text)
    if not 0 <= fraction < 0.5:
        raise InvalidConfigError(f"{text} must be at least 0 and less than 0.5")
    return fraction


def _duration(text: str) -> int:
    """Return the milliseconds of a period, or of a plain number as in older configs."""
    millis = _integer(text) if re.fullmatch(r"[+-]?\d+", text) else parse_period(text)
    if millis <= 0:
        raise InvalidConfigError(f"'{text}' must be greater than 0")
    return millis

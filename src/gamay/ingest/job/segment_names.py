"""Segment name generators of batch jobs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Protocol

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import InvalidConfigError, QueryError, nearest
from gamay.base.ids import RANDOM_IDS, Ids
from gamay.functions.regex.matching import compiled
from gamay.model.schema.datetime_format import DateTimeKind
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType

TYPES = ("simple", "normalizedDate", "fixed", "inputFile", "uploadedRealtime")
KEYS = (
    "segment.name", "segment.name.prefix", "segment.name.postfix", "exclude.sequence.id", "exclude.time.in.segment.name",
    "append.uuid.to.segment.name", "use.global.directory.sequence.id", "file.path.pattern", "segment.name.template",
    "segment.partitionId", "segment.uploadTimeMs",
)  # fmt: skip

_ILLEGAL = re.compile(r'[\\/:*?"<>|\s]')


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """Inputs of a name generator.

    min_time, max_time: lowest and highest value of the time column as stored; min_time_ms, max_time_ms: these in
    milliseconds since 1970. None without time column or rows. input_uri: the segment's input file.
    sequence_id: None for the only segment of a job.
    """

    sequence_id: int | None
    input_uri: str = ""
    min_time: int | str | None = None
    max_time: int | str | None = None
    min_time_ms: int | None = None
    max_time_ms: int | None = None

    @classmethod
    def of(
        cls, sequence_id: int | None, input_uri: str, raw: tuple[object, object], millis: tuple[int | None, int | None]
    ) -> "SegmentFacts":
        """Return the facts of a built segment. raw: its times as stored, of any type of column."""
        low, high = (value if isinstance(value, (int, str)) or value is None else str(value) for value in raw)
        return cls(sequence_id, input_uri, low, high, *millis)


class SegmentNameGenerator(Protocol):
    """Generator of segment names."""

    def name(self, facts: SegmentFacts) -> str:
        """Return the name; raises InvalidConfigError if it is not a valid segment name."""
        ...


def segment_name_generator(
    kind: str | None,
    configs: Mapping[str, str],
    schema: Schema,
    table_config: TableConfig,
    *,
    table_name: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
    ids: Ids = RANDOM_IDS,
) -> SegmentNameGenerator:
    """Return the generator of a type and its configs.

    kind: one of `TYPES` in any case, or None to infer it: fixed if a name is given, normalizedDate if the time column
    is text in a date pattern, uploadedRealtime if a partition is given, else simple.
    table_name: the default prefix; None uses the typed table name, as jobs do.
    """
    for key in configs:
        if key not in KEYS:
            raise InvalidConfigError(f"unknown key '{key}' in segmentNameGeneratorSpec.configs.{nearest(key, KEYS)}")
    settings = _Settings({k: str(v) for k, v in configs.items()})
    by_folded = {t.lower(): t for t in TYPES}
    chosen = _inferred(settings, schema, table_config) if kind is None else by_folded.get(kind.lower())
    prefix = table_name or table_config.typed_name
    match chosen:
        case "simple":
            return _Simple(settings, prefix, ids)
        case "normalizedDate":
            return _NormalizedDate(settings, prefix, table_config, ids)
        case "fixed":
            return _Fixed(settings.required("segment.name", "fixed"))
        case "inputFile":
            return _InputFile(settings, ids)
        case "uploadedRealtime":
            return _UploadedRealtime(settings, table_config.raw_name, clock)
    known = ", ".join(TYPES)
    raise InvalidConfigError(f"unknown segment name generator '{kind}'; known are {known}.{nearest(str(kind), TYPES)}")


@dataclass(frozen=True, slots=True)
class _Settings:
    values: Mapping[str, str]

    def get(self, key: str) -> str | None:
        return self.values.get(key, "").strip() or None

    def flag(self, key: str) -> bool:
        value = (self.get(key) or "false").lower()
        if value not in ("true", "false"):
            raise InvalidConfigError(f"'{key}' of the segment name generator must be true or false, not '{value}'")
        return value == "true"

    def required(self, key: str, kind: str) -> str:
        value = self.get(key)
        if value is None:
            raise InvalidConfigError(f"the segment name generator '{kind}' needs '{key}'")
        return value

    def uuid(self, ids: Ids) -> str | None:
        return ids.new() if self.flag("append.uuid.to.segment.name") else None


def _inferred(settings: _Settings, schema: Schema, table_config: TableConfig) -> str:
    if settings.get("segment.name"):
        return "fixed"
    time_column = table_config.time_column
    if time_column is not None and time_column in schema:
        spec = schema.field(time_column)
        is_pattern = spec.format is not None and spec.format.kind is DateTimeKind.SIMPLE_DATE_FORMAT
        if spec.data_type is DataType.STRING and is_pattern:
            return "normalizedDate"
    return "uploadedRealtime" if settings.get("segment.partitionId") else "simple"


def _joined(separator: str, *parts: object) -> str:
    present = [str(part) for part in parts if part is not None]
    for part in present:
        if illegal := _ILLEGAL.search(part):
            raise InvalidConfigError(
                f"{part!r} cannot be a part of a segment's name: it contains {illegal[0]!r}; "
                f"set a prefix without it, or exclude.time.in.segment.name, or use the generator normalizedDate"
            )
    return separator.join(present)


class _Simple:
    """`<table>_<min time>_<max time>_<postfix>_<sequence>`."""

    def __init__(self, settings: _Settings, prefix: str, ids: Ids) -> None:
        self._prefix = settings.get("segment.name.prefix") or prefix
        self._settings = settings
        self._without_time = settings.flag("exclude.time.in.segment.name")
        self._ids = ids

    def name(self, facts: SegmentFacts) -> str:
        times = (None, None) if self._without_time else (facts.min_time, facts.max_time)
        postfix = self._settings.get("segment.name.postfix")
        return _joined("_", self._prefix, *times, postfix, facts.sequence_id, self._settings.uuid(self._ids))


class _NormalizedDate:
    """`<prefix>_2024-05-01_2024-05-02_<sequence>` in UTC."""

    def __init__(self, settings: _Settings, prefix: str, table_config: TableConfig, ids: Ids) -> None:
        batch = table_config.ingestion.batch
        frequency = batch.segment_ingestion_frequency if batch is not None else table_config.segments.segment_push_frequency
        self._with_dates = not table_config.replaces_all
        self._pattern = "%Y-%m-%d-%H" if (frequency or "").upper() == "HOURLY" else "%Y-%m-%d"
        self._prefix = settings.get("segment.name.prefix") or prefix
        self._settings = settings
        self._without_sequence = settings.flag("exclude.sequence.id")
        self._ids = ids

    def name(self, facts: SegmentFacts) -> str:
        dates = (self._date(facts.min_time_ms), self._date(facts.max_time_ms)) if self._with_dates else ()
        sequence = None if self._without_sequence else facts.sequence_id
        postfix = self._settings.get("segment.name.postfix")
        return _joined("_", self._prefix, *dates, postfix, sequence, self._settings.uuid(self._ids))

    def _date(self, millis: int | None) -> str | None:
        return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC).strftime(self._pattern)


@dataclass(frozen=True, slots=True)
class _Fixed:
    """The given name; only for jobs that create one segment."""

    given: str

    def name(self, facts: SegmentFacts) -> str:
        return _joined("", self.given)


class _InputFile:
    """A template filled from the input file's URI: `file.path.pattern` and `segment.name.template`."""

    def __init__(self, settings: _Settings, ids: Ids) -> None:
        pattern = settings.required("file.path.pattern", "inputFile")
        try:
            self._pattern = compiled(pattern)
        except QueryError as error:
            raise InvalidConfigError(f"file.path.pattern {pattern!r} is not a regular expression: {error}") from error
        self._template = settings.required("segment.name.template", "inputFile")
        self._settings = settings
        self._ids = ids

    def name(self, facts: SegmentFacts) -> str:
        uri = facts.input_uri if "://" in facts.input_uri else f"file:{facts.input_uri}"
        found = self._pattern.fullmatch(uri) or self._pattern.fullmatch(facts.input_uri)
        if found is None:
            parts = PurePosixPath(facts.input_uri.split(":", 1)[-1]).parts
            name = "_".join(p for p in parts if p != "/").replace(".", "_")
        else:
            name = re.sub(r"\$\{filePathPattern:\\(\d+)\}", lambda m: found[int(m[1])] or "", self._template)
        return _joined("_", name, self._settings.uuid(self._ids))


class _UploadedRealtime:
    """`<prefix>__<table>__<partition>__<upload time>__<suffix>`: for segments pushed into a REALTIME table."""

    def __init__(self, settings: _Settings, raw_table: str, clock: Clock) -> None:
        self._table = raw_table
        self._partition = _integer(settings.required("segment.partitionId", "uploadedRealtime"), "segment.partitionId")
        given = settings.get("segment.uploadTimeMs")
        millis = _integer(given, "segment.uploadTimeMs") if given else clock.now_ms()
        self._time = datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y%m%dT%H%MZ")
        self._prefix = settings.get("segment.name.prefix") or "uploaded"
        self._suffix = settings.get("segment.name.postfix")

    def name(self, facts: SegmentFacts) -> str:
        return _joined("__", self._prefix, self._table, self._partition, self._time, self._suffix or facts.sequence_id)


def _integer(text: str, key: str) -> int:
    if not re.fullmatch(r"\d+", text):
        raise InvalidConfigError(f"'{key}' of the segment name generator must be a number, not '{text}'")
    return int(text)

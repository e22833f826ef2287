"""The settings of maintenance tasks in a table config, read and judged: `task.taskTypeConfigsMap.<TaskType>`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.cron import CronSchedule
from gamay.model.units import parse_data_size, parse_period

UPSERT_COMPACTION = "UpsertCompactionTask"
UPSERT_COMPACT_MERGE = "UpsertCompactMergeTask"
SEGMENT_GENERATION = "SegmentGenerationAndPushTask"
REFRESH_SEGMENT = "RefreshSegmentTask"
PURGE = "PurgeTask"
CONVERT_TO_RAW = "ConvertToRawIndexTask"
MERGE_ROLLUP = "MergeRollupTask"
REALTIME_TO_OFFLINE = "RealtimeToOfflineSegmentsTask"
INPUT_FILE = "input.data.file.uri"
"""The key of a segment's input file in the custom entries of its record."""
COMMON_KEYS = ("schedule", "tableMaxNumTasks", "minionInstanceTag", "allowDownloadFromServer", "push.mode")
DEFAULT_TAG = "minion_untagged"

VALID_DOC_KINDS = ("SNAPSHOT", "SNAPSHOT_WITH_DELETE", "IN_MEMORY", "IN_MEMORY_WITH_DELETE")
CONSENSUS_MODES = ("EQUAL", "UNSAFE", "MOST_VALID_DOCS")
VALIDATION_MODES = ("STRICT", "EXECUTOR_ONLY")
_CONSENSUS_KEYS = ("validDocIdsConsensusMode", "validDocIdsValidationMode", "ignoreCrcMismatch")
_COMPACTION_KEYS = (
    "bufferTimePeriod", "invalidRecordsThresholdPercent", "invalidRecordsThresholdCount", "validDocIdsType",
    "numSegmentsBatchPerServerRequest", *_CONSENSUS_KEYS,
)  # fmt: skip
_MERGE_KEYS = (
    "bufferTimePeriod", "maxNumRecordsPerTask", "maxNumRecordsPerSegment", "maxNumSegmentsPerTask", "minNumSegmentsPerTask",
    "outputSegmentMaxSize", "numSegmentsBatchPerServerRequest", "retentionExpiryBufferPeriod", *_CONSENSUS_KEYS,
)  # fmt: skip
_KEYS: dict[str, tuple[str, ...]] = {UPSERT_COMPACTION: _COMPACTION_KEYS, UPSERT_COMPACT_MERGE: _MERGE_KEYS}
_KEYS[REFRESH_SEGMENT] = ()
_KEYS[PURGE] = ("lastPurgeTimeThresholdPeriod", "purgeColumn", "purgeValues", "purgeValuesURI")
_KEYS[CONVERT_TO_RAW] = ("columnsToConvert",)
# `*` stands for the name of a level or a metric
MERGE_LEVEL_KEYS = (
    "bucketTimePeriod", "bufferTimePeriod", "mergeType", "roundBucketTimePeriod", "maxNumRecordsPerTask",
    "maxNumRecordsPerSegment", "maxNumParallelBuckets", "eraseDimensionValues",
)  # fmt: skip
_KEYS[MERGE_ROLLUP] = (
    "mode", "retentionExpiryBufferPeriod", "*.aggregationType", *(f"*.{key}" for key in MERGE_LEVEL_KEYS),
    "*.aggregationFunctionParameters.*.*",
)  # fmt: skip
_KEYS[REALTIME_TO_OFFLINE] = (
    "bucketTimePeriod", "bufferTimePeriod", "mergeType", "collectorType", "roundBucketTimePeriod", "maxNumRecordsPerSegment",
    "segmentNamePrefix", "eraseDimensionValues", "*.aggregationType", "aggregationFunctionParameters.*.*",
)  # fmt: skip
_KEYS[SEGMENT_GENERATION] = ()  # `ingestionConfig.batchIngestionConfig.batchConfigMaps` say the rest


class TaskSettings:
    """The settings of one task type, read key by key; every method raises InvalidConfigError that names key and value.

    given: as in a table config; what is empty is not set.
    """

    def __init__(self, task_type: str, given: Mapping[str, str]) -> None:
        self.task_type = task_type
        self.given = {key: value for key, value in given.items() if value != ""}

    def text(self, key: str, default: str, choices: Iterable[str]) -> str:
        """Return one of several words, in whatever case it is given."""
        found = self.given.get(key, default).strip().upper()
        if found not in choices:
            raise self._refusal(key, f"one of {', '.join(choices)}", nearest(found, choices))
        return found

    def flag(self, key: str, default: bool = False) -> bool:
        """Return true or false."""
        found = self.given.get(key, str(default)).strip().lower()
        if found not in ("true", "false"):
            raise self._refusal(key, "true or false")
        return found == "true"

    def whole(self, key: str, default: int, least: int | None = None) -> int:
        """Return a whole number, at least `least`."""
        text = self.given.get(key, str(default)).strip()
        is_number = text.removeprefix("-").isascii() and text.removeprefix("-").isdecimal() and len(text) <= 19
        if not is_number or (least is not None and int(text) < least):
            raise self._refusal(key, "a whole number" + ("" if least is None else f", {least} or more"))
        return int(text)

    def percent(self, key: str, default: float) -> float:
        """Return a number from 0 to 100."""
        try:
            found = float(self.given.get(key, default))
        except ValueError:
            found = -1.0
        if not 0 <= found <= 100:
            raise self._refusal(key, "a number from 0 to 100")
        return found

    def period_ms(self, key: str, default: str) -> int:
        """Return a period such as `7d`, in milliseconds, which is not negative."""
        text = self.given.get(key, default)
        try:
            found = parse_period(text)
        except InvalidConfigError as error:
            raise InvalidConfigError(f"task.taskTypeConfigsMap.{self.task_type}.{key}: {error}") from None
        if found < 0:
            raise self._refusal(key, "a period that is not negative")
        return found

    def size(self, key: str) -> int | None:
        """Return a data size in bytes, None without one."""
        text = self.given.get(key)
        if text is None:
            return None
        try:
            return parse_data_size(text)
        except InvalidConfigError as error:
            raise InvalidConfigError(f"task.taskTypeConfigsMap.{self.task_type}.{key}: {error}") from None

    @property
    def schedule(self) -> CronSchedule | None:
        """The schedule of the tasks, None without one."""
        text = self.given.get("schedule")
        try:
            return None if text is None else CronSchedule(text)
        except InvalidConfigError as error:
            raise InvalidConfigError(f"task.taskTypeConfigsMap.{self.task_type}.schedule: {error}") from None

    @property
    def tag(self) -> str:
        """The tag of the minions that run these tasks."""
        return self.given.get("minionInstanceTag", DEFAULT_TAG)

    def _refusal(self, key: str, accepted: str, hint: str = "") -> InvalidConfigError:
        value = self.given.get(key)
        return InvalidConfigError(
            f"task.taskTypeConfigsMap.{self.task_type}.{key} is '{value}'; it must be {accepted}.{hint}".replace("..", ".")
        )


@dataclass(frozen=True, slots=True)
class ConsensusSettings:
    """When servers' reports of valid rows are trusted."""

    mode: str
    validation: str
    ignore_crc: bool
    batch: int

    @classmethod
    def of(cls, settings: TaskSettings) -> "ConsensusSettings":
        return cls(
            settings.text("validDocIdsConsensusMode", "EQUAL", CONSENSUS_MODES),
            settings.text("validDocIdsValidationMode", "STRICT", VALIDATION_MODES),
            settings.flag("ignoreCrcMismatch"),
            settings.whole("numSegmentsBatchPerServerRequest", 500, 1),
        )

    @property
    def generator_mode(self) -> str:
        """The mode by which tasks are made: EXECUTOR_ONLY leaves the checks to the minion."""
        return "UNSAFE" if self.validation == "EXECUTOR_ONLY" else self.mode


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """`UpsertCompactionTask`."""

    buffer_ms: int
    percent: float
    count: int
    kind: str
    consensus: ConsensusSettings

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "CompactionSettings":
        """Raises InvalidConfigError."""
        settings = TaskSettings(UPSERT_COMPACTION, given)
        if not {"invalidRecordsThresholdPercent", "invalidRecordsThresholdCount"} & set(settings.given):
            raise InvalidConfigError(
                f"task.taskTypeConfigsMap.{UPSERT_COMPACTION} needs invalidRecordsThresholdPercent or "
                "invalidRecordsThresholdCount: how many invalid rows make a segment worth the work"
            )
        return cls(
            settings.period_ms("bufferTimePeriod", "7d"),
            settings.percent("invalidRecordsThresholdPercent", 0.0),
            settings.whole("invalidRecordsThresholdCount", 1, 1),
            settings.text("validDocIdsType", "SNAPSHOT", VALID_DOC_KINDS),
            ConsensusSettings.of(settings),
        )


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """`UpsertCompactMergeTask`. size_max: of an output segment in bytes, None for no bound."""

    buffer_ms: int
    task_rows: int
    segment_rows: int
    segments_max: int
    segments_min: int
    size_max: int | None
    retention_buffer_ms: int | None
    consensus: ConsensusSettings = field(repr=False)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "MergeSettings":
        """Raises InvalidConfigError."""
        settings = TaskSettings(UPSERT_COMPACT_MERGE, given)
        has_buffer = "retentionExpiryBufferPeriod" in settings.given
        return cls(
            settings.period_ms("bufferTimePeriod", "2d"),
            settings.whole("maxNumRecordsPerTask", 50_000_000, 1),
            settings.whole("maxNumRecordsPerSegment", 5_000_000, 1),
            settings.whole("maxNumSegmentsPerTask", 10, 1),
            settings.whole("minNumSegmentsPerTask", 2, 1),
            settings.size("outputSegmentMaxSize"),
            settings.period_ms("retentionExpiryBufferPeriod", "0d") if has_buffer else None,
            ConsensusSettings.of(settings),
        )


def declare_task_type(task_type: str, keys: Iterable[str]) -> None:
    """Register a task type, with its keys besides the common ones. Called for each generator."""
    _KEYS[task_type] = tuple(keys)


def is_task_type(task_type: str) -> bool:
    """Whether such tasks are supported; settings of other types are kept in configs without effect."""
    return task_type in _KEYS


def task_types() -> tuple[str, ...]:
    """Return the task types that are known, ascending."""
    return tuple(sorted(_KEYS))


def known_task_keys(task_type: str) -> tuple[str, ...]:
    """Return the keys that a task type has, besides the common ones."""
    return _KEYS[task_type]


def unknown_task_keys(task_type: str, given: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each key that a task type does not have. In known keys `*` stands for a name."""
    known = (*COMMON_KEYS, *known_task_keys(task_type))
    unknown = [key for key in given if not any(fnmatchcase(key, pattern) for pattern in known)]
    names = [key.partition(".")[0] for key in given if "." in key and key not in unknown]
    for key in unknown:
        meant = [name for pattern in known for name in _named(pattern, key, names)]
        yield f"task.taskTypeConfigsMap.{task_type}.{key} means nothing to this task.{nearest(key, meant)}"


def _named(pattern: str, key: str, names: Iterable[str]) -> list[str]:
    """Return what a known key may be in place of an unknown one: `1day.mergeType` of `*.mergeType`, for `1day.mergeTyp`.

    names: of levels and metrics, for a key that names none.
    """
    parts, own = pattern.split("."), key.split(".")
    if len(parts) == len(own):
        return [".".join(name if part == "*" else part for part, name in zip(parts, own, strict=True))]
    if parts[0] != "*" or "*" in parts[1:]:
        return [pattern]
    return [pattern.replace("*", name) for name in dict.fromkeys(names)] or [pattern]

"""The settings of `MergeRollupTask` and `RealtimeToOfflineSegmentsTask`, which merge segments, parsed and validated."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from gamay.base.errors import InvalidConfigError
from gamay.model.table.merging import MergeType, MetricMerge
from gamay.model.task_settings import MERGE_LEVEL_KEYS, MERGE_ROLLUP, REALTIME_TO_OFFLINE, TaskSettings

FROM_WATERMARK, PROCESS_ALL = "PROCESSFROMWATERMARK", "PROCESSALL"

_TYPE = ".aggregationType"
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_PARAMETERS = "aggregationFunctionParameters."


@dataclass(frozen=True, slots=True)
class MergeForm:
    """How the rows of a bucket are merged. See `gamay.segment.process.spec.ProcessSpec`."""

    bucket_ms: int
    buffer_ms: int
    merge_type: MergeType
    round_ms: int
    segment_rows: int
    erased: tuple[str, ...]
    metrics: Mapping[str, MetricMerge]

    @classmethod
    def of(
        cls, settings: TaskSettings, prefix: str, bucket: str | None, buffer: str | None, merge_key: str = "mergeType"
    ) -> "MergeForm":
        """Parse the keys after a prefix. bucket, buffer: their defaults; None if they are required.

        Raises InvalidConfigError.
        """
        bucket_key, round_key = f"{prefix}bucketTimePeriod", f"{prefix}roundBucketTimePeriod"
        for key, default in ((bucket_key, bucket), (f"{prefix}bufferTimePeriod", buffer)):
            if default is None and key not in settings.given:
                raise InvalidConfigError(f"{_where(settings)}.{key} is missing: a period such as 1d")
        bucket_ms = settings.period_ms(bucket_key, bucket or "")
        round_ms = settings.period_ms(round_key, "0d") if round_key in settings.given else 0
        if bucket_ms <= 0:
            raise InvalidConfigError(f"{_where(settings)}.{bucket_key} must be greater than 0")
        if round_ms and bucket_ms % round_ms:
            raise InvalidConfigError(
                f"{_where(settings)}.{round_key} '{settings.given[round_key]}' does not divide {bucket_key} "
                f"'{settings.given.get(bucket_key, bucket)}': rounded rows would leave their bucket"
            )
        erased = settings.given.get(f"{prefix}eraseDimensionValues", "")
        return cls(
            bucket_ms,
            settings.period_ms(f"{prefix}bufferTimePeriod", buffer or ""),
            MergeType(settings.text(f"{prefix}{merge_key}", "CONCAT", [each.value for each in MergeType])),
            round_ms,
            settings.whole(f"{prefix}maxNumRecordsPerSegment", 5_000_000, 1),
            tuple(name.strip() for name in erased.split(",") if name.strip()),
            _metrics(settings, prefix),
        )


def _where(settings: TaskSettings) -> str:
    return f"task.taskTypeConfigsMap.{settings.task_type}"


def _metrics(settings: TaskSettings, prefix: str) -> dict[str, MetricMerge]:
    """Return how the metrics that settings name are aggregated."""
    parameters: dict[str, dict[str, str]] = {}
    for key, value in settings.given.items():
        if key.startswith(prefix + _PARAMETERS):
            metric, _, name = key.removeprefix(prefix + _PARAMETERS).rpartition(".")
            parameters.setdefault(metric, {})[name] = value
    found = {}
    names = {key.removesuffix(_TYPE): value for key, value in settings.given.items() if key.endswith(_TYPE)}
    for metric in {**names, **parameters}:
        try:
            found[metric] = MetricMerge.parse(names.get(metric, "SUM"), parameters.get(metric, {}))
        except InvalidConfigError as error:
            raise InvalidConfigError(f"{_where(settings)}.{metric}{_TYPE}: {error}") from None
    return found


@dataclass(frozen=True, slots=True)
class MergeLevel:
    """A level of `MergeRollupTask`: how its buckets are merged. given: its settings, without its name as prefix."""

    name: str
    form: MergeForm
    task_rows: int
    parallel_buckets: int
    given: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class MergeRollupSettings:
    """`MergeRollupTask`. levels: from the shortest bucket to the longest. retention_buffer_ms: None to ignore retention."""

    levels: tuple[MergeLevel, ...]
    process_all: bool
    retention_buffer_ms: int | None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "MergeRollupSettings":
        """Parse the settings. Raises InvalidConfigError."""
        settings = TaskSettings(MERGE_ROLLUP, given)
        names = dict.fromkeys(key.partition(".")[0] for key in settings.given if _is_of_level(key))
        if not names:
            raise InvalidConfigError(
                f"{_where(settings)} has no level: set LEVEL.bucketTimePeriod and LEVEL.bufferTimePeriod, as in "
                "1day.bucketTimePeriod"
            )
        for name in names:
            _check_part_of_name(f"{_where(settings)}: the level", name)
        levels = sorted((_level(settings, name) for name in names), key=lambda level: level.form.bucket_ms)
        for one, other in pairwise(levels):
            if one.form.bucket_ms == other.form.bucket_ms:
                raise InvalidConfigError(
                    f"{_where(settings)}: the levels {one.name} and {other.name} have buckets of the same length"
                )
        has_buffer = "retentionExpiryBufferPeriod" in settings.given
        return cls(
            tuple(levels),
            settings.text("mode", FROM_WATERMARK, (FROM_WATERMARK, PROCESS_ALL)) == PROCESS_ALL,
            settings.period_ms("retentionExpiryBufferPeriod", "0d") if has_buffer else None,
        )

    @classmethod
    def form_of(cls, name: str, given: Mapping[str, str]) -> MergeForm:
        """Return how a level merges rows, from its `MergeLevel.given`. Raises InvalidConfigError."""
        own = {key if key.endswith(_TYPE) else f"{name}.{key}": value for key, value in given.items()}
        return MergeForm.of(TaskSettings(MERGE_ROLLUP, own), f"{name}.", None, None)


def _check_part_of_name(where: str, text: str) -> None:
    if not _NAME.fullmatch(text):
        raise InvalidConfigError(f"{where} '{text}' becomes part of segment names: use letters, digits, _ and -")


def _is_of_level(key: str) -> bool:
    rest = key.partition(".")[2]
    return rest in MERGE_LEVEL_KEYS or rest.startswith(_PARAMETERS)


def _level(settings: TaskSettings, name: str) -> MergeLevel:
    prefix = f"{name}."
    given = {key.removeprefix(prefix): value for key, value in settings.given.items() if key.startswith(prefix)}
    types = {key: value for key, value in settings.given.items() if key.endswith(_TYPE)}
    return MergeLevel(
        name,
        MergeForm.of(settings, prefix, None, None),
        settings.whole(f"{prefix}maxNumRecordsPerTask", 50_000_000, 1),
        settings.whole(f"{prefix}maxNumParallelBuckets", 1, 1),
        {**given, **types},
    )


@dataclass(frozen=True, slots=True)
class RealtimeToOfflineSettings:
    """`RealtimeToOfflineSegmentsTask`. prefix: of segment names; empty for the default."""

    form: MergeForm
    prefix: str

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "RealtimeToOfflineSettings":
        """Parse the settings. Raises InvalidConfigError."""
        settings = TaskSettings(REALTIME_TO_OFFLINE, given)
        if {"mergeType", "collectorType"} <= settings.given.keys():
            raise InvalidConfigError(f"{_where(settings)} has mergeType and collectorType, its older name: set one of them")
        prefix = settings.given.get("segmentNamePrefix", "").strip()
        if prefix:
            _check_part_of_name(f"{_where(settings)}.segmentNamePrefix", prefix)
        key = "collectorType" if "collectorType" in settings.given else "mergeType"
        return cls(MergeForm.of(settings, "", "1d", "2d", key), prefix)

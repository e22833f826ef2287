"""The settings of a cluster (`POST /cluster/configs`) that Gamay reads. Other settings are stored for other readers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gamay.base.errors import InvalidConfigError
from gamay.model.units import parse_data_size, parse_period

_DIGITS_MAX = 19


@dataclass(frozen=True, slots=True)
class ClusterSetting:
    """A setting: its name, its valid values (as in "The setting x must be …"), its default and its meaning."""

    name: str
    accepted: str
    default: str
    meaning: str
    accepts: Callable[[str], bool]

    def text(self, settings: Mapping[str, str]) -> str:
        """Return the value, or the default if it is missing or invalid."""
        value = settings.get(self.name, self.default).strip()
        return value if self.accepts(value) else self.default

    def whole(self, settings: Mapping[str, str]) -> int:
        """Return the value as a whole number."""
        return int(self.text(settings))

    def decimal(self, settings: Mapping[str, str]) -> float:
        """Return the value as a number."""
        return float(self.text(settings))

    def flag(self, settings: Mapping[str, str]) -> bool:
        """Return whether the value is true."""
        return self.text(settings).lower() == "true"


def _is_whole(text: str) -> bool:
    digits = text.strip().removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX


def _is_positive(text: str) -> bool:
    return _is_whole(text) and int(text) > 0


def _is_period(text: str) -> bool:
    try:
        parse_period(text)
    except InvalidConfigError:
        return False
    return True


def _is_data_size(text: str) -> bool:
    try:
        parse_data_size(text)
    except InvalidConfigError:
        return False
    return True


def _is_flag(text: str) -> bool:
    return text.strip().lower() in ("true", "false")


def _is_overflow_mode(text: str) -> bool:
    return text.strip().upper() in ("THROW", "BREAK")


DEFAULT_QUERY_LIMIT = ClusterSetting(
    "pinot.broker.default.query.limit",
    "a whole number",
    "10",
    "LIMIT of queries without one; negative: no limit",
    _is_whole,
)
QUERY_RESPONSE_LIMIT = ClusterSetting(
    "pinot.broker.query.response.limit",
    "a whole number greater than 0",
    "2147483647",
    "the largest LIMIT; a larger one is refused",
    _is_positive,
)
QUERY_LIMIT_OVERRIDE = ClusterSetting(
    "pinot.broker.enable.query.limit.override",
    "true or false",
    "false",
    "a LIMIT that is too large is lowered to the maximum, not refused",
    _is_flag,
)
QUERY_LENGTH = ClusterSetting(
    "gamay.broker.query.maxLength",
    "a whole number greater than 0",
    "4000000",
    "the maximum number of characters of a query; parsing a million takes about a second",
    _is_positive,
)
NULL_HANDLING = ClusterSetting(
    "pinot.broker.query.enable.null.handling",
    "true or false",
    "false",
    "`enableNullHandling` of queries that do not set it",
    _is_flag,
)
JOIN_MAX_ROWS = ClusterSetting(
    "pinot.query.join.max.rows",
    "a whole number greater than 0",
    "2147483647",
    "`maxRowsInJoin` of queries that do not set it; by default only memory and disk limit joins",
    _is_positive,
)
JOIN_OVERFLOW = ClusterSetting(
    "pinot.query.join.overflow.mode",
    "THROW or BREAK",
    "THROW",
    "`joinOverflowMode` of queries that do not set it",
    _is_overflow_mode,
)
WINDOW_MAX_ROWS = ClusterSetting(
    "pinot.query.window.max.rows",
    "a whole number greater than 0",
    "2147483647",
    "`maxRowsInWindow` of queries that do not set it; by default only memory and disk limit windows",
    _is_positive,
)
WINDOW_OVERFLOW = ClusterSetting(
    "pinot.query.window.overflow.mode",
    "THROW or BREAK",
    "THROW",
    "`windowOverflowMode` of queries that do not set it",
    _is_overflow_mode,
)
_OF_SERVERS = "pinot.server.query.executor"
NUM_GROUPS_LIMIT = ClusterSetting(
    f"{_OF_SERVERS}.num.groups.limit",
    "a whole number greater than 0",
    "2147483647",
    "`numGroupsLimit` of queries that do not set it; by default only memory limits groups",
    _is_positive,
)
NUM_GROUPS_WARNING = ClusterSetting(
    f"{_OF_SERVERS}.num.groups.warn.limit",
    "a whole number greater than 0",
    "2147483647",
    "`numGroupsWarningLimit` of queries that do not set it",
    _is_positive,
)
SEGMENT_TRIM_SIZE = ClusterSetting(
    f"{_OF_SERVERS}.min.segment.group.trim.size",
    "a whole number",
    "-1",
    "`minSegmentGroupTrimSize` of queries that do not set it; below 1: segments are not trimmed",
    _is_whole,
)
SERVER_TRIM_SIZE = ClusterSetting(
    f"{_OF_SERVERS}.min.server.group.trim.size",
    "a whole number",
    "-1",
    "`minServerGroupTrimSize` of queries that do not set it; below 1: servers do not trim",
    _is_whole,
)
TRIM_THRESHOLD = ClusterSetting(
    f"{_OF_SERVERS}.groupby.trim.threshold",
    "a whole number",
    "-1",
    "`groupTrimThreshold` of queries that do not set it; below 1: servers and brokers do not trim",
    _is_whole,
)
BROKER_TRIM_SIZE = ClusterSetting(
    "pinot.broker.min.group.trim.size",
    "a whole number",
    "-1",
    "`minBrokerGroupTrimSize` of queries that do not set it; below 1: brokers do not trim",
    _is_whole,
)
OPTION_VALIDATION = ClusterSetting(
    "pinot.broker.query.option.validationMode",
    "NONE, WARN or REJECT",
    "NONE",
    "the effect of an unknown option in a query's text, beside `warnings` in the response: none, a log line, error 150",
    lambda text: text.strip().upper() in ("NONE", "WARN", "REJECT"),
)
HYPERLOGLOG_LOG2M = ClusterSetting(
    "default.hyperloglog.log2m",
    "a whole number from 2 to 16",
    "8",
    "`log2m` of DISTINCTCOUNTHLL and DISTINCTCOUNTRAWHLL if the query does not set it: 2^log2m registers",
    lambda text: _is_whole(text) and 2 <= int(text) <= 16,
)
CURSOR_PAGE_ROWS = ClusterSetting(
    "pinot.broker.cursor.fetch.rows",
    "a whole number greater than 0",
    "10000",
    "the rows per page of a response read by a cursor, if the client does not set it",
    _is_positive,
)
CURSOR_EXPIRATION = ClusterSetting(
    "pinot.broker.cursor.response.store.expiration",
    "a period such as 1h",
    "1h",
    "how long a response read by a cursor is kept",
    _is_period,
)
TABLE_MIN_REPLICAS = ClusterSetting(
    "table.minReplicas",
    "a whole number greater than 0",
    "1",
    "the minimum number of replicas of a table: a table config with fewer, or none, is stored with this number",
    _is_positive,
)
DIMENSION_TABLE_SIZE = ClusterSetting(
    "controller.dimTable.maxSize",
    "a size such as 200M",
    "200M",
    "the maximum `quota.storage` of a dimension table, and its default",
    _is_data_size,
)
DELETED_SEGMENTS_RETENTION = ClusterSetting(
    "controller.deleted.segments.retentionInDays",
    "a whole number",
    "7",
    "how long copies of deleted segments are kept; 0 or less: not at all",
    _is_whole,
)
RETENTION_FREQUENCY = ClusterSetting(
    "controller.retention.frequencyPeriod",
    "a period such as 6h, or -1s for never",
    "6h",
    "how often segments past their retention are deleted",
    _is_period,
)
VALIDATION_FREQUENCY = ClusterSetting(
    "controller.realtime.segment.validation.frequencyPeriod",
    "a period such as 5m, or -1s for never",
    "5m",
    "how often the consumption of streams is repaired",
    _is_period,
)
BROKER_RESOURCE_FREQUENCY = ClusterSetting(
    "controller.broker.resource.validation.frequencyPeriod",
    "a period such as 1h, or -1s for never",
    "1h",
    "how often `brokerResource` is updated to the tags of brokers",
    _is_period,
)
RELOCATION_FREQUENCY = ClusterSetting(
    "controller.segment.relocator.frequencyPeriod",
    "a period such as 1h, or -1s for never",
    "1h",
    "how often segments move to their tiers, and completed ones to their servers",
    _is_period,
)
STATUS_FREQUENCY = ClusterSetting(
    "controller.statuschecker.frequencyPeriod",
    "a period such as 5m, or -1s for never",
    "5m",
    "how often servers are asked for the metrics of tables",
    _is_period,
)
REBALANCE_CHECK_FREQUENCY = ClusterSetting(
    "controller.rebalance.checker.frequencyPeriod",
    "a period such as 5m, or -1s for never",
    "5m",
    "how often rebalances whose controller has died are restarted",
    _is_period,
)
STALE_INSTANCES_FREQUENCY = ClusterSetting(
    "controller.stale.instances.cleanup.task.frequencyPeriod",
    "a period such as 1h, or -1s for never",
    "-1s",
    "how often brokers, servers and minions that have long been offline, and that nothing refers to, are dropped",
    _is_period,
)
STALE_INSTANCE_AGE = ClusterSetting(
    "controller.stale.instances.cleanup.task.minOfflineTimeBeforeDeletionPeriod",
    "a period such as 1h",
    "1h",
    "how long such instances must have been offline, as far as the lead controller knows",
    _is_period,
)
RETENTION_BY_CREATION_TIME = ClusterSetting(
    "controller.retentionManager.enableCreationTimeFallback",
    "true or false",
    "false",
    "the retention of segments without a plausible end time counts from their creation; otherwise they are kept for ever",
    _is_flag,
)
UNTRACKED_DELETION = ClusterSetting(
    "controller.retentionManager.untrackedSegmentDeletionEnabled",
    "true or false",
    "true",
    "old copies in the deep store that belong to no segment are moved to the deleted segments",
    _is_flag,
)
HYBRID_RETENTION = ClusterSetting(
    "controller.enable.hybrid.table.retention.strategy",
    "true or false",
    "false",
    "REALTIME segments of a hybrid table are deleted once OFFLINE ones have their rows: if before the time boundary",
    _is_flag,
)
MD5_DISABLED = ClusterSetting(
    "pinot.md5.disabled",
    "true or false",
    "false",
    "tables whose upsertConfig or dedupConfig has the hashFunction MD5 are refused",
    _is_flag,
)
SEGMENT_COMMIT_TIMEOUT = ClusterSetting(
    "controller.realtime.segment.commit.timeoutSeconds",
    "a whole number greater than 0",
    "120",
    "the seconds that a server has to build and upload a consumed segment, unless it or the table's config asks for more",
    _is_positive,
)
SEGMENT_COMPLETION_TIME = ClusterSetting(
    "max.segment.completion.time.millis",
    "a whole number greater than 0",
    "300000",
    "how long a controller may take to write the records of a completed segment; after that the periodic repair takes over",
    _is_positive,
)
PARALLEL_SEGMENT_BUILDS = ClusterSetting(
    "pinot.server.instance.realtime.max.parallel.segment.builds",
    "a whole number; 0 for no limit",
    "4",
    "the number of consumed segments that a server builds concurrently; others wait",
    lambda text: _is_whole(text) and int(text) >= 0,
)
CONSUMING_SEGMENT_CONSISTENCY = ClusterSetting(
    "pinot.server.consuming.segment.consistency.mode",
    "RESTRICTED, PROTECTED or UNSAFE",
    "RESTRICTED",
    "RESTRICTED: no force commit, pause or reload of tables whose rows depend on rows before them; unset, if replicated",
    lambda text: text.strip().upper() in ("RESTRICTED", "PROTECTED", "UNSAFE"),
)


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False


RESOURCE_UTILIZATION_CHECK = ClusterSetting(
    "controller.enable.resource.utilization.check",
    "true or false",
    "false",
    "tables whose servers have full disks pause consumption until there is space",
    _is_flag,
)
DISK_UTILIZATION_THRESHOLD = ClusterSetting(
    "controller.disk.utilization.threshold",
    "a number greater than 0, up to 1",
    "0.95",
    "the share of a server's disk in use above which it counts as full",
    _is_share,
)

_ADAPTIVE = "pinot.broker.adaptive.server.selector"


def _is_selector(text: str) -> bool:
    return text.strip().upper() in ("NO_OP", "NUM_INFLIGHT_REQ", "LATENCY", "HYBRID")


def _is_decimal(low: float, high: float) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            return low <= float(text) <= high
        except ValueError:
            return False

    return accepts


ADAPTIVE_TYPE = ClusterSetting(
    f"{_ADAPTIVE}.type",
    "NO_OP, NUM_INFLIGHT_REQ, LATENCY or HYBRID",
    "NO_OP",
    "the replica that is queried: in turn, the least busy, the fastest, or both; see docs/operate/routing.md",
    _is_selector,
)
ADAPTIVE_STATS = ClusterSetting(
    f"{_ADAPTIVE}.enable.stats.collection",
    "true or false",
    "false",
    "the load and latency of servers are measured even if they are not used for selection",
    _is_flag,
)
ADAPTIVE_ALPHA = ClusterSetting(
    f"{_ADAPTIVE}.ewma.alpha",
    "a number from 0 to 1",
    "0.666",
    "the weight of the last query in the moving averages of a server",
    _is_decimal(0, 1),
)
ADAPTIVE_DECAY_MS = ClusterSetting(
    f"{_ADAPTIVE}.autodecay.window.ms",
    "a whole number",
    "10000",
    "the interval, in milliseconds, at which the averages of a server that is not queried decay; 0 or less: never",
    _is_whole,
)
ADAPTIVE_WARMUP_MS = ClusterSetting(
    f"{_ADAPTIVE}.warmup.duration",
    "a whole number",
    "0",
    "the milliseconds during which the averages of a new server keep their initial value",
    _is_whole,
)
ADAPTIVE_INITIAL = ClusterSetting(
    f"{_ADAPTIVE}.avg.initialization.val",
    "a number, 0 or more",
    "1.0",
    "the initial value of the averages of a new server",
    _is_decimal(0, 1e12),
)
ADAPTIVE_EXPONENT = ClusterSetting(
    f"{_ADAPTIVE}.hybrid.score.exponent",
    "a number from 0 to 100",
    "3",
    "HYBRID: the exponent of the number of queries in flight",
    _is_decimal(0, 100),
)
ADAPTIVE_FLOOR = ClusterSetting(
    f"{_ADAPTIVE}.hybrid.score.queue.floor",
    "a number, 0 or more",
    "0",
    "HYBRID: added to the number of queries in flight",
    _is_decimal(0, 1e12),
)
FIXED_REPLICA = ClusterSetting(
    "pinot.broker.use.fixed.replica",
    "true or false",
    "false",
    "each query of a table goes to the same replica, unless the table's config differs",
    _is_flag,
)
TASK_FREQUENCY = ClusterSetting(
    "controller.task.frequencyPeriod",
    "a period such as 1h, or -1s for never",
    "-1s",
    "how often tasks of all tables are generated, with or without a schedule",
    _is_period,
)
TASK_SCHEDULER = ClusterSetting(
    "controller.task.scheduler.enabled",
    "true or false",
    "false",
    "tasks are generated at the times of their `schedule`",
    _is_flag,
)
TASK_SKIP_LATE = ClusterSetting(
    "controller.task.skipLateCronSchedule",
    "true or false",
    "false",
    "a schedule whose time passed longer ago than `maxCronScheduleDelayInSeconds` waits for its next time",
    _is_flag,
)
TASK_LATE_S = ClusterSetting(
    "controller.task.maxCronScheduleDelayInSeconds",
    "a whole number greater than 0",
    "600",
    "see `controller.task.skipLateCronSchedule`",
    _is_positive,
)
TASK_SUBTASKS_MAX = ClusterSetting(
    "minion.maxAllowedSubTasksPerTask",
    "a whole number",
    "-1",
    "the maximum of subtasks of a task: scheduled tasks are cut to it, those of users are refused; 0 or less: no limit",
    _is_whole,
)
CLUSTER_SETTINGS = (
    DEFAULT_QUERY_LIMIT,
    QUERY_RESPONSE_LIMIT,
    QUERY_LIMIT_OVERRIDE,
    QUERY_LENGTH,
    NULL_HANDLING,
    JOIN_MAX_ROWS,
    JOIN_OVERFLOW,
    WINDOW_MAX_ROWS,
    WINDOW_OVERFLOW,
    NUM_GROUPS_LIMIT,
    NUM_GROUPS_WARNING,
    SEGMENT_TRIM_SIZE,
    SERVER_TRIM_SIZE,
    TRIM_THRESHOLD,
    BROKER_TRIM_SIZE,
    OPTION_VALIDATION,
    HYPERLOGLOG_LOG2M,
    CURSOR_PAGE_ROWS,
    CURSOR_EXPIRATION,
    TABLE_MIN_REPLICAS,
    DIMENSION_TABLE_SIZE,
    DELETED_SEGMENTS_RETENTION,
    RETENTION_FREQUENCY,
    VALIDATION_FREQUENCY,
    BROKER_RESOURCE_FREQUENCY,
    RELOCATION_FREQUENCY,
    STATUS_FREQUENCY,
    REBALANCE_CHECK_FREQUENCY,
    STALE_INSTANCES_FREQUENCY,
    STALE_INSTANCE_AGE,
    RETENTION_BY_CREATION_TIME,
    UNTRACKED_DELETION,
    HYBRID_RETENTION,
    MD5_DISABLED,
    SEGMENT_COMMIT_TIMEOUT,
    SEGMENT_COMPLETION_TIME,
    PARALLEL_SEGMENT_BUILDS,
    CONSUMING_SEGMENT_CONSISTENCY,
    RESOURCE_UTILIZATION_CHECK,
    DISK_UTILIZATION_THRESHOLD,
    FIXED_REPLICA,
    ADAPTIVE_TYPE,
    ADAPTIVE_STATS,
    ADAPTIVE_ALPHA,
    ADAPTIVE_DECAY_MS,
    ADAPTIVE_WARMUP_MS,
    ADAPTIVE_INITIAL,
    ADAPTIVE_EXPONENT,
    ADAPTIVE_FLOOR,
    TASK_FREQUENCY,
    TASK_SCHEDULER,
    TASK_SKIP_LATE,
    TASK_LATE_S,
    TASK_SUBTASKS_MAX,
)
_BY_NAME = {setting.name: setting for setting in CLUSTER_SETTINGS}


def check_settings(values: Mapping[str, str]) -> None:
    """Raise InvalidConfigError for an invalid value of a known setting."""
    for name, value in values.items():
        setting = _BY_NAME.get(name)
        if setting is not None and not setting.accepts(value):
            raise InvalidConfigError(f"The setting {name} must be {setting.accepted}, not '{value}'")

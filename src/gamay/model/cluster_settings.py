"""The settings of a cluster (`POST /cluster/configs`) that Gamay reads. Others are kept for whoever reads them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gamay.base.errors import InvalidConfigError

_DIGITS_MAX = 19


@dataclass(frozen=True, slots=True)
class ClusterSetting:
    """A setting: its name, the values it takes (ends the sentence "The setting x is …"), its default, what it is for."""

    name: str
    accepted: str
    default: str
    meaning: str
    accepts: Callable[[str], bool]

    def text(self, settings: Mapping[str, str]) -> str:
        """Return the value, or the default where there is none, or one that cannot be."""
        value = settings.get(self.name, self.default).strip()
        return value if self.accepts(value) else self.default

    def whole(self, settings: Mapping[str, str]) -> int:
        """Return the value as a whole number."""
        return int(self.text(settings))

    def flag(self, settings: Mapping[str, str]) -> bool:
        """Return whether the value is true."""
        return self.text(settings).lower() == "true"


def _is_whole(text: str) -> bool:
    digits = text.strip().removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX


def _is_positive(text: str) -> bool:
    return _is_whole(text) and int(text) > 0


def _is_flag(text: str) -> bool:
    return text.strip().lower() in ("true", "false")


DEFAULT_QUERY_LIMIT = ClusterSetting(
    "pinot.broker.default.query.limit",
    "a whole number",
    "10",
    "LIMIT of queries without one; negative: such queries have none",
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
    "a LIMIT that is too large is lowered to the largest, not refused",
    _is_flag,
)
NULL_HANDLING = ClusterSetting(
    "pinot.broker.query.enable.null.handling",
    "true or false",
    "false",
    "`enableNullHandling` of queries that do not say",
    _is_flag,
)
DELETED_SEGMENTS_RETENTION = ClusterSetting(
    "controller.deleted.segments.retentionInDays",
    "a whole number",
    "7",
    "how long copies of deleted segments are kept; 0 or less: not at all",
    _is_whole,
)
SEGMENT_COMMIT_TIMEOUT = ClusterSetting(
    "controller.realtime.segment.commit.timeoutSeconds",
    "a whole number greater than 0",
    "120",
    "seconds a server has to build and upload a consumed segment, unless it asks for more or the table's config says",
    _is_positive,
)
SEGMENT_COMPLETION_TIME = ClusterSetting(
    "max.segment.completion.time.millis",
    "a whole number greater than 0",
    "300000",
    "how long a controller may take to write the records of a completed segment; after that the periodic repair does it",
    _is_positive,
)
CONSUMING_SEGMENT_CONSISTENCY = ClusterSetting(
    "pinot.server.consuming.segment.consistency.mode",
    "RESTRICTED, PROTECTED or UNSAFE",
    "RESTRICTED",
    "RESTRICTED: no force commit and no pause of tables whose rows depend on rows before them (partial upsert and the like)",
    lambda text: text.strip().upper() in ("RESTRICTED", "PROTECTED", "UNSAFE"),
)

CLUSTER_SETTINGS = (
    DEFAULT_QUERY_LIMIT,
    QUERY_RESPONSE_LIMIT,
    QUERY_LIMIT_OVERRIDE,
    NULL_HANDLING,
    DELETED_SEGMENTS_RETENTION,
    SEGMENT_COMMIT_TIMEOUT,
    SEGMENT_COMPLETION_TIME,
    CONSUMING_SEGMENT_CONSISTENCY,
)
_BY_NAME = {setting.name: setting for setting in CLUSTER_SETTINGS}


def check_settings(values: Mapping[str, str]) -> None:
    """Raise InvalidConfigError for a value that a known setting cannot have."""
    for name, value in values.items():
        setting = _BY_NAME.get(name)
        if setting is not None and not setting.accepts(value):
            raise InvalidConfigError(f"The setting {name} is {setting.accepted}, not '{value}'")

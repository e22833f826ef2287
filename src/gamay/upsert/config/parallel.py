"""`parallelSegmentConsumptionPolicy`: when a consuming segment may start while its predecessor is being completed."""

from collections.abc import Iterable
from enum import Enum

from gamay.model.table.table_config import TableConfig


class Phase(Enum):
    """Phase of a segment that consumes, or has consumed and is not yet replaced by its sealed copy."""

    CONSUMING = "CONSUMING"  # more rows may arrive
    BUILDING = "BUILDING"  # its rows are final, and this server builds the sealed copy
    DOWNLOADING = "DOWNLOADING"  # another replica's copy will replace it


def policy_of(table_config: TableConfig, *, depends: bool, allowed: bool) -> str:
    """Return the policy of a table with primary keys.

    depends: whether the outcome of a row depends on earlier rows; allowed: whether the older settings
    `allow…ConsumptionDuringCommit` disable waiting.
    """
    stream = table_config.ingestion.stream
    if stream is not None and stream.parallel_segment_consumption_policy is not None:
        return stream.parallel_segment_consumption_policy
    if allowed or not depends:
        return "ALLOW_ALWAYS"
    is_pauseless = stream is not None and stream.pauseless_consumption_enabled
    return "ALLOW_DURING_BUILD_ONLY" if is_pauseless else "DISALLOW_ALWAYS"


def must_wait(policy: str, before: Iterable[Phase]) -> bool:
    """Whether a segment must wait; before: the phases of the other unsealed segments of its partition."""
    if policy == "ALLOW_ALWAYS":
        return False
    allowed = {"ALLOW_DURING_BUILD_ONLY": Phase.BUILDING, "ALLOW_DURING_DOWNLOAD_ONLY": Phase.DOWNLOADING}.get(policy)
    return any(phase is not allowed for phase in before)

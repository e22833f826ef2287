"""When a consuming segment may begin while the one before it is being completed: `parallelSegmentConsumptionPolicy`."""

from collections.abc import Iterable
from enum import Enum

from gamay.model.table.table_config import TableConfig


class Phase(Enum):
    """Where a segment is that consumes, or has consumed and is not replaced by its sealed copy yet."""

    CONSUMING = "CONSUMING"  # rows may still come
    BUILDING = "BUILDING"  # its rows are final, and become the sealed copy here
    DOWNLOADING = "DOWNLOADING"  # another replica's copy takes its place


def policy_of(table_config: TableConfig, *, depends: bool, allowed: bool) -> str:
    """Return the policy of a table with primary keys.

    depends: whether what becomes of a row depends on the rows before it; allowed: whether the older settings
    `allow…ConsumptionDuringCommit` say that nobody waits.
    """
    stream = table_config.ingestion.stream
    if stream is not None and stream.parallel_segment_consumption_policy is not None:
        return stream.parallel_segment_consumption_policy
    if allowed or not depends:
        return "ALLOW_ALWAYS"
    is_pauseless = stream is not None and stream.pauseless_consumption_enabled
    return "ALLOW_DURING_BUILD_ONLY" if is_pauseless else "DISALLOW_ALWAYS"


def must_wait(policy: str, before: Iterable[Phase]) -> bool:
    """Whether a segment must wait; before: where the other segments of its partition are that are not sealed."""
    if policy == "ALLOW_ALWAYS":
        return False
    allowed = {"ALLOW_DURING_BUILD_ONLY": Phase.BUILDING, "ALLOW_DURING_DOWNLOAD_ONLY": Phase.DOWNLOADING}.get(policy)
    return any(phase is not allowed for phase in before)

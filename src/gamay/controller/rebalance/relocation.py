"""Relocation of segments by age or completion: to tiers, and away from the servers that consumed them."""

import logging
from dataclasses import dataclass

from gamay.base.errors import ConflictError
from gamay.cluster.place.table_target import COMPLETED_KIND
from gamay.controller.placement import PlacementManager
from gamay.controller.rebalance.options import RebalanceOptions
from gamay.controller.rebalance.rebalance import RebalanceManager

_log = logging.getLogger(__name__)
# one replica at a time is unavailable, segments that cannot be loaded do not stop the rest, consuming segments stay
_OPTIONS = RebalanceOptions(
    reassign_instances=False, include_consuming=False, best_efforts=True, update_target_tier=True, disable_summary=True
)


@dataclass(frozen=True, slots=True)
class SegmentRelocator:
    """The relocation of all tables that have tiers, or other servers for completed segments."""

    placement: PlacementManager
    rebalances: RebalanceManager

    def run(self) -> None:
        """Start the relocation of all tables; failures are retried by the next run."""
        for table in self.placement.tables.names():
            self.move(table)

    def move(self, table: str) -> None:
        """Start the relocation of one typed table, if needed. Raises NotFoundError."""
        config = self.placement.tables.get(table)
        if not config.tiers and COMPLETED_KIND not in self.placement.kinds(config):
            return
        try:
            result = self.rebalances.rebalance(table, _OPTIONS)
        except ConflictError:
            return  # one is running already
        if result.status == "FAILED":
            _log.warning("segments of table %s cannot be moved: %s", table, result.description)

"""Rate limit of a partition's consumption."""

import logging
from collections.abc import Callable

from gamay.base.errors import GamayError
from gamay.server.consuming.status import RateMeter

_log = logging.getLogger(__name__)


class Throttle:
    """Limit on the messages per second of a partition: its own, else its share of the topic's; None is unlimited.

    partitions: returns the topic's number of partitions; called once; if it raises GamayError, 1 is assumed.
    """

    def __init__(self, partition_per_s: float | None, topic_per_s: float | None, partitions: Callable[[], int]) -> None:
        self._per_s, self._topic_per_s, self._partitions = partition_per_s, topic_per_s, partitions
        self._free_s = 0.0
        self._rate = RateMeter()

    @property
    def limits(self) -> bool:
        """Whether there is a limit."""
        return self._per_s is not None or self._topic_per_s is not None

    def delay_s(self, messages: int, now_s: float) -> float:
        """Count messages; return how long to wait before the next ones."""
        if not self.limits or not messages:
            return 0.0
        if self._per_s is None:
            assert self._topic_per_s is not None
            self._per_s = self._topic_per_s / self._known_partitions()
        self._rate.add(messages, round(now_s * 1000))
        self._free_s = max(self._free_s, now_s) + messages / self._per_s
        return max(0.0, self._free_s - now_s)

    def utilization(self, now_s: float) -> float | None:
        """Return the rate of the last seconds in percent of the limit; None without a limit. Thread-safe."""
        if not self.limits:
            return None
        per_s = self._per_s
        return 0.0 if per_s is None else 100 * self._rate.rows_per_s(round(now_s * 1000)) / per_s

    def _known_partitions(self) -> int:
        try:
            return max(1, self._partitions())
        except GamayError as error:
            _log.warning("the topic's number of partitions is unknown, so each partition may use the whole rate: %s", error)
            return 1

"""Keeping what a partition consumes below a rate."""


class Throttle:
    """Keeps a partition below so many messages a second; None is no limit."""

    def __init__(self, per_s: float | None) -> None:
        self.per_s = per_s
        self._free_s = 0.0

    def delay_s(self, messages: int, now_s: float) -> float:
        """Count messages; return how long to wait before the next ones."""
        if self.per_s is None or not messages:
            return 0.0
        self._free_s = max(self._free_s, now_s) + messages / self.per_s
        return max(0.0, self._free_s - now_s)

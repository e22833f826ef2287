"""The numbers by which the index of a partition knows its segments."""

import heapq


class Ordinals:
    """Gives away the smallest number that is free."""

    def __init__(self) -> None:
        self._count = 0
        self._free: list[int] = []

    @property
    def count(self) -> int:
        """How many numbers there are: all that are given away are smaller."""
        return self._count

    def take(self) -> int:
        """Return a number that is free no longer."""
        if self._free:
            return heapq.heappop(self._free)
        self._count += 1
        return self._count - 1

    def give_back(self, ordinal: int) -> None:
        """Let a number be free."""
        heapq.heappush(self._free, ordinal)

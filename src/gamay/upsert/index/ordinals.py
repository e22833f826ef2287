"""The numbers of segments in the index of a partition."""

import heapq


class Ordinals:
    """Allocator of the smallest free number."""

    def __init__(self) -> None:
        self._count = 0
        self._free: list[int] = []

    @property
    def count(self) -> int:
        """An upper bound: all allocated numbers are smaller."""
        return self._count

    def take(self) -> int:
        """Allocate a number."""
        if self._free:
            return heapq.heappop(self._free)
        self._count += 1
        return self._count - 1

    def give_back(self, ordinal: int) -> None:
        """Free a number."""
        heapq.heappush(self._free, ordinal)

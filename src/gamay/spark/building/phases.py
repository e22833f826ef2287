"""Timing of the phases of a task."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from gamay.base.clock import Clock

T = TypeVar("T")


class Phases:
    """The time that a task has spent in each of its phases. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent_s: dict[str, float] = {}

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        """Add the time of the block to a phase."""
        begun_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            self._spent_s[phase] = self._spent_s.get(phase, 0.0) + self._clock.monotonic_s() - begun_s

    def over(self, phase: str, items: Iterator[T]) -> Iterator[T]:
        """Yield items, and add the time to produce each to a phase."""
        while True:
            with self.within(phase):
                item = next(items, None)
            if item is None:
                return
            yield item

    def reset(self) -> None:
        """Reset the times, for another segment."""
        self._spent_s.clear()

    def told(self) -> dict[str, Any]:
        """Return the milliseconds by phase, as `<phase>_ms`."""
        return {f"{phase}_ms": round(1000 * spent_s) for phase, spent_s in self._spent_s.items()}

"""The moment by which a query must be answered."""

from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, QueryError


class Deadline:
    """A point on a clock's monotonic scale; checked between blocks of work, from any thread."""

    __slots__ = ("clock", "expires_s", "timeout_ms")

    def __init__(self, clock: Clock, expires_s: float, timeout_ms: float) -> None:
        self.clock = clock
        self.expires_s = expires_s
        self.timeout_ms = timeout_ms

    @classmethod
    def after_ms(cls, timeout_ms: float, clock: Clock) -> "Deadline":
        """Return the deadline that lies so many milliseconds ahead."""
        return cls(clock, clock.monotonic_s() + timeout_ms / 1000, timeout_ms)

    @property
    def remaining_ms(self) -> float:
        """Milliseconds left; negative once it has passed."""
        return (self.expires_s - self.clock.monotonic_s()) * 1000

    def check(self) -> None:
        """Raise QueryError 250 when the moment has passed."""
        if self.clock.monotonic_s() >= self.expires_s:
            raise QueryError(
                ErrorCode.EXECUTION_TIMEOUT,
                f"The query ran longer than its {self.timeout_ms:.0f} ms; filter more, or set a larger timeoutMs",
            )

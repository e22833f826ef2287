"""Concurrency limit of segment builds on a server, and extension of the controller's lease during a build."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from gamay.cluster.records.completion import DEFAULT_EXTRA_TIME_S, EXTENSION_INTERVAL_S, FIRST_EXTENSION_FRACTION, Status
from gamay.cluster.store.store import StoreUnavailableError

_log = logging.getLogger(__name__)
SEND_ATTEMPTS = 3
PARALLEL_BUILDS = 4
"""Default until the cluster's setting is known."""


class BuildPermits:
    """Limit on the number of concurrent segment builds; 0 is unlimited.

    parallel: returns the limit; called before and after each build. If it raises StoreUnavailableError, the last limit
    applies.
    """

    def __init__(self, parallel: Callable[[], int] = lambda: PARALLEL_BUILDS) -> None:
        self._parallel = parallel
        self._most = PARALLEL_BUILDS
        self._building = 0
        self._changed = threading.Condition()

    def follow(self, parallel: Callable[[], int]) -> None:
        """Use another source of the limit from now on."""
        self._parallel = parallel

    @property
    def num_building(self) -> int:
        """The number of segments being built."""
        return self._building

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for a permit, and hold it during the block."""
        self._ask()
        with self._changed:
            self._changed.wait_for(lambda: self._most <= 0 or self._building < self._most)
            self._building += 1
        try:
            yield
        finally:
            self._ask()
            with self._changed:
                self._building -= 1
                self._changed.notify_all()

    def _ask(self) -> None:
        with suppress(StoreUnavailableError):
            self._most = self._parallel()


@contextmanager
def lease(seconds: float | None, extend: Callable[[int], Status]) -> Iterator[None]:
    """Request more time while the body runs: after 90 % of `seconds`, then regularly; None never does.

    extend: sends extendBuildTime for a number of seconds. A refusal is only logged: the build may still be used.
    """
    if seconds is None:
        yield
        return
    done = threading.Event()

    def run() -> None:
        wait_s = seconds * FIRST_EXTENSION_FRACTION
        while not done.wait(wait_s):
            for _ in range(SEND_ATTEMPTS):
                status = extend(DEFAULT_EXTRA_TIME_S)
                if status is not Status.NOT_SENT:
                    break
            if status is not Status.PROCESSED:
                _log.warning("the controller gives no more time to build the segment: %s", status.value)
                return
            wait_s = EXTENSION_INTERVAL_S

    thread = threading.Thread(target=run, name="build-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()

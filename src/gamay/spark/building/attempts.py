"""Doing again what may succeed later; imports little, as whoever plans a write loads it in a process of its own."""

import time
from collections.abc import Callable

from gamay.client.http import ServiceError
from gamay.ingest.job.spec import PushJobSpec

BACKOFF_FACTOR = 5


def with_attempts(push: Callable[[], object], options: PushJobSpec, sleep: Callable[[float], None] = time.sleep) -> None:
    """Do something, again where an error says that it may succeed later, after waits that grow fivefold.

    Raises what the last attempt raised: ServiceError of a controller, OSError of a file system.
    """
    wait_s = options.push_retry_interval_ms / 1000
    for attempt in range(1, options.push_attempts + 1):
        try:
            push()
            return
        except (ServiceError, OSError):
            if attempt == options.push_attempts:
                raise
        sleep(wait_s)
        wait_s *= BACKOFF_FACTOR

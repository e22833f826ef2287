"""Retries of failed operations; imports little, since every process that plans a write loads it."""

import time
from collections.abc import Callable

from gamay.client.http import ServiceError
from gamay.ingest.job.spec import PushJobSpec

BACKOFF_FACTOR = 5


def with_attempts(push: Callable[[], object], options: PushJobSpec, sleep: Callable[[float], None] = time.sleep) -> None:
    """Run `push`, retrying after ServiceError and OSError up to `push_attempts` times in all, with waits that grow fivefold.

    Raises the last error: ServiceError of a controller, OSError of a file system.
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

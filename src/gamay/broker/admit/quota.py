"""Quotas of queries per second: of a table, of a database, of an application.

Each quota has a token bucket: it fills at the quota's rate, holds the tokens of one second (at least one), and a query takes
a token or is rejected. A steady stream at the quota always passes, a burst passes after an idle period, and no interval
admits more than the quota plus one burst.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from gamay.base.errors import ErrorCode, QueryError
from gamay.base.metrics import Measured
from gamay.cluster.records.quotas import APPLICATION_SETTING, DATABASE_SETTING, RATE_LIMIT_DISABLED
from gamay.model.table.table_name import database_of

# maximum number of buckets; beyond it all are dropped, and start full again
_BUCKETS_MAX = 10_000

APPLICATION_NAME = "applicationName"
"""The query option by which an application names itself."""

_HIT_SECONDS = 60


class Limited(Protocol):
    """A typed table. queries_per_s: its quota at this broker; None is no quota."""

    @property
    def table(self) -> str: ...

    @property
    def queries_per_s(self) -> float | None: ...


class _Hits:
    """Number of requests for a token in each second of the last minute, rejected ones included."""

    def __init__(self) -> None:
        self._counts = [0] * _HIT_SECONDS
        self._seconds = [-1] * _HIT_SECONDS

    def add(self, now_s: float) -> None:
        second = int(now_s)
        place = second % _HIT_SECONDS
        if self._seconds[place] != second:
            self._seconds[place], self._counts[place] = second, 0
        self._counts[place] += 1

    def in_second(self, second: int) -> int:
        place = second % _HIT_SECONDS
        return self._counts[place] if self._seconds[place] == second else 0

    def most(self, now_s: float) -> int:
        last = int(now_s)
        return max(self.in_second(second) for second in range(last - _HIT_SECONDS + 1, last + 1))


class TokenBucket:
    """Admits `rate` requests a second; thread-safe. Times are arguments, in seconds."""

    def __init__(self, rate: float, now_s: float) -> None:
        self.rate = rate
        self._tokens = self.capacity
        self._filled_s = now_s
        self._hits = _Hits()
        self._lock = threading.Lock()

    def use(self, now_s: float) -> tuple[int, int]:
        """Return the number of requests in the last whole second, and in the busiest second of the last minute."""
        with self._lock:
            return self._hits.in_second(int(now_s) - 1), self._hits.most(now_s)

    @property
    def capacity(self) -> float:
        """Burst capacity: the number of requests admitted at once after an idle period."""
        return max(1.0, self.rate)

    def take(self, now_s: float) -> bool:
        """Take a token; return whether there was one."""
        with self._lock:
            self._hits.add(now_s)
            # the clocks of concurrent queries may arrive here out of order
            waited_s = max(0.0, now_s - self._filled_s)
            self._filled_s = max(now_s, self._filled_s)
            self._tokens = min(self.capacity, self._tokens + waited_s * self.rate)
            # a rate such as 0.1 fills up to a whole token but for rounding
            if self._tokens < 1.0 - 1e-9:
                return False
            self._tokens -= 1.0
            return True

    def set_rate(self, rate: float, now_s: float) -> None:
        """Change the rate; keep the tokens saved so far, up to the new capacity."""
        with self._lock:
            self._tokens = min(self._tokens + max(0.0, now_s - self._filled_s) * self.rate, max(1.0, rate))
            self._filled_s = max(now_s, self._filled_s)
            self.rate = rate


class Rates:
    """Queries per second by name: a setting for all names, and settings with a name after a dot that override it."""

    def __init__(self, settings: Mapping[str, str], setting: str) -> None:
        self._of_all = rate_of(settings.get(setting))
        named = {key.partition(".")[2]: rate_of(text) for key, text in settings.items() if key.startswith(f"{setting}.")}
        self._named = {name: rate for name, rate in named.items() if rate is not None}

    def __bool__(self) -> bool:
        return self._of_all is not None or bool(self._named)

    def of(self, name: str) -> float | None:
        """Return the quota of a name; None without one."""
        return self._named.get(name, self._of_all)


class Quotas:
    """The quotas of one broker. is_enabled: whether they are enforced; the broker's instance config can disable that.

    has_shared: whether several tables share any quota.
    """

    def __init__(self, broker_id: str = "") -> None:
        self.is_enabled = True
        self._broker_id = broker_id
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self.databases = Rates({}, DATABASE_SETTING)
        self.applications = Rates({}, APPLICATION_SETTING)
        self.has_shared = False

    def apply(self, settings: Mapping[str, str]) -> None:
        """Apply the cluster's settings, and the quotas that `gamay.cluster.records.quotas` adds to them."""
        self.is_enabled = settings.get(f"{RATE_LIMIT_DISABLED}.{self._broker_id}") != "true"
        self.databases = Rates(settings, DATABASE_SETTING)
        self.applications = Rates(settings, APPLICATION_SETTING)
        self.has_shared = bool(self.databases) or bool(self.applications)

    def admit_application(self, options: Mapping[str, str], now_s: float) -> None:
        """Admit a query of an application, before any other check; raises QueryError 429 like `admit`."""
        if not (self.is_enabled and self.applications):
            return
        application = options.get(APPLICATION_NAME)
        if application is not None and (rate := self.applications.of(application)) is not None:
            self._take("application", application, rate, APPLICATION_SETTING, now_s)

    def admit(self, routes: Sequence[Limited], now_s: float) -> None:
        """Admit a query; raises QueryError 429 when the quota of its database or of a table is exhausted.

        routes: of the typed tables that it reads, each with its own quota: both halves of a hybrid table; empty for a query
        without a table.
        """
        if not self.is_enabled:
            return
        if routes and self.databases:
            database = database_of(routes[0].table)
            if (rate := self.databases.of(database)) is not None:
                self._take("database", database, rate, DATABASE_SETTING, now_s)
        for route in routes:
            if (rate := route.queries_per_s) is not None:
                self._take("table", route.table, rate, "quota.maxQueriesPerSecond", now_s)

    def measure(self, now_s: float) -> Iterator[Measured]:
        """Yield the utilization of the quotas of tables, databases and applications. now_s: of the clock of `admit`."""
        exempt = "1 when this broker enforces no quota"
        yield Measured("pinot_broker_queryRateLimitDisabled", not self.is_enabled, exempt)
        for (kind, name), bucket in list(self._buckets.items()):
            last, most = bucket.use(now_s)
            used = "Queries of the last second, in percent of the quota"
            yield Measured("pinot_broker_queryQuotaCapacityUtilizationRate", 100 * last / bucket.rate, used, {kind: name})
            burst = "Queries in the busiest second of the last minute"
            yield Measured("pinot_broker_maxBurstQps", most, burst, {kind: name})

    def _take(self, kind: str, name: str, rate: float, key: str, now_s: float) -> None:
        bucket = self._buckets.get((kind, name))
        if bucket is None:
            if len(self._buckets) >= _BUCKETS_MAX:
                self._buckets.clear()
            bucket = self._buckets.setdefault((kind, name), TokenBucket(rate, now_s))
        if bucket.rate != rate:
            bucket.set_rate(rate, now_s)
        if not bucket.take(now_s):
            raise QueryError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"The query exceeds query quota for {kind} '{name}': {rate:g} a second at this broker ({key}); "
                "ask less often, or set a larger quota",
            )


def rate_of(text: str | None) -> float | None:
    """Parse a quota in queries per second; None without one, or if the text is not a positive number."""
    if text is None:
        return None
    try:
        rate = float(text)
    except ValueError:
        return None
    return rate if 0 < rate < float("inf") else None

"""How many queries a second may be asked: of a table, of a database, by an application.

A token bucket each: it fills at the rate of the quota, holds what comes together in a second (one token at least), and a
query takes a token, or is refused. So an even stream at the quota always passes, after a pause a burst does, and over any
stretch of time no more pass than the quota allows, and one burst.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from gamay.base.errors import ErrorCode, QueryError
from gamay.base.metrics import Measured
from gamay.cluster.records.quotas import APPLICATION_SETTING, DATABASE_SETTING, RATE_LIMIT_DISABLED
from gamay.model.table.table_name import database_of

# so many applications have a bucket at the same time; those beyond begin with full ones
_BUCKETS_MAX = 10_000

APPLICATION_NAME = "applicationName"
"""The option by which an application names itself."""

_HIT_SECONDS = 60


class Limited(Protocol):
    """A typed table. queries_per_s: its quota at this broker; None is no quota."""

    @property
    def table(self) -> str: ...

    @property
    def queries_per_s(self) -> float | None: ...


class _Hits:
    """How many queries asked for a token, second by second of the last minute, those that were refused included."""

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
    """Lets `rate` pass a second; safe to use from several threads. Time is passed in, in seconds."""

    def __init__(self, rate: float, now_s: float) -> None:
        self.rate = rate
        self._tokens = self.capacity
        self._filled_s = now_s
        self._hits = _Hits()
        self._lock = threading.Lock()

    def use(self, now_s: float) -> tuple[int, int]:
        """Return how many asked in the last whole second, and in that of the last minute in which most did."""
        with self._lock:
            return self._hits.in_second(int(now_s) - 1), self._hits.most(now_s)

    @property
    def capacity(self) -> float:
        """How many may pass at once after a pause."""
        return max(1.0, self.rate)

    def take(self, now_s: float) -> bool:
        """Take a token; return whether there was one."""
        with self._lock:
            self._hits.add(now_s)
            # a query that came a moment before another may ask after it
            waited_s = max(0.0, now_s - self._filled_s)
            self._filled_s = max(now_s, self._filled_s)
            self._tokens = min(self.capacity, self._tokens + waited_s * self.rate)
            # a rate such as 0.1 fills up to a whole token but for rounding
            if self._tokens < 1.0 - 1e-9:
                return False
            self._tokens -= 1.0
            return True

    def set_rate(self, rate: float, now_s: float) -> None:
        """Change the rate; what has been saved up so far stays, as far as the new capacity goes."""
        with self._lock:
            self._tokens = min(self._tokens + max(0.0, now_s - self._filled_s) * self.rate, max(1.0, rate))
            self._filled_s = max(now_s, self._filled_s)
            self.rate = rate


class Rates:
    """Queries a second by name: what a setting says of all names, and of single ones after a dot."""

    def __init__(self, settings: Mapping[str, str], setting: str) -> None:
        self._of_all = rate_of(settings.get(setting))
        named = {key.partition(".")[2]: rate_of(text) for key, text in settings.items() if key.startswith(f"{setting}.")}
        self._named = {name: rate for name, rate in named.items() if rate is not None}

    def __bool__(self) -> bool:
        return self._of_all is not None or bool(self._named)

    def of(self, name: str) -> float | None:
        """Return the quota of a name; None is no quota."""
        return self._named.get(name, self._of_all)


class Quotas:
    """The quotas of one broker. is_enabled: whether they are looked at, which the broker's instance config can end.

    has_shared: whether there are any that several tables share.
    """

    def __init__(self, broker_id: str = "") -> None:
        self.is_enabled = True
        self._broker_id = broker_id
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self.databases = Rates({}, DATABASE_SETTING)
        self.applications = Rates({}, APPLICATION_SETTING)
        self.has_shared = False

    def apply(self, settings: Mapping[str, str]) -> None:
        """Take over the cluster's settings, and what `gamay.cluster.records.quotas` knows."""
        self.is_enabled = settings.get(f"{RATE_LIMIT_DISABLED}.{self._broker_id}") != "true"
        self.databases = Rates(settings, DATABASE_SETTING)
        self.applications = Rates(settings, APPLICATION_SETTING)
        self.has_shared = bool(self.databases) or bool(self.applications)

    def admit_application(self, options: Mapping[str, str], now_s: float) -> None:
        """Let a query of an application pass, before anything else is looked at; raises QueryError 429 as `admit`."""
        if not (self.is_enabled and self.applications):
            return
        application = options.get(APPLICATION_NAME)
        if application is not None and (rate := self.applications.of(application)) is not None:
            self._take("application", application, rate, APPLICATION_SETTING, now_s)

    def admit(self, routes: Sequence[Limited], now_s: float) -> None:
        """Let a query pass; raises QueryError 429 when a quota is used up: its database's or a table's.

        routes: of the typed tables that it asks, each with a quota of its own: both halves of a hybrid table, none without
        a table.
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
        """Yield how much of the quotas of tables, databases and applications is used. now_s: of the clock of `admit`."""
        exempt = "1 when this broker heeds no quota"
        yield Measured("pinot_broker_queryRateLimitDisabled", not self.is_enabled, exempt)
        for (kind, name), bucket in list(self._buckets.items()):
            last, most = bucket.use(now_s)
            used = "Queries of the last second, in percent of the quota"
            yield Measured("pinot_broker_queryQuotaCapacityUtilizationRate", 100 * last / bucket.rate, used, {kind: name})
            burst = "Queries of that second of the last minute in which most came"
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
    """Return a quota as queries a second; None where there is none, or what is written is no positive number."""
    if text is None:
        return None
    try:
        rate = float(text)
    except ValueError:
        return None
    return rate if 0 < rate < float("inf") else None

"""Selection of the broker for a query. Thread-safe."""

import logging
import re
import threading
from collections.abc import Iterable

from gamay.base.clock import Clock
from gamay.base.errors import GamayError
from gamay.client.directory import BrokerDirectory, Listing

REFRESH_S = 30.0
_RETRY_S = 1.0  # least time between two reads of the directory
_AVOID_S = 10.0  # how long a failed broker is tried last
_log = logging.getLogger(__name__)

_OPAQUE = r"""'(?:[^']|'')*+'?|--[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?"""
_TABLE = re.compile(rf'{_OPAQUE}|\b(?:FROM|JOIN)\s+(?P<table>[\w$.]+|"[^"]+")', re.IGNORECASE)


def tables_of(query: str) -> set[str]:
    """Return the names after FROM and JOIN, in lower case; approximate, which is enough to choose brokers: a wrong guess
    costs nothing.

    >>> sorted(tables_of("SELECT a FROM Trips JOIN \\"x y\\" ON 'from z' = b -- from c"))
    ['trips', 'x y']
    """
    return {name.strip('"').lower() for found in _TABLE.finditer(query) if (name := found["table"])}


class BrokerSelector:
    """A round-robin selector over the brokers of a directory; recently failed ones come last. Refreshes the list."""

    def __init__(self, directory: BrokerDirectory, clock: Clock, *, refresh_s: float = REFRESH_S, first: int = 0) -> None:
        """refresh_s: maximum age of the list. first: the starting position, so that clients do not all start alike."""
        self._directory = directory
        self._clock = clock
        self._refresh_s = refresh_s
        self._turn = first
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._listing: Listing | None = None
        self._looked_at_s = 0.0
        self._failed_at_s: dict[str, float] = {}

    def candidates(self, tables: Iterable[str], *, fresh: bool = False) -> list[str]:
        """Return the URLs of brokers that serve the tables, in the order in which to try them.

        fresh: read the directory again, because all known brokers have failed. For tables that the directory does not
        list, any broker may be asked. Raises GamayError when there is no list at all.
        """
        wanted = [table.lower() for table in tables]
        listing = self._look(self._refresh_s if not fresh else _RETRY_S)
        if any(table not in listing.by_table for table in wanted):
            listing = self._look(_RETRY_S)  # the table may be a new one
        named = [set(known) for table in wanted if (known := listing.by_table.get(table))]
        common = set.intersection(*named) if named else set()
        urls = [url for url in listing.all if url in common] or list(listing.all)
        with self._lock:
            self._turn += 1
            turn = self._turn
            now = self._clock.monotonic_s()
            avoided = {url for url, failed_at in self._failed_at_s.items() if now - failed_at < _AVOID_S}
        start = turn % len(urls) if urls else 0
        in_turn = urls[start:] + urls[:start]
        return [u for u in in_turn if u not in avoided] + [u for u in in_turn if u in avoided]

    def failed(self, url: str) -> None:
        """Record that a broker did not answer."""
        with self._lock:
            self._failed_at_s[url] = self._clock.monotonic_s()

    def answered(self, url: str) -> None:
        """Record that a broker answered: it is no longer avoided."""
        if url in self._failed_at_s:
            with self._lock:
                self._failed_at_s.pop(url, None)

    def close(self) -> None:
        """Close the directory."""
        self._directory.close()

    def _look(self, age_max_s: float) -> Listing:
        """Return a list of at most this age or, if the directory does not answer, the last known one."""
        listing = self._listing
        if listing is not None and (not self._directory.changes or self._age_s() < age_max_s):
            return listing
        # one thread refreshes; meanwhile the others use the old list
        if not self._looking.acquire(blocking=listing is None):
            assert listing is not None
            return listing
        try:
            if self._listing is None or self._age_s() >= age_max_s:
                self._listing = self._ask()
                self._looked_at_s = self._clock.monotonic_s()
            return self._listing
        finally:
            self._looking.release()

    def _ask(self) -> Listing:
        try:
            return self._directory.list_brokers()
        except GamayError as error:
            if self._listing is None:
                raise
            _log.warning("the list of brokers could not be refreshed, the last one is still used: %s", error)
            return self._listing

    def _age_s(self) -> float:
        return self._clock.monotonic_s() - self._looked_at_s

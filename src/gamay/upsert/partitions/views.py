"""The rows visible to a query: `upsertConfig.consistencyMode`.

NONE      the state of each segment when it is read; no lock
SYNC      the state of all segments between two batches, at the start of the query
SNAPSHOT  a recent state of all segments between two batches, up to a maximum age
Every query holds immutable copies, so updates never wait for a query, in any mode.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from gamay.base.clock import Clock
from gamay.segment.read.visible import VisibleDocs
from gamay.upsert.rows.valid_docs import SegmentDocs

T = TypeVar("T")
Copies: TypeAlias = Mapping[int, VisibleDocs]


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """Query options. with_deleted: skipUpsertDelete; skip_view: skipUpsertView; freshness_ms: upsertViewFreshnessMs, None
    if absent.
    """

    with_deleted: bool = False
    skip_view: bool = False
    freshness_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _View:
    at_s: float
    copies: Copies
    kept: tuple[SegmentDocs, ...]  # keeps the objects alive, as their ids are keys


class Views:
    """Factory of the views of a table. publishing: held while the valid docs change, see `TrackedSegments`."""

    def __init__(self, mode: str, refresh_ms: int, publishing: threading.Lock, clock: Clock) -> None:
        self._mode = mode
        self._refresh_ms = refresh_ms
        self._publishing = publishing
        self._clock = clock
        self._shared: dict[bool, _View] = {}

    def read(
        self, contents: Callable[[], T], docs_in: Callable[[T], Iterable[SegmentDocs]], options: ViewOptions
    ) -> tuple[T, Callable[[SegmentDocs], VisibleDocs]]:
        """Return the contents of the table, and a function that returns the valid docs of each of its segments.

        contents: returns the currently loaded segments; docs_in: returns the valid docs of all segments in it.
        """
        if self._mode == "NONE" or options.skip_view:
            return contents(), lambda docs: docs.snapshot(options.with_deleted)
        if self._mode == "SYNC":
            found, view = self._take(contents, docs_in, options.with_deleted)
        else:
            found, view = self._recent(contents, docs_in, options)
        return found, lambda docs: view.copies[id(docs)]

    def read_now(
        self, contents: Callable[[], T], docs_in: Callable[[T], Iterable[SegmentDocs]]
    ) -> tuple[T, Callable[[SegmentDocs], VisibleDocs]]:
        """Return what `read` returns, for the current state between two batches, in any mode."""
        found, view = self._take(contents, docs_in, with_deleted=False)
        return found, lambda docs: view.copies[id(docs)]

    def _recent(
        self, contents: Callable[[], T], docs_in: Callable[[T], Iterable[SegmentDocs]], options: ViewOptions
    ) -> tuple[T, _View]:
        allowed_ms = self._refresh_ms if options.freshness_ms is None else min(self._refresh_ms, options.freshness_ms)
        view = self._shared.get(options.with_deleted)
        if view is not None and 1000 * (self._clock.monotonic_s() - view.at_s) < allowed_ms:
            found = contents()
            # a segment added or replaced since then has invalidated rows of others
            if {id(docs) for docs in docs_in(found)} == view.copies.keys():
                return found, view
        found, view = self._take(contents, docs_in, options.with_deleted)
        self._shared[options.with_deleted] = view
        return found, view

    def _take(
        self, contents: Callable[[], T], docs_in: Callable[[T], Iterable[SegmentDocs]], with_deleted: bool
    ) -> tuple[T, _View]:
        with self._publishing:
            found = contents()
            kept = tuple(docs_in(found))
            copies = {id(docs): docs.snapshot(with_deleted) for docs in kept}
            return found, _View(self._clock.monotonic_s(), copies, kept)


class NewSegments:
    """Recently added segments, which the broker's routing may not include yet: `newSegmentTrackingTimeMs`."""

    def __init__(self, tracking_ms: int, clock: Clock) -> None:
        self._tracking_s = tracking_ms / 1000
        self._clock = clock
        self._lock = threading.Lock()
        self._added_s: OrderedDict[str, float] = OrderedDict()  # ordered by time

    def note(self, name: str) -> None:
        """Record that a segment was added."""
        if self._tracking_s > 0:
            with self._lock:
                self._added_s[name] = self._clock.monotonic_s()
                self._added_s.move_to_end(name)
                self._drop_old()

    def forget(self, name: str) -> None:
        """Record that a segment was removed."""
        with self._lock:
            self._added_s.pop(name, None)

    def names(self) -> list[str]:
        """Return the segments added within the tracking time, oldest first."""
        if not self._added_s:
            return []
        with self._lock:
            self._drop_old()
            return list(self._added_s)

    def _drop_old(self) -> None:
        before_s = self._clock.monotonic_s() - self._tracking_s
        while self._added_s and next(iter(self._added_s.values())) <= before_s:
            self._added_s.popitem(last=False)

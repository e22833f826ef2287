"""The watches of one session with a metadata store: notifications of changes, one after the other, on one thread."""

import logging
import queue
import threading
from collections.abc import Callable

from gamay.cluster.store.store import Watcher

_log = logging.getLogger(__name__)


class Watches:
    """Dispatcher that calls watchers in the order of the changes; its thread starts with the first watch."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._watches: dict[int, tuple[str, Watcher]] = {}
        self._last_id = 0
        self._queue: queue.SimpleQueue[str | Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, path: str, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` after changes at and below `path`; return the function that cancels this."""
        with self._lock:
            self._last_id += 1
            watch_id = self._last_id
            self._watches[watch_id] = (path, watcher)
        self._start()

        def cancel() -> None:
            with self._lock:
                self._watches.pop(watch_id, None)

        return cancel

    def paths(self) -> list[str]:
        """Return the watched paths, each once, ascending."""
        with self._lock:
            return sorted({path for path, _ in self._watches.values()})

    def notify(self, path: str) -> None:
        """Notify the watchers of a path and of its ancestors that it changed."""
        if self._thread is not None:
            self._queue.put(path)

    def run(self, action: Callable[[], None]) -> None:
        """Call `action` on the watchers' thread, after the notifications that are queued."""
        self._start()
        self._queue.put(action)

    def tell_each(self) -> None:
        """Call every watcher with its own path, since anything there may have changed. Only from within `run`."""
        with self._lock:
            watches = list(self._watches.values())
        for path, watcher in watches:
            self._call(watcher, path)

    def close(self) -> None:
        """Cancel all watches and stop the thread."""
        with self._lock:
            self._watches.clear()
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            if thread is not threading.current_thread():
                thread.join()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if not isinstance(item, str):
                try:
                    item()
                except Exception:  # noqa: BLE001 - later changes must still be notified
                    _log.exception("the watches cannot be updated")
                continue
            with self._lock:
                told = [w for prefix, w in self._watches.values() if item == prefix or item.startswith(prefix + "/")]
            for watcher in told:
                self._call(watcher, item)

    def _call(self, watcher: Watcher, path: str) -> None:
        try:
            watcher(path)
        except Exception:  # noqa: BLE001 - one watcher's defect must not silence the others
            _log.exception("a watcher of '%s' failed", path)

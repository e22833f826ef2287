"""Cache of bounded total weight: clients choose the size of entries, so a bound on their number does not bound memory."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Generic, ParamSpec, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R")
P = ParamSpec("P")
# of an entry, in addition to its texts
_WEIGHT_LEAST = 200


class RecentlyUsed(Generic[K, V]):
    """LRU cache whose entries' total weight does not exceed a bound; thread-safe.

    peek: like `get` but faster; does not mark the entry as used.
    """

    def __init__(self, weight_max: int) -> None:
        self.weight = 0
        self._weight_max = weight_max
        self._values: OrderedDict[K, V] = OrderedDict()
        self._weights: dict[K, int] = {}
        self._lock = threading.Lock()
        self.peek: Callable[[K], V | None] = self._values.get

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """Return the value of a key and mark it as used; None if there is none."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V, weight: int) -> None:
        """Set the value of a key, unless it alone exceeds the bound; the least recently used entries are evicted."""
        with self._lock:
            if self._values.pop(key, None) is not None:
                self.weight -= self._weights.pop(key)
            if weight > self._weight_max:
                return
            self._values[key] = value
            self._weights[key] = weight
            self.weight += weight
            while self.weight > self._weight_max:
                oldest, _ = self._values.popitem(last=False)
                self.weight -= self._weights.pop(oldest)


def remembered(weight_max: int = 1 << 18) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that caches a function's results, for functions of client input of any length.

    weight_max: the bound on the total length of the cached, hashable arguments; a result may take 150 bytes per character.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        known: RecentlyUsed[tuple[object, ...], tuple[R]] = RecentlyUsed(weight_max)

        @wraps(function)
        def found(*args: P.args, **kwargs: P.kwargs) -> R:
            key = (*args, *kwargs.items()) if kwargs else args
            kept = known.peek(key)
            if kept is None:
                kept = (function(*args, **kwargs),)
                known.put(key, kept, _WEIGHT_LEAST + len(repr(key)))
            return kept[0]

        return found

    return decorated

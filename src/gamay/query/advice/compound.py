"""Which columns of a conjunction are worth one index of them together."""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import TypeAlias

from gamay.query.bind.predicate import In

Share: TypeAlias = Callable[[Sequence[In]], float | None]
"""Returns the share of the rows that satisfy all given conditions; None if unknown."""

# A condition that fewer rows satisfy is selective: the index of its column suffices.
_SELECTIVE = 0.01
# A further column is worth its space if it reduces the rows by this factor.
_TIMES_FEWER = 4
_CONDITIONS_MAX = 6


def best_together(conditions: Sequence[In], share: Share) -> tuple[In, ...]:
    """Return two or three conditions that are selective together but not alone; () if there are none.

    conditions: each on one column.
    """
    known = [(of_rows, one) for one in conditions if (of_rows := share([one])) is not None and of_rows > _SELECTIVE]
    known = sorted(known, key=lambda each: each[0])[:_CONDITIONS_MAX]
    best: tuple[In, ...] = ()
    best_share = 1.0
    for count in (2, 3):
        least = min(_selective(known, count, share), key=lambda found: found[0], default=None)
        if least is not None and (not best or least[0] * _TIMES_FEWER <= best_share):
            best_share, best = least
    return best


def _selective(known: Sequence[tuple[float, In]], count: int, share: Share) -> Iterable[tuple[float, tuple[In, ...]]]:
    """Yield the combinations of `count` conditions that few rows satisfy, each with the share of these rows."""
    for some in combinations(known, count):
        alone, conditions = min(of_rows for of_rows, _ in some), tuple(one for _, one in some)
        together = share(conditions)
        if together is not None and together <= _SELECTIVE and together * _TIMES_FEWER <= alone:
            yield together, conditions

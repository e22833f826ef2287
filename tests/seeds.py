"""The first seed of the suite's generated queries, histories and simulations.

Every run of the suite takes the same ones, from 0. `GAMAY_FIRST_SEED` chooses others; each family has a variable of its own
for how many there are.
"""

import os
from operator import attrgetter

FIRST = int(os.environ.get("GAMAY_FIRST_SEED", "0"))

by_first = attrgetter("start")
"""The name of a range of seeds among the cases of a test."""


def count_of(variable: str, unless_told: int) -> int:
    """Return how many an environment variable asks for."""
    return int(os.environ.get(variable, unless_told))


def seeds(count: int, part: int = 0, parts: int = 1) -> range:
    """Return every `parts`-th of the first `count` seeds, beginning with number `part`."""
    return range(FIRST + part, FIRST + count, parts)


def chunks(count: int, size: int) -> list[range]:
    """Return the first `count` seeds, in ranges of at most `size`."""
    return [range(first, min(first + size, FIRST + count)) for first in range(FIRST, FIRST + count, size)]

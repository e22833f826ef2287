"""Which columns of a conjunction get a compound index, by the shares of rows of a generated table."""

from collections.abc import Sequence
from itertools import combinations
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gamay.query.advice.compound import best_together
from gamay.query.bind.predicate import In

ROWS = 4000


@given(
    values=st.lists(st.sampled_from([2, 3, 8, 12, 30, 300]), min_size=1, max_size=5),
    follows=st.booleans(),
    seed=st.integers(0, 5),
)
def test_no_column_is_selective_alone_and_all_are_together(values: list[int], follows: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = {f"c{i}": rng.integers(0, count, ROWS) for i, count in enumerate(values)}
    if follows:  # the same rows pass both: an index of the two finds no fewer
        columns["copy"] = columns["c0"]
    conditions = [In(name, (0,)) for name in columns]

    def share(some: Sequence[In]) -> float:
        return float(np.mean(np.all([columns[one.column] == 0 for one in some], axis=0)))

    def is_worth_it(some: Sequence[In]) -> bool:
        alone, together = [share([one]) for one in some], share(some)
        return min(alone) > 0.01 >= together and min(alone) >= 4 * together

    found = best_together(conditions, share)
    every = [some for count in (2, 3) for some in combinations(conditions, count) if is_worth_it(some)]
    assert bool(found) == bool(every)
    if found:
        assert is_worth_it(found)
        assert share(found) <= 4 * min(map(share, every))  # a third column has to pay
        assert len(found) == 2 or all(4 * share(found) <= share(pair) for pair in every if len(pair) == 2)


def test_what_is_not_known_is_not_advised() -> None:
    sizes = {"a": 50, "b": 50}

    def share(some: Sequence[In]) -> float | None:
        return prod(1 / sizes[one.column] for one in some) if all(one.column in sizes for one in some) else None

    found = best_together([In("a", (1,)), In("x", (1,)), In("b", (1,))], share)
    assert {one.column for one in found} == {"a", "b"}
    assert best_together([In("a", (1,)), In("x", (1,))], share) == ()

"""The random queries of the benchmark, on small tables: both systems give the same answers."""

import pytest
from benchmarks.random_grammar import KINDS
from benchmarks.random_queries import SHAPES, agree, run, show


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_both_systems_agree(seed: int) -> None:
    measured = run(seed, num_queries=2 * len(KINDS), num_tables=2, num_rows=3000, threads=2, only="")
    assert [one.query.kind for one in measured] == 2 * list(KINDS)
    assert tuple(show(measured).rows) == SHAPES["random_queries"].cases


def test_answers_agree_but_for_order_and_last_digits() -> None:
    rows = [("a", 1.0), (None, 2.0)]
    assert agree(rows, [("a", 1), (None, 2.0 + 1e-12)], is_ordered=True)
    assert agree(rows, rows[::-1], is_ordered=False)
    assert not agree(rows, rows[::-1], is_ordered=True)
    assert not agree(rows, [("a", 1.0), (None, 2.1)], is_ordered=True)
    assert not agree(rows, rows[:1], is_ordered=False)

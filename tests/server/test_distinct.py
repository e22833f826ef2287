"""The predicted number of distinct values, against draws of many more."""

import numpy as np
import pytest

from gamay.server.provisioning.distinct import Drawn, sampled


def drawn(cardinality: int, skew: float, number: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = np.arange(1, cardinality + 1, dtype=np.float64) ** -skew
    return rng.choice(cardinality, number, p=weights / weights.sum())


def predicted(values: np.ndarray, sample: int) -> tuple[float, int]:
    distinct, ids = np.unique(values[:sample], return_inverse=True)
    return sampled(ids, len(distinct), in_order=True).at(len(values)), len(np.unique(values))


@pytest.mark.parametrize("cardinality", [1, 30, 3_000, 100_000, 10_000_000])
def test_values_drawn_evenly(cardinality: int) -> None:
    values = np.random.default_rng(1).integers(0, cardinality, 500_000)
    real = len(np.unique(values))
    assert Drawn(cardinality).at(500_000) == pytest.approx(real, rel=0.01)
    assert predicted(values, 20_000)[0] == pytest.approx(real, rel=0.1)


@pytest.mark.parametrize("skew", [0.5, 0.8, 1.1, 1.5])
@pytest.mark.parametrize("cardinality", [1_000, 100_000])
def test_values_of_a_long_tail(skew: float, cardinality: int) -> None:
    told, real = predicted(drawn(cardinality, skew, 500_000), 50_000)
    assert told == pytest.approx(real, rel=1 / 3)


def test_a_key_and_a_time_go_on_bringing_new_values() -> None:
    assert predicted(np.arange(500_000), 5_000)[0] == pytest.approx(500_000, rel=0.05)
    assert predicted(np.arange(500_000) // 40, 5_000)[0] == pytest.approx(12_500, rel=0.05)


def test_fewer_values_than_the_sample_are_rarefied() -> None:
    values = drawn(1_000, 0.8, 20_000)
    distinct, ids = np.unique(values, return_inverse=True)
    known = sampled(ids, len(distinct), in_order=False)
    assert known.at(2_000) == pytest.approx(len(np.unique(values[:2_000])), rel=0.05)
    assert known.at(20_000) == len(distinct)


@pytest.mark.parametrize("values", [drawn(50_000, 0.9, 10_000), np.arange(10_000) // 7, np.arange(10_000)])
def test_occurrences_add_up(values: np.ndarray) -> None:
    distinct, ids = np.unique(values, return_inverse=True)
    known = sampled(ids, len(distinct), in_order=True)
    occurrences, entries = known.occurrences(200_000)
    assert entries.sum() == pytest.approx(known.at(200_000), rel=0.01)
    assert (occurrences * entries).sum() == pytest.approx(200_000, rel=0.1)
    assert occurrences.min() >= 0.99

import pytest

from gamay.controller.realtime.thresholds import CommittedSize, RowLimitTuner, row_limit
from gamay.ingest.stream.config import FlushThresholds

MB = 1 << 20
WANTED = FlushThresholds(rows=None, segment_bytes=200 * MB, time_ms=3_600_000)


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def after(*commits: CommittedSize, thresholds: FlushThresholds = WANTED) -> int:
    tuner = RowLimitTuner()
    for commit in commits:
        tuner.committed(commit)
    return tuner.limit(thresholds, middle)


def full(rows: int, size: int) -> CommittedSize:
    return CommittedSize(rows, size, 1000, rows, False)


def test_the_first_segment_has_the_initial_rows() -> None:
    assert after() == 100_000
    assert after(thresholds=FlushThresholds(rows=None, segment_bytes=MB, initial_rows=7)) == 7


def test_segments_far_from_the_wanted_size_ramp_up_and_down() -> None:
    assert after(full(100_000, 99 * MB)) == 150_000  # below half: half as many more
    assert after(full(100_000, 301 * MB)) == 50_000  # above one and a half: half as many
    assert after(full(100_000, 100 * MB)) == 200_000  # near: by the ratio
    assert after(full(300_000, 300 * MB)) == 200_000


def test_the_ratio_is_an_average_in_which_the_new_one_counts_a_tenth() -> None:
    assert after(full(100 * MB, 100 * MB), full(150 * MB, 150 * MB * 2)) == int(200 * MB * (0.9 * 1.0 + 0.1 * 0.5))


def test_after_the_time_limit_the_rows_grow_by_a_tenth() -> None:
    early = CommittedSize(50_000, 10 * MB, 3_600_000, 100_000, False)
    assert after(early) == 55_000
    # It consumed twice as long as it should have, so half of its rows count.
    assert after(CommittedSize(50_000, 10 * MB, 7_200_000, 100_000, False)) == 27_500


def test_forced_commits_say_nothing_of_sizes() -> None:
    forced = CommittedSize(5, 100, 10, 80_000, True)
    assert after(forced) == 80_000
    assert after(full(100_000, 100 * MB), forced) == 200_000
    assert after(full(100_000, 100 * MB), full(0, 0)) == 200_000


def test_tuned_limits_stay_within_reason() -> None:
    assert after(full(10, 300 * MB)) == 10_000
    assert after(full(2**31 - 1, 99 * MB)) == 2**31 - 1


def test_the_variance_spreads_the_limits() -> None:
    thresholds = FlushThresholds(rows=None, segment_bytes=200 * MB, variance_fraction=0.2)
    tuner = RowLimitTuner()
    tuner.committed(full(100_000, 100 * MB))
    assert tuner.limit(thresholds, lambda low, high: low) == 160_000
    assert tuner.limit(thresholds, lambda low, high: high) == 240_000


def test_a_new_lead_learns_from_the_first_commit_that_it_sees() -> None:
    tuner = RowLimitTuner()
    for _ in range(20):
        tuner.committed(full(100_000, 150 * MB))
    assert after(full(100_000, 150 * MB)) == tuner.limit(WANTED, middle)


@pytest.mark.parametrize(
    ("thresholds", "shared", "limit"),
    [
        (FlushThresholds(rows=1000), 3, 333),
        (FlushThresholds(rows=2), 3, 1),
        (FlushThresholds(rows=None, segment_rows=77), 3, 77),
        (WANTED, 3, 100_000),
    ],
)
def test_limits_are_divided_fixed_or_tuned(thresholds: FlushThresholds, shared: int, limit: int) -> None:
    assert row_limit(thresholds, RowLimitTuner(), shared, middle) == limit

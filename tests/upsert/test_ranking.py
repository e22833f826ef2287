"""The order of segments by their names: the same for the keys of a partition as for the cluster."""

import random

import pytest

from gamay.cluster.records.llc_name import LlcName
from gamay.upsert.rows.ranking import Ranks, SegmentRank, partition_of, sequence_of

TIME = "20260102T0304Z"


@pytest.mark.parametrize("table", ["t", "orders", "_t", "my_table", "a.b", "t1_2", "日本"])
def test_names_of_consumed_segments(table: str) -> None:
    name = f"{table}__12__3__{TIME}"
    assert LlcName.must_parse(name) == LlcName(table, 12, 3, TIME)
    assert (partition_of(name), sequence_of(name)) == (12, 3)


@pytest.mark.parametrize("name", [f"t___1__2__{TIME}", f"__1__2__{TIME}", f"t__1__{TIME}", f"a__t__1__2__{TIME}", "t_1_2"])
def test_other_names(name: str) -> None:
    assert LlcName.parse(name) is None
    assert sequence_of(name) is None


def test_names_of_uploaded_segments() -> None:
    name = f"compacted__t__7__{TIME}__1"
    assert (partition_of(name), sequence_of(name)) == (7, None)


def beats(one: SegmentRank, other: SegmentRank) -> bool:
    """Whether a row of one segment replaces a row of another with equal comparison values, by definition."""
    if one.sequence is not None and other.sequence is not None:
        return one.sequence > other.sequence
    if one.created_ms != other.created_ms:
        return one.created_ms > other.created_ms
    if (one.sequence is None) != (other.sequence is None):
        return one.sequence is None
    return one.is_standard and not other.is_standard


def test_a_rank_is_compared_with_all_others_at_once() -> None:
    rng, ranks, by_number = random.Random(1), Ranks(), dict[int, SegmentRank]()
    for _ in range(300):
        sequence = rng.choice([None, None, 0, 1, 2])
        rank = SegmentRank(sequence, rng.choice([0, 5, 1 << 41]), sequence is None and rng.random() < 0.5)
        number = rng.randrange(len(by_number) + 1)
        ranks.put(number, rank)
        by_number[number] = rank
        wins = ranks.beaten_by(rank, len(by_number))
        assert wins.tolist() == [beats(rank, by_number[other]) for other in range(len(by_number))]

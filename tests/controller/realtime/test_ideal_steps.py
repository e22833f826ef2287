from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import Assignment
from gamay.controller.realtime.ideal_steps import (
    PauseState,
    advanced,
    consuming_segments,
    continued,
    latest_segments,
    let_go,
    marked_offline,
    pause_state,
    replaced,
    revived,
    with_pause_state,
)

FIRST, SECOND, THIRD = (LlcName("t", 0, sequence, "20260101T0000Z") for sequence in range(3))


def ideal(**states: str) -> Assignment:
    """Return an ideal state; s0="ca" is sequence 0 CONSUMING on server 0 and OFFLINE (a) on server 1, o is ONLINE."""
    words = {"c": "CONSUMING", "o": "ONLINE", "a": "OFFLINE"}
    return Assignment(
        "t_REALTIME",
        {
            str(LlcName("t", 0, int(name[1:]), "20260101T0000Z")): {f"S{i}": words[c] for i, c in enumerate(letters)}
            for name, letters in states.items()
        },
    )


Step = Callable[[Assignment], Assignment]
SECOND_IS_DONE: Step = lambda i: advanced(i, SECOND, THIRD, ["S0"])  # noqa: E731 - also part of an example below
THIRD_GOES_ON: Step = lambda i: continued(i, SECOND, THIRD, ["S0"])  # noqa: E731
STEPS: list[Step] = [
    lambda i: advanced(i, FIRST, SECOND, ["S0", "S1"]),
    lambda i: advanced(i, FIRST, None, []),
    SECOND_IS_DONE,
    lambda i: continued(i, FIRST, SECOND, ["S0"]),
    lambda i: continued(i, None, FIRST, ["S0"]),
    THIRD_GOES_ON,
    lambda i: replaced(i, FIRST, SECOND),
    lambda i: replaced(i, SECOND, THIRD),
    lambda i: let_go(i, FIRST),
    lambda i: marked_offline(i, str(FIRST), "S0"),
    lambda i: marked_offline(i, str(FIRST), "S0", is_committing=True),
    lambda i: revived(i, str(FIRST)),
    lambda i: revived(i, str(SECOND)),
]


@example({"s0": "c", "s1": "a"}, False, [SECOND_IS_DONE])
@example({"s0": "c", "s1": "a"}, False, [THIRD_GOES_ON])
@given(
    st.dictionaries(st.sampled_from(["s0", "s1", "s2"]), st.text("coa", min_size=1, max_size=3)),
    st.booleans(),
    st.lists(st.sampled_from(STEPS), max_size=6),
)
def test_steps_may_be_repeated_and_never_make_two_segments_consume(
    states: dict[str, str], paused: bool, steps: list[Step]
) -> None:
    state = with_pause_state(ideal(**states), PauseState(paused))
    for step in steps:
        before, state = len(consuming_segments(state)), step(state)
        assert step(state) == state
        assert len(consuming_segments(state)) <= max(before, 1)
        if paused:
            assert len(consuming_segments(state)) <= before


def test_a_segment_goes_online_and_its_successor_consumes_in_one_step() -> None:
    assert advanced(ideal(s0="ca"), FIRST, SECOND, ["S0", "S1"]) == ideal(s0="oo", s1="cc")
    assert advanced(ideal(s0="oo"), FIRST, SECOND, ["S0"]) == ideal(s0="oo")
    assert advanced(ideal(s0="cc", s1="cc"), FIRST, SECOND, ["S0"]) == ideal(s0="oo", s1="cc")
    assert advanced(ideal(), FIRST, SECOND, ["S0"]) == ideal()


def test_nothing_begins_beside_an_earlier_segment_that_consumes() -> None:
    assert advanced(ideal(s0="ca", s1="cc"), SECOND, THIRD, ["S0"]) == ideal(s0="ca", s1="oo")
    assert continued(ideal(s0="ca", s1="oo"), SECOND, THIRD, ["S0"]) == ideal(s0="ca", s1="oo")
    assert advanced(ideal(s0="ca", s1="oo"), FIRST, SECOND, ["S0"]) == ideal(s0="oo", s1="oo")
    assert continued(ideal(s0="oo", s1="oo"), SECOND, THIRD, ["S0"]) == ideal(s0="oo", s1="oo", s2="c")


def test_only_a_segment_that_another_one_took_the_place_of_is_let_go() -> None:
    assert let_go(ideal(s0="ca", s1="cc"), FIRST) == ideal(s0="aa", s1="cc")
    assert let_go(ideal(s0="oo", s1="cc"), FIRST) == ideal(s0="oo", s1="cc")
    assert let_go(ideal(s0="oo", s1="cc"), SECOND) == ideal(s0="oo", s1="cc")
    assert let_go(ideal(), FIRST) == ideal()


def test_a_partition_goes_on_only_behind_the_segment_that_was_looked_at() -> None:
    assert continued(ideal(s0="aa"), FIRST, SECOND, ["S0"]) == ideal(s0="aa", s1="c")
    assert continued(ideal(s0="ca"), FIRST, SECOND, ["S0"]) == ideal(s0="ca")
    assert continued(ideal(s0="aa", s1="cc"), FIRST, SECOND, ["S0"]) == ideal(s0="aa", s1="cc")
    assert continued(ideal(), None, FIRST, ["S0"]) == ideal(s0="c")
    assert continued(ideal(s0="o"), None, FIRST, ["S0"]) == ideal(s0="o")


def test_replicas_leave_and_come_back() -> None:
    assert marked_offline(ideal(s0="cc"), str(FIRST), "S1") == ideal(s0="ca")
    assert marked_offline(ideal(s0="oo"), str(FIRST), "S1") == ideal(s0="oo")
    assert marked_offline(ideal(s0="oo"), str(FIRST), "S1", is_committing=True) == ideal(s0="oa")
    assert marked_offline(ideal(s0="oo"), str(FIRST), "S2", is_committing=True) == ideal(s0="oo")
    assert revived(ideal(s0="ca"), str(FIRST)) == ideal(s0="cc")
    assert revived(ideal(s0="aa"), str(FIRST)) == ideal(s0="aa")


def test_the_pause_state_is_read_as_written_and_in_its_older_form() -> None:
    state = PauseState(True, "ADMINISTRATIVE", "why", 5, (0, 2))
    assert pause_state(with_pause_state(ideal(), state)) == state
    assert pause_state(ideal()) == PauseState()
    assert pause_state(Assignment("t", {}, {"isTablePaused": "true"})).paused
    assert state.pauses(LlcName("t", 10_000, 0, ""))
    assert not PauseState(inactive_topics=(0,)).pauses(LlcName("t", 10_000, 0, ""))


@pytest.mark.parametrize(("sequences", "latest"), [([0, 2, 10, 9], 10), ([], None)])
def test_the_latest_segment_is_the_one_with_the_highest_sequence(sequences: list[int], latest: int | None) -> None:
    found = latest_segments(ideal(**{f"s{sequence}": "o" for sequence in sequences}))
    assert (found[0].sequence if found else None) == latest

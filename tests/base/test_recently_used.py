"""A cache of bounded weight, against a list in order of use."""

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from, tuples

from gamay.base.recently_used import RecentlyUsed, remembered

_MAX = 10


@given(lists(tuples(sampled_from(["get", "put", "peek"]), integers(0, 5), integers(0, 12)), max_size=60))
def test_the_least_recently_used_leave_when_the_weight_is_too_large(steps: list[tuple[str, int, int]]) -> None:
    cache: RecentlyUsed[int, int] = RecentlyUsed(_MAX)
    kept: list[tuple[int, int, int]] = []  # key, value, weight; the one used last is at the end
    for number, (step, key, weight) in enumerate(steps):
        entry = next((one for one in kept if one[0] == key), None)
        if step == "put":
            cache.put(key, number, weight)
            kept = [one for one in kept if one is not entry]
            if weight <= _MAX:
                kept.append((key, number, weight))
                while sum(one[2] for one in kept) > _MAX:
                    kept.pop(0)
        else:
            assert (cache.get if step == "get" else cache.peek)(key) == (None if entry is None else entry[1])
            if step == "get" and entry is not None:
                kept = [*(one for one in kept if one is not entry), entry]
        assert len(cache) == len(kept)
        assert cache.weight == sum(one[2] for one in kept)
    assert all(cache.peek(key) == value for key, value, _ in kept)


def test_a_function_is_called_again_for_what_is_too_long_to_keep() -> None:
    calls: list[str] = []

    @remembered(1000)
    def length(text: str, *, double: bool = False) -> int | None:
        calls.append(text)
        return len(text) * (1 + double) or None

    for _ in range(2):
        assert (length("abc"), length("abc", double=True), length(""), length("x" * 2000)) == (3, 6, None, 2000)
    assert calls == ["abc", "abc", "", "x" * 2000, "x" * 2000]


def test_errors_are_not_kept() -> None:
    @remembered()
    def number(text: str) -> int:
        return int(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="literal"):
            number("a")

"""Funnels against twins that process one event, or one key, at a time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.registry import aggregate_arguments, bind_aggregate
from gamay.functions.text import to_text
from gamay.functions.vector import Scalar, Vector
from gamay.model.types import DataType

INT, LONG, BOOLEAN, STRING = DataType.INT, DataType.LONG, DataType.BOOLEAN, DataType.STRING
GROUPS = 3
MODES = ("STRICT_DEDUPLICATION", "STRICT_ORDER", "STRICT_INCREASE", "KEEP_ALL")


@dataclass(frozen=True)
class Rules:
    """The rules that end a walk; the twin of `gamay.kernels.group.funnel`, one event at a time."""

    num_steps: int
    window: int
    gap_max: int = 0
    deduplication: bool = False
    order: bool = False
    increase: bool = False


def walk(events: Sequence[tuple[int, int]], first: int, rules: Rules) -> list[int]:
    """Return the positions of the events of the walk that begins at events[first]; events are (time, step), sorted."""
    taken = [first]
    for position in range(first + 1, len(events)):
        time, step = events[position]
        if time >= events[first][0] + rules.window:
            break
        if rules.gap_max and time - events[position - 1][0] > rules.gap_max:
            break
        if len(taken) == rules.num_steps:
            break
        if rules.deduplication and step == len(taken) - 1:
            break
        if rules.order and step != len(taken):
            break
        if rules.increase and time == events[taken[-1]][0]:
            continue
        if step == len(taken):
            taken.append(position)
    return taken


def walks(events: Sequence[tuple[int, int]], rules: Rules) -> list[list[int]]:
    """Return the walk from every event of step 0."""
    return [walk(events, i, rules) for i, (_, step) in enumerate(events) if step == 0]


def rounds(events: Sequence[tuple[int, int]], rules: Rules) -> list[list[int]]:
    """Return complete walks, none of which begins before the end of another."""
    found: list[list[int]] = []
    for i, (_, step) in enumerate(events):
        if step == 0 and not (found and i <= found[-1][-1]):
            taken = walk(events, i, rules)
            if len(taken) == rules.num_steps:
                found.append(taken)
    return found


def literal(value: int | str) -> Literal:
    return Literal(value, STRING if isinstance(value, str) else INT)


def rows_of(vector: Vector) -> list[Any]:
    listed = vector.values.tolist()
    if vector.offsets is None:
        return list(listed)
    return [listed[a:b] for a, b in zip(vector.offsets[:-1], vector.offsets[1:], strict=True)]


def bind(name: str, num_steps: int, window: int, *texts: str, fields: int = 0) -> Any:
    """Bind a window funnel of columns ts, c0, c1, … and f0, f1, …"""
    more = [literal(fields), *(Column(f"f{i}") for i in range(fields))] if fields else []
    steps = [Column(f"c{i}") for i in range(num_steps)]
    call = Call(name, (Column("ts"), literal(window), literal(num_steps), *steps, *more, *map(literal, texts)))
    types = {"t": LONG, "c": BOOLEAN, "f": STRING}
    return bind_aggregate(
        call, [(types[arg.name[0]], False) for arg in aggregate_arguments(call) if isinstance(arg, Column)]
    )


# a row: its group, its time, and which of four conditions hold
_rows = st.lists(
    st.tuples(st.integers(0, GROUPS - 1), st.integers(0, 12), st.lists(st.booleans(), min_size=4, max_size=4)), max_size=40
)
_modes = st.sets(st.sampled_from(MODES))


@settings(deadline=None, max_examples=200)
@given(_rows, st.integers(1, 4), st.integers(1, 14), st.integers(0, 4), _modes, st.integers(0, 99))
def test_window_funnels(
    whole: Any, divided: Any, rows: Any, num_steps: int, window: int, gap_max: int, modes: set[str], seed: int
) -> None:
    texts = [f"mode={','.join(sorted(modes))}"] if modes and seed % 2 else sorted(modes)
    texts += [f"maxStepDuration={gap_max}"] if gap_max else []
    operands = [Vector(LONG, np.array([time for _, time, _ in rows], np.int64))]
    operands += [Vector(BOOLEAN, np.array([flags[i] for _, _, flags in rows], np.bool_)) for i in range(num_steps)]
    fields = [Vector(STRING, pa.array([f"{i}" for i in range(len(rows))], pa.string()))] * 2
    groups = np.array([group for group, _, _ in rows], np.uint8)

    strict = [mode in modes for mode in MODES[:3]]
    rules = Rules(num_steps, window, gap_max, *strict)
    events: list[list[tuple[int, int, int]]] = [[] for _ in range(GROUPS)]
    for row, (group, time, flags) in enumerate(rows):
        step = next((i for i in range(num_steps) if flags[i]), -1)
        if step >= 0 or "KEEP_ALL" in modes:
            events[group].append((time, step, row))
    ordered = [sorted(group) for group in events]
    plain = [[(time, step) for time, step, _ in group] for group in ordered]
    furthest = [max((len(taken) for taken in walks(group, rules)), default=0) for group in plain]
    complete = [rounds(group, rules) for group in plain]

    def results(name: str, *more: str) -> tuple[list[Any], list[Any]]:
        evaluates = name == "funneleventsfunctioneval"
        aggregate = bind(name, num_steps, window, *more, *texts, fields=2 if evaluates else 0)
        given = [*operands, *(fields if evaluates else [])]
        whole_rows = rows_of(whole(aggregate, given, groups, GROUPS))
        return whole_rows, rows_of(divided(aggregate, given, groups, GROUPS, seed))

    flags = [[int(i < best) for i in range(num_steps)] for best in furthest]
    assert results("funnelmaxstep") == (furthest, furthest)
    assert results("funnelmatchstep") == (flags, flags)
    counts = [len(found) for found in complete]
    assert results("funnelcompletecount") == (counts, counts)
    functions = ["avg", "count", "median", "min", "max", "percentile75"]
    expected = [durations(group, walks(group, rules), rules, functions) for group in plain]
    for got in results("funnelstepdurationstats", f"durationFunctions={','.join(functions)}"):
        assert [pytest.approx(row) for row in expected] == got
    shown = []
    for group, found in zip(ordered, complete, strict=True):
        texts_of_walks = [f"{group[position][2]}" for taken in found for position in taken for _ in range(2)]
        header = ", ".join([str(len(found)), *[str(2 * num_steps)] * len(found)])
        shown.append([header, *texts_of_walks] if group else [])
    assert results("funneleventsfunctioneval")[0] == shown


def durations(events: list[tuple[int, int]], taken: list[list[int]], rules: Rules, functions: list[str]) -> list[float]:
    if not events:
        return []
    complete = [walk for walk in taken if len(walk) == rules.num_steps]
    furthest = max(map(len, taken), default=0)
    out: list[float] = []
    for step in range(rules.num_steps):
        last = step == rules.num_steps - 1
        values = sorted(events[w[step + 1]][0] - events[w[step]][0] for w in complete) if not last else []
        for function in functions:
            if function == "count":
                out.append(float(step < furthest))
            elif not values:
                out.append(0.0)
            elif function == "avg":
                out.append(sum(values) / len(values))
            else:
                share = {"min": 0, "median": 50, "max": 100, "percentile75": 75}[function]
                out.append(float(values[min(math.floor(len(values) * share / 100), len(values) - 1)]))
    return out


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.integers(0, GROUPS - 1),
            st.sampled_from(["", "a", "ab", "ü"]),
            st.sampled_from(["", "b", "a"]),
            st.lists(st.booleans(), min_size=3, max_size=3),
        ),
        max_size=40,
    ),
    st.booleans(),
    st.sampled_from([(), ("set",), ("bitmap=true",), ("partitioned", "sorted"), ("theta_sketch", "nominalEntries=4096")]),
    st.integers(0, 99),
)
def test_funnel_count(
    whole: Any, divided: Any, rows: list[Any], has_two_keys: bool, strategy: tuple[str, ...], seed: int
) -> None:
    keys = ["k1", "k2"] if has_two_keys else ["k1"]
    call = Call(
        "funnelcount",
        (
            Call("steps", (Column("c1"), Column("c2"), Column("c3"))),
            Call("correlateby", tuple(map(Column, keys))),
            Call("settings", tuple(map(literal, strategy))),
        ),
    )
    aggregate = bind_aggregate(call, [(BOOLEAN, False)] * 3 + [(STRING, False)] * len(keys))
    operands = [Vector(BOOLEAN, np.array([row[3][i] for row in rows], np.bool_)) for i in range(3)]
    operands += [Vector(STRING, pa.array([row[1 + i] for row in rows], pa.string())) for i in range(len(keys))]
    expected = []
    for group in range(GROUPS):
        found = {row[1 : 1 + len(keys)] for row in rows if row[0] == group}
        if strategy and strategy[0] == "theta_sketch" and not has_two_keys:
            found.discard(("",))  # sketches pass over an empty text
        counts = []
        for step in range(3):
            found &= {row[1 : 1 + len(keys)] for row in rows if row[0] == group and row[3][step]}
            counts.append(len(found))
        expected.append(counts)
    groups = np.array([row[0] for row in rows], np.uint8)
    assert rows_of(whole(aggregate, operands, groups, GROUPS)) == expected
    if "partitioned" not in strategy:
        assert rows_of(divided(aggregate, operands, groups, GROUPS, seed)) == expected


def test_partitioned_counts_are_added_up(divided: Any) -> None:
    call = Call(
        "funnelcount",
        (Call("steps", (Column("c"),)), Call("correlateby", (Column("k"),)), Call("settings", (literal("partitioned"),))),
    )
    aggregate = bind_aggregate(call, [(BOOLEAN, False), (INT, False)])
    operands = [Vector(BOOLEAN, np.ones(1000, np.bool_)), Vector(INT, np.arange(1000, dtype=np.int32))]
    assert rows_of(divided(aggregate, operands, None, 1, 1)) == [[1000]]


def test_times_at_the_limits_of_64_bits(whole: Any) -> None:
    times = Vector(LONG, np.array([-(2**63), 2**63 - 1], np.int64))
    steps = [Vector(BOOLEAN, np.array([True, False])), Vector(BOOLEAN, np.array([False, True]))]
    assert rows_of(whole(bind("funnelmaxstep", 2, 2**63 - 1), [times, *steps], None, 1)) == [1]
    assert rows_of(whole(bind("funnelmaxstep", 2, 5), [times, *steps], None, 1)) == [1]


def test_many_first_steps_take_no_quadratic_time(whole: Any) -> None:
    count = 1_000_000
    times = Vector(LONG, np.arange(count, dtype=np.int64))
    steps = [Vector(BOOLEAN, np.ones(count, np.bool_)), Scalar(False, BOOLEAN)]
    for texts in ((), ("STRICT_DEDUPLICATION",), ("STRICT_ORDER", "STRICT_INCREASE")):
        aggregate = bind("funnelcompletecount", 2, count, *texts)
        assert rows_of(whole(aggregate, [times, *steps], None, 1)) == [0]


def test_names_show_window_time_and_steps() -> None:
    call = Call(
        "funnelmaxstep", (Column("ts"), literal(1000), literal(2), Column("a"), Column("b"), literal("STRICT_ORDER"))
    )
    assert to_text(call) == "funnelmaxstep(1000)  (ts, a,b)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 1), "the arguments are"),
        ((0, 1, True), "the window must be a positive whole number"),
        ((10, 2, True), "the number of steps is 2"),
        ((10, 1, True, "STRICT_ORDERS"), "Did you mean 'STRICT_ORDER'"),
        ((10, 1, True, "x=1"), "unknown option"),
        ((10, 1, True, 7), "followed by texts"),
        ((10, 1, True, "maxStepDuration=0"), "positive whole number"),
        ((10, 1, True, "durationFunctions=avg"), "unknown option"),
    ],
)
def test_wrong_arguments_are_refused(bind_call: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(QueryError, match=message) as raised:
        bind_call("funnelmaxstep", [LONG], *arguments)
    assert raised.value.code is ErrorCode.QUERY_VALIDATION

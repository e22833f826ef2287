"""FUNNELMAXSTEP, FUNNELMATCHSTEP, FUNNELCOMPLETECOUNT, FUNNELSTEPDURATIONSTATS, FUNNELEVENTSFUNCTIONEVAL: steps in a window.

    FUNNELMAXSTEP(ts, window, n, step 1, …, step n [, 'STRICT_ORDER'] [, 'mode=KEEP_ALL,…'] [, 'maxStepDuration=n'])
    FUNNELEVENTSFUNCTIONEVAL(ts, window, n, step 1, …, step n, k, field 1, …, field k [, …])

A row is an event of the first step whose condition holds. A walk begins at an event of the first step, advances at each
event of its next step, and ends less than `window` after its start. FUNNELMAXSTEP is the number of steps of the longest
walk, FUNNELMATCHSTEP the same as n flags. FUNNELCOMPLETECOUNT counts the walks with all steps, no two of which share an
event.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.funnel.events import Events, decoded, encoded, merged, selected, together
from gamay.functions.aggregate.funnel.options import FunnelOptions, funnel_arguments, funnel_options, percentile_of
from gamay.functions.aggregate.totals.totals import mask_of
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds
from gamay.functions.convert import convert, to_vector
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.scalar.values import lists_vector
from gamay.functions.vector import Operand, Vector, take
from gamay.kernels.group.funnel import walk_funnels
from gamay.model.types import DataType


class FunnelState:
    """The events of one segment."""

    def __init__(self, num_groups: int, num_fields: int) -> None:
        self.num_groups = num_groups
        self.parts = [Events.none(num_groups, num_fields)]


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """The walks of ordered events. furthest: int32 [groups]; completed: int64 [groups]; matched: int64 [m, steps]."""

    events: Events
    starts: Array
    furthest: Array
    completed: Array
    matched: Array

    @property
    def matched_groups(self) -> Array:
        """The group of each complete walk: int64 [m], ascending."""
        return self.events.groups[self.matched[:, 0]]


def walks_of(events: Events, options: FunnelOptions, *, in_rounds: bool, matched: bool) -> Walks:
    """Find the walks in the events. in_rounds: complete walks share no event. matched: return the complete walks."""
    ordered, starts = events.ordered()
    furthest, completed = np.zeros(events.num_groups, np.int32), np.zeros(events.num_groups, np.int64)
    room = np.empty((int(np.count_nonzero(ordered.steps == 0)) if matched else 0, options.num_steps), np.int64)
    strict = np.array(options.strict)
    limits = (options.num_steps, options.window, options.gap_max)
    found = walk_funnels(ordered.times, ordered.steps, starts, *limits, strict, in_rounds, furthest, completed, room)
    return Walks(ordered, starts, furthest, completed, room[:found] if matched else room)


@dataclass(frozen=True, slots=True)
class WindowFunnel:
    """An aggregate of the events of each group; `result` computes its value from the events and options."""

    options: FunnelOptions
    result: Callable[[Events, FunnelOptions], Vector]
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> FunnelState:
        return FunnelState(num_groups, self.options.num_fields)

    def grow(self, state: FunnelState, num_groups: int) -> FunnelState:
        state.num_groups = num_groups
        return state

    def update(self, state: FunnelState, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        steps = np.full(num_rows, -1, np.int16)
        for i in reversed(self.traits.conditions):
            steps[mask_of(convert(args[i], DataType.BOOLEAN), num_rows)] = i - 1
        kept = np.arange(num_rows) if self.options.keeps_all else np.flatnonzero(steps >= 0)
        of_rows = np.zeros(len(kept), np.int64) if groups is None else groups[kept].astype(np.int64)
        times = to_vector(convert(args[0], DataType.LONG), num_rows).values[kept]
        texts = [to_vector(convert(arg, DataType.STRING), num_rows) for arg in args[1 + self.options.num_steps :]]
        fields = tuple(take(text.values, kept) for text in texts)
        state.parts.append(Events(of_rows, times, steps[kept], fields, state.num_groups))

    def combine(self, state: FunnelState, other: FunnelState) -> FunnelState:
        state.parts += other.parts
        return state

    def seal(self, state: FunnelState) -> Events:
        return together(state.parts, state.num_groups)

    def select(self, partial: Events, groups: Array) -> Events:
        return selected(partial, groups)

    def merge(self, partials: Sequence[Events], maps: Sequence[GroupIds], num_groups: int) -> Events:
        return merged(partials, maps, num_groups)

    def finish(self, partial: Events) -> Vector:
        return self.result(partial, self.options)

    def encode(self, partial: Events) -> list[pa.Array]:
        return encoded(partial)

    def decode(self, arrays: Sequence[pa.Array]) -> Events:
        return decoded(arrays)


# -- results


def _max_step(events: Events, options: FunnelOptions) -> Vector:
    return Vector(DataType.INT, walks_of(events, options, in_rounds=False, matched=False).furthest)


def _match_step(events: Events, options: FunnelOptions) -> Vector:
    furthest = walks_of(events, options, in_rounds=False, matched=False).furthest
    flags = np.arange(options.num_steps) < furthest[:, None]
    offsets = np.arange(events.num_groups + 1) * options.num_steps
    return Vector(DataType.INT, flags.ravel().astype(np.int32), offsets)


def _complete_count(events: Events, options: FunnelOptions) -> Vector:
    completed = walks_of(events, options, in_rounds=True, matched=False).completed
    return Vector(DataType.INT, np.minimum(completed, np.iinfo(np.int32).max).astype(np.int32))


def _duration_stats(events: Events, options: FunnelOptions) -> Vector:
    """Return each function of the time from each step to the next, over complete walks; see `FunnelOptions.functions`.

    COUNT is 1 if a walk has the step. The last step has only COUNT; other values without data are 0. Without a complete walk
    the array is empty, unless COUNT is requested and there are events.
    """
    walks = walks_of(events, options, in_rounds=False, matched=True)
    functions = options.functions
    table = np.zeros((events.num_groups, options.num_steps, len(functions)))
    times = walks.events.times[walks.matched]
    for step in range(options.num_steps - 1):
        durations = (times[:, step + 1] - times[:, step]).astype(np.float64)
        for i, function in enumerate(functions):
            if function != "COUNT":
                table[:, step, i] = _statistic(function, walks.matched_groups, durations, events.num_groups)
    for i, function in enumerate(functions):
        if function == "COUNT":
            table[:, :, i] = np.arange(options.num_steps) < walks.furthest[:, None]
    shown = np.diff(walks.starts) > 0 if "COUNT" in functions else walks.completed > 0
    offsets = np.concatenate([[0], np.cumsum(shown * (options.num_steps * len(functions)))])
    return Vector(DataType.DOUBLE, table[shown].ravel(), offsets)


def _statistic(function: str, groups: Array, values: Array, num_groups: int) -> Array:
    """Return a statistic of the values of each group, 0 for empty groups; groups (ascending): the group of each value."""
    counts = np.bincount(groups, minlength=num_groups)
    if function == "AVG":
        return np.asarray(np.bincount(groups, values, num_groups) / np.maximum(counts, 1))
    ordered = np.append(values[np.lexsort((values, groups))], 0.0)
    share = percentile_of(function) / 100
    # as PERCENTILE: the element at count * p / 100, rounded down, at most the last
    ranks = np.minimum(np.floor(counts * share).astype(np.int64), counts - 1)
    return np.where(counts > 0, ordered[np.cumsum(counts) - counts + np.maximum(ranks, 0)], 0.0)


def _events(events: Events, options: FunnelOptions) -> Vector:
    """Return the number of complete walks and of each one's fields, as `2, 4, 4`, then the fields of all, event by event."""
    walks = walks_of(events, options, in_rounds=True, matched=True)
    each = options.num_steps * options.num_fields
    columns = [take(field, walks.matched.ravel()).to_pylist() for field in walks.events.fields]
    texts = [text for row in zip(*columns, strict=True) for text in row]
    bounds = np.concatenate([[0], np.cumsum(walks.completed)])
    rows = []
    for group, has_events in enumerate((np.diff(walks.starts) > 0).tolist()):
        count = int(walks.completed[group])
        header = [", ".join([str(count), *[str(each)] * count])]
        rows.append(header + texts[bounds[group] * each : bounds[group + 1] * each] if has_events else [])
    return lists_vector(rows, DataType.STRING)


# -- binding

_RESULTS: dict[str, tuple[Callable[[Events, FunnelOptions], Vector], DataType, bool]] = {
    "funnelMaxStep": (_max_step, DataType.INT, False),
    "funnelMatchStep": (_match_step, DataType.INT, True),
    "funnelCompleteCount": (_complete_count, DataType.INT, False),
    "funnelStepDurationStats": (_duration_stats, DataType.DOUBLE, True),
    "funnelEventsFunctionEval": (_events, DataType.STRING, True),
}


def _binder(name: str) -> Callable[[Call, Sequence[ValueType]], WindowFunnel]:
    def bind(call: Call, arg_types: Sequence[ValueType]) -> WindowFunnel:
        options = funnel_options(name, call)
        for i, (data_type, multi_value) in enumerate(arg_types):
            if multi_value or data_type.is_binary:
                what = "the time" if i == 0 else f"step {i}" if i <= options.num_steps else "a field"
                shown = f"{data_type.value}{'_ARRAY' if multi_value else ''}"
                raise QueryError(ErrorCode.QUERY_VALIDATION, f"Aggregate '{name}': {what} cannot be {shown}")
        result, result_type, as_lists = _RESULTS[name]
        traits = AggregateTraits(
            result_type,
            ("funnel events", options.num_steps, options.keeps_all, options.num_fields),
            as_lists,
            conditions=range(1, 1 + options.num_steps),
            required_arguments=1 + options.num_steps,  # not the fields, which only describe an event
        )
        return WindowFunnel(options, result, traits)

    return bind


for _name in _RESULTS:
    register_aggregate([_name], _binder(_name), arguments=funnel_arguments)

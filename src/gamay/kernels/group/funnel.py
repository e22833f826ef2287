"""Walks through the events of funnels: how far each window gets, and which windows complete."""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def _first_beyond(places: Array, begin: int, end: int, position: int) -> int:
    """Return the first index in [begin, end) whose place lies beyond the position; `end` if none does."""
    while begin < end:
        middle = (begin + end) // 2
        if places[middle] > position:
            end = middle
        else:
            begin = middle + 1
    return begin


@kernel
def _first_later(places: Array, times: Array, begin: int, end: int, time: int) -> int:
    """Return the first index in [begin, end) whose event is later than the time; `end` if none is."""
    while begin < end:
        middle = (begin + end) // 2
        if times[places[middle]] > time:
            end = middle
        else:
            begin = middle + 1
    return begin


@kernel
def _order_by_step(steps: Array, first: int, last: int, num_steps: int, places: Array, bounds: Array) -> None:
    """List the places of the events of each step: those of step s are places[bounds[s]:bounds[s + 1]], ascending."""
    bounds[:] = 0
    for i in range(first, last):
        if steps[i] >= 0:
            bounds[np.int64(steps[i]) + 1] += 1
    bounds[0] = first
    for step in range(num_steps):
        bounds[step + 1] += bounds[step]
    for step in range(num_steps - 1, -1, -1):
        bounds[step + 1] = bounds[step]  # while the lists are filled, bounds[s + 1] is where the next of step s goes
    for i in range(first, last):
        if steps[i] >= 0:
            following = np.int64(steps[i]) + 1
            places[bounds[following]] = i
            bounds[following] += 1


@kernel
def _run_end(times: Array, begin: int, last: int, gap_max: int) -> int:
    """Return the first position behind `begin` that lies behind a gap of more than `gap_max`; `last` if none does."""
    if gap_max == 0:
        return last
    end = begin + 1
    while end < last and np.uint64(times[end]) - np.uint64(times[end - 1]) <= np.uint64(gap_max):
        end += 1
    return end


@kernel
def walk_funnels(
    times: Array,
    steps: Array,
    starts: Array,
    num_steps: int,
    window: int,
    gap_max: int,
    strict: Array,
    in_rounds: bool,
    furthest: Array,
    completed: Array,
    matched: Array,
) -> int:
    """Walk from every event of step 0 to events of the steps 1, 2, …, each as soon as it comes.

    times: int64 [n] and steps: int16 [n], events of group g at [starts[g], starts[g + 1]) ascending by time, then step; step
    -1 is an event of no step. A walk reaches events less than `window` after its first one, and none behind a gap of more
    than `gap_max` between neighbours (0: any gap). strict: bool [3], deduplication, order, increase: a walk ends at
    an event of the step that it is at; at any event but the next step's; it passes over events of the same time. in_rounds:
    after a complete walk the next one begins behind it, else at the next event of step 0.

    furthest: int32 [groups], gets the most steps of a walk. completed: int64 [groups], gets how many walks have all.
    matched: int64 [m, num_steps], gets the events of complete walks, m at least their number, or 0 where nobody asks.
    """
    places = np.empty(len(times), np.int64)
    bounds = np.empty(num_steps + 1, np.int64)
    walk = np.empty(num_steps, np.int64)
    found = 0
    for group in range(len(starts) - 1):
        first, last = starts[group], starts[group + 1]
        _order_by_step(steps, first, last, num_steps, places, bounds)
        best, count, behind, run_end = 0, 0, first, first
        for index in range(bounds[0], bounds[1]):
            begin = places[index]
            if begin < behind:
                continue
            if run_end <= begin:
                run_end = _run_end(times, begin, last, gap_max)
            level, position = 1, begin
            walk[0] = begin
            while level < num_steps:
                low = _first_beyond(places, bounds[level], bounds[level + 1], position)
                high = low
                if strict[2]:
                    high = _first_later(places, times, low, bounds[level + 1], times[position])
                if high == bounds[level + 1]:
                    break
                event = places[high]
                if event >= run_end or np.uint64(times[event]) - np.uint64(times[begin]) >= np.uint64(window):
                    break
                if strict[0]:
                    again = _first_beyond(places, bounds[level - 1], bounds[level], position)
                    if again < bounds[level] and places[again] < event:
                        break
                if strict[1] and event - position - 1 != high - low:
                    break
                walk[level] = event
                position = event
                level += 1
            best = max(best, level)
            if level == num_steps:
                if len(matched):
                    matched[found] = walk
                found += 1
                count += 1
                if in_rounds:
                    behind = position + 1
        furthest[group] = best
        completed[group] = count
    return found

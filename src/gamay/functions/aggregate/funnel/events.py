"""The events of funnels: rows that take a step, or with KEEP_ALL all rows; kept until those of a group are complete."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate_spi import GroupIds
from gamay.functions.convert import array_of
from gamay.functions.vector import Values, concat, take
from gamay.model.types import DataType


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Events in order of arrival.

    groups: int64 [n]; times: int64 [n]; steps: int16 [n], -1 for rows without a step; fields: texts, Arrow [n] each.
    """

    groups: Array
    times: Array
    steps: Array
    fields: tuple[Values, ...]
    num_groups: int

    @staticmethod
    def none(num_groups: int, num_fields: int) -> "Events":
        fields = tuple(array_of([], DataType.STRING) for _ in range(num_fields))
        return Events(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int16), fields, num_groups)

    def at(self, places: Array) -> "Events":
        """Return the events at the given positions."""
        fields = tuple(take(field, places) for field in self.fields)
        return Events(self.groups[places], self.times[places], self.steps[places], fields, self.num_groups)

    def moved(self, groups: Array) -> "Events":
        """Return the events with group g renumbered to groups[g]; those renumbered to -1 are dropped."""
        moved = groups.astype(np.int64)[self.groups]
        kept = self.at(np.flatnonzero(moved >= 0)) if len(moved) and moved.min() < 0 else self
        return Events(moved[moved >= 0], kept.times, kept.steps, kept.fields, self.num_groups)

    def ordered(self) -> tuple["Events", Array]:
        """Return the events sorted by group, time and step, and the start of each group: int64 [num_groups + 1]."""
        starts = np.zeros(self.num_groups + 1, np.int64)
        np.cumsum(np.bincount(self.groups, minlength=self.num_groups), out=starts[1:])
        return self.at(np.lexsort((self.steps, self.times, self.groups))), starts


def together(parts: Sequence[Events], num_groups: int) -> Events:
    """Return the events of one or more parts."""
    if len(parts) == 1:
        part = parts[0]
        return Events(part.groups, part.times, part.steps, part.fields, num_groups)
    groups, times, steps = (np.concatenate([getattr(part, name) for part in parts]) for name in ("groups", "times", "steps"))
    fields = tuple(concat(columns) for columns in zip(*(part.fields for part in parts), strict=True))
    return Events(groups, times, steps, fields, num_groups)


def merged(partials: Sequence[Events], maps: Sequence[GroupIds], num_groups: int) -> Events:
    """Return all events: those of group i of partials[k] belong to group maps[k][i]."""
    return together([part.moved(groups) for part, groups in zip(partials, maps, strict=True)], num_groups)


def selected(events: Events, groups: Array) -> Events:
    """Return the events of these groups only, renumbered."""
    places = np.full(events.num_groups, -1, np.int64)
    places[groups] = np.arange(len(groups))
    return together([events.moved(places)], len(groups))


def encoded(events: Events) -> list[pa.Array]:
    """Return times, steps and fields as one list for each group."""
    ordered, starts = events.ordered()
    columns = [pa.array(ordered.times), pa.array(ordered.steps), *ordered.fields]
    return [pa.LargeListArray.from_arrays(pa.array(starts), column) for column in columns]


def decoded(arrays: Sequence[pa.Array]) -> Events:
    """Invert `encoded`."""
    groups = np.repeat(np.arange(len(arrays[0])), np.diff(arrays[0].offsets.to_numpy()))
    times, steps, *fields = (array.flatten() for array in arrays)
    return Events(groups, times.to_numpy(), steps.to_numpy(), tuple(fields), len(arrays[0]))

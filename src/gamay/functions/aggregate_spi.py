"""The interface of aggregate functions: five verbs over batches, named after what passes between the stages of a query.

request   the call as written: `percentile(x, 95)`
bound     an `Aggregate` made for that call and the types of its arguments
state     running totals of one segment, as cheap to update as possible; may hold dictionary ids
partial   the state in terms of values, one entry for each group; mergeable in any order, serialisable
result    one value for each group
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from gamay.functions.vector import Operand, Vector
from gamay.model.types import DataType

GroupIds: TypeAlias = np.ndarray[Any, np.dtype[Any]]
State: TypeAlias = Any
Partial: TypeAlias = Any  # the aggregate's own type, with one entry for each group
Sent: TypeAlias = Any  # np.ndarray of a fixed width, which is cheapest to send, or pa.Array for other types


@dataclass(frozen=True, slots=True)
class AggregateTraits:
    """Facts about a bound aggregate that the planner needs.

    result_type: of what `finish` returns. result_is_multi_value: whether that is lists.
    state_kind: aggregates of equal kinds over equal arguments share a state, and read each other's partials if they are
    of one class; None for one that shares with no other.
    is_bounded: the state of a group does not grow with its rows.
    is_of_distinct_values: repeated values do not change the result, so a dictionary can stand for the rows.
    adds_up_segments: the result is a sum over segments, so their rows must not be aggregated together.
    conditions: the positions of arguments that are conditions; a row in which one is unknown may count for another.
    required_arguments: the number of leading arguments that must not be null, where nulls are handled; None for all. The
    others provide the stored placeholder of a null.
    of_groups: the aggregate that replaces this one in a query with GROUP BY, None if it is the same.
    """

    result_type: DataType
    state_kind: Hashable = None
    result_is_multi_value: bool = False
    is_bounded: bool = False
    is_of_distinct_values: bool = False
    adds_up_segments: bool = False
    conditions: range = range(0)
    required_arguments: int | None = None
    of_groups: "Aggregate | None" = None


class Aggregate(Protocol):
    """A bound aggregate function. Instances are immutable and shared between threads; states are not.

    `groups` is uint8, uint16, uint32 or int32 [n] with values in [0, num_groups), or None when every row belongs to group 0.
    """

    @property
    def traits(self) -> AggregateTraits: ...

    def allocate(self, num_groups: int) -> State:
        """Return an empty state."""
        ...

    def grow(self, state: State, num_groups: int) -> State:
        """Return the state extended to more groups; the old object must not be used again."""
        ...

    def update(self, state: State, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        """Add a batch of rows. Encoded arguments at one position of one state always share one dictionary."""
        ...

    def combine(self, state: State, other: State) -> State:
        """Add a state over the same groups and the same dictionaries (another thread's part of the segment)."""
        ...

    def seal(self, state: State) -> Partial:
        """Return the partial of a finished state."""
        ...

    def select(self, partial: Partial, groups: "np.ndarray[Any, np.dtype[np.int64]]") -> Partial:
        """Return the partial restricted to these groups, in this order."""
        ...

    def merge(self, partials: Sequence[Partial], maps: Sequence[GroupIds], num_groups: int) -> Partial:
        """Merge: entry i of partials[k] goes to group maps[k][i] (int32); groups that nothing maps to are empty."""
        ...

    def finish(self, partial: Partial) -> Vector:
        """Return the result of each group."""
        ...

    def encode(self, partial: Partial) -> list[Sent]:
        """Return the partial as arrays with an entry for each group, to be sent."""
        ...

    def decode(self, arrays: Sequence[Sent]) -> Partial:
        """Invert `encode`; each array is of the kind that it returned."""
        ...


class KeepsState:
    """Base of aggregates of one argument whose state itself knows how to grow, update and combine."""

    __slots__ = ()

    def grow(self, state: State, num_groups: int) -> State:
        state.grow(num_groups)
        return state

    def update(self, state: State, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        state.update(groups, args[0], num_rows)

    def combine(self, state: State, other: State) -> State:
        state.combine(other)
        return state

"""How many rows joins, windows and groups above the leaves may have, and what became of those that have more."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base.errors import ErrorCode, QueryError
from gamay.sql.options.option_values import flag

JOIN, WINDOW, GROUPS = "join", "window", "groups"

_TEXTS = {
    JOIN: "Cannot process join, reached number of rows limit: {}. Raise the option maxRowsInJoin, filter more, "
    "or leave the rows out that are too many with joinOverflowMode = 'BREAK'",
    WINDOW: "Cannot process window function, reached number of rows limit: {}. Raise the option maxRowsInWindow, "
    "filter more, or leave the rows out that are too many with windowOverflowMode = 'BREAK'",
    GROUPS: "NUM_GROUPS_LIMIT has been reached: {} groups. Raise the option numGroupsLimit",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A number of rows. breaks: those that are too many are left out, else they are an error."""

    most: int
    breaks: bool


Bounds: TypeAlias = Mapping[str, Bound]
"""Bounds by what they are of; what has none may have any number of rows."""


NO_BOUNDS: Bounds = {}


def bounds_of(options: Mapping[str, str]) -> dict[str, Bound]:
    """Return the bounds that the options of a query set."""
    found: dict[str, Bound] = {}
    for kind, option, mode in (
        (JOIN, "maxRowsInJoin", "joinOverflowMode"),
        (WINDOW, "maxRowsInWindow", "windowOverflowMode"),
    ):
        if option in options:
            found[kind] = Bound(int(options[option]), options.get(mode, "").strip().upper() == "BREAK")
    if "numGroupsLimit" in options:
        found[GROUPS] = Bound(int(options["numGroupsLimit"]), not flag(options, "errorOnNumGroupsLimit"))
    return found


class Watch:
    """Enforcer of bounds on numbered rows. reached: the kinds of which rows were left out. exceeded: the error raised."""

    def __init__(self) -> None:
        self.reached: set[str] = set()
        self.exceeded: QueryError | None = None

    def kept(self, kind: str, bound: Bound, numbers: pa.Array) -> pa.Array:
        """Return for rows, numbered from 1, whether they are within a bound. Raises QueryError."""
        within = np.asarray(numbers) <= bound.most
        if not within.all():
            if not bound.breaks:
                self.exceeded = QueryError(ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED, _TEXTS[kind].format(bound.most))
                raise self.exceeded
            self.reached.add(kind)
        return pa.array(within)

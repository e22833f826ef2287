"""Limits on the rows of joins, windows and groups above the leaves, and their enforcement."""

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
    "or drop the excess rows with joinOverflowMode = 'BREAK'",
    WINDOW: "Cannot process window function, reached number of rows limit: {}. Raise the option maxRowsInWindow, "
    "filter more, or drop the excess rows with windowOverflowMode = 'BREAK'",
    GROUPS: "NUM_GROUPS_LIMIT has been reached: {} groups. Raise the option numGroupsLimit",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit on rows. breaks: excess rows are dropped, otherwise they are an error."""

    most: int
    breaks: bool


Bounds: TypeAlias = Mapping[str, Bound]
"""Limits by kind; kinds without one are unlimited."""


NO_BOUNDS: Bounds = {}


def bounds_of(options: Mapping[str, str]) -> dict[str, Bound]:
    """Return the limits that the options of a query set."""
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
    """Enforcer of limits on numbered rows. reached: the kinds whose rows were dropped. exceeded: the error raised."""

    def __init__(self) -> None:
        self.reached: set[str] = set()
        self.exceeded: QueryError | None = None

    def kept(self, kind: str, bound: Bound, numbers: pa.Array) -> pa.Array:
        """Return for rows, numbered from 1, whether they are within a limit. Raises QueryError."""
        within = np.asarray(numbers) <= bound.most
        if not within.all():
            if not bound.breaks:
                self.exceeded = QueryError(ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED, _TEXTS[kind].format(bound.most))
                raise self.exceeded
            self.reached.add(kind)
        return pa.array(within)

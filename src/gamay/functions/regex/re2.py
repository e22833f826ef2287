"""RE2, in Arrow, over columns of texts: in steps, between which the query may end.

RE2 takes a few nanoseconds for a character as long as its automaton stays small. Where that grows beyond what RE2 keeps,
it takes a time for each character that grows with the pattern, and nothing can stop it within a text.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.compute as pc

from gamay.base import guard
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.vector import Values, concat

WORK_MAX = 1_000_000_000
"""The most that the length of a text, in bytes, and that of its pattern may multiply to: 7 s, where RE2 is at its worst."""
_STEP_WORK = 30_000_000
_WORST_S = 7e-9  # measured: `(?:a?a?…a?)b` against a text of a alone


def found(texts: Values, pattern: str, *, ignore_case: bool = False) -> Any:
    """Tell which texts contain a match of a pattern that RE2 knows: bool [n]. Raises QueryError as `in_steps`."""
    return in_steps(
        texts, pattern, lambda step: np.asarray(pc.match_substring_regex(step, pattern, ignore_case=ignore_case))
    )


def in_steps(texts: Values, pattern: str, function: Callable[[Values], Values]) -> Values:
    """Return what a function of Arrow that runs `pattern` makes of a column of texts, in its order.

    Raises QueryError when the query ends meanwhile, and 150 for a text that may take longer than anybody should wait.
    """
    length = max(len(pattern), 1)
    work = texts.nbytes * length
    if work <= _STEP_WORK:
        return function(texts)
    ends = np.cumsum(pc.fill_null(pc.binary_length(texts), 0), dtype=np.int64)
    longest = int(np.diff(ends, prepend=0).max(initial=0))
    if longest * length > WORK_MAX:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"A pattern of {length:,} characters may take too long on a text of {longest:,} bytes; at most "
            f"{WORK_MAX // longest:,} characters go with it",
        )
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(0, total, _STEP_WORK // length + 1), side="right")
    bounds = np.unique([0, *cuts, len(texts)])
    parts = []
    for begin, end in pairwise(bounds):
        guard.uninterrupted(max(longest * length, _STEP_WORK) * _WORST_S)
        parts.append(function(texts[begin:end]))
    return concat(parts) if parts else function(texts)

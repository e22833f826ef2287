"""RE2, in Arrow, over columns of texts: in steps, between which the query may be aborted.

RE2 takes a few nanoseconds per character while its automaton stays small. Once that exceeds RE2's cache, the time per
character grows with the pattern, and matching cannot be interrupted within a text.
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
"""The maximum product of the lengths of a text, in bytes, and of its pattern: 7 s in RE2's worst case."""
_STEP_WORK = 30_000_000
_WORST_S = 7e-9  # measured: `(?:a?a?…a?)b` against a text of `a` only


def found(texts: Values, pattern: str, *, ignore_case: bool = False) -> Any:
    """Return which texts contain a match of a pattern in RE2's syntax: bool [n]. Raises QueryError as `in_steps`."""
    return in_steps(
        texts, pattern, lambda step: np.asarray(pc.match_substring_regex(step, pattern, ignore_case=ignore_case))
    )


def in_steps(texts: Values, pattern: str, function: Callable[[Values], Values]) -> Values:
    """Apply an Arrow function that runs `pattern` to a column of texts, in steps.

    Raises QueryError if the query ends meanwhile, and 150 for a text that may take too long.
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
            f"{WORK_MAX // longest:,} characters are allowed for it",
        )
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(0, total, _STEP_WORK // length + 1), side="right")
    bounds = np.unique([0, *cuts, len(texts)])
    parts = []
    for begin, end in pairwise(bounds):
        guard.uninterrupted(max(longest * length, _STEP_WORK) * _WORST_S)
        parts.append(function(texts[begin:end]))
    return concat(parts) if parts else function(texts)

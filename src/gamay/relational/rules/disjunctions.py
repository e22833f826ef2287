"""Consequences of an OR: conditions common to all its branches, and what they imply for some columns alone.

`(k = f AND x = 1 AND y = 2) OR (k = f AND x = 3 AND y = 4)` equals `k = f AND (x = 1 AND y = 2 OR x = 3 AND y = 4)`, and
implies `x = 1 OR x = 3`, which filters the table of x before the join.
"""

from collections.abc import Sequence, Set

from gamay.functions.expression import Call, Expression
from gamay.relational.plan import ids_in


def conjuncts(condition: Expression) -> list[Expression]:
    """Split a condition into equivalent conjuncts, factoring out the ones common to all branches of an OR."""
    if isinstance(condition, Call) and condition.name == "and":
        return [part for arg in condition.args for part in conjuncts(arg)]
    if not _is_or(condition):
        return [condition]
    branches = _branches(condition)
    shared = [each for each in branches[0] if all(each in other for other in branches[1:])]
    if not shared:
        return [condition]
    rests = [[each for each in branch if each not in shared] for branch in branches]
    return [*shared, _any(rests)] if all(rests) else shared


def implied(condition: Expression, ids: Set[str]) -> Expression | None:
    """Return what a condition implies for some columns alone; None if nothing."""
    if not _is_or(condition):
        return None
    branches = [[each for each in branch if ids_in(each) <= ids] for branch in _branches(condition)]
    return _any(branches) if all(branches) else None


def _is_or(condition: Expression) -> bool:
    return isinstance(condition, Call) and condition.name == "or"


def _branches(condition: Expression) -> list[list[Expression]]:
    if isinstance(condition, Call) and condition.name == "or":
        return [branch for arg in condition.args for branch in _branches(arg)]
    return [list(dict.fromkeys(conjuncts(condition)))]


def _any(branches: Sequence[Sequence[Expression]]) -> Expression:
    distinct = dict.fromkeys(each[0] if len(each) == 1 else Call("and", tuple(each)) for each in branches)
    return Call("or", tuple(distinct)) if len(distinct) > 1 else next(iter(distinct))

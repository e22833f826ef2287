"""GROUP BY: its keys, and the grouping sets of GROUPING SETS, ROLLUP and CUBE.

| written                         | sets                       |
| ------------------------------- | -------------------------- |
| `ROLLUP (a, b)`                 | (a, b), (a), ()            |
| `CUBE (a, b)`                   | (a, b), (a), (b), ()       |
| `GROUPING SETS ((a, b), b, ())` | (a, b), (b), ()            |
| `a, ROLLUP (b)`                 | (a, b), (a): cross product |
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeAlias

from sqlglot import exp

from gamay.functions.expression import Expression
from gamay.sql.text.errors import syntax_error
from gamay.sql.translate.expressions import position_of

SETS_MAX = 4096

_Set: TypeAlias = tuple[int, ...]
_Translate: TypeAlias = Callable[[exp.Expr], Expression]


def grouping(text: str, translate: _Translate, group: exp.Expr) -> tuple[tuple[Expression, ...], tuple[_Set, ...] | None]:
    """Return the keys in the order written, and the sets as positions among them; None for a plain GROUP BY.

    translate: makes the expression of a key. Raises QueryError for more than `SETS_MAX` sets.
    """
    if group.args.get("all") is not None:
        raise syntax_error(text, position_of(group), "GROUP BY ALL is not supported; name the keys")
    for suffix in ("grouping_sets", "rollup", "cube", "totals"):
        if group.args.get(suffix):
            raise syntax_error(text, position_of(group), "separate GROUPING SETS, ROLLUP and CUBE from keys by commas")
    return _Grouping(text, translate).read(group)


class _Grouping:
    def __init__(self, text: str, translate: _Translate) -> None:
        self._text = text
        self._translate = translate
        self._keys: list[Expression] = []

    def read(self, group: exp.Expr) -> tuple[tuple[Expression, ...], tuple[_Set, ...] | None]:
        has_sets = False
        sets: list[list[int]] = [[]]
        for element in group.expressions:
            has_sets |= isinstance(element, exp.GroupingSets | exp.Rollup | exp.Cube)
            parts = self._sets(element)
            self._check_number(element, len(sets) * len(parts))
            if len(parts) == 1:
                for one in sets:
                    one += parts[0]
            else:
                sets = [[*one, *other] for one in sets for other in parts]
        return tuple(self._keys), tuple(map(tuple, sets)) if has_sets else None

    def _sets(self, element: exp.Expr) -> list[_Set]:
        """Return the grouping sets of an element of GROUP BY."""
        if isinstance(element, exp.GroupingSets):
            sets = [one for part in element.expressions for one in self._sets(part)]
            self._check_number(element, len(sets))
            return sets
        if not isinstance(element, exp.Rollup | exp.Cube):
            return [self._composite(element)]
        members = element.expressions
        if not members:
            raise syntax_error(self._text, position_of(element), "ROLLUP and CUBE take a list of expressions")
        if isinstance(element, exp.Rollup):
            self._check_number(element, len(members) + 1)
            listed = [self._composite(member) for member in members]
            return [_joined(listed[:size]) for size in range(len(listed), -1, -1)]
        self._check_number(element, 1 << min(len(members), 32))
        listed = [self._composite(member) for member in members]
        return [_joined(chosen) for size in range(len(listed), -1, -1) for chosen in combinations(listed, size)]

    def _composite(self, member: exp.Expr) -> _Set:
        """Return the positions of the keys of `(a, b)`, or of a single expression."""
        parts = member.expressions if isinstance(member, exp.Tuple) else [member]
        positions = []
        for part in parts:
            positions.append(len(self._keys))
            self._keys.append(self._translate(part))
        return tuple(positions)

    def _check_number(self, element: exp.Expr, number: int) -> None:
        if number > SETS_MAX:
            message = f"GROUP BY has more than {SETS_MAX} grouping sets; use fewer expressions in CUBE and ROLLUP"
            raise syntax_error(self._text, position_of(element), message)


def _joined(parts: Sequence[_Set]) -> _Set:
    return tuple(position for part in parts for position in part)

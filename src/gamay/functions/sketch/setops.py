"""Post-aggregation of theta sketches, `SET_INTERSECT($1, SET_DIFF($2, $3))`, which is a text argument.

`$0` is the sketch of all rows, `$1` that of the rows that pass the first filter, and so on.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gamay.functions.sketch.entries import Entries, difference, intersection, union

_TOKEN = re.compile(r"\s*([A-Za-z_]+|\$\d+|[(),])")
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Operation:
    """A set operation: setunion, setintersect (of two or more) or setdiff (of two)."""

    name: str
    args: tuple["SetExpression", ...]


SetExpression: TypeAlias = int | Operation


def parse_set_expression(text: str, num_filters: int) -> SetExpression:
    """Parse a post-aggregation; raises ValueError that says what is wrong."""
    tokens: list[str] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"'{text[position:].strip()}' is neither a function nor a sketch like $1")
        tokens.append(match[1])
        position = match.end()
    expression, rest = _expression(tokens, num_filters, _DEEPEST)
    if rest:
        raise ValueError(f"the end is expected before '{rest[0]}'")
    return expression


def _expression(tokens: list[str], num_filters: int, depth: int) -> tuple[SetExpression, list[str]]:
    if not tokens or depth == 0:
        raise ValueError("it ends too early" if depth else "it is nested too deeply")
    head, rest = tokens[0], tokens[1:]
    if head.startswith("$"):
        if int(head[1:]) > num_filters:
            raise ValueError(f"there is no filter {head[1:]} for {head}")
        return int(head[1:]), rest
    name = head.replace("_", "").lower()
    if name not in ("setunion", "setintersect", "setdiff"):
        raise ValueError(f"'{head}' is not SET_UNION, SET_INTERSECT or SET_DIFF")
    if rest[:1] != ["("]:
        raise ValueError(f"'(' is missing after {head}")
    args: list[SetExpression] = []
    while not args or rest[:1] == [","]:
        arg, rest = _expression(rest[1:], num_filters, depth - 1)
        args.append(arg)
    if rest[:1] != [")"]:
        raise ValueError(f"')' is missing after the arguments of {head}")
    if len(args) < 2 or (name == "setdiff" and len(args) > 2):
        raise ValueError(f"{head} takes {'two' if name == 'setdiff' else 'at least two'} sketches, not {len(args)}")
    return Operation(name, tuple(args)), rest[1:]


def uses(expression: SetExpression, number: int) -> bool:
    """Whether the expression uses the sketch of this number."""
    if isinstance(expression, Operation):
        return any(uses(arg, number) for arg in expression.args)
    return expression == number


def evaluate_sets(expression: SetExpression, sketches: Sequence[Entries], k: int) -> Entries:
    """Evaluate a set expression on numbered sketches."""
    if not isinstance(expression, Operation):
        return sketches[expression]
    args = [evaluate_sets(arg, sketches, k) for arg in expression.args]
    if expression.name == "setunion":
        return union(args, k)
    return intersection(args) if expression.name == "setintersect" else difference(args[0], args[1])

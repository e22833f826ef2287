"""Literals lifted out of a query's text, and the places in a compiled query where they go.

Two queries that differ in their literals only share a template: the text with its literals cut out, and which of the
literals are equal. Equal literals share a slot, so that `SELECT a + 1 … GROUP BY a + 1` and `… GROUP BY a + 2` are two.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import itemgetter
from typing import TypeAlias

from gamay.functions.expression import Call, Expression, Literal
from gamay.model.types import DataType
from gamay.sql.lexer import COMMENT, NUMBER, QUOTED, STRING, unquote

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_DIGITS_MAX = 100  # Python refuses to read integers of thousands of digits
_MANY = 32
_CUT = re.compile(rf"({COMMENT}|{STRING}|{QUOTED}|{NUMBER})")


@dataclass(frozen=True, slots=True)
class Slot(Literal):
    """A literal of the text being compiled: a Literal like any other, which also knows its number."""

    index: int = -1
    negated: bool = False

    @property
    def is_number(self) -> bool:
        return self.type.is_numeric

    def negative(self) -> "Slot":
        """Return the slot that holds this number negated."""
        number = Literal(self.value, self.type)
        return Slot(negate(number).value, negate(number).type, self.index, not self.negated)

    def plain(self) -> Literal:
        return Literal(self.value, self.type)


def negate(literal: Literal) -> Literal:
    """Return the constant -x; -9223372036854775808 is a LONG though its digits alone are none."""
    value = literal.value
    if not isinstance(value, int | float | Decimal):
        return literal
    if isinstance(value, Decimal) and value == _LONG_MAX + 1:
        return Literal(-int(value), DataType.LONG)
    if isinstance(value, int) and value == -_LONG_MAX - 1:
        return Literal(Decimal(-value), DataType.BIG_DECIMAL)
    return Literal(-value, literal.type)


@dataclass(frozen=True, slots=True)
class Lifted:
    """A text without its literals.

    key: the text with a mark for each literal. sources: the distinct literals as written. pattern: for each literal of the
    text its number in `sources`; None when all differ.
    """

    key: str
    sources: tuple[str, ...]
    pattern: tuple[int, ...] | None

    def slots(self) -> list[Slot]:
        """Return the slot of each literal of the text, in order."""
        literals = [to_literal(source) for source in self.sources]
        numbers = range(len(literals)) if self.pattern is None else self.pattern
        return [Slot(literals[i].value, literals[i].type, i) for i in numbers]


def lift_literals(text: str) -> Lifted:
    """Cut the literals out of a text in one pass; comments and quoted names stay."""
    parts = _CUT.split(text)
    seen: dict[str, int] = {}
    pattern: list[int] = []
    for i in range(1, len(parts), 2):
        source = parts[i]
        first = source[0]
        if first == "'":
            parts[i] = "\0s"
        elif first in "0123456789.":
            parts[i] = "\0n"
        else:
            continue
        pattern.append(seen.setdefault(source, len(seen)))
    return Lifted("".join(parts), tuple(seen), None if len(seen) == len(pattern) else tuple(pattern))


def to_literal(source: str) -> Literal:
    """Return the constant that a literal's text stands for.

    Whole numbers are INT, LONG, or BIG_DECIMAL when 64 bits do not hold them (which the compiler refuses); numbers with a
    point or an exponent are DOUBLE.
    """
    if source[0] == "'":
        return Literal(unquote(source), DataType.STRING)
    if source.isdigit():
        number = Decimal(source) if len(source) > _DIGITS_MAX else int(source)
        if number <= _INT_MAX:
            return Literal(int(number), DataType.INT)
        if number <= _LONG_MAX:
            return Literal(int(number), DataType.LONG)
        return Literal(Decimal(number), DataType.BIG_DECIMAL)
    return Literal(float(source), DataType.DOUBLE)


Filler: TypeAlias = Callable[[Sequence[Literal]], Expression]


def filler(expression: Expression) -> Filler | None:
    """Return the function that puts literals, by number, into an expression; None when there is no slot in it."""
    if isinstance(expression, Slot):
        index = expression.index
        if expression.negated:
            return lambda literals: negate(literals[index])
        return lambda literals: literals[index]
    if not isinstance(expression, Call):
        return None
    name, args = expression.name, expression.args
    if len(args) > _MANY and all(isinstance(arg, Slot) and not arg.negated for arg in args[1:]):
        return _list_filler(name, args)
    fillers = [filler(arg) for arg in args]
    if all(fill is None for fill in fillers):
        return None
    if len(args) == 2 and fillers[0] is None and fillers[1] is not None:
        left, right = args[0], fillers[1]
        return lambda literals: Call(name, (left, right(literals)))
    pairs = list(zip(args, fillers, strict=True))
    return lambda literals: Call(name, tuple([arg if fill is None else fill(literals) for arg, fill in pairs]))


def _list_filler(name: str, args: tuple[Expression, ...]) -> Filler:
    """Fill `x IN (…)` with many literals."""
    first, fill = args[0], filler(args[0])
    pick = itemgetter(*(arg.index for arg in args[1:] if isinstance(arg, Slot)))
    return lambda literals: Call(name, (first if fill is None else fill(literals), *pick(literals)))


def refilled(expression: Expression, literals: Sequence[Literal]) -> Expression:
    """Return the expression with the values of other literals in its slots."""
    if isinstance(expression, Slot):
        literal = literals[expression.index]
        return Slot(literal.value, literal.type, expression.index)
    if isinstance(expression, Call):
        return Call(expression.name, tuple(refilled(arg, literals) for arg in expression.args))
    return expression


def without_slots(expression: Expression) -> Expression:
    """Return the expression with plain literals in place of slots."""
    if isinstance(expression, Slot):
        return expression.plain()
    if isinstance(expression, Call):
        return replace(expression, args=tuple(without_slots(arg) for arg in expression.args))
    return expression

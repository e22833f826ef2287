"""Literals lifted out of a query's text, and the slots in a compiled query that they fill.

Queries that differ only in their literals share a template: the text without its literals, and the pattern of equal
literals. Equal literals share a slot, so `SELECT a + 1 … GROUP BY a + 1` and `… GROUP BY a + 2` are different templates.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TypeAlias, TypeVar

from gamay.functions.expression import Call, Expression, Literal
from gamay.model.types import DataType
from gamay.sql.text import reading_time
from gamay.sql.text.lexer import COMMENT, IN_LIST, IN_LISTS_FROM, NUMBER, NUMBER_BY_START, QUOTED, STRING, WORD_CHAR, unquote

_T = TypeVar("_T")
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_MADE_AT_ONCE = 20_000
_DIGITS_MAX = 100  # Python refuses to parse integers of thousands of digits
_CUT = re.compile(rf"({COMMENT}|{STRING}|{QUOTED}|{NUMBER_BY_START})")
_CUT_LISTS = re.compile(rf"({COMMENT}|{STRING}|{QUOTED}|{NUMBER}|{IN_LIST})")
_ENDS_WORD = re.compile(rf"{WORD_CHAR}\Z")
_LISTED = re.compile(rf"(-?)\s*({STRING}|{NUMBER})")


@dataclass(frozen=True, slots=True)
class Slot(Literal):
    """A literal of the text being compiled: a Literal that also has an index."""

    index: int = -1
    negated: bool = False

    @property
    def is_number(self) -> bool:
        return self.type.is_numeric

    def negative(self) -> "Slot":
        """Return the slot of this number negated."""
        number = Literal(self.value, self.type)
        return Slot(negate(number).value, negate(number).type, self.index, not self.negated)

    def plain(self) -> Literal:
        return Literal(self.value, self.type)


@dataclass(frozen=True, slots=True)
class LiteralList(Slot):
    """The constants of a long IN (…), which are one literal of the text; `filler` expands the members.

    type: BIG_DECIMAL if a member is an integer beyond 64 bits.
    """

    members: tuple[Literal, ...] = ()


@dataclass(frozen=True, slots=True)
class Computed(Literal):
    """The result of a call of constants, as in `ts > ago('PT1H')`; `again` recomputes it with other literals, or later.

    call: the call with slots.
    """

    call: "Call" = field(compare=False, kw_only=True)
    again: "Callable[[Sequence[Literal]], Expression]" = field(compare=False, kw_only=True)


def negate(literal: Literal) -> Literal:
    """Return the constant -x; -9223372036854775808 is a LONG although its digits alone exceed LONG."""
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
    text its index in `sources`; None if all differ.
    """

    key: str
    sources: tuple[str, ...]
    pattern: tuple[int, ...] | None

    def literals(self) -> list[Literal]:
        """Return the distinct literals as constants."""
        return _made(self.sources, to_literal)

    def slots(self, literals: Sequence[Literal]) -> list[Slot]:
        """Return the slot of each literal of the text, in order; `literals` are the distinct ones."""
        numbers = range(len(literals)) if self.pattern is None else self.pattern
        return [_slot(literals[i], i) for i in numbers]


def lift_literals(text: str) -> Lifted:
    """Cut the literals out of a text in one pass; comments, quoted names and `AS 'alias'` are kept."""
    return Lifted(*cut_literals(text))


def cut_literals(text: str) -> tuple[str, tuple[str, ...], tuple[int, ...] | None]:
    """Return the fields of `Lifted`, without creating the object."""
    parts = (_CUT if len(text) < IN_LISTS_FROM else _CUT_LISTS).split(text)
    seen: dict[str, int] = {}
    pattern: list[int] = []
    for i in range(1, len(parts), 2):
        source = parts[i]
        first = source[0]
        if first == "'":
            if _is_alias(parts, i):
                continue
            parts[i] = "\0s"
        elif first in "0123456789.":
            parts[i] = "\0n"
        elif first in "iI":
            opening = source.index("(")
            parts[i] = f"{source[: opening + 1]}\0l"
            source = source[opening:]
        else:
            continue
        pattern.append(seen.setdefault(source, len(seen)))
    return "".join(parts), tuple(seen), None if len(seen) == len(pattern) else tuple(pattern)


def _is_alias(parts: Sequence[str], i: int) -> bool:
    """Whether the string at `i` is an alias, which is part of the text: it follows the word AS and possibly comments."""
    before = parts[i - 1].rstrip()
    while not before and i > 2 and parts[i - 2].startswith(("--", "/*")):
        i -= 2
        before = parts[i - 1].rstrip()
    return before[-2:].upper() == "AS" and _ENDS_WORD.search(before, 0, len(before) - 2) is None


def to_literal(source: str) -> Literal:
    """Return the constant of a literal's text.

    Integers are INT, LONG, or BIG_DECIMAL beyond 64 bits (which the compiler rejects); numbers with a point or an exponent
    are DOUBLE. A text that begins with a parenthesis is a list.
    """
    if source[0] == "'":
        return Literal(unquote(source), DataType.STRING)
    if source.isdigit():
        return _whole(Decimal(source) if len(source) > _DIGITS_MAX else int(source))
    if source[0] == "(":
        return _list(source[1:])
    return Literal(float(source), DataType.DOUBLE)


def _whole(number: int | Decimal) -> Literal:
    if -_INT_MAX - 1 <= number <= _INT_MAX:
        return Literal(int(number), DataType.INT)
    if -_LONG_MAX - 1 <= number <= _LONG_MAX:
        return Literal(int(number), DataType.LONG)
    return Literal(Decimal(number), DataType.BIG_DECIMAL)


def _list(source: str) -> LiteralList:
    """Return the constants in the parentheses of IN (…); lists of one kind are parsed in bulk."""
    read = _texts(source) if source.lstrip()[0] == "'" else _numbers(source)
    if read is None:
        read = _made(
            _LISTED.findall(source), lambda found: negate(to_literal(found[1])) if found[0] else to_literal(found[1])
        )
    huge = any(member.type is DataType.BIG_DECIMAL for member in read)
    return LiteralList("…", DataType.BIG_DECIMAL if huge else DataType.STRING, members=tuple(read))


def _texts(source: str) -> list[Literal] | None:
    """Return the strings of a list; None if it has other constants, or a string with a quote."""
    parts = source.split("'")
    if any(between.strip() != "," for between in set(parts[2:-1:2])):
        return None
    text = DataType.STRING
    return _made(parts[1::2], lambda part: Literal(part, text))


def _numbers(source: str) -> list[Literal] | None:
    """Return the integers of a list; None if it has other constants."""
    try:
        numbers = list(map(int, source.split(",")))
    except ValueError:
        return None
    if min(numbers) >= -_INT_MAX - 1 and max(numbers) <= _INT_MAX:
        int_type = DataType.INT
        return _made(numbers, lambda number: Literal(number, int_type))
    return _made(numbers, _whole)


def _made(values: Sequence[_T], make: Callable[[_T], Literal]) -> list[Literal]:
    """Create the literals of many values, checking the deadline."""
    if len(values) <= _MADE_AT_ONCE:
        return list(map(make, values))
    found: list[Literal] = []
    for start in range(0, len(values), _MADE_AT_ONCE):
        reading_time.check()
        found += map(make, values[start : start + _MADE_AT_ONCE])
    return found


def _slot(literal: Literal, index: int) -> Slot:
    if isinstance(literal, LiteralList):
        return replace(literal, index=index)
    return Slot(literal.value, literal.type, index)


def members(literal: Literal) -> tuple[Literal, ...]:
    """Return the members of a list, or the single literal."""
    return literal.members if isinstance(literal, LiteralList) else (literal,)


Filler: TypeAlias = Callable[[Sequence[Literal]], Expression]


def filler(expression: Expression) -> Filler | None:
    """Return a function that fills the slots of an expression with literals, by index; None without slots."""
    if isinstance(expression, Slot):
        index = expression.index
        if expression.negated:
            return lambda literals: negate(literals[index])
        return lambda literals: literals[index]
    if isinstance(expression, Computed):
        return expression.again
    if not isinstance(expression, Call):
        return None
    reading_time.check()
    name, args = expression.name, expression.args
    if args and isinstance(args[-1], LiteralList):
        return _list_filler(name, args[:-1], args[-1].index)
    fillers = [filler(arg) for arg in args]
    if all(fill is None for fill in fillers):
        return None
    if len(args) == 2 and fillers[0] is None and fillers[1] is not None:
        left, right = args[0], fillers[1]
        return lambda literals: Call(name, (left, right(literals)))
    pairs = list(zip(args, fillers, strict=True))
    return lambda literals: Call(name, tuple([arg if fill is None else fill(literals) for arg, fill in pairs]))


def _list_filler(name: str, others: Sequence[Expression], index: int) -> Filler:
    """Return a filler for `x IN (…)` with many literals."""
    fillers = [(other, filler(other)) for other in others]
    return lambda literals: Call(
        name, (*[other if fill is None else fill(literals) for other, fill in fillers], *members(literals[index]))
    )


def with_members(call: Call) -> Call:
    """Expand a list of literals, the last argument of a call, to its members."""
    last = call.args[-1] if call.args else None
    return Call(call.name, (*call.args[:-1], *last.members)) if isinstance(last, LiteralList) else call


def refilled(expression: Expression, literals: Sequence[Literal]) -> Expression:
    """Return an expression with other literals in its slots."""
    if isinstance(expression, Slot):
        slot = _slot(literals[expression.index], expression.index)
        return slot.negative() if expression.negated else slot
    if isinstance(expression, Computed):
        return expression.again(literals)
    if isinstance(expression, Call):
        return Call(expression.name, tuple(refilled(arg, literals) for arg in expression.args))
    return expression


def without_slots(expression: Expression) -> Expression:
    """Return an expression with plain literals in place of slots."""
    if isinstance(expression, Slot):
        return expression.plain()
    if isinstance(expression, Call):
        return Call(expression.name, tuple(without_slots(arg) for arg in with_members(expression).args))
    return expression

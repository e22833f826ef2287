"""The filter of a query of known shape, built directly from the literals of its text.

The template determines the column that each literal is compared with, and the form that a literal must have to be a plain
value of the column's type. Literals of another form (`intCol = 5.5`, a number beyond 64 bits, a date as text), and those
that make a condition constant, are left to `gamay.query.bind.binder`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isinf
from typing import Any, TypeAlias

from gamay.functions.expression import Call, Column, Expression, Literal, LiteralValue
from gamay.model.types import DataType
from gamay.query.bind.predicate import Filter, In, Match, Range, negation
from gamay.query.bind.rebind import LIKE, WherePattern, conjuncts
from gamay.sql.text.slots import Computed, Slot

Sources: TypeAlias = Sequence[str]
"""The distinct literals of a text, as written."""
Read: TypeAlias = Callable[[Sources], Any]
"""Returns the value of a literal for its column; raises ValueError if it needs more than parsing."""
Leaf: TypeAlias = Callable[[Sources], Filter]
"""Returns a predicate, or raises ValueError."""

_BITS = {DataType.INT: 32, DataType.LONG: 64, DataType.TIMESTAMP: 64}
# numbers of this many digits always fit in 64 bits, or in a double without loss
_DIGITS_MAX = 18
_EXACT_DIGITS_MAX = 15
_VALUES_MAX = 16
# RE2 may take 7 ns for each byte of text and character of pattern
_PATTERN_CHARS_MAX = 64
_NEGATED = {"notequals": "equals", "notin": "in"}
_LOWER = {"greaterthan": False, "greaterthanorequal": True}
_UPPER = {"lessthan": False, "lessthanorequal": True}


class PreparedFilter:
    """A conjunction of tests of columns against literals. fits_wire: whether `gamay.query.wire.known` has a form for all."""

    def __init__(self, leaves: Sequence[Leaf], pattern: WherePattern) -> None:
        self._leaves = leaves
        self.fits_wire = not any(name in _NEGATED or name == LIKE for name, *_ in pattern.leaves)
        # queries on columns with nulls are left to the ordinary path by `gamay.query.prepared.lookup`
        self._pattern = replace(pattern, known=())
        self._only = leaves[0] if len(leaves) == 1 else None

    @classmethod
    def of(cls, where: Expression | None, pattern: WherePattern | None) -> "PreparedFilter | None":
        """Return the filter of a template's condition, which has the given pattern.

        None if there is no filter, or if its literals need a closer look.
        """
        if where is None or pattern is None:
            return None
        leaves = []
        for call, (name, _, column, data_type) in zip(conjuncts(where), pattern.leaves, strict=True):
            assert isinstance(call, Call)
            leaf = _leaf(name, column, data_type, call.args[1:])
            if leaf is None or (name == LIKE and column in pattern.multi_value):
                return None
            leaves.append((name, column, leaf))
        span = None if pattern.multi_value else _span(leaves)
        return cls([leaf for _, _, leaf in leaves] if span is None else [span], pattern)

    def bind(self, sources: Sources) -> Filter | None:
        """Return the result of `WherePattern.bind` for these literals, for columns without nulls.

        None if the literals are unusual.
        """
        try:
            if self._only is not None:
                return self._only(sources)
            return self._pattern.all_of([leaf(sources) for leaf in self._leaves])
        except ValueError:
            return None


def _leaf(name: str, column: str, data_type: DataType, operands: Sequence[Expression]) -> Leaf | None:
    if name in _NEGATED:
        equal = _leaf(_NEGATED[name], column, data_type, operands)
        return None if equal is None else lambda sources: negation(equal(sources))
    reads = [_read(operand, data_type) for operand in operands]
    known = [read for read in reads if read is not None]
    if len(known) < len(reads) or not 0 < len(known) <= _VALUES_MAX:
        return None
    first = known[0]
    if name == LIKE and data_type is DataType.STRING and len(known) == 1:
        return _like(column, first)
    if name == "in":
        return lambda sources: In(column, tuple(dict.fromkeys([read(sources) for read in known])))
    if name == "between" and len(known) == 2:
        return _between(column, first, known[1], (True, True))
    if len(known) != 1:
        return None
    if name == "equals":
        return lambda sources: In(column, (first(sources),))
    if name in _LOWER:
        return _Bound(column, first, is_lower=True, inclusive=_LOWER[name])
    return _Bound(column, first, is_lower=False, inclusive=_UPPER[name]) if name in _UPPER else None


def _like(column: str, read: Read) -> Leaf:
    def like(sources: Sources) -> Filter:
        pattern = read(sources)
        if len(pattern) > _PATTERN_CHARS_MAX:
            raise ValueError("a long pattern may take long, and the fast path cannot be stopped")
        return Match(column, Call(LIKE, (Column(column), Literal(pattern, DataType.STRING))))

    return like


class _Bound:
    """One side of a range."""

    def __init__(self, column: str, read: Read, *, is_lower: bool, inclusive: bool) -> None:
        self.column, self.read, self.is_lower, self.inclusive = column, read, is_lower, inclusive

    def __call__(self, sources: Sources) -> Filter:
        if self.is_lower:
            return Range(self.column, self.read(sources), None, self.inclusive, False)
        return Range(self.column, None, self.read(sources), False, self.inclusive)


def _between(column: str, lower: Read, upper: Read, inclusive: tuple[bool, bool]) -> Leaf:
    of_lower, of_upper = inclusive
    of_both = of_lower and of_upper

    def between(sources: Sources) -> Filter:
        low, high = lower(sources), upper(sources)
        if low < high:
            return Range(column, low, high, of_lower, of_upper)
        if low == high and of_both:
            return In(column, (low,))
        raise ValueError("the bounds exclude every value")

    return between


def _span(leaves: Sequence[tuple[str, str, Leaf]]) -> Leaf | None:
    """Return the range that two leaves form, each of which bounds the same column on one side; None for others."""
    if len(leaves) != 2:
        return None
    (_, _, one), (_, _, other) = leaves
    if not isinstance(one, _Bound) or not isinstance(other, _Bound) or one.column != other.column:
        return None
    if one.is_lower == other.is_lower:
        return None
    lower, upper = (one, other) if one.is_lower else (other, one)
    return _between(lower.column, lower.read, upper.read, (lower.inclusive, upper.inclusive))


def _read(operand: Expression, data_type: DataType) -> Read | None:
    """Return the parser of an operand; None if it depends on more than the literal's own text."""
    if data_type is DataType.BOOLEAN:
        return _constant(operand.value) if isinstance(operand, Literal) and operand.type is DataType.BOOLEAN else None
    if data_type is DataType.STRING:
        return _text(operand.index) if type(operand) is Slot and not operand.negated else None
    if data_type is DataType.DOUBLE:
        return _real(operand.index, operand.negated) if type(operand) is Slot else None
    if data_type not in _BITS:
        return None
    most = (1 << _BITS[data_type] - 1) - 1
    if type(operand) is Slot:
        return _whole(operand.index, operand.negated, most)
    if not isinstance(operand, Computed) or operand.call.name not in ("plus", "minus") or len(operand.call.args) != 2:
        return None
    left, right = operand.call.args
    if type(left) is not Slot or type(right) is not Slot:
        return None
    return _sum(left, right, most, is_difference=operand.call.name == "minus")


def _constant(value: LiteralValue) -> Read:
    """Parse `true` and `false`, which are keywords of the text."""
    return lambda sources: value


def _text(index: int) -> Read:
    def read(sources: Sources) -> str:
        source = sources[index]
        if source[0] != "'":
            raise ValueError("a number is compared with a text")
        text = source[1:-1]
        return text.replace("''", "'") if "'" in text else text

    return read


def _whole(index: int, negated: bool, most: int) -> Read:
    sign = -1 if negated else 1

    def read(sources: Sources) -> int:
        source = sources[index]
        if len(source) > _DIGITS_MAX:
            raise ValueError("the number is long")
        value = sign * int(source)
        if value > most or value < -most:
            raise ValueError("the number is beyond the column's type")
        return value

    return read


def _real(index: int, negated: bool) -> Read:
    def read(sources: Sources) -> float:
        source = sources[index]
        if len(source) > _EXACT_DIGITS_MAX:
            raise ValueError("the number is long")
        number = int(source) if source.isdigit() else float(source)
        value = float(-number if negated else number) + 0.0  # there is one zero
        if isinf(value):
            raise ValueError("the number is beyond the column's type")
        return value

    return read


def _sum(left: Slot, right: Slot, most: int, *, is_difference: bool) -> Read:
    first, second = left.index, right.index
    signs = (-1 if left.negated else 1), (-1 if right.negated != is_difference else 1)

    def read(sources: Sources) -> int:
        one, other = sources[first], sources[second]
        if len(one) > _DIGITS_MAX or len(other) > _DIGITS_MAX:
            raise ValueError("a number is long")
        value = signs[0] * int(one) + signs[1] * int(other)
        if value > most or value < -most:
            raise ValueError("the number is beyond the column's type")
        return value

    return read

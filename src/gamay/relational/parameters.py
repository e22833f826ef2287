"""The constants of a statement as parameters of its plan, which then serves statements that differ in constants alone.

A parameter is a constant like any other to all that plan, and notes when its value is looked at: a plan is one for the
values that were looked at, and for any others. Equal constants are one parameter, so statements also have in common which
of their constants are equal. What is computed of parameters is a parameter again, and computed anew for other values.

Not noted is that a constant was not found by its hash among those that rules bring along. Where the next value would be,
the plan computes an expression twice that it could have computed once.
"""

from collections.abc import Callable, Sequence
from typing import Any

from gamay.functions.expression import Expression, Literal
from gamay.model.types import DataType
from gamay.sql.text.slots import LiteralList

_VALUE: Any = Literal.__dict__["value"]


class Parameters:
    """The constants of one statement.

    values: the different ones. pattern: the number of each constant among them. looked_at: the numbers of those whose value
    planning depends on; that of a list of constants always does.
    """

    def __init__(self, constants: Sequence[Literal]) -> None:
        numbers: dict[Literal, int] = {}
        plain = [each if isinstance(each, LiteralList) else Literal(each.value, each.type) for each in constants]
        self.pattern = tuple([numbers.setdefault(each, len(numbers)) for each in plain])
        self.values = tuple(numbers)
        self.looked_at = {number for number, each in enumerate(self.values) if isinstance(each, LiteralList)}

    def constants(self) -> tuple[Literal, ...]:
        """Return the constants of the statement, as parameters."""
        made = [
            each if number in self.looked_at else Parameter(each, self, frozenset({number}))
            for number, each in enumerate(self.values)
        ]
        return tuple([made[number] for number in self.pattern])


class Parameter(Literal):
    """A constant of a statement, or what is computed of such.

    numbers: of the constants that it depends on. again: computes it of `arguments`; None for a constant itself.
    """

    __slots__ = ("again", "arguments", "numbers", "of")
    of: Parameters
    numbers: frozenset[int]
    again: Callable[..., Expression] | None
    arguments: tuple[Literal, ...]

    def __init__(
        self,
        literal: Literal,
        of: Parameters,
        numbers: frozenset[int],
        again: Callable[..., Expression] | None = None,
        arguments: tuple[Literal, ...] = (),
    ) -> None:
        _VALUE.__set__(self, literal.value)
        parts = {"type": literal.type, "of": of, "numbers": numbers, "again": again, "arguments": arguments}
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    @property
    def value(self) -> Any:
        self.of.looked_at |= self.numbers
        return _VALUE.__get__(self)

    @property
    def is_null(self) -> bool:
        return self.type is DataType.UNKNOWN

    def plain(self) -> Literal:
        """Return the constant as it is now, without noting that."""
        return Literal(_VALUE.__get__(self), self.type)

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if not isinstance(other, Literal):
            return NotImplemented
        if self.type is not other.type:
            return False
        if isinstance(other, Parameter):
            if other.of is self.of and self.again is other.again is None:
                return self.numbers == other.numbers  # statements have in common which of their constants are equal
            other.of.looked_at |= other.numbers
            other = other.plain()
        self.of.looked_at |= self.numbers
        return self.plain() == other

    def __hash__(self) -> int:
        return hash((_VALUE.__get__(self), self.type))


def computed(compute: Callable[..., Expression], *args: Literal) -> Expression:
    """Return what is computed of constants; a parameter where they are, or some are. compute: looks at nothing else."""
    parameters = [arg for arg in args if isinstance(arg, Parameter)]
    if not parameters:
        return compute(*args)
    found = compute(*(arg.plain() if isinstance(arg, Parameter) else arg for arg in args))
    if not isinstance(found, Literal):
        return compute(*args)
    numbers = frozenset[int]().union(*(each.numbers for each in parameters))
    return Parameter(found, parameters[0].of, numbers, compute, args)

"""Turns the constants of a statement into parameters of its plan, which then serves statements that differ in constants
only.

To the planner a parameter is a constant like any other, but it records when its value is read: a plan is valid for the
values that were read, and for any others. Equal constants are one parameter, so statements that share a plan also agree in
which of their constants are equal. A value computed from parameters is a parameter again, recomputed for other values.

Lookups by hash among constants that rules add are not recorded. With a value that would be found, the plan only computes an
expression twice that it could have computed once.
"""

from collections.abc import Callable, Sequence
from typing import Any

from gamay.functions.expression import Expression, Literal
from gamay.model.types import DataType
from gamay.sql.text.slots import LiteralList

_VALUE: Any = Literal.__dict__["value"]


class Parameters:
    """The constants of one statement.

    values: the distinct ones. pattern: the index of each constant among them. looked_at: the indexes of those whose value
    the plan depends on, which always include lists of constants.
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
    """A constant of a statement, or a value computed from such.

    numbers: indexes of the constants that it depends on. again: recomputes it from `arguments`; None for a constant itself.
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
        """Return the current constant, without recording the access."""
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
                # statements that share a plan agree in which of their constants are equal
                return self.numbers == other.numbers
            other.of.looked_at |= other.numbers
            other = other.plain()
        self.of.looked_at |= self.numbers
        return self.plain() == other

    def __hash__(self) -> int:
        return hash(self.plain())


def computed(compute: Callable[..., Expression], *args: Literal) -> Expression:
    """Compute an expression from constants; a parameter if any of them is. compute: must depend on nothing else."""
    parameters = [arg for arg in args if isinstance(arg, Parameter)]
    if not parameters:
        return compute(*args)
    found = compute(*(arg.plain() if isinstance(arg, Parameter) else arg for arg in args))
    if not isinstance(found, Literal):
        return compute(*args)
    numbers = frozenset[int]().union(*(each.numbers for each in parameters))
    return Parameter(found, parameters[0].of, numbers, compute, args)

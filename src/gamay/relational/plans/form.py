"""Plans of the same form, which differ in the values of their parameters."""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeAlias

from gamay.base.errors import QueryError
from gamay.functions.expression import Literal
from gamay.relational.parameters import Parameter, Parameters
from gamay.relational.plan import Plan

_Step: TypeAlias = Callable[[list[Any]], Any]


class _OfAnotherTypeError(Exception):
    """Raised if an expression, recomputed for other values, is not a constant of the same type."""


class PlanForm:
    """A plan as the steps that rebuild it from values: parts without parameters are shared, the others rebuilt bottom-up.

    parameters: of the statement that was planned.
    """

    def __init__(self, plan: Plan, parameters: Parameters) -> None:
        self._types = dict(plan.types)
        self._parameters = parameters
        self._steps: list[_Step] = []
        self._places: dict[int, int | None] = {}  # place of each part, by identity
        self._plan = replace(plan, types={})
        self._root = self._place(self._plan)
        self._places.clear()

    def filled(self, values: Sequence[Literal]) -> Plan | None:
        """Return the plan for other distinct constants; None if they would lead to a different plan."""
        made: list[Any] = list(values)
        try:
            for step in self._steps:
                made.append(step(made))
        except (_OfAnotherTypeError, QueryError):
            return None
        plan: Plan = self._plan if self._root is None else made[self._root]
        return Plan(plan.root, plan.subqueries, plan.ctes, dict(self._types))

    def _place(self, part: Any) -> int | None:
        """Return the place of a part among the values built; None for one without parameters."""
        known = id(part)
        if known not in self._places:
            self._places[known] = self._found(part)
        return self._places[known]

    def _found(self, part: Any) -> int | None:
        if isinstance(part, Parameter):
            return self._of_parameter(part)
        if is_dataclass(part):
            names = [each.name for each in fields(part) if each.init]
            return self._composed(type(part), [getattr(part, name) for name in names])
        if isinstance(part, tuple | list):
            kind = type(part)
            return self._composed(lambda *members: kind(members), part)
        if isinstance(part, dict):
            keys = list(part)
            return self._composed(lambda *members: dict(zip(keys, members, strict=True)), list(part.values()))
        return None

    def _of_parameter(self, part: Parameter) -> int | None:
        if part.of is not self._parameters:
            return self._added(lambda made: part.plain())
        if part.again is None:
            return min(part.numbers)
        again, wanted = part.again, part.type

        def compute(*args: Literal) -> Literal:
            found = again(*args)
            if not isinstance(found, Literal) or found.type is not wanted:
                raise _OfAnotherTypeError
            return found

        return self._composed(compute, part.arguments)

    def _composed(self, make: Callable[..., Any], parts: Sequence[Any]) -> int | None:
        """Return the place of a value built from parts; None if none of them has parameters."""
        places = [(at, place) for at, place in enumerate(map(self._place, parts)) if place is not None]
        if not places:
            return None
        kept = list(parts)

        def step(made: list[Any]) -> Any:
            args = kept.copy()
            for at, place in places:
                args[at] = made[place]
            return make(*args)

        return self._added(step)

    def _added(self, step: _Step) -> int:
        self._steps.append(step)
        return len(self._parameters.values) + len(self._steps) - 1

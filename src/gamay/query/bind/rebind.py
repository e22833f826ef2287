"""Binding WHERE again, for a query that differs in literals alone from one that was bound.

What such queries have in common is found out once: which columns their predicates test, of which types, and that nothing
else is to be done (no expression to compute). Then only literals are coerced.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.scalar.table.joined import FOUND
from gamay.model.types import DataType
from gamay.query.bind.literal_predicates import literal_predicate
from gamay.query.bind.one_column import merged_conjunction
from gamay.query.bind.predicate import And, Constant, Filter, IsNull, Match, conjunction, negation
from gamay.query.bind.scope import ValueType

LIKE = "like"


@dataclass(frozen=True, slots=True)
class WherePattern:
    """A conjunction of predicates, each of which tests a column against literals, or for being a key of a small table.

    leaves: for each the function's name, the number of its arguments, and the column with its type.
    multi_value: the columns whose rows hold several values. repeats: whether a column is tested more than once.
    known: with null handling, that none of the columns is null.
    """

    leaves: tuple[tuple[str, int, str, DataType], ...]
    multi_value: frozenset[str]
    repeats: bool
    known: tuple[Filter, ...] = ()

    @classmethod
    def of(
        cls,
        where: Expression | None,
        resolve: Callable[[str], str],
        type_of: Callable[[str], ValueType],
        null_handling: bool = False,
    ) -> "WherePattern | None":
        """Return the pattern of a condition; None when it cannot have one.

        resolve: gives a column's name as the schema spells it; type_of: the type of a column with such a name.
        """
        leaves = []
        multi_value = set()
        for call in conjuncts(where):
            column = _column_of(call)
            if not isinstance(call, Call) or column is None:
                return None
            name = resolve(column.name)
            data_type, is_list = type_of(name)
            if call.name == FOUND and is_list:
                return None
            leaves.append((call.name, len(call.args), name, data_type))
            if is_list:
                multi_value.add(name)
        columns = dict.fromkeys(leaf[2] for leaf in leaves)
        known = tuple(negation(IsNull(column)) for column in columns) if null_handling else ()
        return cls(tuple(leaves), frozenset(multi_value), len(columns) < len(leaves), known) if leaves else None

    def bind(self, where: Expression | None) -> Filter | None:
        """Return the filter of a condition of this pattern, as `gamay.query.bind.filters` makes it.

        None when it is of another pattern after all, or when a predicate is no test against literals, or constant. Raises
        QueryError.
        """
        calls = conjuncts(where)
        if len(calls) != len(self.leaves):
            return None
        parts: list[Filter] = []
        part: Filter | None
        for call, (name, num_args, column, data_type) in zip(calls, self.leaves, strict=True):
            if not isinstance(call, Call) or call.name != name or len(call.args) != num_args:
                return None
            if name == FOUND:
                parts.append(Match(column, Call(name, (*call.args[:-1], Column(column)))))
                continue
            if name == LIKE and data_type is DataType.STRING and column not in self.multi_value:
                part = _like(column, call.args[1:])
            else:
                part = literal_predicate(name, column, data_type, call.args[1:])
            if part is None or isinstance(part, Constant):
                return None
            parts.append(part)
        return self.all_of(parts)

    def all_of(self, parts: Sequence[Filter]) -> Filter | None:
        """Return the filter of its predicates, in order; None when together they are constant.

        Those of one column may be one predicate already.
        """
        if len(parts) == 1:
            merged = parts[0]
        elif self.repeats:
            merged = merged_conjunction(parts, self.multi_value.__contains__)
        else:
            merged = And(tuple(parts))
        if self.known and not isinstance(merged, Constant):
            merged = conjunction([merged, *self.known])
        return None if isinstance(merged, Constant) else merged


def conjuncts(where: Expression | None) -> "list[Expression]":
    """Return the conditions that hold when a condition does, in the order written; none where there is no condition."""
    if where is None:
        return []
    if isinstance(where, Call) and where.name == "and":
        return [part for argument in where.args for part in conjuncts(argument)]
    return [where]


def _like(column: str, operands: Sequence[Expression]) -> Filter | None:
    """Return the predicate of a pattern without an escape character of its own; None of others."""
    if len(operands) != 1 or not isinstance(operands[0], Literal) or operands[0].type is not DataType.STRING:
        return None
    return Match(column, Call(LIKE, (Column(column), operands[0])))


def _column_of(expression: Expression) -> Column | None:
    """Return the column that a predicate tests; None where that is an expression."""
    if not isinstance(expression, Call) or not expression.args:
        return None
    tested = expression.args[-1 if expression.name == FOUND else 0]
    return tested if isinstance(tested, Column) else None

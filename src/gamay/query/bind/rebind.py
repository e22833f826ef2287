"""Fast binding of WHERE for a query that differs only in literals from a bound one.

The common part is determined once: which columns the predicates test, of which types, and that there is nothing else to
compute. Then only the literals are coerced.
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
    """A conjunction of predicates that test a column against literals, or for being a key of a small table.

    leaves: (function, number of arguments, column, type). multi_value: the multi-value columns. repeats: whether a column is
    tested more than once. known: with null handling, the tests that the columns are not null.
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
        """Return the pattern of a condition; None if it has none.

        resolve: returns a column's name as spelled in the schema; type_of: returns the type of such a column.
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
        """Return the filter of a condition of this pattern, equal to that of `gamay.query.bind.filters`.

        None if the pattern differs, or if a predicate is constant or not a test against literals. Raises QueryError.
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
        """Return the conjunction of its predicates, given in order; None if it is constant.

        Predicates of one column may already be merged.
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
    """Split a condition into its conjuncts, in the order written; empty for None."""
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
    """Return the column that a predicate tests; None if it tests an expression."""
    if not isinstance(expression, Call) or not expression.args:
        return None
    tested = expression.args[-1 if expression.name == FOUND else 0]
    return tested if isinstance(tested, Column) else None

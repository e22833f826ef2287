"""Constants are computed once, when the query is compiled: `ts > ago('P1D')` compares with a number."""

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate_constant
from gamay.functions.expression import Call, Expression, Literal
from gamay.functions.registry import scalar_function
from gamay.functions.text import to_text
from gamay.sql.slots import Slot, with_members
from gamay.sql.translate import FALSE, TRUE, oriented


class Folder:
    """Folds the expressions of one query.

    has_computed: whether a constant was computed, so that another query of the same shape must be folded anew.
    """

    def __init__(self, *, volatile: bool = False) -> None:
        """With `volatile`, functions like rand() are computed too: for queries that no server sees."""
        self._volatile = volatile
        self.has_computed = False

    def fold(self, expression: Expression) -> Expression:
        """Return the expression with its constant parts computed; raises QueryError when computing one fails.

        AND and OR lose operands that decide nothing, comparisons get their constant on the right.
        """
        if not isinstance(expression, Call):
            return expression
        args = tuple(self.fold(arg) for arg in expression.args)
        name = expression.name
        if name in ("and", "or"):
            return _connected(name, args)
        if name == "negate" and len(args) == 1 and isinstance(args[0], Slot) and args[0].is_number:
            return args[0].negative()
        call = expression if args == expression.args and _same(args, expression.args) else Call(name, args)
        if args and not all(isinstance(arg, Literal) for arg in args):
            return oriented(name, *args) if call is not expression else call
        function = scalar_function(name)
        if function is None or not function.can_fold or not (function.is_deterministic or self._volatile):
            return call
        self.has_computed = True
        try:
            return evaluate_constant(with_members(call))
        except QueryError as error:
            if error.code is ErrorCode.QUERY_EXECUTION:
                raise QueryError(ErrorCode.QUERY_VALIDATION, f"{to_text(call)} has no value: {error}") from error
            raise


def _same(left: tuple[Expression, ...], right: tuple[Expression, ...]) -> bool:
    return all(a is b for a, b in zip(left, right, strict=True))


def _connected(name: str, args: tuple[Expression, ...]) -> Expression:
    decisive, neutral = (FALSE, TRUE) if name == "and" else (TRUE, FALSE)
    if decisive in args:
        return decisive
    kept = tuple(arg for arg in args if arg != neutral)
    if len(kept) > 1:
        return Call(name, kept)
    return kept[0] if kept else neutral

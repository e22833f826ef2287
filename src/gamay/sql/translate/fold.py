"""Constant folding at compile time: `ts > ago('P1D')` compares with a number."""

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate_constant
from gamay.functions.expression import Call, Expression, Literal
from gamay.functions.registry import scalar_function
from gamay.functions.text import to_text
from gamay.model.types import DataType
from gamay.sql.text import reading_time
from gamay.sql.text.slots import Computed, Slot, refilled, with_members
from gamay.sql.translate.expressions import FALSE, SYNONYMS, TRUE, canonical, oriented

# The plan depends only on the position of such a constant, not on its value.
_COMPARED = frozenset(
    {"equals", "notequals", "lessthan", "lessthanorequal", "greaterthan", "greaterthanorequal", "between", "in", "notin"}
)
_CONDITIONS = _COMPARED | {
    *("and", "or", "not", "like", "regexplike", "textmatch", "jsonmatch"),
    *("isnull", "isnotnull", "istrue", "isnottrue", "isfalse", "isnotfalse", "isdistinctfrom", "isnotdistinctfrom"),
}


class Folder:
    """Folds the expressions of one query.

    has_computed: whether the plan depends on a computed constant, so that another query of the shape must be folded again.
    """

    def __init__(self, *, volatile: bool = False) -> None:
        """volatile: also compute functions like rand(), for queries without a table."""
        self._volatile = volatile
        self.has_computed = False

    def fold(self, expression: Expression) -> Expression:
        """Return the expression with its constant parts computed; raises QueryError if that fails.

        Neutral operands of AND and OR are removed, and the constant of a comparison moves to the right.
        """
        return self._depended_on(self._fold(expression))

    def fold_condition(self, expression: Expression) -> Expression:
        """Fold WHERE: constants compared with columns become `Computed`, since the plan does not depend on them."""
        folded = self._fold(expression, in_condition=True)
        return self._depended_on(folded)

    def _depended_on(self, folded: Expression) -> Expression:
        if isinstance(folded, Computed):
            self.has_computed = True
            return Literal(folded.value, folded.type)
        return folded

    def _fold(self, expression: Expression, *, in_condition: bool = False) -> Expression:
        reading_time.check()
        if not isinstance(expression, Call):
            return expression
        name = expression.name
        args = tuple(self._fold(arg, in_condition=in_condition) for arg in expression.args)
        if name in ("and", "or"):
            connected = _connected(name, tuple(self._depended_on(arg) for arg in args), keeps_type=in_condition)
            is_constant = isinstance(connected, Call) and all(isinstance(arg, Literal) for arg in connected.args)
            return self._computed(connected) if isinstance(connected, Call) and is_constant else connected
        if name == "negate" and len(args) == 1 and isinstance(args[0], Slot) and args[0].is_number:
            return args[0].negative()
        if args and not all(isinstance(arg, Literal) for arg in args):
            if not (in_condition and name in _COMPARED):
                args = tuple(self._depended_on(arg) for arg in args)
            unchanged = _same(args, expression.args)
            return expression if unchanged else oriented(name, *args)
        function = scalar_function(SYNONYMS.get(name, name))
        call = expression if _same(args, expression.args) else Call(name, args)
        if function is None or not function.can_fold or not (function.is_deterministic or self._volatile):
            return call
        return self._computed(call)

    def _computed(self, call: Call) -> Expression:
        value = _value_of(call)
        if isinstance(value, Literal) and value.type is not DataType.BOOLEAN:
            return Computed(value.value, value.type, call=call, again=lambda literals: _value_of(refilled(call, literals)))
        self.has_computed = True  # conditions and lists affect the plan
        return value


def _value_of(call: Expression) -> Expression:
    """Compute a call of constants; raises QueryError, QUERY_VALIDATION, if it has no value."""
    assert isinstance(call, Call)
    constant = canonical(with_members(call))
    assert isinstance(constant, Call)
    try:
        return evaluate_constant(constant)
    except QueryError as error:
        if error.code is ErrorCode.QUERY_EXECUTION:
            raise QueryError(ErrorCode.QUERY_VALIDATION, f"{to_text(call)} has no value: {error}") from error
        raise


def _same(left: tuple[Expression, ...], right: tuple[Expression, ...]) -> bool:
    return all(a is b for a, b in zip(left, right, strict=True))


def _connected(name: str, args: tuple[Expression, ...], *, keeps_type: bool) -> Expression:
    """Return AND or OR without neutral operands; as a value it stays BOOLEAN, even if one number remains."""
    decisive, neutral = (FALSE, TRUE) if name == "and" else (TRUE, FALSE)
    if decisive in args:
        return decisive
    kept = tuple(arg for arg in args if arg != neutral)
    if len(kept) == 1 and (keeps_type or _is_boolean(kept[0])):
        return kept[0]
    return Call(name, kept) if kept else neutral


def _is_boolean(expression: Expression) -> bool:
    """Whether an expression is a condition, as far as can be determined without the types of columns."""
    if isinstance(expression, Literal):
        return expression.type in (DataType.BOOLEAN, DataType.UNKNOWN)
    return isinstance(expression, Call) and expression.name in _CONDITIONS

"""Evaluation of expressions on batches of rows, and inference of their types beforehand.

Columns are operands; an expression of dictionary-encoded columns only is computed once for each entry, or for each
combination of entries if there are few, and gathered. Conditions on multi-value columns hold if any value matches (`<>`
and NOT IN: if none is equal).
"""

from collections.abc import Callable, Sequence
from math import prod
from operator import add, mul, sub
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, QueryError
from gamay.base.guard import Guard, NullGuard
from gamay.functions.convert import convert, to_vector
from gamay.functions.expression import Call, Column, Expression, Literal, column_names, walk
from gamay.functions.registry import ScalarFunction, ValueType, is_aggregate, must_get_scalar, scalar_function
from gamay.functions.text import to_text
from gamay.functions.vector import (
    EncodedVector,
    Operand,
    Scalar,
    Vector,
    concat,
    sorted_distinct,
    take,
    take_rows,
    union_nulls,
)
from gamay.kernels.group.grouping import pack_pair
from gamay.kernels.tuning import COMBINATION_ROWS, ENCODED_RESULT_ROWS
from gamay.model.types import DataType

# the time limit for computing the constants of a query while it is compiled
_CONSTANTS_S = 0.1
# the number of dictionary entries computed between two checks of the query's guard
_ENTRIES_AT_ONCE = 1 << 16

ColumnSource: TypeAlias = Callable[[str], Operand]
ColumnTypes: TypeAlias = Callable[[str], ValueType]

# equivalent for ASCII texts
_LENGTHS = frozenset({"length", "charlength", "characterlength", "octetlength"})

_CASES = frozenset({"case", "casewhen"})
_GUARDING = _CASES | {"and", "or"}

# After aggregation and among constants, integers stay integers; on columns these functions return DOUBLE.
_WHOLE_NUMBER_FORMS = {"plus": "longplus", "minus": "longminus", "times": "longtimes", "mod": "longmod"}
_WHOLE = (DataType.INT, DataType.LONG)
_STEPS: dict[str, Callable[[int, int], int]] = {"plus": add, "minus": sub, "times": mul}
_WHOLE_STEPS = _STEPS | {_WHOLE_NUMBER_FORMS[name]: step for name, step in _STEPS.items()}
_LONG_MAX = (1 << 63) - 1


@runtime_checkable
class MeasuresTexts(Protocol):
    """A column source that may have the lengths of texts without reading the texts."""

    def text_lengths(self, name: str) -> Vector | None:
        """Return the number of characters of each row's text, INT; None if the texts must be read, or are not ASCII."""
        ...


def evaluate(expression: Expression, column: ColumnSource, num_rows: int, *, post_aggregation: bool = False) -> Operand:
    """Compute an expression for a batch of rows.

    column: returns a column's operand, `num_rows` long, by name. post_aggregation: plus, minus, times and mod of INT and
    LONG are LONG, as among constants. Raises QueryError: QUERY_VALIDATION for unknown functions and invalid arguments,
    QUERY_EXECUTION for values that a function does not accept. Conditions are Vectors of BOOLEAN (or Scalars).
    """
    if isinstance(expression, Literal):
        return Scalar(expression.value, expression.type)
    if isinstance(expression, Column):
        return column(expression.name)
    if not isinstance(expression, Call):
        raise QueryError(ErrorCode.QUERY_VALIDATION, "* is not an expression; it is allowed only in SELECT * and COUNT(*)")
    if expression.name in _LENGTHS and isinstance(expression.args[0], Column):
        lengths = _known_lengths(column, expression.args[0].name)
        if lengths is not None:
            return lengths
    over_dictionary = _over_dictionaries(expression, column, num_rows, post_aggregation)
    if over_dictionary is not None:
        return over_dictionary
    known = scalar_function(expression.name)
    repeats_lists = known is not None and known.repeats_lists and bool(column_names(expression))
    try:
        args = [
            evaluate(arg, column, 1 if repeats_lists and _is_constant(arg) else num_rows, post_aggregation=post_aggregation)
            for arg in expression.args
        ]
    except QueryError as error:
        if error.code is not ErrorCode.QUERY_EXECUTION or expression.name not in _GUARDING:
            raise
        # a condition may guard a function against values that it does not accept
        args = _ByRows(expression, column, num_rows, post_aggregation).args()
    types = [(arg.type, not isinstance(arg, Scalar) and arg.offsets is not None) for arg in args]
    function = _function(expression, types, post_aggregation)
    try:
        return function.compute(expression, args, num_rows)
    except QueryError as error:
        nulls = union_nulls(args)
        if error.code is not ErrorCode.QUERY_EXECUTION or nulls is None or function.accepts_nulls:
            raise
    # the placeholder of a null need not be a value that the function accepts
    return _of_not_null(expression, function, args, nulls)


def _known_lengths(source: object, name: str) -> Vector | None:
    return source.text_lengths(name) if isinstance(source, MeasuresTexts) else None


class _ByRows:
    """Computes arguments of CASE, AND and OR only for the rows that need them; elsewhere their values are arbitrary."""

    def __init__(self, call: Call, column: ColumnSource, num_rows: int, post_aggregation: bool) -> None:
        self._call = call
        self._columns = {name: column(name) for name in column_names(call)}
        self._num_rows = num_rows
        self._post_aggregation = post_aggregation

    def args(self) -> list[Operand]:
        """Return all arguments."""
        return self._of_case() if self._call.name in _CASES else self._of_and_or_or()

    def _of_case(self) -> list[Operand]:
        left, args = np.arange(self._num_rows), []
        for condition, value in zip(self._call.args[:-1:2], self._call.args[1:-1:2], strict=False):
            found = self._at(condition, left)
            holds, _ = _marks(found, len(left))
            args += [self._spread(found, left), self._spread(self._at(value, left[holds]), left[holds])]
            left = left[~holds]
        return [*args, self._spread(self._at(self._call.args[-1], left), left)]

    def _of_and_or_or(self) -> list[Operand]:
        left = np.arange(self._num_rows)
        args: dict[int, Operand] = {}
        for place, part in enumerate(self._call.args):
            try:
                found = self._at(part, left)
            except QueryError as error:
                if error.code is not ErrorCode.QUERY_EXECUTION:
                    raise
                continue  # later conditions may guard it for some rows, too
            args[place] = self._spread(found, left)
            holds, is_null = _marks(found, len(left))
            left = left[holds | is_null if self._call.name == "and" else ~holds]
        parts = enumerate(self._call.args)
        return [args[place] if place in args else self._spread(self._at(part, left), left) for place, part in parts]

    def _at(self, part: Expression, rows: Array) -> Operand:
        if len(rows) == 0:
            return Scalar(None, result_type(part, self._type, post_aggregation=self._post_aggregation)[0])
        source = lambda name: take_rows(self._columns[name], rows)  # noqa: E731
        return evaluate(part, source, len(rows), post_aggregation=self._post_aggregation)

    def _type(self, name: str) -> ValueType:
        operand = self._columns[name]
        return operand.type, not isinstance(operand, Scalar) and operand.offsets is not None

    def _spread(self, operand: Operand, rows: Array) -> Operand:
        places = np.zeros(self._num_rows, np.int64)
        places[rows] = np.arange(len(rows))
        return take_rows(operand, places)


def _marks(condition: Operand, num_rows: int) -> tuple[Array, Array]:
    """Return where a condition is true, and where it is null."""
    vector = to_vector(convert(condition, DataType.BOOLEAN), num_rows)
    nulls = np.zeros(num_rows, np.bool_) if vector.nulls is None else vector.nulls
    return np.asarray(vector.values) & ~nulls, nulls


def _of_not_null(call: Call, function: ScalarFunction, args: list[Operand], nulls: "np.ndarray[Any, Any]") -> Operand:
    """Compute the rows in which no argument is null; all other rows are null."""
    kept = np.flatnonzero(~nulls)
    at_kept = [
        arg if function.repeats_lists and _is_constant(part) else take_rows(arg, kept)
        for part, arg in zip(call.args, args, strict=True)
    ]
    result = function.compute(call, at_kept, len(kept))
    if len(kept) == 0 and not isinstance(result, Scalar) and result.offsets is not None:
        none = result.decode() if isinstance(result, EncodedVector) else result
        return Vector(none.type, none.values, np.zeros(len(nulls) + 1, np.int32), nulls)
    if isinstance(result, Scalar) or len(kept) == 0:
        return Scalar(None, result.type) if len(kept) == 0 else result
    places = np.zeros(len(nulls), np.int64)
    places[kept] = np.arange(len(kept))
    spread = take_rows(result, places)
    assert not isinstance(spread, Scalar)
    vector = spread.decode() if isinstance(spread, EncodedVector) else spread
    return Vector(vector.type, vector.values, vector.offsets, nulls if vector.nulls is None else nulls | vector.nulls)


def evaluate_entries(expression: Expression, entries: Vector) -> Operand:
    """Compute an expression of one column for each entry of a dictionary; raises the errors of `evaluate`.

    Many entries are computed in parts, so that the query can be aborted in between.
    """
    count = len(entries)
    if count <= _ENTRIES_AT_ONCE:
        return evaluate(expression, lambda _: entries, count)
    parts: list[Vector | EncodedVector] = []
    for start in range(0, count, _ENTRIES_AT_ONCE):
        guard.check()
        stop = min(start + _ENTRIES_AT_ONCE, count)
        nulls = None if entries.nulls is None else entries.nulls[start:stop]
        part = Vector(entries.type, entries.values[start:stop], None, nulls)
        result = evaluate(expression, lambda _, part=part: part, stop - start)  # type: ignore[misc]
        if isinstance(result, Scalar) or result.offsets is not None:  # the same for all parts, or not worth joining
            return evaluate(expression, lambda _: entries, count)
        parts.append(result)
    shared = parts[0].dictionary if isinstance(parts[0], EncodedVector) else None
    encoded = [
        part for part in parts if isinstance(part, EncodedVector) and part.dictionary is shared and part.nulls is None
    ]
    if shared is not None and len(encoded) == len(parts):
        return EncodedVector(np.concatenate([part.ids for part in encoded]), shared)
    vectors = [part.decode() if isinstance(part, EncodedVector) else part for part in parts]
    values = concat([vector.values for vector in vectors])
    if all(vector.nulls is None for vector in vectors):
        return Vector(vectors[0].type, values)
    flags = [np.zeros(len(vector), np.bool_) if vector.nulls is None else vector.nulls for vector in vectors]
    return Vector(vectors[0].type, values, None, np.concatenate(flags))


class _TakesLongError(QueryError):
    """The time limit for constants while a query is compiled is exceeded."""


class _Moment(NullGuard):
    """Guard that limits the time for the constants of one query while it is compiled; the clock starts at the first check.

    outer: the thread's previous guard, which ends the whole query.
    """

    def __init__(self, outer: Guard) -> None:
        self._outer = outer
        self._until_s: float | None = None

    def check(self) -> None:
        self._outer.check()
        now_s = SYSTEM_CLOCK.monotonic_s()
        if self._until_s is None:
            self._until_s = now_s + _CONSTANTS_S
        elif now_s > self._until_s:
            raise _takes_long()

    def uninterrupted(self, worst_s: float) -> None:
        self.check()
        if worst_s > _CONSTANTS_S:
            raise _takes_long()


def _takes_long() -> _TakesLongError:
    return _TakesLongError(ErrorCode.EXECUTION_TIMEOUT, "computing a constant takes long")


class compiling:  # noqa: N801 - used like a function; takes a third of the time of a generator-based context manager
    """Context in which a query is compiled: all its constants share the time limit of one."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        before = self._before = guard.current()
        if not isinstance(before, _Moment):
            guard.enter(_Moment(before))

    def __exit__(self, *_: object) -> None:
        guard.enter(self._before)


def evaluate_briefly(
    expression: Expression, column: ColumnSource, num_rows: int, *, post_aggregation: bool = False
) -> Operand | None:
    """Evaluate while a query is compiled; None if it takes too long, which is left to the query's deadline."""
    with compiling():
        try:
            return evaluate(expression, column, num_rows, post_aggregation=post_aggregation)
        except _TakesLongError:
            return None


def evaluate_constant(expression: Call) -> Expression:
    """Fold an expression of constants; one that yields a list, or takes long, is returned unchanged. Raises QueryError."""
    whole = _whole_number(expression)
    if whole is not None:
        return whole
    result_type(expression, _no_column_type, post_aggregation=True)  # also checks the arguments
    result = evaluate_briefly(expression, _no_column, 1, post_aggregation=True)
    if not isinstance(result, Scalar):
        return expression
    return Literal(result.value, result.type if result.value is not None else DataType.UNKNOWN)


def _whole_number(call: Call) -> Literal | None:
    """Return the sum, difference or product of two integers, as in `ts < 1700000000000 + 60000`.

    None for other calls, and if the result exceeds 64 bits, which the function itself refuses; with arrays it takes 100 µs.
    """
    step = _WHOLE_STEPS.get(call.name)
    if step is None or len(call.args) != 2:
        return None
    left, right = call.args
    if not (isinstance(left, Literal) and isinstance(right, Literal)):
        return None
    if left.type not in _WHOLE or right.type not in _WHOLE or type(left.value) is not int or type(right.value) is not int:
        return None
    value = step(left.value, right.value)
    return Literal(value, DataType.LONG) if -_LONG_MAX <= value <= _LONG_MAX else None


def result_type(expression: Expression, column_type: ColumnTypes, *, post_aggregation: bool = False) -> ValueType:
    """Return the type of an expression and whether it is multi-value; raises QueryError as `evaluate` would."""
    if isinstance(expression, Literal):
        return expression.type, False
    if isinstance(expression, Column):
        return column_type(expression.name)
    if not isinstance(expression, Call):
        raise QueryError(ErrorCode.QUERY_VALIDATION, "* is not an expression; it is allowed only in SELECT * and COUNT(*)")
    if is_aggregate(expression.name):
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"The aggregate {to_text(expression)} is not allowed here")
    types = [result_type(arg, column_type, post_aggregation=post_aggregation) for arg in expression.args]
    return _function(expression, types, post_aggregation).result_type(expression, types)


def _no_column(name: str) -> Operand:
    raise _not_constant(name)


def _no_column_type(name: str) -> ValueType:
    raise _not_constant(name)


def _not_constant(name: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"'{name}' is a column where only constants are allowed")


def _function(call: Call, types: list[ValueType], post_aggregation: bool) -> ScalarFunction:
    function = must_get_scalar(call.name)
    if not post_aggregation or call.name not in _WHOLE_NUMBER_FORMS or not all(t in _WHOLE for t, _ in types):
        return function
    # an error about the number of arguments must name the function as written
    is_counted = len(types) >= function.min_args and (function.max_args is None or len(types) <= function.max_args)
    return must_get_scalar(_WHOLE_NUMBER_FORMS[call.name]) if is_counted else function


def _over_dictionaries(call: Call, column: ColumnSource, num_rows: int, post_aggregation: bool) -> Operand | None:
    """Compute a call of dictionary-encoded columns for each combination of their entries, then gather.

    None if that is not worthwhile or not possible.
    """
    names = column_names(call)
    if not names or num_rows == 0:
        return None
    operands = [column(name) for name in names]
    encoded = [operand for operand in operands if isinstance(operand, EncodedVector) and operand.offsets is None]
    combinations = prod(_entries(operand) for operand in encoded)
    rows_for_each = 1 if len(names) == 1 else COMBINATION_ROWS
    if len(encoded) < len(operands) or not 0 < combinations <= num_rows // rows_for_each or not _is_elementwise(call):
        return None
    entries, ids = _combined(encoded, combinations)
    columns = dict(zip(names, entries, strict=True))
    try:
        result = evaluate(call, columns.__getitem__, combinations, post_aggregation=post_aggregation)
    except QueryError as error:
        if error.code is ErrorCode.QUERY_EXECUTION:
            return None  # perhaps for an entry that none of these rows has
        raise
    if isinstance(result, Scalar) or result.offsets is not None:
        return None
    nulls = None if result.nulls is None else take(result.nulls, ids)
    if isinstance(result, Vector) and result.type.is_text and combinations <= num_rows // ENCODED_RESULT_ROWS:
        result = _encoded(result)
    if isinstance(result, EncodedVector):
        return EncodedVector(take(result.ids, ids), result.dictionary, None, nulls)
    return Vector(result.type, take(result.values, ids), None, nulls)


def _entries(operand: EncodedVector) -> int:
    return len(operand.dictionary) + (operand.nulls is not None)


def _combined(operands: Sequence[EncodedVector], combinations: int) -> "tuple[list[Vector], np.ndarray[Any, Any]]":
    """Return the entries of each column in every combination, and the combination of each row; null is an extra entry."""
    entries: list[Vector] = []
    combined: np.ndarray[Any, Any] | None = None
    every, below = np.arange(combinations), combinations
    for operand in operands:
        size, dictionary, ids = _entries(operand), operand.dictionary, operand.ids
        if operand.nulls is not None:
            # a NumPy number, so that the position after 256 entries is not truncated to the 8 bits of the ids
            ids = np.where(operand.nulls, np.int32(len(dictionary)), ids)
            dictionary = with_null_entry(dictionary)
        if len(operands) == 1:
            return [dictionary], ids
        below //= size
        vector = take_rows(dictionary, every // below % size)
        assert isinstance(vector, Vector)
        entries.append(vector)
        if combined is None:
            combined = ids
        else:
            packed = np.empty(len(ids), np.uint32)
            pack_pair(combined, ids, size, packed)
            combined = packed
    assert combined is not None
    return entries, combined


def _encoded(texts: Vector) -> EncodedVector:
    """Dictionary-encode texts."""
    dictionary, ids = sorted_distinct(texts)
    return EncodedVector(ids.astype(np.uint32), Vector(texts.type, dictionary, ascends=True))


def with_null_entry(dictionary: Vector) -> Vector:
    """Return the entries of a dictionary (at least one), followed by null."""
    nulls = np.zeros(len(dictionary) + 1, np.bool_)
    nulls[-1] = True
    return Vector(dictionary.type, concat([dictionary.values, dictionary.values[:1]]), None, nulls)


def _is_constant(expression: Expression) -> bool:
    return isinstance(expression, Call) and not column_names(expression) and _is_elementwise(expression)


def _is_elementwise(call: Call) -> bool:
    functions = [scalar_function(part.name) for part in walk(call) if isinstance(part, Call)]
    return all(function is not None and function.is_deterministic for function in functions)

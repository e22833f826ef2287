"""The declaration of scalar functions: names, parameters, result, and one body for whole batches.

    @scalar("substr", params=(each(STRING), const(INT), const(INT)), optional=1, returns=STRING)
    def substr(text, begin, end=-1): ...

What is passed to the body for each parameter:

| parameter   | the body gets                                                              |
| ----------- | -------------------------------------------------------------------------- |
| `each(T)`   | the storage of T of all rows (an ndarray or Arrow array)                   |
| `const(T)`  | one Python value; where the query has none, the body runs once for each    |
|             | distinct value of the argument, on the rows that have it                   |
| `fixed(T)`  | one Python value; anything but a constant is an error                      |
| `lists(T)`  | a multi-value Vector of T                                                  |
| `ANY`       | a single-value Vector of any type                                          |

T None means any type. The body returns the storage of the result type, or a Vector when it has nulls or lists of its own.
`@by_value` declares a function of Python values, which runs once for each distinct combination of arguments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base import guard
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arguments import check_count, check_elements, wrong
from gamay.functions.convert import (
    array_of,
    convert,
    convert_value,
    placeholder,
    python_values,
    repeat,
    to_vector,
    watched,
)
from gamay.functions.distinct import distinct, distinct_rows
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.text import shown_value
from gamay.functions.vector import (
    EncodedVector,
    Operand,
    Scalar,
    Values,
    Vector,
    concat,
    numpy_dtype,
    take,
    take_rows,
    union_nulls,
)
from gamay.model.types import DataType

ResultRule: TypeAlias = Callable[[Call, Sequence[ValueType]], ValueType]
Body: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Param:
    """How an argument is passed to the body; `type` None means any.

    check: raises QueryError or ValueError for a constant that the function does not accept, before any rows are computed.
    """

    type: DataType | None
    kind: str = "each"
    check: Callable[[Any], object] | None = None


def each(data_type: DataType | None) -> Param:
    """The values of all rows; a constant is passed as an array that broadcasts."""
    return Param(data_type)


def const(data_type: DataType | None, check: Callable[[Any], object] | None = None) -> Param:
    """One value at a time."""
    return Param(data_type, "const", check)


def fixed(data_type: DataType | None, check: Callable[[Any], object] | None = None) -> Param:
    """A constant of the query."""
    return Param(data_type, "fixed", check)


def lists(data_type: DataType | None) -> Param:
    """A multi-value Vector."""
    return Param(data_type, "lists")


ANY = Param(None, "any")


@dataclass(frozen=True, slots=True)
class _Signature:
    name: str
    params: tuple[Param, ...]
    min_args: int
    max_args: int | None

    def param(self, position: int) -> Param:
        return self.params[min(position, len(self.params) - 1)]

    def check(self, call: Call, types: Sequence[ValueType]) -> None:
        """Raise QueryError if the number or kind of the arguments is wrong."""
        check_count(self.name, len(types), self.min_args, self.max_args)
        for i, (arg, (data_type, multi_value)) in enumerate(zip(call.args, types, strict=True)):
            param = self.param(i)
            if param.kind == "fixed" and not isinstance(arg, Literal):
                raise wrong(self.name, f"argument {i + 1} must be a constant")
            if multi_value != (param.kind == "lists") and data_type is not DataType.UNKNOWN:
                needed = "multi-value" if param.kind == "lists" else "single-value"
                raise wrong(self.name, f"argument {i + 1} must be {needed}")
            if param.type is not None and not _convertible(data_type, param.type):
                raise wrong(self.name, f"argument {i + 1} must be {param.type.value}, not {data_type.value}")
            if isinstance(arg, Literal) and arg.value is not None:
                value = arg.value if param.type is None else self._constant(i, arg, param.type)
                if param.check is not None:
                    self._check_constant(param, value)

    def _constant(self, position: int, literal: Literal, to: DataType) -> Any:
        """Return a constant in the type of its parameter; raises QueryError for invalid text."""
        if literal.type is to:
            return literal.value
        try:
            return convert_value(literal.value, literal.type, to)
        except QueryError as error:
            if error.code is not ErrorCode.QUERY_EXECUTION:
                raise
            raise wrong(self.name, f"argument {position + 1} must be {to.value}: {error}") from None

    def _check_constant(self, param: Param, value: Any) -> None:
        assert param.check is not None
        try:
            param.check(value)
        except ValueError as error:
            raise wrong(self.name, str(error)) from error


def _convertible(source: DataType, to: DataType) -> bool:
    if source is to or source is DataType.UNKNOWN or source.is_text or to.is_text:
        return True
    return source.is_binary == to.is_binary


def scalar(
    *names: str,
    params: Sequence[Param],
    returns: DataType | ResultRule,
    optional: int = 0,
    variadic: bool = False,
    multi_value: bool = False,
    is_deterministic: bool = True,
    repeats_lists: bool = False,
    null_as: str | None = None,
) -> Callable[[Body], Body]:
    """Register the decorated body under `names`.

    optional: how many of the last parameters may be omitted. variadic: the last parameter repeats. returns: the result
    type, or a rule from the call and its argument types. multi_value: the result is lists. repeats_lists: the body takes
    a constant list as a Vector of one row. null_as: the value that replaces a null first argument if all arguments are
    given, the last of which is the result in that case; without it, null yields null.
    """

    def decorate(body: Body) -> Body:
        signature = _Signature(names[0], tuple(params), len(params) - optional, None if variadic else len(params))

        def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
            signature.check(call, types)
            return (returns, multi_value) if isinstance(returns, DataType) else returns(call, types)

        def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
            result, lists_result = result_type(call, [type_of(arg) for arg in args])
            if null_as is not None and len(args) == len(params):
                args = [_filled(args[0], null_as), *args[1:]]
            if any(isinstance(arg, Scalar) and arg.value is None for arg in args):
                return null_result(result, lists_result, num_rows)
            if lists_result:
                _check_constants(signature, args)
            return _compute(body, signature, result, args, num_rows)

        function = ScalarFunction(
            names[0],
            signature.min_args,
            signature.max_args,
            result_type,
            compute,
            is_deterministic,
            can_fold=not multi_value,
            accepts_nulls=null_as is not None,
            repeats_lists=repeats_lists,
        )
        register_scalar(names, function)
        return body

    return decorate


def by_value(*names: str, params: Sequence[DataType], returns: DataType, optional: int = 0) -> Callable[[Body], Body]:
    """Register a function of Python values; a returned None is null, ValueError reports an invalid argument."""

    def decorate(body: Body) -> Body:
        def whole(*columns: Vector) -> Vector:
            return _by_distinct_rows(names[0], body, columns, returns)

        converted = tuple(Param(data_type, "vector") for data_type in params)
        scalar(*names, params=converted, returns=returns, optional=optional)(whole)
        return body

    return decorate


def type_of(operand: Operand) -> ValueType:
    """Return the type of an operand, and whether it is multi-value."""
    return operand.type, not isinstance(operand, Scalar) and operand.offsets is not None


def result_vector(values: Any, data_type: DataType, num_rows: int, nulls: Any = None) -> Vector:
    """Return what a body returned, a Vector, a NumPy or Arrow array, or a list, as a Vector."""
    if isinstance(values, Vector):
        return values if nulls is None else Vector(values.type, values.values, values.offsets, _either(values.nulls, nulls))
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array) and values.null_count:
        nulls = _either(nulls, values.is_null().to_numpy(zero_copy_only=False))
        values = values.fill_null(placeholder(data_type))
    if data_type.is_fixed_width:
        values = np.asarray(values).astype(numpy_dtype(data_type), copy=False)
        if values.ndim == 0:
            values = np.full(num_rows, values[()], dtype=values.dtype)
    elif data_type is not DataType.BIG_DECIMAL and not isinstance(values, pa.Array):
        values = array_of(list(values), data_type)
    return Vector(data_type, values, None, nulls)


def null_result(data_type: DataType, multi_value: bool, num_rows: int) -> Operand:
    """Return the result for a NULL argument: null in all rows."""
    if not multi_value:
        return Scalar(None, data_type)
    return Vector(data_type, array_of([], data_type), np.zeros(num_rows + 1, np.int32), np.ones(num_rows, np.bool_))


def _filled(operand: Operand, value: str) -> Operand:
    """Return an operand as texts, with nulls replaced."""
    if isinstance(operand, Scalar):
        return Scalar(value, DataType.STRING) if operand.value is None else operand
    if operand.nulls is None:
        return operand
    vector = to_vector(convert(operand, DataType.STRING), len(operand.nulls))
    return Vector(DataType.STRING, pc.if_else(pa.array(vector.nulls), pa.scalar(value), vector.values))


def _either(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return right if left is None else left
    return left | right


def _check_constants(signature: _Signature, args: Sequence[Operand]) -> None:
    """Raise QueryError if a function of lists gets a non-constant for an argument that must be constant."""
    for i, arg in enumerate(args):
        if signature.param(i).kind == "const" and not isinstance(arg, Scalar):
            raise wrong(signature.name, f"argument {i + 1} must be a constant")


def _compute(body: Body, signature: _Signature, result: DataType, args: Sequence[Operand], num_rows: int) -> Operand:
    constant = all(isinstance(arg, Scalar) for arg in args)
    wanted_rows = num_rows
    for i, arg in enumerate(args):
        if signature.param(i).kind == "const" and not isinstance(arg, Scalar):
            return _for_each_value(body, signature, result, args, i, num_rows)
    if constant:
        num_rows = 1
    inputs = [_input(signature.param(i), arg, result, num_rows) for i, arg in enumerate(args)]
    vector = result_vector(_run(signature.name, body, inputs), result, num_rows, union_nulls(args))
    if len(vector) != num_rows:
        raise QueryError(
            ErrorCode.QUERY_EXECUTION, f"Function '{signature.name}' returned {len(vector)} values for {num_rows} rows"
        )
    if not constant:
        return vector
    if vector.is_multi_value:
        check_elements(signature.name, len(vector.values) * wanted_rows)
        return take_rows(vector, np.zeros(wanted_rows, np.int64))
    if vector.nulls is not None and vector.nulls[0]:
        return Scalar(None, result)
    return Scalar(python_values(vector.values)[0], result)


def _run(name: str, body: Body, inputs: Sequence[Any]) -> Any:
    try:
        return body(*inputs)
    except QueryError:
        raise
    except Exception as error:  # the function may be a user's own, and raise anything
        raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function '{name}': {error!r}") from error


def _input(param: Param, arg: Operand, result: DataType, num_rows: int) -> Any:
    if param.kind in ("const", "fixed"):
        converted = arg if param.type is None else convert(arg, param.type)
        return converted.value if isinstance(converted, Scalar) else converted
    target = param.type if param.type is not None or param.kind in ("any", "lists") else result
    converted = arg if target is None else convert(arg, target)
    if param.kind in ("lists", "any", "vector"):
        return to_vector(converted, num_rows)
    return _storage(converted, num_rows)


def _storage(operand: Operand, num_rows: int) -> Values:
    if isinstance(operand, Scalar):
        if operand.type.is_fixed_width:
            return np.asarray(operand.value, dtype=numpy_dtype(operand.type))  # broadcasts
        return repeat(operand.value, operand.type, num_rows)
    return operand.decode().values if isinstance(operand, EncodedVector) else operand.values


def _for_each_value(
    body: Body, signature: _Signature, result: DataType, args: Sequence[Operand], position: int, num_rows: int
) -> Vector:
    """Run the body once for each distinct value of an argument that it requires to be constant.

    A value that it refuses is then an error of a row, not of the query: QUERY_EXECUTION.
    """
    varying = to_vector(args[position], num_rows)
    codes, values = distinct(varying)
    parts: list[Vector] = []
    rows: list[Any] = []
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(values) + 1))
    for code, value in enumerate(python_values(values.values)):
        guard.check()
        chosen = order[bounds[code] : bounds[code + 1]]
        part_args = [take_rows(arg, chosen) for arg in args]
        part_args[position] = Scalar(value, varying.type)
        try:
            part = _compute(body, signature, result, part_args, len(chosen))
        except QueryError as error:
            raise of_row(error) from None
        parts.append(to_vector(convert(part, result), len(chosen)))
        rows.append(chosen)
    if not parts:
        return Vector(result, array_of([], result))
    back = np.empty(num_rows, dtype=np.int64)
    back[np.concatenate(rows)] = np.arange(num_rows)
    nulls = None
    if any(part.nulls is not None for part in parts):
        flags = [np.zeros(len(part), np.bool_) if part.nulls is None else part.nulls for part in parts]
        nulls = np.concatenate(flags)[back]
    return Vector(result, take(concat([part.values for part in parts]), back), None, _either(nulls, varying.nulls))


def of_row(error: QueryError) -> QueryError:
    """Return an error about a constant as one about a row's value, which other rows need not have."""
    return QueryError(ErrorCode.QUERY_EXECUTION, str(error)) if error.code is ErrorCode.QUERY_VALIDATION else error


def _by_distinct_rows(name: str, body: Body, columns: Sequence[Vector], returns: DataType) -> Vector:
    codes, rows = distinct_rows(columns)
    results = []
    for row in watched(rows, sum(column.values.nbytes for column in columns)):
        try:
            results.append(body(*row))
        except QueryError:
            raise
        except Exception as error:  # the function may be a user's own, and raise anything
            shown = ", ".join(map(shown_value, row))
            detail = str(error) if isinstance(error, (ValueError, ArithmeticError)) else repr(error)
            raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function '{name}' of ({shown}): {detail}") from error
    missing = np.array([value is None for value in results], dtype=np.bool_)
    filled = [placeholder(returns) if value is None else value for value in results]
    try:
        values = array_of(filled, returns)
    except (TypeError, ValueError, OverflowError) as error:  # includes Arrow's errors
        raise QueryError(
            ErrorCode.QUERY_EXECUTION, f"Function '{name}': a result is not {returns.value}: {error}"
        ) from error
    return Vector(returns, take(values, codes), None, missing[codes] if missing.any() else None)

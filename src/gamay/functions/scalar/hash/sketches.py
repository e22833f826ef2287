"""Sketches of single values, and functions of serialised sketches, for ingestion and for results of queries.

The creators make a sketch of one value, as BYTES, which aggregates merge; of null they make an empty one. The union,
intersection and difference functions combine sketches row by row; they take BYTES and the texts that `…RAW…` aggregates
return; an empty byte string is an empty sketch. `gamay.functions.sketch` documents the formats.
"""

import base64
import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arguments import check_count, wrong
from gamay.functions.convert import by_distinct, convert, to_vector
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.define import ANY, Body, scalar, type_of
from gamay.functions.sketch import compact, cpc, deferred, entries, hll, ull
from gamay.functions.sketch.entries import Entries, Mode
from gamay.functions.sketch.registers import RegisterKind, parse_sketches, rounded
from gamay.functions.vector import Operand, Scalar, Vector, union_nulls
from gamay.model.types import DataType

BYTES, LONG, INT, STRING = DataType.BYTES, DataType.LONG, DataType.INT, DataType.STRING

# Unions retain as many entries as the creators do.
_ENTRIES = 16384
_MOST_SKETCHES = 5
_SHOWN_CHARS = 40


# -- creators


def _creator(name: str, least: int, most: int, default: int, make: Callable[..., Sequence[bytes]], values: int = 1) -> None:
    """Register a function of `values` values and an optional constant from `least` to `most`."""

    def parameter(args: Sequence[object]) -> int:
        if len(args) <= values:
            return default
        argument = args[values]
        number = argument.value if isinstance(argument, Literal | Scalar) else None
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise wrong(name, f"argument {values + 1} must be a whole number from {least} to {most}")
        return number

    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        check_count(name, len(types), values, values + 1)
        for i, (data_type, multi_value) in enumerate(types[:values]):
            if multi_value:
                raise wrong(name, f"argument {i + 1} must be single-value")
            if i == 1 and data_type not in (INT, LONG, DataType.UNKNOWN):
                raise wrong(name, f"argument 2 must be a whole number, not {data_type.value}")
        if len(types) > values:
            parameter(call.args)
        return BYTES, False

    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        result_type(call, [type_of(arg) for arg in args])
        constant = all(isinstance(arg, Scalar) for arg in args)
        columns = [args[0], *(convert(arg, LONG) for arg in args[1:values])]
        vectors = [to_vector(arg, 1 if constant else num_rows) for arg in columns]
        nulls = np.logical_or.reduce(
            [vector.nulls for vector in vectors if vector.nulls is not None] or [np.zeros(1, np.bool_)]
        )
        sketches = make(vectors, parameter(args), np.broadcast_to(nulls, len(vectors[0])))
        if constant:
            return Scalar(sketches[0], BYTES)
        return Vector(BYTES, pa.array(sketches, pa.binary()))

    register_scalar([name], ScalarFunction(name, values, values + 1, result_type, compute, accepts_nulls=True))


def _single_entries(vectors: Sequence[Vector], nulls: Array) -> Entries:
    """Return one sketch for each row, of the hash of its value, and the number in the second column, if there is one."""
    hashes = entries.hashes_of(vectors[0])
    rows = np.flatnonzero((hashes != 0) & ~nulls)
    numbers = vectors[1].values[rows].astype(np.int64) if len(vectors) > 1 else None
    seen = np.zeros(len(hashes), np.bool_)
    seen[rows] = True
    thetas = np.full(len(hashes), entries.THETA_MAX, np.uint64)
    return Entries(rows.astype(np.int32), hashes[rows], numbers, thetas, seen)


def _to_theta(vectors: Sequence[Vector], nominal: int, nulls: Array) -> Sequence[bytes]:
    return compact.theta_bytes(_single_entries(vectors, nulls))


def _to_tuple(vectors: Sequence[Vector], lg_k: int, nulls: Array) -> Sequence[bytes]:
    return compact.tuple_bytes(_single_entries(vectors, nulls), Mode.SUM)


def _to_registers(kind_of: Callable[[int], RegisterKind]) -> Callable[..., Sequence[bytes]]:
    def make(vectors: Sequence[Vector], precision: int, nulls: Array) -> Sequence[bytes]:
        kind = kind_of(precision)
        sketches = []
        for position, value, null in zip(*kind.candidates(vectors[0]), nulls, strict=True):
            registers = np.zeros(1 << precision, np.uint8)
            registers[position] = 0 if null else value
            sketches.append(kind.serialize(registers))
        return sketches

    return make


def _to_cpc(vectors: Sequence[Vector], lg_k: int, nulls: Array) -> Sequence[bytes]:
    if vectors[0].type is BYTES:
        raise wrong("toCpcSketch", "the library does not hash BYTES; write toCpcSketch(bytesToHex(x))")
    vector = cpc.hashable(vectors[0])
    sketches: list[Any] = [None] * len(vector)
    rows = np.flatnonzero((cpc.coupons(vector, lg_k) >= 0) & ~nulls)
    cpc.add_values(sketches, rows, vector, rows, lg_k)
    empty = deferred.datasketches().cpc_sketch(lg_k).serialize()
    return [empty if sketch is None else sketch.serialize() for sketch in sketches]


_creator("toThetaSketch", 16, 1 << 26, _ENTRIES, _to_theta)
_creator("toIntegerSumTupleSketch", 4, 26, 14, _to_tuple, values=2)
_creator("toCpcSketch", 4, 26, cpc.DEFAULT_LG_K, _to_cpc)
_creator("toHLL", hll.LOG2M_RANGE[0], hll.LOG2M_RANGE[-1], hll.DEFAULT_LOG2M, _to_registers(hll.HllKind))
_creator("toULL", ull.PRECISION_RANGE[0], ull.PRECISION_RANGE[-1], ull.DEFAULT_PRECISION, _to_registers(ull.UllKind))


# -- sketches as arguments

_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2})*")


def _check_sketch(name: str, position: int, given: ValueType) -> None:
    data_type, multi_value = given
    if multi_value or data_type not in (BYTES, STRING, DataType.UNKNOWN):
        shown = f"{data_type.value}{'_ARRAY' if multi_value else ''}"
        raise wrong(name, f"argument {position} must be a sketch, BYTES or the result of a RAW aggregate, not {shown}")


def _sketch_bytes(name: str, vector: Vector) -> pa.Array:
    """Return the bytes of sketches; texts are hexadecimal or base64, as aggregates write them (no sketch is both)."""
    if vector.type is BYTES:
        return vector.values

    def decoded(text: str) -> bytes:
        if _HEXADECIMAL.fullmatch(text):
            return bytes.fromhex(text)
        try:
            return base64.b64decode(text, validate=True)
        except ValueError:  # of characters beyond ASCII, and what is no Base64
            shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
            raise QueryError(
                ErrorCode.QUERY_EXECUTION, f"Function '{name}': '{shown}' is not a sketch in hexadecimal or base64"
            ) from None

    return by_distinct(vector.values, decoded, BYTES)


def _of_sketches(name: str, least: int, most: int, returns: DataType) -> Callable[[Body], Body]:
    """Register a function of `least` to `most` columns of sketches."""

    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        for position, given in enumerate(types, 1):
            _check_sketch(name, position, given)
        return returns, False

    def decorate(function: Body) -> Body:
        @wraps(function)
        def body(*columns: Vector) -> Any:
            return function(*(_sketch_bytes(name, column) for column in columns))

        scalar(name, params=(ANY,) * most, returns=result_type, optional=most - least)(body)
        return function

    return decorate


@_of_sketches("fromULL", 1, 1, LONG)
def from_ull(sketches: pa.Array) -> Array:
    """The estimate of an UltraLogLog sketch."""
    kind = ull.UllKind()
    registers = parse_sketches(kind, sketches)
    return kind.estimate(registers) if registers.shape[1] else np.zeros(len(sketches), np.int64)


# -- theta sketches


def _thetas(sketches: pa.Array) -> Entries:
    return compact.theta_entries(sketches.to_pylist())


def _binary(sketches: Sequence[bytes]) -> pa.Array:
    return pa.array(sketches, pa.binary())


def _from_two_to_five(name: str, merge: Callable[[list[pa.Array]], pa.Array]) -> None:
    _of_sketches(name, 2, _MOST_SKETCHES, BYTES)(lambda *columns: merge(list(columns)))


_from_two_to_five(
    "thetaSketchUnion",
    lambda columns: _binary(compact.theta_bytes(entries.union([_thetas(column) for column in columns], _ENTRIES))),
)
_from_two_to_five(
    "thetaSketchIntersect",
    lambda columns: _binary(compact.theta_bytes(entries.intersection([_thetas(column) for column in columns]))),
)


@_of_sketches("thetaSketchDiff", 2, 2, BYTES)
def theta_sketch_diff(left: pa.Array, right: pa.Array) -> pa.Array:
    """The values of the first sketch that are not in the second."""
    return _binary(compact.theta_bytes(entries.difference(_thetas(left), _thetas(right))))


@_of_sketches("getThetaSketchEstimate", 1, 1, LONG)
def theta_sketch_estimate(sketches: pa.Array) -> Array:
    return rounded(entries.estimates(_thetas(sketches)))


@_of_sketches("thetaSketchToString", 1, 1, STRING)
def theta_sketch_to_string(sketches: pa.Array) -> pa.Array:
    """The library's description of a sketch."""

    def text(data: bytes) -> str:
        read = compact.theta_bytes(compact.theta_entries([data]))[0]
        return str(deferred.datasketches().compact_theta_sketch.deserialize(read).to_string())

    return by_distinct(sketches, text, STRING)


# -- integer tuple sketches


def _tuples(sketches: pa.Array) -> Entries:
    return compact.tuple_entries(sketches.to_pylist())


def _tuple_intersection(mode: Mode) -> Body:
    def body(left: pa.Array, right: pa.Array) -> pa.Array:
        return _binary(compact.tuple_bytes(entries.intersection([_tuples(left), _tuples(right)], mode), mode))

    return body


def _register_tuple_union(name: str, mode: Mode) -> None:
    """Register `union(a, b)`, or `union(n, a, b)` with the number of entries to retain."""

    def most(first: object) -> int:
        number = first.value if isinstance(first, Literal | Scalar) else None
        if isinstance(number, bool) or not isinstance(number, int) or not 16 <= number <= 1 << 26:
            raise wrong(name, f"argument 1 of 3 must be a whole number from 16 to {1 << 26}")
        return number

    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        check_count(name, len(types), 2, 3)
        if len(types) == 3:
            most(call.args[0])
        for position, given in enumerate(types[-2:], len(types) - 1):
            _check_sketch(name, position, given)
        return BYTES, False

    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        result_type(call, [type_of(arg) for arg in args])
        columns = [_sketch_bytes(name, to_vector(arg, num_rows)) for arg in args[-2:]]
        merged = entries.union([_tuples(column) for column in columns], most(args[0]) if len(args) == 3 else _ENTRIES, mode)
        return Vector(BYTES, _binary(compact.tuple_bytes(merged, mode)), None, union_nulls(args))

    register_scalar([name], ScalarFunction(name, 2, 3, result_type, compute, can_fold=False))


for _mode in Mode:
    _word = _mode.name.capitalize()
    _register_tuple_union(f"int{_word}TupleSketchUnion", _mode)
    _of_sketches(f"int{_word}TupleSketchIntersect", 2, 2, BYTES)(_tuple_intersection(_mode))


@_of_sketches("intSumTupleSketchDiff", 2, 2, BYTES)
def tuple_sketch_diff(left: pa.Array, right: pa.Array) -> pa.Array:
    """The keys of the first sketch that are not in the second, with their numbers."""
    return _binary(compact.tuple_bytes(entries.difference(_tuples(left), _tuples(right)), Mode.SUM))


@_of_sketches("getIntTupleSketchEstimate", 1, 1, LONG)
def tuple_sketch_estimate(sketches: pa.Array) -> Array:
    return rounded(entries.estimates(_tuples(sketches)))


# -- CPC sketches


def _cpc_union(columns: list[pa.Array]) -> pa.Array:
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    parsed = [[sketch for data in row if (sketch := cpc.parse(data)) is not None] for row in rows]
    sizes = [max((sketch.lg_k for sketch in sketches), default=cpc.DEFAULT_LG_K) for sketches in parsed]
    return _binary([cpc.united(sketches, lg_k).serialize() for sketches, lg_k in zip(parsed, sizes, strict=True)])


_from_two_to_five("cpcSketchUnion", _cpc_union)


@_of_sketches("getCpcSketchEstimate", 1, 1, LONG)
def cpc_sketch_estimate(sketches: pa.Array) -> Array:
    def estimate(data: bytes) -> int:
        sketch = cpc.parse(data)
        return 0 if sketch is None else round(sketch.get_estimate())

    return np.asarray(by_distinct(sketches, estimate, LONG))


@_of_sketches("cpcSketchToString", 1, 1, STRING)
def cpc_sketch_to_string(sketches: pa.Array) -> pa.Array:
    """The library's description of a sketch."""

    def text(data: bytes) -> str:
        sketch = cpc.parse(data)
        return str((deferred.datasketches().cpc_sketch(cpc.DEFAULT_LG_K) if sketch is None else sketch).to_string())

    return by_distinct(sketches, text, STRING)

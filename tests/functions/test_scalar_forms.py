"""Every scalar function gives the same results for batches, single rows, dictionaries, and rows beside nulls."""

import itertools
import math
import zlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import gamay.sql.parser  # noqa: F401 - names itself to functions that take conditions
from gamay.base.errors import QueryError
from gamay.functions import registry
from gamay.functions.convert import array_of
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType as D

ROWS = 4
COLUMNS: dict[str, tuple[D, list[Any]]] = {
    "i": (D.INT, [3, -7, 0, 2**31 - 1]),
    "l": (D.LONG, [10**12, -5, 0, 2**62]),
    "d": (D.DOUBLE, [0.5, -2.25, 1e10, 7.0]),
    "f": (D.FLOAT, [0.5, -2.5, 100.0, 0.25]),
    "dec": (D.BIG_DECIMAL, [Decimal("1.50"), Decimal(-3), Decimal("1e20"), Decimal(0)]),
    "b": (D.BOOLEAN, [True, False, True, True]),
    "ts": (D.TIMESTAMP, [1714552200123, 0, -86400001, 1583020800000]),
    "s": (D.STRING, ["Hello World", "", "é😀x", "a,b,,c"]),
    "url": (D.STRING, ["https://user@www.example.co.uk:81/a/b?x=1&y=2#f", "no", "http://h", "ftp://a.b.c/d"]),
    "js": (D.JSON, ['{"a":{"b":[1,2]},"c":"x"}', "[1,2,3]", "{}", "null"]),
    "y": (D.BYTES, [b"abc", b"", b"\xff\x00", b"hello"]),
    "ip": (D.STRING, ["10.0.0.1", "192.168.1.255", "1.2.3.4", "127.0.0.1"]),
    "u": (D.STRING, ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"] * ROWS),
    "hex": (D.STRING, ["ff", "0a", "1234", "00"]),
    "wkt": (D.STRING, ["POINT (1 2)", "POINT (0 0)", "POINT (-3 4.5)", "POINT (9 9)"]),
}
LISTS: dict[str, tuple[D, list[list[Any]]]] = {
    "mi": (D.INT, [[1, 2, 2], [5], [3, 1], [0, -1]]),
    "ml": (D.LONG, [[1, 2], [5], [3, 1], [0, -1]]),
    "ms": (D.STRING, [["a", "b"], ["x"], ["", ""], ["é", "a"]]),
    "md": (D.DOUBLE, [[0.5, 1.5], [2.0], [1e10], [-1.0, 0.0]]),
}
LITERALS = (2, -1, 0, 1.5, "DAY", "yyyy-MM-dd", "UTF-8", "UTC", "$.a.b", "STRING", "1d", "MILLISECONDS", "x", "10.0.0.0/8")
POOL: tuple[Expression, ...] = (
    *map(Column, (*COLUMNS, *LISTS)),
    *(Literal(v, {int: D.INT, float: D.DOUBLE, str: D.STRING}[type(v)]) for v in LITERALS),
)
NAMES = sorted(
    registry.canonical_name(name)
    for name in registry.function_names()
    if registry.scalar_function(name) and not name.lower().startswith("test")  # those are registered by other tests
)
DIFFER = {"rand", "uuidv4", "uuidv7", "now", "ago", "sleep"}
TRIES, CALLS = 250, 8
NULLS = np.array([False, True, False, True])


def column_type(name: str) -> tuple[D, bool]:
    return (COLUMNS.get(name) or LISTS[name])[0], name in LISTS


def column(name: str, rows: Sequence[int] = range(ROWS), nulls: Any = None) -> Vector:
    data_type, values = COLUMNS.get(name) or LISTS[name]
    chosen = [values[row] for row in rows]
    if name not in LISTS:
        return Vector(data_type, array_of(chosen, data_type), None, nulls)
    flat = array_of([value for row in chosen for value in row], data_type)
    return Vector(data_type, flat, np.cumsum([0, *map(len, chosen)]).astype(np.int32), nulls)


def encoded(name: str) -> EncodedVector:
    data_type, values = COLUMNS.get(name) or LISTS[name]
    flat = [value for row in values for value in row] if name in LISTS else values
    entries = sorted(set(flat))
    ids = np.array([entries.index(value) for value in flat], np.uint8)
    return EncodedVector(ids, Vector(data_type, array_of(entries, data_type)), column(name).offsets)


def listed(result: Operand, count: int) -> list[Any]:
    if isinstance(result, Scalar):
        return [result.value] * count
    vector = result.decode() if isinstance(result, EncodedVector) else result
    values = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
    if vector.offsets is not None:
        values = [values[a:b] for a, b in itertools.pairwise(vector.offsets.tolist())]
    return [None if vector.nulls is not None and vector.nulls[i] else value for i, value in enumerate(values)]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (left != left and right != right) or math.isclose(left, right, rel_tol=1e-9)
    return type(left) is type(right) and bool(left == right)


def calls(name: str) -> Iterator[Call]:
    """Yield some calls of a function with at least one column, the same ones in each run."""
    function = registry.must_get_scalar(name)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for count in range(max(function.min_args, 1), min(function.max_args or 9, function.min_args + 2, 5) + 1):
        chosen = [[i] for i in range(len(POOL))] if count == 1 else rng.integers(0, len(POOL), (TRIES, count)).tolist()
        found = 0
        for row in chosen:
            call = Call(name, tuple(POOL[i] for i in row))
            if found == CALLS or not any(isinstance(arg, Column) for arg in call.args):
                continue
            try:
                result_type(call, column_type)
            except QueryError:
                continue
            found += 1
            yield call


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DIFFER])
def test_forms_of_arguments_agree(name: str) -> None:
    function = registry.must_get_scalar(name)
    for call in calls(name):
        try:
            together = listed(evaluate(call, column, ROWS), ROWS)
        except QueryError:
            continue

        def of_row(row: int, call: Call = call) -> Any:
            return listed(evaluate(call, lambda name: column(name, [row]), 1), 1)[0]

        assert same(together, [of_row(row) for row in range(ROWS)]), call
        assert same(together, listed(evaluate(call, encoded, ROWS), ROWS)), call
        first = next(arg.name for arg in call.args if isinstance(arg, Column))
        if not function.accepts_nulls:
            beside = evaluate(call, lambda name, first=first: column(name, nulls=NULLS if name == first else None), ROWS)  # type: ignore[misc]
            assert same([None if NULLS[i] else value for i, value in enumerate(together)], listed(beside, ROWS)), call

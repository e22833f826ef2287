"""Every scalar function with arguments of every type: a result of the announced type and length, or a QueryError."""

import itertools
import zlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import gamay.sql.parser  # noqa: F401 - names itself to functions that take conditions
from gamay.base.errors import QueryError
from gamay.functions import registry
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType

ROWS = 3
NULLS = np.array([False, True, False])
COLUMNS: dict[str, Operand] = {
    "int": Vector(DataType.INT, np.array([-(2**31), 0, 2**31 - 1], np.int32)),
    "long": Vector(DataType.LONG, np.array([-(2**63), 7, 2**63 - 1]), None, NULLS),
    "double": Vector(DataType.DOUBLE, np.array([np.nan, -np.inf, 1.5])),
    "decimal": Vector(DataType.BIG_DECIMAL, np.array([Decimal("1e50"), Decimal(0), Decimal("-0.1")], dtype=object)),
    "boolean": Vector(DataType.BOOLEAN, np.array([True, False, True])),
    "time": Vector(DataType.TIMESTAMP, np.array([0, -(2**63), 4 * 10**12])),
    "text": Vector(DataType.STRING, pa.array(["", "é😀 (", "12"])),
    "encoded": EncodedVector(np.array([1, 0, 1], np.uint8), Vector(DataType.STRING, pa.array(["(", "2024-01-01"]))),
    "json": Vector(DataType.JSON, pa.array(["{}", "[1]", "no"])),
    "bytes": Vector(DataType.BYTES, pa.array([b"", b"\xff\x00", b"abc"])),
    "ints": Vector(DataType.INT, np.array([1, 2, 2], np.int32), np.array([0, 0, 2, 3], np.int32)),
    "texts": Vector(DataType.STRING, pa.array(["a", "", "é"]), np.array([0, 1, 3, 3], np.int32)),
}
LITERALS = (
    Literal(-1, DataType.INT),
    Literal(2**63 - 1, DataType.LONG),
    Literal(0.5, DataType.DOUBLE),
    Literal("DAY", DataType.STRING),
    Literal("yyyy", DataType.STRING),
    Literal("", DataType.STRING),
    Literal(True, DataType.BOOLEAN),
    Literal(None, DataType.UNKNOWN),
)
POOL: tuple[Expression, ...] = (*map(Column, COLUMNS), *LITERALS)
NAMES = [name for name in registry.function_names() if registry.scalar_function(name) is not None]
SLOW = {"sleep"}  # its result is the time that passes


def column_type(name: str) -> tuple[DataType, bool]:
    column = COLUMNS[name]
    assert not isinstance(column, Scalar)
    return column.type, column.offsets is not None


def calls(name: str) -> list[Call]:
    """Return the calls with one argument, and some of the others, the same ones in each run."""
    function = registry.must_get_scalar(name)
    found = []
    for count in range(function.min_args, min(function.max_args or function.min_args + 1, function.min_args + 2, 5) + 1):
        if len(POOL) ** count <= 100:
            found += [Call(function.name.lower(), args) for args in itertools.product(POOL, repeat=count)]
            continue
        rng = np.random.default_rng(zlib.crc32(f"{name} {count}".encode()))
        chosen = rng.integers(0, len(POOL), (60, count)).tolist()
        found += [Call(function.name.lower(), tuple(POOL[k] for k in row)) for row in chosen]
    return [Call(registry.canonical_name(name), call.args) for call in found]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SLOW])
def test_any_arguments(name: str) -> None:
    for call in calls(name):
        try:
            announced = result_type(call, column_type)
            result = evaluate(call, COLUMNS.__getitem__, ROWS)
        except QueryError:
            continue
        multi_value = not isinstance(result, Scalar) and result.offsets is not None
        assert (result.type, multi_value) == announced or result.type is DataType.UNKNOWN, call
        assert isinstance(result, Scalar) or len(result) == ROWS, call

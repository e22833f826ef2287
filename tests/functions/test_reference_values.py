"""Scalar functions return the values of the SQL reference: the rows of `reference_values.txt`."""

import ast
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gamay.sql.parser
from gamay.base.errors import QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.vector import EncodedVector, Scalar, Vector
from gamay.model.types import DataType

ROWS = [
    tuple(line.split("  =>  "))
    for line in (Path(__file__).parent / "reference_values.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
K = Vector(DataType.INT, np.array([1], np.int32))


def value_of(text: str) -> Any:
    """Compute an expression for one row."""
    expression = gamay.sql.parser.parse_expression(text)
    result_type(expression, lambda name: (DataType.INT, False))
    result = evaluate(expression, lambda name: K, 1)
    if isinstance(result, Scalar):
        return result.value
    vector = result.decode() if isinstance(result, EncodedVector) else result
    values = vector.values.tolist() if isinstance(vector.values, np.ndarray) else vector.values.to_pylist()
    return values if vector.is_multi_value else values[0]


@pytest.mark.parametrize(("text", "expected"), ROWS, ids=[text for text, _ in ROWS])
def test_value(text: str, expected: str) -> None:
    if expected == "ERROR":
        with pytest.raises(QueryError):
            value_of(text)
        return
    value = value_of(text)
    if expected == "NaN":
        assert math.isnan(value)
        return
    wanted = ast.literal_eval(expected)
    assert type(value) is type(wanted)
    assert value == (pytest.approx(wanted, rel=1e-9) if isinstance(wanted, float) else wanted)

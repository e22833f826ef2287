"""Comparisons of the results of jsonExtractScalar and jsonExtractIndex with constants, as lookups of terms.

The index has the text of a value, but not whether it was a number or a numeric string, so conversions are left to the
function: lookups of numbers give candidates, those of texts exact answers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.errors import QueryError
from gamay.base.recently_used import remembered
from gamay.functions.convert import to_vector
from gamay.functions.evaluate import evaluate_entries
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.scalar.json.match import number_in
from gamay.functions.scalar.json.path import Extraction
from gamay.functions.scalar.json.steps import MISSING, path_steps
from gamay.functions.vector import Vector
from gamay.model.index.json_index import Levels
from gamay.model.types import DataType
from gamay.segment.spi import Ids

_FUNCTIONS = ("jsonextractscalar", "jsonextractscalarfast", "jsonextractscalarfirstmatch", "jsonextractscalarfory")
_INDEX = "jsonextractindex"
# From these magnitudes on, numbers of a type may be truncated, rounded or rejected.
_SAFE = {DataType.INT: 2.0**31, DataType.LONG: 2.0**53, DataType.DOUBLE: 2.0**53}
_WHOLE = (DataType.INT, DataType.LONG)
_LARGE = 2.0**63


@dataclass(frozen=True)
class Comparison:
    """A comparison of the value at a path of names and positions with constants.

    texts: the constants, if texts are compared for equality. ranges: else the ranges [lower, upper] of matching numbers.
    if_missing: whether it holds for a document without a value at the path; None if that is an error.
    """

    levels: Levels
    has_positions: bool
    type: DataType
    texts: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]
    if_missing: bool | None

    def may_fit(self, numbers: Ids) -> Ids:
        """Return which terms may satisfy a comparison of numbers, given the number of each, NaN for none: bool [n]."""
        slack = 1.0 if self.type in _WHOLE else 0.0  # fractions are truncated
        fits = ~(np.abs(numbers) < _SAFE[self.type])
        for lower, upper in self.ranges:
            fits |= (numbers >= lower - slack) & (numbers <= upper + slack)
        return fits


@remembered()
def comparison(condition: Call, column: Column) -> Comparison | None:
    """Return a condition as a comparison; None if it is not one, or if the index cannot answer it."""
    extraction = _extraction(condition.args[0], column) if condition.args else None
    if extraction is None or extraction.multi_value:
        return None
    steps = path_steps(extraction.path)
    constants = [arg.value for arg in condition.args[1:] if isinstance(arg, Literal)]
    if len(constants) != len(condition.args) - 1 or any(kind not in ("key", "index") for kind, _ in steps):
        return None
    levels = tuple(name if kind == "key" else None for kind, name in steps)
    texts, ranges = _wanted(condition.name, extraction, constants)
    if not texts and not ranges:
        return None
    return Comparison(levels, None in levels, extraction.type, texts, ranges, _if_missing(condition))


def _extraction(call: Expression, column: Column) -> Extraction | None:
    if not isinstance(call, Call) or call.args[:1] != (column,):
        return None
    if call.name in _FUNCTIONS or (call.name == _INDEX and len(call.args) <= 4):
        return Extraction.of(call.name, call, 4)
    return None


def _wanted(
    name: str, extraction: Extraction, constants: Sequence[object]
) -> tuple[tuple[str, ...], tuple[tuple[float, float], ...]]:
    """Return the texts, or the ranges of numbers, to compare with; neither if the index cannot decide."""
    if extraction.type is DataType.STRING:
        texts = tuple(constant for constant in constants if isinstance(constant, str) and _is_scalar(constant))
        return (texts if name in ("equals", "in") and len(texts) == len(constants) else ()), ()
    # without a default, an unconvertible value is an error, which is found only by reading all documents
    if extraction.type not in _SAFE or extraction.default is MISSING:
        return (), ()
    numbers = [float(c) for c in constants if isinstance(c, int | float) and not isinstance(c, bool)]
    if len(numbers) != len(constants):
        return (), ()
    match name:
        case "equals" | "in":
            return (), tuple((number, number) for number in numbers)
        case "lessthan" | "lessthanorequal":
            return (), ((-math.inf, numbers[0]),)
        case "greaterthan" | "greaterthanorequal":
            return (), ((numbers[0], math.inf),)
        case "between":
            return (), ((numbers[0], numbers[1]),)
    return (), ()


def _is_scalar(text: str) -> bool:
    """Whether a text can only be that of a scalar that has a unique textual form."""
    number = number_in(text)
    return not text.startswith(("{", "[")) and (number is None or abs(number) < _LARGE)


def _if_missing(condition: Call) -> bool | None:
    try:
        found = evaluate_entries(condition, Vector(DataType.STRING, pa.array(["null"])))
    except QueryError:
        return None
    flags = to_vector(found, 1)
    return bool(flags.values[0]) and (flags.nulls is None or not flags.nulls[0])

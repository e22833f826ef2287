"""Keys computed from one dictionary column: `GROUP BY year(ts)` computes the year once for each dictionary entry.

The result is a column with a smaller dictionary: each id of the column maps to a code of the result.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.distinct.coding import HashNumbers, from_bits, to_bits
from gamay.functions.aggregate.totals.totals import unsigned
from gamay.functions.evaluate import evaluate_entries, with_null_entry
from gamay.functions.expression import Call, Column, Expression, column_names, walk
from gamay.functions.registry import scalar_function
from gamay.functions.vector import EncodedVector, Operand, Vector, sorted_distinct, take
from gamay.kernels.group.grouping import recode
from gamay.kernels.rows.masks import replace_marked
from gamay.model.types import DataType
from gamay.query.filter.calendar import calendar_steps
from gamay.query.groupby.numbering import unsigned_for
from gamay.query.groupby.states import Evaluate

# more entries are sorted only if there is memory for copies of them and for their positions
_RESERVED_ENTRIES = 1 << 16
_SORTED_FACTOR = 3
_CODE_BYTES = 32


@dataclass(frozen=True, slots=True, eq=False)
class CodedKey:
    """A key that is grouped by the codes of a dictionary.

    codes: the code of each id of `column`, and of null if the column has nulls; None if the ids are the codes.
    is_multi_value: whether rows hold lists of ids. is_nullable: whether null has a code, after those of the dictionary.
    """

    column: Column
    dictionary: Vector
    codes: Array | None
    is_multi_value: bool = False
    is_nullable: bool = False

    @property
    def cardinality(self) -> int:
        """The number of codes."""
        return len(self.dictionary) + self.is_nullable

    def of(self, operand: Operand) -> Array:
        """Return the code of each row, given the column's operand."""
        if not isinstance(operand, EncodedVector):
            raise TypeError(f"column '{self.column.name}' was read without its dictionary")
        if self.codes is None:
            return _marked(operand, len(self.dictionary))
        ids = _marked(operand, len(self.codes) - 1)
        out = np.empty(len(ids), self.codes.dtype)
        recode(ids, self.codes, out)
        return out

    def decode(self, codes: Array) -> EncodedVector:
        """Return the values of codes."""
        nulls = None
        if self.is_nullable:
            nulls = codes == len(self.dictionary)
            codes = np.where(nulls, 0, codes)
        return EncodedVector(codes.astype(unsigned_for(len(self.dictionary))), self.dictionary, None, nulls)


def _marked(operand: EncodedVector, null_id: int) -> Array:
    """Return the ids, with an additional id for null."""
    if operand.nulls is None:
        return operand.ids
    ids = np.empty(len(operand.ids), unsigned_for(null_id + 1))
    replace_marked(unsigned(operand.ids), operand.nulls.view(np.uint8), ids.dtype.type(null_id), ids)
    return ids


def coded_key(key: Expression, probe: Evaluate, rows: int) -> CodedKey | None:
    """Return a key as codes if it is a dictionary column or computed from a single-value one; else None.

    probe: evaluates on no rows, which shows how a column is stored. rows: the approximate number of rows; a larger
    dictionary is not worth computing.
    """
    names = column_names(key)
    if len(names) != 1:
        return None
    column = Column(names[0])
    operand = probe(column)
    if not isinstance(operand, EncodedVector):
        return None
    if isinstance(key, Column):
        return CodedKey(column, operand.dictionary, None, operand.offsets is not None, operand.nulls is not None)
    if operand.offsets is not None:
        return None
    if len(operand.dictionary) > rows or not _is_deterministic(key):
        return None
    dictionary = operand.dictionary
    steps = calendar_steps(key, dictionary.type, dictionary.values) if dictionary.ascends else None
    entries = dictionary if steps is None else steps.starts
    results = _results(key, entries if operand.nulls is None else with_null_entry(entries))
    if results is None or (operand.nulls is None and results.nulls is not None):
        return None
    distinct, codes = _distinct(results)
    if results.nulls is not None:
        codes[results.nulls] = len(distinct)
    codes = codes.astype(unsigned_for(len(distinct) + 1))
    if steps is not None:  # the code of null, if any, comes after them
        codes = np.concatenate([np.repeat(codes[: len(entries)], steps.counts), codes[len(entries) :]])
    return CodedKey(column, Vector(results.type, distinct, ascends=True), codes, is_nullable=results.nulls is not None)


def _distinct(results: Vector | EncodedVector) -> "tuple[Any, Array]":
    """Return the distinct values, ascending, and the position of each value among them."""
    if isinstance(results, EncodedVector):
        return results.dictionary.values, results.ids
    if len(results) > _RESERVED_ENTRIES:
        guard.reserve("distinct values", _SORTED_FACTOR * results.values.nbytes + _CODE_BYTES * len(results))
    if not isinstance(results.values, np.ndarray):
        return sorted_distinct(results)
    # Often many entries have few distinct values: sorting two million days takes 120 ms, numbering them and sorting the
    # numbers 15.
    numbers = HashNumbers()
    codes = numbers.number(to_bits(results.values))
    distinct, places = sorted_distinct(Vector(results.type, from_bits(results.type, numbers.keys)))
    return distinct, take(places, codes)


def _results(key: Expression, entries: Vector) -> Vector | EncodedVector | None:
    """Return the key's value for each entry; None if not every entry has a single value, or if one fails that may have no
    row."""
    try:
        results = evaluate_entries(key, entries)
    except QueryError as error:
        if error.code is ErrorCode.QUERY_EXECUTION:
            return None
        raise
    if isinstance(results, EncodedVector):
        if results.dictionary.ascends and results.offsets is None and results.nulls is None:
            return results
        results = results.decode()
    if not isinstance(results, Vector) or results.offsets is not None:
        return None
    if results.type in (DataType.FLOAT, DataType.DOUBLE):
        return Vector(results.type, results.values + 0.0, None, results.nulls)  # -0.0 is 0.0
    return results if isinstance(results.values, pa.Array) or results.type.is_fixed_width else None


def _is_deterministic(key: Expression) -> bool:
    functions = [scalar_function(part.name) for part in walk(key) if isinstance(part, Call)]
    return all(function is not None and function.is_deterministic for function in functions)

"""Expressions of the ingestion config: computed columns and the filter."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError, QueryError
from gamay.functions.arrow import arrow_type
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.expression import Call, Column, Expression, Star, column_names, walk
from gamay.functions.items import with_typed_items
from gamay.functions.registry import is_aggregate, must_get_scalar
from gamay.functions.vector import Vector
from gamay.ingest.convert.arrays import Mask, compute_each
from gamay.ingest.convert.values import convert
from gamay.ingest.transform.operands import data_type_of, to_arrow, to_vector
from gamay.ingest.transform.rows import Failures, Rows, describe_value
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import BUILT_IN_COLUMNS, Schema
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression


@dataclass(frozen=True, slots=True)
class Transform:
    """A column and the expression that computes it; `what` describes it in messages."""

    column: str
    text: str
    expression: Expression
    what: str


def parse_transform(column: str, text: str, what: str) -> Transform:
    """Parse the expression of a column; raises InvalidConfigError, also for functions that do not apply to single rows."""
    try:
        expression = parse_expression(text)
        for part in walk(expression):
            _check_part(part, what)
    except QueryError as error:
        raise InvalidConfigError(f"{what}: {error}") from error
    if column in column_names(expression):
        raise InvalidConfigError(f"{what}: the function {text!r} takes its own result '{column}' as an argument")
    return Transform(column, text, expression, what)


def _check_part(part: Expression, what: str) -> None:
    """Raise InvalidConfigError or QueryError for a part that cannot be computed from an input row."""
    if isinstance(part, Star):
        raise InvalidConfigError(f"{what}: * cannot stand here; name the fields that are read")
    if isinstance(part, Column) and part.name in BUILT_IN_COLUMNS:
        raise InvalidConfigError(f"{what}: '{part.name}' cannot stand here, for it is of rows that are in a segment")
    if isinstance(part, Call) and is_aggregate(part.name):
        raise InvalidConfigError(f"{what}: the aggregate {part.name} cannot stand here, for it is not of one row")
    if isinstance(part, Call) and (function := must_get_scalar(part.name)).not_of_rows:
        raise InvalidConfigError(f"{what}: Function '{function.name}': {function.not_of_rows}")


def in_order_of_dependency(transforms: Sequence[Transform]) -> list[Transform]:
    """Return the transforms ordered so that each follows those it reads from; raises InvalidConfigError for a cycle."""
    by_column = {t.column: t for t in transforms}
    ordered: dict[str, Transform] = {}

    def visit(transform: Transform, path: tuple[str, ...]) -> None:
        if transform.column in path:
            circle = " -> ".join((*path[path.index(transform.column) :], transform.column))
            raise InvalidConfigError(f"the transforms depend on each other in a circle: {circle}")
        if transform.column in ordered:
            return
        for name in column_names(transform.expression):
            if name in by_column:
                visit(by_column[name], (*path, transform.column))
        ordered[transform.column] = transform

    for transform in transforms:
        visit(transform, ())
    return list(ordered.values())


class Evaluator:
    """An evaluator of expressions over rows whose columns may not be converted yet.

    A schema column is converted to its type (values that cannot be are null here, and reported when the column itself is
    converted); other columns have the type of the input; a missing column is null.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.multi_value_delimiter: str | None = None

    def check(self, transform: Transform, *, is_condition: bool = False) -> None:
        """Raise InvalidConfigError for an expression that cannot be valid for any row, as far as the schema shows."""
        if any(name not in self._schema for name in column_names(transform.expression)):
            return
        specs = {name: self._schema.field(name) for name in column_names(transform.expression)}
        _, kind, is_multi_value = self._typed(transform, lambda name: (specs[name].data_type, not specs[name].single_value))
        if is_condition and kind not in (DataType.UNKNOWN, DataType.OBJECT):
            _check_condition(transform, arrow_type(kind, not is_multi_value))

    def _typed(
        self, transform: Transform, type_of: Callable[[str], tuple[DataType, bool]]
    ) -> tuple[Expression, DataType, bool]:
        """Return the expression with types of map values, its result type, and whether that is multi-value.

        Raises InvalidConfigError.
        """
        try:
            expression = with_typed_items(transform.expression, self._field)
            return expression, *result_type(expression, type_of)
        except QueryError as error:
            raise InvalidConfigError(f"{transform.what}: {error}") from error

    def compute(self, transform: Transform, rows: Rows) -> tuple[pa.Array, Mask | None]:
        """Return the result in its own type, and which rows failed; raises InvalidConfigError for an invalid call."""
        named = transform.expression.name if isinstance(transform.expression, Column) else None
        if named is not None and named in rows.columns and named not in self._schema:
            return rows.columns[named], None  # an alias of an input column, converted by the type of its target only
        vectors = {name: self._vector(name, rows) for name in column_names(transform.expression)}
        expression, kind, is_multi_value = self._typed(
            transform, lambda name: (vectors[name].type, vectors[name].is_multi_value)
        )
        if kind in (DataType.UNKNOWN, DataType.OBJECT):
            return pa.nulls(rows.num_rows), None
        target = arrow_type(kind, not is_multi_value)

        def compute(start: int, stop: int) -> pa.Array:
            operand = evaluate(expression, lambda name: _slice(vectors[name], start, stop), stop - start)
            result = to_arrow(operand, stop - start)
            return result if result.type == target else result.cast(target)

        return compute_each(rows.num_rows, compute, target)

    def _field(self, name: str) -> FieldSpec | None:
        return self._schema.field(name) if name in self._schema else None

    def _vector(self, name: str, rows: Rows) -> Vector:
        if name in self._schema:
            spec = self._schema.field(name)
        else:
            source = rows.columns.get(name)
            kind, is_single = data_type_of(pa.string() if source is None else source.type)
            spec = FieldSpec(name, kind, single_value=is_single)
        values, _ = rows.converted(spec, self.multi_value_delimiter)
        return to_vector(values, spec.data_type, spec.single_value)


def _slice(vector: Vector, start: int, stop: int) -> Vector:
    if start == 0 and stop == len(vector):
        return vector
    nulls = None if vector.nulls is None else vector.nulls[start:stop]
    if vector.offsets is None:
        return Vector(vector.type, vector.values[start:stop], None, nulls)
    offsets = vector.offsets[start : stop + 1]
    return Vector(vector.type, vector.values[offsets[0] : offsets[-1]], offsets - offsets[0], nulls)


def fill_columns(
    transforms: Sequence[Transform], rows: Rows, evaluator: Evaluator, schema: Schema, failures: Failures
) -> None:
    """Compute columns in the given order; existing values of the input are kept."""
    for transform in transforms:
        incoming = rows.columns.get(transform.column)
        if incoming is not None and incoming.null_count == 0 and rows.num_rows:
            continue
        computed, failed = evaluator.compute(transform, rows)
        if failed is not None:
            if incoming is not None:
                failed &= np.asarray(pc.is_null(incoming))
            failures.add(rows, failed, _reason(transform, rows))
        if incoming is None or incoming.null_count == rows.num_rows:
            rows.put(transform.column, computed)
        else:
            _fill_gaps(transform.column, incoming, computed, rows, evaluator, schema)


def _fill_gaps(name: str, incoming: pa.Array, computed: pa.Array, rows: Rows, evaluator: Evaluator, schema: Schema) -> None:
    if name in schema:
        spec = schema.field(name)
    else:
        kind, is_single = data_type_of(incoming.type)
        spec = FieldSpec(name, kind, single_value=is_single)
    present, failed = rows.converted(spec, evaluator.multi_value_delimiter)
    filling, filling_failed = convert(computed, spec)
    gaps = np.asarray(pc.is_null(incoming))
    rows.typed[name] = pc.if_else(pa.array(gaps), filling, present), _either(failed, filling_failed, gaps)


def _either(failed: Mask | None, filling_failed: Mask | None, gaps: Mask) -> Mask | None:
    if filling_failed is None:
        return failed
    filling_failed = filling_failed & gaps
    return filling_failed if failed is None else failed | filling_failed


def drop_filtered(transform: Transform, rows: Rows, evaluator: Evaluator, failures: Failures) -> Rows:
    """Return the rows for which the filter function is not true."""
    result, failed = evaluator.compute(transform, rows)
    if failed is not None:
        failures.add(rows, failed, _reason(transform, rows))
    if pa.types.is_null(result.type):
        return rows
    _check_condition(transform, result.type)
    if not pa.types.is_boolean(result.type):
        result = pc.not_equal(result, 0)
    dropped = np.asarray(result.fill_null(False))
    return rows if not dropped.any() else rows.take(np.flatnonzero(~dropped))


def _check_condition(transform: Transform, result: pa.DataType) -> None:
    if not (pa.types.is_boolean(result) or pa.types.is_integer(result)):
        raise InvalidConfigError(f"{transform.what}: {transform.text!r} is not a condition, its result is {result}")


def _reason(transform: Transform, rows: Rows) -> Callable[[int], str]:
    inputs = column_names(transform.expression)
    columns: Mapping[str, pa.Array] = rows.columns

    def reason(row: int) -> str:
        values = ", ".join(f"{name} = {describe_value(columns, name, row)}" for name in inputs)
        return f"{transform.what}: {transform.text!r} cannot be computed for {values}"

    return reason

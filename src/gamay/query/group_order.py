"""Tables of groups after merging: aggregates finished, HAVING, ORDER BY, and the expressions of the SELECT list."""

from collections.abc import Mapping

import numpy as np

from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Expression
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.query.bind import BoundQuery, aggregate_column, grouping_column, key_column
from gamay.query.columns import concat_vectors, take_rows
from gamay.query.constants import repeated
from gamay.query.filter.scan import truth
from gamay.query.groupby.table import GroupTable, KeySet, select_groups
from gamay.query.order import Indices, sort_array, top_rows
from gamay.query.read import as_vector
from gamay.query.selection import Rows


def first_groups(bound: BoundQuery, table: GroupTable) -> GroupTable:
    """Return the first LIMIT + OFFSET groups in the query's order, which must be by keys alone."""
    if table.num_groups <= bound.limit_with_offset:
        return table
    operands: dict[str, Operand] = {key_column(i).name: key for i, key in enumerate(table.keys)}
    return select_groups(table, bound.aggregates, _order(bound, operands, table.num_groups))


def finished_rows(bound: BoundQuery, table: GroupTable) -> Rows:
    """Return the result's columns: groups that satisfy HAVING, in order, with LIMIT and OFFSET applied."""
    operands: dict[str, Operand] = {key_column(i).name: key for i, key in enumerate(table.keys)}
    for i, (aggregate, partial) in enumerate(zip(bound.aggregates, table.partials, strict=True)):
        operands[aggregate_column(i).name] = aggregate.aggregate.finish(partial)
    for i in range(len(bound.groupings)):  # nothing is rolled up
        operands[grouping_column(i).name] = Scalar(0, DataType.INT)
    return _finished(bound, operands, table.num_groups)


def finished_sets(bound: BoundQuery, tables: Mapping[KeySet, GroupTable]) -> Rows:
    """Return the result's columns of GROUPING SETS: the groups of all sets in one table, rolled-up keys null."""
    parts: dict[str, list[Vector]] = {}
    for keys in bound.grouping_sets:
        table = tables[keys]
        for i, (data_type, _) in enumerate(bound.row_types):
            key = as_vector(table.keys[keys.index(i)], table.num_groups) if i in keys else None
            part = repeated(None, data_type, table.num_groups) if key is None else key
            parts.setdefault(key_column(i).name, []).append(part)
        for i, (aggregate, partial) in enumerate(zip(bound.aggregates, table.partials, strict=True)):
            parts.setdefault(aggregate_column(i).name, []).append(aggregate.aggregate.finish(partial))
        for i, arguments in enumerate(bound.groupings):
            bits = "".join("01"[argument not in keys] for argument in arguments)
            parts.setdefault(grouping_column(i).name, []).append(repeated(int(bits, 2), DataType.INT, table.num_groups))
    operands: dict[str, Operand] = {name: concat_vectors(columns) for name, columns in parts.items()}
    return _finished(bound, operands, sum(tables[keys].num_groups for keys in bound.grouping_sets))


def _finished(bound: BoundQuery, operands: dict[str, Operand], num_rows: int) -> Rows:
    if bound.having is not None:
        kept = np.flatnonzero(truth(_computed(bound.having, operands, num_rows), num_rows))
        operands, num_rows = _picked(operands, kept), len(kept)
    if bound.order_by:
        order = _order(bound, operands, num_rows)
        operands, num_rows = _picked(operands, order), len(order)
    window = np.arange(min(bound.offset, num_rows), min(bound.limit_with_offset, num_rows))
    operands, num_rows = _picked(operands, window), len(window)
    return tuple(as_vector(_computed(output, operands, num_rows), num_rows) for output in bound.outputs)


def _order(bound: BoundQuery, operands: Mapping[str, Operand], num_rows: int) -> Indices:
    keys = []
    for key in bound.order_by:
        operand = _computed(key.expression, operands, num_rows)
        sortable = operand if isinstance(operand, EncodedVector) else as_vector(operand, num_rows)
        keys.append(sort_array(sortable, key.descending, key.nulls_last))
    return top_rows(keys, bound.limit_with_offset)


def _computed(expression: Expression, operands: Mapping[str, Operand], num_rows: int) -> Operand:
    return evaluate(expression, operands.__getitem__, num_rows, post_aggregation=True)


def _picked(operands: dict[str, Operand], rows: Indices) -> dict[str, Operand]:
    return {name: _pick(operand, rows) for name, operand in operands.items()}


def _pick(operand: Operand, rows: Indices) -> Operand:
    if isinstance(operand, EncodedVector):
        nulls = None if operand.nulls is None else operand.nulls[rows]
        return EncodedVector(operand.ids[rows], operand.dictionary, None, nulls)
    return take_rows(operand, rows) if isinstance(operand, Vector) else operand

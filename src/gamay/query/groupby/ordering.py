"""Result rows from merged tables of groups: finished aggregates, HAVING, ORDER BY, and the SELECT expressions."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from gamay.base import guard
from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Expression, column_names
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.query.bind.binder import BoundQuery, SortKey, aggregate_column, grouping_column, key_column
from gamay.query.columns.constants import repeated
from gamay.query.columns.operations import concat_vectors, take_rows, truth
from gamay.query.columns.order import Indices, SortArray, candidates, sort_array, top_rows
from gamay.query.groupby.table import GroupTable, KeySet, select_groups
from gamay.query.selection import Rows
from gamay.query.view.read import as_vector

_KEY_PREFIX = "key:"
_TOTAL_ORDER = "order of groups"


def first_groups(bound: BoundQuery, table: GroupTable, size: int, keys: KeySet | None = None) -> GroupTable:
    """Return the first `size` groups in the query's order, or in the order of their keys if the query has none.

    keys: those of a grouping set; None for all.
    """
    if table.num_groups <= size:
        return table
    order_by = _total_order(bound)
    read = {name for key in order_by for name in column_names(key.expression)}
    operands = _operands(bound, table, keys, read)
    return select_groups(table, bound.aggregates, _order(order_by, operands, table.num_groups, size))


def candidate_groups(bound: BoundQuery, table: GroupTable, keys: KeySet | None = None) -> GroupTable:
    """Return those complete groups that may be in the answer: that satisfy HAVING and come first.

    keys: those of a grouping set; None for all.
    """
    if bound.having is not None:
        operands = _operands(bound, table, keys, column_names(bound.having))
        kept = np.flatnonzero(truth(_computed(bound.having, operands, table.num_groups), table.num_groups))
        table = select_groups(table, bound.aggregates, kept)
    if bound.order_by or table.num_groups <= bound.limit_with_offset:
        return first_groups(bound, table, bound.limit_with_offset, keys)
    return select_groups(table, bound.aggregates, np.arange(bound.limit_with_offset))


def finished_rows(bound: BoundQuery, table: GroupTable) -> Rows:
    """Return the result's columns: groups that satisfy HAVING, in order, with LIMIT and OFFSET applied."""
    return _finished(bound, _operands(bound, table, None, None), table.num_groups)


def finished_sets(bound: BoundQuery, tables: Mapping[KeySet, GroupTable]) -> Rows:
    """Return the result's columns of GROUPING SETS: the groups of all sets in one table, rolled-up keys null."""
    parts: dict[str, list[Vector]] = {}
    for keys in bound.grouping_sets:
        table = tables[keys]
        for name, operand in _operands(bound, table, keys, None).items():
            parts.setdefault(name, []).append(as_vector(operand, table.num_groups))
    operands: dict[str, Operand] = {name: concat_vectors(columns) for name, columns in parts.items()}
    return _finished(bound, operands, sum(tables[keys].num_groups for keys in bound.grouping_sets))


def _operands(bound: BoundQuery, table: GroupTable, keys: KeySet | None, read: Collection[str] | None) -> dict[str, Operand]:
    """Return the operands of expressions over groups. keys: of a grouping set, others being null. read: names; None for
    all."""
    operands: dict[str, Operand] = {}
    if keys is None:
        operands = {key_column(i).name: key for i, key in enumerate(table.keys)}
    else:
        for i, (data_type, _) in enumerate(bound.row_types):
            rolled_up = i not in keys
            key = repeated(None, data_type, table.num_groups) if rolled_up else table.keys[keys.index(i)]
            operands[key_column(i).name] = key
    for i, (call, partial) in enumerate(zip(bound.aggregates, table.partials, strict=True)):
        name = aggregate_column(i).name
        if read is None or name in read:
            guard.check()
            operands[name] = call.aggregate.finish(partial)
    guard.check()
    for i, arguments in enumerate(bound.groupings):
        bits = "".join("01"[keys is not None and argument not in keys] for argument in arguments)
        operands[grouping_column(i).name] = Scalar(int(bits, 2), DataType.INT)
    return operands


def _finished(bound: BoundQuery, operands: dict[str, Operand], num_rows: int) -> Rows:
    if bound.having is not None:
        kept = np.flatnonzero(truth(_computed(bound.having, operands, num_rows), num_rows))
        operands, num_rows = _picked(operands, kept), len(kept)
    if bound.order_by:
        order_by = _total_order(bound)
        order = _order(order_by, operands, num_rows, bound.limit_with_offset)
        operands, num_rows = _picked(operands, order), len(order)
    if bound.offset or num_rows > bound.limit:
        window = np.arange(min(bound.offset, num_rows), min(bound.limit_with_offset, num_rows))
        operands, num_rows = _picked(operands, window), len(window)
    return tuple(as_vector(_computed(output, operands, num_rows), num_rows) for output in bound.outputs)


def is_ordered_by_keys(bound: BoundQuery) -> bool:
    """Whether the result has an order that does not depend on aggregates."""
    names = [name for key in bound.order_by for name in column_names(key.expression)]
    return bool(bound.order_by) and all(name.startswith(_KEY_PREFIX) for name in names)


def _total_order(bound: BoundQuery) -> tuple[SortKey, ...]:
    """Return the query's order; if it is by keys, the other keys break ties, so that all parts drop the same groups."""
    order: tuple[SortKey, ...] | None = bound.shared.get(_TOTAL_ORDER)
    if order is None:
        order = bound.order_by
        if not order or is_ordered_by_keys(bound):
            written = {key.expression for key in order}
            others = [key_column(i) for i in range(len(bound.rows)) if key_column(i) not in written]
            order = (*order, *(SortKey(key, False, True) for key in others))
        bound.shared[_TOTAL_ORDER] = order
    return order


def _order(order_by: Sequence[SortKey], operands: Mapping[str, Operand], num_rows: int, limit: int) -> Indices:
    """Return the positions of the first rows; compares other keys only for rows that the first key does not exclude."""
    first = _sort_array(order_by[0], operands, num_rows)
    guard.check()
    chosen = candidates(first, limit) if len(order_by) > 1 else None
    guard.check()
    if chosen is None:
        return top_rows([first, *(_sort_array(key, operands, num_rows) for key in order_by[1:])], limit)
    read = {name for key in order_by[1:] for name in column_names(key.expression)}
    picked = {name: _pick(operands[name], chosen) for name in read}
    others = [_sort_array(key, picked, len(chosen)) for key in order_by[1:]]
    return chosen[top_rows([first[chosen], *others], limit)]


def _sort_array(key: SortKey, operands: Mapping[str, Operand], num_rows: int) -> SortArray:
    operand = _computed(key.expression, operands, num_rows)
    sortable = operand if isinstance(operand, EncodedVector) else as_vector(operand, num_rows)
    return sort_array(sortable, key.descending, key.nulls_last)


def _computed(expression: Expression, operands: Mapping[str, Operand], num_rows: int) -> Operand:
    return evaluate(expression, operands.__getitem__, num_rows, post_aggregation=True)


def _picked(operands: dict[str, Operand], rows: Indices) -> dict[str, Operand]:
    return {name: _pick(operand, rows) for name, operand in operands.items()}


def _pick(operand: Operand, rows: Indices) -> Operand:
    if isinstance(operand, EncodedVector):
        nulls = None if operand.nulls is None else operand.nulls[rows]
        return EncodedVector(operand.ids[rows], operand.dictionary, None, nulls)
    return take_rows(operand, rows) if isinstance(operand, Vector) else operand

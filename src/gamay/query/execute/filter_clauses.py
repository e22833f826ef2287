"""The FILTER clauses of a query in one segment: where their conditions hold, and how many rows they match.

All aggregates share one pass over the rows that WHERE matches. A condition becomes one more column of each block: flags from
the docs that indexes found, or from a scan of the rows of the pass.
"""

from collections.abc import Mapping

import numpy as np

from gamay.functions.expression import Column, Expression
from gamay.functions.vector import Operand, Vector
from gamay.query.bind.aggregates import filter_column
from gamay.query.bind.binder import BoundQuery, physical_columns
from gamay.query.bind.predicate import narrowed
from gamay.query.execute.context import ExecutionContext
from gamay.query.filter.apply import FilterResult, apply_filter
from gamay.query.filter.column import FilterColumn
from gamay.query.groupby.states import Evaluate, Reader
from gamay.query.view.counters import EntryCounter
from gamay.query.view.match_spans import span_of
from gamay.query.view.matches import Block, Matches
from gamay.query.view.read import segment_reader
from gamay.query.view.virtual import QuerySegment
from gamay.query.view.whole_codes import WholeCodes, whole_codes


class FilterClauses:
    """The FILTER clauses of one query in one segment; adds their flag columns to the segment."""

    def __init__(self, bound: BoundQuery, segment: QuerySegment) -> None:
        self._bound = bound
        self._segment = segment
        self._kept: dict[str, EntryCounter] = {}
        for index, condition in enumerate(bound.filters):
            column = FilterColumn(filter_column(index).name, apply_filter(condition, segment))
            segment.attach(column)
            self._kept[column.name] = EntryCounter()

    def reader(self, matches: Matches | None = None) -> Reader:
        """Return the reader of the segment; it counts the rows of each clause, reading its flags once per block.

        matches: the rows to group; None without GROUP BY.
        """
        codes: Mapping[str, WholeCodes] = {}
        if matches is not None:
            arguments = [argument for call in self._bound.aggregates for argument in call.arguments]
            codes = whole_codes(self._segment, self._bound.rows, arguments, span_of(matches))
        plain = segment_reader(self._segment, codes)
        return self._counting(plain) if self._kept else plain

    def _counting(self, plain: Reader) -> Reader:
        def reader(block: Block) -> Evaluate:
            operand = plain(block)

            def evaluate(expression: Expression) -> Operand:
                values = operand(expression)
                if isinstance(expression, Column) and expression.name in self._kept and isinstance(values, Vector):
                    self._kept[expression.name].add(int(np.count_nonzero(values.values)))
                return values

            return evaluate

        return reader

    def restart(self) -> None:
        """Reset the row counts, as the rows are about to be read again."""
        for counter in self._kept.values():
            counter.take()

    def count(self, context: ExecutionContext, filtered: FilterResult, scanned: int) -> None:
        """Add the segment's share to the query's counters: each clause counts the rows and values that it reads.

        scanned: the number of rows that WHERE matches; counted on their own if there are groups or aggregates without
        FILTER.
        """
        if not self._kept:
            context.count(filtered, scanned, scanned * context.columns_read())
            return
        rows: dict[Column | None, list[Expression]] = {None: []} if self._bound.rows else {}
        for aggregate in self._bound.aggregates:
            rows.setdefault(aggregate.filter, []).extend(aggregate.arguments)
        docs = entries = 0
        for condition, arguments in rows.items():
            count = scanned if condition is None else self._kept[condition.name].count
            docs += count
            entries += count * len(physical_columns([*self._bound.rows, *arguments]))
        context.count(filtered, docs, entries)


def branch_of(bound: BoundQuery, condition: Column | None, filtered: FilterResult, segment: QuerySegment) -> FilterResult:
    """Return the rows of an aggregate: those of WHERE for which the condition of its FILTER clause holds."""
    if condition is None:
        return filtered
    index = next(i for i in range(len(bound.filters)) if filter_column(i) == condition)
    return apply_filter(narrowed(bound.filter, bound.filters[index]), segment)

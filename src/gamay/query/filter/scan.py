"""Predicates that read rows: over dictionary ids, raw values or expressions, and their combinations.

A scan answers for a range of rows (`mask`) or for single rows (`mask_at`), counts every value that it reads, and is
thread-safe.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from gamay.base.arrays import Mask
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Call, Expression, Literal, column_names
from gamay.functions.frame import FramedVector
from gamay.functions.scalar.coerce import coerced
from gamay.functions.scalar.comparison import MIRRORED
from gamay.functions.vector import Scalar, Vector, take
from gamay.kernels.rows.filter import mark_id_range, mark_id_set, mark_rows_of_id_set, mark_rows_of_values
from gamay.kernels.tuning import RAW_TEXT_BLOCK_ROWS_MIN
from gamay.model.types import DataType
from gamay.query.arithmetic import Arithmetic, is_arithmetic
from gamay.query.columns.operations import truth
from gamay.query.view.counters import EntryCounter
from gamay.query.view.docset import SPARSE, DocSet, doc_mask
from gamay.query.view.matches import AllDocs, Block, DocIds, DocList, flagged_docs
from gamay.query.view.null_flags import NullFlags
from gamay.query.view.read import ColumnReader, is_raw_text, raw_text_rows, read_values
from gamay.segment.spi import Column, Ids, Segment

# Scans up to this cost test all rows of a range (0.02 to 0.2 ns per row) faster than the few remaining rows can be found
# (0.1 ns per row of the range) and read (2 ns each).
CHEAP = 1.0


class Scan(Protocol):
    """A test of rows. `cost` is the relative cost of testing one row: 1 for a comparison of dictionary ids."""

    cost: float

    def mask(self, first: int, last: int) -> Mask:
        """Return a new array with one flag for each row of [first, last)."""
        ...

    def mask_at(self, docs: DocIds) -> Mask:
        """Return a new array with one flag for each of these docs (ascending)."""
        ...


class IdScan:
    """Scan for rows with a dictionary id in a range [first, last) or in a table: bool [cardinality]."""

    def __init__(self, column: Column, ids: tuple[int, int] | Mask, counter: EntryCounter) -> None:
        self._column = column
        self._ids = ids
        self._counter = counter
        self.cost = (1.0 if isinstance(ids, tuple) else 1.5) * (1 if column.single_value else 3)

    @property
    def is_empty(self) -> bool:
        """Whether no id matches."""
        return self._ids[0] >= self._ids[1] if isinstance(self._ids, tuple) else not self._ids.any()

    def within(self, other: "IdScan") -> "IdScan | None":
        """Return the scan for rows that match both; None if the scans read different columns, or a multi-value column."""
        if other._column is not self._column or not self._column.single_value:
            return None
        ids, others = self._ids, other._ids
        if isinstance(ids, tuple) and isinstance(others, tuple):
            both: tuple[int, int] | Mask = (max(ids[0], others[0]), min(ids[1], others[1]))
        elif isinstance(ids, tuple) or isinstance(others, tuple):
            (first, last), table = (ids, others) if isinstance(ids, tuple) else (others, ids)
            both = np.zeros_like(table)
            both[first:last] = table[first:last]
        else:
            both = ids & others
        return IdScan(self._column, both, self._counter)

    def mask(self, first: int, last: int) -> Mask:
        ids = self._column.ids(first, last)
        self._counter.add(len(ids))
        if self._column.single_value:
            return self._marks(ids)
        return self._row_marks(ids, self._column.offsets(first, last))

    def mask_at(self, docs: DocIds) -> Mask:
        if self._column.single_value:
            self._counter.add(len(docs))
            return self._marks(self._column.ids_at(docs))
        if len(docs) == 0:
            return np.zeros(0, np.bool_)
        first = int(docs[0])
        return self.mask(first, int(docs[-1]) + 1)[docs - first]

    def _marks(self, ids: Ids) -> Mask:
        out = np.empty(len(ids), np.bool_)
        if isinstance(self._ids, tuple):
            mark_id_range(ids, *self._ids, out)
        else:
            mark_id_set(ids, self._ids, out)
        return out

    def _row_marks(self, ids: Ids, offsets: Any) -> Mask:
        out = np.empty(len(offsets) - 1, np.bool_)
        if isinstance(self._ids, tuple):
            mark_rows_of_values(self._marks(ids), offsets, out)
        else:
            mark_rows_of_id_set(ids, offsets, self._ids, out)
        return out


class _InBlocks:
    """Evaluator of a block, in parts if it reads raw texts, so that these fit in the cache."""

    def __init__(self, columns: Iterable[Column]) -> None:
        self._texts = [column for column in columns if is_raw_text(column)]
        self._rows = 0

    def marks(self, find: Callable[[Block], Mask], block: AllDocs | DocList) -> Mask:
        if not self._texts or len(block) <= RAW_TEXT_BLOCK_ROWS_MIN:
            return find(block)
        if not self._rows:  # several threads may compute it at once, with the same result
            num_docs = self._texts[0].num_docs
            self._rows = raw_text_rows(lambda some: (read_values(column, some) for column in self._texts), num_docs)
        parts = [find(part) for part in block.blocks(self._rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class ValueScan:
    """Scan of a column's values: `test` receives single values and returns a flag for each."""

    def __init__(self, column: Column, test: Callable[[Vector], Mask], counter: EntryCounter) -> None:
        self._column = column
        self._test = test
        self._counter = counter
        self.cost = (4.0 if column.data_type.is_fixed_width else 30.0) * (1 if column.single_value else 3)
        self._blocks = _InBlocks([column])

    def mask(self, first: int, last: int) -> Mask:
        return self._blocks.marks(self._marks, AllDocs(first, last))

    def mask_at(self, docs: DocIds) -> Mask:
        return self._blocks.marks(self._marks, DocList(docs))

    def _marks(self, block: Block) -> Mask:
        vector = read_values(self._column, block)
        self._counter.add(len(vector.values))
        marks = self._test(Vector(vector.type, vector.values))
        if vector.offsets is None:
            return marks
        out = np.empty(len(vector), np.bool_)
        mark_rows_of_values(marks, vector.offsets, out)
        return out


class FrameScan:
    """Scan for rows whose frame-of-reference codes are in a range [first, last); decodes no value.

    test: the same test for values, used for those without a code.
    """

    cost = 1.5

    def __init__(
        self, framed: FramedVector, codes: tuple[int, int], test: Callable[[Vector], Mask], counter: EntryCounter
    ) -> None:
        self._framed = framed
        self._codes = codes
        self._patches = test(Vector(framed.type, framed.patches)) if len(framed.patches) else None
        self._counter = counter

    def mask(self, first: int, last: int) -> Mask:
        self._counter.add(last - first)
        marks = self._framed.frame.cut(first, last).mark(*self._codes)
        if self._patches is not None:
            rows = self._framed.patch_rows
            since, until = rows.searchsorted(np.array([first, last], np.int32)).tolist()
            marks[rows[since:until] - first] = self._patches[since:until]
        return marks

    def mask_at(self, docs: DocIds) -> Mask:
        self._counter.add(len(docs))
        marks = self._framed.frame.at(docs).mark(*self._codes)
        if self._patches is not None:
            places, has_patch = self._framed.patches_at(docs)
            marks[has_patch] = self._patches[places[has_patch]]
        return marks


class ExpressionScan:
    """Scan of rows by a boolean expression over several columns."""

    cost = 100.0

    def __init__(self, segment: Segment, expression: Expression, counter: EntryCounter) -> None:
        self._segment = segment
        self._expression = expression
        self._columns = column_names(expression)
        self._counter = counter
        self._blocks = _InBlocks(map(segment.column, self._columns))

    def mask(self, first: int, last: int) -> Mask:
        return self._blocks.marks(self._marks, AllDocs(first, last))

    def mask_at(self, docs: DocIds) -> Mask:
        return self._blocks.marks(self._marks, DocList(docs))

    def _marks(self, block: Block) -> Mask:
        num_rows = len(block)
        self._counter.add(num_rows * len(self._columns))
        return truth(evaluate(self._expression, ColumnReader(self._segment, block), num_rows), num_rows)


_COMPARISONS = frozenset({"equals", "notequals", "lessthan", "lessthanorequal", "greaterthan", "greaterthanorequal"})


def compared_arithmetic(expression: Expression) -> tuple[str, Expression, Scalar] | None:
    """Return the comparison, the arithmetic and the constant of a condition such as `a * b + c > 5`; None for others."""
    if not isinstance(expression, Call) or expression.name not in _COMPARISONS:
        return None
    left, right = expression.args
    if isinstance(right, Literal) and is_arithmetic(left) and right.value is not None:
        return expression.name, left, Scalar(right.value, right.type)
    if isinstance(left, Literal) and is_arithmetic(right) and left.value is not None:
        return MIRRORED.get(expression.name, expression.name), right, Scalar(left.value, left.type)
    return None


def _plain_number(constant: Scalar) -> float | None:
    """Return a constant as DOUBLE; None if it has no exact DOUBLE, or compares differently."""
    try:
        found = coerced(constant.value, constant.type, DataType.DOUBLE)
    except ValueError:  # evaluating the comparison reports the error
        return None
    value: float = found.value
    return value if found.side == 0 and value == value else None


class ArithmeticScan(ExpressionScan):
    """Scan that compares sums and products of several columns with a constant."""

    def __init__(self, segment: Segment, expression: Expression, counter: EntryCounter) -> None:
        super().__init__(segment, expression, counter)
        compared = compared_arithmetic(expression)
        assert compared is not None
        self._comparison, self._arithmetic, constant = compared
        self._constant = _plain_number(constant)
        self._local = threading.local()

    def _marks(self, block: Block) -> Mask:
        buffers: Arithmetic | None = getattr(self._local, "buffers", None)
        if buffers is None:
            buffers = self._local.buffers = Arithmetic()
        if self._constant is None:
            return super()._marks(block)
        column = ColumnReader(self._segment, block)
        operand = lambda name: column(name.name)  # noqa: E731
        marks = buffers.compare(self._arithmetic, self._comparison, self._constant, operand, len(block))
        if marks is None:
            return super()._marks(block)
        self._counter.add(len(block) * len(self._columns))
        return marks


class SetScan:
    """Scan for rows of a set that an index found; reads no values."""

    cost = 0.1

    def __init__(self, docs: DocSet, num_docs: int) -> None:
        self._flags = doc_mask(docs, num_docs)

    def mask(self, first: int, last: int) -> Mask:
        return self._flags[first:last].copy()

    def mask_at(self, docs: DocIds) -> Mask:
        return self._flags[docs]


class KnownScan:
    """Scan for rows that are not null, by known null flags; reads no values."""

    cost = 0.1

    def __init__(self, nulls: NullFlags) -> None:
        self._nulls = nulls

    def mask(self, first: int, last: int) -> Mask:
        flags = self._nulls.within(first, last)
        return np.logical_not(flags, out=flags)

    def mask_at(self, docs: DocIds) -> Mask:
        flags = self._nulls.at(docs)
        return np.logical_not(flags, out=flags)


class TailScan:
    """Scan of the rows from `covered` on; an index has tested those before."""

    def __init__(self, scan: Scan, covered: int) -> None:
        self._scan = scan
        self._covered = covered
        self.cost = scan.cost

    def mask(self, first: int, last: int) -> Mask:
        known = min(max(first, self._covered), last)
        if known == first:
            return self._scan.mask(first, last)
        return np.concatenate([np.ones(known - first, np.bool_), self._scan.mask(known, last)])

    def mask_at(self, docs: DocIds) -> Mask:
        known = int(np.searchsorted(docs, self._covered))
        return np.concatenate([np.ones(known, np.bool_), self._scan.mask_at(docs[known:])])


class PartScan:
    """Scan of some rows only; an index has tested the others."""

    def __init__(self, scan: Scan, unsure: DocSet, num_docs: int) -> None:
        self._scan = scan
        self._unsure = doc_mask(unsure, num_docs)
        self.cost = scan.cost

    def mask(self, first: int, last: int) -> Mask:
        unsure = self._unsure[first:last]
        return ~unsure | rows_within(self._scan, unsure, first)

    def mask_at(self, docs: DocIds) -> Mask:
        unsure = self._unsure[docs]
        mask = ~unsure
        mask[unsure] = self._scan.mask_at(docs[unsure])
        return mask


def must_be_of_rows(error: QueryError) -> None:
    """Re-raise an error unless it is an expression that fails for a row, which may turn out to be irrelevant."""
    if error.code is not ErrorCode.QUERY_EXECUTION:
        raise error


def rows_within(scan: Scan, wanted: Mask, first: int) -> Mask:
    """Return where a scan matches among the wanted rows from `first` on; tests no other rows."""
    docs = flagged_docs(wanted, first)
    out = np.zeros(len(wanted), np.bool_)
    if len(docs):
        out[docs - first] = scan.mask_at(docs)
    return out


def _docs_within(scan: Scan, wanted: Mask, docs: DocIds) -> Mask:
    """Return where a scan matches among the wanted ones of some rows; tests no other rows."""
    places = flagged_docs(wanted)
    out = np.zeros(len(wanted), np.bool_)
    if len(places):
        out[places] = scan.mask_at(take(docs, places))
    return out


def mask_within(scan: Scan, wanted: Mask, first: int) -> Mask:
    """Return where a scan matches among the wanted rows from `first` on; tests all rows unless that fails."""
    try:
        found = scan.mask(first, first + len(wanted))
    except QueryError as error:
        must_be_of_rows(error)
        return rows_within(scan, wanted, first)
    return np.logical_and(found, wanted, out=found)


class AndScan:
    """Conjunction of scans: the cheapest runs first, the others only on the rows it leaves.

    A scan that fails is retried on the rows that are left in the end, as other conditions may exclude the failing rows.
    """

    def __init__(self, scans: Sequence[Scan]) -> None:
        self._scans = sorted(scans, key=lambda scan: scan.cost)
        self.cost = sum(scan.cost for scan in scans)

    def mask(self, first: int, last: int) -> Mask:
        within = lambda scan, mask: rows_within(scan, mask, first)  # noqa: E731
        return self._all_hold(last - first, lambda scan: scan.mask(first, last), within, SPARSE)

    def mask_at(self, docs: DocIds) -> Mask:
        within = lambda scan, mask: _docs_within(scan, mask, docs)  # noqa: E731
        return self._all_hold(len(docs), lambda scan: scan.mask_at(docs), within, 1)

    def _all_hold(
        self, num_rows: int, test: Callable[[Scan], Mask], test_within: Callable[[Scan, Mask], Mask], sparse: int
    ) -> Mask:
        """Return where all scans match.

        test: tests all rows; test_within: tests flagged rows only, used if fewer than one in `sparse` is flagged.
        """
        mask: Mask | None = None
        last_tried: list[Scan] = []
        for scan in self._scans:
            left = num_rows if mask is None else np.count_nonzero(mask)
            if left == 0:
                break
            try:
                if mask is None:
                    mask = test(scan)
                elif scan.cost > CHEAP and left * sparse < len(mask):
                    mask = test_within(scan, mask)
                else:
                    mask &= test(scan)
            except QueryError as error:
                must_be_of_rows(error)
                last_tried.append(scan)
        if mask is None:
            mask = np.ones(num_rows, np.bool_)
        for scan in last_tried:
            mask = test_within(scan, mask)
        return mask


class OrScan:
    """Disjunction of scans: the cheapest runs first, the others only on the rows it does not match."""

    def __init__(self, scans: Sequence[Scan]) -> None:
        self._scans = sorted(scans, key=lambda scan: scan.cost)
        self.cost = sum(scan.cost for scan in scans)

    def mask(self, first: int, last: int) -> Mask:
        mask = self._scans[0].mask(first, last)
        for scan in self._scans[1:]:
            left = len(mask) - np.count_nonzero(mask)
            if left == 0:
                break
            if scan.cost > CHEAP and left * SPARSE < len(mask):
                mask |= rows_within(scan, ~mask, first)
                continue
            try:
                mask |= scan.mask(first, last)
            except QueryError as error:
                must_be_of_rows(error)
                mask |= rows_within(scan, ~mask, first)
        return mask

    def mask_at(self, docs: DocIds) -> Mask:
        mask = self._scans[0].mask_at(docs)
        for scan in self._scans[1:]:
            rows = np.flatnonzero(~mask)
            if len(rows) == 0:
                break
            mask[rows] = scan.mask_at(docs[rows])
        return mask


class NotScan:
    """Negation of a scan."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self.cost = scan.cost

    def mask(self, first: int, last: int) -> Mask:
        mask = self._scan.mask(first, last)
        np.logical_not(mask, out=mask)
        return mask

    def mask_at(self, docs: DocIds) -> Mask:
        return ~self._scan.mask_at(docs)

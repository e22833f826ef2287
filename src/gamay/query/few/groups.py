"""A few rows of several segments, grouped into one table: one numbering of groups, one pass for each aggregate.

Grouping them segment by segment, with states and partials for each that are merged afterwards, takes many times as long as
reading them. The steps depend on the query's shape alone, so they are planned once (`FewGroups.of`).
"""

from collections.abc import Callable
from math import prod

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import HashNumbers
from gamay.functions.expression import Column, Expression
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.kernels.tuning import FEW_CELLS_MAX
from gamay.query.bind.binder import BoundQuery
from gamay.query.columns.operations import concat_vectors
from gamay.query.few.keys import Pieces, coded
from gamay.query.few.stored import column_name, is_single_value
from gamay.query.groupby.nullable import nullable_partials, of_no_nulls
from gamay.query.groupby.numbering import pack, unpack, unsigned_for
from gamay.query.groupby.states import States, is_narrow, plan_states
from gamay.query.groupby.table import GroupTable
from gamay.query.view.read import read_column, read_values

_KEPT = "few groups"
_PACKED_MAX = (1 << 63) - 1


class FewGroups:
    """The plan of GROUP BY queries of one shape whose keys and arguments are plain columns."""

    def __init__(self, bound: BoundQuery) -> None:
        self._names = [row.name for row in bound.rows if isinstance(row, Column)]
        self._aggregates = bound.aggregates
        self._plain = tuple([of_no_nulls(call) for call in bound.aggregates])
        self._plan = plan_states(self._plain, count_rows=False)
        arguments = [argument.name for argument in self._plan.arguments if isinstance(argument, Column)]
        nullable = [a.name for call in bound.aggregates for a in call.arguments if isinstance(a, Column)]
        self.columns = tuple(dict.fromkeys([*self._names, *arguments, *nullable]))

    @classmethod
    def of(cls, bound: BoundQuery) -> "FewGroups | None":
        """Return the plan for queries of this shape; None if keys or arguments are anything but plain columns.

        Aggregates with FILTER, or with a state of more than a few numbers, also use the ordinary path.
        """
        if _KEPT not in bound.shared:
            bound.shared[_KEPT] = cls(bound) if _is_plain(bound) else None
        kept: FewGroups | None = bound.shared[_KEPT]
        return kept

    def table(self, pieces: Pieces, num_rows: int) -> GroupTable | None:
        """Return the groups of the rows in the order of their codes. There must be at least one row, and no nulls in
        `columns`.

        None if the dictionaries of a key cannot be merged.
        """
        keys = []
        for name in self._names:
            key = coded(name, pieces)
            if key is None:
                return None
            keys.append(key)
        cardinalities = [len(key.dictionary) for key in keys]
        cells = prod(cardinalities)
        if cells > _PACKED_MAX:
            return None
        packed = pack([key.ids for key in keys], cardinalities, unsigned_for(cells) if cells < 1 << 32 else np.int64)
        occurring, groups = _numbered(packed, cells)
        found = tuple(
            [
                EncodedVector(codes.astype(unsigned_for(cardinality)), key.dictionary)
                for codes, cardinality, key in zip(unpack(occurring, cardinalities), cardinalities, keys, strict=True)
            ]
        )
        states = States(self._plan, len(occurring))
        states.update(groups, _reader(pieces), num_rows)
        partials = states.seal()
        if self._plain != self._aggregates:
            partials = nullable_partials(partials, self._aggregates, self._plain, np.ones(len(occurring), np.bool_))
        return GroupTable(found, partials, len(occurring))


def _is_plain(bound: BoundQuery) -> bool:
    if bound.grouping_sets or bound.filters or not bound.rows:
        return False
    arguments = [argument for call in bound.aggregates for argument in call.arguments]
    if not all(is_single_value(part, bound) for part in (*bound.rows, *arguments)):
        return False
    if not all(bound.fields[column_name(argument)].data_type.is_fixed_width for argument in arguments):
        return False
    return all(call.filter is None and is_narrow(call.aggregate) for call in bound.aggregates)


def _numbered(packed: Array, cells: int) -> tuple[Array, Array]:
    """Return the distinct codes, ascending, and for each row the position of its code among them: uint [num_rows]."""
    if cells <= FEW_CELLS_MAX:
        occurring = np.flatnonzero(np.bincount(packed, minlength=cells))
        numbers, count = packed, cells
        order = occurring
    else:
        hashed = HashNumbers()
        numbers = hashed.number(packed.astype(np.int64, copy=False))
        order, count = np.argsort(hashed.keys), hashed.count
        occurring = hashed.keys[order]
    places = np.empty(count, np.uint32)
    places[order] = np.arange(len(occurring), dtype=np.uint32)
    return occurring, places[numbers]


def _reader(pieces: Pieces) -> Callable[[Expression], Operand]:
    """Return the column reader: as stored for one segment, decoded and concatenated for several."""
    if len(pieces) == 1:
        ((segment, block),) = pieces
        return lambda expression: read_column(segment.column(column_name(expression)), block)
    known: dict[str, Vector] = {}

    def read(expression: Expression) -> Operand:
        name = column_name(expression)
        if name not in known:
            known[name] = concat_vectors([read_values(segment.column(name), block) for segment, block in pieces])
        return known[name]

    return read

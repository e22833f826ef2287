"""Grouping by anything: groups are numbered as they appear, and states grow with them."""

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from gamay.functions.aggregate.coding import Coder, DictionaryCoder, NullableCoder, coder_of
from gamay.functions.expression import Column, Expression
from gamay.functions.vector import EncodedVector, Operand, Scalar, take_rows
from gamay.kernels.tuning import LOOKUP_CELLS_MAX
from gamay.model.types import DataType
from gamay.query.constants import repeated
from gamay.query.groupby.explode import Exploded, is_list
from gamay.query.groupby.numbering import HashedNumbering, LookupNumbering, Numbering, SingleNumbering
from gamay.query.groupby.states import Evaluate, StatePlan, States
from gamay.query.groupby.table import GroupTable

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_FIRST_GROUPS = 1 << 10


class GrowingGroups:
    """The groups of one thread. samples: an operand of each key, for its type and its dictionary if the column has one."""

    def __init__(
        self, keys: Sequence[Expression], samples: Sequence[Operand], plan: StatePlan, num_groups_limit: int
    ) -> None:
        self._keys = keys
        self._coders = [_coder(key, sample) for key, sample in zip(keys, samples, strict=True)]
        self._numbering = numbering_of([coder.cardinality for coder in self._coders], num_groups_limit)
        self._states = States(plan, min(_FIRST_GROUPS, num_groups_limit + 1))

    def add(self, operand: Evaluate, num_rows: int) -> None:
        """Add the rows of a block, once for each combination of their keys' values."""
        keys = [_without_null_constant(operand(key), num_rows) for key in self._keys]
        if any(map(is_list, keys)):
            exploded = Exploded(keys, num_rows)
            self._add(exploded.keys, lambda argument: take_rows(operand(argument), exploded.rows), exploded.num_rows)
        else:
            self._add(keys, operand, num_rows)

    def table(self) -> GroupTable:
        """Return the groups."""
        groups = np.arange(self._numbering.num_groups)
        codes = self._numbering.codes(groups)
        keys = tuple(coder.decode(part) for coder, part in zip(self._coders, codes, strict=True))
        return GroupTable(keys, self._states.seal(groups), len(groups), self._numbering.dropped)

    def _add(self, keys: Sequence[Operand], operand: Evaluate, num_rows: int) -> None:
        codes = [coder.codes(key, num_rows) for coder, key in zip(self._coders, keys, strict=True)]
        groups = self._numbering.number(codes)
        # Rows beyond the limit carry the number behind the last group.
        self._states.make_room(self._numbering.num_groups + int(self._numbering.dropped))
        self._states.update(groups, operand, num_rows)


def _without_null_constant(key: Operand, num_rows: int) -> Operand:
    return repeated(None, _stored_type(key), num_rows) if isinstance(key, Scalar) and key.value is None else key


def _stored_type(key: Scalar) -> DataType:
    """The type of a constant's values; those of NULL, of which there are none, may be text."""
    return DataType.STRING if key.type is DataType.UNKNOWN else key.type


def numbering_of(cardinalities: Sequence[int | None], limit: int) -> Numbering:
    """Return the cheapest way to number combinations of codes."""
    known = [cardinality for cardinality in cardinalities if cardinality is not None]
    if len(known) == len(cardinalities) and prod(known) <= LOOKUP_CELLS_MAX:
        return LookupNumbering(known, limit)
    return SingleNumbering(limit) if len(cardinalities) == 1 else HashedNumbering(cardinalities, limit)


def _coder(key: Expression, sample: Operand) -> Coder:
    coder: Coder
    if isinstance(sample, Scalar):
        coder = coder_of(_stored_type(sample))
        return NullableCoder(coder) if sample.value is None else coder
    # Only a single-value column is sure to bring the same dictionary with every block.
    if isinstance(key, Column) and isinstance(sample, EncodedVector) and sample.offsets is None:
        coder = DictionaryCoder(sample.dictionary)
    else:
        coder = coder_of(sample.type)
    return coder if sample.nulls is None else NullableCoder(coder)

"""DISTINCTCOUNTSMARTHLL, DISTINCTCOUNTSMARTHLLPLUS and DISTINCTCOUNTSMARTULL: exact up to a threshold, a sketch beyond.

    DISTINCTCOUNTSMARTHLL(x [, 'threshold=100000;log2m=12;dictThreshold=100000'])
    DISTINCTCOUNTSMARTHLLPLUS(x [, 'threshold=100000;p=14;sp=0'])
    DISTINCTCOUNTSMARTULL(x [, 'threshold=100000;p=12'])

Without GROUP BY, more distinct values than the threshold are counted by the sketch; a threshold of 0 or less means no
limit. With GROUP BY counts are exact. The result depends only on the values, not on how they were divided among segments.
dictThreshold has no effect: dictionary entries are marked in a bitmap, which takes little memory in any case.
`hllConversionThreshold` and `hllLog2m` are older names of threshold and log2m.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.distinct import VALUES, count_distinct
from gamay.functions.aggregate.distinct.pairs import (
    Pairs,
    PairsPartial,
    decode_pairs,
    encode_pairs,
    merge_pairs,
    select_pairs,
)
from gamay.functions.aggregate.sketch.hllplus import PRECISION as HLLPLUS_PRECISION
from gamay.functions.aggregate.sketch.hllplus import SPARSE_PRECISION, hllplus_kind
from gamay.functions.aggregate.sketch.ull import PRECISION as ULL_PRECISION
from gamay.functions.aggregate.totals.numeric import require_one_argument
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds, KeepsState
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.hll import LOG2M_RANGE, HllKind
from gamay.functions.sketch.parameters import Number, text_parameters
from gamay.functions.sketch.registers import RegisterKind
from gamay.functions.sketch.ull import UllKind
from gamay.functions.vector import EncodedVector, Vector, take
from gamay.kernels.sketch.registers import add_candidates, merge_sketches
from gamay.model.types import DataType

_THRESHOLD_MAX = (1 << 31) - 1
_THRESHOLD = Number(100_000, -(1 << 31), _THRESHOLD_MAX)
_DEFAULT_LOG2M = 12


@dataclass(frozen=True, slots=True, eq=False)
class SmartPartial:
    """The pairs of groups with few values; `many`: int32 [k], the groups with sketches; registers: uint8 [k, m]."""

    pairs: PairsPartial
    many: Array
    registers: Array


@dataclass(frozen=True, slots=True)
class SmartCount(KeepsState):
    """A distinct count, exact up to the threshold. It shares the state of DISTINCTCOUNT."""

    kind: RegisterKind
    threshold: int
    argument_type: DataType
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> Pairs:
        return Pairs(self.argument_type, num_groups, False)

    def seal(self, state: Pairs) -> SmartPartial:
        return self._limited(state.partial(), np.empty(0, np.int32), self._no_registers(0))

    def select(self, partial: SmartPartial, groups: Array) -> SmartPartial:
        places = np.full(partial.pairs.num_groups, -1, np.int32)
        places[groups] = np.arange(len(groups), dtype=np.int32)
        kept = places[partial.many] >= 0
        return SmartPartial(select_pairs(partial.pairs, groups), places[partial.many[kept]], partial.registers[kept])

    def merge(self, partials: Sequence[SmartPartial], maps: Sequence[GroupIds], num_groups: int) -> SmartPartial:
        mapped = [groups[partial.many] for partial, groups in zip(partials, maps, strict=True)]
        many, rows = np.unique(np.concatenate(mapped), return_inverse=True)
        registers = self._no_registers(len(many))
        sketches = np.concatenate([partial.registers for partial in partials])
        every = np.arange(len(sketches), dtype=np.uint32)
        merge_sketches(rows.astype(np.uint32), every, sketches, self.kind.table, registers)
        pairs = merge_pairs([partial.pairs for partial in partials], maps, num_groups)
        return self._limited(pairs, many.astype(np.int32), registers)

    def finish(self, partial: SmartPartial) -> Vector:
        counts = count_distinct(partial.pairs)
        most = np.iinfo(np.int32).max
        counts[partial.many] = np.minimum(self.kind.estimate(partial.registers), most)
        return Vector(DataType.INT, counts)

    def encode(self, partial: SmartPartial) -> list[pa.Array]:
        sketches: list[bytes | None] = [None] * partial.pairs.num_groups
        for group, registers in zip(partial.many.tolist(), partial.registers, strict=True):
            sketches[group] = registers.tobytes()
        return [*encode_pairs(partial.pairs), pa.array(sketches, pa.binary())]

    def decode(self, arrays: Sequence[pa.Array]) -> SmartPartial:
        sketches = arrays[-1]
        many = np.flatnonzero(sketches.is_valid()).astype(np.int32)
        registers = np.frombuffer(b"".join(sketches.drop_null().to_pylist()), np.uint8)
        pairs = decode_pairs(self.argument_type, arrays[:-1])
        return SmartPartial(pairs, many, registers.reshape(len(many), 1 << self.kind.precision))

    def _limited(self, pairs: PairsPartial, many: Array, registers: Array) -> SmartPartial:
        """Move the pairs of groups that exceed the threshold, or have sketches already, to their sketches."""
        grown = np.union1d(many, np.flatnonzero(count_distinct(pairs) > self.threshold)).astype(np.int32)
        if len(grown) == 0:
            return SmartPartial(pairs, many, registers)
        sketches = self._no_registers(len(grown))
        sketches[np.searchsorted(grown, many)] = registers
        sketched = np.zeros(pairs.num_groups, np.bool_)
        sketched[grown] = True
        moved = select_pairs(pairs, grown)
        values = moved.values.decode() if isinstance(moved.values, EncodedVector) else moved.values
        rows = np.arange(len(values), dtype=np.uint32)
        candidates = self.kind.candidates(values)
        add_candidates(
            moved.groups.view(np.uint32), rows, *candidates, self.kind.precision, self.kind.table, sketches.reshape(-1)
        )
        return SmartPartial(without_groups(pairs, sketched), grown, sketches)

    def _no_registers(self, count: int) -> Array:
        return np.zeros((count, 1 << self.kind.precision), np.uint8)


def without_groups(pairs: PairsPartial, dropped: Array) -> PairsPartial:
    """Return the pairs without those of groups for which `dropped` (bool [num_groups]) is true."""
    kept = np.flatnonzero(~dropped[pairs.groups])
    values = pairs.values
    if isinstance(values, EncodedVector):
        return PairsPartial(pairs.groups[kept], EncodedVector(values.ids[kept], values.dictionary), None, pairs.num_groups)
    return PairsPartial(pairs.groups[kept], Vector(values.type, take(values.values, kept)), None, pairs.num_groups)


def _smart(known: dict[str, Number], kind: Callable[[Call, dict[str, int]], RegisterKind]) -> Callable[..., SmartCount]:
    def bind(call: Call, arg_types: Sequence[ValueType]) -> SmartCount:
        data_type, _ = require_one_argument(call, arg_types, 1)
        given = {name: int(value) for name, value in text_parameters(call, 1, known).items()}
        threshold = given["threshold"] if given["threshold"] > 0 else _THRESHOLD_MAX
        traits = AggregateTraits(DataType.INT, VALUES, is_of_distinct_values=True)
        exact = SmartCount(kind(call, given), _THRESHOLD_MAX, data_type, traits)
        return replace(exact, threshold=threshold, traits=replace(traits, of_groups=exact))

    return bind


register_aggregate(
    ["distinctCountSmartHLL"],
    _smart(
        {
            "threshold": replace(_THRESHOLD, synonym="hllConversionThreshold"),
            "log2m": Number(_DEFAULT_LOG2M, LOG2M_RANGE[0], LOG2M_RANGE[-1], "hllLog2m"),
            "dictThreshold": _THRESHOLD,
        },
        lambda call, given: HllKind(given["log2m"]),
    ),
)
register_aggregate(
    ["distinctCountSmartHLLPlus"],
    _smart(
        {"threshold": _THRESHOLD, "p": HLLPLUS_PRECISION, "sp": SPARSE_PRECISION},
        lambda call, given: hllplus_kind(call, given["p"], given["sp"]),
    ),
)
register_aggregate(
    ["distinctCountSmartULL"],
    _smart({"threshold": _THRESHOLD, "p": ULL_PRECISION}, lambda call, given: UllKind(given["p"])),
)

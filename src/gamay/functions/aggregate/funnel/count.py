"""FUNNELCOUNT: for each step, the number of keys that satisfy its condition and those of all earlier steps, in any order.

    FUNNELCOUNT(STEPS(c1, c2, ...), CORRELATEBY(k1 [, k2, ...]) [, SETTINGS('setting', ...)])

Settings: `bitmap` (default) and `set` count exactly; `theta_sketch` estimates, with `nominalEntries=4096`. With
`partitioned` the counts of the segments are added up, which is correct if no two segments share a key; `sorted`, which
declares segments sorted by key, has no further effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.distinct.coding import common_codes
from gamay.functions.aggregate.distinct.pairs import (
    Pairs,
    PairsPartial,
    decode_pairs,
    encode_pairs,
    merge_pairs,
    select_pairs,
)
from gamay.functions.aggregate.sketch.entries import ThetaState, decode_entries, encode_entries
from gamay.functions.aggregate.sketch.theta import power_of_two
from gamay.functions.aggregate.totals.totals import flatten, mask_of
from gamay.functions.aggregate_spi import Aggregate, AggregateTraits, GroupIds, Partial, State
from gamay.functions.convert import convert, to_vector
from gamay.functions.expression import FUNNEL_PARTS, Call, Expression, Literal
from gamay.functions.registry import ValueType, canonical_name, register_aggregate
from gamay.functions.sketch.entries import THETA_MAX, Entries, estimates, intersection, merged, selected
from gamay.functions.sketch.registers import rounded
from gamay.functions.text import to_text
from gamay.functions.vector import Operand, Vector, take_rows
from gamay.model.types import DataType

_SETTINGS = ("bitmap", "set", "theta_sketch", "partitioned", "sorted")
_NOMINAL_ENTRIES = 4096
_NOMINAL_ENTRIES_MAX = 1 << 24


def _key(args: Sequence[Operand], num_rows: int) -> Operand:
    """Return the key of each row; several expressions are joined as texts, each prefixed with its length."""
    if len(args) == 1:
        return args[0]
    parts = []
    for arg in args:
        text = to_vector(convert(arg, DataType.STRING), num_rows).values
        parts += [pc.cast(pc.binary_length(text), pa.string()), text]
    return Vector(DataType.STRING, pc.binary_join_element_wise(*parts, ":"))


def _lists(counts: Array) -> Vector:
    """Return counts, int64 [groups, steps], as lists."""
    return Vector(DataType.LONG, counts.ravel(), np.arange(len(counts) + 1) * counts.shape[1])


@dataclass(frozen=True, slots=True)
class FunnelCount:
    """The exact or estimated FUNNELCOUNT. States and partials are lists with the keys of each step: pairs or theta sketches.

    k: the maximum number of hashes of a sketch; None to count keys exactly.
    """

    num_steps: int
    key_type: DataType
    k: int | None = None

    @property
    def traits(self) -> AggregateTraits:
        return AggregateTraits(DataType.LONG, result_is_multi_value=True, conditions=range(self.num_steps))

    def allocate(self, num_groups: int) -> list[Any]:
        return [self._new(num_groups) for _ in range(self.num_steps)]

    def _new(self, num_groups: int) -> Pairs | ThetaState:
        if self.k is None:
            return Pairs(self.key_type, num_groups, False)
        return ThetaState(self.key_type, self.k, THETA_MAX, num_groups)

    def grow(self, state: list[Any], num_groups: int) -> list[Any]:
        for step in state:
            step.grow(num_groups)
        return state

    def update(self, state: list[Any], groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        key = _key(args[self.num_steps :], num_rows)
        for step, condition in zip(state, args[: self.num_steps], strict=True):
            rows = np.flatnonzero(mask_of(convert(condition, DataType.BOOLEAN), num_rows))
            of_rows = None if groups is None else groups[rows]
            if isinstance(step, Pairs):
                step.update(of_rows, take_rows(key, rows), len(rows))
            else:
                step.update(*flatten(of_rows, take_rows(key, rows), len(rows)))

    def combine(self, state: list[Any], other: list[Any]) -> list[Any]:
        for mine, theirs in zip(state, other, strict=True):
            mine.combine(theirs)
        return state

    def seal(self, state: list[Any]) -> list[Any]:
        return [step.partial() if isinstance(step, Pairs) else step.finished() for step in state]

    def select(self, partial: list[Any], groups: Array) -> list[Any]:
        return [select_pairs(p, groups) if isinstance(p, PairsPartial) else selected(p, groups) for p in partial]

    def merge(self, partials: Sequence[list[Any]], maps: Sequence[GroupIds], num_groups: int) -> list[Any]:
        steps = zip(*partials, strict=True)
        if self.k is None:
            return [merge_pairs(step, maps, num_groups) for step in steps]
        return [merged(step, maps, num_groups, self.k) for step in steps]

    def finish(self, partial: list[Any]) -> Vector:
        return _lists(self.counts(partial))

    def counts(self, partial: list[Any]) -> Array:
        """Return how many keys of each group pass the first step, the first two, …: int64 [groups, steps]."""
        columns = self._exact_counts(partial) if self.k is None else self._estimates(partial)
        return np.stack(columns, axis=1)

    def _exact_counts(self, partial: list[PairsPartial]) -> list[Array]:
        _, codes = common_codes([step.values for step in partial])
        columns: list[Array] = []
        kept: Array | None = None
        for step, of_step in zip(partial, codes, strict=True):
            keys = step.groups.astype(np.int64) << 32 | of_step.astype(np.int64)
            kept = keys if kept is None else np.intersect1d(kept, keys, assume_unique=True)
            columns.append(np.bincount(kept >> 32, minlength=step.num_groups).astype(np.int64))
        return columns

    def _estimates(self, partial: list[Entries]) -> list[Array]:
        rows = range(1, len(partial) + 1)
        return [rounded(estimates(partial[0] if i == 1 else intersection(partial[:i]))) for i in rows]

    def encode(self, partial: list[Any]) -> list[pa.Array]:
        encode = encode_pairs if self.k is None else encode_entries
        return [array for step in partial for array in encode(step)]

    def decode(self, arrays: Sequence[pa.Array]) -> list[Any]:
        size = len(arrays) // self.num_steps
        parts = [list(arrays[i : i + size]) for i in range(0, len(arrays), size)]
        return [decode_pairs(self.key_type, part) if self.k is None else decode_entries(part) for part in parts]


@dataclass(frozen=True, slots=True)
class SummedFunnelCount:
    """FUNNELCOUNT of segments that share no key. The partial is the counts: int64 [groups, steps]."""

    inner: FunnelCount

    @property
    def traits(self) -> AggregateTraits:
        return replace(self.inner.traits, adds_up_segments=True)

    def allocate(self, num_groups: int) -> State:
        return self.inner.allocate(num_groups)

    def grow(self, state: State, num_groups: int) -> State:
        return self.inner.grow(state, num_groups)

    def update(self, state: State, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        self.inner.update(state, groups, args, num_rows)

    def combine(self, state: State, other: State) -> State:
        return self.inner.combine(state, other)

    def seal(self, state: State) -> Array:
        return self.inner.counts(self.inner.seal(state))

    def select(self, partial: Array, groups: Array) -> Array:
        return np.asarray(partial[groups])

    def merge(self, partials: Sequence[Array], maps: Sequence[GroupIds], num_groups: int) -> Array:
        total = np.zeros((num_groups, self.inner.num_steps), np.int64)
        for partial, groups in zip(partials, maps, strict=True):
            np.add.at(total, groups, partial)
        return total

    def finish(self, partial: Array) -> Vector:
        return _lists(partial)

    def encode(self, partial: Array) -> list[pa.Array]:
        return [pa.array(partial[:, step]) for step in range(self.inner.num_steps)]

    def decode(self, arrays: Sequence[pa.Array]) -> Partial:
        return np.stack([array.to_numpy() for array in arrays], axis=1)


# -- binding


def _parts(call: Call) -> dict[str, tuple[Expression, ...]]:
    """Return the arguments of STEPS, CORRELATEBY and SETTINGS. Raises QueryError for any other argument."""
    parts: dict[str, tuple[Expression, ...]] = {}
    for arg in call.args:
        name = canonical_name(arg.name) if isinstance(arg, Call) else ""
        if not isinstance(arg, Call) or name not in FUNNEL_PARTS or name in parts:
            raise _wrong("its arguments are STEPS(...), CORRELATEBY(...) and SETTINGS(...), each once")
        parts[name] = arg.args
    for name in ("steps", "correlateby"):
        if not parts.get(name):
            raise _wrong(f"{name.upper()}(...) with at least one expression is missing")
    return parts


def _arguments(call: Call) -> tuple[Expression, ...]:
    parts = _parts(call)
    return (*parts["steps"], *parts["correlateby"])


def _bind(call: Call, arg_types: Sequence[ValueType]) -> Aggregate:
    parts = _parts(call)
    num_steps = len(parts["steps"])
    for i, (data_type, multi_value) in enumerate(arg_types):
        if multi_value or (i < num_steps and data_type.is_binary):
            what = f"step {i + 1}" if i < num_steps else "a key"
            raise _wrong(f"{what} cannot be {data_type.value}{'_ARRAY' if multi_value else ''}")
    key_type = arg_types[num_steps][0] if len(arg_types) == num_steps + 1 else DataType.STRING
    if key_type is DataType.UNKNOWN:
        raise _wrong("a key cannot be NULL")
    settings, entries = _settings(parts.get("settings", ()))
    inner = FunnelCount(num_steps, key_type, entries if "theta_sketch" in settings else None)
    return SummedFunnelCount(inner) if "partitioned" in settings else inner


def _settings(given: Sequence[Expression]) -> tuple[set[str], int]:
    """Return the settings, and the number of hashes of a sketch."""
    settings: set[str] = set()
    entries = _NOMINAL_ENTRIES
    for arg in given:
        text = arg.value if isinstance(arg, Literal) else None
        name, equals, value = "".join(str(text).split()).lower().partition("=")
        if isinstance(text, str) and name == "nominalentries" and value.isdecimal():
            entries = power_of_two(min(max(int(value[:9]), 16), _NOMINAL_ENTRIES_MAX))
        elif isinstance(text, str) and name in _SETTINGS and (not equals or value in ("true", "false")):
            settings |= {name} if value != "false" else set()
        else:
            raise _wrong(f"unknown setting {to_text(arg)}; there are {', '.join(_SETTINGS)} and nominalEntries=4096")
    if "sorted" in settings and "partitioned" not in settings:
        raise _wrong("the setting 'sorted' needs 'partitioned' beside it")
    return settings, entries


def _wrong(detail: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Aggregate 'funnelCount': {detail}")


register_aggregate(["funnelCount"], _bind, arguments=_arguments)

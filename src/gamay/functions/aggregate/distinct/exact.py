"""SUMINT, SUMLONG and SUMPRECISION: exact sums.

SUMINT and SUMLONG take whole numbers and return a LONG; a sum that does not fit 64 bits is an error.
`SUMPRECISION(x, precision, scale)` takes numbers, decimal text and serialised decimals (BYTES: a scale of two bytes, then
the unscaled value), and returns the sum as text, rounded half to even to `precision` digits and then to `scale` decimal
places if these are given. Empty: 0, and null for SUMPRECISION.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.distinct.distinct import COUNTED_VALUES, DistinctAggregate, counts_of
from gamay.functions.aggregate.distinct.pairs import PairsPartial
from gamay.functions.aggregate.lookup import INTEGERS, lookup_values, numbers
from gamay.functions.aggregate.totals.numeric import require_arguments
from gamay.functions.aggregate.totals.totals import flatten, unsigned
from gamay.functions.aggregate_spi import Aggregate, AggregateTraits, GroupIds, KeepsState, Sent
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.text import java_double_text
from gamay.functions.vector import EncodedVector, Operand, Vector, take
from gamay.kernels.group.aggregation import add_values
from gamay.kernels.group.halves import add_coded_halves, add_halves, total_halves
from gamay.model.types import DataType

# Sums are exact, up to a million digits.
_EXACT = Context(prec=1_000_000, rounding=ROUND_HALF_EVEN, Emax=MAX_EMAX, Emin=MIN_EMIN)
_PRECISION_MAX = 1_000_000
_HALF_BITS = 32


class HalvesState:
    """Sums and counts of groups. sums: int64 [num_groups, 2], upper and lower halves. seen: uint8, 1 if a group has rows."""

    def __init__(self, num_groups: int) -> None:
        self.sums = np.zeros((num_groups, 2), np.int64)
        self.seen = np.zeros(num_groups, np.uint8)

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        sums, seen = self.sums, self.seen
        self.sums, self.seen = np.zeros((num_groups, 2), np.int64), np.zeros(num_groups, np.uint8)
        self.sums[: len(sums)], self.seen[: len(seen)] = sums, seen

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int, watch: bool) -> None:
        """Add a batch of rows; `watch`: whether to record which groups have rows."""
        groups, values = flatten(None if groups is None else unsigned(groups), operand, num_rows)
        if groups is None:
            vector = values.decode() if isinstance(values, EncodedVector) else values
            self.sums[0] += total_halves(numbers(vector.type, vector.values))
            self.seen[0] |= len(vector) > 0
            return
        if isinstance(values, EncodedVector) and len(values.dictionary) < len(groups):
            add_coded_halves(groups, values.ids, lookup_values(values.dictionary), self.sums)
        else:
            values = values.decode() if isinstance(values, EncodedVector) else values
            add_halves(groups, numbers(values.type, values.values), self.sums)
        if watch:
            self.seen[groups] = 1

    def combine(self, other: "HalvesState") -> None:
        """Add the sums of another thread over the same groups."""
        self.sums = _carried(self.sums) + _carried(other.sums)
        self.seen |= other.seen


def _carried(sums: Array) -> Array:
    """Return equal sums whose lower halves have 32 bits."""
    return np.stack([sums[:, 0] + (sums[:, 1] >> _HALF_BITS), sums[:, 1] & ((1 << _HALF_BITS) - 1)], axis=1)


@dataclass(frozen=True, slots=True)
class ExactSum(KeepsState):
    """A sum of whole numbers. The partial is int64 [num_groups, 3]: upper and lower half, and 1 where there was a row."""

    name: str
    result: Callable[[Array], Vector]
    traits: AggregateTraits

    @property
    def _watches(self) -> bool:
        return self.traits.result_type is DataType.STRING

    def allocate(self, num_groups: int) -> HalvesState:
        return HalvesState(num_groups)

    def update(self, state: HalvesState, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        state.update(groups, args[0], num_rows, self._watches)

    def seal(self, state: HalvesState) -> Array:
        return np.column_stack([_carried(state.sums), state.seen.astype(np.int64)])

    def select(self, partial: Array, groups: Array) -> Array:
        return np.asarray(partial[groups])

    def merge(self, partials: Sequence[Array], maps: Sequence[GroupIds], num_groups: int) -> Array:
        merged = np.zeros((3, num_groups), np.int64)
        for partial, groups in zip(partials, maps, strict=True):
            for into, column in zip(merged, partial.T, strict=True):
                add_values(unsigned(groups), np.ascontiguousarray(column), into, 0)
        return np.column_stack([_carried(merged[:2].T), np.minimum(merged[2], 1)])

    def finish(self, partial: Array) -> Vector:
        return self.result(partial)

    def encode(self, partial: Array) -> list[Sent]:
        return list(partial.T)

    def decode(self, arrays: Sequence[Sent]) -> Array:
        return np.stack(arrays, axis=1)


def _as_longs(name: str) -> Callable[[Array], Vector]:
    def result(partial: Array) -> Vector:
        upper, lower = partial[:, 0], partial[:, 1]
        if len(upper) and not (int(upper.min()) >= -(1 << 31) and int(upper.max()) < 1 << 31):
            raise QueryError(
                ErrorCode.QUERY_EXECUTION,
                f"The result of '{name}' does not fit 64 bits; SUMPRECISION is exact without a limit, SUM is a DOUBLE",
            )
        return Vector(DataType.LONG, (upper << _HALF_BITS) | lower)

    return result


# -- decimals


@dataclass(frozen=True, slots=True)
class Rounding:
    """The number of digits and decimal places that a sum is rounded to; None for no rounding."""

    digits: int | None
    places: int | None

    def text(self, total: Decimal) -> str:
        """Return a sum as plain text."""
        if self.digits:
            total = Context(prec=self.digits, rounding=ROUND_HALF_EVEN, Emax=MAX_EMAX, Emin=MIN_EMIN).plus(total)
        if self.places is not None:
            total = total.quantize(Decimal((0, (1,), -self.places)), context=_EXACT)
        return format(total, "f")


def _as_texts(rounding: Rounding) -> Callable[[Array], Vector]:
    def result(partial: Array) -> Vector:
        sums = [rounding.text(Decimal((upper << _HALF_BITS) + lower)) for upper, lower in partial[:, :2].tolist()]
        return _texts(sums, partial[:, 2] == 0)

    return result


def _texts(sums: Iterable[str], missing: Array) -> Vector:
    return Vector(DataType.STRING, pa.array(sums, pa.string()), nulls=missing if missing.any() else None)


def _precise_sum(rounding: Rounding) -> Callable[[PairsPartial], Vector]:
    """Return a function that adds up the distinct values of each group, each multiplied by its count."""

    def result(partial: PairsPartial) -> Vector:
        decimals, places = _entries(partial)
        totals: dict[int, Decimal] = {}
        rows = zip(partial.groups.tolist(), places.tolist(), counts_of(partial).tolist(), strict=True)
        for group, place, count in rows:
            addend = decimals[place] if count == 1 else _EXACT.multiply(decimals[place], Decimal(count))
            totals[group] = _EXACT.add(totals[group], addend) if group in totals else addend
        missing = np.ones(partial.num_groups, bool)
        missing[list(totals)] = False
        sums = [rounding.text(totals[group]) if group in totals else "" for group in range(partial.num_groups)]
        return _texts(sums, missing)

    return result


def _entries(partial: PairsPartial) -> tuple[list[Decimal], Array]:
    """Return the distinct values as decimals, and for each pair the index of its value."""
    values = partial.values
    if not isinstance(values, EncodedVector):
        return _decimals(values), np.arange(len(values))
    used, places = np.unique(values.ids, return_inverse=True)
    return _decimals(Vector(values.type, take(values.dictionary.values, used))), places


def _decimals(values: Vector) -> list[Decimal]:
    if values.type is DataType.BIG_DECIMAL:
        return list(values.values)
    if values.type is DataType.BYTES:
        return [_deserialized(value) for value in values.values.to_pylist()]
    if values.type.is_text:
        return [_parsed(text) for text in values.values.to_pylist()]
    endless = values.values[~np.isfinite(values.values)]
    if len(endless):
        raise _not_a_decimal(java_double_text(float(endless[0])))
    return [Decimal(text) for text in values.values.astype(str).tolist()]


def _parsed(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or "_" in text or text != text.strip():
        raise _not_a_decimal(text)
    return value


def _not_a_decimal(text: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_EXECUTION, f"SUMPRECISION cannot add '{text}', which is not a decimal number")


def _deserialized(data: bytes) -> Decimal:
    if len(data) < 3:
        raise QueryError(
            ErrorCode.QUERY_EXECUTION,
            f"SUMPRECISION cannot add the bytes '{data.hex()}': a serialised decimal has a scale of two bytes and a value",
        )
    scale, unscaled = int.from_bytes(data[:2], "big", signed=True), int.from_bytes(data[2:], "big", signed=True)
    return _EXACT.scaleb(Decimal(unscaled), -scale)


# -- binding


def _bind_integers(call: Call, arg_types: Sequence[ValueType]) -> ExactSum:
    require_arguments(call, 1, 1)
    data_type, _ = arg_types[0]
    if data_type not in INTEGERS:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Aggregate '{call.name}' needs whole numbers, its argument is {data_type.value}; write sum(x), or "
            f"{call.name}(CAST(x AS LONG))",
        )
    return ExactSum(call.name, _as_longs(call.name), AggregateTraits(DataType.LONG, "halves"))


def _bind_precision(call: Call, arg_types: Sequence[ValueType]) -> Aggregate:
    require_arguments(call, 1, 3)
    data_type, _ = arg_types[0]
    rounding = Rounding(_whole(call, 1, "precision", 0), _whole(call, 2, "scale", -_PRECISION_MAX))
    if data_type in INTEGERS:
        return ExactSum(call.name, _as_texts(rounding), AggregateTraits(DataType.STRING, "watched halves"))
    if not (data_type.is_numeric or data_type in (DataType.STRING, DataType.BYTES)):
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Aggregate '{call.name}' takes numbers, decimal text and serialised decimals, not {data_type.value}",
        )
    traits = AggregateTraits(DataType.STRING, COUNTED_VALUES)
    return DistinctAggregate(data_type, _precise_sum(rounding), traits, counted=True)


def _whole(call: Call, position: int, meaning: str, least: int) -> int | None:
    """Return an integer literal among the call's arguments, None if it is omitted."""
    if len(call.args) <= position:
        return None
    argument = call.args[position]
    value = argument.value if isinstance(argument, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _PRECISION_MAX:
        ordinal = ("", "second", "third")[position]
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"The {ordinal} argument of '{call.name}' is the {meaning}, a whole number from {least} to {_PRECISION_MAX}",
        )
    return value


register_aggregate(["sumInt", "sumLong"], _bind_integers)
register_aggregate(["sumPrecision"], _bind_precision)

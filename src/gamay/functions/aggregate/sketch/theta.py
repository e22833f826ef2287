"""DISTINCTCOUNTTHETASKETCH and DISTINCTCOUNTRAWTHETASKETCH: distinct counts of sets, their unions and intersections.

    DISTINCTCOUNTTHETASKETCH(x [, 'nominalEntries=4096;samplingProbability=1.0;accumulatorThreshold=2'
        [, 'filter 1', ..., 'post-aggregation']])

    DISTINCTCOUNTTHETASKETCH(user, '', 'day = 1', 'day = 2', 'SET_INTERSECT($1, $2)')

counts the users of both days. Filters are conditions as in WHERE; binding the query parses their texts to expressions.
Over BYTES, serialised theta sketches are merged. nominalEntries is rounded up to a power of two. accumulatorThreshold,
which trades memory for time in Pinot, has no effect: whole batches are merged at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.sketch.entries import MergedState, ThetaState, decode_entries, encode_entries
from gamay.functions.aggregate.totals.totals import flatten, mask_of
from gamay.functions.aggregate_spi import AggregateTraits, GroupIds
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.compact import base64_texts, theta_bytes
from gamay.functions.sketch.entries import THETA_MAX, Entries, estimates, merged, no_entries, selected
from gamay.functions.sketch.parameters import Number, text_parameters
from gamay.functions.sketch.registers import rounded
from gamay.functions.sketch.setops import SetExpression, evaluate_sets, parse_set_expression, uses
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, take
from gamay.model.types import DataType

_PARAMETERS = {
    "nominalEntries": Number(4096, 9, 1 << 24),
    "samplingProbability": Number(1.0, 1e-9, 1.0),
    "accumulatorThreshold": Number(2, 1, (1 << 31) - 1),
}
FIRST_FILTER = 2


@dataclass(frozen=True, slots=True)
class ThetaSketch:
    """Distinct counts by theta sketches. States and partials are lists: sketches of all rows, then of each filter's rows.

    A state is None if the post-aggregation does not need it. k: the maximum number of hashes. theta: of a new sketch.
    """

    k: int
    theta: int
    argument_type: DataType
    num_filters: int
    post: SetExpression
    raw: bool
    traits: AggregateTraits

    def allocate(self, num_groups: int) -> "list[ThetaState | MergedState | None]":
        return [self._new(num_groups) if uses(self.post, i) else None for i in range(self.num_filters + 1)]

    def _new(self, num_groups: int) -> ThetaState | MergedState:
        if self.argument_type is DataType.BYTES:
            return MergedState(self.k, self.theta, None, num_groups)
        return ThetaState(self.argument_type, self.k, self.theta, num_groups)

    def grow(self, state: "list[ThetaState | MergedState | None]", num_groups: int) -> Any:
        for part in state:
            if part is not None:
                part.grow(num_groups)
        return state

    def update(
        self,
        state: "list[ThetaState | MergedState | None]",
        groups: GroupIds | None,
        args: Sequence[Operand],
        num_rows: int,
    ) -> None:
        operand = args[0]
        groups, values = flatten(groups, operand, num_rows)
        for i, part in enumerate(state):
            if part is None:
                continue
            if i == 0:
                part.update(groups, values)
                continue
            kept = np.flatnonzero(_expanded(mask_of(args[i], num_rows), operand))
            part.update(None if groups is None else groups[kept], _taken(values, kept))

    def combine(self, state: "list[Any]", other: "list[Any]") -> "list[Any]":
        for mine, theirs in zip(state, other, strict=True):
            if mine is not None:
                mine.combine(theirs)
        return state

    def seal(self, state: "list[ThetaState | MergedState | None]") -> list[Entries]:
        done = [None if part is None else part.finished() for part in state]
        num_groups = next(part.num_groups for part in done if part is not None)
        return [no_entries(num_groups, self.theta) if part is None else part for part in done]

    def select(self, partial: list[Entries], groups: Array) -> list[Entries]:
        return [selected(entries, groups) for entries in partial]

    def merge(self, partials: Sequence[list[Entries]], maps: Sequence[GroupIds], num_groups: int) -> list[Entries]:
        return [merged(parts, maps, num_groups, self.k) for parts in zip(*partials, strict=True)]

    def finish(self, partial: list[Entries]) -> Vector:
        result = evaluate_sets(self.post, partial, self.k)
        if self.raw:
            return Vector(DataType.STRING, base64_texts(theta_bytes(result)))
        return Vector(DataType.LONG, rounded(estimates(result)))

    def encode(self, partial: list[Entries]) -> list[pa.Array]:
        return [array for entries in partial for array in encode_entries(entries)]

    def decode(self, arrays: Sequence[pa.Array]) -> list[Entries]:
        size = len(arrays) // (self.num_filters + 1)
        return [decode_entries(list(arrays[i : i + size])) for i in range(0, len(arrays), size)]


def _expanded(mask: Array, operand: Operand) -> Array:
    """Return the mask for each value of a multi-value operand."""
    if isinstance(operand, Scalar) or operand.offsets is None:
        return mask
    return np.repeat(mask, np.diff(operand.offsets))


def _taken(values: Vector | EncodedVector, rows: Array) -> Vector | EncodedVector:
    if isinstance(values, EncodedVector):
        return EncodedVector(values.ids[rows], values.dictionary)
    return Vector(values.type, take(values.values, rows))


def theta_of(probability: float) -> int:
    """Return the initial theta of a sketch that samples values with this probability."""
    return THETA_MAX if probability >= 1 else int(np.float32(THETA_MAX) * np.float32(probability))


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is not below a number."""
    return 1 << (number - 1).bit_length()


def _bind(call: Call, arg_types: Sequence[ValueType]) -> ThetaSketch:
    given = text_parameters(call, 1, _PARAMETERS)
    conditions = call.args[FIRST_FILTER:-1]
    post: SetExpression = 0
    if not arg_types or len(call.args) == FIRST_FILTER + 1 or len(arg_types) != 1 + len(conditions):
        raise _wrong(call, "the arguments are x [, parameters [, filters ..., post-aggregation]]")
    for position, (data_type, multi_value) in enumerate(arg_types[1:]):
        if data_type is not DataType.BOOLEAN or multi_value:
            raise _wrong(call, f"filter {position + 1} is not a condition")
    if conditions:
        text = call.args[-1].value if isinstance(call.args[-1], Literal) else None
        if not isinstance(text, str):
            raise _wrong(call, "the last argument is a text such as 'SET_INTERSECT($1, $2)'")
        try:
            post = parse_set_expression(text, len(conditions))
        except ValueError as error:
            raise _wrong(call, f"the post-aggregation '{text}': {error}") from error
    k, theta = power_of_two(int(given["nominalEntries"])), theta_of(given["samplingProbability"])
    raw = "raw" in call.name
    traits = AggregateTraits(
        DataType.STRING if raw else DataType.LONG,
        ("theta", k, theta, post, conditions),
        is_of_distinct_values=not conditions,
        conditions=range(1, 1 + len(conditions)),
    )
    return ThetaSketch(k, theta, arg_types[0][0], len(conditions), post, raw, traits)


def _wrong(call: Call, detail: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Aggregate '{call.name}': {detail}")


_NAMES = ("distinctCountThetaSketch", "distinctCountRawThetaSketch")
register_aggregate([*_NAMES, *(f"{name}MV" for name in _NAMES)], _bind, conditions=slice(FIRST_FILTER, -1))

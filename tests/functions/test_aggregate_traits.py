"""The declared traits of aggregates against their behaviour."""

from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamay.base.errors import QueryError
from gamay.functions.aggregate_spi import Aggregate, AggregateTraits
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.registry import aggregate_arguments, bind_aggregate, function_names, is_aggregate
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.limits.memory_size import held_bytes

X = Column("x")
TRAITS = {field.name for field in fields(AggregateTraits)}
MORE: dict[str, tuple[Any, ...]] = {
    "percentile": (50,), "percentileest": (50,), "percentiletdigest": (50,), "percentilekll": (50,),
    "percentilesmarttdigest": (50,), "percentilerawest": (50,), "percentilerawkll": (50,), "percentilerawtdigest": (50,),
    "histogram": (0, 100, 10), "arrayagg": ("LONG",),
}  # fmt: skip


def _of_numbers() -> dict[str, Aggregate]:
    """Return every aggregate that takes one LONG and constants, by its name in queries."""
    made = {}
    for name in map(str.lower, function_names()):
        if not is_aggregate(name) or name.endswith("mv"):
            continue
        literals = [Literal(v, DataType.STRING if isinstance(v, str) else DataType.INT) for v in MORE.get(name, ())]
        call = Call(name, (X, *literals))
        try:
            made[name] = bind_aggregate(call, [(DataType.LONG, False) for _ in aggregate_arguments(call)])
        except QueryError:
            continue  # it takes something else
    return made


AGGREGATES = _of_numbers()


def _filled(aggregate: Aggregate, values: Any) -> Any:
    state = aggregate.allocate(1)
    aggregate.update(state, None, [Vector(DataType.LONG, np.array(values, np.int64))], len(values))
    return state


def _result(aggregate: Aggregate, values: Any) -> Any:
    result = aggregate.finish(aggregate.seal(_filled(aggregate, values)))
    assert result.type is aggregate.traits.result_type
    assert (result.offsets is not None) == aggregate.traits.result_is_multi_value
    return result.values.to_pylist() if isinstance(result.values, pa.Array) else result.values.tolist()


def test_most_aggregates_are_looked_at() -> None:
    assert len(AGGREGATES) > 50, sorted(AGGREGATES)


@pytest.mark.parametrize("name", AGGREGATES)
def test_facts_are_in_the_traits_alone(name: str) -> None:
    aggregate = AGGREGATES[name]
    assert isinstance(aggregate.traits, AggregateTraits)
    assert TRAITS.isdisjoint(dir(aggregate))
    _result(aggregate, [7, 1, 7, 3])


@pytest.mark.parametrize("name", [name for name, aggregate in AGGREGATES.items() if aggregate.traits.is_of_distinct_values])
def test_repeats_change_nothing(name: str) -> None:
    values = [*range(3000), -4]
    assert _result(AGGREGATES[name], values) == _result(AGGREGATES[name], [*values, *values[::7]])


@pytest.mark.parametrize("name", [name for name, aggregate in AGGREGATES.items() if aggregate.traits.is_bounded])
def test_states_that_are_bounded_do_not_grow(name: str) -> None:
    few, many = (_filled(AGGREGATES[name], np.arange(n) * 7919) for n in (1, 100_000))
    assert held_bytes(many) == held_bytes(few)


@pytest.mark.parametrize("name", [name for name, aggregate in AGGREGATES.items() if aggregate.traits.state_kind is not None])
def test_equal_kinds_read_each_others_states(name: str) -> None:
    mine = AGGREGATES[name]
    values = [5, 9, 5, 1, 12]
    for other in AGGREGATES.values():
        if other.traits.state_kind == mine.traits.state_kind != "totals":  # of which the owner keeps what all need
            shared = mine.finish(mine.seal(_filled(other, values))).values
            alone = mine.finish(mine.seal(_filled(mine, values))).values
            np.testing.assert_array_equal(np.asarray(shared), np.asarray(alone))

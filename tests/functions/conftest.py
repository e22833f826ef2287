"""Aggregates called directly: over one state, and over rows divided among threads, segments and servers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

from gamay.functions.aggregate_spi import Aggregate
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.registry import aggregate_arguments, bind_aggregate
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, take
from gamay.model.types import DataType

Bind: TypeAlias = Callable[..., Aggregate]
Divided: TypeAlias = Callable[..., Vector]


def _literal(value: Any) -> Literal:
    types = {bool: DataType.BOOLEAN, int: DataType.INT, float: DataType.DOUBLE, str: DataType.STRING}
    return Literal(value, types[type(value)])


@pytest.fixture(scope="session")
def bind_call() -> Bind:
    """bind_call("percentile", [DataType.INT], 95): the columns of these types, then the constants."""

    def bind(name: str, types: Sequence[DataType], *constants: Any, multi_value: bool = False) -> Aggregate:
        columns = {f"c{i}": (data_type, multi_value) for i, data_type in enumerate(types)}
        more = [value if isinstance(value, Call | Column | Literal) else _literal(value) for value in constants]
        call = Call(name, (*map(Column, columns), *more))
        arguments: tuple[Expression, ...] = aggregate_arguments(call)
        return bind_aggregate(
            call, [columns[arg.name] if isinstance(arg, Column) else (_type(arg), False) for arg in arguments]
        )

    return bind


def _type(argument: Expression) -> DataType:
    assert isinstance(argument, Literal)
    return argument.type


def rows_of(operand: Operand, rows: Any) -> Operand:
    """Return an operand of single values at some rows."""
    if isinstance(operand, Scalar):
        return operand
    if isinstance(operand, EncodedVector):
        return EncodedVector(operand.ids[rows], operand.dictionary)
    return Vector(operand.type, take(operand.values, rows))


@pytest.fixture(scope="session")
def whole() -> Divided:
    """whole(aggregate, operands, groups, num_groups): the result when all rows are added to one state at once."""

    def run(aggregate: Aggregate, operands: Sequence[Operand], groups: Any, num_groups: int) -> Vector:
        state = aggregate.allocate(num_groups)
        num_rows = next(len(operand) for operand in operands if not isinstance(operand, Scalar))
        aggregate.update(state, groups, operands, num_rows)
        return aggregate.finish(aggregate.seal(state))

    return run


@pytest.fixture(scope="session")
def divided() -> Divided:
    """divided(aggregate, operands, groups, num_groups, seed): the same, with the rows divided at random.

    Among batches of a state, states of threads that are combined, and partials that are selected, sent and merged.
    """

    def run(aggregate: Aggregate, operands: Sequence[Operand], groups: Any, num_groups: int, seed: int) -> Vector:
        rng = np.random.default_rng(seed)
        num_rows = next(len(operand) for operand in operands if not isinstance(operand, Scalar))
        of_part = rng.integers(0, 4, num_rows)
        partials, maps = [], []
        for part in rng.permutation(4):
            rows = np.flatnonzero(of_part == part)
            partial = _partial(aggregate, operands, groups, num_groups, rows, rng)
            order = rng.permutation(num_groups)
            partial = aggregate.select(partial, order)
            if rng.random() < 0.7:
                partial = aggregate.decode(aggregate.encode(partial))
            partials.append(partial)
            maps.append(order.astype(np.int32))
        first = aggregate.merge(partials[:2], maps[:2], num_groups)
        identity = np.arange(num_groups, dtype=np.int32)
        return aggregate.finish(aggregate.merge([first, *partials[2:]], [identity, *maps[2:]], num_groups))

    return run


def _partial(
    aggregate: Aggregate, operands: Sequence[Operand], groups: Any, num_groups: int, rows: Any, rng: np.random.Generator
) -> Any:
    """Return the partial of some rows, from two threads and several batches."""
    states = [aggregate.allocate(1), aggregate.allocate(num_groups)]
    states[0] = aggregate.grow(states[0], num_groups)
    for batch in np.array_split(rng.permutation(rows), 4):
        which = int(rng.integers(0, 2))
        of_rows = None if groups is None else groups[batch]
        aggregate.update(states[which], of_rows, [rows_of(operand, batch) for operand in operands], len(batch))
    return aggregate.seal(aggregate.combine(states[0], states[1]))

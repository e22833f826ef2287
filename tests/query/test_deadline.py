"""A query's time is its own: what compiling takes is not counted."""

import time

import numpy as np
import pytest
from numba import njit

from gamay.base.clock import ManualClock
from gamay.base.errors import ErrorCode, QueryError
from gamay.kernels.jit import compiling_s
from gamay.query.deadline import Deadline


def test_a_deadline_passes_when_its_time_is_over() -> None:
    clock = ManualClock()
    deadline = Deadline.after_ms(1_000, clock)
    clock.advance(0.999)
    deadline.check()
    clock.advance(0.001)
    with pytest.raises(QueryError, match="longer than its 1000 ms") as raised:
        deadline.check()
    assert raised.value.code is ErrorCode.EXECUTION_TIMEOUT


def test_the_time_of_compiling_is_added_to_a_deadline() -> None:
    clock = ManualClock()
    deadline = Deadline.after_ms(1_000, clock)
    compiled_s, began_s = compiling_s(), time.monotonic()
    assert njit(lambda values: values.sum() + 1)(np.ones(3)) == 4
    passed_s = time.monotonic() - began_s
    compiled_s = compiling_s() - compiled_s
    assert 0 < compiled_s <= passed_s
    clock.advance(1 + compiled_s * 0.9)
    deadline.check()
    clock.advance(compiled_s * 0.2)
    with pytest.raises(QueryError, match="longer than its 1000 ms"):
        deadline.check()

"""Programs of arithmetic on columns: a few rows at a time go through all steps, in registers that stay in the nearest cache.

A step is a row of int64 [steps, 7]: what it does, where its results go, and four operands. `value` is two of them: an
address of float64, and 8, or 0 for a register, which begins anew with each few rows. Results go to an address of that kind,
too.

| step                                   | operands                                                                    |
| -------------------------------------- | --------------------------------------------------------------------------- |
| PLUS, MINUS, TIMES, DIVIDE             | value, value                                                                |
| ENTRIES + width                        | address of ids (unsigned, `width` bytes), address of the float64 entries    |
| VALUES + kind                          | address of values of the kind that KINDS tells                              |
| FRAMES + kind                          | addresses of low and high bytes, base and places, as `decode_decimals` in   |
|                                        | `gamay.kernels.encode.frame` has them                                       |
| WITH_ENTRIES * (1 + PLUS...) + width   | value, the left side; address of ids, address of entries                    |
| PRODUCT + 8 * width + width            | addresses of ids and of entries, of both sides                              |
| SINKS * (1 + ADD...) + width           | value; address of groups (unsigned, `width` bytes)                          |

What a sink does with its values goes to totals of groups, whose address stands where results go, with the cells from lane to
lane behind it (`gamay.kernels.group.aggregation`). Of width 0 there are no groups: all rows are added to one total, but for
those whose byte at the address in place of the groups' is 1; they are null. No address, 0: none is.

Whoever calls keeps the arrays behind the addresses. Steps pass addresses on: an array would be counted for each.
"""

from typing import Any

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]

from gamay.base.arrays import Array
from gamay.kernels.encode.frame import decode_decimals_from
from gamay.kernels.group.aggregation import add_values, count_add_values
from gamay.kernels.jit import kernel
from gamay.kernels.raw_memory import pointing

# A step costs 0.1 ns a row beside what it does at 512 rows, half of that here; five registers of more would fill the cache.
REGISTER_ROWS = 1024

PLUS, MINUS, TIMES, DIVIDE = 0, 1, 2, 3
ENTRIES = 8
VALUES = 16
FRAMES = 24
WITH_ENTRIES = 32
PRODUCT = 256
SINKS = 1024
ADD, COUNT_ADD, LOWER, RAISE = 0, 1, 2, 3
KINDS = {np.dtype(np.int32): 0, np.dtype(np.int64): 1, np.dtype(np.float32): 2}

EQUAL, LESS, AT_MOST = 0, 1, 2

_bytes = pointing(types.uint8)
_halfwords = pointing(types.uint16)
_words = pointing(types.uint32)
_ints = pointing(types.int32)
_longs = pointing(types.int64)
_floats = pointing(types.float32)
_doubles = pointing(types.float64)


@kernel
def _copy(values: Array, out: Array) -> None:
    for i in range(len(out)):
        out[i] = values[i]


@kernel
def _entries(ids: Array, entries: Array, out: Array) -> None:
    for i in range(len(out)):
        out[i] = entries[np.uint64(ids[i])]


@kernel
def _with_entries(operation: Any, left: Array, ids: Array, entries: Array, out: Array) -> None:
    if operation == PLUS:
        for i in range(len(out)):
            out[i] = left[i] + entries[np.uint64(ids[i])]
    elif operation == MINUS:
        for i in range(len(out)):
            out[i] = left[i] - entries[np.uint64(ids[i])]
    elif operation == TIMES:
        for i in range(len(out)):
            out[i] = left[i] * entries[np.uint64(ids[i])]
    else:
        for i in range(len(out)):
            out[i] = left[i] / entries[np.uint64(ids[i])]


@kernel
def _load_and_combine(step: Any, left: Array, address: Any, start: Any, entries: Any, out: Array) -> None:
    n, operation, width = len(out), step // WITH_ENTRIES - 1, step % WITH_ENTRIES
    if width == 1:
        _with_entries(operation, left, carray(_bytes(address + start), n), carray(_doubles(entries), 1), out)
    elif width == 2:
        _with_entries(operation, left, carray(_halfwords(address + 2 * start), n), carray(_doubles(entries), 1), out)
    else:
        _with_entries(operation, left, carray(_words(address + 4 * start), n), carray(_doubles(entries), 1), out)


@kernel
def _product(ids: Array, entries: Array, others: Array, other_entries: Array, out: Array) -> None:
    for i in range(len(out)):
        out[i] = entries[np.uint64(ids[i])] * other_entries[np.uint64(others[i])]


@kernel
def _product_with(ids: Array, entries: Any, width: Any, address: Any, start: Any, other_entries: Any, out: Array) -> None:
    n = len(out)
    left, right = carray(_doubles(entries), 1), carray(_doubles(other_entries), 1)
    if width == 1:
        _product(ids, left, carray(_bytes(address + start), n), right, out)
    elif width == 2:
        _product(ids, left, carray(_halfwords(address + 2 * start), n), right, out)
    else:
        _product(ids, left, carray(_words(address + 4 * start), n), right, out)


@kernel
def _multiply(step: Array, start: Any, out: Array) -> None:
    """Fill a register with products of the entries of two columns: 0.46 ns a row, 0.67 in two steps."""
    n, width, other = len(out), step[0] % PRODUCT // 8, step[0] % 8
    address = step[3] + width * start
    if width == 1:
        _product_with(carray(_bytes(address), n), step[4], other, step[5], start, step[6], out)
    elif width == 2:
        _product_with(carray(_halfwords(address), n), step[4], other, step[5], start, step[6], out)
    else:
        _product_with(carray(_words(address), n), step[4], other, step[5], start, step[6], out)


@kernel
def _load(step: Any, address: Any, start: Any, entries: Any, out: Array) -> None:
    """Fill a register from row `start` on of a column."""
    n = len(out)
    if step == ENTRIES + 1:
        _entries(carray(_bytes(address + start), n), carray(_doubles(entries), 1), out)
    elif step == ENTRIES + 2:
        _entries(carray(_halfwords(address + 2 * start), n), carray(_doubles(entries), 1), out)
    elif step == ENTRIES + 4:
        _entries(carray(_words(address + 4 * start), n), carray(_doubles(entries), 1), out)
    elif step == VALUES:
        _copy(carray(_ints(address + 4 * start), n), out)
    elif step == VALUES + 1:
        _copy(carray(_longs(address + 8 * start), n), out)
    else:
        _copy(carray(_floats(address + 4 * start), n), out)


@kernel
def _combine(step: Any, left: Array, right: Array, out: Array) -> None:
    if step == PLUS:
        for i in range(len(out)):
            out[i] = left[i] + right[i]
    elif step == MINUS:
        for i in range(len(out)):
            out[i] = left[i] - right[i]
    elif step == TIMES:
        for i in range(len(out)):
            out[i] = left[i] * right[i]
    else:
        for i in range(len(out)):
            out[i] = left[i] / right[i]


@kernel
def _lower(groups: Array, values: Array, lows: Array) -> None:
    for i in range(len(groups)):
        value, group = values[i], np.uint64(groups[i])
        if value < lows[group]:
            lows[group] = value


@kernel
def _raise(groups: Array, values: Array, highs: Array) -> None:
    for i in range(len(groups)):
        value, group = values[i], np.uint64(groups[i])
        if value > highs[group]:
            highs[group] = value


@kernel
def _sink(operation: Any, groups: Array, values: Array, totals: Array, stride: Any) -> None:
    if operation == ADD:
        add_values(groups, values, totals, stride)
    elif operation == COUNT_ADD:
        count_add_values(groups, values, totals, stride)
    elif operation == LOWER:
        _lower(groups, values, totals)
    else:
        _raise(groups, values, totals)


@kernel
def _least(values: Array, sign: Any, bound: Any) -> Any:
    """Return the least of a bound and of values times `sign`, 1 or -1; NaN where one of them is.

    Four bounds, so that comparisons overlap.
    """
    first, second, third, fourth = bound, bound, bound, bound
    is_nan = bound != bound
    whole = len(values) // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, d = sign * values[i], sign * values[i + 1], sign * values[i + 2], sign * values[i + 3]
        is_nan |= (a != a) | (b != b) | (c != c) | (d != d)
        first, second = a if a < first else first, b if b < second else second
        third, fourth = c if c < third else third, d if d < fourth else fourth
    for i in range(whole, len(values)):
        value = sign * values[i]
        is_nan |= value != value
        first = value if value < first else first
    return np.nan if is_nan else min(min(first, second), min(third, fourth))


@kernel
def _total(values: Array) -> Any:
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    whole = len(values) // 4 * 4
    for i in range(0, whole, 4):
        first += values[i]
        second += values[i + 1]
        third += values[i + 2]
        fourth += values[i + 3]
    for i in range(whole, len(values)):
        first += values[i]
    return first + second + third + fourth


@kernel
def _sink_one(operation: Any, values: Array, totals: Array) -> None:
    """Add to one total; NaN is kept by LOWER and RAISE, as it is where there are no groups."""
    if operation == LOWER:
        totals[0] = _least(values, 1.0, totals[0])
    elif operation == RAISE:
        totals[0] = -_least(values, -1.0, -totals[0])
    else:
        totals[operation] += _total(values)
        if operation == COUNT_ADD:
            totals[0] += len(values)


@kernel
def _sink_known(operation: Any, values: Array, nulls: Array, totals: Array) -> None:
    """Do what `_sink_one` does, but for the rows whose flag is 1: what changes nothing stands in for them."""
    nothing = np.inf if operation == LOWER else -np.inf if operation == RAISE else 0.0
    known, count = np.empty(len(values)), 0
    for i in range(len(values)):
        value = values[i]  # it is read in any case, or there would be a branch
        known[i] = nothing if nulls[i] != 0 else value
    _sink_one(operation, known, totals)
    if operation == COUNT_ADD:
        for null in nulls:
            count += null
        totals[0] -= count


@kernel
def _to_totals(step: Array, values: Array, start: Any) -> None:
    """Do what a sink does with a few rows from row `start` on."""
    n, operation, width = len(values), step[0] // SINKS - 1, step[0] % SINKS
    totals, stride, groups = carray(_doubles(step[1]), 2), step[2], step[5] + width * start
    if width == 0 and groups == 0:
        _sink_one(operation, values, totals)
    elif width == 0:
        _sink_known(operation, values, carray(_bytes(groups + start), n), totals)
    elif width == 1:
        _sink(operation, carray(_bytes(groups), n), values, totals, stride)
    elif width == 2:
        _sink(operation, carray(_halfwords(groups), n), values, totals, stride)
    else:
        _sink(operation, carray(_words(groups), n), values, totals, stride)


@kernel
def _run(steps: Array, start: Any, n: Any) -> None:
    """Take the rows [start, start + n) through all steps."""
    for k in range(len(steps)):
        step = steps[k, 0]
        if step >= SINKS:
            _to_totals(steps[k], carray(_doubles(steps[k, 3] + steps[k, 4] * start), n), start)
            continue
        out = carray(_doubles(steps[k, 1] + steps[k, 2] * start), n)
        if step >= PRODUCT:
            _multiply(steps[k], start, out)
        elif FRAMES <= step < WITH_ENTRIES:
            decode_decimals_from(steps[k], step - FRAMES, start, out)
        elif ENTRIES <= step < WITH_ENTRIES:
            _load(step, steps[k, 3], start, steps[k, 4], out)
        else:
            left = carray(_doubles(steps[k, 3] + steps[k, 4] * start), n)
            if step >= WITH_ENTRIES:
                _load_and_combine(step, left, steps[k, 5], start, steps[k, 6], out)
            else:
                _combine(step, left, carray(_doubles(steps[k, 5] + steps[k, 6] * start), n), out)


@kernel
def run_program(steps: Array, num_rows: int) -> None:
    """Take so many rows through all steps."""
    for start in range(0, num_rows, REGISTER_ROWS):
        _run(steps, start, min(REGISTER_ROWS, num_rows - start))


@kernel
def _mark(result: Array, comparison: Any, negated: Any, constant: Any, out: Array) -> None:
    if comparison == EQUAL:
        for i in range(len(out)):
            out[i] = (result[i] == constant) != negated
    elif comparison == LESS:
        for i in range(len(out)):
            out[i] = (result[i] < constant) != negated
    else:
        for i in range(len(out)):
            out[i] = (result[i] <= constant) != negated


@kernel
def compare_values(steps: Array, comparison: int, negated: bool, constant: float, out: Array) -> None:
    """Write for each row whether what the last step computes, in a register, equals, is less than or at most a constant."""
    for start in range(0, len(out), REGISTER_ROWS):
        n = min(REGISTER_ROWS, len(out) - start)
        _run(steps, start, n)
        result = carray(_doubles(steps[len(steps) - 1, 1]), n)
        _mark(result, comparison, negated, constant, out[start : start + n])

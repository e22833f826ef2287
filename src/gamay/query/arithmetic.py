"""Arithmetic on columns under aggregates or in a condition, as programs (`gamay.kernels.group.programs`).

SUM(price * quantity) needs each product only briefly. A new array for each step of each block costs more in page faults than
the arithmetic itself, and a call for each step makes threads contend for the GIL: so one call takes a block through all
steps, up to the totals of its groups. Expressions of one dictionary column are computed once per entry, and common
subexpressions of several aggregates once per row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamay.base.arrays import Array, Mask
from gamay.functions.aggregate.totals.null_totals import NullableTotals
from gamay.functions.aggregate.totals.totals import Needs, Totals, unsigned
from gamay.functions.aggregate_spi import GroupIds
from gamay.functions.expression import Call, Column, Expression, Literal, column_names
from gamay.functions.frame import Frame, FramedVector, frame_of_ids
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, union_nulls
from gamay.kernels.group.programs import (
    ADD,
    AT_MOST,
    COUNT_ADD,
    DIVIDE,
    ENTRIES,
    EQUAL,
    FRAMES,
    KINDS,
    LESS,
    LOWER,
    MINUS,
    PLUS,
    PRODUCT,
    RAISE,
    REGISTER_ROWS,
    SINKS,
    TIMES,
    VALUES,
    WITH_ENTRIES,
    compare_values,
    run_program,
)
from gamay.model.types import DataType

_OPERATIONS = {"plus": PLUS, "minus": MINUS, "times": TIMES, "divide": DIVIDE}
_ON_ENTRIES: dict[str, Callable[[Any, Any], Any]] = {
    "plus": np.add,
    "minus": np.subtract,
    "times": np.multiply,
    "divide": np.divide,
}
# the comparison, and whether to negate it: NaN is above all numbers, so "greater" is the negation of "at most"
_COMPARISONS = {
    "equals": (EQUAL, False),
    "notequals": (EQUAL, True),
    "lessthan": (LESS, False),
    "lessthanorequal": (AT_MOST, False),
    "greaterthan": (AT_MOST, True),
    "greaterthanorequal": (LESS, True),
}
_NUMBERS = frozenset({DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE})
_VALUE_BYTES = 8


def is_arithmetic(expression: Expression) -> bool:
    """Whether an expression consists only of sums, differences, products and quotients of columns and constants."""
    return isinstance(expression, Call) and _fits(expression)


def _fits(expression: Expression) -> bool:
    if isinstance(expression, Call):
        return (
            expression.name in _OPERATIONS
            and (len(expression.args) == 2 or (len(expression.args) > 2 and expression.name != "divide"))
            and all(map(_fits, expression.args))
            and len(column_names(expression)) > 0  # arithmetic of constants keeps integers
        )
    return isinstance(expression, Column) or (isinstance(expression, Literal) and expression.type in _NUMBERS)


class Arithmetic:
    """The registers of one thread, and a cache of expressions over dictionaries."""

    def __init__(self) -> None:
        self._registers = np.empty((0, REGISTER_ROWS))
        self._result = np.empty(0)
        self._entries: dict[Expression, tuple[Values, Array]] = {}

    def compute(self, expression: Expression, operand: Callable[[Expression], Operand], num_rows: int) -> Vector | None:
        """Compute an expression that `is_arithmetic` as DOUBLE, valid until the next call; None if a column is not of
        plain numbers."""
        program = self._program([expression], operand, num_rows)
        if program is None:
            return None
        if len(self._result) < num_rows:
            self._result = np.empty(num_rows)
        program.add(expression)
        run_program(self._table(program, self._result), num_rows)
        return Vector(DataType.DOUBLE, self._result[:num_rows], None, program.nulls_of(expression))

    def add(
        self,
        added: Sequence[tuple[Expression, Totals | NullableTotals]],
        groups: GroupIds | None,
        operand: Callable[[Expression], Operand],
        num_rows: int,
    ) -> bool:
        """Add several expressions that are `is_arithmetic` to totals of DOUBLE.

        Returns False, without effect, if a column is not of plain numbers, or has nulls that the totals cannot skip here.
        """
        program = self._program([expression for expression, _ in added], operand, num_rows)
        if program is None:
            return False
        counted: list[tuple[Totals, GroupIds | None, int]] = []
        for expression, totals in added:
            nulls = program.nulls_of(expression)
            receiver = _receiver(totals, groups, nulls)
            if receiver is None:
                return False
            left_out = nulls if groups is None else None
            program.sink(expression, *receiver, left_out)
            if Needs.COUNT in receiver[0].needs and Needs.SUM not in receiver[0].needs:
                counted.append((*receiver, num_rows if left_out is None else num_rows - int(np.count_nonzero(left_out))))
        for received, numbers, count in counted:
            received.update(numbers, None, count)
        run_program(self._table(program), num_rows)
        return True

    def compare(
        self,
        expression: Expression,
        comparison: str,
        constant: float,
        operand: Callable[[Expression], Operand],
        num_rows: int,
    ) -> Mask | None:
        """Return the rows for which a comparison of an `is_arithmetic` expression with a constant, not NaN, holds.

        None if a column is not of plain numbers.
        """
        program = self._program([expression], operand, num_rows)
        if program is None:
            return None
        marks = np.empty(num_rows, np.bool_)
        program.add(expression)
        compare_values(self._table(program), *_COMPARISONS[comparison], constant, marks)
        nulls = program.nulls_of(expression)
        if nulls is not None:
            marks &= ~nulls
        return marks

    def _program(
        self, expressions: Sequence[Expression], operand: Callable[[Expression], Operand], num_rows: int
    ) -> "_Program | None":
        columns = {name: operand(Column(name)) for expression in expressions for name in column_names(expression)}
        return _Program(columns, self._entries_of, num_rows) if all(map(_is_plain, columns.values())) else None

    def _table(self, program: "_Program", result: Array | None = None) -> Array:
        places = program.place_registers()
        count = program.num_registers + len(program.constants)
        if len(self._registers) < count:
            self._registers = np.empty((count, REGISTER_ROWS))
        for place, constant in enumerate(program.constants):
            self._registers[program.num_registers + place] = constant
        return program.table(places, self._registers, result)

    def _entries_of(self, expression: Expression, dictionary: Vector) -> Array:
        """Evaluate an expression of one column for each entry of its dictionary."""
        known = self._entries.get(expression)
        if known is None or known[0] is not dictionary.values:
            with np.errstate(all="ignore"):
                values = np.ascontiguousarray(_on_entries(expression, dictionary.values), np.float64)
            known = self._entries[expression] = dictionary.values, values
        return known[1]


def _on_entries(expression: Expression, values: Values) -> Any:
    if isinstance(expression, Literal):
        return float(expression.value)  # type: ignore[arg-type]
    if isinstance(expression, Column):
        return np.asarray(values, np.float64)
    assert isinstance(expression, Call)
    total, *others = [_on_entries(arg, values) for arg in expression.args]
    for other in others:
        total = _ON_ENTRIES[expression.name](total, other)
    return total


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a step, by the step's index."""

    step: int


@dataclass(frozen=True, slots=True)
class _Constant:
    place: int


@dataclass(frozen=True, slots=True)
class _InPlace:
    """A float64 column without a dictionary, by its address."""

    address: int


_Value = _Result | _Constant | _InPlace


class _Program:
    """The steps of expressions for one block of rows, with the arrays whose addresses they contain."""

    def __init__(
        self, columns: dict[str, Operand], entries_of: Callable[[Expression, Vector], Array], num_rows: int
    ) -> None:
        self.num_registers = 0
        self.constants: list[float] = []
        self._columns = columns
        self._entries_of = entries_of
        self._num_rows = num_rows
        self._steps: list[tuple[int, tuple[_Value | int, ...]]] = []
        self._sinks: list[tuple[int, ...]] = []
        self._known: dict[Expression, _Value] = {}
        self._kept: list[Array] = []

    def keep(self, array: Array) -> Array:
        """Keep an array alive as long as the program."""
        self._kept.append(array)
        return array

    def add(self, expression: Expression) -> _Value:
        """Add the steps for an expression, reusing earlier results; return where its value is."""
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = self._added(expression)
        return known

    def _added(self, expression: Expression) -> _Value:
        if isinstance(expression, Literal):
            self.constants.append(float(expression.value))  # type: ignore[arg-type]
            return _Constant(len(self.constants) - 1)
        counted = self._counted(expression)
        if counted is not None:
            return self._framed(counted)
        coded = self._coded(expression)
        if coded is not None:
            return self._step(ENTRIES + coded[0], coded[1], coded[2])
        if isinstance(expression, Column):
            return self._column(self._columns[expression.name])
        assert isinstance(expression, Call)
        return self._combined(expression)

    def _combined(self, call: Call) -> _Value:
        operation, last = _OPERATIONS[call.name], call.args[-1]
        first = call.args[0] if len(call.args) == 2 else Call(call.name, call.args[:-1])
        # a quotient of two registers is vectorized: two steps take 1.1 ns per row, a combined one 1.5
        coded = None if last in self._known or operation == DIVIDE else self._coded(last)
        if coded is None:
            left = self.add(first)
            return self._step(operation, left, self.add(last))
        width, ids, entries = coded
        before = None if first in self._known or operation != TIMES else self._coded(first)
        if before is not None:
            return self._step(PRODUCT + 8 * before[0] + width, before[1], before[2], ids, entries)
        return self._step(WITH_ENTRIES * (1 + operation) + width, self.add(first), ids, entries)

    def _counted(self, expression: Expression) -> Frame | None:
        """Return ids as codes of a frame if a large dictionary contains every integer of a range; None otherwise."""
        operand = self._columns[expression.name] if isinstance(expression, Column) else None
        frame = frame_of_ids(operand) if isinstance(operand, EncodedVector) else None
        return frame if frame is not None and frame.is_of_doubles else None

    def _coded(self, expression: Expression) -> tuple[int, int, int] | None:
        """Return the width and address of ids, and the address of the expression's value for each id; None for other
        expressions.

        A dictionary with more entries than rows is not worth evaluating.
        """
        names = column_names(expression)
        operand = self._columns[names[0]] if len(names) == 1 else None
        if not isinstance(operand, EncodedVector) or self._counted(expression) is not None:
            return None
        if not isinstance(expression, Column) and len(operand.dictionary) > self._num_rows:
            return None
        ids = self.keep(np.ascontiguousarray(operand.ids))
        entries = self.keep(self._entries_of(expression, operand.dictionary))
        return ids.itemsize, ids.ctypes.data, entries.ctypes.data

    def _column(self, operand: Operand) -> _Value:
        if isinstance(operand, FramedVector) and operand.frame.is_of_doubles and not len(operand.patches):
            return self._framed(operand.frame)
        assert isinstance(operand, Vector)
        values = self.keep(np.ascontiguousarray(operand.values))
        if values.dtype == np.float64:
            return _InPlace(values.ctypes.data)
        return self._step(VALUES + KINDS[values.dtype], values.ctypes.data)

    def _framed(self, frame: Frame) -> _Value:
        self.keep(frame.low)
        self.keep(frame.high)
        return self._step(FRAMES + frame.kind, *frame.addresses, frame.base, frame.places)

    def _step(self, kind: int, *operands: "_Value | int") -> _Result:
        self._steps.append((kind, operands))
        return _Result(len(self._steps) - 1)

    def nulls_of(self, expression: Expression) -> Mask | None:
        """Return the rows in which an expression is null; None if there are none."""
        return union_nulls([self._columns[name] for name in column_names(expression)])

    def sink(self, expression: Expression, totals: Totals, groups: GroupIds | None, left_out: Mask | None) -> None:
        """Add the steps that add an expression to totals. left_out: rows to skip, without groups."""
        result = self.add(expression)
        assert isinstance(result, _Result)
        width, address = 0, 0
        if groups is not None:
            numbers = self.keep(np.ascontiguousarray(unsigned(groups)))
            width, address = numbers.itemsize, numbers.ctypes.data
        elif left_out is not None:
            address = self.keep(np.ascontiguousarray(left_out)).ctypes.data
        cells, stride, lows, highs = totals.receive()
        adds = COUNT_ADD if Needs.COUNT in totals.needs else ADD
        wanted = [(adds, cells, stride)] if Needs.SUM in totals.needs else []
        wanted += [(kind, bounds, 0) for kind, bounds in ((LOWER, lows), (RAISE, highs)) if len(bounds)]
        for kind, array, lane in wanted:
            self._sinks.append((SINKS * (1 + kind) + width, array.ctypes.data, lane, result.step, address))

    def place_registers(self) -> list[int]:
        """Assign a register to each step; it is free again after the last step that reads it."""
        last_reads = {step: place for place, (_, operands) in enumerate(self._steps) for step in _read(operands)}
        last_reads |= {sink[3]: len(self._steps) for sink in self._sinks}
        places: list[int] = []
        free: list[int] = []
        for place, (_, operands) in enumerate(self._steps):
            if not free:
                free.append(self.num_registers)
                self.num_registers += 1
            places.append(free.pop())
            free += [places[step] for step in _read(operands) if last_reads[step] == place]
        return places

    def table(self, places: list[int], registers: Array, result: Array | None) -> Array:
        """Return the steps in the kernels' format. result: filled by the last step; None for its register."""
        base, size = registers.ctypes.data, registers.strides[0]
        steps = [
            [kind, base + size * place, 0, *self._addresses(operands, places, base, size)]
            for place, (kind, operands) in zip(places, self._steps, strict=True)
        ]
        if result is not None:
            steps[-1][1:3] = result.ctypes.data, _VALUE_BYTES
        sinks = [
            [kind, cells, stride, base + size * places[step], 0, groups, 0]
            for kind, cells, stride, step, groups in self._sinks
        ]
        return np.array(steps + sinks, np.int64)

    def _addresses(self, operands: "tuple[_Value | int, ...]", places: list[int], base: int, size: int) -> list[int]:
        found: list[int] = []
        for operand in operands:
            if isinstance(operand, _Result):
                found += [base + size * places[operand.step], 0]
            elif isinstance(operand, _Constant):
                found += [base + size * (self.num_registers + operand.place), 0]
            elif isinstance(operand, _InPlace):
                found += [operand.address, _VALUE_BYTES]
            else:
                found.append(operand)
        return found + [0] * (4 - len(found))


def _read(operands: "tuple[_Value | int, ...]") -> set[int]:
    return {operand.step for operand in operands if isinstance(operand, _Result)}


def _receiver(
    totals: Totals | NullableTotals, groups: GroupIds | None, nulls: Mask | None
) -> tuple[Totals, GroupIds | None] | None:
    if isinstance(totals, NullableTotals):
        return totals.receive(groups, nulls)
    return (totals, groups) if nulls is None else None


def _is_plain(operand: Operand) -> bool:
    """Whether there is one number per row, which includes the placeholder of a null."""
    return not isinstance(operand, Scalar) and operand.offsets is None and operand.type in _NUMBERS

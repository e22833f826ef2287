"""Sums and products of columns under an aggregate or in a condition, as programs (`gamay.kernels.group.programs`).

SUM(price * quantity) needs each product for a moment only. A new array for each step of each block costs more in fresh
pages than the arithmetic itself, and a call for each step makes two threads wait for each other: one call computes a block.
"""

from collections.abc import Callable, Sequence

import numpy as np

from gamay.base.arrays import Array, Mask
from gamay.functions.expression import Call, Column, Expression, Literal, column_names
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, union_nulls
from gamay.kernels.group.programs import (
    AT_MOST,
    ENTRIES,
    EQUAL,
    KINDS,
    LESS,
    MINUS,
    PLUS,
    PRODUCT,
    REGISTER_ROWS,
    TIMES,
    VALUES,
    WITH_ENTRIES,
    compare_values,
    compute_values,
)
from gamay.model.types import DataType

_OPERATIONS = {"plus": PLUS, "minus": MINUS, "times": TIMES}
# which comparison, and whether it is turned round: NaN is above all numbers, so "greater" is what is not "at most"
_COMPARISONS = {
    "equals": (EQUAL, False),
    "notequals": (EQUAL, True),
    "lessthan": (LESS, False),
    "lessthanorequal": (AT_MOST, False),
    "greaterthan": (AT_MOST, True),
    "greaterthanorequal": (LESS, True),
}
_NUMBERS = frozenset({DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE})


def is_arithmetic(expression: Expression) -> bool:
    """Whether an expression adds, subtracts and multiplies several columns and constants, and nothing else.

    With one column alone, it is cheaper to compute each entry of its dictionary.
    """
    return isinstance(expression, Call) and _fits(expression) and len(column_names(expression)) > 1


def _fits(expression: Expression) -> bool:
    if isinstance(expression, Call):
        return (
            expression.name in _OPERATIONS
            and len(expression.args) > 1
            and all(map(_fits, expression.args))
            and len(column_names(expression)) > 0  # among constants, whole numbers stay whole
        )
    return isinstance(expression, Column) or (isinstance(expression, Literal) and expression.type in _NUMBERS)


class Arithmetic:
    """The registers and the results of one thread."""

    def __init__(self) -> None:
        self._registers = np.empty((0, REGISTER_ROWS))
        self._result = np.empty(0)
        self._lookups: dict[str, tuple[Values, Array]] = {}

    def compute(self, expression: Expression, operand: Callable[[Expression], Operand], num_rows: int) -> Vector | None:
        """Compute what `is_arithmetic`: DOUBLE, valid until the next call; None when a column is not of plain numbers."""
        program = self._program(expression, operand)
        if program is None:
            return None
        if len(self._result) < num_rows:
            self._result = np.empty(num_rows)
        compute_values(program.table(), self._registers, self._result[:num_rows])
        return Vector(DataType.DOUBLE, self._result[:num_rows], None, program.nulls)

    def compare(
        self,
        expression: Expression,
        comparison: str,
        constant: float,
        operand: Callable[[Expression], Operand],
        num_rows: int,
    ) -> Mask | None:
        """Tell for which rows a comparison of what `is_arithmetic` with a constant, not NaN, holds; None as in `compute`."""
        program = self._program(expression, operand)
        if program is None:
            return None
        marks = np.empty(num_rows, np.bool_)
        compare_values(program.table(), self._registers, *_COMPARISONS[comparison], constant, marks)
        if program.nulls is not None:
            marks &= ~program.nulls
        return marks

    def _program(self, expression: Expression, operand: Callable[[Expression], Operand]) -> "_Program | None":
        columns = {name: operand(Column(name)) for name in column_names(expression)}
        if not all(map(_is_plain, columns.values())):
            return None
        program = _Program(columns, self._lookup)
        program.add(expression)
        count = program.num_registers + len(program.constants)
        if len(self._registers) < count:
            self._registers = np.empty((count, REGISTER_ROWS))
        for place, constant in enumerate(program.constants):
            self._registers[program.num_registers + place] = constant
        return program

    def _lookup(self, name: str, dictionary: Vector) -> Array:
        known = self._lookups.get(name)
        if known is None or known[0] is not dictionary.values:
            values = np.ascontiguousarray(dictionary.values, np.float64)
            known = self._lookups[name] = dictionary.values, values
        return known[1]


class _Program:
    """The steps of an expression for one block of rows, and the arrays whose addresses they name."""

    def __init__(self, columns: dict[str, Operand], lookup: Callable[[str, Vector], Array]) -> None:
        self.num_registers = 0
        self.constants: list[float] = []
        self.nulls = union_nulls(list(columns.values()))
        self._columns = columns
        self._lookup = lookup
        self._steps: list[tuple[int, ...]] = []
        self._kept: list[Array] = []
        self._free: list[int] = []

    def table(self) -> Array:
        """Return the steps as the kernels take them; a constant that stands for place k is named by -1 - k before."""
        return np.array([self._row(*step) for step in self._steps], np.int64)

    def _row(self, step: int, out: int, *operands: int) -> list[int]:
        if step >= PRODUCT:
            return [step, out, *operands]
        if step >= ENTRIES:
            return [step, out, *operands[:2], self._place(operands[2]), 0]
        return [step, out, self._place(operands[0]), self._place(operands[1]), 0, 0]

    def _place(self, register: int) -> int:
        return register if register >= 0 else self.num_registers - 1 - register

    def add(self, expression: Expression) -> int:
        """Add the steps that compute an expression; returns the register that holds it then."""
        if isinstance(expression, Literal):
            self.constants.append(float(expression.value))  # type: ignore[arg-type]
            return -len(self.constants)
        if isinstance(expression, Column):
            return self._column(self._columns[expression.name], expression.name)
        assert isinstance(expression, Call)
        operation = _OPERATIONS[expression.name]
        total, rest = self._first(expression)
        for arg in rest:
            other = self._columns[arg.name] if isinstance(arg, Column) else None
            if isinstance(other, EncodedVector) and isinstance(arg, Column):
                out = self._take()
                step = WITH_ENTRIES * (1 + operation) + other.ids.itemsize
                self._steps.append((step, out, *self._entries(other, arg.name), total))
                self._release(total)
            else:
                right = self.add(arg)
                out = self._take()
                self._steps.append((operation, out, total, right))
                self._release(total)
                self._release(right)
            total = out
        return total

    def _first(self, call: Call) -> tuple[int, Sequence[Expression]]:
        """Return the register of the first arguments, and those that are left: products of two columns take one step."""
        first, second = call.args[:2]
        if call.name == "times" and isinstance(first, Column) and isinstance(second, Column):
            left, right = self._columns[first.name], self._columns[second.name]
            if isinstance(left, EncodedVector) and isinstance(right, EncodedVector):
                out = self._take()
                step = PRODUCT + 8 * left.ids.itemsize + right.ids.itemsize
                self._steps.append((step, out, *self._entries(left, first.name), *self._entries(right, second.name)))
                return out, call.args[2:]
        return self.add(first), call.args[1:]

    def _column(self, operand: Operand, name: str) -> int:
        out = self._take()
        if isinstance(operand, EncodedVector):
            self._steps.append((ENTRIES + operand.ids.itemsize, out, *self._entries(operand, name), 0))
        else:
            assert isinstance(operand, Vector)
            values = self._keep(np.ascontiguousarray(operand.values))
            self._steps.append((VALUES + KINDS[values.dtype], out, values.ctypes.data, 0, 0))
        return out

    def _entries(self, operand: EncodedVector, name: str) -> tuple[int, int]:
        ids, entries = self._keep(np.ascontiguousarray(operand.ids)), self._keep(self._lookup(name, operand.dictionary))
        return ids.ctypes.data, entries.ctypes.data

    def _keep(self, array: Array) -> Array:
        self._kept.append(array)
        return array

    def _take(self) -> int:
        if self._free:
            return self._free.pop()
        self.num_registers += 1
        return self.num_registers - 1

    def _release(self, register: int) -> None:
        if register >= 0:
            self._free.append(register)


def _is_plain(operand: Operand) -> bool:
    """Whether there is one number for each row; what stands at the place of a null is one too."""
    return not isinstance(operand, Scalar) and operand.offsets is None and operand.type in _NUMBERS

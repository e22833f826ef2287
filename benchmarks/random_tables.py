"""Tables of random shape, by seed: columns, numbers of values, shares of nulls, order of rows."""

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

NUM_COLUMNS = 12
_DAY_MS = 86_400_000
_FIRST_MS = 1_672_531_200_000  # 2023-01-01
_NULL_SHARES = (0.0, 0.0, 0.0, 0.02, 0.3)
_INTEGER_VALUES = (2, 7, 50, 300, 2_000, 30_000, 200_000, 1_000_000)
_TEXT_VALUES = (3, 25, 200, 2_000, 50_000, 500_000)
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "haven", "inlet", "jetty", "knoll", "lagoon")


@dataclass(frozen=True)
class ColumnShape:
    """What is drawn for one column. kind: id, int, long, double, cents, text or time; spread: the number of its values.

    skewed: few values have most of the rows. is_sorted: rows lie in its order.
    """

    name: str
    kind: str
    spread: int
    null_share: float
    skewed: bool
    is_sorted: bool

    @property
    def is_whole(self) -> bool:
        return self.kind in ("id", "int", "long")

    @property
    def is_number(self) -> bool:
        return self.is_whole or self.kind in ("double", "cents")


@dataclass(frozen=True)
class TableShape:
    """The columns of one table; raw: those without a dictionary."""

    columns: tuple[ColumnShape, ...]
    raw: tuple[str, ...]

    def of(self, *kinds: str, least: int = 0, most: int = 1 << 40) -> list[ColumnShape]:
        """Return the columns of the given kinds whose number of values is in a range."""
        return [column for column in self.columns if column.kind in kinds and least <= column.spread <= most]


def draw_shape(rng: random.Random, num_rows: int) -> TableShape:
    """Draw the shape of a table: a unique id, a time that may be sorted, two texts, and others of any kind."""

    def column(kind: str, spread: int) -> ColumnShape:
        nulls = 0.0 if kind == "id" else rng.choice(_NULL_SHARES)
        sorted_here = kind == "time" and not columns and rng.random() < 0.7
        return ColumnShape(
            f"{kind}_{len(columns)}",
            kind,
            min(spread, num_rows),
            0.0 if sorted_here else nulls,
            rng.random() < 0.4,
            sorted_here,
        )

    columns: list[ColumnShape] = []
    wanted = ["time", "id", "int", "int", "double", "cents", "text", "text"]
    wanted += rng.choices(("int", "long", "double", "cents", "text", "time"), k=NUM_COLUMNS - len(wanted))
    for kind in wanted:
        spreads = {"int": _INTEGER_VALUES, "long": _INTEGER_VALUES, "text": _TEXT_VALUES}
        columns.append(column(kind, rng.choice(spreads.get(kind, (num_rows,)))))
    numbers = [one.name for one in columns if one.is_number]
    return TableShape(tuple(columns), tuple(rng.sample(numbers, rng.choice((0, 0, len(numbers) // 2)))))


def draw_rows(shape: TableShape, num_rows: int, seed: int) -> pa.Table:
    """Draw the rows of a table of a shape."""
    rng = np.random.default_rng(seed)
    return pa.table({column.name: _values(column, num_rows, rng) for column in shape.columns})


def _values(column: ColumnShape, num_rows: int, rng: np.random.Generator) -> pa.Array:
    mask = rng.random(num_rows) < column.null_share if column.null_share else None
    match column.kind:
        case "id":
            return pa.array(rng.permutation(num_rows).astype(np.int64))
        case "double":
            return pa.array(rng.normal(100, 40, num_rows), mask=mask)
        case "cents":
            return pa.array(rng.integers(1, 10_000 if column.skewed else 10_000_000, num_rows) / 100, mask=mask)
        case "time":
            times = _FIRST_MS + rng.integers(0, 365 * _DAY_MS, num_rows)
            return pa.array(np.sort(times) if column.is_sorted else times, pa.timestamp("ms"), mask=mask)
        case "text":
            texts = pa.array(_texts(column.spread, rng))
            return texts.take(pa.array(_places(column, num_rows, rng), mask=mask))
    whole = _places(column, num_rows, rng) + 1
    return pa.array(whole.astype(np.int32) if column.kind == "int" else whole * 1_000_003, mask=mask)


def _places(column: ColumnShape, num_rows: int, rng: np.random.Generator) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    if not column.skewed:
        return rng.integers(0, column.spread, num_rows)
    return (column.spread * rng.random(num_rows) ** 3).astype(np.int64)


def _texts(count: int, rng: np.random.Generator) -> Sequence[str]:
    letters = np.array(list(string.ascii_lowercase))
    return [
        f"{_WORDS[number % len(_WORDS)]} {''.join(rng.choice(letters, 2))}{number:06d} {_WORDS[number // 12 % len(_WORDS)]}"
        for number in range(count)
    ]


def literal_at(column: ColumnShape, share: float) -> str:
    """Return a literal below which approximately the given share of a column's rows lies."""
    if column.kind == "id":
        return str(int(share * column.spread))
    if column.kind == "double":
        return f"{100 + 80 * (share - 0.5) * 1.6:.3f}"
    if column.kind == "cents":
        return f"{share * (100 if column.skewed else 100_000):.2f}"
    if column.kind == "time":
        moment = np.datetime64(_FIRST_MS + int(share * 365 * _DAY_MS), "ms")
        return f"'{str(moment).replace('T', ' ')}'"
    place = int(column.spread * (share**3 if column.skewed else share))
    return str((place + 1) * (1_000_003 if column.kind == "long" else 1))


def words() -> tuple[str, ...]:
    """Return the words that texts begin and end with."""
    return _WORDS

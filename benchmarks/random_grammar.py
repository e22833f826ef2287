"""Random queries from a grammar, as equivalent texts for Gamay and for DuckDB.

Sums by which rows are ordered are of whole numbers, so that the order of addition does not decide which rows come first.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.random_tables import ColumnShape, TableShape, literal_at, words


@dataclass(frozen=True)
class RandomQuery:
    """One query in both dialects; is_ordered: whether the order of its rows is determined."""

    kind: str
    gamay: str
    duck: str
    is_ordered: bool


Pair = tuple[str, str]
"""A piece of text for Gamay and for DuckDB."""


def _same(text: str) -> Pair:
    return text, text


def _joined(separator: str, parts: Sequence[Pair]) -> Pair:
    return separator.join(part[0] for part in parts), separator.join(part[1] for part in parts)


class Grammar:
    """Generator of queries on one table."""

    def __init__(self, table: str, shape: TableShape, rng: random.Random) -> None:
        self._table = table
        self._shape = shape
        self._rng = rng
        self._numbers = [column for column in shape.columns if column.is_number]
        self._small = shape.of("int", most=2000)
        self._keys = shape.of("int", "long", "text", most=2000)
        self._many = shape.of("int", "long", "text", least=2001)

    def query(self, kind: str) -> RandomQuery:
        """Draw a query of one of `KINDS`."""
        return KINDS[kind](self, kind)

    # -- conditions

    def _condition(self) -> Pair:
        draw, column = self._rng, self._rng.choice(self._shape.columns)
        if column.kind == "text":
            return self._of_text(column)
        if column.null_share and draw.random() < 0.1:
            return _same(f"{column.name} IS {draw.choice(('', 'NOT '))}NULL")
        if column.kind in ("int", "long") and column.spread <= 300 and draw.random() < 0.5:
            picked = {literal_at(column, draw.random()) for _ in range(draw.choice((1, 1, 4)))}
            return _same(f"{column.name} {draw.choice(('', 'NOT '))}IN ({', '.join(sorted(picked))})")
        low, width = draw.random(), draw.choice((0.01, 0.1, 0.5))
        if draw.random() < 0.5:
            return _same(f"{column.name} BETWEEN {literal_at(column, low * (1 - width))} AND "
                         f"{literal_at(column, low * (1 - width) + width)}")  # fmt: skip
        return _same(f"{column.name} {draw.choice(('<', '<=', '>', '>='))} {literal_at(column, low)}")

    def _of_text(self, column: ColumnShape) -> Pair:
        word = self._rng.choice(words())
        pattern = self._rng.choice((f"{word}%", f"%{word}", f"%{word[1:4]}%", f"{word}%{self._rng.choice(words())}"))
        return _same(f"{column.name} {self._rng.choice(('', '', 'NOT '))}LIKE '{pattern}'")

    def _where(self, chance: float = 0.7) -> Pair:
        if self._rng.random() >= chance:
            return _same("")
        parts = [self._condition() for _ in range(self._rng.choice((1, 1, 2, 3)))]
        if len(parts) > 1 and self._rng.random() < 0.25:
            one, other = _joined(" OR ", parts)
            return f" WHERE ({one})", f" WHERE ({other})"
        one, other = _joined(" AND ", parts)
        return f" WHERE {one}", f" WHERE {other}"

    # -- expressions and aggregates

    def _arithmetic(self, depth: int = 2) -> str:
        """Draw arithmetic in doubles: its first operand is one, and so is each of its parts."""
        draw = self._rng
        if depth == 0:
            return draw.choice(self._shape.of("double", "cents")).name
        left = self._arithmetic(depth - 1)
        form = draw.randrange(5)
        if form == 0 and (divisors := self._shape.of("int", "cents")):
            return f"{left} / {draw.choice(divisors).name}"
        if form == 1:
            return f"({left} * (1 - {draw.choice(self._numbers).name} * 0.001))"
        right = draw.choice((draw.choice(self._numbers).name, f"{draw.randrange(1, 50)}", f"{draw.random():.3f}"))
        return f"({left} {draw.choice('+-*')} {right})"

    def _aggregate(self) -> Pair:
        draw = self._rng
        name, column = draw.choice(("SUM", "SUM", "AVG", "MIN", "MAX")), draw.choice(self._numbers).name
        form = draw.random()
        if form < 0.15:
            return _same("COUNT(*)")
        if form < 0.25:
            condition = self._condition()
            return _joined("", [_same("SUM(CASE WHEN "), condition, _same(f" THEN {column} ELSE 0 END)")])
        if form < 0.32:
            return _joined("", [_same(f"{name}({column}) FILTER (WHERE "), self._condition(), _same(")")])
        return _same(f"{name}({column})")

    def _computed(self) -> Pair:
        return _same(f"{self._rng.choice(('SUM', 'AVG', 'MIN', 'MAX'))}({self._arithmetic(self._rng.choice((1, 2, 2)))})")

    def _ordering(self) -> Pair:
        whole = [column.name for column in self._small] or ["1"]
        return _same(self._rng.choice(("COUNT(*)", f"SUM({self._rng.choice(whole)})")))

    def _few_keys(self) -> list[Pair]:
        draw = self._rng
        keys = [_same(column.name) for column in draw.sample(self._keys, min(len(self._keys), draw.choice((1, 1, 2))))]
        if not keys or draw.random() < 0.25:
            time = draw.choice(self._shape.of("time")).name
            unit = draw.choice(("month", "day"))
            keys = [(f"DATE_TRUNC('{unit}', {time})", f"epoch_ms(date_trunc('{unit}', {time}))")]
        return keys

    # -- queries

    def _put(self, kind: str, items: Sequence[Pair], where: Pair, rest: Pair, *, is_ordered: bool) -> RandomQuery:
        listed = _joined(", ", items)
        one, other = (f"SELECT {listed[n]} FROM {self._table}{where[n]}{rest[n]}" for n in (0, 1))
        return RandomQuery(kind, one, other, is_ordered)

    def _totals(self, kind: str) -> RandomQuery:
        items = [self._aggregate() for _ in range(self._rng.randrange(1, 5))]
        return self._put(kind, items, self._where(0.9), _same(" LIMIT 1"), is_ordered=True)

    def _few(self, kind: str) -> RandomQuery:
        keys = self._few_keys()
        items = [self._aggregate() for _ in range(self._rng.randrange(1, 6))]
        return self._grouped(kind, keys, items)

    def _expressions(self, kind: str) -> RandomQuery:
        items = [self._computed() for _ in range(self._rng.randrange(1, 5))]
        if self._rng.random() < 0.3:
            return self._put(kind, items, self._where(), _same(" LIMIT 1"), is_ordered=True)
        return self._grouped(kind, self._few_keys(), items)

    def _grouped(self, kind: str, keys: list[Pair], items: list[Pair]) -> RandomQuery:
        rest = _joined("", [_same(" GROUP BY "), _joined(", ", keys), _same(" LIMIT 100000000")])
        return self._put(kind, [*keys, *items], self._where(), rest, is_ordered=False)

    def _top_groups(self, kind: str) -> RandomQuery:
        draw = self._rng
        keys = [_same(draw.choice(self._many or self._keys).name)]
        if draw.random() < 0.25 and (others := [key for key in self._keys if key.name != keys[0][0]]):
            keys.append(_same(draw.choice(others).name))
        first = self._ordering()
        items = [*keys, first, *(self._aggregate() for _ in range(draw.randrange(3)))]
        order = f"{len(keys) + 1} {draw.choice(('DESC', 'DESC', 'ASC'))} NULLS LAST, "
        order += ", ".join(f"{place + 1} NULLS LAST" for place in range(len(keys)))
        rest = _joined(
            "", [_same(" GROUP BY "), _joined(", ", keys), _same(f" ORDER BY {order} LIMIT {draw.choice((10, 100))}")]
        )
        return self._put(kind, items, self._where(), rest, is_ordered=True)

    def _top_rows(self, kind: str) -> RandomQuery:
        draw = self._rng
        chosen = draw.sample(self._shape.columns, draw.randrange(2, 6))
        by = [column for column in draw.sample(self._shape.columns, draw.choice((1, 1, 2))) if column.kind != "id"]
        order = [f"{column.name} {draw.choice(('ASC', 'DESC'))} NULLS LAST" for column in by]
        order.append(self._shape.of("id")[0].name)
        rest = _same(f" ORDER BY {', '.join(order)} LIMIT {draw.choice((10, 100, 1000))}")
        return self._put(kind, [_same(column.name) for column in chosen], self._where(), rest, is_ordered=True)

    def _selection(self, kind: str) -> RandomQuery:
        draw, unique = self._rng, self._shape.of("id")[0]
        chosen = draw.sample(self._shape.columns, draw.randrange(2, 7))
        start = int(draw.random() * unique.spread)
        bounds = f"{unique.name} BETWEEN {start} AND {start + draw.choice((0, 100, 5000))}"
        where = _joined(" AND ", [_same(f" WHERE {bounds}"), *(self._condition() for _ in range(draw.randrange(3)))])
        return self._put(kind, [_same(column.name) for column in chosen], where, _same(" LIMIT 100000"), is_ordered=False)

    def _distinct(self, kind: str) -> RandomQuery:
        draw = self._rng
        if draw.random() < 0.5:
            counted = [_same(f"COUNT(DISTINCT {draw.choice(self._shape.columns).name})") for _ in range(draw.choice((1, 2)))]
            if draw.random() < 0.5:
                return self._put(kind, counted, self._where(), _same(" LIMIT 1"), is_ordered=True)
            return self._grouped(kind, self._few_keys()[:1], counted)
        columns = draw.sample(self._shape.of("int", "long", "text"), 2)[: draw.choice((1, 1, 2))]
        order = ", ".join(f"{place + 1} NULLS LAST" for place in range(len(columns)))
        rest = _same(f" ORDER BY {order} LIMIT {draw.choice((100, 10_000))}")
        items = [_same(column.name) for column in columns]
        items[0] = _same(f"DISTINCT {items[0][0]}")
        return self._put(kind, items, self._where(), rest, is_ordered=True)


KINDS: dict[str, Callable[[Grammar, str], RandomQuery]] = {
    "totals": Grammar._totals,
    "groups by few keys": Grammar._few,
    "aggregates of expressions": Grammar._expressions,
    "top of many groups": Grammar._top_groups,
    "top rows": Grammar._top_rows,
    "selections": Grammar._selection,
    "distinct values": Grammar._distinct,
}

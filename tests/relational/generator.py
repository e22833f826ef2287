"""Random queries of several tables, in the SQL common to Gamay and DuckDB.

Whole numbers are not divided, floats are not summed in windows with moving frames, and every key of an order that decides
which rows are shown ends with what is unique.
"""

import random
from dataclasses import dataclass

COLUMNS = {
    "sales": {"id": "int", "shop": "text", "item": "int", "qty": "int", "price": "float", "ts": "int", "paid": "bool"},
    "shops": {"shop": "text", "city": "text", "area": "int"},
    "items": {"item": "int", "name": "text", "kind": "text"},
}
TEXTS = ("'s1'", "'s2'", "'s9'", "'Lyon'", "'ale'", "'food'", "''")
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")


@dataclass(frozen=True)
class Source:
    """A source in FROM, and its columns with their types, as named there."""

    sql: str
    columns: dict[str, str]


class Generator:
    """Generator of queries; the same ones for the same random numbers."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._aliases = 0

    def query(self) -> str:
        """Return a query."""
        kind = self._rng.randrange(10)
        if kind < 7:
            sql, _ = self._rows(2) if kind < 4 else self._groups(2)
            # of one table it would be a query of the other engine
            return sql if " JOIN " in sql or "(SELECT" in sql else f"SELECT * FROM ({sql}) q"
        if kind == 7:
            return self._set_operation()
        if kind == 8:
            return self._windows()
        return self._with()

    # -- FROM

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def _table(self, depth: int) -> Source:
        alias = self._alias()
        if depth and self._rng.random() < 0.25:
            sql, columns = self._rows(depth - 1) if self._rng.random() < 0.5 else self._groups(depth - 1)
            return Source(f"({sql}) {alias}", {f"{alias}.{name}": kind for name, kind in columns.items()})
        name = self._rng.choice(list(COLUMNS))
        return Source(f"{name} {alias}", {f"{alias}.{column}": kind for column, kind in COLUMNS[name].items()})

    def _source(self, depth: int) -> Source:
        source = self._table(depth)
        for _ in range(self._rng.choice((0, 1, 1, 1, 2))):
            other = self._table(depth)
            pairs = [
                (a, b) for a, kind in source.columns.items() for b, of in other.columns.items() if kind == of != "float"
            ]
            if not pairs:
                continue
            left, right = self._rng.choice(pairs)
            condition = f"{left} = {right}"
            if self._rng.random() < 0.3:
                condition += f" AND {self._condition({**source.columns, **other.columns}, 0)}"
            kind = self._rng.choice(_JOINS)
            if kind == "FULL JOIN":
                condition = f"{left} = {right}"
            source = Source(f"{source.sql} {kind} {other.sql} ON {condition}", {**source.columns, **other.columns})
        return source

    # -- expressions

    def _column(self, columns: dict[str, str], *kinds: str) -> str | None:
        found = [name for name, kind in columns.items() if not kinds or kind in kinds]
        return self._rng.choice(found) if found else None

    def _number(self, columns: dict[str, str], depth: int) -> str:
        column = self._column(columns, "int")
        if column is None or self._rng.random() < 0.2:
            return str(self._rng.randrange(-3, 12))
        if depth and self._rng.random() < 0.4:
            # multiplied by a constant only: what INT and LONG cannot hold is an error in both, at other places
            step = self._rng.choice((f"({column} % 7)", f"({column} - {self._rng.randrange(9)})", f"(-{column})"))
            return self._rng.choice((step, f"COALESCE({column}, 0)", f"CASE WHEN {column} > 3 THEN {column} ELSE 1 END"))
        return column

    def _condition(self, columns: dict[str, str], depth: int) -> str:
        rng = self._rng
        if depth and rng.random() < 0.5:
            one, other = self._condition(columns, depth - 1), self._condition(columns, depth - 1)
            return rng.choice((f"({one} AND {other})", f"({one} OR {other})", f"(NOT {one})"))
        text, flag = self._column(columns, "text"), self._column(columns, "bool")
        forms = [f"{self._number(columns, 1)} {rng.choice(('=', '<>', '<', '<=', '>', '>='))} {self._number(columns, 0)}"]
        forms.append(f"{self._number(columns, 0)} BETWEEN {rng.randrange(4)} AND {rng.randrange(3, 12)}")
        forms.append(f"{self._number(columns, 0)} IN ({', '.join(str(rng.randrange(9)) for _ in range(3))})")
        if text is not None:
            forms += [f"{text} {rng.choice(('=', '<>', '<', '>='))} {rng.choice(TEXTS)}", f"{text} IS NULL"]
            forms.append(f"{text} IN ({', '.join(rng.sample(TEXTS, 3))})")
        if flag is not None:
            forms += [flag, f"{flag} IS NOT TRUE"]
        column = self._column(columns)
        forms.append(f"{column} IS {rng.choice(('NULL', 'NOT NULL'))}")
        return rng.choice(forms)

    def _subquery_condition(self, columns: dict[str, str]) -> str:
        rng = self._rng
        alias = self._alias()
        table = rng.choice(list(COLUMNS))
        inner = {f"{alias}.{name}": kind for name, kind in COLUMNS[table].items()}
        pairs = [(a, b) for a, kind in columns.items() for b, of in inner.items() if kind == of and kind in ("int", "text")]
        if not pairs:
            return self._condition(columns, 1)
        outer, own = rng.choice(pairs)
        where = self._condition(inner, 0)
        forms = [
            f"{outer} IN (SELECT {own} FROM {table} {alias} WHERE {where})",
            f"{outer} NOT IN (SELECT {own} FROM {table} {alias} WHERE {where} AND {own} IS NOT NULL)",
            f"EXISTS (SELECT 1 FROM {table} {alias} WHERE {own} = {outer} AND {where})",
            f"NOT EXISTS (SELECT 1 FROM {table} {alias} WHERE {own} = {outer} AND {where})",
            f"(SELECT COUNT(*) FROM {table} {alias} WHERE {own} = {outer}) > {rng.randrange(3)}",
        ]
        return rng.choice(forms)

    def _where(self, columns: dict[str, str]) -> str:
        parts = [self._condition(columns, 1) for _ in range(self._rng.choice((0, 1, 1, 2)))]
        if self._rng.random() < 0.25:
            parts.append(self._subquery_condition(columns))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    # -- queries

    def _rows(self, depth: int) -> tuple[str, dict[str, str]]:
        source = self._source(depth)
        chosen = self._rng.sample(list(source.columns), min(len(source.columns), self._rng.randrange(1, 4)))
        named = {f"x{place}": source.columns[name] for place, name in enumerate(chosen)}
        items = ", ".join(f"{name} AS x{place}" for place, name in enumerate(chosen))
        word = "SELECT DISTINCT" if self._rng.random() < 0.15 else "SELECT"
        return f"{word} {items} FROM {source.sql}{self._where(source.columns)}", named

    def _groups(self, depth: int) -> tuple[str, dict[str, str]]:
        source = self._source(depth)
        keys = self._rng.sample(list(source.columns), min(len(source.columns), self._rng.randrange(0, 3)))
        columns = {f"k{place}": source.columns[name] for place, name in enumerate(keys)}
        items = [f"{name} AS k{place}" for place, name in enumerate(keys)]
        for place in range(self._rng.randrange(1, 4)):
            call, kind = self._aggregate(source.columns)
            if self._rng.random() < 0.2:
                call += f" FILTER (WHERE {self._condition(source.columns, 0)})"
            items.append(f"{call} AS a{place}")
            columns[f"a{place}"] = kind
        sql = f"SELECT {', '.join(items)} FROM {source.sql}{self._where(source.columns)}"
        if keys:
            written = ", ".join(keys)
            sql += f" GROUP BY {f'ROLLUP ({written})' if self._rng.random() < 0.1 else written}"
            if self._rng.random() < 0.3:
                sql += f" HAVING COUNT(*) > {self._rng.randrange(4)}"
        return sql, columns

    def _aggregate(self, columns: dict[str, str]) -> tuple[str, str]:
        number, column = self._number(columns, 1), self._column(columns)
        assert column is not None
        text = self._column(columns, "text")
        forms = [
            ("COUNT(*)", "int"),
            (f"COUNT({column})", "int"),
            (f"COUNT(DISTINCT {column})", "int"),
            (f"SUM({number})", "int"),
            (f"MIN({number})", "int"),
            (f"MAX({number})", "int"),
            (f"AVG({number})", "float"),
        ]
        if text is not None:
            forms += [(f"MIN({text})", "text"), (f"MAX({text})", "text")]
        return self._rng.choice(forms)

    def _set_operation(self) -> str:
        word = self._rng.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        kind = self._rng.choice(("int", "text"))
        sides = []
        for _ in range(2):
            source = self._source(1)
            column = self._column(source.columns, kind)
            shown = column or ("0" if kind == "int" else "'none'")
            sides.append(f"SELECT {shown} AS x FROM {source.sql}{self._where(source.columns)}")
        return f" {word} ".join(sides)

    def _windows(self) -> str:
        source = self._source(1)
        columns = source.columns
        ordered = ", ".join(sorted(columns))
        partition = self._column(columns, "text", "bool")
        over = f"PARTITION BY {partition} ORDER BY {ordered}" if partition else f"ORDER BY {ordered}"
        call = self._rng.choice(
            (
                f"SUM({self._number(columns, 0)})",
                "COUNT(*)",
                "RANK()",
                "DENSE_RANK()",
                f"MAX({self._number(columns, 0)})",
            )
        )
        if self._rng.random() < 0.3 and not call.startswith(("RANK", "DENSE")):
            over = f"PARTITION BY {partition}" if partition else ""
        return f"SELECT {ordered}, {call} OVER ({over}) AS w FROM {source.sql}{self._where(columns)}"

    def _with(self) -> str:
        inner, columns = self._groups(1) if self._rng.random() < 0.6 else self._rows(1)
        shared = [name for name, kind in columns.items() if kind in ("int", "text")]
        if not shared:
            return f"WITH q AS ({inner}) SELECT COUNT(*) AS n FROM q"
        key = self._rng.choice(shared)
        return f"WITH q AS ({inner}) SELECT a.*, b.{key} AS other FROM q a LEFT JOIN q b ON a.{key} = b.{key}"

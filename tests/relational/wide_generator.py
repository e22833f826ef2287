"""Random, deeply nested queries of several tables, in the SQL common to Gamay and DuckDB.

Subqueries stand in SELECT, WHERE and HAVING, correlated or not; LATERAL, QUALIFY, DISTINCT ON, windows over groups, grouping
sets by expressions, and set operations whose sides are ordered and cut. Every order says where nulls go, and where it
decides which rows are shown, it is by all columns.
"""

import random
from collections.abc import Callable, Iterable

from tests.relational.generator import COLUMNS, TEXTS

Columns = dict[str, str]  # the kind of each: int, text, float or bool
Query = tuple[str, Columns]

_NULLS = {"int": "CAST(NULL AS INT)", "text": "CAST(NULL AS VARCHAR)", "float": "CAST(NULL AS DOUBLE)"}
_COMPARED = ("=", "<>", "<", "<=", ">", ">=")
_SETS = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
_ORDERS = ("ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST")


class WideGenerator:
    """Generator of nested queries; the same ones for the same random numbers."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._aliases = 0

    def query(self) -> str:
        """Return a query with rows in no particular order."""
        return f"SELECT * FROM ({self._query(2)[0]}) q"

    # -- small things

    def _may(self, share: float) -> bool:
        return self._rng.random() < share

    def _one(self, *choices: str) -> str:
        return self._rng.choice(choices)

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def _column(self, columns: Columns, kind: str) -> str | None:
        found = [name for name, of in columns.items() if of == kind]
        return self._rng.choice(found) if found else None

    def _order(self, names: Iterable[str]) -> str:
        return ", ".join(f"{name} {self._one(*_ORDERS)}" for name in names)

    def _shuffled(self, names: Iterable[str]) -> list[str]:
        listed = sorted(names)
        return self._rng.sample(listed, len(listed))

    # -- expressions

    def _value(self, columns: Columns, kind: str, depth: int) -> str:
        column = self._column(columns, kind)
        if depth > 0 and self._may(0.65):
            return self._rng.choice(self._forms(columns, kind, depth - 1))()
        if column is not None and self._may(0.85):
            return column
        if kind in _NULLS and self._may(0.1):
            return _NULLS[kind]
        constants = {"int": str(self._rng.randrange(-3, 12)), "text": self._one(*TEXTS), "float": self._one("0.5", "10.0")}
        return constants.get(kind) or self._one("TRUE", "FALSE")

    def _forms(self, columns: Columns, kind: str, depth: int) -> list[Callable[[], str]]:
        def of(kind: str, levels: int = depth) -> str:
            return self._value(columns, kind, levels)

        both: list[Callable[[], str]] = [
            lambda: f"COALESCE({of(kind)}, {of(kind)})",
            lambda: f"CASE WHEN {of('bool')} THEN {of(kind)} ELSE {of(kind)} END",
            lambda: f"CASE WHEN {of('bool')} THEN {of(kind)} END",
        ]
        if kind == "int":
            return [
                *both,
                lambda: f"({of('int')} % 7)",
                lambda: f"({of('int', 0)} - {self._rng.randrange(9)})",
                lambda: f"NULLIF({of('int')}, {of('int')})",
                lambda: f"{self._one('GREATEST', 'LEAST')}({of('int')}, {of('int')})",
                lambda: f"LENGTH({of('text')})",
            ]
        if kind == "text":
            return [
                *both,
                lambda: f"UPPER({of('text')})",
                lambda: f"({of('text')} || {of('text')})",
                lambda: f"NULLIF({of('text')}, {of('text', 0)})",
                lambda: f"CAST({of('int')} AS VARCHAR)",
            ]
        if kind == "float":
            return [*both, lambda: f"({of('float')} * 2.0)", lambda: f"CAST({of('int')} AS DOUBLE)"]
        return [*both[:1], *self._conditions(columns, depth)]

    def _conditions(self, columns: Columns, depth: int) -> list[Callable[[], str]]:
        def of(kind: str, levels: int = depth) -> str:
            return self._value(columns, kind, levels)

        def some(kind: str) -> str:
            return ", ".join(of(kind, 0) for _ in range(self._rng.randrange(1, 4)))

        compared, negated = self._one(*_COMPARED), self._one("", "NOT ")
        return [
            lambda: f"({of('int')} {compared} {of('int')})",
            lambda: f"({of('text')} {compared} {of('text')})",
            lambda: f"({of('float')} {compared} {of('int')})",
            lambda: f"({of('bool')} {self._one('AND', 'OR')} {of('bool')})",
            lambda: f"(NOT {of('bool')})",
            lambda: f"({of(self._one('int', 'text', 'float', 'bool'))} IS {negated}NULL)",
            lambda: f"({of('bool')} IS {negated}{self._one('TRUE', 'FALSE')})",
            lambda: f"({of('int')} {negated}BETWEEN {of('int')} AND {of('int')})",
            lambda: f"({of('int')} {negated}IN ({some('int')}))",
            lambda: f"({of('text')} {negated}IN ({some('text')}))",
            lambda: f"({of('text')} IS {negated}DISTINCT FROM {of('text')})",
            lambda: self._by_subquery(columns),
        ]

    def _plain_condition(self, columns: Columns) -> str:
        """Return a condition without a subquery, for places where DuckDB allows none."""
        made = self._value(columns, "bool", 1)
        return "TRUE" if "SELECT" in made else made

    def _inner(self, columns: Columns) -> tuple[str, Columns, str]:
        """Return a table, its columns, and what they have to do with those around it."""
        table, alias = self._one(*COLUMNS), self._alias()
        own = {f"{alias}.{name}": kind for name, kind in COLUMNS[table].items()}
        pairs = [(x, y) for x, kind in own.items() for y, of in columns.items() if kind == of and kind in ("int", "text")]
        if not pairs:
            return f"{table} {alias}", own, "TRUE"
        one, other = self._rng.choice(pairs)
        return f"{table} {alias}", own, f"{one} {'=' if self._may(0.8) else self._one(*_COMPARED)} {other}"

    def _scalar(self, columns: Columns, kind: str) -> str:
        source, own, condition = self._inner(columns)
        return f"(SELECT {self._aggregate(own, kind)} FROM {source} WHERE {condition} AND {self._plain_condition(own)})"

    def _by_subquery(self, columns: Columns) -> str:
        source, own, condition = self._inner(columns)
        kind = self._one("int", "text")
        shown = self._value(own, kind, 0)
        where = f"{self._plain_condition(own)}{f' AND {condition}' if self._may(0.5) else ''}"
        value = self._value(columns, kind, 0)
        return self._one(
            f"({value} {self._one('', 'NOT ')}IN (SELECT {shown} FROM {source} WHERE {where}))",
            f"({self._one('', 'NOT ')}EXISTS (SELECT 1 FROM {source} WHERE {condition} AND {where}))",
            f"({value} {self._one(*_COMPARED)} {self._one('ANY', 'ALL')} (SELECT {shown} FROM {source} WHERE {where}))",
            f"({self._value(columns, 'int', 0)} {self._one(*_COMPARED)} {self._scalar(columns, 'int')})",
        )

    def _aggregate(self, columns: Columns, kind: str) -> str:
        def of(kind: str) -> str:
            return self._value(columns, kind, 1)

        forms = {
            "int": ("COUNT(*)", f"COUNT({of('text')})", f"COUNT(DISTINCT {of('int')})", f"SUM({of('int')} % 1000)"),
            "text": (f"MIN({of('text')})", f"MAX({of('text')})"),
            "float": (f"AVG({of('int')} % 1000)", f"MAX({of('float')})"),
            "bool": (f"BOOL_AND({of('bool')})", f"BOOL_OR({of('bool')})"),
        }
        filtered = f" FILTER (WHERE {self._plain_condition(columns)})" if self._may(0.15) else ""
        return self._one(*forms[kind]) + filtered

    # -- FROM

    def _table(self, depth: int) -> Query:
        alias = self._alias()
        if depth and self._may(0.4):
            sql, columns = self._query(depth - 1)
            return f"({sql}) {alias}", {f"{alias}.{name}": kind for name, kind in columns.items()}
        name = self._one(*COLUMNS)
        return f"{name} {alias}", {f"{alias}.{column}": kind for column, kind in COLUMNS[name].items()}

    def _source(self, depth: int) -> Query:
        sql, columns = self._table(depth)
        for _ in range(self._rng.choice((0, 0, 1, 1, 2))):
            if self._may(0.15):
                source, own, condition = self._inner(columns)
                alias, kind = self._alias(), self._one("int", "text", "float")
                inner = f"SELECT {self._aggregate(own, kind)} AS m FROM {source} WHERE {condition}"
                sql, columns = f"{sql} CROSS JOIN LATERAL ({inner}) {alias}", {**columns, f"{alias}.m": kind}
                continue
            other, own = self._table(depth)
            pairs = [(x, y) for x, kind in columns.items() for y, of in own.items() if kind == of != "float"]
            if pairs:
                left, right = self._rng.choice(pairs)
                kind = self._one("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
                columns = {**columns, **own}
                more = f" AND {self._plain_condition(columns)}" if kind != "FULL JOIN" and self._may(0.3) else ""
                sql = f"{sql} {kind} {other} ON {left} = {right}{more}"
        return sql, columns

    def _where(self, columns: Columns) -> str:
        parts = [self._value(columns, "bool", 2) for _ in range(self._rng.choice((0, 1, 1, 2)))]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    # -- queries

    def _query(self, depth: int) -> Query:
        return self._rng.choice((self._rows, self._groups, self._groups, self._sets, self._windows, self._distinct_on))(
            depth
        )

    def _cut(self, columns: Columns) -> str:
        if self._may(0.75):
            return ""
        offset = f" OFFSET {self._rng.randrange(4)}" if self._may(0.4) else ""
        return f" ORDER BY {self._order(self._shuffled(columns))} LIMIT {self._rng.randrange(1, 12)}{offset}"

    def _rows(self, depth: int) -> Query:
        source, own = self._source(depth)
        kinds = [self._one("int", "text", "float", "bool") for _ in range(self._rng.randrange(1, 4))]
        values = [self._scalar(own, kind) if self._may(0.2) else self._value(own, kind, 2) for kind in kinds]
        columns = {f"x{place}": kind for place, kind in enumerate(kinds)}
        items = ", ".join(f"{value} AS {name}" for value, name in zip(values, columns, strict=True))
        word = "SELECT DISTINCT" if self._may(0.15) else "SELECT"
        return f"{word} {items} FROM {source}{self._where(own)}{self._cut(columns)}", columns

    def _groups(self, depth: int) -> Query:
        source, own = self._source(depth)
        keys: dict[str, str] = {}
        for _ in range(self._rng.randrange(3)):
            kind = self._one("int", "text", "bool")
            key = self._value(own, kind, 1)
            if "SELECT" not in key and any(name in key for name in own):
                keys[key] = kind
        columns = {f"k{place}": kind for place, kind in enumerate(keys.values())}
        items = [f"{key} AS k{place}" for place, key in enumerate(keys)]
        grouped = {key: kind for key, kind in keys.items() if key in own}
        for place in range(self._rng.randrange(1, 4)):
            kind = self._one("int", "text", "float", "bool")
            asked = self._scalar(grouped, kind) if self._may(0.1) else self._aggregate(own, kind)
            items.append(f"{asked} AS a{place}")
            columns[f"a{place}"] = kind
        if self._may(0.2):
            items.append(f"{self._one('RANK()', 'DENSE_RANK()')} OVER (ORDER BY {self._order(['COUNT(*)'])}) AS z")
            columns["z"] = "int"
        sql = f"SELECT {', '.join(items)} FROM {source}{self._where(own)}"
        if keys:
            listed = ", ".join(keys)
            sets = f"GROUPING SETS (({listed}), ({next(iter(keys))}), ())"
            sql += f" GROUP BY {self._one(listed, listed, listed, f'ROLLUP ({listed})', f'CUBE ({listed})', sets)}"
            if self._may(0.3):
                other = self._scalar(grouped, "int") if self._may(0.5) else str(self._rng.randrange(5))
                sql += f" HAVING {self._aggregate(own, 'int')} {self._one(*_COMPARED)} {other}"
        return sql + self._cut(columns), columns

    def _sets(self, depth: int) -> Query:
        columns = {f"x{place}": self._one("int", "text", "float") for place in range(self._rng.randrange(1, 3))}
        sides = []
        for _ in range(3):
            source, own = self._source(max(depth - 1, 0))
            items = ", ".join(f"{self._value(own, kind, 1)} AS {name}" for name, kind in columns.items())
            sides.append(f"(SELECT {items} FROM {source}{self._where(own)}{self._cut(columns)})")
        one, other = self._one(*_SETS), self._one(*_SETS)
        left, middle, right = sides
        sql = self._one(
            f"{left} {one} {middle}", f"{left} {one} {middle} {other} {right}", f"{left} {one} ({middle} {other} {right})"
        )
        return sql + self._cut(columns), columns

    def _windows(self, depth: int) -> Query:
        source, own = self._source(max(depth - 1, 0))
        order = self._order(self._shuffled(own))
        names = self._shuffled(own)[:2]
        columns = {f"x{place}": own[name] for place, name in enumerate(names)}
        items = [f"{name} AS x{place}" for place, name in enumerate(names)]
        for place in range(self._rng.randrange(1, 3)):
            key = self._value(own, self._one("text", "bool", "int"), 0)
            by = f"PARTITION BY {key} " if self._may(0.6) else ""
            kind = self._one("int", "text")
            value = self._column(own, kind) or ("1" if kind == "int" else "''")
            calls = {
                f"LAG({value})": order,
                f"LEAD({value}, 2)": order,
                f"FIRST_VALUE({value})": f"{order}{self._frame()}",
                f"MAX({value})": f"{order}{self._frame()}",
                f"MIN({value})": self._order(names[:1]),
            }
            call = self._one(*calls)
            items.append(f"{call} OVER ({by}ORDER BY {calls[call]}) AS w{place}")
            columns[f"w{place}"] = kind
        qualify = self._one("", "", f" QUALIFY ROW_NUMBER() OVER (ORDER BY {order}) < 9", " QUALIFY w0 IS NOT NULL")
        return f"SELECT {', '.join(items)} FROM {source}{self._where(own)}{qualify}{self._cut(columns)}", columns

    def _frame(self) -> str:
        low = self._one("UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW")
        high = self._one("UNBOUNDED FOLLOWING", "CURRENT ROW", "1 FOLLOWING")
        exclude = f" EXCLUDE {self._one('CURRENT ROW', 'GROUP', 'TIES')}" if self._may(0.2) else ""
        return f" ROWS BETWEEN {low} AND {high}{exclude}" if self._may(0.6) else ""

    def _distinct_on(self, depth: int) -> Query:
        source, own = self._source(max(depth - 1, 0))
        on, *rest = self._shuffled(own)
        shown = [on, *rest[:2]]
        columns = {f"x{place}": own[name] for place, name in enumerate(shown)}
        items = ", ".join(f"{name} AS x{place}" for place, name in enumerate(shown))
        return (
            f"SELECT DISTINCT ON ({on}) {items} FROM {source}{self._where(own)} ORDER BY {self._order([on, *rest])}",
            columns,
        )

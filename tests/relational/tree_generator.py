"""Queries with trees of joins, correlated subqueries, and joins of columns of different types."""

import random

TABLES = ("p", "q", "r")
"""Their columns: `id`, different in each row; `k`, `g`, `v`, `w` and `f`, of few values; see `test_random_tables`."""

_JOINS = ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", "CROSS JOIN")


class TreeGenerator:
    """Random queries of `TABLES`."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._aliases = 0

    def query(self) -> str:
        """Return a query whose rows have no order."""
        tree, aliases, where = self._tree([], 2)
        a, b = self._rng.choice(aliases), self._rng.choice(aliases)
        form = self._rng.random()
        if form < 0.4:
            shown = ", ".join(
                f"{alias}.{self._rng.choice(('id', 'k', 'g', 'v'))} AS c{n}" for n, alias in enumerate(aliases)
            )
            return f"SELECT {shown} FROM {tree}{where}"
        if form < 0.55:
            inner, others, condition = self._tree(aliases, 1)
            value = f"{self._rng.choice(('MAX', 'MIN', 'COUNT', 'SUM'))}({self._rng.choice(others)}.v)"
            return f"SELECT {aliases[0]}.id, (SELECT {value} FROM {inner}{condition}) AS found FROM {tree}{where}"
        if form < 0.9:
            having = self._rng.choice(("", " HAVING COUNT(*) > 1", f" HAVING SUM({b}.v) > {self._rng.randint(0, 50)}"))
            return f"SELECT {a}.g, COUNT(*), SUM({b}.v), MIN({b}.id) FROM {tree}{where} GROUP BY {a}.g{having}"
        return f"SELECT COUNT(*), SUM({b}.v), COUNT(DISTINCT {a}.k) FROM {tree}{where}"

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def _condition(self, alias: str) -> str:
        number, letter = self._rng.randint(0, 19), self._rng.choice("abcde")
        return self._rng.choice(
            (
                f"{alias}.v > {number}", f"{alias}.k < {number}", f"{alias}.v + {alias}.k > {number}", f"{alias}.f",
                f"{alias}.g = '{letter}'", f"{alias}.g IN ('a', '{letter}')", f"{alias}.g LIKE '{letter}%'",
                f"{alias}.v BETWEEN 3 AND {number}", f"{alias}.k IS NOT NULL", f"{alias}.g IS NULL", f"{alias}.w >= 1.5",
                f"NOT {alias}.f", f"({alias}.v < 3 OR {alias}.g = 'b')",
            )
        )  # fmt: skip

    def _equality(self, left: str, right: str) -> str:
        column = self._rng.choice(("k", "k", "k", "g", "v", "id"))
        other = self._rng.choice((column, column, column, {"k": "v", "v": "k", "id": "k", "g": "g"}[column]))
        sides = [f"{left}.{column}", f"{right}.{other}"]
        self._rng.shuffle(sides)
        return " = ".join(sides)

    def _tree(self, outer: list[str], depth: int) -> tuple[str, list[str], str]:
        """Return FROM's text, the aliases that may be named, and WHERE. outer: the aliases of the query around it."""
        rng, first = self._rng, self._alias()
        text, aliases = f"{rng.choice(TABLES)} {first}", [first]
        if depth and rng.random() < 0.25:
            text = f"({self._derived(outer, depth - 1)}) {first}"
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            kind, alias, left = rng.choice(_JOINS), self._alias(), rng.choice(aliases)
            if kind == "CROSS JOIN":
                text += f" CROSS JOIN (SELECT * FROM {rng.choice(TABLES)} WHERE id < {rng.randint(1, 4)}) {alias}"
                aliases.append(alias)
                continue
            on = self._equality(left, alias)
            if kind != "FULL JOIN" and rng.random() < 0.4:
                on += f" AND {self._condition(rng.choice((alias, left)))}"
            if outer and kind in ("JOIN", "LEFT JOIN") and rng.random() < 0.2:
                on += f" AND {self._equality(rng.choice(outer), alias)}"
            text += f" {kind} {rng.choice(TABLES)} {alias} ON {on}"
            if kind not in ("SEMI JOIN", "ANTI JOIN"):
                aliases.append(alias)
        conditions = [self._condition(rng.choice(aliases)) for _ in range(rng.choice((0, 1, 1, 2)))]
        if outer:
            conditions += [self._equality(rng.choice(outer), rng.choice(aliases)) for _ in range(rng.choice((0, 1, 1, 2)))]
        if depth and rng.random() < 0.4:
            conditions.append(self._subquery([*aliases, *(outer if rng.random() < 0.2 else ())], depth - 1))
        rng.shuffle(conditions)
        return text, aliases, f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _derived(self, outer: list[str], depth: int) -> str:
        tree, aliases, where = self._tree(outer, depth)
        a = aliases[0]
        if self._rng.random() < 0.5:
            shown = f"MAX({a}.v) AS v, MIN({a}.w) AS w, MAX({a}.id) AS id, true AS f"
            return f"SELECT {a}.k, {a}.g, {shown} FROM {tree}{where} GROUP BY {a}.k, {a}.g"
        return f"SELECT {a}.id, {a}.k, {a}.g, {aliases[-1]}.v, {a}.w, {a}.f FROM {tree}{where}"

    def _subquery(self, outer: list[str], depth: int) -> str:
        tree, aliases, where = self._tree(outer, depth)
        o, a, negation = self._rng.choice(outer), self._rng.choice(aliases), self._rng.choice(("", "NOT "))
        rows = f"FROM {tree}{where}"
        return self._rng.choice(
            (
                f"{negation}EXISTS (SELECT 1 {rows})", f"{negation}EXISTS (SELECT COUNT(*) {rows})",
                f"{negation}EXISTS (SELECT {a}.g {rows} GROUP BY {a}.g HAVING COUNT(*) > 1)",
                f"{o}.k {negation}IN (SELECT {a}.k {rows})", f"{o}.g {negation}IN (SELECT {a}.g {rows})",
                f"{o}.v > (SELECT MIN({a}.v) {rows})", f"{o}.v = (SELECT MAX({a}.v) {rows})",
                f"(SELECT COUNT(*) {rows}) < {self._rng.randint(1, 5)}", f"{o}.v >= ALL (SELECT {a}.v {rows})",
                f"{o}.k = ANY (SELECT {a}.k {rows})", f"({negation}EXISTS (SELECT 1 {rows}) OR {self._condition(o)})",
            )
        )  # fmt: skip


def mixed_join(rng: random.Random) -> str:
    """Return a query that compares columns of different types: `i`, `l`, `x` and `d` of numbers, `s` of texts."""
    condition, other = (
        rng.choice((f"{alias}.id < {rng.randint(1, 300)}", f"{alias}.i = 1", f"{alias}.s IN ('a', '1')", f"{alias}.d > 0.2"))
        for alias in ("b", "a")
    )
    left, right = ("s", "s") if rng.random() < 0.2 else (rng.choice("ilxd"), rng.choice("ilxd"))
    first, second = rng.choice(TABLES), rng.choice(TABLES)
    form = rng.random()
    if form < 0.6:
        joined = f"FROM {first} a {rng.choice(('JOIN', 'LEFT JOIN', 'FULL JOIN'))} {second} b ON a.{left} = b.{right}"
        where = rng.choice((f"WHERE {condition}", f"WHERE {condition} AND {other}", ""))
        return f"SELECT COUNT(*), SUM(a.id), SUM(b.id) {joined} {where}"
    negation = rng.choice(("", "NOT "))
    if form < 0.8:
        inner = f"SELECT 1 FROM {second} b WHERE a.{left} = b.{right} AND {condition}"
        return f"SELECT a.id FROM {first} a WHERE {negation}EXISTS ({inner})"
    return f"SELECT a.id FROM {first} a WHERE a.{left} {negation}IN (SELECT b.{right} FROM {second} b WHERE {condition})"

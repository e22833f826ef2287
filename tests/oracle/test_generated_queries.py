"""Random queries against DuckDB: every answer must agree, on segments with dictionaries, with all indexes, and raw.

A query is generated as a pair of texts, one for each engine. What the two define differently is written out on DuckDB's
side: predicates on multi-value columns are any-match, SUM, MIN, MAX and AVG are doubles with values of their own for no
rows, arithmetic is done in doubles, LIKE ignores case.
"""

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pytest
from tests.seeds import by_first, chunks, count_of

# an eighth of what the variable says, with nulls and without
QUERIES = max(150, count_of("GAMAY_GENERATED_QUERIES", 0) // 8)
CHUNK = 150
VARIANTS = ("plain", "indexed", "raw", "consuming")


class Oracle(Protocol):
    """The interface of the fixture."""

    def rows(self, sql: str, variant: str = "plain") -> list[tuple[Any, ...]]: ...
    def duck_rows(self, sql: str) -> list[tuple[Any, ...]]: ...


@dataclass(frozen=True)
class Both:
    """An expression or condition in both dialects; `kind` is number, text, flag, time, bytes or list."""

    gamay: str
    duck: str
    kind: str = "flag"


WORDS = ("Oslo", "Lima", "Zürich", "a%b", "a_b", "", "null", "x'y", "oslo", "😀", "missing", "New York")
PATTERNS = ("%o%", "O%", "%a_b%", "osl_", "%", "%é%", "", "%ü%", "new%york", "lim")
REGEXES = ("^O", "o$", "[A-Z]\\\\.", "a.b", "^$", "s+l", "zzz", "York|Lima")
NUMBERS = ("i", "l", "f", "x")
SORTABLE = ("id", "i", "l", "big", "f", "x", "dec", "b", "t", "s", "w", "by", "u")
KEYS = ("i", "b", "s", "f", "dec", "by", "u", "j", "w")


def quoted(text: str) -> str:
    """Return a text literal."""
    return "'" + text.replace("'", "''") + "'"


class Generator:
    """Generator of random queries from one seed. nulls: with null handling, as always in DuckDB."""

    def __init__(self, seed: int, nulls: bool = False) -> None:
        self.rng = random.Random(seed)
        self.nulls = nulls
        self.conditions = [self.condition(1) for _ in range(2)]

    # -- expressions

    def column(self, name: str) -> Both:
        return Both(f'"{name}"', f'"{name}"', "number" if name in NUMBERS else "text")

    def number(self, depth: int = 2) -> Both:
        rng = self.rng
        if depth == 0 or rng.random() < 0.4:
            return self.column(rng.choice(NUMBERS))
        left = self.number(depth - 1)
        if rng.random() < 0.3:
            value = rng.choice((2, 4, 8, 0.5))
            return Both(f"({left.gamay} / {value})", f"(CAST({left.duck} AS DOUBLE) / {value}::DOUBLE)", "number")
        right = Both(str(rng.randrange(1, 9)), "", "number") if rng.random() < 0.5 else self.number(depth - 1)
        operator = rng.choice("+-*")
        return Both(
            f"({left.gamay} {operator} {right.gamay})",
            f"(CAST({left.duck} AS DOUBLE) {operator} CAST({right.duck or right.gamay} AS DOUBLE))",
            "number",
        )

    # -- conditions

    def condition(self, depth: int = 2) -> Both:
        rng = self.rng
        if depth == 0 or rng.random() < 0.35:
            return rng.choice(self.leaves)()
        if rng.random() < 0.2:
            part = self.condition(depth - 1)
            return Both(f"NOT ({part.gamay})", f"NOT ({part.duck})")
        parts = [self.condition(depth - 1) for _ in range(rng.randrange(2, 4))]
        operator = rng.choice((" AND ", " OR "))
        return Both(operator.join(f"({part.gamay})" for part in parts), operator.join(f"({part.duck})" for part in parts))

    @property
    def leaves(self) -> list[Any]:
        return [
            self.compare_number,
            self.compare_number,
            self.compare_text,
            self.number_set,
            self.text_set,
            self.between,
            self.like,
            self.regexp,
            self.is_null,
            self.multi_value,
            self.multi_value,
            self.multi_value_text,
            self.compare_expression,
            self.compare_columns,
            self.flag,
            self.time,
            self.bytes_,
            self.decimal,
            *([self.truth_test, self.distinct_from, self.null_function, self.null_text] if self.nulls else []),
        ]

    def constant(self, name: str) -> str:
        rng = self.rng
        if name == "i":
            return rng.choice((str(rng.randrange(-10, 14)), "2.5", "-2147483648", "3000000000", "-7.0"))
        if name == "big":
            return rng.choice(
                (str(rng.randrange(-(10**12), 10**12)), "9007199254740993", "9007199254740992", "1000000000000000.5")
            )
        if name == "l":
            return rng.choice(
                (str(rng.randrange(-5, 55)), str(rng.randrange(-(10**6), 10**6)), "12.75", "-9223372036854775808")
            )
        if name == "f":
            return str(rng.randrange(-420, 420) / 8)
        return rng.choice((str(rng.randrange(-5, 6)), str(rng.randrange(-(10**6), 10**6) / 16)))

    def _double(self, name: str) -> str:
        return f'"{name}"' if name in ("f", "x") else f'CAST("{name}" AS DECIMAL(38,2))'

    def compare_number(self) -> Both:
        name = self.rng.choice((*NUMBERS, "big"))
        operator = self.rng.choice(("=", "<>", "<", "<=", ">", ">="))
        value = self.constant(name)
        if self.rng.random() < 0.15:
            mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
            return Both(f'{value} {mirrored} "{name}"', f"{self._double(name)} {operator} {value}")
        return Both(f'"{name}" {operator} {value}', f"{self._double(name)} {operator} {value}")

    def compare_text(self) -> Both:
        name = self.rng.choice(("s", "w", "j"))
        operator = self.rng.choice(("=", "<>", "<", "<=", ">", ">="))
        word = f"user_{self.rng.randrange(2600):04d}" if name == "w" else self.rng.choice(WORDS)
        text = f'"{name}" {operator} {quoted(word)}'
        return Both(text, text)

    def number_set(self) -> Both:
        name = self.rng.choice(("i", "l"))
        values = ", ".join(str(self.rng.randrange(-10, 50)) for _ in range(self.rng.randrange(1, 8)))
        text = f'"{name}" {self.rng.choice(("IN", "NOT IN"))} ({values})'
        return Both(text, text)

    def text_set(self) -> Both:
        name = self.rng.choice(("s", "w"))
        pool = [f"user_{self.rng.randrange(2600):04d}" for _ in range(6)] if name == "w" else list(WORDS)
        values = ", ".join(quoted(word) for word in self.rng.sample(pool, self.rng.randrange(1, 6)))
        text = f'"{name}" {self.rng.choice(("IN", "NOT IN"))} ({values})'
        return Both(text, text)

    def between(self) -> Both:
        name = self.rng.choice((*NUMBERS, "big", "w", "id"))
        if name == "w":
            low, high = sorted(self.rng.randrange(2500) for _ in range(2))
            text = f"\"w\" BETWEEN 'user_{low:04d}' AND 'user_{high:04d}'"
            return Both(text, text)
        if name == "id":
            low = self.rng.randrange(-10, 2900)
            text = f'"id" BETWEEN {low} AND {low + self.rng.randrange(-5, 800)}'
            return Both(text, text)
        low_text, high_text = self.constant(name), self.constant(name)
        return Both(
            f'"{name}" BETWEEN {low_text} AND {high_text}', f"{self._double(name)} BETWEEN {low_text} AND {high_text}"
        )

    def like(self) -> Both:
        name = self.rng.choice(("s", "w"))
        pattern = quoted(self.rng.choice((*PATTERNS, "%_00%", "USER\\_1%")))
        word = self.rng.choice(("LIKE", "NOT LIKE"))
        return Both(f'"{name}" {word} {pattern}', f"\"{name}\" {word.replace('LIKE', 'ILIKE')} {pattern} ESCAPE '\\'")

    def regexp(self) -> Both:
        pattern = quoted(self.rng.choice(REGEXES).replace("\\\\", "\\"))
        return Both(f'REGEXP_LIKE("s", {pattern})', f'regexp_matches("s", {pattern})')

    def is_null(self) -> Both:
        name = self.rng.choice(("i", "x", "s", "mi", "dec", "by", "t", "b"))
        if self.nulls:
            text = f'"{name}" IS {self.rng.choice(("", "NOT "))}NULL'
            return Both(text, text)
        if self.rng.random() < 0.5:
            return Both(f'"{name}" IS NULL', f'"{name}__null"')
        return Both(f'"{name}" IS NOT NULL', f'NOT "{name}__null"')

    def multi_value(self) -> Both:
        rng = self.rng
        value = rng.randrange(-1, 11)
        kind = rng.randrange(4)
        if kind == 0:
            operator = rng.choice(("=", "<", "<=", ">", ">="))
            return Both(f'"mi" {operator} {value}', _any("mi", f"v {operator} {value}"))
        if kind == 1:
            return Both(f'"mi" <> {value}', f"NOT ({_any('mi', f'v = {value}')})")
        if kind == 2:
            values = ", ".join(str(rng.randrange(11)) for _ in range(rng.randrange(1, 4)))
            negated = rng.random() < 0.5
            found = _any("mi", f"v IN ({values})")
            return Both(f'"mi" {"NOT IN" if negated else "IN"} ({values})', f"NOT ({found})" if negated else found)
        high = value + rng.randrange(4)
        return Both(f'"mi" BETWEEN {value} AND {high}', _any("mi", f"v BETWEEN {value} AND {high}"))

    def multi_value_text(self) -> Both:
        if self.rng.random() < 0.5:
            word = quoted(self.rng.choice(WORDS))
            return Both(f'"ms" = {word}', _any("ms", f"v = {word}"))
        pattern = quoted(self.rng.choice(PATTERNS))
        return Both(f'"ms" LIKE {pattern}', _any("ms", f"v ILIKE {pattern} ESCAPE '\\'"))

    def compare_expression(self) -> Both:
        left = self.number()
        operator = self.rng.choice(("<", "<=", ">", ">="))
        value = self.rng.randrange(-40, 40)
        return Both(f"({left.gamay} * 1) {operator} {value}", f"(CAST({left.duck} AS DOUBLE) * 1) {operator} {value}")

    def compare_columns(self) -> Both:
        left, right = self.rng.sample(("i", "x", "f"), 2)
        operator = self.rng.choice(("=", "<>", "<", ">"))
        return Both(f'"{left}" {operator} "{right}"', f'CAST("{left}" AS DOUBLE) {operator} CAST("{right}" AS DOUBLE)')

    def flag(self) -> Both:
        return self.rng.choice((Both('"b"', '"b"'), Both('"b" = true', '"b"'), Both('"b" <> true', 'NOT "b"')))

    def time(self) -> Both:
        operator = self.rng.choice(("<", "<=", ">", ">=", "="))
        ms = 1_700_000_000_000 + self.rng.randrange(3000) * 60_000
        moment = f"make_timestamp_ms({ms})"
        return Both(f'"t" {operator} {ms}', f'"t" {operator} {moment}')

    def bytes_(self) -> Both:
        value = bytes(self.rng.randrange(256) for _ in range(self.rng.randrange(1, 3)))
        operator = self.rng.choice(("=", "<>", "<", ">="))
        return Both(f"\"by\" {operator} '{value.hex()}'", f"\"by\" {operator} unhex('{value.hex()}')")

    def decimal(self) -> Both:
        operator = self.rng.choice(("=", "<>", "<", "<=", ">", ">="))
        value = self.rng.randrange(-5000, 5000) / 8
        return Both(f'"dec" {operator} {value}', f'"dec" {operator} {value}::DECIMAL(18,3)')

    # -- what only null handling has

    def truth_test(self) -> Both:
        condition = self.condition(1)
        test = self.rng.choice(("IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"))
        return Both(f"({condition.gamay}) {test}", f"({condition.duck}) {test}")

    def distinct_from(self) -> Both:
        name, other = self.rng.sample(("i", "l", "x", "f"), 2)
        test = self.rng.choice(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"))
        right = str(self.rng.randrange(-4, 5)) if self.rng.random() < 0.5 else f'"{other}"'
        return Both(f'"{name}" {test} {right}', f'CAST("{name}" AS DOUBLE) {test} CAST({right} AS DOUBLE)')

    def null_function(self) -> Both:
        function = self.nullable_number()
        operator = self.rng.choice(("=", "<>", "<", ">="))
        value = self.rng.randrange(-5, 6)
        return Both(f"{function.gamay} {operator} {value}", f"{function.duck} {operator} {value}")

    def nullable_number(self) -> Both:
        """Return an expression that treats nulls as values, or creates them."""
        rng = self.rng
        one, other = rng.sample(("i", "x", "f"), 2)
        duck_one, duck_other = (f'CAST("{name}" AS DOUBLE)' for name in (one, other))
        value = rng.randrange(-3, 4)
        kind = rng.randrange(5)
        if kind == 0:
            return Both(f'coalesce("{one}", "{other}", {value})', f"coalesce({duck_one}, {duck_other}, {value})", "number")
        if kind == 1:
            return Both(f'nullif("{one}", {value})', f"nullif({duck_one}, {value})", "number")
        if kind == 2:
            name = rng.choice(("least", "greatest"))
            return Both(f'{name}("{one}", "{other}")', f"{name}({duck_one}, {duck_other})", "number")
        condition = self.condition(0) if kind == 3 else self.is_null()
        end = "" if rng.random() < 0.5 else f" ELSE {value}"
        return Both(
            f'CASE WHEN {condition.gamay} THEN "{one}"{end} END',
            f"CASE WHEN {condition.duck} THEN {duck_one}{end} END",
            "number",
        )

    def null_text(self) -> Both:
        name = self.rng.choice(("s", "w"))
        return self.rng.choice(
            (
                Both(f"upper(\"{name}\") = 'OSLO'", f"upper(\"{name}\") = 'OSLO'"),
                Both(f'NOT length("{name}") > 4', f"NOT length(replace(\"{name}\", chr(128512), 'ab')) > 4"),
                Both(f"coalesce(\"{name}\", 'none') = 'none'", f"coalesce(\"{name}\", 'none') = 'none'"),
                Both(f'"{name}" LIKE \'%o%\' OR "{name}" IS NULL', f'"{name}" ILIKE \'%o%\' OR "{name}" IS NULL'),
            )
        )

    def where(self) -> tuple[str, str]:
        if self.rng.random() < 0.2:
            return "", ""
        condition = self.condition()
        return f" WHERE {condition.gamay}", f" WHERE {condition.duck}"

    # -- aggregates

    def output(self) -> Both:
        """Return an aggregate, or an expression of two."""
        one = self.aggregate()
        if self.rng.random() < 0.8:
            return one
        other = self.aggregate()
        operator = self.rng.choice("+-*")
        return Both(
            f"({one.gamay} {operator} {other.gamay}) * 1",
            f"(CAST({one.duck} AS DOUBLE) {operator} CAST({other.duck} AS DOUBLE)) * 1",
            "number",
        )

    def aggregate(self) -> Both:
        rng = self.rng
        clause, duck_clause = self.filter_clause()
        if self.nulls and rng.random() < 0.2:
            column = rng.choice(("i", "s", "x", "mi", "ms", "dec", "b"))
            return Both(f'COUNT("{column}"){clause}', f'count("{column}"){duck_clause}', "number")
        if rng.random() < 0.25:
            return Both(f"COUNT(*){clause}", f"count(*){duck_clause}", "number")
        argument = self.nullable_number() if self.nulls and rng.random() < 0.25 else self.number(1)
        duck = f"CAST({argument.duck} AS DOUBLE)"
        name = rng.choice(("SUM", "MIN", "MAX", "AVG", "MINMAXRANGE", "DISTINCTCOUNT"))
        if name == "DISTINCTCOUNT":
            column = rng.choice(("i", "s", "x", "b", "by", "w"))
            return Both(f'DISTINCTCOUNT("{column}"){clause}', f'count(DISTINCT "{column}"){duck_clause}', "number")
        empty = {"SUM": "0", "MIN": "'Infinity'", "MAX": "'-Infinity'", "AVG": "'-Infinity'", "MINMAXRANGE": "'-Infinity'"}
        functions = ("max", "min") if name == "MINMAXRANGE" else (name.lower(),)
        text = " - ".join(f"{function}({duck}){duck_clause}" for function in functions)
        if not self.nulls:
            text = f"coalesce({text}, {empty[name]}::DOUBLE)"
        return Both(f"{name}({argument.gamay}){clause}", text, "number")

    def filter_clause(self) -> tuple[str, str]:
        """Return the FILTER of an aggregate; often the same one, so that several share it."""
        if self.rng.random() < 0.6:
            return "", ""
        condition = self.rng.choice(self.conditions) if self.rng.random() < 0.5 else self.condition(1)
        return f" FILTER (WHERE {condition.gamay})", f" FILTER (WHERE {condition.duck})"


def _any(column: str, condition: str) -> str:
    return f'len(list_filter("{column}", lambda v: {condition})) > 0'


@dataclass(frozen=True)
class Case:
    """A query and how to check it: `duck` gives all rows without LIMIT; `sort_width` first columns are the sort keys."""

    gamay: str
    duck: str
    limit: int
    offset: int
    descending: tuple[bool, ...]


def generate(seed: int, nulls: bool = False) -> Case:
    """Return one random query."""
    generator = Generator(seed, nulls)
    rng = generator.rng
    kind = rng.choice(("selection", "ordered", "distinct", "aggregation", "group", "group", "group", "sets"))
    case: Case = {
        "selection": _selection,
        "ordered": _ordered,
        "distinct": _distinct,
        "aggregation": _aggregation,
        "group": _group,
        "sets": _sets,
    }[kind](generator, rng)
    if not nulls:
        return case
    return replace(case, gamay=f"SET enableNullHandling=true; {case.gamay}", duck=case.duck.replace("FROM t1", "FROM t1n"))


def _select_items(generator: Generator, rng: random.Random) -> list[Both]:
    items = [generator.column(name) for name in rng.sample((*SORTABLE, "j", "mi", "ms"), rng.randrange(1, 5))]
    if generator.nulls and rng.random() < 0.3:
        items.append(generator.nullable_number())
    if rng.random() < 0.4:
        number = generator.number()
        items.append(Both(f"{number.gamay} * 1", f"CAST({number.duck} AS DOUBLE) * 1", "number"))
    return items


def _texts(items: list[Both]) -> tuple[str, str]:
    return ", ".join(item.gamay for item in items), ", ".join(item.duck for item in items)


def _window(rng: random.Random, most: int = 60) -> tuple[str, int, int]:
    limit = rng.choice((1, 5, 10, rng.randrange(1, most), 100_000))
    offset = rng.choice((0, 0, 0, rng.randrange(20)))
    return f" LIMIT {limit}" + (f" OFFSET {offset}" if offset else ""), limit, offset


def _selection(generator: Generator, rng: random.Random) -> Case:
    gamay, duck = _texts(_select_items(generator, rng))
    where, duck_where = generator.where()
    window, limit, offset = _window(rng)
    return Case(f"SELECT {gamay} FROM t1{where}{window}", f"SELECT {duck} FROM t1{duck_where}", limit, offset, ())


def _order_by(keys: list[Both], rng: random.Random) -> tuple[str, str, tuple[bool, ...]]:
    """Return both clauses: nulls are the greatest unless the query specifies their place."""
    descending = tuple(rng.random() < 0.5 for _ in keys)
    gamay, duck = [], []
    for key, down in zip(keys, descending, strict=True):
        direction = "DESC" if down else "ASC"
        said = rng.choice((None, None, "NULLS FIRST", "NULLS LAST"))
        gamay.append(f"{key.gamay} {direction} {said or ''}".rstrip())
        duck.append(f"{key.duck} {direction} {said or ('NULLS FIRST' if down else 'NULLS LAST')}")
    return f" ORDER BY {', '.join(gamay)}", f" ORDER BY {', '.join(duck)}", descending


def _ordered(generator: Generator, rng: random.Random) -> Case:
    names = rng.sample(SORTABLE, rng.randrange(1, 3))
    keys = [generator.column(name) for name in names]
    if rng.random() < 0.3:
        number = generator.number(1)
        keys.append(Both(f"{number.gamay} * 1", f"CAST({number.duck} AS DOUBLE) * 1", "number"))
    order, duck_order, descending = _order_by(keys, rng)
    gamay, duck = _texts([*keys, *_select_items(generator, rng)])
    where, duck_where = generator.where()
    window, limit, offset = _window(rng)
    return Case(
        f"SELECT {gamay} FROM t1{where}{order}{window}",
        f"SELECT {duck} FROM t1{duck_where}{duck_order}",
        limit,
        offset,
        descending,
    )


def _distinct(generator: Generator, rng: random.Random) -> Case:
    items = [generator.column(name) for name in rng.sample((*KEYS, "t"), rng.randrange(1, 4))]
    gamay, duck = _texts(items)
    where, duck_where = generator.where()
    window, limit, offset = _window(rng)
    order, duck_order, descending = ("", "", ())
    if rng.random() < 0.5:
        order, duck_order, descending = _order_by(items, rng)
    return Case(
        f"SELECT DISTINCT {gamay} FROM t1{where}{order}{window}",
        f"SELECT DISTINCT {duck} FROM t1{duck_where}{duck_order}",
        limit,
        offset,
        descending,
    )


def _aggregation(generator: Generator, rng: random.Random) -> Case:
    gamay, duck = _texts([generator.output() for _ in range(rng.randrange(1, 5))])
    where, duck_where = generator.where()
    return Case(f"SELECT {gamay} FROM t1{where}", f"SELECT {duck} FROM t1{duck_where}", 10, 0, ())


def _group(generator: Generator, rng: random.Random) -> Case:
    keys = [generator.column(name) for name in rng.sample(KEYS, rng.randrange(1, 4))]
    if rng.random() < 0.25:
        number = generator.number(1)
        keys[0] = Both(f"{number.gamay} * 1", f"CAST({number.duck} AS DOUBLE) * 1", "number")
    source = "t1"
    where, duck_where = generator.where()
    if rng.random() < 0.25:
        name = rng.choice(("mi", "ms"))
        lists = f'coalesce("{name}", [NULL])' if generator.nulls else f'"{name}"'
        source = f"(SELECT *, unnest({lists}) AS one FROM t1{duck_where})"
        duck_where = ""
        keys.append(Both(f'"{name}"', "one", "number"))
    aggregates = [generator.output() for _ in range(rng.randrange(1, 4))]
    key_texts, duck_keys = _texts(keys)
    having = duck_having = ""
    if rng.random() < 0.25:
        tested = generator.output()
        operator, value = rng.choice(("<", ">", ">=")), rng.randrange(-5, 40)
        having, duck_having = f" HAVING {tested.gamay} {operator} {value}", f" HAVING {tested.duck} {operator} {value}"
    order, duck_order, descending = ("", "", ())
    items = [*keys, *aggregates]
    if rng.random() < 0.6:
        first = aggregates[:1] if rng.random() < 0.4 else []
        order, duck_order, descending = _order_by([*first, *keys], rng)
        items = [*first, *keys, *aggregates]
    gamay, duck = _texts(items)
    window, limit, offset = _window(rng)
    return Case(
        f"SELECT {gamay} FROM t1{where} GROUP BY {key_texts}{having}{order}{window}",
        f"SELECT {duck} FROM {source}{duck_where} GROUP BY {duck_keys}{duck_having}{duck_order}",
        limit,
        offset,
        descending,
    )


def _sets(generator: Generator, rng: random.Random) -> Case:
    """GROUPING SETS, ROLLUP and CUBE, with GROUPING of the keys, which distinguishes null keys from rolled-up ones."""
    keys = [generator.column(name) for name in rng.sample(KEYS, rng.randrange(1, 4))]
    if rng.random() < 0.2:
        number = generator.number(1)
        keys[0] = Both(f"{number.gamay} * 1", f"CAST({number.duck} AS DOUBLE) * 1", "number")
    elements, duck_elements = _grouping_elements(keys, rng)
    where, duck_where = generator.where()
    aggregates = [generator.output() for _ in range(rng.randrange(1, 3))]
    listed, duck_listed = _texts(keys)
    bits = Both(f"GROUPING({listed})", f"CAST(GROUPING({duck_listed}) AS INT)", "number")
    having = duck_having = ""
    if rng.random() < 0.25:
        tested = generator.output()
        having, duck_having = f" HAVING {tested.gamay} > 3", f" HAVING {tested.duck} > 3"
    order, duck_order, descending = ("", "", ())
    items = [bits, *keys, *aggregates]
    if rng.random() < 0.6:
        first = aggregates[:1] if rng.random() < 0.3 else []
        order, duck_order, descending = _order_by([*first, bits, *keys], rng)
        items = [*first, bits, *keys, *aggregates]
    gamay, duck = _texts(items)
    window, limit, offset = _window(rng)
    return Case(
        f"SELECT {gamay} FROM t1{where} GROUP BY {elements}{having}{order}{window}",
        f"SELECT {duck} FROM t1{duck_where} GROUP BY {duck_elements}{duck_having}{duck_order}",
        limit,
        offset,
        descending,
    )


def _grouping_elements(keys: list[Both], rng: random.Random) -> tuple[str, str]:
    listed, duck_listed = _texts(keys)
    form = rng.randrange(4)
    if form < 2:
        name = ("ROLLUP", "CUBE")[form]
        return f"{name} ({listed})", f"{name} ({duck_listed})"
    if form == 2 and len(keys) > 1:
        rest, duck_rest = _texts(keys[1:])
        return f"{keys[0].gamay}, ROLLUP ({rest})", f"{keys[0].duck}, ROLLUP ({duck_rest})"
    sets = [rng.sample(keys, rng.randrange(len(keys) + 1)) for _ in range(rng.randrange(1, 5))]
    sets.append(keys)
    texts = [_texts(part) for part in sets]
    return (
        f"GROUPING SETS ({', '.join(f'({own})' for own, _ in texts)})",
        f"GROUPING SETS ({', '.join(f'({other})' for _, other in texts)})",
    )


def check(oracle: Oracle, case: Case, variant: str) -> None:
    """Compare the answers: all rows are in the whole answer, their number is right, and sort keys are in DuckDB's order."""
    everything = oracle.duck_rows(case.duck)
    found = oracle.rows(case.gamay, variant)
    expected = everything[case.offset : case.offset + case.limit]
    assert len(found) == len(expected), f"{len(found)} rows instead of {len(expected)}"
    width = len(case.descending)
    assert [row[:width] for row in found] == [row[:width] for row in expected]
    if case.limit + case.offset >= len(everything) and not case.offset:
        assert Counter(found) == Counter(everything)
    else:
        assert not Counter(found) - Counter(everything), "rows that should not be there"


def run(oracle: Oracle, seeds: range, nulls: bool) -> None:
    """Check the queries of these seeds; reports the first few that disagree."""
    failures = []
    for seed in seeds:
        case = generate(seed, nulls)
        for variant in VARIANTS:
            try:
                check(oracle, case, variant)
            except Exception as reason:  # noqa: BLE001 - collected, and raised below
                failures.append(
                    f"seed {seed} on {variant}: {type(reason).__name__}: {str(reason)[:600]}\n  {case.gamay}\n  {case.duck}"
                )
                break
        if len(failures) >= 5:
            break
    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize("nulls", [False, True], ids=["defaults", "nulls"])
@pytest.mark.parametrize("some", chunks(QUERIES, CHUNK), ids=by_first)
def test_generated_queries_agree(oracle: Oracle, some: range, nulls: bool) -> None:
    run(oracle, some, nulls)

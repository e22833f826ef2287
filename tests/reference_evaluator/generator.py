"""Random queries over a table: conditions, aggregates and clauses around random expressions."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.naive import lucene
from tests.naive.lucene import Group, Near, Word
from tests.reference_evaluator import aggregates as a
from tests.reference_evaluator import functions as f
from tests.reference_evaluator.expressions import Expressions, literal, number, quoted, words
from tests.reference_evaluator.tables import Table
from tests.reference_evaluator.tree import (
    RANKS,
    WHOLE,
    Aggregate,
    Node,
    Order,
    Statement,
    by_text,
    call,
    compares,
    is_null,
    junction,
    matches,
    negation,
    to_double,
    truth_test,
)

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
LIKES = ("%o%", "O%", "%a_b%", "osl_", "%", "%é%", "", "%ü%", "new%york", "%_0%", "a\\%b", "user\\_1%")
ODD_NUMBERS: tuple[tuple[str, float], ...] = (
    ("-0.0", 0.0),
    ("'-0.0'", 0.0),
    ("1e39", 1e39),
    ("-1e39", -1e39),
    ("9007199254740993", 2**53 + 1),
    ("'NaN'", f.NAN),
    ("'Infinity'", f.INFINITY),
    ("'-Infinity'", -f.INFINITY),
)
REGEXES = ("^O", "o$", "[A-Z]\\.", "a.b", "^$", "s+l", "zzz", "York|Lima", "^.{4}$", "[0-9]{2,}")

SEARCHES = (
    Group((("", "", Word("term", "oslo")),)),
    Group((("", "", Word("wildcard", "o*")), ("", "-", Word("term", "York")))),
    Group((("", "", Near(("new", "york"), 0)), ("OR", "", Word("similar", "lmia", 1)))),
    Group((("", "", Word("range", "l", 0, "p")), ("AND", "", Word("wildcard", "?*a*")))),
    Group((("", "+", Word("regex", "[a-z]+")), ("", "-", Word("term", "a")), ("", "", Word("term", "oslo")))),
)


class Conditions(Expressions):
    """Adds conditions."""

    def condition(self, depth: int = 2) -> Node:
        if depth == 0 or self.chance(0.35):
            return self.simple_condition()
        if self.chance(0.2):
            return negation(self.condition(depth - 1))
        parts = [self.condition(depth - 1) for _ in range(self.shape.randrange(2, 4))]
        return junction(self.shape.choice(("AND", "OR")), parts)

    def simple_condition(self) -> Node:
        makers: list[Callable[[], Node]] = [
            self._compare_number,
            self._compare_number,
            self._compare_text,
            self._in,
            self._in,
            self._between,
            self._like,
            self._regexp,
            self._text_match,
            self._null_test,
            self._list_number,
            self._list_number,
            self._list_text,
            self._compare_expression,
            self._compare_expression,
            self._compare_columns,
            self._text_expression,
            self._time,
            self._distinct_from,
            self._truth,
            self._list_expression,
        ]
        if self.roles.flags:
            makers.append(self._flag)
        if self.roles.bytes:
            makers += [self._bytes, self._decimal, self._uuid]
        return self.one_of(makers)

    def constant_for(self, name: str) -> Node:
        """Return a constant to compare a column with: one of its values, or a number near them, whole or not."""
        data_type, _ = self.table.types[name]
        value = self.sample(name)
        form = self.shape.randrange(8)
        if data_type in WHOLE and form >= 6:
            return number(
                self.pick.choice((0.5, 2.25, -7.0, 1e10, -1e19)) if form == 6 else 3_000_000_000 + self.pick.randrange(9)
            )
        if data_type in ("FLOAT", "DOUBLE"):
            value = self.pick.randrange(-40, 40) / 8 if value != value or abs(value) == f.INFINITY or form > 4 else value
            return number(int(value) if value == int(value) and abs(value) < 1e9 and form == 0 else value)
        return number(value)

    def _odd_constant(self) -> Node:
        """Return a number that not every type has."""
        sql, value = self.pick.choice(ODD_NUMBERS)
        return Node(sql, "DOUBLE", lambda row: value, constant=True)

    def _numeric_column(self) -> str:
        return self.shape.choice(self.roles.numbers + self.roles.more_numbers)

    def _compare_number(self) -> Node:
        name = self._numeric_column()
        operator = self.shape.choice(COMPARISONS)
        if self.table.types[name][0] in WHOLE and self.chance(0.1):
            constant = number(self.sample(name))
            quoted_form = Node(quoted(constant.sql), constant.type, constant.value, constant=True)
            return compares(operator, self.column(name.upper() if self.chance(0.3) else name), quoted_form)
        column, constant = self.column(name), self.constant_for(name)
        if self.chance(0.15):
            constant = self._odd_constant()
        if self.chance(0.2):
            column = replace(column, sql=f"coalesce({column.sql}, {column.sql})")
        found = compares(operator, column, constant)
        if self.chance(0.1):
            mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
            return Node(f"{constant.sql} {mirrored} {column.sql}", "BOOLEAN", found.value)
        return found

    def _compare_text(self) -> Node:
        name = self.shape.choice(self.roles.texts)
        value = self.sample(name) if self.chance(0.7) else self.pick.choice(words())
        return compares(self.shape.choice(COMPARISONS), self.column(name), literal(value, "STRING"))

    def _in(self) -> Node:
        names = [*self.roles.numbers, *self.roles.more_numbers, *self.roles.texts, *self.roles.number_lists]
        names += [*self.roles.text_lists, *self.roles.decimals, *self.roles.bytes, *self.roles.times]
        name = self.shape.choice(names)
        data_type, _ = self.table.types[name]
        values = [self.sample(name) for _ in range(self.shape.randrange(1, 8))]
        values = [0.25 if value != value or value in (f.INFINITY, -f.INFINITY) else value for value in values]
        negated = self.chance(0.4)
        listed = ", ".join(literal(value, data_type).sql for value in values)
        column = self.column(name)
        wanted = frozenset(values)
        return matches(f"{column.sql} {'NOT IN' if negated else 'IN'} ({listed})", column, lambda v: v in wanted, negated)

    def _between(self) -> Node:
        names = [
            *self.roles.numbers,
            *self.roles.more_numbers,
            *self.roles.texts,
            *self.roles.number_lists,
            *self.roles.times,
        ]
        name = self.shape.choice(names)
        column = self.column(name)
        if column.type in RANKS:
            low, high = self.constant_for(name), self.constant_for(name)
            bounds = (low.value({}), high.value({}))
        else:
            bounds = (self.sample(name), self.sample(name))
        if self.chance(0.8):
            bounds = (min(bounds), max(bounds))
        parts = [literal(value, column.type) for value in bounds]
        negated = self.chance(0.15)
        sql = f"{column.sql} {'NOT BETWEEN' if negated else 'BETWEEN'} {parts[0].sql} AND {parts[1].sql}"
        return matches(sql, column, lambda v: v == v and bounds[0] <= v <= bounds[1], negated)

    def _like(self) -> Node:
        column = self.column(self.shape.choice((*self.roles.texts, *self.roles.text_lists)))
        if not column.many and self.chance(0.2):
            column = self.text(1)
        text = self.pick.choice(LIKES)
        pattern, negated = f.like_pattern(text), self.chance(0.3)
        sql = f"{column.sql} {'NOT LIKE' if negated else 'LIKE'} {quoted(text)}"
        return matches(sql, column, lambda v: pattern.fullmatch(v) is not None, negated)

    def _regexp(self) -> Node:
        column = self.column(self.shape.choice((*self.roles.texts, *self.roles.text_lists)))
        text = self.pick.choice(REGEXES)
        ignore = self.chance(0.3)
        pattern = re.compile(text, re.IGNORECASE if ignore else 0)
        sql = f"REGEXP_LIKE({column.sql}, {quoted(text)}{', ' + quoted('i') if ignore else ''})"
        return matches(sql, column, lambda v: pattern.search(v) is not None)

    def _text_match(self) -> Node:
        column = self.text(1) if self.chance(0.2) else self.column(self.shape.choice(self.roles.texts))
        query = self.pick.choice(SEARCHES)
        sql = f"TEXT_MATCH({column.sql}, {quoted(query.written())}, 'allowLeadingWildcard=true')"
        return matches(sql, column, lambda v: lucene.holds(query, [v]))

    def _null_test(self) -> Node:
        if self.chance(0.3) and self.nulls:
            arg, negated = self.choice_of(lambda: self.number(1)), self.chance(0.5)
            sql = f"{arg.sql} IS {'NOT ' if negated else ''}NULL"
            return call(sql, "BOOLEAN", lambda value: (value is None) != negated, arg, takes_nulls=True)
        return is_null(self.shape.choice(tuple(self.table.types)), self.chance(0.5))

    def _list_number(self) -> Node:
        name = self.shape.choice(self.roles.number_lists)
        return compares(self.shape.choice(COMPARISONS), self.column(name), self.constant_for(name))

    def _list_text(self) -> Node:
        name = self.shape.choice(self.roles.text_lists)
        return compares(self.shape.choice(COMPARISONS), self.column(name), literal(self.sample(name), "STRING"))

    def _list_expression(self) -> Node:
        arg = self.list()
        if arg.type == "STRING":
            return compares(self.shape.choice(COMPARISONS), arg, literal(self.pick.choice(words()), "STRING"))
        return compares(self.shape.choice(COMPARISONS), arg, self.small(-3, 12))

    def _compare_expression(self) -> Node:
        left = self.number()
        # numbers computed by different libraries differ in the last bit, so they are not compared with what they may equal
        value = self.pick.randrange(-40, 40) + (0 if left.exact else 0.3712)
        operator = self.shape.choice(COMPARISONS if left.exact else ("<", ">"))
        return compares(operator, left, number(value))

    def _compare_columns(self) -> Node:
        if self.chance(0.3):
            left, right = self.text_column(), self.text(1)
        else:
            names = self.roles.numbers + self.roles.more_numbers + self.roles.decimals
            left, right = (self.column(self.shape.choice(names)) for _ in range(2))
            if "BIG_DECIMAL" in (left.type, right.type):
                left, right = self.number_column(), self.number_column()
        return compares(self.shape.choice(COMPARISONS), left, right)

    def _text_expression(self) -> Node:
        kind = self.shape.randrange(3)
        piece = self.pick.choice(("Os", "o", "a", "user_1", "", "rk", "JFK"))
        if kind == 0:
            name, test = self.shape.choice(
                (
                    ("startsWith", lambda v: v.startswith(piece)),
                    ("endsWith", lambda v: v.endswith(piece)),
                    ("contains", lambda v: piece in v),
                )
            )
            arg = self.text(1)
            return call(f"{name}({arg.sql}, {quoted(piece)})", "BOOLEAN", test, arg)
        left = self.text()
        return compares(self.shape.choice(COMPARISONS), left, literal(self.pick.choice(words()), "STRING"))

    def _time(self) -> Node:
        left = self.time()
        ms = self.sample(self.shape.choice(self.roles.times))
        constant = number(ms)
        if left.type == "TIMESTAMP" and self.chance(0.4):
            constant = Node(quoted(f.timestamp_text(ms)), "STRING", lambda row: ms, constant=True)
        return compares(self.shape.choice(COMPARISONS), left, constant)

    def _distinct_from(self) -> Node:
        left = self.number_column()
        right = self.small(-4, 9) if self.chance(0.5) else self.number_column()
        same = compares("=", left, right)
        negated = self.chance(0.5)

        def test(x: Any, y: Any, equal: Any) -> bool:
            return (x is y or bool(equal) if x is None or y is None else equal) is negated

        sql = f"{left.sql} IS {'NOT ' if negated else ''}DISTINCT FROM {right.sql}"
        return call(sql, "BOOLEAN", test, left, right, same, takes_nulls=True)

    def _truth(self) -> Node:
        return truth_test(self.condition(1), self.chance(0.5), self.chance(0.5))

    def _flag(self) -> Node:
        column = self.column(self.shape.choice(self.roles.flags))
        kind = self.shape.randrange(4)
        if kind == 0:
            return column
        wanted = self.chance(0.5)
        if kind == 1:
            return compares(self.shape.choice(("=", "<>")), column, literal(wanted, "BOOLEAN"))
        return Node(f"{column.sql} = {int(wanted)}", "BOOLEAN", compares("=", column, literal(wanted, "BOOLEAN")).value)

    def _bytes(self) -> Node:
        name = self.shape.choice(self.roles.bytes)
        return compares(self.shape.choice(COMPARISONS), self.column(name), literal(self.sample(name), "BYTES"))

    def _decimal(self) -> Node:
        name = self.shape.choice(self.roles.decimals)
        return compares(self.shape.choice(COMPARISONS), self.column(name), literal(self.sample(name), "BIG_DECIMAL"))

    def _uuid(self) -> Node:
        name = self.shape.choice(self.roles.uuids)
        return compares(self.shape.choice(("=", "<>", "<", ">=")), self.column(name), literal(self.sample(name), "UUID"))


class Generator(Conditions):
    """Adds aggregates and whole queries."""

    def __init__(self, table: Table, shape: random.Random, pick: random.Random, nulls: bool) -> None:
        super().__init__(table, shape, pick, nulls)
        self.shared = [self.condition(1) for _ in range(2)]

    # -- aggregates

    def aggregate(self) -> Aggregate:
        where = None
        if self.chance(0.3):
            where = self.shape.choice(self.shared) if self.chance(0.5) else self.condition(1)
        made = self.shape.choice((self._count, self._basic, self._basic, self._distinct, self._ordered, self._chosen,
                                  self._spread, self._of_lists))()  # fmt: skip
        if where is None:
            return made
        return Aggregate(
            f"{made.sql} FILTER (WHERE {where.sql})", made.type, made.args, made.fold, where, made.counts_nulls,
            made.of_nothing, made.many, made.exact,
        )  # fmt: skip

    def _count(self) -> Aggregate:
        if self.chance(0.5):
            return Aggregate("COUNT(*)", "LONG", (), a.count, of_nothing=0)
        arg = self.column(self.shape.choice(tuple(self.table.types))) if self.chance(0.6) else self.number(1)
        if self.chance(0.2):
            arg = self.column(self.shape.choice(self.roles.keys))
            return Aggregate(f"COUNT(DISTINCT {arg.sql})", "INT", (arg,), a.distinct_count, of_nothing=0)
        return Aggregate(f"COUNT({arg.sql})", "LONG", (arg,), a.count, of_nothing=0)

    def _counted(self) -> Node:
        """Return a number for the rows that a condition holds for, and another for the others."""
        condition, one, other = self.condition(1), self.small(), self.small(-3, 3)
        sql = f"CASE WHEN {condition.sql} THEN {one.sql} ELSE {other.sql} END"
        first, second = one.value({}), other.value({})
        return call(sql, "INT", lambda holds: first if holds is True else second, condition, takes_nulls=True)

    def _basic(self) -> Aggregate:
        arg = self.safe_number()
        name, fold = self.shape.choice(
            (("SUM", a.total), ("MIN", a.least), ("MAX", a.greatest), ("AVG", a.average), ("MINMAXRANGE", a.spread))
        )
        exact = True
        if self.chance(0.2):
            arg = self._counted()
        elif self.chance(0.35):
            arg, exact = self.double(2), name in ("MIN", "MAX")
        if name in ("MIN", "MAX") and self.chance(0.1):
            arg = self.time_column()
        return Aggregate(f"{name}({arg.sql})", "DOUBLE", (arg,), fold, exact=exact and arg.exact)

    def _distinct(self) -> Aggregate:
        if self.chance(0.4):
            arg = self.number_column()
            name, fold = self.shape.choice((("DISTINCTSUM", a.distinct_sum), ("DISTINCTAVG", a.distinct_average)))
            return Aggregate(f"{name}({arg.sql})", "DOUBLE", (arg,), fold)
        arg = self.column(self.shape.choice(self.roles.keys)) if self.chance(0.6) else self.text(1)
        if arg.type != "BYTES" and self.chance(0.4):
            name, fold = self.shape.choice(
                (("DISTINCTCOUNTHLL({}, 12)", a.estimated_count), ("DISTINCTCOUNTTHETASKETCH({})", a.theta_count),
                 ("DISTINCTCOUNTHLLPLUS({})", a.estimated_count), ("DISTINCTCOUNTULL({})", a.estimated_count),
                 ("DISTINCTCOUNTCPCSKETCH({})", a.estimated_count))
            )  # fmt: skip
            exact = fold is a.theta_count
            return Aggregate(name.format(arg.sql), "LONG", (arg,), fold, of_nothing=0, exact=exact)
        name = self.shape.choice(("DISTINCTCOUNT", "DISTINCTCOUNTBITMAP", "DISTINCTCOUNTOFFHEAP", "DISTINCTCOUNTSMARTHLL"))
        if arg.type == "BYTES":  # to the others they are sketches
            name = "DISTINCTCOUNT"
        return Aggregate(f"{name}({arg.sql})", "INT", (arg,), a.distinct_count, of_nothing=0)

    def _ordered(self) -> Aggregate:
        arg = self.safe_number() if self.chance(0.7) else self.column(self.shape.choice(self.roles.numbers))
        if self.chance(0.6):
            percent = self.pick.choice((0, 25, 50, 90, 95, 99, 100))
            if self.chance(0.5):
                return Aggregate(f"PERCENTILE{percent}({arg.sql})", "DOUBLE", (arg,), a.percentile(percent))
            half = percent / 2 if percent < 100 else 99.5
            return Aggregate(f"PERCENTILE({arg.sql}, {half})", "DOUBLE", (arg,), a.percentile(half))
        reducer = self.shape.choice(("MIN", "MAX", "AVG"))
        return Aggregate(f"MODE({arg.sql}, '{reducer}')", "DOUBLE", (arg,), a.mode(reducer), exact=reducer != "AVG")

    def _chosen(self) -> Aggregate:
        last = self.chance(0.5)
        kind = self.shape.randrange(5)
        if kind == 0:
            arg, name = self.whole_column(), "MAXLONG" if last else "MINLONG"
            return Aggregate(f"{name}({arg.sql})", "LONG", (arg,), a.extreme(last, f.LONG_MIN if last else f.LONG_MAX))
        if kind == 1:
            arg, name = self.text(1), "MAXSTRING" if last else "MINSTRING"
            return Aggregate(f"{name}({arg.sql})", "STRING", (arg,), a.extreme(last, None))
        if kind == 2:
            arg = self.whole_column()
            return Aggregate(f"SUMLONG({arg.sql})", "LONG", (arg,), a.exact_sum)
        name = "LASTWITHTIME" if last else "FIRSTWITHTIME"
        data_type, of_nothing, arg = self.shape.choice(
            (
                ("LONG", f.LONG_MIN, self.whole_column()),
                ("DOUBLE", f.NAN, self.number_column()),
                ("STRING", "", self.text_column()),
            )
        )
        when = self.column("id")  # no two rows have the same
        fold = a.by_time(last, of_nothing)
        if data_type == "DOUBLE":
            arg = self.arithmetic("*", arg, number(1))
        return Aggregate(f"{name}({arg.sql}, {when.sql}, '{data_type}')", data_type, (arg, when), fold)

    def _spread(self) -> Aggregate:
        arg = self.number_column()
        if self.chance(0.25):
            other, sample = self.number_column(), self.chance(0.5)
            name = "COVARSAMP" if sample else "COVARPOP"
            return Aggregate(f"{name}({arg.sql}, {other.sql})", "DOUBLE", (arg, other), a.covariance(sample), exact=False)
        if self.chance(0.25):
            low, bins = self.pick.randrange(-5, 5), self.shape.randrange(1, 6)
            sql = f"HISTOGRAM({arg.sql}, {low}, {low + 2 * bins}, {bins})"
            return Aggregate(sql, "DOUBLE", (arg,), a.histogram(low, low + 2 * bins, bins), many=True, exact=False)
        if self.chance(0.25):
            name, fold = self.shape.choice((("SKEWNESS", a.shape(False)), ("KURTOSIS", a.shape(True))))
            return Aggregate(f"{name}({arg.sql})", "DOUBLE", (arg,), fold, exact=False)
        if self.chance(0.25):
            arg, distinct = self.column(self.shape.choice(self.roles.texts)), self.chance(0.5)
            sql = f"ARRAYAGG({arg.sql}, 'STRING'{', true' if distinct else ''})"
            collect = a.collected_distinct if distinct else a.collected
            return Aggregate(sql, "STRING", (arg,), collect, many=True, exact=False)
        sample, root = self.chance(0.5), self.chance(0.5)
        name = ("STDDEV" if root else "VAR") + ("SAMP" if sample else "POP")
        return Aggregate(f"{name}({arg.sql})", "DOUBLE", (arg,), a.moments(2, sample, root), exact=False)

    def _of_lists(self) -> Aggregate:
        if self.roles.flags and self.chance(0.2):
            arg = self.column(self.roles.flags[0])
            name, truth = self.shape.choice((("BOOLAND", a.all_true), ("BOOLOR", a.any_true)))
            return Aggregate(f"{name}({arg.sql})", "BOOLEAN", (arg,), truth)
        arg = self.list_column()
        name, fold, result = self.shape.choice(
            (
                ("SUM", a.total, "DOUBLE"),
                ("MIN", a.least, "DOUBLE"),
                ("MAX", a.greatest, "DOUBLE"),
                ("AVG", a.average, "DOUBLE"),
                ("MINMAXRANGE", a.spread, "DOUBLE"),
                ("COUNT", a.count, "LONG"),
                ("DISTINCTCOUNT", a.distinct_count, "INT"),
                ("DISTINCTSUM", a.distinct_sum, "DOUBLE"),
                ("PERCENTILE90", a.percentile(90), "DOUBLE"),
            )
        )
        of_nothing = 0 if "COUNT" in name else None
        if name == "DISTINCTCOUNT" and self.chance(0.5):
            arg = self.column(self.shape.choice(self.roles.text_lists))
        return Aggregate(f"{name}MV({arg.sql})", result, (arg,), a.flattened(fold), of_nothing=of_nothing)

    # -- queries

    def statement(self) -> Statement:
        kinds = (self._selection, self._selection, self._distinct_query, self._aggregation, self._group, self._group,
                 self._group, self._sets)  # fmt: skip
        statement = self.shape.choice(kinds)()
        statement.nulls = self.nulls
        if self.chance(0.85):
            statement.where = self.condition()
        if self.chance(0.3) and not statement.star:
            self._name(statement)
        fetch = "OFFSET {offset} ROWS FETCH FIRST {limit} ROWS ONLY"
        statement.window = self.shape.choice(("LIMIT {limit} OFFSET {offset}", "LIMIT {offset}, {limit}", fetch))
        if self.chance(0.15):
            name, value = self.shape.choice(
                (
                    ("maxExecutionThreads", "1"),
                    ("inPredicatePruningThreshold", "1"),
                    ("accurateGroupByWithoutOrderBy", "true"),
                    ("numGroupsLimit", "1000000"),
                    ("minSegmentGroupTrimSize", "100000"),
                )
            )
            statement.options[name] = value
        return statement

    def _name(self, statement: Statement) -> None:
        """Give some items other names, by which ORDER BY calls them, or let it call them by their places."""
        texts = [item.sql for item in statement.items]
        for place, text in enumerate(texts, 1):
            if texts.count(text) == 1 and self.chance(0.6):
                statement.aliases[text] = str(place) if self.chance(0.3) else f"named_{place}"

    def _window(self, statement: Statement) -> Statement:
        statement.limit = self.shape.choice((None, 0, 1, 5, 37, 100_000, 100_000))
        if statement.limit is not None and self.chance(0.25):
            statement.limit, statement.offset = max(statement.limit, 1), self.pick.randrange(20)
        return statement

    def _item(self) -> Node:
        """Return an expression to select."""
        return self.one_of(
            (
                lambda: self.column(self.shape.choice(tuple(self.table.types))),
                lambda: self.column(self.shape.choice(tuple(self.table.types))),
                self.number,
                self.text,
                self.time,
                self.list,
                lambda: self.choice_of(lambda: self.number(1)),
                lambda: self.choice_of(lambda: self.text(1)),
                self._virtual,
                lambda: self.condition(1),
            )
        )

    def _virtual(self) -> Node:
        name, data_type = self.shape.choice((("$segmentName", "STRING"), ("$totalDocs", "INT")))
        return Node(f'"{name}"', data_type, by_text(name))

    def _key(self) -> Node:
        if self.chance(0.55):
            return self.column(self.shape.choice(self.roles.keys))
        if self.chance(0.2):
            return self.column(self.shape.choice((*self.roles.number_lists, *self.roles.text_lists)))
        made = self.one_of(
            (
                lambda: self.number(1),
                lambda: self.text(1),
                self.time,
                self._of_time,
                self.list,
                self._of_other,
                lambda: self.condition(1),
            )
        )
        return made if made.exact else self.number_column()

    def _keys(self, most: int, singles: bool = False) -> list[Node]:
        keys: dict[str, Node] = {}
        for _ in range(self.shape.randrange(1, most + 1)):
            key = self._key()
            if not (singles and key.many):
                keys.setdefault(key.sql, key)
        return list(keys.values()) or [self.number_column()]

    def _orders(self, nodes: Sequence[Node]) -> list[Order]:
        return [
            Order(
                node,
                self.chance(0.5),
                self.shape.choice((None, None, True, False)) if self.nulls or self.chance(0.3) else None,
            )
            for node in nodes
        ]

    def _selection(self) -> Statement:
        statement = Statement("selection", [self._item() for _ in range(self.shape.randrange(1, 5))])
        if self.chance(0.08):
            statement.star = True
            statement.items = [self.column(name) for name in sorted(self.table.types)]
        if self.chance(0.6):
            keys = [self.column(self.shape.choice(self.roles.sortable)) for _ in range(self.shape.randrange(1, 4))]
            if self.chance(0.4):
                keys.append(self.number(1))
            if self.chance(0.2):
                keys.append(self.text(1))
            statement.order = self._orders([key for key in keys if key.exact])
        return self._window(statement)

    def _distinct_query(self) -> Statement:
        keys = self._keys(3)
        statement = Statement("distinct", [_computed(key) for key in keys], keys=keys)
        if self.chance(0.6) and not any(key.many for key in keys):
            chosen = self.shape.sample(statement.items, self.shape.randrange(1, len(keys) + 1))
            statement.order = self._orders(chosen)
        self._window(statement)
        statement.limit = statement.limit or None
        return statement

    def _aggregation(self) -> Statement:
        statement = Statement("aggregation", [])
        self._outputs(statement, self.shape.randrange(1, 5), [])
        return statement

    def _outputs(self, statement: Statement, count: int, keys: Sequence[Node]) -> list[Node]:
        """Select aggregates and expressions of them."""
        outputs = []
        for _ in range(count):
            one = self.aggregate()
            output = _result(one)
            statement.aggregates.append(one)
            if _is_small(one) and self.chance(0.2):
                other = self.aggregate()
                if _is_small(other):
                    statement.aggregates.append(other)
                    output = self._combined(output, _result(other))
            elif one.type in ("INT", "LONG", "DOUBLE") and not one.many and self.chance(0.15):
                output = self._judged(output)
            outputs.append(output)
        statement.items += outputs
        return outputs

    def _judged(self, result: Node) -> Node:
        """Return an expression of an aggregate."""
        bound = self.pick.randrange(30)
        if result.type in WHOLE and self.chance(0.5):
            sql = f"CASE WHEN {result.sql} > {bound} THEN 'many' ELSE 'few' END"
            return call(sql, "STRING", lambda x: "many" if x is not None and x > bound else "few", result, takes_nulls=True)
        sql = f"coalesce({result.sql}, {bound})"
        convert = to_double if result.type == "DOUBLE" else int
        return call(sql, result.type, lambda x: convert(bound) if x is None else x, result, takes_nulls=True)

    def _combined(self, left: Node, right: Node) -> Node:
        operator = self.shape.choice("+-/") if {left.type, right.type} - set(WHOLE) else self.shape.choice("+-")
        whole = {left.type, right.type} <= set(WHOLE)
        sql = f"({left.sql} {operator} {right.sql})"
        if whole:
            return call(sql, "LONG", lambda x, y: x + y if operator == "+" else x - y, left, right)
        function = f.ARITHMETIC[operator]
        return call(sql, "DOUBLE", lambda x, y: function(to_double(x), to_double(y)), left, right)

    def _having(self, statement: Statement) -> Node | None:
        """Return a condition on an aggregate that may not be selected, and perhaps on another."""
        parts: list[Node] = []
        numbers = [key for key in statement.keys if key.type in RANKS and key.sql.strip('"') in self.table.types]
        for _ in range(self.shape.randrange(1, 3)):
            if numbers and statement.sets is None and self.chance(0.2):
                key = _computed(self.shape.choice(numbers))
                parts.append(compares(self.shape.choice(COMPARISONS), key, self.small(-5, 40)))
                continue
            made = self._basic() if self.chance(0.7) else self._count()
            if not made.exact:
                made = Aggregate("COUNT(*)", "LONG", (), a.count, of_nothing=0)
            statement.aggregates.append(made)
            result = _result(made)
            if self.chance(0.2):
                low = self.pick.randrange(-5, 10)
                high = low + self.pick.randrange(20)
                parts.append(matches(f"{result.sql} BETWEEN {low} AND {high}", result, _within(low, high)))
            else:
                parts.append(compares(self.shape.choice(COMPARISONS), result, self.small(-5, 40)))
            if self.chance(0.15):
                parts[-1] = negation(parts[-1])
        return parts[0] if len(parts) == 1 else junction(self.shape.choice(("AND", "OR")), parts)

    def _group(self) -> Statement:
        keys = self._keys(3)
        statement = Statement("group", [], keys=keys)
        shown_keys = [_computed(key) for key in keys]
        outputs = self._outputs(statement, self.shape.randrange(1, 4), keys)
        whole = [key for key in shown_keys if key.sql in ('"i"', '"month"', '"day"', '"hour"')]
        if whole and self.chance(0.5):
            outputs.append(self._of_key(self.shape.choice(whole)))
        self._arrange(statement, shown_keys, outputs)
        if self.chance(0.1):
            statement.group_sql = ", ".join(
                str(statement.items.index(key) + 1) if key in statement.items else key.sql for key in shown_keys
            )
        return self._window(statement)

    def _of_key(self, key: Node) -> Node:
        """Return an expression of a key, which is computed after aggregation: whole numbers stay whole."""
        by = self.pick.randrange(2, 9)
        operator = self.shape.choice("+-*/")
        sql = f"({key.sql} {operator} {by})"
        if operator == "/":
            return call(sql, "DOUBLE", lambda x: x / by, key)
        return call(sql, "LONG", {"+": lambda x: x + by, "-": lambda x: x - by, "*": lambda x: x * by}[operator], key)

    def _arrange(self, statement: Statement, keys: Sequence[Node], outputs: Sequence[Node]) -> None:
        kept = [key for key in keys if self.chance(0.85)]
        statement.items = [*kept, *outputs] if self.chance(0.7) else [*outputs, *kept]
        if self.chance(0.3):
            statement.having = self._having(statement)
        if self.chance(0.65):
            candidates = [*keys, *(node for node in outputs if node.exact and not node.many)]
            chosen = self.shape.sample(candidates, self.shape.randrange(1, len(candidates) + 1))
            if self.chance(0.3):
                extra = self._basic()
                if extra.exact:
                    statement.aggregates.append(extra)
                    chosen.append(_result(extra))
            statement.order = self._orders(chosen)

    def _sets(self) -> Statement:
        keys = self._keys(3, singles=True)
        statement = Statement("group", [], keys=keys)
        shown_keys = [_computed(key) for key in keys]
        outputs = self._outputs(statement, self.shape.randrange(1, 3), keys)
        self._arrange(statement, shown_keys, outputs)
        listed = ", ".join(key.sql for key in keys)
        statement.items.append(Node(f"GROUPING({listed})", "INT", by_text("?grouping")))
        every = tuple(range(len(keys)))
        form = self.shape.randrange(3)
        if form == 0:
            statement.sets = [every[:n] for n in range(len(keys), -1, -1)]
            statement.group_sql = f"ROLLUP ({listed})"
        elif form == 1:
            statement.sets = [tuple(i for i in every if mask >> i & 1) for mask in range(2 ** len(keys))]
            statement.group_sql = f"CUBE ({listed})"
        else:
            sets = [tuple(sorted(self.shape.sample(every, self.shape.randrange(len(keys) + 1)))) for _ in range(2)]
            statement.sets = list(dict.fromkeys([*sets, every]))
            texts = [", ".join(keys[i].sql for i in one) for one in statement.sets]
            statement.group_sql = f"GROUPING SETS ({', '.join(f'({text})' for text in texts)})"
        return self._window(statement)


def _is_small(aggregate: Aggregate) -> bool:
    """Whether sums of such numbers fit 64 bits, also where there are no rows."""
    is_number = aggregate.type in RANKS and aggregate.exact and not aggregate.many
    return is_number and ("COUNT" in aggregate.sql or aggregate.type == "DOUBLE")


def _within(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: bool(low <= value <= high)


def _computed(node: Node) -> Node:
    """Return what a key is in the result: computed already, and single-value."""
    return Node(node.sql, node.type, by_text(node.sql), exact=node.exact)


def _result(aggregate: Aggregate) -> Node:
    return Node(aggregate.sql, aggregate.type, by_text(aggregate.sql), aggregate.many, exact=aggregate.exact)


def generate(table: Table, seed: int, nulls: bool) -> Statement:
    """Return a random query; seeds 2n and 2n + 1 differ in their constants only."""
    return Generator(table, random.Random(seed // 2), random.Random(f"{seed} constants"), nulls).statement()

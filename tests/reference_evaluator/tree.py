"""Expressions and queries as the generator makes them, and what they give, row by row and by definition.

Nothing here is shared with the engine. A row is a dictionary of Python values, None where a value is missing; without null
handling the missing values have been replaced by the defaults of their columns, and `?name` tells which ones were.
"""

import functools
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from itertools import product
from typing import Any

Row = dict[str, Any]
Getter = Callable[[Row], Any]

RANKS = {"INT": 0, "LONG": 1, "FLOAT": 2, "DOUBLE": 3, "BIG_DECIMAL": 4}
WHOLE = ("INT", "LONG")
EXACT = Context(prec=400)
UNKNOWN = "?unknown"
# what a row shows for which an expression has no value, where nulls are not asked for
_PLACEHOLDERS: dict[str, Any] = {
    "STRING": "",
    "JSON": "",
    "MAP": "{}",
    "BYTES": b"",
    "UUID": bytes(16),
    "BIG_DECIMAL": Decimal(0),
    "BOOLEAN": False,
    "FLOAT": 0.0,
    "DOUBLE": 0.0,
}


@dataclass(frozen=True, slots=True)
class Node:
    """An expression: its text, its type, and its value for a row.

    many: multi-value, a list for each row. constant: a literal. exact: computed to the last bit by every implementation of
    IEEE 754, so that it can be a key, be ordered by and be compared. filters: of a condition, whether it lets a row through
    without null handling: then a condition that is not known does not hold, and its negation does.
    denies: likewise, whether its negation does. keyed: reads maps by key: what is at a missing one is null in conditions,
    which get rows with UNKNOWN.
    """

    sql: str
    type: str
    value: Getter
    many: bool = False
    constant: bool = False
    exact: bool = True
    filters: Callable[[Row], bool] | None = None
    denies: Callable[[Row], bool] | None = None
    keyed: bool = False

    def in_condition(self) -> Getter:
        """Return the value as conditions see it."""
        value = self.value
        return (lambda row: value({**row, UNKNOWN: True})) if self.keyed else value

    def lets_through(self, nulls: bool) -> Callable[[Row], bool]:
        """Return whether the condition, as a filter, keeps a row."""
        if self.filters is not None and not nulls:
            return self.filters
        value = self.in_condition()
        return lambda row: value(row) is True

    def refuses(self) -> Callable[[Row], bool]:
        """Return whether the negation of the condition keeps a row without null handling."""
        if self.denies is not None:
            return self.denies
        if self.keyed:
            value = self.in_condition()
            return lambda row: value(row) is False
        holds = self.lets_through(False)
        return lambda row: not holds(row)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate: `fold` gets the arguments of all valid rows, and whether there are groups.

    counts_nulls: rows with null arguments count, too. of_nothing: the value of no row at all with null handling.
    """

    sql: str
    type: str
    args: tuple[Node, ...]
    fold: Callable[[list[Any], bool], Any]
    where: Node | None = None
    counts_nulls: bool = False
    of_nothing: Any = None
    many: bool = False
    exact: bool = True

    def over(self, rows: Iterable[Row], grouped: bool, nulls: bool) -> Any:
        """Return the value over some rows."""
        if self.where is not None:
            holds = self.where.lets_through(nulls)
            rows = [row for row in rows if holds(row)]
        if not self.args:
            values: list[Any] = [()] * sum(1 for _ in rows)
        elif nulls:
            values = [tuple(arg.value(row) for arg in self.args) for row in rows]
            if not self.counts_nulls:
                values = [value for value in values if not any(one is None for one in value)]
        else:
            values = [tuple(shown(arg.value(row), arg) for arg in self.args) for row in rows]
        if nulls and not values:
            return self.of_nothing
        return self.fold([value[0] for value in values] if len(self.args) == 1 else values, grouped)


@dataclass(frozen=True, slots=True)
class Order:
    """A key of ORDER BY. nulls_first: as the query says, None when it does not."""

    node: Node
    descending: bool
    nulls_first: bool | None

    def text(self, aliases: Mapping[str, str]) -> str:
        """Return the key with its direction; aliases: other names and places in SELECT, by text."""
        said = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}[self.nulls_first]
        return f"{aliases.get(self.node.sql, self.node.sql)} {'DESC' if self.descending else 'ASC'}{said}"


@dataclass(slots=True)
class Expected:
    """The answer: runs of rows whose order within the run is open, the window of it that is asked for, and the statistics.

    matched: the rows that the filter lets through. scanned: how many documents the response may count when it reads all:
    those of the filter where they make groups or have aggregates, and for each FILTER clause its own. A clause that lets all
    of them through may be known to, and is none then.
    """

    runs: list[list[tuple[Any, ...]]]
    offset: int
    limit: int
    matched: int
    scanned: frozenset[int]
    types: list[tuple[str, bool]]


@dataclass(slots=True)
class Statement:
    """A query. kind: selection, distinct, aggregation or group. sets: positions in `keys`, for GROUPING SETS."""

    kind: str
    items: list[Node]
    where: Node | None = None
    keys: list[Node] = field(default_factory=list)
    aggregates: list[Aggregate] = field(default_factory=list)
    having: Node | None = None
    order: list[Order] = field(default_factory=list)
    limit: int | None = None
    offset: int = 0
    sets: list[tuple[int, ...]] | None = None
    group_sql: str = ""
    options: dict[str, str] = field(default_factory=dict)
    nulls: bool = False
    aliases: dict[str, str] = field(default_factory=dict)
    window: str = "LIMIT {limit} OFFSET {offset}"
    star: bool = False

    def text(self, table: str, prefix: str = "") -> str:
        """Return the query on a table; prefix: what stands before SELECT, after the options."""
        options = dict(self.options) | ({"enableNullHandling": "true"} if self.nulls else {})
        parts = [f"SET {name} = {value}; " for name, value in options.items()]
        parts.append(prefix + "SELECT DISTINCT " if self.kind == "distinct" else prefix + "SELECT ")
        items = ["*"] if self.star else [self._named(item) for item in self.items]
        parts.append(f"{', '.join(items)} FROM {table}")
        if self.where is not None:
            parts.append(f" WHERE {self.where.sql}")
        if self.kind == "group":
            parts.append(f" GROUP BY {self.group_sql or ', '.join(key.sql for key in self.keys)}")
        if self.having is not None:
            parts.append(f" HAVING {self.having.sql}")
        if self.order:
            parts.append(f" ORDER BY {', '.join(order.text(self.aliases) for order in self.order)}")
        if self.limit is not None:
            window = self.window if self.offset else "LIMIT {limit}"
            parts.append(" " + window.format(limit=self.limit, offset=self.offset))
        return "".join(parts)

    def _named(self, item: Node) -> str:
        alias = self.aliases.get(item.sql)
        return item.sql if alias is None or alias.isdigit() else f"{item.sql} AS {alias}"

    def answer(self, rows: Sequence[Row]) -> Expected:
        """Return the query's answer for these rows."""
        if self.where is not None:
            holds = self.where.lets_through(self.nulls)
            matched = [row for row in rows if holds(row)]
        else:
            matched = list(rows)
        results = matched if self.kind == "selection" else self._grouped(matched)
        runs = self._ordered(results) if self.order else [results]
        shown_rows = [[tuple(self._shown(item, row) for item in self.items) for row in run] for run in runs if run]
        limit = 10 if self.limit is None else self.limit
        types = [(item.type, item.many) for item in self.items]
        return Expected(shown_rows, self.offset, limit, len(matched), self._scanned(matched), types)

    def _scanned(self, matched: list[Row]) -> frozenset[int]:
        clauses = {one.where.sql: one.where.lets_through(self.nulls) for one in self.aggregates if one.where is not None}
        counts = [sum(map(holds, matched)) for holds in clauses.values()]
        whole = sum(count == len(matched) for count in counts)
        plain = self.kind != "aggregation" or any(one.where is None for one in self.aggregates)
        some = sum(count for count in counts if count < len(matched))
        return frozenset(some + times * len(matched) for times in range(min(plain + whole, 1), plain + whole + 1))

    def _shown(self, node: Node, row: Row) -> Any:
        """Return what a row shows; keys and aggregates are shown as they are."""
        value = node.value(row)
        return shown(value, node) if self.kind == "selection" and not self.nulls else value

    def _exploded(self, row: Row, keys: Sequence[Node]) -> Iterable[tuple[Any, ...]]:
        """Return the combinations of the keys' values: one of each list."""
        values = []
        for key in keys:
            value = key.value(row)
            if not self.nulls:
                value = shown(value, key)
            values.append(value if key.many and value is not None else [value])
        return product(*values)

    def _grouped(self, matched: list[Row]) -> list[Row]:
        results = []
        sets = [tuple(range(len(self.keys)))] if self.sets is None else self.sets
        for one in sets:
            keys = [self.keys[i] for i in one]
            members: dict[Any, tuple[tuple[Any, ...], list[Row]]] = {}
            for row in matched:
                for values in self._exploded(row, keys):
                    members.setdefault(tuple(map(hashable, values)), (values, []))[1].append(row)
            if not one and not members:
                members[()] = ((), [])
            for values, group in members.values():
                result: Row = {key.sql: None for key in self.keys}
                result |= {key.sql: value for key, value in zip(keys, values, strict=True)}
                result["?grouping"] = sum(1 << (len(self.keys) - 1 - i) for i in range(len(self.keys)) if i not in one)
                for aggregate in self.aggregates:
                    result[aggregate.sql] = aggregate.over(group, self.kind == "group", self.nulls)
                if self.having is None or self.having.value(result) is True:
                    results.append(result)
        return results

    def _ordered(self, results: list[Row]) -> list[list[Row]]:
        def compare(left: Sequence[Any], right: Sequence[Any]) -> int:
            for order, a, b in zip(self.order, left, right, strict=True):
                if a is None or b is None:
                    if a is b:
                        continue
                    first = order.descending if order.nulls_first is None else order.nulls_first
                    return -1 if (a is None) == first else 1
                one, other = sort_key(a), sort_key(b)
                if one != other:
                    return -1 if (one < other) != order.descending else 1
            return 0

        keyed = [([self._shown(order.node, row) for order in self.order], row) for row in results]
        keyed.sort(key=functools.cmp_to_key(lambda a, b: compare(a[0], b[0])))
        runs: list[list[Row]] = []
        previous = None
        for keys, row in keyed:
            if previous is None or compare(previous, keys):
                runs.append([])
            runs[-1].append(row)
            previous = keys
        return runs


def shown(value: Any, node: Node) -> Any:
    """Return a value as displayed without null handling."""
    if value is None:
        return [] if node.many else _PLACEHOLDERS.get(node.type, 0)
    return value


def by_text(sql: str) -> Getter:
    """Return the getter of what has been computed before."""
    return lambda row: row[sql]


def hashable(value: Any) -> Any:
    """Return a key that equal values have in common: NaN is one value."""
    if isinstance(value, float):
        return ("float", "NaN" if value != value else value)
    if isinstance(value, list):
        return tuple(map(hashable, value))
    return value


def sort_key(value: Any) -> Any:
    """Return the value in the order of its type: NaN is the greatest number."""
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value)
    if isinstance(value, Decimal):
        return (1, Decimal(0)) if value.is_nan() else (0, value)
    return value


def call(
    sql: str,
    data_type: str,
    function: Callable[..., Any],
    *args: Node,
    many: bool = False,
    takes_nulls: bool = False,
    exact: bool = True,
) -> Node:
    """Return a function of arguments; with a null argument it is null unless it takes nulls."""
    getters = [arg.value for arg in args]
    exact, keyed = exact and all(arg.exact for arg in args), any(arg.keyed for arg in args)
    if takes_nulls:
        return Node(sql, data_type, lambda row: function(*[get(row) for get in getters]), many, exact=exact, keyed=keyed)
    if len(getters) == 1:
        only = getters[0]

        def of_one(row: Row) -> Any:
            value = only(row)
            return None if value is None else function(value)

        return Node(sql, data_type, of_one, many, exact=exact, keyed=keyed)

    def value(row: Row) -> Any:
        values = [get(row) for get in getters]
        for one in values:
            if one is None:
                return None
        return function(*values)

    return Node(sql, data_type, value, many, exact=exact, keyed=keyed)


# -- conditions


def to_double(value: Any) -> float:
    return float(value)


def to_single(value: Any) -> float:
    """Return a number as FLOAT, which is a double of fewer digits."""
    try:
        found: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(float("inf"), value)
    return found


def to_decimal(value: Any) -> Decimal:
    """Return a number as BIG_DECIMAL: a double by its shortest text."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _common(left: Node, right: Node) -> Callable[[Any], Any] | None:
    """Return the conversion in which two columns are compared; constants, and numbers but decimals, are exact."""
    if left.constant or right.constant or left.type == right.type:
        return None
    return to_decimal if "BIG_DECIMAL" in (left.type, right.type) else None


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "<>": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def _number_key(value: Any) -> Any:
    return (1, 0) if value != value else (0, value)


def compares(operator: str, left: Node, right: Node) -> Node:
    """Return `left operator right`; of a list, whether any value fits, and for `<>` whether none is equal."""
    test, convert = _TESTS[operator], _common(left, right)
    sql = f"{left.sql} {operator} {right.sql}"

    def one(a: Any, b: Any) -> bool:
        if convert is not None:
            a, b = convert(a), convert(b)
        return test(_number_key(a), _number_key(b)) if isinstance(a, float | Decimal) or isinstance(b, float) else test(a, b)

    if left.many:
        every = operator == "<>"
        return call(sql, "BOOLEAN", lambda a, b: (all if every else any)(one(v, b) for v in a), left, right)
    return call(sql, "BOOLEAN", one, left, right)


def matches(sql: str, operand: Node, test: Callable[[Any], bool], negated: bool = False) -> Node:
    """Return a test of values against constants; of a list, whether any value fits. negated: the complement of that."""
    if negated:
        positive = matches(sql, operand, test)
        return replace(call(sql, "BOOLEAN", lambda a: not a, positive), filters=positive.refuses())
    if operand.many:
        return call(sql, "BOOLEAN", lambda a: any(test(v) for v in a), operand)
    return call(sql, "BOOLEAN", test, operand)


def is_null(column: str, negated: bool) -> Node:
    """Return IS [NOT] NULL of a column, which holds whatever null handling says."""
    flag = f"?{column}"
    return Node(f'"{column}" IS {"NOT " if negated else ""}NULL', "BOOLEAN", lambda row: row[flag] != negated)


def negation(part: Node) -> Node:
    """Return NOT: of unknown it is unknown."""
    found = call(f"NOT ({part.sql})", "BOOLEAN", lambda a: not a, part)
    return replace(found, filters=part.refuses(), denies=part.lets_through(False))


def junction(word: str, parts: Sequence[Node]) -> Node:
    """Return AND or OR of conditions, of which a null is unknown."""
    decisive = word == "OR"
    getters = [part.value for part in parts]

    def value(row: Row) -> Any:
        unknown = False
        for get in getters:
            found = get(row)
            if found is decisive:
                return decisive
            unknown |= found is None
        return None if unknown else not decisive

    filters, denials = [part.lets_through(False) for part in parts], [part.refuses() for part in parts]
    decide, other = (any, all) if decisive else (all, any)
    sql = f" {word} ".join(f"({part.sql})" for part in parts)
    return Node(
        sql,
        "BOOLEAN",
        value,
        filters=lambda row: decide(holds(row) for holds in filters),
        denies=lambda row: other(refuses(row) for refuses in denials),
        keyed=any(part.keyed for part in parts),
    )


def truth_test(part: Node, wanted: bool, negated: bool) -> Node:
    """Return IS [NOT] TRUE or FALSE."""
    holds = part.lets_through(False) if wanted else part.refuses()
    sql = f"({part.sql}) IS {'NOT ' if negated else ''}{'TRUE' if wanted else 'FALSE'}"
    found = call(sql, "BOOLEAN", lambda value: (value is wanted) != negated, part, takes_nulls=True)
    return replace(found, filters=lambda row: holds(row) != negated, denies=lambda row: holds(row) == negated)

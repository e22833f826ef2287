"""Random expressions of every type over the columns of a table.

Two sources of randomness: `shape` determines the expression, `pick` only its constants. So one shape with other constants is
the same template to the plan cache.
"""

import json
import math
import random
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from tests.reference_evaluator import functions as f
from tests.reference_evaluator.tables import KEYS, WORDS, Table
from tests.reference_evaluator.tree import RANKS, UNKNOWN, WHOLE, Node, Row, by_text, call, to_decimal, to_double, to_single

ZONES = ("America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "Australia/Lord_Howe", "UTC")
PIECES = ("o", "O", "a", "_", "us", "er", "é", "ü", "0", "zz", "b", " ")


def quoted(text: str) -> str:
    """Return a text literal."""
    return "'" + text.replace("'", "''") + "'"


def literal(value: Any, data_type: str) -> Node:
    """Return a constant."""
    if isinstance(value, bool):
        sql = "true" if value else "false"
    elif isinstance(value, bytes):
        sql = quoted(str(uuid.UUID(bytes=value)) if data_type == "UUID" else value.hex())
    elif isinstance(value, str):
        sql = quoted(value)
    elif isinstance(value, float):
        sql = repr(value).replace("e+", "e")
    else:
        sql = format(value, "f") if isinstance(value, Decimal) else str(value)
    return Node(sql, data_type, lambda row: value, constant=True)


def number(value: float) -> Node:
    """Return a numeric constant of the type that its text has."""
    if isinstance(value, float):
        return literal(value, "DOUBLE")
    return literal(value, "INT" if f.INT_MIN <= value <= f.INT_MAX else "LONG")


class Expressions:
    """Makes random expressions."""

    def __init__(self, table: Table, shape: random.Random, pick: random.Random, nulls: bool) -> None:
        self.table, self.roles, self.shape, self.pick, self.nulls = table, table.roles, shape, pick, nulls

    # -- leaves

    def column(self, name: str) -> Node:
        """Return a column; names do not regard case."""
        stored = name if name in self.table.types else name.lower()
        data_type, many = self.table.types[stored]
        return Node(f'"{name}"', data_type, by_text(stored), many)

    def sample(self, column: str) -> Any:
        """Return a value that the column has somewhere."""
        return self.pick.choice(self.table.samples[column])

    def chance(self, probability: float) -> bool:
        return self.shape.random() < probability

    def one_of(self, makers: Sequence[Callable[[], Node]]) -> Node:
        return self.shape.choice(makers)()

    def number_column(self) -> Node:
        return self.column(self.shape.choice(self.roles.numbers))

    def whole_column(self) -> Node:
        return self.column(self.shape.choice([name for name in self.roles.numbers if self.table.types[name][0] in WHOLE]))

    def text_column(self) -> Node:
        return self.column(self.shape.choice(self.roles.texts))

    def time_column(self) -> Node:
        return self.column(self.shape.choice(self.roles.times))

    def list_column(self) -> Node:
        return self.column(self.shape.choice(self.roles.number_lists))

    def whole_list(self, data_type: str = "INT") -> Node:
        names = [name for name in self.roles.number_lists if self.table.types[name][0] == data_type]
        return self.column(
            self.shape.choice(names or [n for n in self.roles.number_lists if self.table.types[n][0] == "INT"])
        )

    def small(self, low: int = 1, high: int = 9) -> Node:
        return number(self.pick.randrange(low, high))

    def item(self, column: str) -> Node:
        """Return the value of a map at a key, in one of the ways to write it; without null handling a default."""
        key, data_type, default = self.pick.choice((*KEYS, "none")), "STRING", None if self.nulls else "null"
        if column == "pl":
            data_type, default = "LONG", None if self.nulls else -9
        form = "{}[{}]" if self.chance(0.5) else "item({}, {})"
        arg = self.column(column)

        def value(row: Row) -> Any:
            text = arg.value(row)
            return None if text is None else json.loads(text).get(key, None if UNKNOWN in row else default)

        return Node(form.format(arg.sql, quoted(key)), data_type, value, keyed=True)

    # -- numbers

    def safe_number(self) -> Node:
        """Return an expression whose sums are exact in doubles."""
        left = self.item(self.roles.maps[0]) if self.roles.maps and self.chance(0.1) else self.number_column()
        if self.chance(0.5):
            return left
        if self.chance(0.2):
            return self.arithmetic("/", left, number(self.pick.choice((2, 4, 8, 0.5))))
        right = self.small() if self.chance(0.5) else self.number_column()
        return self.arithmetic(self.shape.choice("+-*"), left, right)

    def number(self, depth: int = 2) -> Node:
        if depth == 0 or self.chance(0.2):
            more = self.roles.more_numbers + self.roles.decimals
            return self.column(self.shape.choice(self.roles.numbers if self.chance(0.7) else more))
        if self.chance(0.45):
            return self._operation(depth)
        return self.one_of(
            (
                lambda: self._of_double(depth),
                lambda: self._rounded(depth),
                self._of_whole,
                self._of_text,
                self._of_time,
                self._of_list,
                lambda: self.choice_of(lambda: self.number(depth - 1)),
                lambda: self._extreme(depth),
                lambda: self._cast_number(depth),
                self._of_other,
            )
        )

    def _operation(self, depth: int) -> Node:
        left = self.number(depth - 1)
        operator = self.shape.choice("+-*/%" if left.type != "BIG_DECIMAL" else "+-*/")
        right = number(self.pick.choice((2, 4, 8, 0.5, 3))) if self.chance(0.5) else self.number(depth - 1)
        if "BIG_DECIMAL" in (left.type, right.type) and (
            (operator in "/%" and not right.constant) or operator == "%" or not self._decimal_safe(left, right)
        ):
            right, left = self.small(), self.number_column()
        return self.arithmetic(operator, left, right)

    def _decimal_safe(self, *nodes: Node) -> bool:
        """Whether no argument can be infinite, NaN or have more digits than any engine keeps."""
        return all(node.constant or node.sql.strip('"') in (*self.roles.decimals, *self.roles.numbers) for node in nodes)

    def arithmetic(self, operator: str, left: Node, right: Node) -> Node:
        """Return an operation on columns: DOUBLE, or BIG_DECIMAL when an argument is one."""
        sql = f"({left.sql} {operator} {right.sql})"
        if "BIG_DECIMAL" in (left.type, right.type):
            on_decimals = f.DECIMAL_ARITHMETIC[operator]
            return call(sql, "BIG_DECIMAL", lambda a, b: on_decimals(to_decimal(a), to_decimal(b)), left, right)
        on_doubles = f.ARITHMETIC[operator]
        return call(sql, "DOUBLE", lambda a, b: on_doubles(to_double(a), to_double(b)), left, right)

    def double(self, depth: int) -> Node:
        """Return a number that is no BIG_DECIMAL."""
        found = self.number(depth)
        return self.number_column() if found.type == "BIG_DECIMAL" else found

    def _of_double(self, depth: int) -> Node:
        name, function, exact = self.shape.choice(
            (
                ("ceil", f.ceil, True),
                ("floor", f.floor, True),
                ("sqrt", f.sqrt, True),
                ("exp", f.exp, False),
                ("ln", f.logarithm, False),
                ("log10", f.logarithm_10, False),
                ("sign", f.sign, True),
                ("roundDecimal", f.round_decimal, True),
                ("sin", f.sine, False),
                ("degrees", f.degrees, False),
                ("cbrt", f.cube_root, False),
            )
        )
        arg = self.double(depth - 1)
        return call(f"{name}({arg.sql})", "DOUBLE", lambda a: function(to_double(a)), arg, exact=exact)

    def _rounded(self, depth: int) -> Node:
        arg, scale = self.number_column(), self.pick.randrange(3)
        if self.chance(0.5):
            name, function = self.shape.choice((("roundDecimal", f.round_to_scale), ("truncate", f.truncate_to_scale)))
            return call(f"{name}({arg.sql}, {scale})", "DOUBLE", lambda a: function(to_double(a), scale), arg)
        if self.chance(0.5):
            low = self.pick.randrange(-20, 0)
            return call(
                f"widthBucket({arg.sql}, {low}, 30, 7)", "INT", lambda a: f.width_bucket(to_double(a), low, 30, 7), arg
            )
        arg, default = self.double(depth - 1), self.pick.randrange(-3, 3)
        return call(
            f"ifNotFinite({arg.sql}, {default})",
            "DOUBLE",
            lambda a: to_double(a) if abs(to_double(a)) < f.INFINITY else float(default),
            arg,
        )

    def _of_whole(self) -> Node:
        left, by = self.whole_column(), self.pick.choice((2, 3, 7, 10))
        right = self.whole_column() if self.chance(0.4) else number(by)
        data_type = "INT" if left.type == right.type == "INT" else "LONG"
        forms: list[tuple[str, str, Callable[[int, int], int]]] = [
            ("bitAnd", data_type, lambda a, b: a & b),
            ("bitOr", data_type, lambda a, b: a | b),
            ("bitXor", data_type, lambda a, b: a ^ b),
            ("intDivOrZero", "LONG", lambda a, b: f.int_div_or_zero(float(a), float(b))),
            ("moduloOrZero", "LONG", f.modulo_or_zero),
            ("longPlus", "LONG", lambda a, b: a + b),
            ("longTimes", "LONG", lambda a, b: a * b),
            ("gcd", "LONG", math.gcd),
        ]
        if right.constant:
            forms += [
                ("positiveModulo", "LONG", f.positive_modulo),
                ("round", "LONG", lambda a, b: f.truncated_quotient(a, b) * b),
            ]
        name, result, function = self.shape.choice(forms)
        return call(f"{name}({left.sql}, {right.sql})", result, function, left, right)

    def _extreme(self, depth: int) -> Node:
        name = self.shape.choice(("least", "greatest"))
        args = [self.number_column(), self.number_column()]
        if self.chance(0.3):
            args.append(number(self.pick.randrange(-5, 20)))
        types = {arg.type for arg in args}
        data_type = max(types, key=RANKS.__getitem__)
        if len(types) > 1 and data_type == "FLOAT":
            data_type = "DOUBLE"
        convert = to_double if data_type in ("FLOAT", "DOUBLE") else int

        def best(*values: Any) -> Any:
            known = [convert(value) for value in values if value is not None]
            return (min if name == "least" else max)(known) if known else None

        return call(f"{name}({', '.join(arg.sql for arg in args)})", data_type, best, *args, takes_nulls=True)

    def _cast_number(self, depth: int) -> Node:
        target = self.shape.choice(("INT", "LONG", "DOUBLE", "BIG_DECIMAL"))
        if target == "BIG_DECIMAL":
            arg = self.number_column()
            return call(f"CAST({arg.sql} AS DECIMAL)", target, to_decimal, arg)
        if self.roles.digits and self.chance(0.3):
            arg = self.column(self.roles.digits[0])
            return call(f"CAST({arg.sql} AS {target})", target, float if target == "DOUBLE" else int, arg)
        if self.chance(0.2) and self.roles.flags:
            arg = self.column(self.roles.flags[0])
            return call(f"CAST({arg.sql} AS {target})", target, float if target == "DOUBLE" else int, arg)
        arg = self.double(depth - 1)

        def convert(value: Any) -> Any:
            if target == "DOUBLE":
                return to_double(value)
            if arg.type in ("FLOAT", "DOUBLE"):
                bounds = (f.INT_MIN, f.INT_MAX) if target == "INT" else (f.LONG_MIN, f.LONG_MAX)
                return f.saturate(value, *bounds)
            return f.wrap_int(value) if target == "INT" else value

        name = {"INT": "INTEGER", "LONG": "BIGINT", "DOUBLE": "DOUBLE"}[target]
        return call(f"CAST({arg.sql} AS {name})", target, convert, arg)

    def _of_text(self) -> Node:
        arg, piece = self.text(1), self.pick.choice(PIECES)
        forms: list[tuple[str, Callable[[str], int]]] = [
            ("length({})", f.utf16_length),
            ("charLength({})", len),
            ("octetLength({})", lambda a: len(a.encode())),
            (f"strpos({{}}, {quoted(piece)})", lambda a: a.find(piece)),
            (f"strpos({{}}, {quoted(piece)}, 2)", lambda a: f.occurrence(a, piece, 2)),
            (f"strrpos({{}}, {quoted(piece)})", lambda a: a.rfind(piece)),
            (f"levenshteinDistance({{}}, {quoted('Oslo')})", lambda a: f.levenshtein(a, "Oslo")),
            (f"hammingDistance({{}}, {quoted('Oslo')})", lambda a: f.hamming(a, "Oslo")),
            (f"regexpCount({{}}, {quoted(piece)})", lambda a: len(re.findall(re.escape(piece), a))),
            ("codepoint({})", lambda a: ord(a[0]) if a else 0),
            ("crc32(toUtf8({}))", f.crc32),
        ]
        template, function = self.shape.choice(forms)
        if template.startswith("codepoint"):
            arg = self.text_column()
            padded = call(f"concat({arg.sql}, 'x')", "STRING", lambda a: a + "x", arg)
            return call(template.format(padded.sql), "INT", function, padded)
        return call(template.format(arg.sql), "INT", function, arg)

    def _of_time(self) -> Node:
        arg = self.time_column()
        kind = self.shape.randrange(9)
        unit = self.shape.choice(("second", "minute", "hour", "day", "week", "month", "quarter", "year"))
        zone = self.shape.choice(ZONES)
        if kind == 0:
            return call(f"dateTrunc('{unit}', {arg.sql})", "LONG", lambda a: f.date_trunc(unit, a, "UTC"), arg)
        if kind == 1:
            sql = f"dateTrunc('{unit}', {arg.sql}, 'MILLISECONDS', '{zone}')"
            return call(sql, "LONG", lambda a: f.date_trunc(unit, a, zone), arg)
        if kind == 2:
            name = self.shape.choice(f.TIME_FIELDS)
            return call(f"{name}({arg.sql})", "INT", lambda a: f.time_field(name, a), arg)
        if kind == 3:
            name = self.shape.choice(("year", "month", "day", "dayOfWeek", "hour", "minute"))
            return call(f"{name}({arg.sql}, '{zone}')", "INT", lambda a: f.time_field(name, a, zone), arg)
        if kind == 4:
            name, size = self.shape.choice(
                (("Seconds", 1000), ("Minutes", 60_000), ("Hours", 3_600_000), ("Days", f.DAY_MS))
            )
            if self.chance(0.5):
                return call(f"toEpoch{name}({arg.sql})", "LONG", lambda a: f.truncated_quotient(a, size), arg)
            by = self.pick.choice((2, 5, 10))
            if self.chance(0.5):
                return call(f"toEpoch{name}Bucket({arg.sql}, {by})", "LONG", lambda a: a // size // by, arg)
            return call(f"toEpoch{name}Rounded({arg.sql}, {by})", "LONG", lambda a: a // size // by * by, arg)
        if kind == 5:
            units = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
            other, diff_unit = self.time_column(), self.shape.choice(units)
            sql = f"timestampDiff('{diff_unit}', {arg.sql}, {other.sql})"
            return call(sql, "LONG", lambda a, b: f.timestamp_diff(diff_unit, a, b), arg, other)
        if kind == 6:
            unit_name, count = self.shape.choice(("MINUTES", "HOURS", "DAYS")), self.pick.choice((1, 3, 7))
            size = f.UNIT_MS[unit_name]
            if self.chance(0.5):
                sql = f"dateTimeConvert({arg.sql}, '1:MILLISECONDS:EPOCH', 'EPOCH', '{count}:{unit_name}', '{zone}')"
                return call(sql, "LONG", lambda a: f.zone_bucket(count, unit_name, a, zone), arg)
            sql = f"dateTimeConvert({arg.sql}, '1:MILLISECONDS:EPOCH', '1:{unit_name}:EPOCH', '{count}:{unit_name}')"
            return call(sql, "LONG", lambda a: a // (size * count) * count, arg)
        if kind == 7:
            unit_name = self.shape.choice(tuple(f.UNIT_MS))
            sql = f"timeConvert({arg.sql}, 'MILLISECONDS', '{unit_name}')"
            return call(sql, "LONG", lambda a: f.truncated_quotient(a, f.UNIT_MS[unit_name]), arg)
        part = self.shape.choice(("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "DOW", "DOY", "QUARTER"))
        name = {"DOW": "dayOfWeek", "DOY": "dayOfYear"}.get(part, part.lower())
        return call(f"EXTRACT({part} FROM {arg.sql})", "INT", lambda a: f.time_field(name, a), arg)

    def _of_list(self) -> Node:
        arg = self.list_column()
        element = arg.type
        if self.chance(0.3):
            text = self.column(self.shape.choice(self.roles.text_lists))
            return call(f"arrayLength({text.sql})", "INT", len, text)
        kind = self.shape.randrange(7)
        if kind == 0:
            return call(f"arrayLength({arg.sql})", "INT", len, arg)
        if kind == 1:
            return call(f"arraySum({arg.sql})", "DOUBLE", lambda a: float(sum(a)), arg)
        if kind == 2:
            return call(f"arrayAverage({arg.sql})", "DOUBLE", lambda a: float(sum(a)) / len(a), arg)
        if kind == 3:
            return call(f"arrayMin({arg.sql})", element, min, arg)
        if kind == 4:
            return call(f"arrayMax({arg.sql})", element, max, arg)
        whole, position = self.whole_list(), self.pick.randrange(1, 4)
        if kind == 5:
            sql = f"arrayElementAtInt({whole.sql}, {position})"
            return call(sql, "INT", lambda a: f.element_at(a, position, 0), whole)
        return call(f"arrayIndexOfInt({whole.sql}, {position})", "INT", lambda a: f.index_of(a, position), whole)

    def _of_other(self) -> Node:
        if self.roles.maps and self.chance(0.3):
            return self.item(self.roles.maps[0])
        if self.roles.json and self.chance(0.6):
            arg, default = self.column(self.roles.json[0]), self.pick.randrange(-2, 3)
            path, steps = self.shape.choice((("$.a", ("a",)), ("$.b[0]", ("b", 0)), ("$.b[1]", ("b", 1))))
            kind = self.shape.choice(("INT", "LONG"))

            def extract(text: str) -> int:
                found = f.json_value(text, steps)
                return default if found is None else found

            return call(f"jsonExtractScalar({arg.sql}, '{path}', '{kind}', {default})", kind, extract, arg)
        arg = self.number_column()
        if self.chance(0.5):
            return call(f"-{arg.sql}", arg.type, lambda a: -a, arg)
        return call(f"abs({arg.sql})", arg.type, abs, arg)

    # -- choices

    def choice_of(self, maker: Callable[[], Node]) -> Node:
        """Return CASE, COALESCE or NULLIF over expressions of one kind."""
        kind = self.shape.randrange(3)
        one, other = maker(), maker()
        if one.type not in RANKS:
            data_type = "STRING" if one.type != other.type else one.type
        else:
            data_type = max((one.type, other.type), key=RANKS.__getitem__)

        def widened(node: Node) -> Callable[[Any], Any]:
            if data_type == node.type or data_type not in RANKS:
                return lambda value: value
            convert = {"BIG_DECIMAL": to_decimal, "DOUBLE": to_double, "FLOAT": to_single}.get(
                data_type, lambda value: value
            )
            return lambda value: None if value is None else convert(value)

        first, second = widened(one), widened(other)
        if kind == 0:
            sql = f"coalesce({one.sql}, {other.sql})"
            return call(sql, data_type, lambda a, b: first(a) if a is not None else second(b), one, other, takes_nulls=True)
        if kind == 1 and one.type not in ("FLOAT", "DOUBLE") and self.table.samples.get(one.sql.strip('"')):
            value = literal(self.sample(one.sql.strip('"')), one.type)
            sql = f"nullif({one.sql}, {value.sql})"
            return call(sql, one.type, lambda a, b: None if a == b else a, one, value)
        condition = self.flag_column_or(self.simple_condition)
        condition = replace(condition, value=condition.in_condition())
        if self.chance(0.3):
            sql = f"CASE WHEN {condition.sql} THEN {one.sql} END"
            return call(sql, one.type, lambda c, a: a if c is True else None, condition, one, takes_nulls=True)
        sql = f"CASE WHEN {condition.sql} THEN {one.sql} ELSE {other.sql} END"
        return call(
            sql, data_type, lambda c, a, b: first(a) if c is True else second(b), condition, one, other, takes_nulls=True
        )

    def flag_column_or(self, maker: Callable[[], Node]) -> Node:
        if self.roles.flags and self.chance(0.3):
            return self.column(self.roles.flags[0])
        return maker()

    def simple_condition(self) -> Node:
        """Return a condition; what there is to choose from is known to the class that adds conditions."""
        raise AssertionError("conditions come with Conditions")

    # -- text

    def text(self, depth: int = 2) -> Node:
        if depth == 0 or self.chance(0.3):
            return self.text_column()
        return self.one_of(
            (
                lambda: self._text_of_text(depth),
                lambda: self._text_of_text(depth),
                lambda: self._text_of_two(depth),
                self._text_of_other,
                lambda: self.choice_of(lambda: self.text(depth - 1)),
            )
        )

    def _text_of_text(self, depth: int) -> Node:
        arg = self.text(depth - 1)
        piece, count = self.pick.choice(PIECES), self.pick.randrange(1, 6)
        begin, end = self.pick.randrange(3), self.pick.choice((-1, 3, 4, 6))
        found = quoted(piece)
        forms: list[tuple[str, Callable[[str], str]]] = [
            ("upper({})", lambda a: a.upper()),
            ("lower({})", lambda a: a.lower()),
            ("ltrim({})", f.trimmed_left),
            ("rtrim({})", f.trimmed_right),
            ("encodeUrl({})", f.encode_url),
            ("decodeUrl(encodeUrl({}))", lambda a: a),
            (f"substr({{}}, -{count})", lambda a: a[-count:]),
            ("reverse({})", lambda a: a[::-1]),
            ("trim({})", f.trimmed),
            (f"substr({{}}, {begin}, {end})", lambda a: f.substr(a, begin, end)),
            (f"substr({{}}, {begin})", lambda a: a[begin:]),
            (f"substring({{}}, {count}, {begin})", lambda a: a[count - 1 : count - 1 + begin]),
            (f"left({{}}, {count})", lambda a: f.left(a, count)),
            (f"right({{}}, {count})", lambda a: f.right(a, count)),
            (f"replace({{}}, {found}, 'XY')", lambda a: a.replace(piece, "XY")),
            (f"remove({{}}, {found})", lambda a: a.replace(piece, "")),
            (f"lpad({{}}, {count + 4}, '*-')", lambda a: f.pad_left(a, count + 4, "*-")),
            (f"rpad({{}}, {count + 4}, '*-')", lambda a: f.pad_right(a, count + 4, "*-")),
            (f"repeat({{}}, {count})", lambda a: a * count),
            (f"splitPart({{}}, {found}, {begin})", lambda a: f.split_part(a, piece, begin)),
            (f"substringIndex({{}}, {found}, {begin - 1})", lambda a: f.substring_index(a, piece, begin - 1)),
            (f"translate({{}}, 'oae', 'x{count}')", lambda a: f.translate(a, "oae", f"x{count}")),
            (f"regexpExtract({{}}, '([a-z])({count}|o)', {begin}, 'no')",
             lambda a: f.regexp_extract(a, f"([a-z])({count}|o)", begin, "no")),
            ("regexpReplace({}, '[aeiou]+', '<$0>')", lambda a: re.sub("[aeiou]+", r"<\g<0>>", a)),
            ("toBase64(toUtf8({}))", lambda a: __import__("base64").b64encode(a.encode()).decode()),
            ("fromUtf8(fromBase64(toBase64(toUtf8({}))))", lambda a: a),
            ("md5(toUtf8({}))", lambda a: __import__("hashlib").md5(a.encode()).hexdigest()),
            ("sha256(toUtf8({}))", lambda a: __import__("hashlib").sha256(a.encode()).hexdigest()),
        ]  # fmt: skip
        template, function = self.shape.choice(forms)
        return call(template.format(arg.sql), "STRING", function, arg)

    def _text_of_two(self, depth: int) -> Node:
        left, right = self.text(depth - 1), self.text_column()
        if self.chance(0.3):
            return call(f"concatWS('-', {left.sql}, {right.sql})", "STRING", lambda a, b: f"{a}-{b}", left, right)
        if self.chance(0.5):
            return call(f"concat({left.sql}, {right.sql}, '/')", "STRING", lambda a, b: f"{a}/{b}", left, right)
        return call(f"concat({left.sql}, {right.sql})", "STRING", lambda a, b: a + b, left, right)

    def _text_of_other(self) -> Node:
        kind = self.shape.randrange(8)
        if kind == 7 and self.roles.maps:
            return self.item(self.roles.maps[1])
        if kind == 0:
            arg, zone, pattern = self.time_column(), self.shape.choice(ZONES), self.shape.choice(f.TIME_PATTERNS)
            sql = f"toDateTime({arg.sql}, '{pattern}', '{zone}')"
            return call(sql, "STRING", lambda a: f.print_time(a, pattern, zone), arg)
        if kind == 1:
            arg = self.time_column()
            sql = f"dateTimeConvert({arg.sql}, '1:MILLISECONDS:EPOCH', '1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd', '1:DAYS')"
            return call(sql, "STRING", lambda a: f.print_time(a, "yyyyMMdd"), arg)
        if kind == 2:
            arg = self.time_column()
            if self.chance(0.5):
                return call(f"toIso8601({arg.sql})", "STRING", f.iso8601, arg)
            return call(f"CAST({arg.sql} AS STRING)", "STRING", f.timestamp_text, arg)
        if kind == 3:
            arg = self.whole_column() if self.chance(0.5) else self.double(1)
            text = str if arg.type in WHOLE else f.java_double
            if arg.type == "FLOAT" or not arg.exact:
                arg, text = self.whole_column(), str
            return call(f"CAST({arg.sql} AS VARCHAR)", "STRING", text, arg)
        if kind == 4 and self.roles.json:
            arg = self.column(self.roles.json[0])

            def extract(document: str) -> str:
                found = f.json_value(document, ("c", "d"))
                return "none" if found is None else found

            return call(f"jsonExtractScalar({arg.sql}, '$.c.d', 'STRING', 'none')", "STRING", extract, arg)
        if kind == 5 and self.roles.bytes:
            arg = self.column(self.roles.bytes[0])
            return call(f"bytesToHex({arg.sql})", "STRING", lambda a: a.hex(), arg)
        if kind == 6 and self.roles.flags:
            arg = self.column(self.roles.flags[0])
            return call(f"CAST({arg.sql} AS STRING)", "STRING", lambda a: "true" if a else "false", arg)
        return self.text_column()

    # -- times and lists

    def time(self) -> Node:
        """Return an expression of times in milliseconds, LONG or TIMESTAMP."""
        arg = self.time_column()
        kind = self.shape.randrange(4)
        count = self.pick.randrange(-20, 20)
        if kind == 0:
            return arg
        if kind == 1:
            unit = self.shape.choice(("second", "minute", "hour", "day", "week", "month", "quarter", "year"))
            sql = f"timestampAdd('{unit}', {count}, {arg.sql})"
            return call(sql, "LONG", lambda a: f.timestamp_add(unit, count, a), arg)
        if kind == 2:
            return call(f"fromEpochDays(toEpochDays({arg.sql}))", "LONG", lambda a: a // f.DAY_MS * f.DAY_MS, arg)
        pattern = "yyyy-MM-dd HH:mm:ss"
        sql = f"fromDateTime(toDateTime({arg.sql}, '{pattern}'), '{pattern}')"
        return call(sql, "LONG", lambda a: a // 1000 * 1000, arg)

    def list(self) -> Node:
        """Return a multi-value expression."""
        if self.chance(0.3):
            name = self.shape.choice(self.roles.text_lists)
            arg = self.column(name)
            wanted = [self.sample(name) for _ in range(self.shape.randrange(1, 4))]
            return self._value_in(arg, wanted, quoted)
        arg = self.whole_list()
        kind = self.shape.randrange(11)
        low, high = sorted((self.pick.randrange(12), self.pick.randrange(12)))
        if kind == 6:
            sql = f"filterMv({arg.sql}, 'v > {low} AND v <> {high}')"
            return call(sql, "INT", lambda a: [v for v in a if v > low and v != high], arg, many=True)
        if kind == 7:
            other = self.whole_list()
            return call(f"arrayConcatInt({arg.sql}, {other.sql})", "INT", lambda a, b: a + b, arg, other, many=True)
        if kind == 8:
            other = self.whole_list()
            sql = f"arrayUnionInt({arg.sql}, {other.sql})"
            return call(sql, "INT", lambda a, b: f.first_seen(a + b), arg, other, many=True)
        if kind == 9:
            return call(f"arrayRemoveInt({arg.sql}, {low})", "INT", lambda a: f.without_first(a, low), arg, many=True)
        if kind == 10:
            sql = f"arraySliceInt({arg.sql}, 0, {self.shape.randrange(1, 2)})"
            return call(sql, "INT", lambda a: a[:1], arg, many=True)
        if kind == 0:
            wanted = [self.sample(arg.sql.strip('"')) for _ in range(self.shape.randrange(1, 4))]
            return self._value_in(arg, wanted, str)
        if kind == 1:
            return call(f"arrayDistinctInt({arg.sql})", "INT", f.first_seen, arg, many=True)
        if kind == 2:
            return call(f"arraySortInt({arg.sql})", "INT", sorted, arg, many=True)
        if kind == 3:
            return call(f"arrayReverseInt({arg.sql})", "INT", lambda a: a[::-1], arg, many=True)
        if kind == 4:
            return arg
        text = self.column("w" if "w" in self.roles.texts else self.roles.texts[0])
        return call(f"split({text.sql}, '_')", "STRING", lambda a: f.split(a, "_"), text, many=True)

    def _value_in(self, arg: Node, wanted: Sequence[Any], write: Callable[[Any], str]) -> Node:
        kept = frozenset(wanted)
        sql = f"valueIn({arg.sql}, {', '.join(map(write, wanted))})"
        return call(sql, arg.type, lambda a: [v for v in a if v in kept], arg, many=True)


def words() -> tuple[str, ...]:
    """Return texts for conditions to compare with, one of which is in no row."""
    return (*WORDS, "missing")

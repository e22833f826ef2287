"""Texts of queries: from a grammar, mutated, deeply nested, and random. Input k of a seed is always the same."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from urllib.parse import quote_from_bytes

from tests.fuzz.fuzz_functions import COLUMN_KINDS, VALUE_KINDS
from tests.fuzz.fuzz_world import COLUMNS, LISTS, TABLES, TYPES, WORDS

Request = tuple[str, str, bytes, bytes]
"""Method, path, query string, body."""

_NUMBERS = (
    "0", "1", "-1", "2", "10", "2147483647", "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "1" * 30, "9" * 400, "0.5", ".5", "5.", "1e3", "1e308", "1e400", "1e-400", "-0.0", "00012", "1e",
)  # fmt: skip
_STRINGS = (
    *WORDS, "it''s", "\\", "%", "_", "%a%", "[", "(", "(a+)+$", "^.*$", "\\d+", "$.a", "$..a", "$['a'][*]", '"$.a" = 1',
    '"$.a[*]" > 3 AND "b" IS NULL', "true", "1", "-1.5", "NaN", "Infinity", "1e999", "2024-05-01", "2024-05-01T10:30:00Z",
    "9999-12-31", "ff00", "xyz", "00000000-0000-0000-0000-000000000001", "1:DAYS", "1:HOURS:EPOCH", "DAY", "UTC", "a" * 300,
    "P1D", "SELECT IDSET(i) FROM t", "SELECT IDSET(s) FROM t_idx WHERE i > 1", "SELECT i FROM t", "LONG", "STRING_ARRAY",
)  # fmt: skip
_TYPES = ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "DECIMAL(10, 2)", "BOOLEAN", "TIMESTAMP", "STRING", "VARCHAR(3)",
          "JSON", "BYTES", "UUID", "INT_ARRAY", "STRING_ARRAY", "DOUBLE_ARRAY", "NOPE")  # fmt: skip
_OPTIONS = (
    "enableNullHandling=true", "enableNullHandling=true", "timeoutMs=5000", "numGroupsLimit=1", "numGroupsLimit=3",
    "minSegmentGroupTrimSize=1", "maxRowsInDistinct=1", "filteredAggregationsSkipEmptyGroups=true", "brokerPruning=false",
    "explainPlanVerbose=true", "useStarTree=false", "responseFormat=sql", "groupByMode=sql", "preserveType=true",
    "timeoutMs=0", "timeoutMs=x", "nope=1", "trace=true", "dropResults=true", "skipIndexes=i=inverted", "database=x",
    "accurateGroupByWithoutOrderBy=true", "clientQueryId=q", "maxExecutionThreads=1", "sampler=x",
)  # fmt: skip
_WORDS = re.split(
    r"\s+",
    """
SELECT DISTINCT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET FETCH FIRST ROWS ONLY AND OR NOT IN BETWEEN LIKE IS NULL
TRUE FALSE CASE WHEN THEN ELSE END AS ASC DESC NULLS LAST CAST EXTRACT TRIM POSITION FILTER OVER JOIN UNION WITH VALUES
SET EXPLAIN PLAN FOR OPTION TOP INTERVAL DATE TIMESTAMP ARRAY ROLLUP CUBE GROUPING SETS ESCAPE AT TIME ZONE ON USING
QUALIFY WINDOW LATERAL TABLESAMPLE PIVOT UNNEST EXISTS ANY ALL SOME WITHIN IGNORE RESPECT PARTITION CROSS NATURAL SEMI
""".strip(),
)
_LIMITS = (
    "LIMIT 5", "LIMIT 0", "LIMIT 2, 3", "LIMIT 3 OFFSET 2", "OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY", "LIMIT 99999999999",
    "LIMIT -1", "LIMIT 1000000",
)  # fmt: skip
_SYMBOLS = (*"()[]{},.;:+-*/%=<>!|&^~?@#$'\"`\\", "<>", "!=", "<=", ">=", "||", "::", "--", "/*", "*/", "''", '""')
_VIRTUAL = ("$docId", "$segmentName", "$hostName", "$totalDocs", "$crc", "$creationTime", "$partitionId", "$nope")
_CASTS = {
    "number": ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "DECIMAL(10, 2)"),
    "text": ("STRING", "VARCHAR(3)", "JSON"),
    "BOOLEAN": ("BOOLEAN",),
    "TIMESTAMP": ("TIMESTAMP",),
    "other": ("BYTES", "UUID"),
    "list": ("INT_ARRAY", "STRING_ARRAY", "DOUBLE_ARRAY"),
}
_COLUMNS_OF = {kind: [n for n, k in COLUMN_KINDS.items() if k == kind] for kind in set(COLUMN_KINDS.values())}
_COLUMN_ARGUMENT = re.compile(rf"(?<=[( ])(?:{'|'.join(sorted(COLUMNS, key=len, reverse=True))})(?=[,)])")
_TOKEN = re.compile(r"\s+|'(?:[^']|'')*'|\"[^\"]*\"|[\w$.]+|<>|!=|<=|>=|\|\||.", re.DOTALL)
PLAIN = (
    "SELECT * FROM t",
    "SELECT s, COUNT(*), SUM(x) FROM t WHERE i > 2 GROUP BY s HAVING COUNT(*) > 1 ORDER BY COUNT(*) DESC LIMIT 5",
    "SELECT DISTINCT s, i FROM t_idx WHERE ml IN (1, 2, 3) OR NOT j LIKE '%a%' ORDER BY s NULLS LAST, i DESC LIMIT 3, 4",
    "SELECT CASE WHEN i > 3 THEN 'a' ELSE s END AS k, SUM(l) FILTER (WHERE b = true) FROM t GROUP BY k",
    "SELECT DATETRUNC('DAY', ts) AS d, ms, AVG(f) FROM t_raw GROUP BY d, ms OPTION(timeoutMs=5000)",
    "SET enableNullHandling = true; SELECT i, GROUPING(i), MAX(dec) FROM t GROUP BY ROLLUP(i, s)",
    "EXPLAIN PLAN FOR SELECT w, COUNT(*) FROM t_idx WHERE w BETWEEN 'a' AND 'x' AND mi <> 3 GROUP BY w",
    "SELECT CAST(x AS BIG_DECIMAL) + dec, s || 'x', TRIM(BOTH 'a' FROM s), EXTRACT(YEAR FROM ts) FROM t LIMIT 3 OFFSET 2",
    "SELECT mp['a'] AS a, SUM(item(mp, 'b')), MAX(s) FROM t_raw WHERE mp['Oslo'] > 0 OR mp['b'] IS NULL GROUP BY mp['a']",
    "SELECT COUNT(*) FROM t WHERE IN_SUBQUERY(i, 'SELECT IDSET(i) FROM t_idx WHERE s = ''Oslo''') = 1",
    "SELECT GAPFILL(DATETRUNC('DAY', ts), 'TIMESTAMP', '2023-11-14', '2023-11-18', '1:DAYS', "
    "FILL(x, 'FILL_PREVIOUS_VALUE'), TIMESERIESON(s)) AS d, s, x FROM t LIMIT 50",
    "SELECT d, SUM(n) FROM (SELECT GAPFILL(e, 'TIMESTAMP', '2023-11-14', '2023-11-18', '1:DAYS', FILL(n, "
    "'FILL_DEFAULT_VALUE'), TIMESERIESON(s)) AS d, s, n FROM (SELECT DATETRUNC('DAY', ts) AS e, s, COUNT(*) AS n FROM t "
    "GROUP BY e, s)) GROUP BY d",
    "SELECT JSON_EXTRACT_SCALAR(j, '$.a', 'STRING', 'none') FROM t WHERE JSON_MATCH(j, '\"$.a\" = 1')",
    "SELECT EXPRMIN(s, x), LASTWITHTIME(i, ts, 'INT'), PERCENTILE95(x), DISTINCTCOUNTHLL(s) FROM t",
    "SELECT 1, 'a', TRUE, NULL, now(), ARRAY[1,2]",
)
PQL = (
    "SELECT sum(x), count(*) FROM t WHERE i > 2 GROUP BY s TOP 5",
    "SELECT * FROM t WHERE s IN ('Oslo', 'Lima') ORDER BY i DESC LIMIT 2, 5",
    "SELECT max('x') FROM t WHERE regexp_like(s, 'O.*') AND i BETWEEN 1 AND 5 OPTION(timeoutMs=5000)",
    "SELECT avg(x), min(l) FROM t_idx GROUP BY TIMECONVERT(ts, 'MILLISECONDS', 'DAYS'), s HAVING avg(x) > 1 TOP 3",
    'SELECT TOP 3 distinctcount(s) FROM t_raw WHERE NOT (mi = 3) GROUP BY i, "s"',
)


class TextMaker:
    """Makes the inputs. calls: those that can be bound, by kind; names: of all functions."""

    def __init__(self, seed: int, calls: Mapping[str, Sequence[str]], names: Sequence[str]) -> None:
        self._seed = seed
        self._calls = calls
        self._aggregates = calls["aggregate"]
        self._kinds = tuple(kind for kind in calls if kind != "aggregate")
        self._names = names
        self._rng = Random(0)

    def request(self, number: int) -> Request:
        """Return input `number`."""
        self._rng = rng = Random((self._seed << 40) + number)
        way = rng.random()
        if way < 0.03:
            return self._raw()
        text, pql = self.text()
        if way < 0.06:
            key = b"pql" if pql else b"sql"
            return "GET", "/query" if pql else "/query/sql", key + b"=" + quote_from_bytes(_bytes(text)).encode(), b""
        body: dict[str, object] = {"pql" if pql else "sql": text}
        if rng.random() < 0.1:
            body["queryOptions"] = ";".join(rng.sample(_OPTIONS, rng.randint(1, 3)))
        if rng.random() < 0.02:
            body["trace"] = rng.choice((True, "true", 1, None, [], "x"))
        return "POST", "/query" if pql else "/query/sql", b"", _json(body)

    def text(self) -> tuple[str, bool]:
        """Return a text, and whether it is meant as PQL."""
        rng = self._rng
        pql = rng.random() < 0.1
        kind = rng.random()
        if kind < 0.55:
            text = rng.choice(PQL) if pql else self.query()
        elif kind < 0.70:
            text = self._token_mutated(rng.choice(PQL) if pql else rng.choice((self.query(), rng.choice(PLAIN))))
        elif kind < 0.80:
            text = self._char_mutated(rng.choice(PQL) if pql else rng.choice((self.query(), rng.choice(PLAIN))))
        elif kind < 0.86:
            text = self._soup()
        elif kind < 0.995:
            text = self._typical_mistake(rng.choice(PLAIN)) if not pql else self._pql()
        else:
            text = self._deep()
        if not pql and rng.random() < 0.15:
            text = self._with_options(text)
        return text, pql

    # -- the grammar

    def query(self) -> str:
        rng = self._rng
        kind = rng.random()
        table = rng.choice(TABLES)
        where = f" WHERE {self._condition(3)}" if rng.random() < 0.6 else ""
        if kind < 0.35:
            items = [self._aliased(self._value(3)) for _ in range(rng.randint(1, 3))]
            order = f" ORDER BY {self._order([self._value(2)])}" if rng.random() < 0.3 else ""
            text = f"SELECT {', '.join(items)} FROM {table}{where}{order}"
        elif kind < 0.45:
            items = [self._value(2) for _ in range(rng.randint(1, 3))]
            order = f" ORDER BY {self._order(items)}" if rng.random() < 0.4 else ""
            text = f"SELECT DISTINCT {', '.join(items)} FROM {table}{where}{order}"
        elif kind < 0.6:
            items = [self._aliased(self._aggregate(3)) for _ in range(rng.randint(1, 3))]
            having = f" HAVING {self._having()}" if rng.random() < 0.1 else ""
            text = f"SELECT {', '.join(items)} FROM {table}{where}{having}"
        elif kind < 0.95:
            keys = [self._value(2) for _ in range(rng.randint(1, 2))]
            items = [*keys, *(self._aliased(self._aggregate(2)) for _ in range(rng.randint(1, 2)))]
            rng.shuffle(items)
            grouped = ", ".join(keys)
            if rng.random() < 0.15:
                grouped = rng.choice((f"ROLLUP({grouped})", f"CUBE({grouped})", f"GROUPING SETS (({grouped}), ())"))
            having = f" HAVING {self._having()}" if rng.random() < 0.25 else ""
            order = f" ORDER BY {self._order([*keys, self._aggregate(1)])}" if rng.random() < 0.4 else ""
            text = f"SELECT {', '.join(items)} FROM {table}{where} GROUP BY {grouped}{having}{order}"
        elif kind < 0.98:
            text = f"SELECT {', '.join(self._constant_value(3) for _ in range(rng.randint(1, 3)))}"
        else:
            text = self._gapfill()
        if rng.random() < 0.3:
            text += " " + rng.choice(_LIMITS)
        return f"EXPLAIN PLAN FOR {text}" if rng.random() < 0.03 else text

    def _aliased(self, text: str) -> str:
        return f"{text} AS {self._rng.choice(('a', 'b', 's', 'i', 'k'))}" if self._rng.random() < 0.1 else text

    def _column(self, kind: str | None = None) -> str:
        rng = self._rng
        if rng.random() < 0.97:
            return rng.choice(_COLUMNS_OF.get(kind or "", COLUMNS))
        return rng.choice((*_VIRTUAL, "nope", "t.i", "x.i", "I", "j['a']", "m['k']", "*"))

    def _literal(self, kind: str | None = None) -> str:
        """Return a literal, nearly always of the kind."""
        rng = self._rng
        if rng.random() < 0.04:
            kind = None
        if kind is None:
            kind = rng.choice(("number", "text", "odd"))
        if kind == "number":
            return rng.choice(_NUMBERS if rng.random() < 0.3 else _NUMBERS[:6])
        if kind == "BOOLEAN":
            return rng.choice(("TRUE", "FALSE", "'true'", "1"))
        if kind == "TIMESTAMP":
            return rng.choice(("'2023-11-15'", "1700000000000", "now()", "'2023-11-15 10:00:00.5'", "ago('P1D')", "0"))
        if kind == "other":
            return rng.choice(("'ff00'", "''", "'00000000-0000-0000-0000-000000000001'"))
        if kind == "odd":
            return rng.choice(("TRUE", "FALSE", "NULL", "ARRAY[1, 2]", "ARRAY['a']", "ARRAY[]", "DATE '2024-05-01'", "now()",
                               "TIMESTAMP '2024-05-01 10:00:00'", "INTERVAL '1' DAY", "ago('P1D')", "pi()"))  # fmt: skip
        return "'" + rng.choice(_STRINGS).replace("'", "''") + "'"

    def _value(self, depth: int, kind: str | None = None) -> str:
        rng = self._rng
        if kind is None or rng.random() < 0.02:
            kind = rng.choice(self._kinds)
        way = rng.random()
        if depth == 0 or way < 0.35:
            return self._column(kind) if rng.random() < 0.85 else self._literal(kind)
        if way < 0.74:
            return self._nested(rng.choice(self._calls[kind]), depth)
        if way < 0.76:
            arguments = ", ".join(self._value(depth - 1) for _ in range(rng.randint(0, 4)))
            return f"{rng.choice(self._names)}({arguments})"
        if way < 0.86 and kind in ("number", "text"):
            operator = rng.choice(("+", "-", "*", "/", "%")) if kind == "number" else "||"
            return f"({self._value(depth - 1, kind)} {operator} {self._value(depth - 1, kind)})"
        if way < 0.90:
            source = rng.choice((kind, "list" if kind == "list" else "text", kind, None))
            return f"CAST({self._value(depth - 1, source)} AS {rng.choice(_CASTS.get(kind, _TYPES))})"
        if way < 0.95:
            default = f" ELSE {self._value(depth - 1, kind)}" if rng.random() < 0.7 else ""
            return f"CASE WHEN {self._condition(depth - 1)} THEN {self._value(depth - 1, kind)}{default} END"
        if way < 0.97 and kind == "number":
            return f"- {self._value(depth - 1, kind)}"
        if way < 0.98:
            return f"EXTRACT({rng.choice(('YEAR', 'DOW', 'NOPE'))} FROM {self._value(depth - 1, 'TIMESTAMP')})"
        return f"({self._condition(depth - 1)})"

    def _constant_value(self, depth: int) -> str:
        rng = self._rng
        if depth == 0 or rng.random() < 0.3:
            return self._literal()
        call = rng.choice(self._calls[rng.choice(self._kinds)])
        return _COLUMN_ARGUMENT.sub(lambda found: self._literal(COLUMN_KINDS[found[0]]), call)

    def _nested(self, call: str, depth: int) -> str:
        """Put values of the same kind in place of some of the columns of a call, and rarely any in place of any."""
        rng = self._rng
        way = rng.random()
        if way < 0.5:
            return call

        def put(found: re.Match[str]) -> str:
            kind = COLUMN_KINDS[found[0]]
            return found[0] if rng.random() < 0.4 else self._value(depth - 1, kind) if depth > 0 else self._column(kind)

        if way < 0.93:
            return _COLUMN_ARGUMENT.sub(put, call)
        name, parenthesis, rest = call.partition("(")
        arguments = rest[:-1].split(", ")
        place = rng.randrange(len(arguments))
        arguments[place] = self._value(max(depth - 1, 0)) if rng.random() < 0.6 else self._literal()
        return f"{name}{parenthesis}{', '.join(arguments)})"

    def _condition(self, depth: int) -> str:
        rng = self._rng
        kind = rng.random()
        if depth > 0 and kind < 0.2:
            connector = rng.choice((" AND ", " OR "))
            return "(" + connector.join(self._condition(depth - 1) for _ in range(rng.randint(2, 3))) + ")"
        if depth > 0 and kind < 0.27:
            return f"NOT ({self._condition(depth - 1)})"
        what = rng.choice(self._kinds)
        left = self._value(depth - 1, what) if depth > 0 and rng.random() < 0.4 else self._column(what)
        what = VALUE_KINDS.get(left, what)
        if kind < 0.6:
            right = self._literal(what) if rng.random() < 0.8 else self._value(max(depth - 1, 0), what)
            return f"{left} {rng.choice(('=', '<>', '!=', '<', '<=', '>', '>='))} {right}"
        negation = rng.choice(("", "NOT "))
        if kind < 0.7:
            return f"{left} {negation}IN ({', '.join(self._literal(what) for _ in range(rng.randint(1, 4)))})"
        if kind < 0.78:
            return f"{left} {negation}BETWEEN {self._literal(what)} AND {self._literal(what)}"
        if kind < 0.86:
            return f"{self._column('text')} {negation}LIKE {self._literal('text')}"
        if kind < 0.92:
            return f"{left} IS {negation}{rng.choice(('NULL', 'TRUE', 'FALSE', 'DISTINCT FROM 3'))}"
        if kind < 0.95:
            return f"REGEXP_LIKE({self._value(max(depth - 1, 0), 'text')}, {self._literal('text')})"
        if kind < 0.97:
            return f"JSON_MATCH(j, {self._literal('text')})"
        if kind < 0.975:
            return f"IN_SUBQUERY({left}, 'SELECT IDSET({self._rng.choice(COLUMNS)}) FROM t') = 1"
        return self._value(depth, "BOOLEAN" if rng.random() < 0.8 else None)

    def _aggregate(self, depth: int) -> str:
        rng = self._rng
        kind = rng.random()
        if kind < 0.1:
            return "COUNT(*)"
        if kind < 0.65:
            call = self._nested(rng.choice(self._aggregates), depth)
        elif kind < 0.75:
            name = rng.choice(
                ("COUNT(", "SUM(", "AVG(", "MIN(", "MAX(", "COUNT(DISTINCT ", "SUM(DISTINCT ", "AVG(DISTINCT ")
            )
            call = f"{name}{self._value(depth, 'number')})"
        elif kind < 0.85:
            return f"({self._aggregate(depth - 1)} {rng.choice('+-*/')} {self._literal()})" if depth > 0 else "SUM(i)"
        else:
            scalar = rng.choice(self._calls["number"]).partition("(")[0]
            return f"{scalar}({self._aggregate(depth - 1)})" if depth > 0 else "MAX(x)"
        if rng.random() < 0.15:
            call += f" FILTER (WHERE {self._condition(1)})"
        return call

    def _having(self) -> str:
        aggregate = self._aggregate(1) if self._rng.random() < 0.5 else "COUNT(*)"
        return f"{aggregate} {self._rng.choice(('>', '<', '=', 'IS NOT NULL AND 1 <'))} {self._literal('number')}"

    def _order(self, values: Sequence[str]) -> str:
        rng = self._rng
        keys = [*values * 3, "1", "2", "a"]
        return ", ".join(
            rng.choice(keys) + rng.choice(("", " ASC", " DESC", " DESC NULLS LAST", " NULLS FIRST"))
            for _ in range(rng.randint(1, 2))
        )

    def _gapfill(self) -> str:
        rng = self._rng
        fill = rng.choice(("FILL_PREVIOUS_VALUE", "FILL_DEFAULT_VALUE", "nope"))
        series = rng.choice((*COLUMNS, "nope"))
        start, end = rng.choice(("2023-11-14", "2023-11-18", "x")), rng.choice(("2023-11-18", "2023-11-20", "9999-12-31"))
        bucket = rng.choice(("1:DAYS", "6:HOURS", "1:MILLISECONDS", "0:DAYS", "x"))
        time = rng.choice(("ts", "DATETRUNC('DAY', ts)", "s", "i"))
        inner = (
            f"SELECT GAPFILL({time}, 'TIMESTAMP', '{start}', '{end}', '{bucket}', FILL(x, '{fill}'), "
            f"TIMESERIESON({series})) AS d, {series}, x FROM t"
        )
        if rng.random() < 0.5:
            return f"{inner} LIMIT 20"
        return f"SELECT d, {self._aggregate(1)}, SUM(x) FROM ({inner}) WHERE {self._condition(1)} GROUP BY d LIMIT 20"

    def _pql(self) -> str:
        rng = self._rng
        items = ", ".join(rng.choice((self._aggregate(1), rng.choice(COLUMNS), "*")) for _ in range(rng.randint(1, 2)))
        clauses = [
            f" WHERE {self._condition(2)}",
            f" GROUP BY {self._value(1)}",
            f" HAVING {self._having()}",
            f" ORDER BY {rng.choice(COLUMNS)} DESC",
            f" TOP {rng.choice(_NUMBERS)}",
            f" LIMIT {rng.choice(_NUMBERS)}",
            f" OPTION({rng.choice(_OPTIONS)})",
        ]
        return f"SELECT {items} FROM {rng.choice(TABLES)}" + "".join(c for c in clauses if rng.random() < 0.4)

    # -- what goes wrong

    def _with_options(self, text: str) -> str:
        rng = self._rng
        option = rng.choice(_OPTIONS)
        if rng.random() < 0.3:
            return f"{text} OPTION({option})"
        name, _, value = option.partition("=")
        return f"SET {name} = {rng.choice((value, repr(value)))}; {text}"

    def _token_mutated(self, text: str) -> str:
        rng = self._rng
        tokens = _TOKEN.findall(text)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(tokens) + 1)
            way = rng.random()
            if way < 0.3:
                del tokens[place : place + rng.randint(1, 2)]
            elif way < 0.6:
                tokens.insert(place, f" {self._token()} ")
            elif way < 0.8 and tokens:
                tokens[min(place, len(tokens) - 1)] = self._token()
            elif tokens:
                other = rng.randrange(len(tokens))
                place = min(place, len(tokens) - 1)
                tokens[place], tokens[other] = tokens[other], tokens[place]
        return "".join(tokens)

    def _token(self) -> str:
        rng = self._rng
        maker: Callable[[], str] = rng.choice(
            (
                lambda: rng.choice(_WORDS),
                lambda: rng.choice(_SYMBOLS),
                self._literal,
                self._column,
                lambda: rng.choice(self._names),
                lambda: rng.choice(_WORDS).lower(),
            )
        )
        return maker()

    def _char_mutated(self, text: str) -> str:
        rng = self._rng
        chars = list(text)
        for _ in range(rng.randint(1, 5)):
            place = rng.randrange(len(chars) + 1)
            char = rng.choice((chr(rng.randrange(32, 127)), rng.choice("'\"()\\;,.*`\0\n\té€😀\ud800\u2028\xa0")))
            way = rng.random()
            if way < 0.35:
                del chars[place : place + 1]
            elif way < 0.7:
                chars.insert(place, char)
            else:
                chars[place : place + 1] = [char]
        return "".join(chars)

    def _soup(self) -> str:
        rng = self._rng
        start = rng.choice(("SELECT ", "SELECT * FROM t WHERE ", "SELECT i FROM t GROUP BY ", "SET ", ""))
        return start + " ".join(self._token() for _ in range(rng.randint(1, 25)))

    def _typical_mistake(self, text: str) -> str:
        """Omit a clause, quote or parenthesis, or repeat something."""
        rng = self._rng
        way = rng.random()
        if way < 0.3:
            return text.replace(rng.choice(("FROM", "(", ")", "'", ",", "BY", "t", "AS")), "", 1)
        if way < 0.6:
            place = rng.randrange(len(text))
            return text[:place]
        if way < 0.8:
            return f"{text} {rng.choice(PLAIN)}"
        return text.replace(rng.choice(list(TYPES) + list(LISTS)), rng.choice(("nope", "NULL", "1", "'x'", "*", "(")), 2)

    def _deep(self) -> str:
        """Nest or repeat one construct very often."""
        rng = self._rng
        depth = rng.choice((50, 150, 199, 200, 201, 500, 2000, 10_000))
        before, after = rng.choice(_NESTS)
        middle = rng.choice(("i", "1", "i = 1", "", "TRUE", "SUM(i)"))
        if after is None:
            chain = before.join([middle] * depth)
        else:
            cut = rng.choice((depth, depth, depth - 1, 0))
            chain = before * depth + middle + after * cut
        clause = rng.choice(
            (
                "SELECT {} FROM t",
                "SELECT i FROM t WHERE {}",
                "SELECT {}, COUNT(*) FROM t GROUP BY {}",
                "SELECT i FROM t ORDER BY {}",
                "SELECT COUNT(*) FROM t HAVING {}",
                "SELECT COUNT(*) FILTER (WHERE {}) FROM t",
                "{}",
            )
        )
        return clause.replace("{}", chain)

    def _raw(self) -> Request:
        """Return a request whose body is no query, or hardly one."""
        rng = self._rng
        way = rng.random()
        path = rng.choice(("/query/sql", "/query"))
        if way < 0.2:
            return "POST", path, b"", rng.randbytes(rng.randrange(200))
        body = bytearray(_json({"sql": rng.choice(PLAIN), "queryOptions": rng.choice(_OPTIONS)}))
        if way < 0.6:
            for _ in range(rng.randint(1, 4)):
                body[rng.randrange(len(body))] = rng.randrange(256)
            return "POST", path, b"", bytes(body)
        if way < 0.75:
            mixed: object = rng.choice((None, 5, [], {}, True, ["SELECT 1"], "SELECT 1", 1.5))
            one = {"sql": "SELECT 1"}
            bodies = ({"sql": mixed}, {"pql": mixed}, {**one, "queryOptions": mixed}, {**one, "trace": mixed}, mixed)
            return "POST", path, b"", _json(rng.choice(bodies))
        if way < 0.9:
            query = b"sql=" + rng.choice((b"%", b"%ff%fe", b"SELECT+1", b"SELECT 1", b"%00", b"")) + rng.randbytes(3)
            return "GET", path, query, b""
        return (
            rng.choice(("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD")),
            rng.choice((path, "/nope", "/query/x")),
            b"",
            b"",
        )


_NESTS: tuple[tuple[str, str | None], ...] = (
    ("(", ")"),
    ("NOT ", ""),
    ("NOT (", ")"),
    ("- ", ""),
    ("-", ""),
    ("+ ", ""),
    ("abs(", ")"),
    ("sum(", ")"),
    ("nope(", ")"),
    ("CASE WHEN ", " THEN 1 END"),
    ("CASE ", " WHEN 1 THEN 1 END"),
    ("CASE WHEN TRUE THEN ", " END"),
    ("CAST(", " AS INT)"),
    ("[", "]"),
    ("ARRAY[", "]"),
    ("i[", "]"),
    ("(SELECT ", ")"),
    ("(SELECT * FROM ", ")"),
    ("i IN (", ")"),
    ("i BETWEEN ", " AND 2"),
    ("COUNT(*) FILTER (WHERE ", ")"),
    ("EXTRACT(YEAR FROM ", ")"),
    ("TRIM(BOTH 'a' FROM ", ")"),
    (" + ", None),
    (" - ", None),
    (" || ", None),
    (" AND ", None),
    (" OR ", None),
    (" AND NOT ", None),
    (" = ", None),
    (" IS NULL IS NULL ", None),
    (", ", None),
    (".", None),
    (" LIKE ", None),
    (" BETWEEN 1 AND ", None),
    ("; ", None),
    (" UNION ", None),
    ("/* ", " */"),
    ("'", None),
    ('"', None),
)


def _json(value: object) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

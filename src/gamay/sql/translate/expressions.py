"""Translates sqlglot's tree to Gamay's expressions."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from gamay.base.errors import QueryError, nearest
from gamay.functions.arguments import check_count
from gamay.functions.expression import FILTERED, Call, Column, Expression, Literal, Star
from gamay.functions.registry import canonical_name, is_aggregate, must_get_scalar
from gamay.model.types import DataType
from gamay.sql.text import reading_time
from gamay.sql.text.errors import syntax_error
from gamay.sql.text.tokens import CONSTANT_MARK, FUNCTION_MARK, TRIM_FROM

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "plus",
    exp.Sub: "minus",
    exp.Mul: "times",
    exp.Div: "divide",
    exp.Mod: "mod",
    exp.EQ: "equals",
    exp.NEQ: "notequals",
    exp.LT: "lessthan",
    exp.LTE: "lessthanorequal",
    exp.GT: "greaterthan",
    exp.GTE: "greaterthanorequal",
    exp.DPipe: "concat",
    exp.Like: "like",
    exp.NullSafeEQ: "isnotdistinctfrom",
    exp.NullSafeNEQ: "isdistinctfrom",
}
# synonyms of functions; result columns keep the name as written
SYNONYMS = {
    "add": "plus",
    "sub": "minus",
    "mult": "times",
    "div": "divide",
    "casewhen": "case",
}
_MIRRORED = {
    "equals": "equals",
    "notequals": "notequals",
    "lessthan": "greaterthan",
    "lessthanorequal": "greaterthanorequal",
    "greaterthan": "lessthan",
    "greaterthanorequal": "lessthanorequal",
}
# comparison of rows: of the members before the last, and of the last ones
_ROW_STEPS = {
    "equals": ("equals", "equals"),
    "notequals": ("equals", "equals"),
    "lessthan": ("lessthan", "lessthan"),
    "lessthanorequal": ("lessthan", "lessthanorequal"),
    "greaterthan": ("greaterthan", "greaterthan"),
    "greaterthanorequal": ("greaterthan", "greaterthanorequal"),
}
_ADVICE: dict[type[exp.Expr], str] = {
    exp.Tuple: "a list in parentheses is not a value; compare its members one by one: a = 1 AND b = 2",
    **dict.fromkeys(
        (exp.IgnoreNulls, exp.RespectNulls), "IGNORE NULLS is allowed with a window function: LAG(x) IGNORE NULLS OVER (…)"
    ),
    exp.Interval: "an INTERVAL must be added to or subtracted from a timestamp: ts + INTERVAL '3' MONTH",
    exp.Dot: 'a dot is allowed only between a table and its column; quote a column with a dot in its name: "a.b"',
}
# operators, also if written as functions: readers of expressions rely on their number of operands
_OPERATORS = frozenset(
    {
        *("not", "and", "or", "negate", "in", "notin", "between", "like", "regexplike"),
        *("isnull", "isnotnull", "istrue", "isnottrue", "isfalse", "isnotfalse", "isdistinctfrom", "isnotdistinctfrom"),
        *_MIRRORED,
    }
)
_DISTINCT_FORMS = {"count": "distinctcount", "sum": "distinctsum", "avg": "distinctavg"}
# an aggregate of a function over each list equals one over all values
_OVER_VALUES = {("sum", "arraysum"): "summv", ("min", "arraymin"): "minmv", ("max", "arraymax"): "maxmv"}
_LONE_DOT = re.compile(r"\.\s+\d")
_INTERVAL = re.compile(r"\s*([+-]?\d{1,9})\s*([A-Za-z]+)\s*")
_UNIT_WORDS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"})
_TAKES_UNIT = frozenset({"timestampadd", "timestampdiff", "dateadd", "datediff"})
TRUE = Literal(True, DataType.BOOLEAN)
FALSE = Literal(False, DataType.BOOLEAN)
NULL = Literal(None, DataType.UNKNOWN)
_DATE, _DAY, _TIMESTAMP = (Literal(word, DataType.STRING) for word in ("DATE", "DAY", DataType.TIMESTAMP.value))


@dataclass(frozen=True, slots=True)
class Translator:
    """Translates the expressions of one text.

    literals: of the text, by index. qualifiers: names that may qualify a column, in lower case; None if names with dots are
    columns.
    """

    text: str
    literals: Sequence[Literal]
    qualifiers: frozenset[str] | None = frozenset()

    def expression(self, node: exp.Expr) -> Expression:
        """Translate an expression; raises QueryError for unsupported syntax."""
        reading_time.check()
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node)
        if isinstance(node, exp.Connector):
            return self._connector(node)
        name = _BINARY.get(type(node))
        if name in _ROW_STEPS and (is_row(node.args["this"]) or is_row(node.args["expression"])):
            return self._compared_rows(node, name)
        if name is None:
            raise self.error(node, _ADVICE.get(type(node), f"{node.key.upper()} is not supported here"))
        call = oriented(name, self.expression(node.args["this"]), self.expression(node.args["expression"]))
        return Call("not", (call,)) if node.args.get("negate") else call  # NOT LIKE arrives as LIKE with a flag

    def error(self, node: exp.Expr, message: str) -> QueryError:
        return syntax_error(self.text, position_of(node), message)

    def _compared_rows(self, node: exp.Expr, name: str) -> Expression:
        """Translate `(a, b) < (1, 2)` to `a < 1 OR (a = 1 AND b < 2)`."""
        left, right = node.args["this"], node.args["expression"]
        if not (is_row(left) and is_row(right)):
            message = "a list in parentheses must be compared with one of the same length: (a, b) = (1, 2)"
            raise self.error(right if is_row(left) else left, message)
        equal = self._pairs(left, right, "equals")
        if name in ("equals", "notequals"):
            call = equal[0] if len(equal) == 1 else Call("and", equal)
            return call if name == "equals" else Call("not", (call,))
        first, last = _ROW_STEPS[name]
        steps = (*self._pairs(left, right, first)[:-1], self._pairs(left, right, last)[-1])
        parts = [step if not place else Call("and", (*equal[:place], step)) for place, step in enumerate(steps)]
        return parts[0] if len(parts) == 1 else Call("or", tuple(parts))

    def _pairs(self, left: exp.Expr, right: exp.Expr, name: str) -> tuple[Expression, ...]:
        lefts, rights = row_members(left), row_members(right)
        if len(lefts) != len(rights):
            message = f"compared lists must have the same length, but these have {len(lefts)} and {len(rights)}"
            raise self.error(right, message)
        pairs = zip(lefts, rights, strict=True)
        return tuple(oriented(name, self.expression(one), self.expression(other)) for one, other in pairs)

    def _connector(self, node: exp.Expr) -> Expression:
        """Flatten `a AND b AND c`, which arrives as a deep tree, into one call."""
        kind = type(node)
        operands: list[Expression] = []
        pending = [node]
        while pending:
            part = pending.pop()
            if type(part) is kind:
                pending.append(part.args["expression"])
                pending.append(part.args["this"])
                continue
            operand = self.expression(part)
            # parentheses around the same connector have no effect
            nested = isinstance(operand, Call) and operand.name == kind.key
            operands.extend(operand.args if nested and isinstance(operand, Call) else (operand,))
        return Call(kind.key, tuple(operands))

    def _column(self, node: exp.Expr) -> Expression:
        parts = [part for key in ("catalog", "db", "table") if (part := node.args.get(key)) is not None]
        qualifier = ".".join(part.name for part in parts)
        qualifiers = self.qualifiers
        if qualifier and qualifiers is None:
            return Column(f"{qualifier}.{node.name}")
        if qualifier and qualifiers is not None and qualifier.lower() not in qualifiers:
            known = ", ".join(sorted(qualifiers)) or "none"
            hint = nearest(qualifier, qualifiers)
            raise self.error(parts[0], f"'{qualifier}' is not the table of this query ({known}).{hint}".rstrip("."))
        this = node.args["this"]
        return self._star(this) if isinstance(this, exp.Star) else Column(this.name)

    def _literal(self, node: exp.Expr) -> Expression:
        value = node.name
        if value.startswith(CONSTANT_MARK):
            return Literal(value[1:], DataType.STRING)
        if not value.isdigit():  # the parser makes a fraction of a dot and a number
            found = _LONE_DOT.search(self.text)
            start = 0 if found is None else found.start()
            raise syntax_error(self.text, start, "unexpected '.' before a number; write a fraction as 0.5 or .5")
        return self.literals[int(value)]

    def _call(self, node: exp.Expr) -> Expression:
        written = node.name if isinstance(node.this, str) else node.this.name
        name = canonical_name(written.removeprefix(FUNCTION_MARK))
        name = "avg" if name == "average" else name
        if is_row(node):
            raise self.error(node, _ADVICE[exp.Tuple])
        if "(" in name:  # internal functions for clauses, joins and the like, which have no SQL name
            raise self.error(node, f"Unknown function '{written.removeprefix(FUNCTION_MARK)}'")
        parts = node.expressions
        if parts and isinstance(parts[0], exp.Distinct):
            return self._distinct_aggregate(node, name, parts)
        unit = _unit(parts[0]) if parts and name in _TAKES_UNIT else None
        args = tuple(unit if unit is not None and part is parts[0] else self.expression(part) for part in parts)
        if written == FUNCTION_MARK + TRIM_FROM:
            return _trim_from(args)
        first = args[0] if args else None
        if name == "count":
            if len(args) != 1:
                raise self.error(node, f"count takes one argument or *, not {len(args)}")
            # a constant is never null; whether a column is, is known at binding
            constant = isinstance(args[0], Literal) and not args[0].is_null
            return Call("count", (Star(),) if constant else args)
        if name in _OPERATORS:
            function = must_get_scalar(name)
            check_count(name, len(args), function.min_args, function.max_args)
        if len(args) == 1 and isinstance(first, Call) and (name, first.name) in _OVER_VALUES:
            return Call(_OVER_VALUES[name, first.name], first.args)
        if SYNONYMS.get(name, name) == "case" and len(args) % 2 == 0:
            args = (*args, NULL)
        if name == "cast" and args[1:] == (_DATE,):
            args = (Call("datetrunc", (_DAY, Call(name, (args[0], _TIMESTAMP)))), _TIMESTAMP)
        args = _log_columns(name, args)
        if any(isinstance(arg, Star) for arg in args):
            if not is_aggregate(name):
                must_get_scalar(name)
            raise self.error(node, f"{name}(*) has no meaning; only count takes *")
        return oriented(name, *args)

    def _distinct_aggregate(self, node: exp.Expr, name: str, parts: Sequence[exp.Expr]) -> Expression:
        operands = parts[0].expressions
        if name == "listagg":
            if len(parts) > 1 or len(operands) > 2:
                raise self.error(node, "LISTAGG(DISTINCT x, 'separator') takes two arguments at most")
            separator = self.expression(operands[1]) if len(operands) == 2 else Literal(",", DataType.STRING)
            return Call(name, (self.expression(operands[0]), separator, TRUE))
        if name not in _DISTINCT_FORMS:
            raise self.error(node, f"DISTINCT is allowed in COUNT, SUM, AVG and LISTAGG only, not in {name.upper()}")
        if len(parts) > 1 or len(operands) != 1 or isinstance(operands[0], exp.Tuple):
            raise self.error(node, f"{name.upper()}(DISTINCT …) takes one expression; join several with CONCAT(x, y, ',')")
        return Call(_DISTINCT_FORMS[name], (self.expression(operands[0]),))

    def _filtered(self, node: exp.Expr) -> Expression:
        """Translate `sum(x) FILTER (WHERE condition)`."""
        aggregate, where = self.expression(node.this), node.args["expression"]
        if not isinstance(aggregate, Call) or aggregate.name == FILTERED or not is_aggregate(aggregate.name):
            raise self.error(node, "FILTER (WHERE …) must follow an aggregate, as in sum(x) FILTER (WHERE y > 5)")
        return Call(FILTERED, (aggregate, self.expression(where.this)))

    def _negative(self, node: exp.Expr) -> Expression:
        return Call("negate", (self.expression(node.this),))

    def _not(self, node: exp.Expr) -> Expression:
        """Translate NOT; `x NOT IN (…)`, `x IS NOT NULL` and the like arrive as NOT around the positive form."""
        operand = self.expression(node.this)
        if isinstance(operand, Call) and operand.name in _NEGATED:
            return Call(_NEGATED[operand.name], operand.args)
        return Call("not", (operand,))

    def _between(self, node: exp.Expr) -> Expression:
        operand, low, high = (self.expression(node.args[key]) for key in ("this", "low", "high"))
        between = Call("between", (operand, low, high))
        # SYMMETRIC: the bounds may be in either order
        return Call("or", (between, Call("between", (operand, high, low)))) if node.args.get("symmetric") else between

    def _moved(self, node: exp.Expr) -> Expression:
        """Translate `ts + INTERVAL '3' MONTH`, and other sums."""
        left, right = node.args["this"], node.args["expression"]
        if isinstance(left, exp.Interval) and isinstance(node, exp.Add):
            left, right = right, left
        if not isinstance(right, exp.Interval):
            return Call(_BINARY[type(node)], (self.expression(left), self.expression(right)))
        number, unit = self._interval(right)
        amount = Literal(-number if isinstance(node, exp.Sub) else number, DataType.INT)
        moment = Call("cast", (self.expression(left), Literal(DataType.TIMESTAMP.value, DataType.STRING)))
        moved = Call("timestampadd", (Literal(unit, DataType.STRING), amount, moment))
        return Call("cast", (moved, Literal(DataType.TIMESTAMP.value, DataType.STRING)))

    def _interval(self, node: exp.Expr) -> tuple[int, str]:
        """Return the number and the unit of `INTERVAL '3' MONTH` or `INTERVAL '3 months'`."""
        written, unit = node.this, node.args.get("unit")
        negated = isinstance(written, exp.Neg)
        inner = written.this if negated else written
        found = self._literal(inner) if isinstance(inner, exp.Literal) else None
        text = str(found.value) if isinstance(found, Literal) else ""
        match = _INTERVAL.fullmatch(f"{text} {unit.name if unit is not None else ''}")
        if match is None or match[2].upper().removesuffix("S") not in _UNIT_WORDS:
            raise self.error(
                node, "an interval must be a whole number of one unit, as in INTERVAL '3' MONTH or INTERVAL '90 days'"
            )
        return int(match[1]) * (-1 if negated else 1), match[2].upper().removesuffix("S")

    def _in(self, node: exp.Expr) -> Expression:
        if node.args.get("query") is not None or not node.expressions:
            raise self.error(node, "IN takes a list of values in parentheses")
        if is_row(node.this):
            rows = [Call("and", self._pairs(node.this, part, "equals")) for part in node.expressions]
            return rows[0] if len(rows) == 1 else Call("or", tuple(rows))
        return Call("in", (self.expression(node.this), *(self.expression(part) for part in node.expressions)))

    def _escaped(self, node: exp.Expr) -> Expression:
        """Translate `x [NOT] LIKE 'pattern' ESCAPE '!'`."""
        like = node.this
        if not isinstance(like, exp.Like):
            raise self.error(node, "ESCAPE must follow LIKE 'pattern'")
        pattern = Call("likepattern", (self.expression(like.args["expression"]), self.expression(node.args["expression"])))
        call = Call("like", (self.expression(like.this), pattern))
        return Call("not", (call,)) if like.args.get("negate") else call

    def _is(self, node: exp.Expr) -> Expression:
        operand, what = self.expression(node.this), node.args["expression"]
        if isinstance(what, exp.Null):
            return Call("isnull", (operand,))
        if isinstance(what, exp.Boolean):
            return Call("istrue" if what.this else "isfalse", (operand,))
        raise self.error(node, "expected [NOT] NULL, TRUE, FALSE or DISTINCT FROM after IS")

    def _case(self, node: exp.Expr) -> Expression:
        subject = node.args.get("this")
        args: list[Expression] = []
        for branch in node.args["ifs"]:
            condition = self.expression(branch.this)
            if subject is not None:
                condition = oriented("equals", self.expression(subject), condition)
            args += (condition, self.expression(branch.args["true"]))
        default = node.args.get("default")
        args.append(NULL if default is None else self.expression(default))
        return Call("case", tuple(args))

    def _bracket(self, node: exp.Expr) -> Expression:
        return Call("item", (self.expression(node.this), *(self.expression(part) for part in node.expressions)))

    def _array(self, node: exp.Expr) -> Expression:
        return Call("arrayvalueconstructor", tuple(self.expression(part) for part in node.expressions))

    def _paren(self, node: exp.Expr) -> Expression:
        return self.expression(node.this)

    def _star(self, node: exp.Expr) -> Expression:
        self.refuse_changed_star(node)
        return Star()

    def refuse_changed_star(self, star: exp.Expr) -> None:
        """Raise QueryError for `* EXCEPT (a)` and its kin, which the parser reads."""
        changes = [name.strip("_").upper() for name, value in star.args.items() if value]
        if changes:
            raise self.error(star, f"SELECT * {changes[0]} (…) is not supported; name the columns")

    def _boolean(self, node: exp.Expr) -> Expression:
        return TRUE if node.this else FALSE

    def _null(self, node: exp.Expr) -> Expression:
        return NULL


def _unit(node: exp.Expr) -> Literal | None:
    """Return a bare word as a unit, as in TIMESTAMPADD(DAY, 1, ts); None for anything else."""
    word = node.name.upper() if isinstance(node, exp.Column) and not node.table else ""
    return Literal(word, DataType.STRING) if word in _UNIT_WORDS else None


_NEGATED = {"in": "notin", "isnull": "isnotnull", "istrue": "isnottrue", "isfalse": "isnotfalse"}

_HANDLERS: dict[type[exp.Expr], Callable[[Translator, exp.Expr], Expression]] = {
    exp.Column: Translator._column,
    exp.Add: Translator._moved,
    exp.Sub: Translator._moved,
    exp.Literal: Translator._literal,
    exp.Anonymous: Translator._call,
    exp.Filter: Translator._filtered,
    exp.Neg: Translator._negative,
    exp.Not: Translator._not,
    exp.Between: Translator._between,
    exp.In: Translator._in,
    exp.Escape: Translator._escaped,
    exp.Is: Translator._is,
    exp.Case: Translator._case,
    exp.Bracket: Translator._bracket,
    exp.Array: Translator._array,
    exp.Paren: Translator._paren,
    exp.Star: Translator._star,
    exp.Boolean: Translator._boolean,
    exp.Null: Translator._null,
}


def is_row(node: exp.Expr) -> bool:
    """Whether a node is a list of values, `(a, b)` or `ROW(a, b)`."""
    is_called = isinstance(node, exp.Anonymous) and node.name.removeprefix(FUNCTION_MARK).upper() == "ROW"
    return is_called or isinstance(node, exp.Tuple)


def row_members(node: exp.Expr) -> Sequence[exp.Expr]:
    """Return the members of a list of values, or the single value."""
    return node.expressions if is_row(node) else (node,)


def position_of(node: exp.Expr) -> int:
    """Return the position of a node in the text: the lowest position of its parts."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return int(min(starts, default=0))


def oriented(name: str, *args: Expression) -> Expression:
    """Move the constant of a comparison to the right: `10 < a` becomes `a > 10`."""
    if name in _MIRRORED and len(args) == 2 and isinstance(args[0], Literal) and not isinstance(args[1], Literal):
        return Call(_MIRRORED[name], (args[1], args[0]))
    return Call(name, args)


def canonical(expression: Expression) -> Expression:
    """Replace synonyms of functions with their canonical names."""
    if not isinstance(expression, Call):
        return expression
    reading_time.check()
    args = tuple([canonical(arg) for arg in expression.args])
    name = SYNONYMS.get(expression.name, expression.name)
    is_same = name == expression.name and all(new is old for new, old in zip(args, expression.args, strict=True))
    return expression if is_same else Call(name, args)


def _log_columns(name: str, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Expand `clpDecode(x)` and `clpMatch(x, 'wildcard')` to the columns into which CLP splits x."""
    is_short = (name == "clpdecode" and len(args) in (1, 2)) or (name == "clpmatch" and len(args) == 2)
    if not is_short or not isinstance(args[0], Column) or any(not isinstance(arg, Literal) for arg in args[1:]):
        return args
    return *(Column(args[0].name + suffix) for suffix in ("_logtype", "_dictionaryVars", "_encodedVars")), *args[1:]


def _trim_from(args: tuple[Expression, ...]) -> Expression:
    side = args[0].value if isinstance(args[0], Literal) else "BOTH"
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(side), "trim")
    return Call(name, (args[-1], *args[1:-1]))

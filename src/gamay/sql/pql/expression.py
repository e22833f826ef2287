"""Expressions and conditions of PQL, by recursive descent.

Arithmetic operators have equal precedence and associate to the left. A quoted string is the name of a column as the argument
of an aggregate or as a group key (`sum('runs')`), and a value everywhere else.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from gamay.base.errors import QueryError
from gamay.functions.expression import Call, Column, Expression, Literal, Star
from gamay.functions.registry import canonical_name, is_aggregate, scalar_function, unknown_function
from gamay.functions.text import literal_text
from gamay.model.types import DataType
from gamay.sql.text.errors import syntax_error
from gamay.sql.text.lexer import Lexeme, TokenKind
from gamay.sql.text.slots import negate, to_literal
from gamay.sql.translate.expressions import SYNONYMS, oriented

# fmt: off
KEYWORDS = frozenset((
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "BY", "ASC", "DESC", "TOP", "LIMIT", "OPTION", "AND", "OR", "NOT",
    "IN", "BETWEEN", "IS", "NULL", "AS",
))
# fmt: on
_DEPTH_MAX = 100
_ARITHMETIC = {"+": ("plus", "add"), "-": ("minus", "sub"), "*": ("times", "mult"), "/": ("divide", "div")}
_COMPARISONS = {
    "=": "equals",
    "<>": "notequals",
    "!=": "notequals",
    "<": "lessthan",
    "<=": "lessthanorequal",
    ">": "greaterthan",
    ">=": "greaterthanorequal",
}
# spelling of aggregates in results, without the percentile and the suffix MV
_SHOWN = {
    "minmaxrange": "minMaxRange",
    "distinctcount": "distinctCount",
    "distinctcounthll": "distinctCountHLL",
    "distinctcountrawhll": "distinctCountRawHLL",
    "fasthll": "fastHLL",
    "percentileest": "percentileEst",
    "percentiletdigest": "percentileTDigest",
}
_PARTS_OF_NAME = re.compile(r"([a-z]+?)([0-9]*)(mv)?")


class Role(Enum):
    """The role of a term."""

    VALUE = "an expression"
    CONSTANT = "a constant"
    AGGREGATE = "an aggregate"
    CONDITION = "a condition"


@dataclass(frozen=True, slots=True)
class Term:
    """An expression at `start` in the text; text: its normalised form, as shown in results."""

    expression: Expression
    text: str
    role: Role
    start: int


def shown_aggregate(name: str) -> str:
    """Return the spelling of an aggregate in results.

    >>> [shown_aggregate(name) for name in ("SUM", "percentileest95mv", "DISTINCTCOUNTHLL")]
    ['sum', 'percentileEst95MV', 'distinctCountHLL']
    """
    key = canonical_name(name)
    parts = _PARTS_OF_NAME.fullmatch(key)
    if parts is None:
        return key
    return _SHOWN.get(parts[1], parts[1]) + parts[2] + ("MV" if parts[3] else "")


class ExpressionReader:
    """Parser of expressions from lexemes; base class of the parser of clauses."""

    def __init__(self, text: str, lexemes: Sequence[Lexeme]) -> None:
        self.text = text
        self.lexemes = lexemes
        self.position = 0
        self._depth = 0

    @property
    def current(self) -> Lexeme:
        return self.lexemes[self.position]

    def next(self) -> Lexeme:
        lexeme = self.current
        self.position += lexeme.kind is not TokenKind.END
        return lexeme

    def skip_op(self, *ops: str) -> bool:
        found = self.current.is_op(*ops)
        self.position += found
        return found

    def skip_word(self, *words: str) -> bool:
        found = self.current.is_word(*words)
        self.position += found
        return found

    def need_op(self, op: str, where: str) -> None:
        if not self.skip_op(op):
            raise self.expected(f"{op} {where}")

    def error(self, start: int, message: str) -> QueryError:
        return syntax_error(self.text, start, message)

    def expected(self, what: str) -> QueryError:
        hint = "; quote a name that is a keyword with backticks" if self.current.text in KEYWORDS else ""
        return self.error(self.current.start, f"expected {what}, found {self.current.shown}{hint}")

    # -- conditions

    def where(self) -> Expression:
        """Parse a condition on rows."""
        return self._condition(Role.VALUE).expression

    def having(self) -> Expression:
        """Parse a condition on groups: aggregates compared with numbers."""
        return self._condition(Role.AGGREGATE).expression

    def _condition(self, left: Role) -> Term:
        term = self._any_of(left)
        if term.role is not Role.CONDITION:
            raise self.expected("a comparison, IN, BETWEEN or regexp_like")
        return term

    def _any_of(self, left: Role) -> Term:
        return self._connected("or", left)

    def _connected(self, name: str, left: Role) -> Term:
        def operand() -> Term:
            return self._comparison(left) if name == "and" else self._connected("and", left)

        first = operand()
        if not self.current.is_word(name.upper()):
            return first
        operands = [first]
        while self.skip_word(name.upper()):
            operands.append(operand())
        for term in operands:
            if term.role is not Role.CONDITION:
                raise self.error(term.start, f"{name.upper()} takes conditions, but this is {term.role.value}")
        parts: list[Expression] = []
        for term in operands:
            same = isinstance(term.expression, Call) and term.expression.name == name
            parts.extend(term.expression.args if same and isinstance(term.expression, Call) else [term.expression])
        return Term(Call(name, tuple(parts)), "", Role.CONDITION, first.start)

    def _comparison(self, left: Role) -> Term:
        if self.current.is_word("NOT"):
            raise self.error(self.current.start, "PQL has NOT only in NOT IN; write the opposite, or use SQL")
        if self.current.is_word("REGEXP_LIKE") and self.lexemes[self.position + 1].is_op("("):
            return self._regexp_like(left)
        term = self._sum(left)
        if term.role is Role.CONDITION:
            return term
        lexeme = self.current
        if lexeme.kind is TokenKind.OP and lexeme.text in _COMPARISONS:
            self.next()
            return self._compared(_COMPARISONS[lexeme.text], term, self._sum(left), left)
        if lexeme.is_word("IN", "BETWEEN", "NOT"):
            self._check_subject(term, left)
            return self._in_or_between(term, left)
        if lexeme.is_word("IS"):
            raise self.error(lexeme.start, "IS NULL is not supported in PQL; use SQL, which has it")
        if lexeme.is_word("LIKE"):
            raise self.error(lexeme.start, "LIKE is not supported in PQL; use regexp_like(column, 'expression'), or SQL")
        return term

    def _compared(self, name: str, one: Term, other: Term, left: Role) -> Term:
        subject, constant = (other, one) if one.role is Role.CONSTANT else (one, other)
        self._check_subject(subject, left)
        if constant.role is not Role.CONSTANT:
            raise self.error(constant.start, "one side of a comparison must be a constant; use SQL to compare columns")
        self._check_constant(constant, left)
        call = oriented(name, one.expression, other.expression)
        return Term(call, "", Role.CONDITION, one.start)

    def _check_subject(self, term: Term, wanted: Role) -> None:
        if term.role is Role.CONSTANT:
            what = "an aggregate" if wanted is Role.AGGREGATE else "a column"
            raise self.error(
                term.start, f"expected {what}, but this is a constant; write names without quotes, or in backticks"
            )
        if term.role is not wanted:
            clause = "HAVING compares aggregates" if wanted is Role.AGGREGATE else "WHERE compares columns"
            raise self.error(term.start, f"{clause}, but this is {term.role.value}")

    def _check_constant(self, term: Term, left: Role) -> None:
        literal = term.expression
        if left is Role.AGGREGATE and isinstance(literal, Literal) and not literal.type.is_numeric:
            raise self.error(term.start, "HAVING compares an aggregate with a number")

    def _in_or_between(self, term: Term, left: Role) -> Term:
        name = "notin" if self.skip_word("NOT") else "in"
        if name == "in" and self.skip_word("BETWEEN"):
            low = self._constant(left)
            if not self.skip_word("AND"):
                raise self.expected("AND between the bounds of BETWEEN")
            args = (low, self._constant(left))
            return Term(Call("between", (term.expression, *args)), "", Role.CONDITION, term.start)
        if not self.skip_word("IN"):
            raise self.expected("IN after NOT")
        self.need_op("(", "after IN")
        values = [self._constant(left)]
        while self.skip_op(","):
            values.append(self._constant(left))
        self.need_op(")", "after the values of IN")
        return Term(Call(name, (term.expression, *values)), "", Role.CONDITION, term.start)

    def _constant(self, left: Role) -> Literal:
        lexeme = self.current
        if lexeme.kind not in (TokenKind.STRING, TokenKind.NUMBER):
            raise self.expected("a constant")
        self.next()
        literal = self._literal(lexeme)
        self._check_constant(Term(literal, "", Role.CONSTANT, lexeme.start), left)
        return literal

    def _regexp_like(self, left: Role) -> Term:
        start = self.next().start
        if left is Role.AGGREGATE:
            raise self.error(start, "HAVING compares aggregates with numbers; use regexp_like in WHERE")
        self.next()
        subject = self._sum(left)
        self._check_subject(subject, left)
        self.need_op(",", "between the column and the regular expression")
        if self.current.kind is not TokenKind.STRING:
            raise self.expected("the regular expression, a string")
        pattern = Literal(self.next().text, DataType.STRING)
        self.need_op(")", "after the regular expression")
        # PQL matches ignoring case
        call = Call("regexplike", (subject.expression, pattern, Literal("i", DataType.STRING)))
        return Term(call, "", Role.CONDITION, start)

    # -- expressions

    def expression(self, *, quoted_is_column: bool) -> Term:
        """Parse an expression or an aggregate. quoted_is_column: whether a string on its own names a column."""
        if quoted_is_column and self.current.kind is TokenKind.STRING:
            lexeme = self.next()
            if not lexeme.text:
                raise self.error(lexeme.start, "the quotes contain no column name")
            return Term(Column(lexeme.text), lexeme.text, Role.VALUE, lexeme.start)
        term = self._sum(Role.AGGREGATE)
        if term.role is Role.CONDITION:
            raise self.error(term.start, "conditions are allowed in WHERE and HAVING only")
        return term

    def _sum(self, left: Role) -> Term:
        term = self._primary(left)
        links = 0
        while (operator := self._operator()) is not None:
            links += 1
            if links > _DEPTH_MAX:
                raise self.error(term.start, f"an expression has at most {_DEPTH_MAX} operators")
            other = self._primary(left)
            for side in (term, other):
                if side.role in (Role.AGGREGATE, Role.CONDITION):
                    raise self.error(side.start, f"arithmetic takes columns and numbers, but this is {side.role.value}")
            name, shown = operator
            constant = term.role is Role.CONSTANT and other.role is Role.CONSTANT
            call = Call(name, (term.expression, other.expression))
            role = Role.CONSTANT if constant else Role.VALUE
            term = Term(call, f"{shown}({term.text},{other.text})", role, term.start)
        return term

    def _operator(self) -> tuple[str, str] | None:
        """Return the next operator; the sign of a number directly after an operand counts as one."""
        lexeme = self.current
        if lexeme.kind is TokenKind.OP and lexeme.text in _ARITHMETIC:
            self.next()
            return _ARITHMETIC[lexeme.text]
        if lexeme.kind is TokenKind.NUMBER and lexeme.text[0] in "+-":
            return _ARITHMETIC["+"]  # `a -1` adds minus one
        return None

    def _primary(self, left: Role) -> Term:
        lexeme = self.current
        if self._depth >= _DEPTH_MAX:
            raise self.error(lexeme.start, f"the expression is nested deeper than {_DEPTH_MAX}")
        if lexeme.kind in (TokenKind.STRING, TokenKind.NUMBER):
            self.next()
            literal = self._literal(lexeme)
            return Term(literal, f"'{literal_text(literal.value)}'", Role.CONSTANT, lexeme.start)
        self._depth += 1
        try:
            if self.skip_op("("):
                inner = self._any_of(left)
                self.need_op(")", "to close this parenthesis")
                return Term(inner.expression, inner.text, inner.role, lexeme.start)
            if not lexeme.is_name or (lexeme.kind is TokenKind.WORD and lexeme.text in KEYWORDS):
                raise self.expected("a column, a function or a constant")
            self.next()
            if self.current.is_op("(") and lexeme.kind is TokenKind.WORD:
                return self._call(lexeme)
            if self.current.is_op("."):
                raise self.error(self.current.start, "write columns without their table")
            return Term(Column(lexeme.name), lexeme.name, Role.VALUE, lexeme.start)
        finally:
            self._depth -= 1

    def _call(self, name: Lexeme) -> Term:
        self.next()
        written = canonical_name(name.source)
        aggregate = is_aggregate(written)
        args: list[Term] = []
        while not self.current.is_op(")"):
            if args:
                self.need_op(",", f"or ) after an argument of {name.source}")
            if self.current.is_op("*"):
                star = self.next()
                args.append(Term(Star(), "star", Role.VALUE, star.start))
            else:
                args.append(self.expression(quoted_is_column=aggregate))
        self.next()
        if aggregate:
            return self._aggregate(name, written, args)
        if scalar_function(written) is None:
            raise self.error(name.start, str(unknown_function(name.source)))
        for arg in args:
            if arg.role is Role.AGGREGATE or isinstance(arg.expression, Star):
                raise self.error(
                    arg.start, f"{arg.text if arg.text != 'star' else '*'} cannot be an argument of {name.source}"
                )
        call = Call(SYNONYMS.get(written, written), tuple(arg.expression for arg in args))
        role = Role.CONSTANT if args and all(arg.role is Role.CONSTANT for arg in args) else Role.VALUE
        return Term(call, f"{name.source.lower()}({','.join(arg.text for arg in args)})", role, name.start)

    def _aggregate(self, name: Lexeme, written: str, args: Sequence[Term]) -> Term:
        if len(args) != 1:
            raise self.error(name.start, f"the aggregate {name.source} takes one argument, not {len(args)}")
        argument = args[0]
        if argument.role is Role.AGGREGATE:
            raise self.error(argument.start, "aggregates cannot be nested")
        shown = shown_aggregate(written)
        if written == "count":
            return Term(Call("count", (Star(),)), "count_star", Role.AGGREGATE, name.start)
        if isinstance(argument.expression, Star):
            raise self.error(argument.start, f"{name.source}(*) has no meaning; only COUNT takes *")
        call = Call(written, (argument.expression,))
        return Term(call, f"{shown}_{argument.text}", Role.AGGREGATE, name.start)

    def _literal(self, lexeme: Lexeme) -> Literal:
        if lexeme.kind is TokenKind.STRING:
            return Literal(lexeme.text, DataType.STRING)
        literal = to_literal(lexeme.text.lstrip("+-"))
        if lexeme.text[0] == "-":
            literal = negate(literal)
        if isinstance(literal.value, Decimal):
            raise self.error(lexeme.start, f"the number {lexeme.source} does not fit 64 bits; write {lexeme.source}.0")
        return literal

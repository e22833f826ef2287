r"""Converts lexemes to the tokens of sqlglot's parser, which supplies precedence and clause structure.

sqlglot rewrites the names and arguments of hundreds of functions; here every function must reach the registry as written. So
function names carry a mark that no known function has, all other words are names unless they are keywords of this dialect,
and forms with keywords inside parentheses become plain calls:

| written                              | seen by the parser         |
| ------------------------------------ | -------------------------- |
| `CAST(x AS INTEGER)`                 | `cast(x, 'INT')`           |
| `EXTRACT(YEAR FROM x)`               | `extract('YEAR', x)`       |
| `TRIM(LEADING 'c' FROM x)`           | `trim from('LEADING', 'c', x)` |
| `POSITION('c' IN x)`                 | `position('c', x)`             |
| `SUBSTRING(x FROM 2 FOR 3)`          | `substring(x, 2, 3)`           |
| `OVERLAY(x PLACING y FROM 2 FOR 3)`  | `overlay(x, y, 2, 3)`          |
| `ROLLUP (a > 1, b)`                  | `ROLLUP ((a > 1), b)`          |
| `DATE '2020-01-01'`, `TIMESTAMP '…'` | the string                 |
| `X'01ff'`, `N'é'`                    | the string                 |
| `U&'\0041' UESCAPE '\'`               | `unistr('\0041', '\')`         |
| `SUM(ALL x)`                         | `sum(x)`                   |
| `x IS UNKNOWN`                       | `x IS NULL`                |

The token of a literal, or of a list of literals, holds its index as text; strings that are not literals of the text begin
with a quote.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from sqlglot.tokenizer_core import Token, TokenType

from gamay.base.errors import QueryError
from gamay.functions.registry import is_aggregate
from gamay.functions.scalar.casting import plain_type_name
from gamay.sql.text import reading_time
from gamay.sql.text.errors import syntax_error
from gamay.sql.text.lexer import Lexeme, TokenKind

FUNCTION_MARK = " "
CONSTANT_MARK = "'"
TRIM_FROM = "trim from"
GROUPING_SETS = "grouping sets"
# keywords that separate arguments like commas; the first one is required
_SEPARATED = {"position": ("IN",), "substring": ("FROM", "FOR"), "overlay": ("PLACING", "FROM", "FOR")}
_FORMS = ("cast", "extract", TRIM_FROM, *_SEPARATED)

KEYWORDS = {
    "SELECT": TokenType.SELECT,
    "DISTINCT": TokenType.DISTINCT,
    "FROM": TokenType.FROM,
    "WHERE": TokenType.WHERE,
    "GROUP": TokenType.GROUP_BY,
    "HAVING": TokenType.HAVING,
    "ORDER": TokenType.ORDER_BY,
    "AND": TokenType.AND,
    "OR": TokenType.OR,
    "NOT": TokenType.NOT,
    "IN": TokenType.IN,
    "BETWEEN": TokenType.BETWEEN,
    "LIKE": TokenType.LIKE,
    "ILIKE": TokenType.LIKE,  # LIKE does not regard case either
    "IS": TokenType.IS,
    "NULL": TokenType.NULL,
    "TRUE": TokenType.TRUE,
    "FALSE": TokenType.FALSE,
    "CASE": TokenType.CASE,
    "WHEN": TokenType.WHEN,
    "THEN": TokenType.THEN,
    "ELSE": TokenType.ELSE,
    "END": TokenType.END,
    "AS": TokenType.ALIAS,
    "ASC": TokenType.ASC,
    "DESC": TokenType.DESC,
}
_TAIL = ("LIMIT", "OFFSET", "FETCH")
_OPERATORS = {
    "+": TokenType.PLUS,
    "-": TokenType.DASH,
    "*": TokenType.STAR,
    "/": TokenType.SLASH,
    "%": TokenType.MOD,
    "=": TokenType.EQ,
    "<>": TokenType.NEQ,
    "!=": TokenType.NEQ,
    "<": TokenType.LT,
    "<=": TokenType.LTE,
    ">": TokenType.GT,
    ">=": TokenType.GTE,
    "||": TokenType.DPIPE,
    "(": TokenType.L_PAREN,
    ")": TokenType.R_PAREN,
    "[": TokenType.L_BRACKET,
    "]": TokenType.R_BRACKET,
    ",": TokenType.COMMA,
    ".": TokenType.DOT,
}
# adjacent operands: the parser takes the second for the upper bound of BETWEEN without AND, or for what follows THEN
_ENDS_OPERAND = frozenset(
    {
        *(TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.R_PAREN, TokenType.R_BRACKET),
        *(TokenType.NULL, TokenType.TRUE, TokenType.FALSE, TokenType.END),
    }
)
_BEGINS_OPERAND = frozenset(
    {
        *(TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.L_PAREN),
        *(TokenType.NULL, TokenType.TRUE, TokenType.FALSE, TokenType.CASE),
    }
)
_SETS = {"GROUPING": TokenType.GROUPING_SETS, "ROLLUP": TokenType.ROLLUP, "CUBE": TokenType.CUBE}
_BEFORE_OPERAND = frozenset(KEYWORDS) - {"CASE", "END", "NULL", "TRUE", "FALSE", "AS", "ASC", "DESC", "IN", "IS", "FROM"}
_NO_OPERAND = frozenset(KEYWORDS) - {"CASE", "NULL", "TRUE", "FALSE", "NOT", "DISTINCT", "SELECT"} | frozenset(_TAIL)
_TEXT_PREFIXES = ("DATE", "TIME", "TIMESTAMP")
_DEEPER = ("NOT", "CASE", "IN", "LIKE", "ILIKE", "BETWEEN", "IS")
_SEPARATORS = ("AND", "OR", "WHEN", "THEN", "ELSE", "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER")
_LIKELY_NAMES = ("GROUP", "ORDER", "DESC", "ASC", "LIMIT", "OFFSET", "FETCH", "END", "CASE")
DEPTH_MAX = 200
_CONDITIONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
_CALLABLE = (
    "AND",
    "OR",
    "IN",
    "LIKE",
    "ILIKE",
    "BETWEEN",
    "MINUS",
)  # also functions, where an operand can stand: `and(a, b)`


def to_tokens(text: str, lexemes: Sequence[Lexeme]) -> list[Token]:
    """Return the tokens of a statement or expression, `lexemes` up to END; raises QueryError if an operand is missing."""
    return TokenConverter(text, lexemes).run()


def quoting_hint(lexeme: Lexeme) -> str:
    """Return a hint how to quote a keyword that is likely to be a column."""
    return f'; quote a column of this name: "{lexeme.source}"' if lexeme.is_word(*_LIKELY_NAMES) else ""


def is_keyword(lexeme: Lexeme) -> bool:
    """Whether a word is reserved, so that a column of this name must be quoted."""
    return lexeme.kind is TokenKind.WORD and (lexeme.text in KEYWORDS or lexeme.text in _TAIL)


class TokenConverter:
    """Converts lexemes in one pass, with a stack of open parentheses."""

    keywords: Mapping[str, TokenType] = {**KEYWORDS, "INTERVAL": TokenType.INTERVAL}

    def __init__(self, text: str, lexemes: Sequence[Lexeme]) -> None:
        self.text = text
        self.lexemes = lexemes
        self.tokens: list[Token] = []
        self.open: list[tuple[Lexeme, str]] = []  # the parenthesis, and the form that it belongs to
        self.between = [0]  # per level, the BETWEENs without their AND yet
        self.compared = [False]  # per level, whether there is a comparison since the last AND, OR or comma
        self.when = [False]  # per level, whether this is the condition of a WHEN, before its THEN
        self.chains = [0]  # per open level, the operators since the last comma or connector: the depth of the tree
        self.position = 0
        self.wrapped: list[int] = []  # levels of grouping sets in which an element was parenthesized
        self.groups = False  # whether this is the GROUP BY clause
        self.expects_operand = True  # whether the next lexeme begins an operand

    def run(self) -> list[Token]:
        while (lexeme := self.lexemes[self.position]).kind is not TokenKind.END:
            following = self.lexemes[self.position + 1]
            reading_time.check()
            self._check_operand(lexeme, following)
            called = self.expects_operand and following.is_op("(") and lexeme.is_word(*_CALLABLE)
            # NOT before an operand negates it; elsewhere it is part of NOT IN and the like
            self.expects_operand = self._wants_operand(lexeme) and (self.expects_operand or not lexeme.is_word("NOT"))
            self.position += 1
            if called:
                self._function(lexeme)
                continue
            if lexeme.is_name:
                self._name(lexeme, following)
            elif lexeme.kind is TokenKind.OP:
                self._operator(lexeme)
            else:
                self._literal(lexeme)
        if self.open:
            raise syntax_error(self.text, self.open[-1][0].start, "this parenthesis is not closed")
        return self.tokens

    def _names_file(self, lexeme: Lexeme) -> bool:
        """Whether a string is allowed in place of a table."""
        return False

    def _literal(self, lexeme: Lexeme) -> None:
        number = lexeme.kind is TokenKind.NUMBER
        self._emit(TokenType.NUMBER if number else TokenType.STRING, str(lexeme.literal), lexeme)

    def _emit(self, kind: TokenType, text: str, lexeme: Lexeme) -> None:
        if (self.between[-1] or self.when[-1]) and kind in _BEGINS_OPERAND and self._is_after_operand():
            message = f"expected AND between the bounds of BETWEEN, found {lexeme.shown}; write x BETWEEN low AND high"
            if not self.between[-1]:
                message = f"expected THEN after the condition of WHEN, found {lexeme.shown}; write WHEN condition THEN value"
            raise syntax_error(self.text, lexeme.start, message)
        end = lexeme.start + max(len(lexeme.source), 1) - 1
        self.tokens.append(Token(kind, text, 1, lexeme.start, lexeme.start, end))

    def _is_after_operand(self) -> bool:
        """Whether the last token ends an operand; a function name does not, its parenthesis follows."""
        last = self.tokens[-1]
        return last.token_type in _ENDS_OPERAND and not last.text.startswith(FUNCTION_MARK)

    def _is_after_is(self) -> bool:
        """Whether IS or IS NOT precedes the current lexeme."""
        words = [
            lexeme.text
            for lexeme in self.lexemes[max(0, self.position - 3) : self.position - 1]
            if lexeme.kind is TokenKind.WORD
        ]
        return words[-1:] == ["IS"] or words == ["IS", "NOT"]

    def _name(self, lexeme: Lexeme, following: Lexeme) -> None:
        after_dot = bool(self.tokens) and self.tokens[-1].token_type is TokenType.DOT
        if lexeme.kind is TokenKind.WORD and not after_dot:
            if following.kind is TokenKind.STRING and _is_text_prefix(lexeme, following):
                self._prefixed(lexeme, following)
                return
            if lexeme.text == "U" and following.is_op("&"):
                self._unicode(lexeme)
                return
            if following.kind is TokenKind.STRING and lexeme.text == "ESCAPE":
                self._emit(TokenType.ESCAPE, "ESCAPE", lexeme)
                self.expects_operand = True
                return
            if lexeme.is_word("SYMMETRIC", "ASYMMETRIC") and self.tokens and self.tokens[-1].token_type is TokenType.BETWEEN:
                self._emit(TokenType.VAR, lexeme.text, lexeme)
                self.expects_operand = True
                return
            if lexeme.is_word("AT") and following.is_word("TIME"):
                raise syntax_error(
                    self.text, lexeme.start, "AT TIME ZONE is not supported; write toDateTime(x, 'pattern', 'zone')"
                )
            if lexeme.is_word("UNKNOWN") and self._is_after_is():
                self._emit(TokenType.NULL, "NULL", lexeme)
                return
            form = self.open[-1][1] if self.open else ""
            if form in _FORMS and self._inside_form(form, lexeme):
                return
            if self.is_keyword_here(lexeme, following):
                self._keyword(lexeme, following)
                return
        if following.is_op("(") and not after_dot and self.is_call(lexeme, following):
            if lexeme.is_word("FILTER") and self.lexemes[self.position - 2].is_op(")"):
                self._emit(TokenType.FILTER, "FILTER", lexeme)
            elif lexeme.is_word("ROLLUP", "CUBE") and self.groups:
                self._emit(_SETS[lexeme.text], lexeme.text, lexeme)
            else:
                self._function(lexeme)
        elif lexeme.is_word("GROUPING") and following.is_word("SETS") and self.groups and not after_dot:
            self.position += 1
            self._emit(_SETS[lexeme.text], GROUPING_SETS, lexeme)
        else:
            self._emit(self.name_type(lexeme), lexeme.name, lexeme)

    # hooks for a dialect with more clauses

    def is_keyword_here(self, lexeme: Lexeme, following: Lexeme) -> bool:
        """Whether a word is a keyword in its position; `following` is the next lexeme."""
        is_interval = lexeme.text == "INTERVAL" and (following.literal >= 0 or following.is_op("-"))
        return lexeme.text in KEYWORDS or is_interval

    def begin_keyword(self, lexeme: Lexeme, following: Lexeme) -> None:
        """Handle a keyword of the other dialect only."""

    def is_call(self, lexeme: Lexeme, following: Lexeme) -> bool:
        """Whether a name before a parenthesis is a function."""
        return True

    def name_type(self, lexeme: Lexeme) -> TokenType:
        """Return the token type of a name."""
        return TokenType.IDENTIFIER

    def begin_clause(self) -> None:
        """Reset the state of the previous clause."""
        self.between[-1] = 0
        self.chains[-1] = 0
        self.compared[-1] = False

    def _prefixed(self, prefix: Lexeme, text: Lexeme) -> None:
        """Handle the word before a string that determines its type; here the string is an ordinary one."""

    def _unicode(self, lexeme: Lexeme) -> None:
        """Convert a string with Unicode escapes, which follows the current `&`, to a call."""
        last = len(self.lexemes) - 1
        text, word, escape = (self.lexemes[min(self.position + ahead, last)] for ahead in (1, 2, 3))
        self._emit(TokenType.IDENTIFIER, f"{FUNCTION_MARK}unistr", lexeme)
        self._emit(TokenType.L_PAREN, "(", lexeme)
        self._emit(TokenType.STRING, str(text.literal), text)
        self.position += 2
        if word.is_word("UESCAPE"):
            if escape.kind is not TokenKind.STRING:
                raise syntax_error(
                    self.text, escape.start, f"expected a character in quotes after UESCAPE, found {escape.shown}"
                )
            self._emit(TokenType.COMMA, ",", word)
            self._emit(TokenType.STRING, str(escape.literal), escape)
            self.position += 2
        self._emit(TokenType.R_PAREN, ")", text)

    def _keyword(self, lexeme: Lexeme, following: Lexeme) -> None:
        if lexeme.text in ("GROUP", "ORDER"):
            if not following.is_word("BY"):
                raise syntax_error(self.text, following.start, f"expected BY after {lexeme.text}, found {following.shown}")
            self.position += 1
            first = self.lexemes[self.position]
            if not _may_begin_operand(following, first, self.lexemes[min(self.position + 1, len(self.lexemes) - 1)]):
                raise self._missing_operand(following, first)
            self.expects_operand = True
        of_table = lexeme.text == "FROM" and self.tokens[-1].token_type is not TokenType.DISTINCT  # no IS DISTINCT FROM
        named = following.is_name and not is_keyword(following)
        if (of_table or lexeme.text == "AS") and not named and not following.is_op("(") and not self._names_file(following):
            what = "a table name" if lexeme.text == "FROM" else "an alias"
            message = f"expected {what} after {lexeme.text}, found {following.shown}"
            if following.is_name:
                message += f'; quote a name that is a keyword: "{following.source}"'
            raise syntax_error(self.text, following.start, message)
        self._check_form(lexeme, following)
        if lexeme.text in _DEEPER:
            self._deepen(lexeme)
            self.between[-1] += lexeme.text == "BETWEEN"
        elif lexeme.text == "AND" and self.between[-1]:
            self.between[-1] -= 1
        elif lexeme.text in _SEPARATORS:
            self.begin_clause()
            if lexeme.text not in ("AND", "OR"):
                self.when[-1] = lexeme.text == "WHEN"
            if lexeme.text in ("GROUP", "HAVING", "ORDER"):
                self.groups = lexeme.text == "GROUP"
        if lexeme.text not in KEYWORDS:
            self.begin_keyword(lexeme, following)
        self._emit(self.keywords[lexeme.text], lexeme.text, lexeme)
        if lexeme.text == "CASE":
            self._enter()
        elif lexeme.text == "END" and len(self.chains) > len(self.open) + 1:
            self._leave()

    def _check_form(self, lexeme: Lexeme, following: Lexeme) -> None:
        """Reject forms that the parser would misinterpret, or report in its own words."""
        if lexeme.text == "IN" and not following.is_op("("):
            message = f"IN takes a list of values in parentheses, as in x IN (1, 2), found {following.shown}"
        elif lexeme.text in ("ASC", "DESC") and following.is_word("ASC", "DESC"):
            message = f"a key of ORDER BY must be either ASC or DESC, found {following.shown} after {lexeme.shown}"
        elif lexeme.text == "IS" and not following.is_word("NOT", "NULL", "UNKNOWN", "TRUE", "FALSE", "DISTINCT"):
            message = f"expected [NOT] NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM after IS, found {following.shown}"
        elif lexeme.text == "IS" and self.compared[-1]:  # the parser applies it to the last operand, SQL to the condition
            message = "put a comparison before IS in parentheses, as in (a > 1) IS NOT NULL"
        elif (
            lexeme.text == "NOT"
            and self.lexemes[self.position - 2].is_word("IS")
            and not following.is_word("NULL", "UNKNOWN", "TRUE", "FALSE", "DISTINCT")
        ):
            message = f"expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM after IS NOT, found {following.shown}"
        else:
            return
        raise syntax_error(self.text, following.start, message)

    def _function(self, lexeme: Lexeme) -> None:
        name = lexeme.name
        folded = name.lower() if lexeme.kind is TokenKind.WORD else ""
        parenthesis = self.lexemes[self.position]
        self.position += 1
        is_separated = folded in _SEPARATED and self._has_word(_SEPARATED[folded][0])
        form = folded if folded in ("cast", "extract") or is_separated else ""
        if folded == "trim" and self._has_word("FROM"):
            form = name = TRIM_FROM
        self._emit(TokenType.IDENTIFIER, FUNCTION_MARK + name, lexeme)
        self._open(parenthesis, form)
        self.expects_operand = True
        first = self.lexemes[self.position]
        if first.is_word("ALL") and is_aggregate(name) and _is_value(self.lexemes[self.position + 1]):
            self.position += 1  # `SUM(ALL x)` equals SUM(x)
        if form == TRIM_FROM:
            side = first.text if first.is_word("BOTH", "LEADING", "TRAILING") else "BOTH"
            self.position += first.is_word("BOTH", "LEADING", "TRAILING")
            self._emit(TokenType.STRING, CONSTANT_MARK + side, first)
            self._emit(TokenType.COMMA, ",", first)
        elif form == "extract" and first.is_name and self.lexemes[self.position + 1].is_word("FROM"):
            self._emit(TokenType.STRING, CONSTANT_MARK + first.text, first)
            self.position += 1

    def _deepen(self, lexeme: Lexeme) -> None:
        """Count a level of the tree, over which the parser and its consumers recurse."""
        self.chains[-1] += 1
        if sum(self.chains) > DEPTH_MAX:
            raise syntax_error(self.text, lexeme.start, f"the expression is nested deeper than {DEPTH_MAX}")

    def _enter(self) -> None:
        self.chains.append(0)
        self.between.append(0)
        self.compared.append(False)
        self.when.append(False)

    def _leave(self) -> None:
        self.chains.pop()
        self.between.pop()
        self.compared.pop()
        self.when.pop()

    def _open(self, lexeme: Lexeme, form: str) -> None:
        self._deepen(lexeme)
        self._emit(TokenType.L_PAREN, "(", lexeme)
        self.open.append((lexeme, form))
        self._enter()

    def _has_word(self, word: str) -> bool:
        """Whether the arguments contain a keyword outside of inner parentheses."""
        depth = 0
        for lexeme in self.lexemes[self.position :]:
            if depth == 0 and lexeme.is_word(word):
                return True
            depth += lexeme.is_op("(") - lexeme.is_op(")")
            if depth < 0:
                return False
        return False

    def _inside_form(self, form: str, lexeme: Lexeme) -> bool:
        """Handle the keyword that separates the parts of a special form; return whether it was one."""
        if form == "cast" and lexeme.text == "AS":
            self._emit(TokenType.COMMA, ",", lexeme)
            words: list[str] = []
            while (part := self.lexemes[self.position]).is_name and not part.source.startswith("'"):
                words.append(part.name.upper())
                self.position += 1
            precision: list[Lexeme] = []
            if words and part.is_op("("):
                precision, part = self._past_precision()
            if not words or not part.is_op(")"):
                raise syntax_error(self.text, part.start, f"expected a type name after AS, found {part.shown}")
            name = plain_type_name("_".join(words))
            self._emit(TokenType.STRING, CONSTANT_MARK + name, lexeme)
            self.limit_type(name, precision)
            return True
        if lexeme.text in _SEPARATED.get(form, ()):
            following = self.lexemes[self.position]
            if following.is_op(")", ","):
                raise self._missing_operand(lexeme, following)
            self._emit(TokenType.COMMA, ",", lexeme)
            return True
        if form in ("extract", TRIM_FROM) and lexeme.text == "FROM":
            # `TRIM(LEADING FROM x)` has no characters: the comma after the side was already emitted
            if self.tokens[-1].token_type is not TokenType.COMMA:
                self._emit(TokenType.COMMA, ",", lexeme)
            return True
        return False

    def limit_type(self, name: str, precision: Sequence[Lexeme]) -> None:
        """Emit the length or precision of a type, given as its numbers; types have no such limits here."""

    def _past_precision(self) -> tuple[list[Lexeme], Lexeme]:
        """Skip the length or precision of a type, `VARCHAR(20)` or `DECIMAL(10, 2)`; return it, and the next lexeme."""
        self.position += 1
        precision: list[Lexeme] = []
        while self.lexemes[self.position].kind is TokenKind.NUMBER or self.lexemes[self.position].is_op(","):
            precision += [self.lexemes[self.position]] if self.lexemes[self.position].kind is TokenKind.NUMBER else []
            self.position += 1
        closing = self.lexemes[self.position]
        if not closing.is_op(")"):
            raise syntax_error(self.text, closing.start, f"expected the length of the type and ), found {closing.shown}")
        self.position += 1
        return precision, self.lexemes[self.position]

    def _operator(self, lexeme: Lexeme) -> None:
        if lexeme.text == "(":
            of_sets = bool(self.tokens) and self.tokens[-1].token_type in _SETS.values()
            self._open(lexeme, GROUPING_SETS if of_sets else "")
            self._begin_element(lexeme)
            return
        if lexeme.text == ")":
            if not self.open:
                raise syntax_error(self.text, lexeme.start, "this parenthesis has no opening one")
            self._end_element(lexeme)
            self.open.pop()
            self._leave()
        elif lexeme.text == ",":
            self._end_element(lexeme)
            self.chains[-1] = 0
            self.compared[-1] = False
        else:
            self._deepen(lexeme)
            self.compared[-1] |= lexeme.text in _CONDITIONS
        kind = _OPERATORS.get(lexeme.text)
        if kind is None:
            raise syntax_error(self.text, lexeme.start, f"unexpected {lexeme.shown}")
        self._emit(kind, lexeme.text, lexeme)
        if lexeme.text == ",":
            self._begin_element(lexeme)

    def _begin_element(self, lexeme: Lexeme) -> None:
        """Parenthesize a condition among grouping sets: the parser accepts nothing that binds less than `+` there."""
        if not self.open or self.open[-1][1] != GROUPING_SETS:
            return
        at = self.position
        while not (following := self.lexemes[at]).is_op(")", ",") and following.kind is not TokenKind.END:
            if following.is_op(*_CONDITIONS) or following.is_word("NOT", "IS", *_CALLABLE):
                self.wrapped.append(len(self.open))
                self._emit(TokenType.L_PAREN, "(", lexeme)
                return
            at = self._closings.get(at, at) + 1

    @cached_property
    def _closings(self) -> dict[int, int]:
        """Index of the lexeme that closes each parenthesis; unclosed ones end before END."""
        closings, unclosed = {}, []
        for at, lexeme in enumerate(self.lexemes):
            if lexeme.is_op("("):
                unclosed.append(at)
            elif lexeme.is_op(")") and unclosed:
                closings[unclosed.pop()] = at
        return closings | dict.fromkeys(unclosed, len(self.lexemes) - 2)

    def _end_element(self, lexeme: Lexeme) -> None:
        if self.wrapped and self.wrapped[-1] == len(self.open):
            self.wrapped.pop()
            self._emit(TokenType.R_PAREN, ")", lexeme)

    def _check_operand(self, lexeme: Lexeme, following: Lexeme) -> None:
        after = self.lexemes[min(self.position + 2, len(self.lexemes) - 1)]
        if not self._wants_operand(lexeme) or _may_begin_operand(lexeme, following, after):
            return
        if lexeme.is_op("(") and following.is_op(")") and self.open and self.open[-1][1] == GROUPING_SETS:
            return  # the empty grouping set
        raise self._missing_operand(lexeme, following)

    def _wants_operand(self, lexeme: Lexeme) -> bool:
        previous = self.lexemes[self.position - 1] if self.position else None
        if lexeme.kind is TokenKind.OP:
            if lexeme.text == "*":  # `SELECT *`, `COUNT(*)`, `t.*`: not a multiplication
                return not (previous is None or previous.is_op("(", ",", ".") or previous.is_word("SELECT", "DISTINCT"))
            if lexeme.text == "(":
                return previous is None or not previous.is_name or is_keyword(previous)
            return lexeme.text not in (")", "]", ".", ";")
        if lexeme.is_word("DISTINCT", "NOT") and previous is not None and previous.is_word("IS", "NOT"):
            return False  # IS [NOT] DISTINCT FROM
        return lexeme.kind is TokenKind.WORD and lexeme.text in _BEFORE_OPERAND and lexeme.text not in ("GROUP", "ORDER")

    def _missing_operand(self, lexeme: Lexeme, following: Lexeme) -> QueryError:
        message = f"expected an expression after {lexeme.shown}, found {following.shown}{quoting_hint(following)}"
        if lexeme.is_op("=") and following.is_op("="):
            message += "; write equality with a single ="
        elif lexeme.is_op("-") and following.is_op(">"):
            message += "; to extract a part of a JSON text use JSON_EXTRACT_SCALAR(x, '$.key', 'STRING')"
        elif following.is_op("%"):
            message += "; this looks like a parameter without a value"
        return syntax_error(self.text, following.start, message)


def _is_value(lexeme: Lexeme) -> bool:
    """Whether a lexeme is or begins a value, so that the word before it is not a column."""
    return lexeme.literal >= 0 or lexeme.is_word("CASE") or (lexeme.is_name and not is_keyword(lexeme))


def _is_text_prefix(word: Lexeme, text: Lexeme) -> bool:
    return word.text in _TEXT_PREFIXES or (word.text in ("X", "N") and text.start == word.start + 1)


def _may_begin_operand(lexeme: Lexeme, following: Lexeme, after: Lexeme) -> bool:
    """Whether an operand of `lexeme` can begin at the following lexeme; `after` is the next one."""
    if following.kind is TokenKind.END:
        return False
    if following.kind is TokenKind.OP:
        return following.text in ("(", "-", "+") or (
            following.text == "*" and (lexeme.is_op("(", ",") or lexeme.is_word("SELECT", "DISTINCT"))
        )
    if following.kind is TokenKind.WORD:
        if (lexeme.is_word("NOT") or after.is_op("(")) and following.is_word(*_CALLABLE):
            return True
        return following.text not in _NO_OPERAND
    return True

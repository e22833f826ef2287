"""Compiles SQL text to the query model.

1. `gamay.sql.options.options.split_trailing_option` cuts OPTION(…) off the end.
2. `gamay.sql.text.slots.lift_literals` cuts the literals out; the rest, with the pattern of equal literals, identifies the
   template.
3. `gamay.sql.template.compile_template` compiles a new template with the current literals as slots:
   `gamay.sql.text.lexer.lex`, `gamay.sql.text.tokens.to_tokens`, sqlglot's parser,
   `gamay.sql.translate.expressions.Translator`, `gamay.sql.translate.statement.parse_statement`,
   `gamay.sql.translate.rewrite.rewrite`. A new text with GAPFILL, which may nest, is compiled level by level instead
   (`gamay.sql.gapfill`). With the option `useMultistageEngine` a query of one table has relational semantics, and is
   compiled as a relational query.
4. A known template is filled with the new literals. Ordinals are part of the template; constants compared with columns in
   WHERE (`ts > ago('P1D')`, `a < 1 + 2`) are computed each time; a template with other computed constants keeps its
   statement and is rewritten each time.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from gamay.base.errors import ErrorCode, QueryError
from gamay.base.recently_used import RecentlyUsed
from gamay.functions.conditions import use_parser
from gamay.functions.expression import Expression, Literal
from gamay.sql.gapfill import parse_gapfill
from gamay.sql.options.option_values import MULTI_STAGE, check_options, flag
from gamay.sql.options.options import split_trailing_option
from gamay.sql.options.row_limits import STANDARD_LIMITS, RowLimits, with_limits
from gamay.sql.query import Query
from gamay.sql.template import Template, check_number_range, compile_template
from gamay.sql.text import reading_time
from gamay.sql.text.errors import nested_too_deeply, syntax_error
from gamay.sql.text.lexer import lex
from gamay.sql.text.slots import Lifted, lift_literals, without_slots
from gamay.sql.translate.expressions import canonical
from gamay.sql.translate.fold import Folder
from gamay.sql.translate.statement import parse_single_expression

TEMPLATES_WEIGHT_MAX = 1 << 20
"""Total weight of the cached templates; including what is bound for them, a unit takes 60 to 160 bytes."""

_CACHED_TEXT_MAX = 20_000
_GROOVY = re.compile(r"\s*groovy\s*\(", re.IGNORECASE)

_Key: TypeAlias = tuple[str, tuple[int, ...] | None]
"""Key and pattern of a `Lifted`."""


class PlanCache:
    """The most recently used templates; thread-safe. relational: compile queries of one table as relational ones.

    weight_max: limit on the total of `Template.weight`.
    """

    def __init__(self, weight_max: int = TEMPLATES_WEIGHT_MAX, *, relational: bool = False) -> None:
        self.relational = relational
        self._templates: RecentlyUsed[_Key | tuple[_Key, tuple[str, ...]], Template] = RecentlyUsed(weight_max)

    def __len__(self) -> int:
        return len(self._templates)

    def get(self, key: _Key, sources: Sequence[str]) -> Template | None:
        """Return the template of texts with the key, and with these literals where the plan depends on them."""
        return self._templates.get(self._place(key, sources))

    def put(self, key: _Key, sources: Sequence[str], template: Template) -> None:
        self._templates.put(self._place(key, sources), template, template.weight)

    def peek(self, key: _Key, sources: Sequence[str]) -> Template | None:
        """Like `get`, but faster: it does not mark the template as recently used."""
        first = self._templates.peek(key)
        return first if first is None or not first.ordinals else self._templates.peek(self._place(key, sources))

    def _place(self, key: _Key, sources: Sequence[str]) -> _Key | tuple[_Key, tuple[str, ...]]:
        """Return the key of a template: `key` for the first one, with the literals that the plan depends on for others."""
        first = self._templates.peek(key)
        if first is None or first.has_ordinals(sources):
            return key
        return key, tuple([sources[i] for i, _ in first.ordinals])


_shared_plans = PlanCache()
_level_plans = PlanCache(TEMPLATES_WEIGHT_MAX // 16)
_relational_plans = PlanCache(relational=True)


def parse_query(
    text: str,
    options: Mapping[str, str] | None = None,
    limits: RowLimits = STANDARD_LIMITS,
    *,
    plans: PlanCache | None = None,
) -> Query:
    """Compile a request into a query.

    options: of the request, by stored name; SET and OPTION(…) in the text override them. limits: for LIMIT. Raises
    QueryError: SQL_PARSING with the position for a syntax error, QUERY_VALIDATION for an invalid function, LIMIT or option.
    """
    body, trailing = split_trailing_option(text)
    reading_time.heed(body, options, trailing)
    if plans is None:
        plans = _shared_plans
        if _asks_multi_stage(body, {**(options or {}), **trailing}):
            plans, limits = _relational_plans, limits._replace(absent=limits.most)
    lifted = lift_literals(body)
    reading_time.check()
    literals = lifted.literals()
    key = (lifted.key, lifted.pattern)
    template = plans.get(key, lifted.sources)
    if template is None or not template.fits(literals):
        gapfilled = None if plans is _level_plans else parse_gapfill(text, options, partial(_parse_level, limits=limits))
        if gapfilled is not None:
            return gapfilled
        template = _compiled(body, lifted, literals, relational=plans.relational)
        if len(body) <= _CACHED_TEXT_MAX:
            plans.put(key, lifted.sources, template)
    reading_time.check()
    query = template.fill(literals)
    if query.relational is None:
        if limits is not STANDARD_LIMITS:
            query = with_limits(query, limits)
        # The results of the broker's functions determine the final query; nothing is cached for long texts.
        if not query.asks_broker and len(body) <= _CACHED_TEXT_MAX:
            query.shape = template.shape(lifted.sources, limits)
    if not options and not trailing and template.fill_options is None:
        return query
    merged = {**(options or {}), **trailing}
    if template.fill_options is not None:
        merged |= template.fill_options(literals)
    check_options(merged)
    return replace(query, options=merged)


template_of = _shared_plans.peek
"""Returns the cached template of a text without options, or None."""


def _compiled(body: str, lifted: Lifted, literals: Sequence[Literal], *, relational: bool) -> Template:
    """Compile a new text; invalid Unicode or too deep nesting is a syntax error."""
    try:
        body.encode()
    except UnicodeEncodeError as error:
        message = "The query is not valid Unicode: it has an unpaired surrogate"
        raise syntax_error(body.encode(errors="replace").decode(), error.start, message) from None
    try:
        return compile_template(body, lifted, literals, relational=relational)
    except RecursionError:
        raise nested_too_deeply() from None


def _asks_multi_stage(body: str, options: Mapping[str, str]) -> bool:
    """Whether the option is on, which must be known before compiling; SET overrides options given beside the text."""
    chosen = flag(options, MULTI_STAGE)
    if MULTI_STAGE.lower() in body.lower():
        lexemes = lex(body)
        for place, lexeme in enumerate(lexemes[:-3]):
            if lexeme.is_word("SET") and lexemes[place + 1].text.lower() == MULTI_STAGE.lower():
                chosen = lexemes[place + 3].text.lower().strip("'") == "true"
    return chosen


def _parse_level(text: str, options: Mapping[str, str] | None, limits: RowLimits) -> Query:
    """Compile one of the queries that GAPFILL combines, with separate templates: on its own the text has another meaning."""
    return parse_query(text, options, limits, plans=_level_plans)


def parse_expression(text: str) -> Expression:
    """Parse a single expression, as in ingestion transforms and filters; raises QueryError."""
    if _GROOVY.match(text):  # the rest is not SQL
        advice = "Groovy is not supported; write the expression in SQL, e.g. concat(a, '-', b)"
        raise QueryError(ErrorCode.SQL_PARSING, advice)
    return _folded(parse_unfolded(text))


def _parse_condition(text: str) -> Expression:
    """Parse a condition that is a text argument of a function; its names may contain dots."""
    return _folded(parse_unfolded(text, None))


def _folded(written: Expression) -> Expression:
    expression = canonical(Folder().fold(written))
    check_number_range(expression)
    return without_slots(expression)


def parse_unfolded(text: str, qualifiers: frozenset[str] | None = frozenset()) -> Expression:
    """Parse a single expression without folding: calls of constants are not computed, and literals are slots."""
    lifted = lift_literals(text)
    return parse_single_expression(text, lifted.slots(lifted.literals()), qualifiers)


use_parser(_parse_condition)

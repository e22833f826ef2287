"""Display of time columns stored as numbers: detection of such result columns, and formatting as dates."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gamay.base.errors import GamayError, QueryError
from gamay.model.schema.datetime_format import DateTimeFormat, DateTimeKind
from gamay.shell.catalog import Catalog
from gamay.sql.text.lexer import Lexeme, TokenKind, lex

NUMBERS = ("INT", "LONG", "FLOAT", "DOUBLE")
_KEEPING = ("MIN", "MAX", "FIRSTWITHTIME", "LASTWITHTIME")  # functions that return a time for a time column
_DAY_MS = 86_400_000


def shown_rows(
    sql: str, columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], catalog: Catalog
) -> Sequence[Sequence[Any]]:
    """Return rows with the times of number columns as text: `2013-01-31`, `2013-01-31 10:00:00`."""
    formats = time_columns(sql, columns, types, catalog)
    if not formats or not rows:
        return rows
    return [tuple(_shown(v, formats[i]) if i in formats else v for i, v in enumerate(row)) for row in rows]


def time_columns(sql: str, columns: Sequence[str], types: Sequence[str], catalog: Catalog) -> Mapping[int, DateTimeFormat]:
    """Return the formats of those result columns that are time columns of a table of the statement, by number.

    A result column is one when it is selected as it is, under any alias, or is the MIN or MAX of one.
    """
    known: dict[str, str] = {}
    for table in tables_of(sql):
        known |= {c.name: c.format for c in catalog.columns(table) if c.format and c.format != "TIMESTAMP"}
    if not known:
        return {}
    sources = _sources(sql) or list(columns)
    if len(sources) != len(columns):
        sources = list(columns)
    found: dict[int, DateTimeFormat] = {}
    for i, (source, kind) in enumerate(zip(sources, types, strict=True)):
        if kind in NUMBERS and source in known:
            try:
                found[i] = DateTimeFormat.parse(known[source])
            except GamayError:
                continue  # a format written by an older release: its numbers stay numbers
    return found


def tables_of(sql: str) -> list[str]:
    """Return the names after FROM and JOIN, including comma-separated ones; the statement may be incomplete."""
    lexemes = _lexemes(sql)
    names: list[str] = []
    expects = listed = False
    i = 0
    while i < len(lexemes):
        lexeme = lexemes[i]
        if lexeme.is_word("FROM", "JOIN"):
            expects, listed = True, lexeme.text == "FROM"
        elif expects and lexeme.is_name:
            parts = [lexeme.name]
            while i + 2 < len(lexemes) and lexemes[i + 1].is_op(".") and lexemes[i + 2].is_name:
                parts.append(lexemes[i + 2].name)
                i += 2
            names.append(".".join(parts).removeprefix("default."))
            expects = False
        elif listed and lexeme.is_op(","):
            expects = True
        elif lexeme.kind is not TokenKind.QUOTED and not lexeme.is_word("AS"):
            expects = False
            listed = (
                listed
                and lexeme.kind is TokenKind.WORD
                and not lexeme.is_word("WHERE", "GROUP", "ORDER", "LIMIT", "SELECT", "ON")
            )
        i += 1
    return names


def _lexemes(sql: str) -> list[Lexeme]:
    try:
        return lex(sql)
    except QueryError:  # an unclosed quote: lex the text before it
        cut = max(sql.rfind("'"), sql.rfind('"'), sql.rfind("/*"))
        return [] if cut < 0 else _lexemes(sql[:cut])


def _sources(sql: str) -> list[str]:
    """Return the column of each item of the select list, '' for computed ones; empty if there is a `*`."""
    lexemes = _lexemes(sql)
    start = next((i for i, one in enumerate(lexemes) if one.is_word("SELECT")), None)
    if start is None:
        return []
    items: list[list[Lexeme]] = [[]]
    depth = 0
    for lexeme in lexemes[start + 1 :]:
        depth += lexeme.is_op("(") - lexeme.is_op(")")
        if depth == 0 and (lexeme.is_word("FROM") or lexeme.kind is TokenKind.END):
            break
        if depth == 0 and lexeme.is_op(","):
            items.append([])
        else:
            items[-1].append(lexeme)
    if any(item and item[-1].is_op("*") for item in items):
        return []
    return [_source(item) for item in items]


def _source(item: list[Lexeme]) -> str:
    if item and item[0].is_word("DISTINCT"):
        item = item[1:]
    if len(item) >= 3 and item[-2].is_word("AS"):
        item = item[:-2]
    elif len(item) >= 2 and item[-1].is_name and not item[-2].is_op("."):
        item = item[:-1]
    if len(item) >= 4 and item[0].is_word(*_KEEPING) and item[1].is_op("("):
        end = next((i for i, one in enumerate(item) if one.is_op(",", ")")), len(item))
        item = item[2:end]
    if len(item) == 3 and item[1].is_op("."):
        item = item[2:]
    return item[0].name if len(item) == 1 and item[0].is_name else ""


def _shown(value: Any, form: DateTimeFormat) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int):
        return value
    try:
        millis = form.to_millis(value)
        moment = datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return value  # out of a date's range: a default value, or wrong data
    whole_days = form.kind is DateTimeKind.EPOCH and form.unit.to_millis(form.size) >= _DAY_MS
    if whole_days or (form.kind is DateTimeKind.SIMPLE_DATE_FORMAT and millis % _DAY_MS == 0):
        return f"{moment:%Y-%m-%d}"
    return moment_text(moment)


def moment_text(moment: datetime) -> str:
    """Return a timestamp in UTC as text, with fractional seconds if they are not 0.

    >>> moment_text(datetime(2024, 5, 1, 10, 0, 0, 500_000, UTC))
    '2024-05-01 10:00:00.5'
    """
    plain = moment.replace(tzinfo=None, microsecond=0).isoformat(" ")
    return plain if not moment.microsecond else f"{plain}.{moment.microsecond:06d}".rstrip("0")

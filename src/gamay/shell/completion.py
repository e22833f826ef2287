"""Completion at the cursor: keywords, tables, columns of the tables in the statement, functions. Pure functions.

In: the text before the cursor, the text after it, and a catalog. Out: candidates, the likeliest first.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gamay.shell.catalog import Catalog, Column
from gamay.shell.dates import tables_of
from gamay.shell.statements import split
from gamay.sql.text.lexer import COMMENT, QUOTED, STRING, WORD_CHAR, lex
from gamay.sql.text.tokens import is_keyword

_WORD = re.compile(rf"(?:{WORD_CHAR}|\.)*\Z|\"[^\"]*\Z")
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
_WITHIN_FROM = 3  # characters: shorter ones occur in too many names
_TABLE_BEHIND = ("FROM", "JOIN", "DESCRIBE", "DESC", "TABLE", "INTO")
_PHRASES = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "OFFSET", "AND", "OR", "NOT", "IN", "BETWEEN",
    "LIKE", "IS NULL", "IS NOT NULL", "NULL", "TRUE", "FALSE", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "ASC",
    "DESC", "DISTINCT", "JOIN", "LEFT JOIN", "INNER JOIN", "FULL JOIN", "CROSS JOIN", "ON", "USING", "UNION ALL",
    "UNION", "INTERSECT", "EXCEPT", "WITH", "OVER", "PARTITION BY", "EXPLAIN PLAN FOR", "SHOW TABLES", "DESCRIBE",
    "SET", "FILTER (WHERE", "CAST", "EXTRACT", "INTERVAL", "NULLS FIRST", "NULLS LAST", "EXISTS", "TABLESAMPLE",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Candidate:
    """A completion. text: replaces the last `length` characters before the cursor; meta: what it is."""

    text: str
    length: int
    meta: str
    shown: str


def complete(before: str, behind: str, catalog: Catalog, functions: Sequence[str]) -> list[Candidate]:
    """Return the candidates at the cursor. before, behind: the text on both sides of it."""
    statements = split(before)
    if statements and not statements[-1].is_closed:
        before = before[statements[-1].start :]
    elif statements:
        before = ""
    if _in_text_or_comment(before):
        return []
    word = (_WORD.search(before) or [""])[0]
    prefix = word.lstrip('"')
    rest = split(behind)
    after = behind[: rest[0].start + len(rest[0].text)] if rest and not behind.lstrip().startswith(";") else ""
    sql = f"{before[: len(before) - len(word)]} {after}"  # without the current word, which may have an unclosed quote
    tables = tables_of(sql)
    if "." in prefix:
        owner, _, part = prefix.rpartition(".")
        table = _aliases(sql, tables).get(owner.lower(), owner)
        return _matching(part, _columns(catalog.columns(table))) or _matching(prefix, _tables(catalog))
    head = before[: len(before) - len(word)].split()
    if head and head[-1].upper() in _TABLE_BEHIND:
        return _matching(word, _tables(catalog), quoted='"' in word)
    named = tables or (list(catalog.tables) if word else [])  # SELECT is written before FROM
    columns = [column for table in named for column in catalog.columns(table)]
    found = _matching(word, _columns(columns), quoted='"' in word)
    if '"' in word:
        return found
    if not word and not columns:
        return _matching(
            "", ((phrase, "", phrase) for phrase in ("SELECT", "SHOW TABLES", "DESCRIBE", "EXPLAIN PLAN FOR", "WITH"))
        )
    found += _matching(word, ((phrase, "", phrase) for phrase in _PHRASES)) if word else []
    if word:
        found += _matching(word, ((f"{name}(", "function", name) for name in functions))
        found += _matching(word, _tables(catalog))
    return found


def _in_text_or_comment(text: str) -> bool:
    rest = re.sub(
        rf"{COMMENT}|{STRING}|{QUOTED}", lambda m: "" if m.end() < len(text) or not m[0].startswith("--") else "--", text
    )
    return "'" in rest or "--" in rest or "/*" in rest


def _columns(columns: Sequence[Column]) -> Iterator[tuple[str, str, str]]:
    for column in columns:
        yield name_text(column.name), column.shown_type, column.name


def _tables(catalog: Catalog) -> Iterator[tuple[str, str, str]]:
    for name in catalog.tables:
        yield ".".join(map(name_text, name.split("."))), "table", name


def name_text(name: str) -> str:
    """Return a name for use in a statement, quoted if necessary.

    >>> name_text("city"), name_text("order"), name_text("a b")
    ('city', '"order"', '"a b"')
    """
    if _PLAIN_NAME.fullmatch(name) and not is_keyword(lex(name)[0]):
        return name
    return '"' + name.replace('"', '""') + '"'


def _matching(
    word: str, known: "Iterator[tuple[str, str, str]] | Sequence[tuple[str, str, str]]", *, quoted: bool = False
) -> list[Candidate]:
    """Return those that begin with a word, ignoring case, then those that contain it. known: text, meta, name."""
    wanted = word.strip('"').lower()
    begins, contains = [], []
    for text, meta, name in known:
        folded = name.lower()
        made = f'"{name}"' if quoted and not text.startswith('"') else text
        if folded.startswith(wanted):
            begins.append(Candidate(made, len(word), meta, name))
        elif len(wanted) >= _WITHIN_FROM and wanted in folded:
            contains.append(Candidate(made, len(word), meta, name))
    unique = {one.text: one for one in reversed(begins + contains)}
    return list(reversed(unique.values()))


def _aliases(sql: str, tables: Sequence[str]) -> dict[str, str]:
    """Return the tables that aliases stand for, by the alias in lower case."""
    found = {table.lower(): table for table in tables}
    for table in tables:
        for match in re.finditer(rf"\b{re.escape(table)}\"?\s+(?:AS\s+)?([A-Za-z_]\w*)", sql, re.IGNORECASE):
            found.setdefault(match[1].lower(), table)
    return found

"""Errors with a position in the SQL text."""

from gamay.base.errors import ErrorCode, QueryError

_CONTEXT_MAX = 100


def syntax_error(text: str, position: int, message: str, code: ErrorCode = ErrorCode.SQL_PARSING) -> QueryError:
    """Return an error at `text[position]`, with line, column, the line of SQL and a caret below it.

    >>> print(syntax_error("SELECT a\\nFROM", 13, "expected a table name"))
    expected a table name, at line 2, column 5:
      FROM
          ^
    """
    position = min(position, len(text))
    line_start = text.rfind("\n", 0, position) + 1
    line_end = text.find("\n", position)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    column = position - line_start
    shown, caret = _around(line, column)
    where = f"at line {text.count(chr(10), 0, position) + 1}, column {column + 1}"
    return QueryError(code, f"{message}, {where}:\n  {shown}\n  {' ' * caret}^")


def nested_too_deeply() -> QueryError:
    """Return the error for a query nested more deeply than this process can handle."""
    return QueryError(ErrorCode.SQL_PARSING, "The query is nested too deeply; write it with fewer levels")


def _around(line: str, column: int) -> tuple[str, int]:
    """Return the part of a long line around a column, and the column's offset in it."""
    line = line.rstrip().replace("\t", " ")
    if len(line) <= _CONTEXT_MAX:
        return line, column
    start = max(0, min(column - _CONTEXT_MAX // 2, len(line) - _CONTEXT_MAX))
    stop = start + _CONTEXT_MAX
    head = "…" if start else ""
    tail = "…" if stop < len(line) else ""
    return f"{head}{line[start:stop]}{tail}", column - start + len(head)

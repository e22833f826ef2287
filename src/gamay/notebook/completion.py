"""Completion in SQL cells, with the suggestions of the shell."""

from collections.abc import Callable
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from gamay.base.errors import GamayError
from gamay.shell.completion import complete
from gamay.shell.prompt import function_names
from gamay.shell.session import Session

_CELL, _LINE = "%%sql", "%sql"


def completer_of(session: Callable[[], Session]) -> Any:
    """Return an IPython matcher for cells and lines of SQL. session: returns the current session."""

    @context_matcher(identifier="gamay_sql")
    def matcher(context: CompletionContext) -> dict[str, Any]:
        parts = sql_parts(context.full_text, context.cursor_line, context.cursor_position)
        if parts is None:
            return {"completions": []}
        try:
            found = complete(*parts, session().catalog(), function_names())
        except GamayError:
            return {"completions": []}  # the cluster does not answer; running the cell will report why
        length = found[0].length if found else 0
        fragment = parts[0][len(parts[0]) - length :] if length else ""
        completions = [SimpleCompletion(text=one.text, type=one.meta) for one in found if one.length == length]
        return {"completions": completions, "matched_fragment": fragment, "suppress": True, "ordered": True}

    return matcher


def sql_parts(text: str, line: int, column: int) -> tuple[str, str] | None:
    """Return the SQL before and after the cursor, or None if it is not in SQL.

    >>> sql_parts("x = 1\\n%sql SELECT ci FROM t", 1, 14)
    ('SELECT ci', ' FROM t')
    """
    lines = text.split("\n")
    before = "\n".join([*lines[:line], lines[line][:column]])
    behind = "\n".join([lines[line][column:], *lines[line + 1 :]])
    if text.startswith(_CELL):
        return (before.partition("\n")[2], behind) if line > 0 else None
    marker = lines[line][:column].rfind(f"{_LINE} ")
    if marker < 0:
        return None
    start = marker + len(_LINE) + 1
    return lines[line][start:column], lines[line][column:]

"""Parsing of a `%sql` line or `%%sql` cell: the target, the name for the result, the statement and its parameters.
Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest
from gamay.client.literals import placeholders
from gamay.sql.text.lexer import COMMENT, QUOTED, STRING

_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*<<\s*")
_BRACES = re.compile(rf"{COMMENT}|{STRING}|{QUOTED}|\{{\{{(?P<expression>.*?)\}}\}}", re.DOTALL)
_PLACE = re.compile(r"@\S+|[A-Za-z][A-Za-z0-9+.-]*://\S+|:memory:|[\w.-]+:\d{1,5}")
_EXPRESSION = "expression_"  # prefix of the parameter names of {{…}}


@dataclass(frozen=True, slots=True)
class Cell:
    """A parsed cell. place: a target of `gamay.shell.target`, or the name of a variable; name: of the result."""

    place: str | None
    name: str | None
    sql: str


def read_cell(line: str, body: str, is_place: Callable[[str], bool]) -> Cell:
    """Read a cell: `[PLACE] [NAME <<] [STATEMENT]`, the statement also on the lines below.

    is_place: whether a word is a place in another form: a folder, or a variable with a database.

    >>> read_cell("http://localhost:9000 r << SELECT 1", "", lambda word: False)
    Cell(place='http://localhost:9000', name='r', sql='SELECT 1')
    """
    rest, place, name = line.strip(), None, None
    for _ in range(2):
        if name is None and (found := _NAMED.match(rest)):
            name, rest = found[1], rest[found.end() :]
        word, _, after = rest.partition(" ")
        unquoted = word.strip("'\"")
        if place is None and word and (_PLACE.fullmatch(word) or is_place(unquoted)):
            place, rest = unquoted, after.strip()
    if name is None and not rest and (found := _NAMED.match(body)):
        name, body = found[1], body[found.end() :]
    return Cell(place, name, f"{rest}\n{body}".strip() if rest else body.strip())


def bind_parameters(
    sql: str, variables: Mapping[str, Any], evaluate: Callable[[str], Any]
) -> tuple[str, dict[str, Any] | None]:
    """Return a statement and its parameters: `:name` is a variable, `{{expression}}` any expression of Python.

    Values become literals, whatever they contain. evaluate: computes an expression. Raises InvalidConfigError for an
    unknown variable, and the error of an expression.
    """
    values: dict[str, Any] = {}

    def parameter(found: "re.Match[str]") -> str:
        if found["expression"] is None:
            return found[0]
        name = f"{_EXPRESSION}{len(values)}"
        values[name] = evaluate(found["expression"].strip())
        return f":{name}"

    text = _BRACES.sub(parameter, sql)
    for key in placeholders(text).keys:
        if not isinstance(key, str):
            raise InvalidConfigError("a parameter is written :name or {{expression}} here: ? has no order to follow")
        if key not in values:
            if key not in variables:
                raise InvalidConfigError(f":{key} is not a variable of this notebook.{nearest(key, variables)}")
            values[key] = variables[key]
    return text, values or None

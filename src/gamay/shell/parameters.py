"""Parameters of the command line: `--param name=value` for `:name`, `--param value` for each `?` in turn."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.client.literals import placeholders
from gamay.shell.session import Parameters

_NAMED = re.compile(r"([A-Za-z_]\w*)?=(.*)", re.DOTALL)


def read_parameters(given: Sequence[str]) -> Parameters:
    """Return parameters by name, or as a list; None without any. `=value` is a value that has a `=` itself.

    Raises InvalidConfigError where both kinds are mixed.

    >>> read_parameters(["city=Oslo", "least=5", "id='5'"])
    {'city': 'Oslo', 'least': 5, 'id': '5'}
    """
    named: dict[str, Any] = {}
    listed: list[Any] = []
    for text in given:
        found = _NAMED.fullmatch(text)
        if found is not None and found[1]:
            named[found[1]] = value_of(found[2])
        else:
            listed.append(value_of(text if found is None else found[2]))
    if named and listed:
        raise InvalidConfigError("parameters are either all named, --param name=value, or none: --param value for each ?")
    return named or listed or None


def value_of(text: str) -> Any:
    """Parse a value: numbers, true, false, null and lists as in JSON, anything else and anything in quotes as text."""
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, dict | str) and not text.startswith('"') else value


class ParameterFeed:
    """Distributor of parameters to statements: named ones by name, positional ones by the number of `?`."""

    def __init__(self, given: Parameters) -> None:
        self._given = given
        self._used: set[Any] = set()
        self._next = 0

    def take(self, sql: str) -> Parameters:
        """Return the parameters of a statement; None for one without placeholders."""
        if self._given is None:
            return None
        keys = placeholders(sql).keys
        if not keys:
            return None
        if isinstance(self._given, Mapping):
            self._used |= set(keys)
            return {key: value for key, value in self._given.items() if key in keys}
        begin, self._next = self._next, self._next + len(keys)
        return self._given[begin : self._next]

    def check_all_used(self) -> None:
        """Raise InvalidConfigError for parameters that no statement used."""
        if isinstance(self._given, Mapping):
            left = [name for name in self._given if name not in self._used]
            if left:
                raise InvalidConfigError(f"no statement has :{left[0]}, which --param gives")
        elif self._given is not None and self._next < len(self._given):
            raise InvalidConfigError(f"the statements have {self._next} ?, but --param is given {len(self._given)} times")

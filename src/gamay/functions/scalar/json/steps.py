"""JSON paths: `$.a.b[0]`, `$['a']`, `$.items[*].id`, `$..id`, `$.a[1:3]`, `$.a[?(@.price < 10 && @.name)]`, `$.a.length()`.

The language is Jayway's (https://github.com/json-path/JsonPath). Step kinds, with their argument:

key     a name                     keys    several names
index   a position                 indexes several positions
slice   (first, last), each or None
all     None: every child          deep    None: the node and everything below it
where   a test of a child          apply   the name of a function of the node, such as `length` or `sum`
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import orjson

from gamay.base.errors import ErrorCode, QueryError
from gamay.base.recently_used import remembered
from gamay.functions.regex.matching import JavaPattern, compiled

Step: TypeAlias = tuple[str, Any]
Place: TypeAlias = tuple[str | int, ...]
Test: TypeAlias = Callable[[Any, Any], bool]
"""A test of a child, and of the whole document."""
Relation: TypeAlias = Callable[[Any, Any], bool]

MISSING = object()
_BRANCHING = frozenset({"all", "deep", "keys", "indexes", "slice", "where"})

_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "length": lambda node: len(node) if isinstance(node, list | dict | str) else MISSING,
    "size": lambda node: len(node) if isinstance(node, list | dict | str) else MISSING,
    "keys": lambda node: list(node) if isinstance(node, dict) else MISSING,
    "first": lambda node: node[0] if isinstance(node, list) and node else MISSING,
    "last": lambda node: node[-1] if isinstance(node, list) and node else MISSING,
    "min": lambda node: _of_numbers(node, min),
    "max": lambda node: _of_numbers(node, max),
    "sum": lambda node: _of_numbers(node, sum),
    "avg": lambda node: _of_numbers(node, _mean),
    "stddev": lambda node: _of_numbers(node, _deviation),
}
_NAME = r"[^.\[\]()\s]+"
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_STEP = re.compile(
    rf"(?P<deep>\.\.)|\.(?P<function>{'|'.join(_FUNCTIONS)})\(\)|\.index\(\s*(?P<at>-?\d+)\s*\)|\.(?P<name>\*|{_NAME}(?:\s+{_NAME})*)"
    rf"|\[\s*(?:(?P<keys>(?:{_QUOTED})(?:\s*,\s*(?:{_QUOTED}))*)|(?P<all>\*)"
    r"|(?P<slice>(?:-?\d+)?\s*:\s*(?:-?\d+)?)|(?P<indexes>-?\d+(?:\s*,\s*-?\d+)*))\s*\]"
)
_AFTER_DEEP = re.compile(rf"\*|{_NAME}")


@remembered()
def path_steps(path: str) -> tuple[Step, ...]:
    """Parse a path, whose `$` is optional; raises QueryError if it is invalid."""
    text = path.strip()
    if text.startswith("$"):
        position = 1
    else:
        position = 0
        text = text if text.startswith("[") else f".{text}"
    steps: list[Step] = []
    while position < len(text):
        if text.startswith(".[", position):  # `$.[0]` is accepted for `$[0]`
            position += 1
        if text.startswith("[?", position):
            test, position = _where(path, text, position)
            steps.append(("where", test))
            continue
        match = _STEP.match(text, position)
        if match is None:
            raise _no_path(path, text[position:])
        position = match.end()
        if match["deep"] is None:
            steps.append(_step(match))
            continue
        steps.append(("deep", None))
        named = _AFTER_DEEP.match(text, position)
        if named is not None:
            steps.append(("all", None) if named[0] == "*" else ("key", named[0]))
            position = named.end()
        elif not text.startswith("[", position):
            raise _no_path(path, text[position:])
    return tuple(steps)


def _no_path(path: str, rest: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"'{path}' is not a JSON path such as $.a.b[0] (at '{rest}')")


def _step(match: "re.Match[str]") -> Step:
    if match["function"] is not None:
        return "apply", match["function"]
    if match["at"] is not None:
        return "index", int(match["at"])
    if match["all"] is not None or match["name"] == "*":
        return "all", None
    if match["name"] is not None:
        return "key", match["name"]
    if match["keys"] is not None:
        names = [_unquoted(name) for name in re.findall(_QUOTED, match["keys"])]
        return ("key", names[0]) if len(names) == 1 else ("keys", names)
    if match["slice"] is not None:
        first, last = (int(part) if part.strip() else None for part in match["slice"].split(":"))
        return "slice", (first, last)
    positions = [int(part) for part in match["indexes"].split(",")]
    return ("index", positions[0]) if len(positions) == 1 else ("indexes", positions)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


# -- conditions in brackets

# the characters that end a name here: an operator may follow without a blank, as in `@.a<3`
_PLAIN_NAME = r"[^.\[\]()\s<>=~!&|,]+"
_TOKEN = re.compile(
    rf"\s*(?:(?P<path>[@$](?:\.\.?(?:\*|{_PLAIN_NAME}(?:\(\))?)|\.?\[(?:{_QUOTED}|-?\d+|\*)\])*)|(?P<text>{_QUOTED})"
    rf"|(?P<list>\[(?:{_QUOTED}|[^\]'\"])*\])|(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"|(?P<word>true|false|null)\b|(?P<regex>/(?:[^/\\]|\\.)*/i?)|(?P<op>&&|\|\||==|!=|<=|>=|=~|<|>|!|\(|\))"
    r"|(?P<relation>nin|in|subsetof|anyof|noneof|contains|size|empty)(?=[\s\[]))"
)
_COMPARE: dict[str, Relation] = {
    "==": lambda a, b: _equal(a, b),
    "!=": lambda a, b: not _equal(a, b),  # so that a missing value is unequal
    "<": lambda a, b: _ordered(a, b) and _plain(a) < _plain(b),
    "<=": lambda a, b: _ordered(a, b) and _plain(a) <= _plain(b),
    ">": lambda a, b: _ordered(a, b) and _plain(a) > _plain(b),
    ">=": lambda a, b: _ordered(a, b) and _plain(a) >= _plain(b),
    "=~": lambda a, b: isinstance(a, str) and isinstance(b, JavaPattern) and b.fullmatch(a) is not None,
}
_RELATIONS: dict[str, Relation] = {
    "in": lambda a, b: _holds(b, a),
    "nin": lambda a, b: not _holds(b, a),  # so that a missing value is not in the list either
    "subsetof": lambda a, b: isinstance(a, list) and all(_holds(b, element) for element in a),
    "anyof": lambda a, b: isinstance(a, list) and any(_holds(b, element) for element in a),
    "noneof": lambda a, b: isinstance(a, list) and not any(_holds(b, element) for element in a),
    "contains": lambda a, b: isinstance(b, str) and b in a if isinstance(a, str) else _holds(a, b),
    "size": lambda a, b: isinstance(a, list | str) and _equal(len(a), b),
    "empty": lambda a, b: isinstance(a, list | str | dict) and (not a) is b,
}


def _kind(value: Any) -> str:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return "number" if is_number else type(value).__name__


def _plain(value: Any) -> Any:
    """Return a comparable value: decimals, in documents parsed with all digits, become doubles."""
    return float(value) if isinstance(value, Decimal) else value


def _equal(left: Any, right: Any) -> bool:
    return left is not MISSING and _kind(left) == _kind(right) and bool(_plain(left) == _plain(right))


def _ordered(left: Any, right: Any) -> bool:
    return _kind(left) == _kind(right) and _kind(left) in ("number", "str")


def _holds(values: Any, wanted: Any) -> bool:
    return isinstance(values, list) and any(_equal(value, wanted) for value in values)


def _where(path: str, text: str, start: int) -> tuple[Test, int]:
    """Parse `[?( ... )]`; return the test and the position after it."""
    reader = _Conditions(path, text, start + 2)
    test = reader.any_of()
    close = re.compile(r"\s*\]").match(text, reader.position)
    if close is None:
        raise _no_path(path, text[reader.position :])
    return test, close.end()


class _Conditions:
    """Parser of `@.a > 3 && (@.b =~ /x/ || !@.c)`, from a position on; `@` is the child that is tested, `$` the document."""

    def __init__(self, path: str, text: str, position: int) -> None:
        self._path = path
        self._text = text
        self.position = position

    def _peek(self) -> "re.Match[str] | None":
        return _TOKEN.match(self._text, self.position)

    def _take(self, *ops: str) -> bool:
        token = self._peek()
        if token is None or token["op"] not in ops:
            return False
        self.position = token.end()
        return True

    def any_of(self) -> Test:
        tests = [self._all_of()]
        while self._take("||"):
            tests.append(self._all_of())
        return tests[0] if len(tests) == 1 else lambda node, root: any(test(node, root) for test in tests)

    def _all_of(self) -> Test:
        tests = [self._single()]
        while self._take("&&"):
            tests.append(self._single())
        return tests[0] if len(tests) == 1 else lambda node, root: all(test(node, root) for test in tests)

    def _single(self) -> Test:
        if self._take("!"):
            test = self._single()
            return lambda node, root: not test(node, root)
        if self._take("("):
            test = self.any_of()
            if not self._take(")"):
                raise _no_path(self._path, self._text[self.position :])
            return test
        left = self._operand()
        token = self._peek()
        relation = None if token is None else _RELATIONS.get(token["relation"]) or _COMPARE.get(token["op"])
        if token is None or relation is None:
            return lambda node, root: left(node, root) is not MISSING
        self.position = token.end()
        right = self._operand()
        return lambda node, root: relation(left(node, root), right(node, root))

    def _operand(self) -> Callable[[Any, Any], Any]:
        token = self._peek()
        if token is None or token["op"] is not None or token["relation"] is not None:
            raise _no_path(self._path, self._text[self.position :])
        if token["path"] is not None:
            steps = path_steps("$" + token["path"][1:])
            self.position = token.end()
            if token["path"].startswith("$"):
                return lambda node, root: read_path(root, steps)
            return lambda node, root: read_path(node, steps)
        try:
            constant = _constant(token)
        except (ValueError, QueryError):  # from JSON, and from regular expressions
            raise _no_path(self._path, self._text[self.position :]) from None
        self.position = token.end()
        return lambda node, root: constant


def _constant(token: "re.Match[str]") -> Any:
    if token["text"] is not None:
        return _unquoted(token["text"])
    if token["list"] is not None:
        return orjson.loads(re.sub(_QUOTED, lambda found: orjson.dumps(_unquoted(found[0])).decode(), token["list"]))
    if token["regex"] is not None:
        body, _, flags = token["regex"][1:].rpartition("/")
        return compiled(body, bool(flags))
    return orjson.loads(token["word"] if token["word"] is not None else token["number"])


# -- functions of nodes


def _of_numbers(node: Any, function: Callable[[list[float]], float]) -> Any:
    """Apply a function to the numbers of an array, as doubles; `MISSING` if there are none."""
    elements = node if isinstance(node, list) else []
    numbers = [
        float(value) for value in elements if isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    ]
    return float(function(numbers)) if numbers else MISSING


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _deviation(numbers: list[float]) -> float:
    """Return the population standard deviation."""
    mean = _mean(numbers)
    return math.sqrt(_mean([(number - mean) * (number - mean) for number in numbers]))


# -- reading


def parse_document(document: str) -> Any:
    """Parse a JSON text; return `MISSING` if it is invalid."""
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError:
        return MISSING


def parse_exactly(document: str) -> Any:
    """Parse a JSON text with its numbers as exact decimals; return `MISSING` if it is invalid."""
    return MISSING if parse_document(document) is MISSING else _with_python(document, Decimal)


def parse_wholly(document: str) -> Any:
    """Parse a JSON text so that integers of more than 64 bits keep all their digits; return `MISSING` as above."""
    return _with_python(document, int)


def _with_python(document: str, of_whole: Callable[[str], Any]) -> Any:
    try:
        return json.loads(document, parse_float=Decimal if of_whole is Decimal else None, parse_int=of_whole)
    except RecursionError:  # nested more deeply than this parser allows
        return MISSING


def compact(value: Any) -> str:
    """Return a value as JSON without whitespace; raises QueryError if it is nested too deeply."""
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError:  # integers beyond 64 bits, and deeper nesting than orjson allows
        pass
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> QueryError:
    return QueryError(ErrorCode.QUERY_EXECUTION, "a JSON document is nested too deeply")


def read_path(node: Any, steps: tuple[Step, ...]) -> Any:
    """Return the value at a path: a list if the path branches, one object if it ends in several names; else `MISSING`."""
    if node is MISSING:
        return MISSING
    if steps and steps[-1][0] == "keys":
        return _members(node, steps[:-1], steps[-1][1])
    if _is_definite(steps):
        return _definite(node, steps)
    found = [value for _, value in located(node, steps)]
    return found or MISSING


def _is_definite(steps: tuple[Step, ...]) -> bool:
    return all(kind not in _BRANCHING for kind, _ in steps)


def _members(node: Any, steps: tuple[Step, ...], names: Sequence[str]) -> Any:
    """Return the objects at a path, restricted to some of their members, as for `$.a['b','c']`."""
    nodes = [value for _, value in located(node, steps) if isinstance(value, dict)]
    found = [{name: value[name] for name in names if name in value} for value in nodes]
    return (found[0] if _is_definite(steps) else found) if found else MISSING


def _definite(node: Any, steps: tuple[Step, ...]) -> Any:
    for kind, argument in steps:
        if kind == "key":
            node = node.get(argument, MISSING) if isinstance(node, dict) else MISSING
        elif kind == "index":
            inside = isinstance(node, list) and -len(node) <= argument < len(node)
            node = node[argument] if inside else MISSING
        else:
            node = _FUNCTIONS[argument](node)
        if node is MISSING:
            return MISSING
    return node


def located(node: Any, steps: tuple[Step, ...]) -> list[tuple[Place, Any]]:
    """Return every position that a path leads to, with its value, in document order.

    Raises QueryError for a document that is nested too deeply.
    """
    found: list[tuple[Place, Any]] = [((), node)]
    try:
        for step in steps:
            found = [((*place, *more), child) for place, value in found for more, child in _selected(value, step, node)]
    except RecursionError:
        raise _too_deep() from None
    return found


def _selected(node: Any, step: Step, root: Any) -> Iterator[tuple[Place, Any]]:
    kind, argument = step
    if kind == "deep":
        yield (), node
        for key, child in children(node):
            for place, value in _selected(child, step, root):
                yield (key, *place), value
    elif kind == "apply":
        applied = _FUNCTIONS[argument](node)
        if applied is not MISSING:
            yield (), applied
    elif kind in ("key", "keys"):
        if isinstance(node, dict):
            yield from (((name,), node[name]) for name in ([argument] if kind == "key" else argument) if name in node)
    elif kind in ("all", "where"):
        yield from (((key,), child) for key, child in children(node) if kind == "all" or argument(child, root))
    elif isinstance(node, list):
        size = len(node)
        if kind == "slice":
            positions = list(range(*slice(*argument).indices(size)))
        else:
            wanted = [argument] if kind == "index" else argument
            positions = [i + size if i < 0 else i for i in wanted if -size <= i < size]
        yield from (((i,), node[i]) for i in positions)


def children(node: Any) -> list[tuple[str | int, Any]]:
    """Return keys or positions with the values of an object or array; empty for a scalar."""
    if isinstance(node, dict):
        return list(node.items())
    return list(enumerate(node)) if isinstance(node, list) else []

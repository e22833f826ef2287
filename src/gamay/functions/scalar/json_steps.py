"""JSON paths: `$.a.b[0]`, `$['a']`, `$.items[*].id`, `$..id`, `$.a[1:3]`, `$.a[?(@.price < 10 && @.name)]`, `$.a.length()`.

The language is Jayway's (https://github.com/json-path/JsonPath). Step kinds, with their argument:

key     a name                     keys    several names
index   a position                 indexes several positions
slice   (first, last), each or None
all     None: every child          deep    None: the node and everything below it
where   a test of a child          apply   the name of a function of the node, such as `length` or `sum`
"""

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

import orjson

from gamay.base.errors import ErrorCode, QueryError

Step: TypeAlias = tuple[str, Any]
Place: TypeAlias = tuple[str | int, ...]
Test: TypeAlias = Callable[[Any], bool]

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
    rf"(?P<deep>\.\.)|\.(?P<function>{'|'.join(_FUNCTIONS)})\(\)|\.(?P<name>\*|{_NAME}(?:\s+{_NAME})*)"
    rf"|\[\s*(?:(?P<keys>(?:{_QUOTED})(?:\s*,\s*(?:{_QUOTED}))*)|(?P<all>\*)"
    r"|(?P<slice>(?:-?\d+)?\s*:\s*(?:-?\d+)?)|(?P<indexes>-?\d+(?:\s*,\s*-?\d+)*))\s*\]"
)
_AFTER_DEEP = re.compile(rf"\*|{_NAME}")


@lru_cache(maxsize=512)
def path_steps(path: str) -> tuple[Step, ...]:
    """Return the steps of a path, whose `$` may be left out; raises QueryError for what is none."""
    text = path.strip()
    if text.startswith("$"):
        position = 1
    else:
        position = 0
        text = text if text.startswith("[") else f".{text}"
    steps: list[Step] = []
    while position < len(text):
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
    return QueryError(ErrorCode.QUERY_VALIDATION, f"'{path}' is no JSON path such as $.a.b[0] (at '{rest}')")


def _step(match: "re.Match[str]") -> Step:
    if match["function"] is not None:
        return "apply", match["function"]
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

_TOKEN = re.compile(
    rf"\s*(?:(?P<path>@(?:\.{_NAME}|\[(?:{_QUOTED}|-?\d+)\])*)|(?P<text>{_QUOTED})|(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"|(?P<word>true|false|null)|(?P<regex>/(?:[^/\\]|\\.)*/i?)|(?P<op>&&|\|\||==|!=|<=|>=|=~|<|>|!|\(|\))|(?P<in>n?in)\s*(?P<list>\[[^\]]*\]))"
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: _kind(a) == _kind(b) and a == b,
    "!=": lambda a, b: not (_kind(a) == _kind(b) and a == b),
    "<": lambda a, b: _ordered(a, b) and a < b,
    "<=": lambda a, b: _ordered(a, b) and a <= b,
    ">": lambda a, b: _ordered(a, b) and a > b,
    ">=": lambda a, b: _ordered(a, b) and a >= b,
}


def _kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _ordered(left: Any, right: Any) -> bool:
    return _kind(left) == _kind(right) and _kind(left) in ("number", "str")


def _where(path: str, text: str, start: int) -> tuple[Test, int]:
    """Read `[?( ... )]`; return the test and the position after it."""
    reader = _Conditions(path, text, start + 2)
    test = reader.any_of()
    close = re.compile(r"\s*\]").match(text, reader.position)
    if close is None:
        raise _no_path(path, text[reader.position :])
    return test, close.end()


class _Conditions:
    """Reads `@.a > 3 && (@.b =~ /x/ || !@.c)`, from a position on."""

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
        return tests[0] if len(tests) == 1 else lambda node: any(test(node) for test in tests)

    def _all_of(self) -> Test:
        tests = [self._single()]
        while self._take("&&"):
            tests.append(self._single())
        return tests[0] if len(tests) == 1 else lambda node: all(test(node) for test in tests)

    def _single(self) -> Test:
        if self._take("!"):
            test = self._single()
            return lambda node: not test(node)
        if self._take("("):
            test = self.any_of()
            if not self._take(")"):
                raise _no_path(self._path, self._text[self.position :])
            return test
        left = self._operand()
        token = self._peek()
        if token is not None and token["in"] is not None:
            self.position = token.end()
            listed = orjson.loads(re.sub(r"'((?:[^'\\]|\\.)*)'", r'"\1"', token["list"]))
            return lambda node: left(node) is not MISSING and (left(node) in listed) == (token["in"] == "in")
        if token is not None and token["op"] in _COMPARE:
            self.position = token.end()
            right, compare = self._operand(), _COMPARE[token["op"]]
            return lambda node: left(node) is not MISSING and compare(left(node), right(node))
        if self._take("=~"):
            pattern = self._operand()(None)
            if not isinstance(pattern, re.Pattern):
                raise _no_path(self._path, self._text[self.position :])
            return lambda node: isinstance(left(node), str) and pattern.fullmatch(left(node)) is not None
        return lambda node: left(node) is not MISSING

    def _operand(self) -> Callable[[Any], Any]:
        token = self._peek()
        if token is None or token["op"] is not None or token["in"] is not None:
            raise _no_path(self._path, self._text[self.position :])
        self.position = token.end()
        if token["path"] is not None:
            steps = path_steps("$" + token["path"][1:])
            return lambda node: _definite(node, steps)
        constant = _constant(token)
        return lambda node: constant


def _constant(token: "re.Match[str]") -> Any:
    if token["text"] is not None:
        return _unquoted(token["text"])
    if token["regex"] is not None:
        body, _, flags = token["regex"][1:].rpartition("/")
        return re.compile(body, re.IGNORECASE if flags else 0)
    return orjson.loads(token["word"] if token["word"] is not None else token["number"])


# -- functions of nodes


def _of_numbers(node: Any, function: Callable[[list[float]], float]) -> Any:
    """Return a function of the numbers of an array, a double; `MISSING` where there are none."""
    elements = node if isinstance(node, list) else []
    numbers = [
        float(value) for value in elements if isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    ]
    return float(function(numbers)) if numbers else MISSING


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _deviation(numbers: list[float]) -> float:
    """The standard deviation of a population."""
    mean = _mean(numbers)
    return math.sqrt(_mean([(number - mean) * (number - mean) for number in numbers]))


# -- reading


def parse_document(document: str) -> Any:
    """Return the value of a JSON text, `MISSING` for what is none."""
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError:
        return MISSING


def read_path(node: Any, steps: tuple[Step, ...]) -> Any:
    """Return what a path leads to: a list where it branches; `MISSING` where it leads nowhere."""
    if node is MISSING:
        return MISSING
    if all(kind not in _BRANCHING for kind, _ in steps):
        return _definite(node, steps)
    found = [value for _, value in located(node, steps)]
    return found or MISSING


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
    """Return every place that a path leads to, with the value there, in document order."""
    found: list[tuple[Place, Any]] = [((), node)]
    for step in steps:
        found = [((*place, *more), child) for place, value in found for more, child in _selected(value, step)]
    return found


def _selected(node: Any, step: Step) -> Iterator[tuple[Place, Any]]:
    kind, argument = step
    if kind == "deep":
        yield (), node
        for key, child in children(node):
            for place, value in _selected(child, step):
                yield (key, *place), value
    elif kind == "apply":
        applied = _FUNCTIONS[argument](node)
        if applied is not MISSING:
            yield (), applied
    elif kind in ("key", "keys"):
        if isinstance(node, dict):
            yield from (((name,), node[name]) for name in ([argument] if kind == "key" else argument) if name in node)
    elif kind in ("all", "where"):
        yield from (((key,), child) for key, child in children(node) if kind == "all" or argument(child))
    elif isinstance(node, list):
        size = len(node)
        if kind == "slice":
            positions = list(range(*slice(*argument).indices(size)))
        else:
            wanted = [argument] if kind == "index" else argument
            positions = [i + size if i < 0 else i for i in wanted if -size <= i < size]
        yield from (((i,), node[i]) for i in positions)


def children(node: Any) -> list[tuple[str | int, Any]]:
    """Return keys or positions with the values of an object or array; nothing of a scalar."""
    if isinstance(node, dict):
        return list(node.items())
    return list(enumerate(node)) if isinstance(node, list) else []

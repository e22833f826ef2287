"""Conditions on JSON documents: JSON_MATCH, and jsonExtractIndex with a filter.

A document is flattened first: an array becomes one flattened document for each element, several arrays one for each
combination of their elements. A condition is true for a document if it is for one of its flattened documents, so that
conditions joined by AND in one call apply to the same element. Values are compared as text: strings unchanged, numbers
and booleans as in JSON, doubles as Java prints them; ranges with numeric bounds compare numbers.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import ErrorCode, QueryError
from gamay.base.recently_used import remembered
from gamay.functions.arguments import check_count, wrong
from gamay.functions.conditions import parse_condition
from gamay.functions.convert import convert, to_vector
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.regex.matching import compiled
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.json.conditions import Compare, Condition, Joined, Leaf, Path, Record, fitting
from gamay.functions.scalar.json.path import Extraction, holds_json, json_text
from gamay.functions.scalar.json.scan import scan
from gamay.functions.scalar.json.steps import MISSING, parse_document, path_steps
from gamay.functions.scalar.text.patterns import like, needed_runs
from gamay.functions.scalar.values import of_distinct
from gamay.functions.text import literal_text
from gamay.functions.vector import Operand, Scalar, Vector
from gamay.model.types import DataType

STRING, BOOLEAN = DataType.STRING, DataType.BOOLEAN


# -- flattening


def flatten(node: Any, paths: Sequence[Path]) -> list[Record]:
    """Return the flattened documents of a JSON value, at least one, restricted to these paths."""
    return _records(node, 0, paths) or [{}]


def _records(node: Any, depth: int, paths: Sequence[Path]) -> list[Record]:
    if not paths:
        return [{}]
    if isinstance(node, dict):
        by_key: dict[str, list[Path]] = {}
        for path in paths:
            if len(path) > depth and path[depth][0] == "key":
                by_key.setdefault(path[depth][1], []).append(path)
        parts = [_records(node[key], depth + 1, inner) for key, inner in by_key.items() if key in node]
        return [_merged(records) for records in itertools.product(*(part for part in parts if part))]
    if isinstance(node, list):
        found: list[Record] = []
        for position, element in enumerate(node):
            steps = (("all", None), ("index", position))
            inner = [path for path in paths if len(path) > depth and path[depth] in steps]
            found += _records(element, depth + 1, inner)
        return found
    ended = [path for path in paths if len(path) == depth]
    return [] if node is None else [dict.fromkeys(ended, node)]


def _merged(records: Sequence[Record]) -> Record:
    return {path: value for record in records for path, value in record.items()}


# -- the language of conditions


@dataclass(frozen=True, slots=True)
class JsonFilter:
    """A condition on documents. paths: those that it reads. absent: match documents of which no flattened one matches."""

    paths: tuple[Path, ...]
    test: Condition
    absent: bool

    def matches(self, document: str) -> bool:
        """Whether a document matches; text that is not JSON never does."""
        node = parse_document(document)
        if node is MISSING:
            return False
        return any(map(self.test, flatten(node, self.paths))) != self.absent

    def matches_all(self, documents: pa.StringArray, *, is_json: bool = False) -> Any:
        """Return which documents match: bool [n]; None if paths consist of more than names, and so may have several values.

        is_json: whether every document is known to be JSON.
        """
        if self.absent or not all(kind == "key" for path in self.paths for kind, _ in path):
            return None
        parts = self.test.parts if isinstance(self.test, Joined) and self.test.is_and else (self.test,)
        rows = np.arange(len(documents))
        for part in parts:  # each tests only the documents that passed the earlier ones
            scanned = {path: scan(documents, path, is_json=is_json, rows=rows) for path in part.paths}
            columns = {path: found for path, found in scanned.items() if found is not None}
            rows = rows[fitting(part, columns, self.matches, documents, rows)]
        flags = np.zeros(len(documents), np.bool_)
        flags[rows] = True
        return flags


@remembered()
def json_filter(function: str, text: str) -> JsonFilter:
    """Parse a filter from text; raises QueryError if it is invalid."""
    expression = parse_condition(function, text)
    reader = _Reader(function, text)
    if isinstance(expression, Call) and expression.name == "isnull":
        test = reader.condition(Call("isnotnull", expression.args))
        return JsonFilter(tuple(reader.paths), test, absent=True)
    test = reader.condition(expression)
    return JsonFilter(tuple(reader.paths), test, absent=False)


class _Reader:
    """Converts the condition in a text to a test, and collects the paths."""

    def __init__(self, function: str, text: str) -> None:
        self._function = function
        self._text = text
        self.paths: dict[Path, None] = {}

    def condition(self, expression: Expression) -> Condition:
        if not isinstance(expression, Call):
            raise self._wrong("""a condition compares a key with constants, as in '"$.a.b" = ''x'''""")
        name, args = expression.name, expression.args
        if name in ("and", "or"):
            return Joined(tuple(self.condition(arg) for arg in args), name == "and")
        if name == "isnull":
            raise self._wrong("IS NULL must stand alone; call the function twice and join the calls")
        if name not in _MAKERS and name not in _COMPARE:
            what = "NOT" if name == "not" else f"'{name}'"
            raise self._wrong(f"{what} is not supported; there are =, <>, IN, ranges, LIKE, REGEXP_LIKE and IS [NOT] NULL")
        path = self._path(args[0])
        constants = [arg for arg in args[1:] if isinstance(arg, Literal) and arg.value is not None]
        if len(constants) != len(args) - 1:
            raise self._wrong("a key is compared with constants only, and not with NULL")
        if name in _COMPARE:
            return self._range(path, name, constants)
        texts = tuple(literal_text(constant.value) for constant in constants) if name in _LISTED else None
        test, is_negated = self._on_text(name, constants), name.startswith("not")
        of_texts = _of_texts(name, [literal_text(constant.value) for constant in constants], test)
        return Leaf(path, test, None, texts, is_negated, of_texts, name == "isnotnull")

    def _wrong(self, detail: str) -> QueryError:
        return wrong(self._function, f"{detail} (in '{self._text}')")

    def _path(self, key: Expression) -> Path:
        if not isinstance(key, Column):
            raise self._wrong("""a condition begins with a key in double quotes, such as "$.a[*].b" """.rstrip())
        steps = path_steps(key.name)
        if any(kind not in ("key", "index", "all") or (kind == "index" and step < 0) for kind, step in steps):
            raise self._wrong(f"""the key "{key.name}" may have names, [n] and [*] only""")
        self.paths[steps] = None
        return steps

    def _range(self, path: Path, name: str, constants: Sequence[Literal]) -> Leaf:
        bounds = [constant.value for constant in constants]
        as_numbers = all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in bounds)
        limits: list[Any] = [float(bound) if as_numbers else literal_text(bound) for bound in bounds]  # type: ignore[arg-type]
        compare = _COMPARE[name]

        def test(value: Any) -> bool:
            found = number_in(value) if as_numbers else json_text(value)
            return found is not None and bool(compare(found, limits))

        return Leaf(path, test, (compare, limits) if as_numbers else None)

    def _on_text(self, name: str, constants: Sequence[Literal]) -> Callable[[Any], bool]:
        try:
            test = _MAKERS[name]([literal_text(constant.value) for constant in constants])
        except QueryError as error:
            raise self._wrong(str(error)) from None
        return lambda value: test(json_text(value))


def number_in(value: Any) -> float | None:
    """Return a value as a number for a numeric range, also from text; None if it is not one."""
    try:
        return float(json_text(value))
    except ValueError:
        return None


_COMPARE: dict[str, Compare] = {
    "lessthan": lambda value, limits: value < limits[0],
    "lessthanorequal": lambda value, limits: value <= limits[0],
    "greaterthan": lambda value, limits: value > limits[0],
    "greaterthanorequal": lambda value, limits: value >= limits[0],
    "between": lambda value, limits: (limits[0] <= value) & (value <= limits[1]),
}


_LISTED = frozenset({"equals", "notequals", "in", "notin"})


def _like(constants: list[str]) -> Callable[[str], bool]:
    return lambda text: bool(like(pa.array([text], pa.string()), constants[0])[0])


def _regexp_like(constants: list[str]) -> Callable[[str], bool]:
    """Return a test for REGEXP_LIKE, which here must match the whole value, unlike in WHERE."""
    if constants[1:] not in ([], ["i"], ["c"]):
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"the option '{constants[1]}' is neither 'i' (any case) nor 'c'")
    pattern = compiled(constants[0], constants[1:] == ["i"])
    return lambda text: pattern.fullmatch(text) is not None


def _of_texts(name: str, constants: list[str], test: Callable[[Any], bool]) -> Callable[[pa.StringArray], Any] | None:
    """Return a test of many texts at once: bool [n]; None if they can only be tested one by one."""
    if name == "like":
        return lambda texts: np.asarray(like(texts, constants[0]), np.bool_)
    runs = needed_runs(constants[0]) if name == "regexplike" and constants[1:] != ["i"] else []
    if not runs:
        return None

    def of_texts(texts: pa.StringArray) -> Any:
        flags = np.asarray(pc.match_substring(texts, max(runs, key=len)), np.bool_)
        places = np.flatnonzero(flags)
        flags[places] = [test(text) for text in texts.take(pa.array(places)).to_pylist()]
        return flags

    return of_texts


_MAKERS: dict[str, Callable[[list[str]], Callable[[str], bool]]] = {
    "equals": lambda constants: lambda text: text == constants[0],
    "notequals": lambda constants: lambda text: text != constants[0],
    "in": lambda constants: lambda text: text in constants,
    "notin": lambda constants: lambda text: text not in constants,
    "isnotnull": lambda constants: lambda text: True,
    "like": _like,
    "regexplike": _regexp_like,
}


# -- JSON_MATCH


def _match_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("jsonMatch", len(types), 2, 3)
    if types[0][1]:
        raise wrong("jsonMatch", "argument 1 must be single-value")
    for position, argument in enumerate(call.args[1:], 2):
        if not isinstance(argument, Literal):
            raise wrong("jsonMatch", f"argument {position} must be a constant")
    if (text := _condition(call)) is not None:
        json_filter("jsonMatch", text)
    return BOOLEAN, False


def _condition(call: Call) -> str | None:
    condition = call.args[1]
    return str(condition.value) if isinstance(condition, Literal) and condition.value is not None else None


def json_match(document: pa.StringArray, filter_: str, options: str = "", *, is_json: bool = False) -> Any:
    """Whether a document matches a condition such as `'"$.items[*].kind" = ''x'' AND "$.items[*].price" > 3'`."""
    condition = json_filter("jsonMatch", filter_)
    flags = condition.matches_all(document, is_json=is_json)
    return of_distinct("jsonMatch", Vector(STRING, document), condition.matches, BOOLEAN).values if flags is None else flags


def _register_match(body: Callable[..., Any]) -> None:
    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        text = _condition(call)
        if text is None or any(isinstance(arg, Scalar) and arg.value is None for arg in args):
            return Scalar(None, BOOLEAN)
        constant = isinstance(args[0], Scalar)
        documents = to_vector(convert(args[0], STRING), 1 if constant else num_rows)
        flags = body(documents.values, text, is_json=holds_json(call, args[0]))
        return Scalar(bool(flags[0]), BOOLEAN) if constant else Vector(BOOLEAN, flags, None, documents.nulls)

    register_scalar(["jsonMatch"], ScalarFunction("jsonMatch", 2, 3, _match_type, compute))


_register_match(json_match)


# -- jsonExtractIndex


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A value at one position of a document: flattened documents that share the position share the object."""

    value: Any


def _index_call(call: Call) -> tuple[Extraction, JsonFilter | None]:
    name = "jsonExtractIndex"
    check_count(name, len(call.args), 3, 5)
    extraction = Extraction.of(name, Call(call.name, call.args[:4]), 4)
    if any(kind not in ("key", "index", "all") for kind, _ in path_steps(extraction.path)):
        raise wrong(name, f"the path '{extraction.path}' may have names, [n] and [*] only")
    if not extraction.multi_value and any(kind == "all" for kind, _ in path_steps(extraction.path)):
        raise wrong(
            name, f"the path '{extraction.path}' leads to several values; the type must be {extraction.type.value}_ARRAY"
        )
    condition = call.args[4] if len(call.args) > 4 else None
    if condition is None:
        return extraction, None
    if not isinstance(condition, Literal) or not isinstance(condition.value, str):
        raise wrong(name, "the filter must be a constant text")
    return extraction, json_filter(name, condition.value)


def _index_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    extraction, _ = _index_call(call)
    if not isinstance(call.args[0], Column) or types[0][1] or not types[0][0].is_text:
        raise wrong("jsonExtractIndex", "argument 1 must be a single-value column of JSON or STRING")
    return extraction.type, extraction.multi_value


def _index_values(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    extraction, condition = _index_call(call)
    steps = path_steps(extraction.path)
    paths = dict.fromkeys([steps, *(() if condition is None else condition.paths)])

    def find(text: str) -> Any:
        node = parse_document(text)
        if node is MISSING or (condition is not None and condition.absent and not condition.matches(text)):
            return MISSING
        records = flatten(_with_leaves(node), list(paths))
        if condition is not None and not condition.absent:
            records = [r for r in records if condition.test({p: leaf.value for p, leaf in r.items()})]
        leaves = {id(record[steps]): record[steps].value for record in records if steps in record}
        if not leaves:
            return MISSING
        return list(leaves.values()) if extraction.multi_value else next(iter(leaves.values()))

    return extraction.results(to_vector(args[0], num_rows), find)


def _with_leaves(node: Any) -> Any:
    """Return a JSON value with each scalar wrapped; null is unchanged."""
    if isinstance(node, dict):
        return {key: _with_leaves(child) for key, child in node.items()}
    if isinstance(node, list):
        return [_with_leaves(child) for child in node]
    return None if node is None else _Leaf(node)


register_scalar(["jsonExtractIndex"], ScalarFunction("jsonExtractIndex", 3, 5, _index_type, _index_values, can_fold=False))

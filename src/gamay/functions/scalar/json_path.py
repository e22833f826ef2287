"""Values out of JSON documents by path: `$.a.b[0].c`, `$['a']`, `$.items[*].id`, `$..id`.

A document that is none, or a path that leads nowhere, is no value. Documents are read once for each distinct text.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import orjson

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.casting import type_named
from gamay.functions.scalar.convert import array_of, convert, convert_value, parse_text, placeholder, to_vector
from gamay.functions.scalar.define import by_value, check_count, null_result, wrong
from gamay.functions.scalar.distinct import distinct, take_rows
from gamay.functions.vector import Operand, Scalar, Vector, take
from gamay.model.types import DataType

STRING, LONG, DOUBLE, BOOLEAN = DataType.STRING, DataType.LONG, DataType.DOUBLE, DataType.BOOLEAN

Step: TypeAlias = tuple[str, Any]  # ("key", name), ("index", i), ("all", None), ("deep", name or None)

_STEP = re.compile(
    r"\.\.(?P<deep>[\w$-]+|\*)|\.(?P<name>[^.\[\]]+)|\[\s*(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<index>-?\d+)|(?P<all>\*))\s*\]"
)


@lru_cache(maxsize=512)
def path_steps(path: str) -> tuple[Step, ...]:
    """Return the steps of a path; raises QueryError for what is none."""
    text = path.strip()
    position = 1 if text.startswith("$") else 0
    if position == 0:
        text = f".{text}"
    steps: list[Step] = []
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            rest = text[position:]
            raise QueryError(ErrorCode.QUERY_VALIDATION, f"'{path}' is no JSON path such as $.a.b[0] (at '{rest}')")
        if match["deep"] is not None:
            steps.append(("deep", None if match["deep"] == "*" else match["deep"]))
        elif match["index"] is not None:
            steps.append(("index", int(match["index"])))
        elif match["all"] is not None or match["name"] == "*":
            steps.append(("all", None))
        else:
            steps.append(("key", next(match[g] for g in ("name", "single", "double") if match[g] is not None)))
        position = match.end()
    return tuple(steps)


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(node.values())
    return node if isinstance(node, list) else []


def _descend(node: Any, name: str | None) -> list[Any]:
    found: list[Any] = []
    if isinstance(node, dict):
        found += node.values() if name is None else ([node[name]] if name in node else [])
    elif isinstance(node, list) and name is None:
        found += node
    for child in _children(node):
        found += _descend(child, name)
    return found


def _apply(nodes: list[Any], step: Step) -> list[Any]:
    kind, argument = step
    if kind == "key":
        return [node[argument] for node in nodes if isinstance(node, dict) and argument in node]
    if kind == "index":
        return [n[argument] for n in nodes if isinstance(n, list) and -len(n) <= argument < len(n)]
    if kind == "all":
        return [child for node in nodes for child in _children(node)]
    return [found for node in nodes for found in _descend(node, argument)]


_MISSING = object()


def read_path(document: str, path: str) -> Any:
    """Return what a path leads to in a document, a list where it branches, and `_MISSING` where it leads nowhere."""
    steps = path_steps(path)
    try:
        nodes = [orjson.loads(document)]
    except orjson.JSONDecodeError:
        return _MISSING
    for step in steps:
        nodes = _apply(nodes, step)
    if any(kind in ("all", "deep") for kind, _ in steps):
        return nodes if nodes else _MISSING
    return nodes[0] if nodes else _MISSING


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


def _scalar_of(value: Any, to: DataType) -> Any:
    """Return a JSON value as a type; raises QueryError for a text that cannot be read as it."""
    if to is STRING:
        return _text_of(value)
    if to is DataType.JSON:
        return orjson.dumps(value).decode()
    if isinstance(value, bool):
        return convert_value(value, BOOLEAN, to)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return convert_value(value, LONG, to)
    if isinstance(value, float):
        return convert_value(value, DOUBLE, to)
    return parse_text(_text_of(value), to) if to is not BOOLEAN else convert_value(_text_of(value), STRING, BOOLEAN)


# -- jsonExtractScalar


def _constants(call: Call) -> tuple[str, ValueType, Any]:
    """Return path, result type and default (`_MISSING` when not written) of a call."""
    if not all(isinstance(arg, Literal) for arg in call.args[1:]):
        raise wrong("jsonExtractScalar", "path, type and default must be constants")
    path, name, *rest = [arg.value for arg in call.args[1:] if isinstance(arg, Literal)]
    if not isinstance(path, str) or not isinstance(name, str):
        raise wrong("jsonExtractScalar", "path and type are texts")
    return path, type_named("jsonExtractScalar", name), (rest[0] if rest else _MISSING)


def _extract_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("jsonExtractScalar", len(types), 3, 4)
    path, result, _ = _constants(call)
    path_steps(path)
    return result


def _extract(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    result, multi_value = _extract_type(call, [(arg.type, False) for arg in args])
    path, _, default = _constants(call)
    document = args[0]
    if isinstance(document, Scalar) and document.value is None:
        return null_result(result, multi_value, num_rows)
    constant = isinstance(document, Scalar) and not multi_value
    documents = to_vector(convert(document, STRING), 1 if constant else num_rows)
    codes, entries = distinct(documents)
    found = [read_path(text, path) for text in entries.values.to_pylist()]
    if multi_value:
        return _extracted_lists(codes, found, result, documents.nulls)
    values = [_one(value, result, default, path) for value in found]
    missing = np.array([value is None for value in values], dtype=np.bool_)
    filled = [placeholder(result) if value is None else value for value in values]
    nulls = missing[codes] if missing.any() else None
    if constant:
        return Scalar(values[0], result)
    return Vector(result, take(array_of(filled, result), codes), None, nulls)


def _one(value: Any, result: DataType, default: Any, path: str) -> Any:
    if value is _MISSING or value is None:
        if default is _MISSING:
            raise QueryError(
                ErrorCode.QUERY_EXECUTION,
                f"Function 'jsonExtractScalar': a row has no value at '{path}'; give a default as the fourth argument",
            )
        return None if default is None else _scalar_of(default, result)
    return _scalar_of(value, result)


def _extracted_lists(codes: Any, found: list[Any], result: DataType, nulls: Any) -> Vector:
    lists = [[] if v is _MISSING or v is None else (v if isinstance(v, list) else [v]) for v in found]
    lists = [[_scalar_of(item, result) for item in items if item is not None] for items in lists]
    lengths = np.array([len(items) for items in lists], dtype=np.int64)
    flat = Vector(
        result,
        array_of([item for items in lists for item in items], result),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
    )
    taken = take_rows(flat, codes)
    assert isinstance(taken, Vector)
    return Vector(result, taken.values, taken.offsets, nulls)


register_scalar(
    ["jsonExtractScalar", "jsonExtractScalarFast"],
    ScalarFunction("jsonExtractScalar", 3, 4, _extract_type, _extract),
)


# -- jsonPath… and formats


def _json_path(to: DataType, missing: Any) -> Callable[..., Any]:
    def run(document: str, path: str, default: Any = _MISSING) -> Any:
        value = read_path(document, path)
        if value is _MISSING or value is None:
            return missing if default is _MISSING else default
        return _scalar_of(value, to)

    return run


for _name, _type, _missing in (
    ("jsonPath", STRING, None),
    ("jsonPathString", STRING, None),
    ("jsonPathLong", LONG, -(2**63)),
    ("jsonPathDouble", DOUBLE, float("nan")),
):
    by_value(_name, params=(STRING, STRING, _type), returns=_type, optional=1)(_json_path(_type, _missing))


@by_value("jsonPathExists", params=(STRING, STRING), returns=BOOLEAN)
def json_path_exists(document: str, path: str) -> bool:
    return read_path(document, path) is not _MISSING


@by_value("isJson", params=(STRING,), returns=BOOLEAN)
def is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


@by_value("jsonFormat", params=(DataType.JSON,), returns=STRING)
def json_format(text: str) -> str:
    """The document without needless blanks; text that is none becomes a JSON string."""
    try:
        return orjson.dumps(orjson.loads(text)).decode()
    except orjson.JSONDecodeError:
        return orjson.dumps(text).decode()

"""Keys of JSON documents, and conversion of documents to arrays and maps.

Maps and other objects are passed as JSON text. Text that is not JSON of the expected kind yields null.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gamay.functions.arguments import check_count, wrong
from gamay.functions.convert import array_of, placeholder, to_vector
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.comparison import is_in
from gamay.functions.scalar.define import by_value, const, each, fixed, scalar
from gamay.functions.scalar.json.path import checked_path, json_text
from gamay.functions.scalar.json.steps import MISSING, Place, Step, compact, located, parse_document, path_steps, read_path
from gamay.functions.scalar.values import lists_of_distinct, of_distinct
from gamay.functions.vector import Operand, Scalar, Vector, concat, take, union_nulls
from gamay.model.types import DataType

STRING = DataType.STRING
_RECURSIVE: tuple[Step, ...] = (("deep", None), ("all", None))
_ALL_KEYS = ("", "$..", "$..**", "$..*")


# -- jsonExtractKey


def _key_steps(path: str) -> tuple[Step, ...]:
    return _RECURSIVE if path.strip() in _ALL_KEYS else path_steps(path)


def _key_options(text: str) -> tuple[int, bool]:
    """Parse `maxDepth=n;dotNotation=true`; return the depth (0 for any) and the notation."""
    depth, dots = 0, False
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name.lower() == "maxdepth" and re.fullmatch(r"-?\d+", value):
            depth = max(int(value), 0)
        elif name.lower() == "dotnotation" and value.lower() in ("true", "false"):
            dots = value.lower() == "true"
        else:
            raise wrong("jsonExtractKey", f"'{part}' is not one of the options maxDepth=n and dotNotation=true")
    return depth, dots


def place_text(place: Place, dots: bool) -> str:
    """Return a position as a path: `$['a'][0]`, or `a.0` in dot notation."""
    if dots:
        return ".".join(map(str, place))
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f"['{key}']" for key in place)


def _extract_key_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    path, options = call.args[1], call.args[2] if len(call.args) > 2 else None
    if isinstance(path, Literal):
        _key_steps(str(path.value))
    if isinstance(options, Literal):
        _key_options(str(options.value))
    return STRING, True


@scalar(
    "jsonExtractKey",
    params=(each(STRING), fixed(STRING), fixed(STRING)),
    returns=_extract_key_type,
    optional=1,
    multi_value=True,
)
def json_extract_key(document: Any, path: str, options: str = "") -> Vector:
    """The paths of the values that a path leads to; all keys at any depth for `$..**`, `$..` or an empty path."""
    steps = _key_steps(path)
    depth, dots = _key_options(options)

    def keys(text: str) -> list[str]:
        node = parse_document(text)
        places = [] if node is MISSING else [place for place, _ in located(node, steps)]
        return [place_text(place, dots) for place in places if place and (depth == 0 or len(place) <= depth)]

    return lists_of_distinct("jsonExtractKey", Vector(STRING, document), keys, STRING)


# -- documents as arrays and maps


@scalar("jsonStringToArray", params=(each(STRING),), returns=STRING, multi_value=True)
def json_string_to_array(document: Any) -> Vector:
    """The elements of a JSON array, as text."""

    def elements(text: str) -> list[str] | None:
        node = parse_document(text)
        return [json_text(element) for element in node] if isinstance(node, list) else None

    return lists_of_distinct("jsonStringToArray", Vector(STRING, document), elements, STRING)


@by_value("jsonStringToMap", params=(STRING,), returns=STRING)
def json_string_to_map(document: str) -> str | None:
    node = parse_document(document)
    return compact(node) if isinstance(node, dict) else None


@by_value("jsonStringToListOrMap", params=(STRING,), returns=STRING)
def json_string_to_list_or_map(document: str) -> str | None:
    node = parse_document(document)
    return compact(node) if isinstance(node, dict | list) else None


@by_value("jsonKeyValueArrayToMap", params=(STRING, STRING, STRING), returns=STRING, optional=2)
def json_key_value_array_to_map(document: str, key: str = "key", value: str = "value") -> str | None:
    """The map of `[{"key": "a", "value": 1}, ...]`; other names for key and value can be given."""
    node = parse_document(document)
    if not isinstance(node, list):
        return None
    return compact({json_text(pair[key]): pair.get(value) for pair in node if isinstance(pair, dict) and key in pair})


@scalar("jsonExtractObject", params=(each(STRING), const(STRING)), returns=checked_path(STRING))
def json_extract_object(document: Any, path: str) -> Vector:
    """The value at a path, as JSON; null if there is none."""
    steps = path_steps(path)

    def find(text: str) -> str | None:
        value = read_path(parse_document(text), steps)
        return None if value is MISSING else compact(value)

    return of_distinct("jsonExtractObject", Vector(STRING, document), find, STRING)


# -- maps as two multi-value columns


def _map_value_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("mapValue", len(types), 3, 3)
    if not types[0][1] or not types[2][1]:
        raise wrong("mapValue", "arguments 1 and 3, keys and values, must be multi-value")
    key = call.args[1]
    if not isinstance(key, Literal) or key.value is None:
        raise wrong("mapValue", "argument 2, the key, must be a constant")
    return types[2][0], False


def _map_value(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    """Return the value at the position of the first equal key; null if there is none."""
    keys, values = to_vector(args[0], num_rows), to_vector(args[2], num_rows)
    wanted = args[1]
    assert isinstance(wanted, Scalar)
    assert keys.offsets is not None
    assert values.offsets is not None
    hits = np.flatnonzero(is_in(keys, [wanted]))
    rows = np.searchsorted(keys.offsets, hits, side="right") - 1
    first_rows, first = np.unique(rows, return_index=True)
    place = hits[first] - keys.offsets[first_rows]
    inside = place < np.diff(values.offsets)[first_rows]
    padded = concat([values.values, array_of([placeholder(values.type)], values.type)])
    positions = np.full(num_rows, len(padded) - 1)
    positions[first_rows[inside]] = (values.offsets[first_rows] + place)[inside]
    missing = Vector(values.type, values.values[:0], None, positions == len(padded) - 1)
    return Vector(values.type, take(padded, positions), None, union_nulls([*args, missing]))


register_scalar(["mapValue"], ScalarFunction("mapValue", 3, 3, _map_value_type, _map_value, can_fold=False))

"""Extraction of values from JSON documents by path: `$.a.b[0].c`, `$['a']`, `$.items[*].id`, `$..id`.

Text that is not JSON, or a path that does not exist, yields no value. Each distinct text is parsed once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arguments import check_count, wrong
from gamay.functions.convert import (
    array_of,
    convert,
    convert_value,
    convert_values,
    parse_text,
    placeholder,
    to_vector,
)
from gamay.functions.distinct import distinct
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.casting import type_named
from gamay.functions.scalar.define import by_value, const, each, null_result, scalar
from gamay.functions.scalar.json.scan import Found, scan
from gamay.functions.scalar.json.steps import (
    MISSING,
    Step,
    compact,
    parse_document,
    parse_exactly,
    parse_wholly,
    path_steps,
    read_path,
)
from gamay.functions.scalar.values import lists_of_distinct, lists_vector, of_distinct
from gamay.functions.text import java_double_text
from gamay.functions.vector import Operand, Scalar, Vector, concat, numpy_dtype, take, take_rows
from gamay.kernels.json.paths import ESCAPED, FALSE, LARGE, REAL, TEXT, TRUE, WHOLE
from gamay.model.types import DataType

STRING, LONG, DOUBLE, BOOLEAN = DataType.STRING, DataType.LONG, DataType.DOUBLE, DataType.BOOLEAN
_ROUNDED_MIN = 2.0**64
"""Integers of more than 64 bits are parsed as doubles."""


# -- from JSON values to values of a type


def json_text(value: Any) -> str:
    """Return a JSON value as text: a string unchanged, a double as Java prints it, everything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return java_double_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return compact(value)


def scalar_of(value: Any, to: DataType) -> Any:
    """Return a JSON value as a type; raises QueryError for invalid text."""
    if isinstance(value, Decimal):
        return value
    if to is STRING:
        return json_text(value)
    if to is DataType.JSON:
        return compact(value)
    if isinstance(value, bool):
        return convert_value(value, BOOLEAN, to)
    if isinstance(value, int) and -(2**63) <= value < 2**63 and (to is not DataType.INT or -(2**31) <= value < 2**31):
        return convert_value(value, LONG, to)
    if isinstance(value, float):
        return convert_value(value, DOUBLE, to)
    if to is BOOLEAN:
        return _is_huge(value) or convert_value(json_text(value), STRING, BOOLEAN)
    return parse_text(json_text(value), to)


def _is_huge(value: Any) -> bool:
    """Whether a value is an integer of more than 64 bits."""
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def find_in(document: str, steps: tuple[Step, ...]) -> Any:
    """Return the value at a path of a document; integers of more than 64 bits keep all their digits."""
    found = read_path(parse_document(document), steps)
    if any(map(_may_be_whole, found if isinstance(found, list) else [found])):
        return read_path(parse_wholly(document), steps)
    return found


def _may_be_whole(value: Any) -> bool:
    """Whether a parsed number may have been written as an integer and rounded."""
    return isinstance(value, float) and abs(value) >= _ROUNDED_MIN


# -- jsonExtractScalar


@dataclass(frozen=True, slots=True)
class Extraction:
    """The constants of a call of jsonExtractScalar and similar functions.

    default: of the result's type, a list if that is multi-value; None for NULL, `MISSING` if not given.
    """

    name: str
    path: str
    type: DataType
    multi_value: bool
    default: Any

    @staticmethod
    def of(name: str, call: Call, args_max: int) -> "Extraction":
        """Read the constants of a call; raises QueryError if they are invalid."""
        check_count(name, len(call.args), 3, args_max)
        if not all(isinstance(arg, Literal) for arg in call.args[1:]):
            raise wrong(name, "path, type and default must be constants")
        path, type_name, *rest = [arg.value for arg in call.args[1:] if isinstance(arg, Literal)]
        if not isinstance(path, str) or not isinstance(type_name, str):
            raise wrong(name, "path and type must be texts")
        path_steps(path)
        result, multi_value = type_named(name, type_name)
        default = _default(name, rest[0], result, multi_value) if rest else MISSING
        return Extraction(name, path, result, multi_value, default)

    def results(self, documents: Vector, find: Callable[[str], Any]) -> Vector:
        """Return the result of each document, in which `find` returns a JSON value, a list if multi-value, or `MISSING`."""
        codes, entries = distinct(documents)
        nulls = documents.nulls
        found = [find(text) for text in entries.values.to_pylist()]
        if self.multi_value:
            taken = take_rows(lists_vector([self._list(value) for value in found], self.type), codes)
            assert isinstance(taken, Vector)
            return Vector(self.type, taken.values, taken.offsets, nulls)
        values = [self._single(value) for value in found]
        missing = np.array([value is None for value in values], dtype=np.bool_)
        filled = [placeholder(self.type) if value is None else value for value in values]
        if missing.any():
            nulls = missing[codes] if nulls is None else nulls | missing[codes]
        return Vector(self.type, take(array_of(filled, self.type), codes), None, nulls)

    def plain_results(
        self, documents: Vector, steps: Sequence[Step], find: Callable[[str], Any], *, is_json: bool = False
    ) -> Vector | None:
        """Return the result of `results` for a plain path and type; None if either is not plain.

        is_json: whether every document is known to be JSON.
        Documents with rare values at the path, or anything rare elsewhere, are left to `find`.
        """
        found = None if self.multi_value or self.type not in _SCANNED else scan(documents.values, steps, is_json=is_json)
        if found is None:
            return None
        values, is_read = _scanned(found, self.type)
        nulls = documents.nulls
        if len(values) == len(found.kinds):
            return Vector(self.type, values, None, nulls)
        absent = found.is_absent if nulls is None else found.is_absent & ~nulls
        default = self._single(MISSING) if absent.any() else None
        filler = array_of([placeholder(self.type) if default is None else default], self.type)
        places = np.where(is_read, np.cumsum(is_read) - 1, len(values))  # also of null documents and absent values
        parts = [values, filler]
        if default is None and absent.any():
            nulls = absent if nulls is None else nulls | absent
        left = np.flatnonzero(~(is_read | found.is_absent))
        if len(left):
            rest = self.results(Vector(STRING, take(documents.values, left)), find)
            parts.append(rest.values)
            places[left] = len(values) + 1 + np.arange(len(left))
            if rest.nulls is not None:
                nulls = np.zeros(len(places), np.bool_) if nulls is None else nulls.copy()
                nulls[left] |= rest.nulls
        return Vector(self.type, take(concat(parts), places), None, nulls)

    def _single(self, value: Any) -> Any:
        if value is not MISSING and value is not None:
            try:
                return scalar_of(value, self.type)
            except QueryError:
                if self.default is MISSING:
                    raise
                return self.default  # also replaces invalid values
        if self.default is MISSING:
            raise QueryError(
                ErrorCode.QUERY_EXECUTION,
                f"Function '{self.name}': a row has no value at '{self.path}'; give a default as the fourth argument",
            )
        return self.default

    def _list(self, value: Any) -> list[Any]:
        if value is MISSING or value is None:
            return [] if self.default is MISSING or self.default is None else self.default
        items = value if isinstance(value, list) else [value]
        try:
            return [scalar_of(item, self.type) for item in items if item is not None]
        except QueryError:
            if not isinstance(self.default, list):
                raise
            return self.default


_NUMBERS = (DataType.INT, LONG, DataType.FLOAT, DOUBLE)
_SCANNED = (STRING, BOOLEAN, *_NUMBERS)


def _scanned(found: Found, to: DataType) -> tuple[Any, Any]:
    """Return the values of documents whose value can be parsed in place, and which documents these are."""
    if to is STRING:
        is_read = found.is_one_of(TEXT, ESCAPED, WHOLE, TRUE, FALSE)
        return read_texts(found, np.flatnonzero(is_read)), is_read
    if to is BOOLEAN:
        is_read = found.is_one_of(TRUE, FALSE)
        return found.kinds[is_read] == TRUE, is_read
    values = np.empty(len(found.kinds), numpy_dtype(to))
    is_read = found.is_one_of(WHOLE, REAL)
    for (rows, numbers), source in ((found.wholes(), LONG), (found.reals(), DOUBLE)):
        values[rows] = convert_values(numbers, source, to)
        if source is LONG and to is DataType.INT:
            is_read[rows] = values[rows] == numbers  # unless converting wrapped the number
    if to is LONG and len(large := found.rows(LARGE)):
        is_read[large] = _read_large(found.texts(large), large, values)
    return values[is_read], is_read


def read_texts(found: Found, rows: "np.ndarray[Any, Any]") -> pa.StringArray:
    """Return the contents of strings, numbers and words; all strings with backslashes are parsed as one array."""
    texts = found.texts(rows)
    escaped = found.kinds[rows] == ESCAPED
    if not escaped.any():
        return texts
    mask = pa.array(escaped)
    some = texts.filter(mask)
    (joined,) = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(some)], pa.int32()), some), '","').to_pylist()
    return pc.replace_with_mask(texts, mask, pa.array(orjson.loads(f'["{joined}"]'), pa.string()))


def _read_large(texts: pa.StringArray, rows: "np.ndarray[Any, Any]", values: "np.ndarray[Any, Any]") -> bool:
    """Write integers of many digits, such as 64-bit ids, to the values of rows; return False if any exceeds 64 bits."""
    try:
        values[rows] = texts.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        return False
    return True


def holds_json(call: Call, document: Operand) -> bool:
    """Whether the first argument of a call is a column of JSON or MAP, whose texts were validated at ingestion."""
    return isinstance(call.args[0], Column) and document.type in (DataType.JSON, DataType.MAP)


def _default(name: str, value: Any, result: DataType, multi_value: bool) -> Any:
    if value is None:
        return None
    try:
        if not multi_value:
            return value if result is DataType.JSON and isinstance(value, str) else scalar_of(value, result)
        listed = parse_document(value) if isinstance(value, str) else MISSING
        if isinstance(listed, list):
            return [scalar_of(item, result) for item in listed]
    except QueryError as error:
        raise wrong(name, f"the default {value!r} is not {result.value}: {error}") from None
    raise wrong(name, f"""the default of a multi-value result must be a JSON array such as '["a"]', not {value!r}""")


def _extract_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    if types and types[0][1]:
        raise wrong("jsonExtractScalar", "argument 1 must be single-value")
    extraction = Extraction.of("jsonExtractScalar", call, 4)
    return extraction.type, extraction.multi_value


def _extract(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    extraction = Extraction.of("jsonExtractScalar", call, 4)
    document = args[0]
    if isinstance(document, Scalar) and document.value is None:
        return null_result(extraction.type, extraction.multi_value, num_rows)
    constant = isinstance(document, Scalar) and not extraction.multi_value
    documents = to_vector(convert(document, STRING), 1 if constant else num_rows)
    steps = path_steps(extraction.path)
    exactly = extraction.type is DataType.BIG_DECIMAL
    find = lambda text: read_path(parse_exactly(text), steps) if exactly else find_in(text, steps)  # noqa: E731
    is_json = holds_json(call, document)
    results = extraction.plain_results(documents, steps, find, is_json=is_json) or extraction.results(documents, find)
    if not constant:
        return results
    missing = results.nulls is not None and bool(results.nulls[0])
    return Scalar(None if missing else results.values.tolist()[0], extraction.type)


register_scalar(
    ["jsonExtractScalar", "jsonExtractScalarFast", "jsonExtractScalarFirstMatch", "jsonExtractScalarFory"],
    ScalarFunction("jsonExtractScalar", 3, 4, _extract_type, _extract),
)


# -- jsonPath… and formats


def checked_path(result: DataType, multi_value: bool = False) -> Callable[[Call, Sequence[ValueType]], ValueType]:
    """Return the type rule of a function whose second argument is a path: a constant one is checked at binding."""

    def rule(call: Call, types: Sequence[ValueType]) -> ValueType:
        path = call.args[1]
        if isinstance(path, Literal) and isinstance(path.value, str):
            path_steps(path.value)
        return result, multi_value

    return rule


_NO_DOCUMENT = ""
"""A text in which no path exists."""


def _register_path(name: str, to: DataType, absent: Any) -> None:
    def run(document: Any, path: str, default: Any = MISSING) -> Vector:
        steps = path_steps(path)

        def find(text: str) -> Any:
            value = find_in(text, steps)
            if value is MISSING or value is None:
                return absent if default is MISSING else default
            try:
                return scalar_of(value, to)
            except QueryError:
                if default is MISSING:
                    raise
                return default

        return of_distinct(name, Vector(STRING, document), find, to)

    params = (each(STRING), const(STRING), const(to))
    scalar(name, params=params, returns=checked_path(to), optional=1, null_as=_NO_DOCUMENT)(run)


_register_path("jsonPath", STRING, None)
_register_path("jsonPathString", STRING, None)
_register_path("jsonPathLong", LONG, -(2**63))
_register_path("jsonPathDouble", DOUBLE, float("nan"))


@scalar("jsonPathExists", params=(each(STRING), const(STRING)), returns=checked_path(BOOLEAN))
def json_path_exists(document: Any, path: str) -> Vector:
    steps = path_steps(path)
    exists = lambda text: read_path(parse_document(text), steps) is not MISSING  # noqa: E731
    return of_distinct("jsonPathExists", Vector(STRING, document), exists, BOOLEAN)


def _json_path_array(name: str, absent: list[str] | None, null_as: str | None) -> None:
    def run(document: Any, path: str) -> Vector:
        steps = path_steps(path)

        def find(text: str) -> list[str] | None:
            value = find_in(text, steps)
            if value is MISSING or value is None:
                return absent
            return [json_text(item) for item in (value if isinstance(value, list) else [value])]

        return lists_of_distinct(name, Vector(STRING, document), find, STRING)

    rule = checked_path(STRING, multi_value=True)
    scalar(name, params=(each(STRING), const(STRING)), returns=rule, multi_value=True, null_as=null_as)(run)


_json_path_array("jsonPathArray", None, None)
_json_path_array("jsonPathArrayDefaultEmpty", [], _NO_DOCUMENT)


@by_value("isJson", params=(STRING,), returns=BOOLEAN)
def is_json(text: str) -> bool:
    return parse_document(text) is not MISSING


@by_value("jsonFormat", "toJsonMapStr", params=(DataType.JSON,), returns=STRING)
def json_format(text: str) -> str:
    """The document without redundant whitespace; text that is not JSON becomes a JSON string."""
    value = parse_document(text)
    return compact(text if value is MISSING else value)

"""LIKE and regular expressions in Java's syntax.

Patterns run in Arrow (RE2) on whole columns if RE2 supports them, else once for each distinct value
(`gamay.functions.regex`). `\\d`, `\\w`, `\\s` and case mean ASCII, as in Java.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import ErrorCode, QueryError
from gamay.base.recently_used import remembered
from gamay.functions.arguments import check_count, wrong
from gamay.functions.arrow import binary_buffers
from gamay.functions.convert import by_dictionary, by_distinct, convert, to_vector
from gamay.functions.distinct import distinct
from gamay.functions.expression import Call, Literal
from gamay.functions.regex import re2
from gamay.functions.regex.like_parts import LikeParts
from gamay.functions.regex.matching import (
    LITERAL,
    JavaPattern,
    Match,
    captured,
    check_length,
    compiled,
    re2_condition,
    re2_counted,
    re2_matches,
)
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.comparison import check_lists, condition
from gamay.functions.scalar.define import by_value, const, each, of_row, scalar, type_of
from gamay.functions.scalar.text.strings import check_growth, checked_size
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, take, take_rows
from gamay.model.types import DataType

STRING, INT, BOOLEAN = DataType.STRING, DataType.INT, DataType.BOOLEAN
_ASCII_MAX = 127
# up to this many texts are matched without a pre-filter
_FEW = 16
# the least ratio of texts to those that pass the pre-filter at which selecting these pays
_RARE = 3


# -- syntax


@remembered()
def needed_parts(pattern: str) -> "LikeParts | None":
    """Return the literal texts that every match of a Java pattern contains, in this order; None without any.

    Searching for these is much cheaper than matching the pattern, and most texts lack them.
    """
    parts = needed_runs(pattern)
    return LikeParts.of(parts, False, False, ignore_case=False) if parts else None


def needed_runs(pattern: str) -> list[str]:
    """Return the non-empty literal texts that every match of a Java pattern contains, in this order."""
    runs = [""]
    for operator, argument in compiled(pattern).tree:
        if operator is LITERAL:
            runs[-1] += chr(argument)
        else:
            runs.append("")
    return [run for run in runs if run]


def like_runs(pattern: str) -> list[str]:
    """Return the non-empty literal texts that every match of a LIKE pattern contains, in this order, ignoring case."""
    runs = [""]
    chars = iter(pattern)
    for char in chars:
        follows = next(chars, "") if char == "\\" else None
        if follows is not None:
            runs[-1] += follows if follows and follows in "%_\\" else char + follows
        elif char in "%_":
            runs.append("")
        else:
            runs[-1] += char
    return [run for run in runs if run]


def find(values: Values, pattern: str, ignore_case: bool = False) -> Any:
    """Return which texts contain a match: bool [n]."""
    translated = re2_condition(pattern, ignore_case)
    needed = None if ignore_case or translated is None else needed_parts(pattern)
    if translated is not None and needed is not None and len(values) > _FEW:
        found = needed.holds(values)
        rows = np.flatnonzero(found)
        if len(rows) * _RARE < len(values):
            found[rows] = re2.found(take(values, rows), translated)
            return found
    if translated is not None:
        return re2.found(values, translated, ignore_case=ignore_case)
    search = compiled(pattern, ignore_case).search
    return by_distinct(values, lambda text: search(text) is not None, BOOLEAN)


@remembered()
def like_pattern(pattern: str) -> str:
    r"""Return the RE2 pattern of a LIKE pattern: % any run, _ one character, a backslash escapes these two.

    >>> like_pattern("a_b%")
    '(?is)\\Aa.b'
    """
    check_length(pattern)
    parts: list[str] = []
    escaped = False
    for char in pattern:
        if escaped:
            parts.append(_quoted(char) if char in "%_\\" else _quoted("\\") + _quoted(char))
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "%":
            if parts[-1:] != [".*"]:
                parts.append(".*")
        else:
            parts.append("." if char == "_" else _quoted(char))
    if escaped:
        parts.append(_quoted("\\"))
    begin, end = "\\A", "\\z"
    if parts and parts[-1] == ".*":
        parts.pop()
        end = ""
    if parts and parts[0] == ".*":
        parts.pop(0)
        begin = ""
    return f"(?is){begin}{''.join(parts)}{end}"


@by_value("likePattern", params=(STRING, STRING), returns=STRING)
def with_backslashes(pattern: str, escape: str) -> str:
    r"""Return the pattern of `LIKE 'pattern' ESCAPE 'c'` with a backslash for each escape character `c`.

    >>> with_backslashes("10!%_!!", "!")
    '10\%_!'
    """
    if len(escape) != 1:
        raise wrong("LIKE", f"ESCAPE takes one character, not '{escape}'")
    if escape == "\\":
        return pattern
    parts: list[str] = []
    chars = iter(pattern)
    for char in chars:
        follows = next(chars, None) if char == escape else char
        if follows is None or (char == escape and follows not in ("%", "_", escape)):
            raise wrong("LIKE", f"in the pattern '{pattern}' the character '{escape}' may escape %, _ and itself only")
        parts.append(f"\\{follows}" if follows == "\\" or (char == escape and follows != escape) else follows)
    return "".join(parts)


def _quoted(char: str) -> str:
    return f"\\{char}" if char in r"\.+*?()|[]{}^$" else char


def like(values: Values, pattern: str) -> Any:
    """Return which texts match a LIKE pattern, ignoring case: bool [n]."""
    plain = like_parts(pattern)
    if plain is None or len(values) == 0:
        return _fits(values, pattern)
    found = plain.holds(values)
    if binary_buffers(values)[1].max(initial=0) > _ASCII_MAX:
        # non-ASCII letters may be k or s in another case
        rest = np.flatnonzero(~found)
        found[rest] = _fits(take(values, rest), pattern)
    return found


def _fits(values: Values, pattern: str) -> Any:
    try:
        return re2.found(values, like_pattern(pattern))
    except pa.ArrowInvalid:  # RE2 rejects it as too large
        raise wrong("LIKE", f"the pattern of {len(pattern)} characters is too large") from None


@remembered()
def like_parts(pattern: str) -> LikeParts | None:
    """Return the parts of a pattern of ASCII text and % only; None for other patterns."""
    if not pattern.isascii() or "_" in pattern or "\\" in pattern or "%" not in pattern:
        return None
    texts = pattern.lower().split("%")
    parts = [text for text in texts if text]
    return LikeParts.of(parts, texts[0] != "", texts[-1] != "", ignore_case=True) if parts else None


# -- conditions


def _check_pattern(call: Call) -> None:
    """Raise QueryError if the second argument is an invalid constant pattern."""
    pattern = call.args[1]
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        compiled(pattern.value)


def _matching(name: str, match: Callable[[Values, Sequence[Any]], Any], min_args: int, max_args: int) -> tuple[Any, Any]:
    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        check_count(name, len(types), min_args, max_args)
        check_lists(call, types)
        if any(multi_value for _, multi_value in types[1:]):
            raise wrong(name, "the pattern must be single-value")
        if name != "like":
            _check_pattern(call)
            if len(call.args) > 2 and isinstance(call.args[2], Literal) and isinstance(call.args[2].value, str):
                _ignores_case(name, call.args[2].value)
        return BOOLEAN, False

    def test(parts: Sequence[Operand]) -> Any:
        text = parts[0]
        patterns = list(parts[1:])
        if isinstance(text, EncodedVector) and text.type.is_text and all(isinstance(p, Scalar) for p in patterns):
            return match(text.dictionary.values, [_constant(p) for p in patterns])[text.ids]
        vector = to_vector(convert(text, STRING), 1)
        if all(isinstance(p, Scalar) for p in patterns):
            return match(vector.values, [_constant(p) for p in patterns])
        return _each_pattern(vector, patterns)

    def _each_pattern(vector: Any, patterns: list[Operand]) -> Any:
        """Match once for each distinct pattern of a column."""
        column = to_vector(convert(patterns[0], STRING), len(vector))
        codes, entries = distinct(column)
        result = np.zeros(len(codes), np.bool_)
        for code, pattern in enumerate(entries.values.to_pylist()):
            rows = np.flatnonzero(codes == code)
            texts = to_vector(take_rows(vector, rows), len(rows)).values
            try:
                result[rows] = match(texts, [pattern, *(_constant(p) for p in patterns[1:])])
            except QueryError as error:
                raise of_row(error) from None
        return result

    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        result_type(call, [type_of(arg) for arg in args])
        widened = [to_vector(args[0], num_rows), *args[1:]] if _only_text_constant(args) else args
        return condition(widened, num_rows, test)

    return result_type, compute


def _only_text_constant(args: Sequence[Operand]) -> bool:
    return isinstance(args[0], Scalar) and args[0].value is not None and not all(isinstance(a, Scalar) for a in args)


def _constant(operand: Operand) -> Any:
    converted = convert(operand, STRING)
    if not isinstance(converted, Scalar):
        raise QueryError(ErrorCode.QUERY_VALIDATION, "The options of a pattern must be a constant")
    return converted.value


def _ignores_case(name: str, options: str) -> bool:
    if options not in ("i", "c"):
        raise wrong(name, f"the option '{options}' is neither 'i' (any case) nor 'c'")
    return options == "i"


def _regexp_like(values: Values, constants: Sequence[Any]) -> Any:
    return find(values, constants[0], len(constants) > 1 and _ignores_case("regexpLike", constants[1]))


for _names, _match, _most in (
    (("like", "likeVar"), lambda values, constants: like(values, constants[0]), 2),
    (("regexpLike", "regexpLikeVar"), _regexp_like, 3),
):
    _rule, _compute = _matching(_names[0], _match, 2, _most)
    register_scalar(_names, ScalarFunction(_names[0], 2, _most, _rule, _compute))


# -- extracting and replacing


def _of_pattern(returns: DataType) -> Callable[[Call, Sequence[ValueType]], ValueType]:
    """Return the type rule of a function whose second argument is a pattern, which checks a constant one."""

    def rule(call: Call, types: Sequence[ValueType]) -> ValueType:
        _check_pattern(call)
        return returns, False

    return rule


_TEXT, _CONST_TEXT, _CONST_INT = each(STRING), const(STRING), const(INT)


@scalar(
    "regexpExtract",
    "regexpExtractVar",
    params=(_TEXT, _CONST_TEXT, _CONST_INT, _CONST_TEXT),
    returns=_of_pattern(STRING),
    optional=2,
)
def regexp_extract(text: Any, pattern: str, group: int = 0, default: str = "") -> Any:
    """The first match, or a group of it; the default if there is none."""
    expression = compiled(pattern)
    if not 0 <= group <= expression.groups:
        return by_distinct(text, lambda value: default, STRING)
    whole = re2_matches(pattern, False, group)
    if whole is not None and (group == 0 or default == ""):  # RE2 returns '' for a group that did not participate
        return by_dictionary(text, lambda values: pc.fill_null(captured(values, whole, group), default))

    def extract(value: str) -> str:
        match = expression.search(value)
        return default if match is None or match[group] is None else match[group]

    return by_distinct(text, extract, STRING)


def _start(start: int) -> int:
    if start < 0:
        raise wrong("regexpReplace", f"the start position {start} is negative")
    return start


def _replace_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    _check_pattern(call)
    pattern, by = (arg.value if isinstance(arg, Literal) else None for arg in call.args[1:3])
    occurrence = call.args[4] if len(call.args) > 4 else None
    replaces_all = occurrence is None or (isinstance(occurrence, Literal) and str(occurrence.value).startswith("-"))
    if replaces_all and isinstance(pattern, str) and isinstance(by, str):
        _replacement(by, compiled(pattern))
    return STRING, False


@scalar(
    "regexpReplace",
    "regexpReplaceVar",
    params=(
        _TEXT,
        _CONST_TEXT,
        _CONST_TEXT,
        const(INT, _start),
        _CONST_INT,
        const(STRING, lambda options: _ignores_case("regexpReplace", options)),
    ),
    returns=_replace_type,
    optional=3,
)
def regexp_replace(text: Any, pattern: str, by: str, start: int = 0, occurrence: int = -1, options: str = "c") -> Any:
    """Replace all matches (`$1` in `by` is a group then), or the nth from 0; text before `start` is unchanged."""
    ignore_case = _ignores_case("regexpReplace", options)
    expression = compiled(pattern, ignore_case)
    start = _start(start)
    parts = _replacement(by, expression) if occurrence < 0 else [by]
    whole = re2_matches(pattern, ignore_case)
    if whole is not None and start == 0 and occurrence <= 0:
        rewrite = "".join(part.replace("\\", r"\\") if isinstance(part, str) else f"\\{part}" for part in parts)
        most = None if occurrence < 0 else 1

        def replaced(values: Values) -> Values:
            if most is None:
                check_growth("regexpReplace", values, partial(_counted, pattern=whole), len(by))
            replace = partial(pc.replace_substring_regex, pattern=whole, replacement=rewrite, max_replacements=most)
            return re2.in_steps(values, whole, replace)

        return by_dictionary(text, replaced)

    size = 0

    def build(match: Match) -> str:
        nonlocal size
        made = "".join(part if isinstance(part, str) else match[part] or "" for part in parts)
        size = checked_size("regexpReplace", size + len(made))
        return made

    def replace(value: str) -> str:
        nonlocal size
        size = 0
        if 0 < len(value) <= start:
            return value
        head, tail = value[:start], value[start:]
        if occurrence < 0:
            return head + expression.replace(build, tail)
        matches = expression.all_matches(tail)[occurrence : occurrence + 1]
        return head + tail[: matches[0].start()] + by + tail[matches[0].end() :] if matches else value

    return by_distinct(text, replace, STRING)


def _replacement(by: str, expression: JavaPattern) -> list[str | int]:
    """Parse Java's replacement syntax to texts and group numbers: `$1`, `${name}`; a backslash escapes a character.

    A number extends over as many digits as form an existing group. Raises QueryError for a group that the pattern lacks.
    """
    parts: list[str | int] = []
    for escaped, digits, name, plain in re.findall(r"\\(.)|\$(\d+)|\$\{(\w+)\}|([^\\$]+|[\\$])", by, re.DOTALL):
        if not digits and not name:
            parts.append(escaped or plain)
            continue
        length = next((n for n in range(len(digits), 0, -1) if int(digits[:n]) <= expression.groups), 0)
        number = int(digits[:length]) if length else expression.groupindex.get(name, -1)
        if number < 0:
            raise wrong("regexpReplace", f"'{expression.pattern}' has no group {digits or name}")
        parts += [number, digits[length:]]
    return parts


@scalar("regexpSubstr", "regexpSubstrVar", params=(_TEXT, _CONST_TEXT), returns=_of_pattern(STRING))
def regexp_substr(text: Any, pattern: str) -> Any:
    """The first match, null if there is none."""
    search = compiled(pattern).search
    whole = re2_matches(pattern, False)
    if whole is not None:
        matched = by_dictionary(text, lambda values: captured(values, whole, 0))
        missing, found = np.asarray(pc.is_null(matched)), pc.fill_null(matched, "")
    else:
        found = by_distinct(text, lambda value: "" if (match := search(value)) is None else match[0], STRING)
        missing = ~find(text, pattern)
    return Vector(STRING, found, None, missing if missing.any() else None)


@scalar("regexpCount", "regexpCountVar", params=(_TEXT, _CONST_TEXT), returns=_of_pattern(INT))
def regexp_count(text: Any, pattern: str) -> Any:
    """The number of non-overlapping matches."""
    expression = compiled(pattern)
    counted = re2_counted(pattern)
    if counted is not None:
        return by_dictionary(text, partial(_counted, pattern=counted))
    return by_distinct(text, lambda value: len(expression.all_matches(value)), INT)


def _counted(values: Values, pattern: str) -> Any:
    return re2.in_steps(values, pattern, lambda texts: np.asarray(pc.count_substring_regex(texts, pattern)))

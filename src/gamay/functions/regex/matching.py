"""Matching of Java patterns: with RE2 where possible, else with a backtracking engine under a time limit.

RE2 (in Arrow) takes time linear in the text and matches whole columns. It lacks look-around, back references and possessive
quantifiers; patterns that use these go to the `regex` module, one text at a time. Python's own `re` is not used to match: it
quantifiers; patterns that use these are matched by the `regex` module, one text at a time. Python's own `re` is not used: it
backtracks without a limit and holds the interpreter's lock, so that a pattern such as `(a*)*b` could stall a process.
"""

import re
import re._constants as _ops  # type: ignore[import-not-found]
import re._parser as _parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gamay.base import guard
from gamay.base.errors import ErrorCode, QueryError
from gamay.base.recently_used import remembered
from gamay.functions.regex.java_syntax import has_unicode_flag, java_regex
from gamay.functions.regex.re2 import in_steps

Match: TypeAlias = Any
"""A `regex.Match`: the same interface as `re.Match`."""

CHARS_MAX = 32_768
"""The maximum length of a pattern: parsing takes quadratic time in the length of its brackets, 0.3 s at this length."""
PATTERN_CHARS_MAX = 10_000
"""The maximum length of a pattern for the backtracking engine, which takes 20 µs per character to compile."""
REPEATS_MAX = 100_000
"""The maximum size of a pattern with its counted repeats expanded: the engine takes about 400 bytes for each element."""
MATCH_SECONDS_MAX = 30.0
"""The maximum processor time for matching one text, if the query's deadline does not end it before."""
_SHOWN_CHARS = 200
_FIRST_LIMIT_S = 0.05
_LIMIT_GROWTH = 1.5
_RE2_GROUPS_MAX = 9
_CAPTURED = "captured"
# the parts of RE2's syntax that matter here: escapes, classes, and capturing groups
_RE2_PIECES = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\((?!\?)|\(\?P<\w+>", re.DOTALL)
LITERAL = _ops.LITERAL
"""The operator of a literal character in the parse tree of a pattern."""
_REPEATS = (_ops.MAX_REPEAT, _ops.MIN_REPEAT, _ops.POSSESSIVE_REPEAT)


class JavaPattern:
    """A pattern in Java's syntax that is matched against texts one by one.

    The matching methods raise QueryError if the query ends meanwhile, and 150 if one text takes `MATCH_SECONDS_MAX`.
    """

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        """Raise QueryError 150 if `pattern` is invalid or too large."""
        check_length(pattern)
        self.pattern = pattern
        self._ignore_case = ignore_case
        try:
            self._translated = java_regex(pattern)
            self.tree = _parser.parse(self._translated, re.ASCII)
            repeats = _num_elements(self.tree)
        except (re.error, OverflowError, RecursionError) as error:
            raise _no_pattern(pattern, error) from None
        if repeats > REPEATS_MAX:
            raise _no_pattern(pattern, f"its repeats expand to {repeats:,} elements, at most {REPEATS_MAX:,} are allowed")

    @property
    def groups(self) -> int:
        """The number of capturing groups."""
        return int(self.tree.state.groups) - 1

    @property
    def groupindex(self) -> Mapping[str, int]:
        """The numbers of named groups, by name."""
        return dict(self.tree.state.groupdict)

    @cached_property
    def _engine(self) -> Any:
        if len(self.pattern) > PATTERN_CHARS_MAX:
            raise _no_pattern(self.pattern, f"it has more than {PATTERN_CHARS_MAX:,} characters")
        import regex  # only patterns beyond RE2 pay for it

        try:
            # the engine does not turn on `u` for a single group
            characters = regex.UNICODE if has_unicode_flag(self.pattern) else regex.ASCII
            return regex.compile(self._translated, characters | (regex.IGNORECASE if self._ignore_case else 0))
        except (regex.error, OverflowError, RecursionError) as error:
            raise _no_pattern(self.pattern, error) from None

    def search(self, text: str) -> Match | None:
        """Return the first match in a text."""
        return self._within_time(self._engine.search, text)

    def fullmatch(self, text: str) -> Match | None:
        """Return the match that covers the whole text."""
        return self._within_time(self._engine.fullmatch, text)

    def all_matches(self, text: str) -> Sequence[Match]:
        """Return all non-overlapping matches from left to right."""
        matches: list[Match] = self._within_time(lambda text, timeout: [*self._engine.finditer(text, timeout=timeout)], text)
        return matches

    def replace(self, replacement: Callable[[Match], str], text: str) -> str:
        """Return a text with each match replaced."""
        return str(self._within_time(self._engine.sub, replacement, text))

    def _within_time(self, match: Callable[..., Any], *args: Any) -> Any:
        """Retry a match with growing time limits until the query ends: the engine measures the time of all threads
        together, and cannot be interrupted."""
        limit_s = _FIRST_LIMIT_S
        while True:
            guard.check()
            try:
                return match(*args, timeout=limit_s)
            except TimeoutError:
                if limit_s > MATCH_SECONDS_MAX:
                    text = f"matching '{_begin(self.pattern)}' against one text of {len(args[-1])} characters takes too long"
                    raise QueryError(ErrorCode.QUERY_VALIDATION, f"{text}; avoid nested repeats such as (a*)*") from None
                limit_s *= _LIMIT_GROWTH


def check_length(pattern: str) -> None:
    """Raise QueryError 150 if a pattern, also of LIKE, is too long to be parsed."""
    if len(pattern) > CHARS_MAX:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"The pattern '{_begin(pattern)}' has {len(pattern):,} characters, at most {CHARS_MAX:,} are allowed",
        )


def _no_pattern(pattern: str, why: object) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"'{_begin(pattern)}' is not a regular expression: {why}")


def _begin(pattern: str) -> str:
    return pattern if len(pattern) <= _SHOWN_CHARS else f"{pattern[:_SHOWN_CHARS]}…"


def _num_elements(tree: Any) -> int:
    """Return the number of elements of a pattern with each counted repeat expanded."""
    total = 0
    for operator, argument in tree:
        inner = sum(map(_num_elements, _parts(argument)))
        times = max(bound for bound in (1, *argument[:2]) if bound is not _ops.MAXREPEAT) if operator in _REPEATS else 1
        total += times * max(1, inner)
    return total


def _parts(argument: Any) -> Iterator[Any]:
    """Yield the patterns within an element of a pattern."""
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for part in argument:
            yield from _parts(part)


def _any_element(tree: Any, holds: Callable[[Any, Any], bool]) -> bool:
    return any(holds(*element) or any(_any_element(part, holds) for part in _parts(element[1])) for element in tree)


def _repeats_nothing(operator: Any, argument: Any) -> bool:
    """Whether an element that can be empty is repeated: RE2 may capture other groups there than Java."""
    return operator in _REPEATS and argument[2].getwidth()[0] == 0


@remembered()
def compiled(pattern: str, ignore_case: bool = False) -> JavaPattern:
    """Return a Java pattern for matching texts one by one; raises QueryError 150 if it is invalid."""
    return JavaPattern(pattern, ignore_case)


@remembered()
def re2_condition(pattern: str, ignore_case: bool) -> str | None:
    """Return the equivalent pattern for Arrow, or None if RE2 does not support it or interprets it differently."""
    check_length(pattern)
    if re.search(r"[*+?}]\+", pattern) or not (pattern.isascii() or ignore_case):
        return None  # RE2 alone folds the case of non-ASCII letters
    try:
        translated = java_regex(pattern, for_re2=True)
        pc.match_substring_regex(pa.array([""]), translated, ignore_case=ignore_case)
    except (re.error, pa.ArrowInvalid):
        return None
    return translated


@remembered()
def re2_matches(pattern: str, ignore_case: bool, group: int = 0) -> str | None:
    """Return the pattern for Arrow with identical matches and groups; None if that is not certain.

    Excluded are empty matches, which engines count differently, and `$`, which consumes a line terminator here: that
    makes no difference to `group` at the end of the pattern.
    """
    translated = re2_condition(pattern, ignore_case)
    if translated is None or "$" in pattern[: -1 if group else None] or "\\Z" in pattern:
        return None
    java = compiled(pattern, ignore_case)
    if java.tree.getwidth()[0] == 0 or java.groups > _RE2_GROUPS_MAX or _any_element(java.tree, _repeats_nothing):
        return None
    return f"(?i:{translated})" if ignore_case else translated


@remembered()
def re2_counted(pattern: str) -> str | None:
    """Return the pattern for Arrow with an identical number of matches; None if that is not certain.

    Arrow drops the text before a match when it searches for the next one, which matters to `^` and `\\b`.
    """
    has_positions = _any_element(compiled(pattern).tree, lambda operator, _: operator is _ops.AT)
    return None if has_positions else re2_matches(pattern, False)


def captured(texts: Any, translated: str, group: int) -> Any:
    """Return what a group of the first match covers in each text, null if nothing matches; 0 is the whole match.

    translated: returned by `re2_matches`. A group that does not participate in the match yields an empty text.
    """
    begin = f"(?P<{_CAPTURED}>"
    numbers = count(1)

    def only_wanted(piece: "re.Match[str]") -> str:
        return piece[0] if piece[0][0] != "(" else begin if next(numbers) == group else "(?:"

    alone = _RE2_PIECES.sub(only_wanted, translated)  # Arrow returns all groups, which must be named
    wanted = alone if group else f"{begin}{alone})"
    return in_steps(texts, wanted, lambda step: pc.struct_field(pc.extract_regex(step, wanted), _CAPTURED))

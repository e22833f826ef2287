"""One reader and one writer for every JSON document that users declare.

A section of a document is a frozen dataclass whose fields are made by `key(...)`: JSON key, shape of the value, default.
`read_document` parses JSON into such an object, collects *all* problems with their JSON pointers before it raises, and
reports undeclared keys; `write_section` is its inverse. No section has its own parsing code.

A key that is absent, null or the empty string has its default, and a required one must have a value: forms and tools
write `""` for fields that were not filled in. Empty strings in lists are dropped, and so are those in maps of other types
than text.

Scalars with a default are always written, so that the effective value is visible; lists, maps and sections that are empty
by default are written only if they are not.
"""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from gamay.base.errors import InvalidConfigError, nearest

T = TypeVar("T")
K = TypeVar("K")
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True)
class Parsed(Generic[T]):
    """A parsed value, and the keys that Gamay does not know.

    unrecognized: JSON pointer -> value, as in the `unrecognizedProperties` of a controller's response.
    suggestions: JSON pointer -> the nearest known key, for unrecognized keys that look like a typo.
    """

    value: T
    unrecognized: Mapping[str, Any] = field(default_factory=dict)
    suggestions: Mapping[str, str] = field(default_factory=dict)


# --- text to JSON -----------------------------------------------------------------------------------------------


# documents that Gamay reads have about a dozen
_LEVELS_MAX = 100


def load_json(text: str | bytes, what: str = "document") -> Any:
    """Parse JSON text.

    Raises InvalidConfigError for bad syntax, NaN, a duplicate key, and more levels or digits than any document needs.
    """

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, value in pairs:
            if name in result:
                raise InvalidConfigError(f"the {what} has the key '{name}' twice in one object; remove one of them")
            result[name] = value
        return result

    def no_constants(constant: str) -> Any:
        raise InvalidConfigError(f'the {what} contains {constant}, which is not JSON; write it as the string "{constant}"')

    try:
        value = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constants)
    except json.JSONDecodeError as error:
        raise InvalidConfigError(
            f"the {what} is not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidConfigError(f"the {what} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except ValueError as error:  # Python refuses to parse them, as that takes time quadratic in the number of digits
        raise InvalidConfigError(f"the {what} has a number of thousands of digits; write it as a string") from error
    except RecursionError:
        raise _too_deep(what) from None
    if _is_deeper(value, _LEVELS_MAX):
        raise _too_deep(what)
    return value


def _too_deep(what: str) -> InvalidConfigError:
    return InvalidConfigError(f"the {what} has lists or objects nested more than {_LEVELS_MAX} levels deep")


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list) or not value:
        return False
    within = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in within)


# --- the current position ------------------------------------------------------------------------------------


class BadValueError(Exception):
    """Invalid values, one sentence each; a reader of several values collects the sentences of all."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class At:
    """A position in the document being read: its JSON pointer, and where to record undeclared keys."""

    pointer: str = ""
    unrecognized: dict[str, Any] = field(default_factory=dict)
    suggestions: dict[str, str] = field(default_factory=dict)

    def child(self, step: str | int) -> "At":
        """Return the position of a key or list index below this one."""
        escaped = str(step).replace("~", "~0").replace("/", "~1")
        return At(f"{self.pointer}/{escaped}", self.unrecognized, self.suggestions)

    def says(self, problem: str) -> BadValueError:
        """Return the error for a problem at this position, to be raised."""
        return BadValueError([f"{self.pointer}: {problem}" if self.pointer else problem])

    def bad(self, value: Any, expected: str) -> BadValueError:
        """Return the error for a value other than expected, to be raised."""
        shown = json.dumps(value, default=str)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        return self.says(f"{shown} is not {expected}")


def _gather(reads: Iterable[tuple[K, Callable[[], T]]]) -> dict[K, T]:
    """Perform all reads, then raise once, with the problems of all."""
    results: dict[K, T] = {}
    problems: list[str] = []
    for name, read in reads:
        try:
            results[name] = read()
        except BadValueError as bad:
            problems.extend(bad.problems)
    if problems:
        raise BadValueError(problems)
    return results


# --- shapes of values -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """The form of the values of a shape, for descriptions of documents (`gamay.model.json_schema`).

    kind: `any`, `text` (or a scalar for it), `string`, `flag`, `integer`, `number`, `choice`, `list`, `map`, `section`,
    or `either` of several forms. names: of a choice; of a section its required keys that may be missing here. items: the
    form of the elements of a list or a map, or the alternatives of `either`. cls: of a section."""

    kind: str
    names: tuple[str, ...] = ()
    items: "tuple[Form, ...]" = ()
    cls: type | None = None


ANYTHING = Form("any")


@dataclass(frozen=True)
class Shape(Generic[T]):
    """How a value is read from JSON and written back. takes_empty: whether the empty string is a valid value, too."""

    read: Callable[[Any, At], T]
    write: Callable[[T], Any]
    takes_empty: bool = False
    form: Form = ANYTHING


def _same(value: Any) -> Any:
    return value


def _read_text(value: Any, at: At) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise at.bad(value, "a string")


def _read_remark(value: Any, at: At) -> str | None:
    text = _read_text(value, at)
    return text if text.strip() else None


def _read_flag(value: Any, at: At) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise at.bad(value, "true or false")


_LONGS = range(-(1 << 63), 1 << 63)
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def _read_integer(value: Any, at: At) -> int:
    is_whole = (
        _INTEGER.fullmatch(value)
        if isinstance(value, str)
        else _is_number(value) and (isinstance(value, int) or value.is_integer())
    )
    if not is_whole:
        raise at.bad(value, "a whole number")
    if int(value) not in _LONGS:
        raise at.bad(value, "a whole number of 64 bits")
    return int(value)


def _read_number(value: Any, at: At) -> float:
    if _NUMBER.fullmatch(value) if isinstance(value, str) else _is_number(value):
        with suppress(OverflowError):
            if math.isfinite(number := float(value)):
                return number
    raise at.bad(value, "a number")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _write_number(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


def _read_verbatim(value: Any, at: At) -> Any:
    return value


TEXT: Shape[str] = Shape(_read_text, _same, form=Form("text"))
REMARK: Shape[str | None] = Shape(
    _read_remark, _same, form=Form("text")
)  # text that is none when it is blank, and not written then
FLAG: Shape[bool] = Shape(_read_flag, _same, form=Form("flag"))
INTEGER: Shape[int] = Shape(_read_integer, _same, form=Form("integer"))
INTEGER_TEXT: Shape[int] = Shape(_read_integer, str, form=Form("integer"))  # a number that the format writes as a string
NUMBER: Shape[float] = Shape(_read_number, _write_number, form=Form("number"))
VERBATIM: Shape[Any] = Shape(_read_verbatim, _same)  # any JSON, kept unchanged


def choice(*names: str) -> Shape[str]:
    """Return the shape of one of some names, case-insensitive; read as the name given here."""
    by_folded = {name.lower(): name for name in names}

    def read(value: Any, at: At) -> str:
        if isinstance(value, str) and value.strip().lower() in by_folded:
            return by_folded[value.strip().lower()]
        hint = nearest(value, names) if isinstance(value, str) else ""
        raise at.bad(value, f"one of {', '.join(names)}.{hint}")

    return Shape(read, _same, form=Form("choice", names))


def member(enum: type[E]) -> Shape[E]:
    """Return the shape of a member of an enum, by its value, case-insensitive."""
    names = choice(*(str(m.value) for m in enum))
    return Shape(lambda value, at: enum(names.read(value, at)), lambda m: m.value, form=names.form)


def list_of(item: Shape[T]) -> Shape[tuple[T, ...]]:
    """Return the shape of a list, read as a tuple."""

    def read(value: Any, at: At) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise at.bad(value, "a list")
        given = ((i, element) for i, element in enumerate(value) if element != "")
        return tuple(_gather((i, partial(item.read, element, at.child(i))) for i, element in given).values())

    return Shape(read, lambda values: [item.write(v) for v in values], form=Form("list", items=(item.form,)))


def map_of(item: Shape[T]) -> Shape[Mapping[str, T]]:
    """Return the shape of an object with free keys."""

    def read(value: Any, at: At) -> Mapping[str, T]:
        if not isinstance(value, dict):
            raise at.bad(value, "an object")
        kept_empty = item in (TEXT, VERBATIM)
        given = ((n, element) for n, element in value.items() if element is not None and (kept_empty or element != ""))
        return _gather((name, partial(item.read, element, at.child(name))) for name, element in given)

    form = Form("map", items=(item.form,))
    return Shape(read, lambda values: {name: item.write(v) for name, v in values.items()}, form=form)


def section(cls: type[T]) -> Shape[T]:
    """Return the shape of an object with the keys that the dataclass declares."""
    return Shape(lambda value, at: _read_section(cls, value, at), write_section, form=Form("section", cls=cls))


COLUMNS: Shape[tuple[str, ...]] = list_of(TEXT)
OBJECT: Shape[Mapping[str, Any]] = map_of(VERBATIM)
TEXT_MAP: Shape[Mapping[str, str]] = map_of(TEXT)

# --- sections ---------------------------------------------------------------------------------------------------------

REQUIRED: Any = dataclasses.MISSING
EMPTY_MAP: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Key:
    """One key of a section."""

    name: str
    shape: Shape[Any]
    aliases: tuple[str, ...] = ()
    required: bool = False
    write_empty: bool = False


def key(name: str, shape: Shape[Any], default: Any = None, *, aliases: Sequence[str] = (), always: bool = False) -> Any:
    """Declare a dataclass field that is read from and written to the JSON key `name`.

    default: REQUIRED makes the key's absence a problem. aliases: older names, read if `name` is absent, never written.
    always: write the key even if its value and its default are an empty list or map.
    """
    described = Key(name, shape, tuple(aliases), default is REQUIRED, always or default is None or default is REQUIRED)
    if default is EMPTY_MAP:
        return field(default_factory=dict, metadata={"key": described})
    return field(default=default, metadata={"key": described})


def keys_of(cls: type) -> dict[str, Key]:
    """Return attribute name -> key of a section."""
    return {f.name: f.metadata["key"] for f in dataclasses.fields(cls) if "key" in f.metadata}


def read_document(cls: type[T], document: Any, what: str) -> Parsed[T]:
    """Parse a whole document; raise InvalidConfigError listing every problem in it."""
    at = At()
    try:
        return Parsed(section(cls).read(document, at), at.unrecognized, at.suggestions)
    except BadValueError as bad:
        raise_problems(what, bad.problems)
        raise


def raise_problems(what: str, problems: Sequence[str]) -> None:
    """Raise InvalidConfigError with all the problems, if there are any."""
    if len(problems) == 1:
        raise InvalidConfigError(f"{what} is not valid: {problems[0]}")
    if problems:
        lines = "".join(f"\n- {problem}" for problem in problems)
        raise InvalidConfigError(f"{what} has {len(problems)} problems:{lines}")


def _read_section(cls: type[T], value: Any, at: At) -> T:
    if not isinstance(value, dict):
        raise at.bad(value, "an object")
    keys = keys_of(cls)
    _note_unrecognized(value, {spelling for k in keys.values() for spelling in (k.name, *k.aliases)}, at)
    given = {a: k for a, k in keys.items() if k.required or _spellings(k, value)}
    return cls(**_gather((attribute, partial(_read_key, k, value, at)) for attribute, k in given.items()))


def _read_key(described: Key, value: Mapping[str, Any], at: At) -> Any:
    spellings = _spellings(described, value)
    if not spellings:
        raise at.says(f"the key '{described.name}' is {'empty' if value.get(described.name) == '' else 'missing'}")
    if any(value[s] != value[spellings[0]] for s in spellings[1:]):
        raise at.says(f"{' and '.join(spellings)} are two spellings of one key and disagree; keep '{described.name}'")
    return described.shape.read(value[spellings[0]], at.child(spellings[0]))


def _spellings(described: Key, value: Mapping[str, Any]) -> list[str]:
    """Return the names under which a value of the key is given."""
    unset = (None,) if described.shape.takes_empty else (None, "")
    return [s for s in (described.name, *described.aliases) if value.get(s) not in unset]


def _note_unrecognized(value: Mapping[str, Any], known: set[str], at: At) -> None:
    for name, unknown in value.items():
        if name in known:
            continue
        pointer = at.child(name).pointer
        at.unrecognized[pointer] = unknown
        hint = nearest(name, known)
        if hint:
            at.suggestions[pointer] = hint.split("'")[1]


def write_section(instance: Any) -> dict[str, Any]:
    """Return the JSON object of a section."""
    result: dict[str, Any] = {}
    for attribute, described in keys_of(type(instance)).items():
        value = getattr(instance, attribute)
        if value is None:
            continue
        written = described.shape.write(value)
        if described.write_empty or written not in ([], {}):
            result[described.name] = written
    return result

"""The settings of a JSON index, and the paths that it holds accordingly."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from gamay.model.parse import COLUMNS, FLAG, INTEGER, key, keys_of, read_document, write_section

Levels: TypeAlias = tuple[str | None, ...]
"""A path, level by level: the name of a member, or None for the elements of an array."""

_LEVEL = re.compile(r"\.(?P<name>[^.\[\]]+)|\[\*\]|\['(?P<quoted>[^']*)'\]")
_LISTS = ("includePaths", "excludePaths", "excludeFields", "indexPaths")


@dataclass(frozen=True)
class JsonIndexConfig:
    """A JSON index. Without settings it holds every path.

    max_levels: the maximum depth, where arrays are levels too; 0 or less for any. include_paths: only these paths and
    those below; exclude_paths: not these; exclude_fields: no members of these names; index_paths: only paths that match
    one of these patterns, such as `a.*` and `a.**`. max_value_length: longer values are not distinguished; 0 for no
    limit.
    """

    max_levels: int = key("maxLevels", INTEGER, -1)
    exclude_array: bool = key("excludeArray", FLAG, False)
    disable_cross_array_unnest: bool = key("disableCrossArrayUnnest", FLAG, False)
    include_paths: tuple[str, ...] = key("includePaths", COLUMNS, ())
    exclude_paths: tuple[str, ...] = key("excludePaths", COLUMNS, ())
    exclude_fields: tuple[str, ...] = key("excludeFields", COLUMNS, ())
    index_paths: tuple[str, ...] = key("indexPaths", COLUMNS, ())
    max_value_length: int = key("maxValueLength", INTEGER, 0)
    skip_invalid_json: bool = key("skipInvalidJson", FLAG, False)
    max_bytes_size: int | None = key("maxBytesSize", INTEGER)
    disabled: bool = key("disabled", FLAG, False)

    def holds(self, path: Levels) -> bool:
        """Whether the scalars at a path are in the index."""
        if 0 < self.max_levels < len(path) or (self.exclude_array and None in path):
            return False
        if not self._excluded_names.isdisjoint(path) or any(_is_below(path, other) for other in self._excluded):
            return False
        if self.include_paths and not any(_is_below(path, other) for other in self._included):
            return False
        return not self.index_paths or any(_fits(path, pattern) for pattern in self._patterns)

    @cached_property
    def _excluded_names(self) -> frozenset[str]:
        return frozenset(self.exclude_fields)

    @cached_property
    def _included(self) -> tuple[Levels, ...]:
        return tuple(levels_of(path) or () for path in self.include_paths)

    @cached_property
    def _excluded(self) -> tuple[Levels, ...]:
        return tuple(levels_of(path) or () for path in self.exclude_paths)

    @cached_property
    def _patterns(self) -> tuple[tuple[str, ...], ...]:
        return tuple(_parts(pattern) for pattern in self.index_paths)


def levels_of(path: str) -> Levels | None:
    """Return the levels of a path such as `$.a.b[*].c`; None for an invalid path, or one with positions."""
    text = path[1:] if path.startswith("$") else path if path.startswith("[") else f".{path}"
    levels: list[str | None] = []
    position = 0
    while position < len(text):
        level = _LEVEL.match(text, position)
        if level is None:
            return None
        levels.append(level["name"] if level["quoted"] is None else level["quoted"])
        position = level.end()
    return tuple(levels)


def _parts(pattern: str) -> tuple[str, ...]:
    """Return the parts of a pattern: `a..b` and `a[*].b` have an empty one for the elements of the array, as has `a..`."""
    text = pattern.replace("[*]", ".")
    return tuple((text[:-1] if text.endswith("..") else text).split("."))


def _is_below(path: Levels, other: Levels) -> bool:
    return path[: len(other)] == other


def _fits(path: Levels, pattern: Sequence[str]) -> bool:
    """Whether a pattern matches a whole path: `*` matches a level, `**` any number, "" an array's elements."""
    reached = {0}
    for level in path:
        reached = _skipping({at for at in reached if at < len(pattern)}, pattern)
        reached = {at + (pattern[at] != "**") for at in reached if at < len(pattern) and _is_level(level, pattern[at])}
    return len(pattern) in _skipping(reached, pattern)


def _skipping(reached: set[int], pattern: Sequence[str]) -> set[int]:
    """Add the positions in a pattern that are reached without consuming a level."""
    found = set(reached)
    for at in reached:
        while at < len(pattern) and pattern[at] == "**":
            at += 1
            found.add(at)
    return found


def _is_level(level: str | None, part: str) -> bool:
    return part in ("*", "**") or part == ("" if level is None else level)


def json_index_config(settings: Mapping[str, Any]) -> JsonIndexConfig:
    """Parse settings to their typed form; raises InvalidConfigError if they are invalid."""
    return read_document(JsonIndexConfig, dict(settings), "the JSON index").value


def of_properties(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings among a column's `properties`, in which lists are JSON, or separated by commas."""
    known = {described.name for described in keys_of(JsonIndexConfig).values()}
    return {name: _listed(text) if name in _LISTS else text for name, text in properties.items() if name in known}


def _listed(text: str) -> list[str]:
    try:
        parts = json.loads(text) if text.lstrip().startswith('["') else text.split(",")
    except ValueError:
        parts = text.split(",")
    return [str(part).strip() for part in parts]


def written(config: JsonIndexConfig) -> dict[str, Any]:
    """Return settings in their JSON form, without those that equal their defaults."""
    return {name: value for name, value in write_section(config).items() if value != _DEFAULTS.get(name, [])}


_DEFAULTS = write_section(JsonIndexConfig())


def problems_of(config: JsonIndexConfig) -> Iterator[str]:
    """Yield a sentence for each invalid setting."""
    if config.include_paths and config.exclude_paths:
        yield "it has includePaths and excludePaths; keep one: paths outside includePaths are excluded anyway"
    for name, paths in (("includePaths", config.include_paths), ("excludePaths", config.exclude_paths)):
        for path in paths:
            if levels_of(path) is None:
                yield f"the path '{path}' in {name} is not one such as $.a.b[*].c, of names and [*] only"
    for pattern in config.index_paths:
        if pattern.startswith("$") or "[" in pattern.replace("[*]", ""):
            yield f"the pattern '{pattern}' in indexPaths is not one such as a.*, a.** or a[*].b, which is also written a..b"
    if config.max_value_length < 0:
        yield f"its maxValueLength is {config.max_value_length}; it must not be negative; 0 means no limit"


def unused_of(config: JsonIndexConfig) -> Iterator[str]:
    """Yield a sentence for each setting without effect."""
    if config.disable_cross_array_unnest:
        yield "disableCrossArrayUnnest has no effect: values of several arrays are never combined"
    if config.max_bytes_size is not None:
        yield "maxBytesSize has no effect: an index takes the space that its paths and values need"

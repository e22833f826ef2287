"""Which files a task may take rows from: those below what a config names, as far as the operator allows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError
from gamay.ingest.read.sources import glob_regex, list_files
from gamay.storage.fetchers import Fetchers
from gamay.storage.filesystems import explained, scheme_of


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file. uri: as users know it; opened: what is read for it, which for a link is where that leads."""

    uri: str
    opened: str


def named_files(
    fetchers: Fetchers, key: str, uri: str, include: str | None = None, exclude: str | None = None
) -> list[InputFile]:
    """Return the files below a folder, or the one that is named, by URI.

    key: that names it. include, exclude: `glob:…` or `regex:…` over whole paths; a file on a web server stands for itself
    alone. Raises NotFoundError when there is nothing, OSError, and InvalidConfigError for what users may not have opened,
    each file for itself, as a link among them may lead anywhere, and for what is no pattern.
    """
    fetchers.check_key(key, uri)
    if scheme_of(uri) in ("http", "https"):
        return [InputFile(uri, uri)]
    with explained(f"cannot list {uri}"):
        found = list_files(uri, options=fetchers.options_of(uri))
    if include is not None:
        found = [file for file, is_match in zip(found, _matches(include, found), strict=True) if is_match]
    if exclude is not None:
        found = [file for file, is_match in zip(found, _matches(exclude, found), strict=True) if not is_match]
    return [InputFile(file, fetchers.check_key(key, file)) for file in found]


def _matches(pattern: str, paths: Sequence[str]) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return which paths match, in time linear in their lengths: Python's own patterns may hold up the whole process."""
    kind, _, body = pattern.partition(":")
    expression = glob_regex(body) if kind == "glob" else body
    try:
        found = pc.match_substring_regex(pa.array(paths, pa.string()), rf"(?s)\A(?:{expression})\z")
    except pa.ArrowInvalid as error:
        raise InvalidConfigError(
            f"the file name pattern {pattern!r} cannot be used: {error}; look-around and back references are not known"
        ) from error
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)

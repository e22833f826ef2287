"""The input files of a task: those below the URI in its config, as far as the operator allows them."""

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
    """An input file. uri: as users know it; opened: the path that is read, which for a link is its target."""

    uri: str
    opened: str


def named_files(
    fetchers: Fetchers, key: str, uri: str, include: str | None = None, exclude: str | None = None
) -> list[InputFile]:
    """Return the files below a folder, or the single file, at a URI.

    key: the config key of the URI. include, exclude: `glob:…` or `regex:…` over whole paths; they do not apply to a file
    on a web server. Raises NotFoundError if nothing exists, OSError, and InvalidConfigError for an invalid pattern or a
    file that users may not read; every file is checked, since a link may lead anywhere.
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
    """Return which paths match, in time linear in their lengths: Python's `re` could block the whole process."""
    kind, _, body = pattern.partition(":")
    expression = glob_regex(body) if kind == "glob" else body
    try:
        found = pc.match_substring_regex(pa.array(paths, pa.string()), rf"(?s)\A(?:{expression})\z")
    except pa.ArrowInvalid as error:
        raise InvalidConfigError(
            f"the file name pattern {pattern!r} cannot be used: {error}; look-around and back references are not supported"
        ) from error
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)

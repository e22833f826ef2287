"""Which files a task may take rows from: those below what a config names, as far as the operator allows them."""

from dataclasses import dataclass

from gamay.ingest.read.sources import list_files
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

    key: that names it. include, exclude: as for `list_files`; a file on a web server stands for itself alone.
    Raises NotFoundError when there is nothing, OSError, and InvalidConfigError for what users may not have opened, each
    file for itself, as a link among them may lead anywhere.
    """
    fetchers.check_key(key, uri)
    if scheme_of(uri) in ("http", "https"):
        return [InputFile(uri, uri)]
    with explained(f"cannot list {uri}"):
        found = list_files(uri, include=include, exclude=exclude, options=fetchers.options_of(uri))
    return [InputFile(file, fetchers.check_key(key, file)) for file in found]

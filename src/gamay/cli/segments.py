"""Segments in command arguments: archives, unpacked ones, and folders of either."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gamay.base.errors import InvalidConfigError
from gamay.segment.encode.format import METADATA_FILE
from gamay.storage.archive import pack

_ARCHIVES = (".tar.zst", ".tar.gz", ".tgz")


def segments_in(path: Path) -> list[Path]:
    """Return the segments at a path: itself, or those directly inside a folder, sorted by name.

    Raises InvalidConfigError if there is none.
    """
    if path.is_file() or _is_unpacked(path):
        return [path]
    if not path.is_dir():
        raise InvalidConfigError(f"{path} does not exist; give the archive or the folder of a segment, or a folder of them")
    found = [inner for inner in sorted(path.iterdir()) if inner.name.endswith(_ARCHIVES) or _is_unpacked(inner)]
    if not found:
        raise InvalidConfigError(
            f"there is no segment in {path}: neither a file *{', *'.join(_ARCHIVES)} nor a folder with {METADATA_FILE}"
        )
    return found


@contextmanager
def with_archive(segment: Path) -> Iterator[Path]:
    """Yield the archive of a segment; an unpacked one is packed temporarily."""
    if segment.is_file():
        yield segment
        return
    with tempfile.TemporaryDirectory(prefix="gamay-") as made:
        yield pack(segment, Path(made) / f"{segment.resolve().name}.tar.zst")


def _is_unpacked(path: Path) -> bool:
    return (path / METADATA_FILE).is_file()

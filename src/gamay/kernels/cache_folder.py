"""Where compiled kernels lie: in the first writable of $GAMAY_CACHE_DIR, $XDG_CACHE_HOME/gamay, ~/.cache/gamay and the
temporary folder, never in the installation, which may be read-only. A folder before it that holds kernels and cannot be
written, as in a container with a read-only root, is read.

Numba writes each entry under a temporary name and renames it, so processes that compile the same kernel at once cost each
other time, never correctness.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path


def _candidates() -> Iterator[Path]:
    if named := os.environ.get("GAMAY_CACHE_DIR"):
        yield Path(named)
    if cache_home := os.environ.get("XDG_CACHE_HOME"):
        yield Path(cache_home) / "gamay"
    if os.path.expanduser("~") != "~":
        yield Path("~/.cache/gamay").expanduser()
    yield Path(tempfile.gettempdir()) / f"gamay-{os.getuid()}"


def cache_dirs() -> list[Path]:
    """Return the folder that compiled kernels are written to, made if need be, and after it those that are only read.

    Raises OSError when no candidate can be written. Warns (UserWarning) where $GAMAY_CACHE_DIR is of no use.
    """
    useless: list[str] = []
    read_only: list[Path] = []
    for candidate in _candidates():
        folder = candidate / "kernels"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as reason:
            useless.append(f"{folder} ({reason.strerror})")
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            usable = [folder, *read_only]
            if (named := os.environ.get("GAMAY_CACHE_DIR")) and Path(named) / "kernels" not in usable:
                warnings.warn(f"GAMAY_CACHE_DIR: {useless[0]}; compiled kernels are kept in {folder}", stacklevel=2)
            return usable
        if os.access(folder, os.R_OK | os.X_OK) and any(folder.iterdir()):
            read_only.append(folder)
        else:
            useless.append(f"{folder} (not writable)")
    raise OSError(f"no folder for compiled kernels can be written: {', '.join(useless)}; set GAMAY_CACHE_DIR to one")


def cache_dir() -> Path:
    """Return the folder that compiled kernels are written to; raises OSError as `cache_dirs` does."""
    return cache_dirs()[0]

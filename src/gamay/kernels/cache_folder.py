"""Where compiled kernels lie: in the first writable of $GAMAY_CACHE_DIR, $XDG_CACHE_HOME/gamay, ~/.cache/gamay and the
temporary folder, never in the installation, which may be read-only.

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


def cache_dir() -> Path:
    """Return the folder of compiled kernels, made if need be; raises OSError when no candidate can be written.

    Warns (UserWarning) where $GAMAY_CACHE_DIR cannot be.
    """
    tried = []
    for candidate in _candidates():
        folder = candidate / "kernels"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as reason:
            tried.append(f"{folder} ({reason.strerror})")
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            if tried and "GAMAY_CACHE_DIR" in os.environ:
                warnings.warn(f"GAMAY_CACHE_DIR: {tried[0]}; compiled kernels are kept in {folder}", stacklevel=2)
            return folder
        tried.append(f"{folder} (not writable)")
    raise OSError(f"no folder for compiled kernels can be written: {', '.join(tried)}; set GAMAY_CACHE_DIR to one")

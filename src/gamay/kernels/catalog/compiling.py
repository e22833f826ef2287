"""Compiling the catalog in processes of their own, so that no query waits meanwhile: Numba compiles under one lock."""

import fcntl
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import llvmlite.binding
import numba
from numba.core.errors import NumbaError

from gamay.kernels import prebuilt
from gamay.kernels.cache import stamp_of
from gamay.kernels.cache_folder import cache_dir, cache_dirs
from gamay.kernels.catalog.entries import FILE, read_entries, shared

_NICENESS = 19


def is_compiled() -> bool:
    """Whether the catalog has been compiled of the present sources, for this processor or its family, and these versions."""
    own, found = f"{_name(_processor())}.complete", prebuilt.family()
    marks = [folder / own for folder in cache_dirs()]
    if found is not None:
        marks.append(found[0] / f"{_name(found[1].cpu)}.complete")
    return any(mark.exists() for mark in marks)


def start(processes: int = 1) -> list[subprocess.Popen[bytes]]:
    """Start to compile the catalog in so many processes, of the lowest priority where it is one."""
    command = [sys.executable, "-m", "gamay.kernels.catalog"]
    return [
        subprocess.Popen([*command, str(part), str(processes)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for part in range(processes)
    ]


def finish(children: "list[subprocess.Popen[bytes]]") -> None:
    """Wait for all processes of a `start`, and note where they have compiled everything."""
    codes = [child.wait() for child in children]
    if not any(codes):
        _mark().touch()


def compile_part(part: int, parts: int, tell: Callable[[str], None]) -> bool:
    """Compile one of so many parts. tell: is told of entries that cannot be. Return whether nobody else does so already."""
    if parts == 1:
        os.nice(_NICENESS)
    with (cache_dir() / f"{_name(_processor())}.{part}-of-{parts}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        for entry in shared(read_entries(), parts)[part]:
            try:
                entry.compile()
            except (
                ImportError,
                AttributeError,
                TypeError,
                ValueError,
                NumbaError,
            ) as error:  # of other sources than the catalog
                tell(f"{entry.module}.{entry.name} ({entry.types}): {error}")
    if parts == 1:
        _mark().touch()
    return True


def _mark() -> Path:
    return cache_dir() / f"{_name(_processor())}.complete"


def _processor() -> str:
    """Return what kernels are compiled for: Numba's setting, or the processor of this machine."""
    return str(getattr(numba.config, "CPU_NAME", None) or llvmlite.binding.get_host_cpu_name())


def _name(processor: str) -> str:
    """Return what is another text for other sources, versions or processors."""
    parts = [stamp_of(path) for path in sorted(FILE.parents[1].rglob("*.py"))]
    parts += [FILE.read_text(), numba.__version__, platform.python_version(), processor]
    return f"catalog-{sha256(' '.join(parts).encode()).hexdigest()[:16]}"

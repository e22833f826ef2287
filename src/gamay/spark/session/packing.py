"""A virtual environment as one file, with which Spark's executors, and its drivers in a cluster, need no Gamay installed.

A virtual environment is at home where it is unpacked: its interpreter finds it by the `pyvenv.cfg` above it, and what else
names its old place are scripts, which Spark does not run.
"""

import io
import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.spark.session.local import ARROW_BYTES, NO_LIMIT

CACHE = "cache"
"""The folder of compiled kernels in the archive."""
_GAMAY = Path(__file__).parents[2]
_PYSPARK_LEFT_OUT = ("jars", "data", "examples", "sbin", "kubernetes")  # each Spark has its own
_COMPRESSION = 3  # higher ones take much longer and gain a few percent


def pack_environment(
    output: Path, *, prefix: Path = Path(sys.prefix), python: Path | None = None, kernels: Path | None = None
) -> None:
    """Write the archive (`.tar.gz`), whole or not at all.

    prefix: of the virtual environment. python: the interpreter on the machines of the cluster; None: as on this machine.
    kernels: a folder of compiled ones.
    Raises InvalidConfigError for what is no virtual environment, or cannot be packed, NotFoundError, OSError.
    """
    configured = prefix / "pyvenv.cfg"
    if not configured.is_file():
        raise InvalidConfigError(
            f"{prefix} is no virtual environment (python -m venv), so it cannot be packed; pack one of conda by conda-pack"
        )
    if not output.name.endswith((".tar.gz", ".tgz")):
        raise InvalidConfigError(f"{output}: Spark unpacks archives by their names; call it {output.name}.tar.gz")
    if not output.absolute().parent.is_dir():
        raise NotFoundError(f"there is no folder {output.absolute().parent}")
    (library,) = prefix.glob("lib/python3*/site-packages")
    _refuse_editable(library)
    temporary = output.with_name(f".{output.name}.part")
    try:
        with tarfile.open(temporary, "w:gz", compresslevel=_COMPRESSION) as tar:
            for path in _files(prefix, library / "pyspark"):
                if path != configured:
                    tar.add(path, path.relative_to(prefix), recursive=False, filter=lambda member: _linked(member, python))
            _add_text(tar, configured.name, _at_home(configured.read_text(encoding="utf-8"), python))
            if not (library / "gamay").is_dir():
                tar.add(_GAMAY, library.relative_to(prefix) / "gamay")
            if kernels is not None:
                tar.add(kernels, f"{CACHE}/kernels")
        os.replace(temporary, output)
    finally:
        temporary.unlink(missing_ok=True)


def submit_options(archive: Path, prefix: Path = Path(sys.prefix)) -> list[str]:
    """Return what `spark-submit` is told, run in the folder that the environment is in.

    Executors have the archive unpacked in their working folders under the environment's name, and so have drivers in a
    cluster. Other drivers find the environment itself there, and so does Spark on them, which asks data sources in Python by
    the interpreter of executors.
    """
    home = f"./{prefix.name}"
    return [
        f"--archives {archive.absolute()}#{prefix.name}",
        f"--conf spark.pyspark.python={home}/bin/python",
        f"--conf spark.executorEnv.GAMAY_CACHE_DIR={home}/{CACHE}",
        "--conf spark.python.daemon.module=gamay.spark.session.daemon",
        f"--conf {ARROW_BYTES}={NO_LIMIT}",
    ]


def _files(prefix: Path, pyspark: Path) -> Iterator[Path]:
    """Yield the files and links of an environment, without what PySpark brings for Java."""
    left_out = {pyspark / name for name in _PYSPARK_LEFT_OUT}
    for folder, folders, names in os.walk(prefix):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in links and here / name not in left_out)
        yield from (here / name for name in sorted([*names, *links]))


def _linked(member: tarfile.TarInfo, python: Path | None) -> tarfile.TarInfo:
    """Return a file as it is packed: links to this machine's interpreter lead to another one where that is told."""
    if python is not None and member.issym() and os.path.isabs(member.linkname) and member.name.startswith("bin/python"):
        member.linkname = str(python)
    return member


def _at_home(text: str, python: Path | None) -> str:
    """Return what `pyvenv.cfg` says where the interpreter has another path."""
    if python is None:
        return text
    kept = [line for line in text.splitlines() if line.partition("=")[0].strip() not in ("home", "executable", "command")]
    return "\n".join([f"home = {python.parent}", *kept, ""])


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def _refuse_editable(library: Path) -> None:
    """Raise InvalidConfigError for packages that lie elsewhere, and would not be packed; Gamay's own sources would be."""
    for file in sorted(library.glob("*.pth")):
        for line in file.read_text(encoding="utf-8").splitlines():
            named = Path(line.strip())
            if named.is_absolute() and named.is_dir() and named != _GAMAY.parent and not named.is_relative_to(library):
                raise InvalidConfigError(f"{file.name} names packages in {named}, which are not packed: install them by pip")

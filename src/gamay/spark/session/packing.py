"""A virtual environment as an archive, so that Gamay need not be installed for executors and drivers in a cluster.

A virtual environment works wherever it is unpacked: its interpreter locates it by the `pyvenv.cfg` above it, and only
scripts, which Spark does not run, contain its original path.
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
_PYSPARK_LEFT_OUT = ("jars", "data", "examples", "sbin", "kubernetes")  # part of every Spark installation
_COMPRESSION = 3  # higher levels take much longer and save a few percent only


def pack_environment(
    output: Path, *, prefix: Path = Path(sys.prefix), python: Path | None = None, kernels: Path | None = None
) -> None:
    """Write the archive (`.tar.gz`) atomically.

    prefix: of the virtual environment. python: the interpreter's path on the cluster's machines; None: as on this machine.
    kernels: a folder of compiled kernels to include.
    Raises InvalidConfigError if it is not a virtual environment or cannot be packed, NotFoundError, OSError.
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
    """Return the options for `spark-submit`, to be run in the parent folder of the environment.

    Executors, and drivers in a cluster, have the archive unpacked under the environment's name in their working folders.
    For other drivers the environment itself is at that path; their Spark also uses the executors' interpreter, to plan
    Python data sources.
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
    """Yield the files and links of an environment, without PySpark's files for Java."""
    left_out = {pyspark / name for name in _PYSPARK_LEFT_OUT}
    for folder, folders, names in os.walk(prefix):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in links and here / name not in left_out)
        yield from (here / name for name in sorted([*names, *links]))


def _linked(member: tarfile.TarInfo, python: Path | None) -> tarfile.TarInfo:
    """Return an archive member, with links to this machine's interpreter redirected to `python`, unless that is None."""
    if python is not None and member.issym() and os.path.isabs(member.linkname) and member.name.startswith("bin/python"):
        member.linkname = str(python)
    return member


def _at_home(text: str, python: Path | None) -> str:
    """Return the contents of `pyvenv.cfg` for the interpreter at `python`."""
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
    """Raise InvalidConfigError for editable packages other than Gamay, since their sources would not be packed."""
    for file in sorted(library.glob("*.pth")):
        for line in file.read_text(encoding="utf-8").splitlines():
            named = Path(line.strip())
            if named.is_absolute() and named.is_dir() and named != _GAMAY.parent and not named.is_relative_to(library):
                raise InvalidConfigError(f"{file.name} names packages in {named}, which are not packed: install them by pip")

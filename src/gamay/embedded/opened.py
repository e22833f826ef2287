"""The data folders that this process has open through `gamay.connect`, each opened once and shared by its users.

The folder of `:memory:` is new each time. It is in an in-memory file system where the system has one, and is removed when
closed. A killed process leaves its folder behind; the next process that creates such a folder removes it.
"""

import atexit
import os
import re
import shutil
import tempfile
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakSet

from gamay.base.errors import ClosedError, ConflictError, InUseError, InvalidConfigError
from gamay.base.machine import usable_memory
from gamay.controller.health.periodic import PeriodicTask, PeriodicTasks
from gamay.embedded.core import LocalCluster
from gamay.roles.lock import FolderLock
from gamay.roles.memory import TRIM_S, trim

if TYPE_CHECKING:
    from gamay.controller.segments.writer import TableWriter

IN_MEMORY = ":memory:"
_PREFIX = "gamay-memory-"
_NAME = re.compile(rf"{_PREFIX}(\d+)-\w+")
_TMPFS = Path("/dev/shm")
_URL = re.compile(r"([a-z][a-z0-9+.-]*):/", re.IGNORECASE)


class OpenFolder:
    """A data folder that this process has open. The `leave` of its last user closes it.

    users: the objects that have connected and not left; weak references, so garbage-collected users are not counted.
    """

    def __init__(self, path: Path, threads: int | None, *, vanishes: bool) -> None:
        """vanishes: whether the folder is removed when it is closed, or when the process ends."""
        self.path = path
        self.users: WeakSet[object] = WeakSet()
        self._threads = threads
        self._vanishes = vanishes
        # A folder may hold far more than queries read, so checksums are verified column by column, on first use.
        self._cluster: LocalCluster | None = LocalCluster(path, threads=threads, verify_on_use=True)
        self._forked_from: int | None = None
        cluster = self._cluster
        try:
            cluster.prepare()
            self._finish_replacements(cluster)
            cluster.start()
            cluster.runner.looks_ahead = True
            self._periodic = PeriodicTasks([PeriodicTask("MemoryTrim", TRIM_S, trim)], cluster.clock)
            self._periodic.start()
        except BaseException:
            cluster.stop()
            raise
        if vanishes:
            atexit.register(self._close)

    @property
    def cluster(self) -> LocalCluster:
        """The roles. Raises ClosedError."""
        if self._cluster is None:
            raise self.closed_error()
        return self._cluster

    @cached_property
    def writer(self) -> "TableWriter":
        """The writer of rows; imported on first use, so that processes that only query do not wait for the import."""
        from gamay.controller.segments.writer import TableWriter

        return TableWriter(self.cluster.context, self.cluster.tables, self.cluster.segments)

    def is_at(self, path: Path) -> bool:
        """Whether this is the folder at a path, under any name; one that was re-created since is a different folder."""
        return self._cluster is not None and self._cluster.is_at(path)

    def check_threads(self, threads: int | None) -> None:
        """Raise ConflictError if `threads` differs from the number that the folder was opened with."""
        if threads is not None and threads != self._threads:
            has = "as many threads as there are cores" if self._threads is None else f"{self._threads} threads"
            raise ConflictError(
                f"the data folder '{self.path}' is open in this process with {has}: close it there, or leave out threads"
            )

    def leave(self, user: object) -> None:
        """Close the folder, unless it has other users."""
        with _Folders.changing:
            self.users.discard(user)
            if not self.users:
                self._close()

    def forget(self) -> None:
        """In a forked child: detach from the folder, which the parent keeps, as the child has none of its threads."""
        self._forked_from = os.getppid()
        if self._vanishes:
            atexit.unregister(self._close)
        if self._cluster is not None:
            self._cluster.forget()
            self._cluster = None

    def _close(self) -> None:
        cluster, self._cluster = self._cluster, None
        _Folders.opened.discard(self)
        if cluster is None:
            return
        self._periodic.stop()
        cluster.stop()
        if self._vanishes:
            atexit.unregister(self._close)
            shutil.rmtree(self.path, ignore_errors=True)

    def closed_error(self) -> ClosedError:
        """Return the error for use after closing, or in a forked child."""
        if self._forked_from is not None:
            return ClosedError(
                f"the database {self.path} was opened by process {self._forked_from}, of which this one is a fork: a fork "
                "has no threads to answer queries. Start processes with multiprocessing.get_context('spawn'), or connect in "
                "them alone"
            )
        if self._vanishes:
            return ClosedError(
                "the database in memory is closed, and its tables are gone: gamay.connect(':memory:') makes another"
            )
        return ClosedError(f"the database {self.path} is closed: open it again with gamay.connect('{self.path}')")

    @staticmethod
    def _finish_replacements(cluster: LocalCluster) -> None:
        """Complete or roll back a `create_table(…, if_exists="replace")` that a crashed process left unfinished."""
        for table in cluster.tables.names():
            if cluster.registry.get_lineage(table).entries:
                from gamay.embedded.replacing import finish_replacements

                finish_replacements(cluster, table)


class _Folders:
    """changing: held while folders are opened and closed; opened: those that are open."""

    changing = threading.RLock()
    opened: ClassVar[set[OpenFolder]] = set()


def open_folder(path: str | Path, threads: int | None, user: object) -> OpenFolder:
    """Return the folder at a path for a user: the one that is open already, or else opened now, and made if need be.

    `:memory:` is always a new one. Raises InvalidConfigError, InUseError, ConflictError.
    """
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise InvalidConfigError(f"threads must be a whole number from 1, not {threads!r}")
    in_memory = _check_path(path) == IN_MEMORY
    with _Folders.changing:
        if in_memory:
            found = OpenFolder(_make_folder_in_memory(), threads, vanishes=True)
        else:
            folder = Path(path).expanduser().absolute()
            known = next((one for one in _Folders.opened if one.is_at(folder)), None)
            if known is not None:
                known.check_threads(threads)
            found = known or OpenFolder(folder, threads, vanishes=False)
        _Folders.opened.add(found)
        found.users.add(user)
        return found


def _check_path(path: str | Path) -> str:
    if not isinstance(path, str | os.PathLike):
        raise InvalidConfigError(f"a data folder is a path, not {type(path).__name__}")
    text = os.fspath(path)
    if not text:
        raise InvalidConfigError("a data folder is a path, and this one is empty; '.' is the current folder")
    if (url := _URL.match(text)) is None:
        return text
    if url[1].lower() in ("http", "https"):
        raise InvalidConfigError(
            f"'{text}' is the address of a cluster, not a folder: use gamay.client.Connection.from_controller('{text}'), "
            f"or, for the address of a broker, gamay.client.connect('{text}')"
        )
    raise InvalidConfigError(f"'{text}' is a URL; a data folder is a path on this machine, such as 'data'")


def _make_folder_in_memory() -> Path:
    """Return a new folder that only this user can read; folders left by ended processes are removed."""
    parent = _place_in_memory()
    for left in parent.glob(f"{_PREFIX}*"):
        _remove_if_left(left)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))


def _place_in_memory() -> Path:
    """Return the in-memory file system if it is large enough (containers often have only 64 MB), else the disk's folder."""
    disk = Path(tempfile.gettempdir())
    try:
        found = os.statvfs(_TMPFS)
        memory = usable_memory()
    except (OSError, ValueError):
        return disk
    is_large = found.f_frsize * found.f_bavail >= memory // 4
    return _TMPFS if is_large and os.access(_TMPFS, os.W_OK | os.X_OK) else disk


def _remove_if_left(folder: Path) -> None:
    """Remove a folder whose process has ended, unless it is another user's or in use after all."""
    named = _NAME.fullmatch(folder.name)
    try:
        if named is None or _is_running(int(named[1])) or folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return
        FolderLock(folder).release()
    except (OSError, InUseError, InvalidConfigError):
        return  # removed by another process meanwhile, or in use by a process in another namespace
    shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _after_fork() -> None:
    _Folders.changing = threading.RLock()  # a thread of the parent may have held it
    for folder in _Folders.opened:
        folder.forget()
    _Folders.opened = set()


os.register_at_fork(after_in_child=_after_fork)

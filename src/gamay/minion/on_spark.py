"""Rebuilding segments in Spark executors: the minion submits the builds, fetches the archives, and pushes them itself.

The minion pushes, because at that moment it checks whether the subtask is still leased to it and whether inputs have
changed. Archives are passed through a staging folder with a subfolder for each minion. This is emptied whenever a rebuild
starts while no other runs, as are those of dead minions: killed processes, and executors that did not know yet of a job's
end, may have left files there.
"""

import importlib.util
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.base.tls import TlsSettings
from gamay.minion.progress import AttemptProgress
from gamay.minion.spark_settings import MASTER, SparkSettings
from gamay.spark.session.gateway import end_session, has_ended, java_path
from gamay.storage.fetchers import Fetchers
from gamay.storage.files import Access, remove
from gamay.storage.filesystems import scheme_of
from gamay.storage.settings import StorageSettings

if TYPE_CHECKING:
    from gamay.minion.pieces import Packed, Piece
    from gamay.minion.work import Rebuilt, Work

T = TypeVar("T")
_log = logging.getLogger(__name__)


class SparkBuilder:
    """Builder of segments in Spark executors; `rebuild` is a `gamay.minion.work.Builder`.

    minion: its id, the name of its subfolder of the staging folder. session: creates the SparkSession at the first
    rebuild; None for one on the settings' master. dead: returns the minions of the cluster that are not live.
    """

    def __init__(
        self,
        settings: SparkSettings,
        minion: str,
        storage: StorageSettings | None = None,
        tls: TlsSettings | None = None,
        session: Callable[[], Any] | None = None,
        dead: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._settings = settings
        self._dead = dead
        self._folder = f"{settings.staging_uri}/{minion}"
        self._minion = minion
        self._storage = storage or StorageSettings()
        self._tls = tls
        self._make_session = session or self._new_session
        self._lock = threading.Lock()
        self._session: Any = None
        self._rebuilds = 0

    def check(self) -> None:
        """Raise InvalidConfigError unless PySpark and Java are installed; neither is started."""
        if importlib.util.find_spec("pyspark") is None:
            raise InvalidConfigError(f"'{MASTER}' needs PySpark: pip install 'gamay[spark]'")
        java_path()

    def rebuild(self, work: "Work", folder: Path, progress: AttemptProgress) -> "Rebuilt":
        """Implement `Builder`. folder: its name is unique among all attempts of this minion. Raises ExecutorError if
        Spark fails."""
        from gamay.minion.staged import StagedRebuild, is_local, read_outcome, rebuild_staged
        from gamay.minion.work import ARCHIVE_SUFFIX

        progress.step(f"having segment {work.output} built by Spark at {self._settings.master}")
        uri = f"{self._folder}/{folder.name}{ARCHIVE_SUFFIX}"
        staged = StagedRebuild(work, uri, self._storage, self._tls)
        self._begin()
        try:
            (text,) = self._run([staged], rebuild_staged, f"segment {work.output}", progress)
            built = read_outcome(text, work.output)
            if not is_local(built):
                return built
            progress.step(f"fetching segment {work.output} with {built.rows} of {built.rows_before} rows, CRC {built.crc}")
            archive = folder / Path(built.archive).name
            Fetchers(self._storage).fetch(uri, archive)
            return replace(built, archive=str(archive))
        finally:
            self._remove(uri)
            with self._lock:
                self._rebuilds -= 1

    def build_pieces(self, pieces: "Sequence[Piece]", folder: Path, progress: AttemptProgress) -> "list[Packed]":
        """Implement `gamay.minion.pieces.PieceBuilder` with a Spark task for each piece. folder, errors: as of
        `rebuild`."""
        from gamay.minion.staged import StagedPiece, build_staged, read_pieces

        what = f"the {len(pieces)} pieces of {progress.subtask}"
        progress.step(f"having {what} built by Spark at {self._settings.master}")
        uri = f"{self._folder}/{folder.name}"
        staged = [StagedPiece(piece, uri, self._storage, self._tls) for piece in pieces]
        self._begin()
        try:
            found = []
            for text in self._run(staged, build_staged, what, progress):
                for packed in read_pieces(text, what):
                    progress.step(f"fetching segment {packed.name} with {packed.rows} rows, CRC {packed.crc}")
                    archive = folder / Path(packed.archive).name
                    Fetchers(self._storage).fetch(f"{uri}/{archive.name}", archive)
                    found.append(replace(packed, archive=str(archive)))
            return found
        finally:
            self._remove(uri)
            with self._lock:
                self._rebuilds -= 1

    def _run(self, staged: "Sequence[T]", function: "Callable[[T], str]", what: str, progress: AttemptProgress) -> list[str]:
        """Run a function on executors, and return its results. Raises ExecutorError if Spark fails."""
        from gamay.minion.staged import ExecutorError
        from gamay.spark.building.execute import run_tasks

        try:
            return run_tasks(self._running(), staged, function, f"building {what}", _Watch(progress))
        except GamayError:
            raise
        except Exception as error:
            reason = (str(error).strip() or repr(error)).splitlines()[0]
            raise ExecutorError(f"{what} could not be built because Spark failed: {reason}") from error

    def close(self) -> None:
        """End the session, if any, and remove the minion's part of the staging folder."""
        with self._lock:
            if self._session is not None:
                end_session(self._session)
                self._session = None
                self._remove(self._folder)

    def _begin(self) -> None:
        with self._lock:
            if self._rebuilds == 0:
                for minion in {self._minion, *self._dead()}:
                    self._remove(f"{self._settings.staging_uri}/{minion}")
            self._rebuilds += 1

    def _running(self) -> Any:
        """Return the session, or a new one if it has ended."""
        with self._lock:
            if self._session is not None and has_ended(self._session):
                _log.warning("the session of %s at %s has ended; a new one is started", self._minion, self._settings.master)
                end_session(self._session)
                self._session = None
            if self._session is None:
                self._session = self._make_session()
            return self._session

    def _new_session(self) -> Any:
        from gamay.spark.session.local import local_session

        return local_session(f"gamay-{self._minion}", configs={"spark.master": self._settings.master})

    def _remove(self, uri: str) -> None:
        """Remove a file or folder; a failure is only logged, since the rebuild need not be repeated for it."""
        try:
            remove(uri, Access(options=self._storage.options_of(scheme_of(uri))))
        except (GamayError, OSError) as error:
            _log.warning("%s could not be removed from the staging folder: %s", uri, error)


class _Watch:
    """A `gamay.spark.building.progress.JobProgress` that ends the job once the subtask is cancelled."""

    def __init__(self, progress: AttemptProgress) -> None:
        self._progress = progress

    def update(self, what: str, done: int, total: int) -> None:
        self._progress.check()

"""The Spark executor's side of a work or a piece: it builds, and stores archives where the minion fetches them."""

import ssl
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gamay.base.errors import GamayError
from gamay.base.tls import TlsSettings
from gamay.minion.pieces import Packed, Piece, build_piece
from gamay.minion.rebuild import OtherCopyError
from gamay.minion.work import Rebuilt, Work
from gamay.spark.building.target import scratch_folder
from gamay.spark.reading.segment_cache import SegmentCache
from gamay.spark.source_options import CACHE_BYTES, default_cache_folder
from gamay.storage.files import Access, put
from gamay.storage.filesystems import scheme_of
from gamay.storage.settings import StorageSettings


class ExecutorError(GamayError):
    """A rebuild that failed in a Spark executor, or because Spark did."""


@dataclass(frozen=True, slots=True)
class StagedRebuild:
    """A work for an executor. uri: the target of the archive. storage: the settings of file systems."""

    work: Work
    uri: str
    storage: StorageSettings = field(default_factory=StorageSettings, repr=False)
    tls: TlsSettings | None = None


@dataclass(frozen=True, slots=True)
class StagedPiece:
    """A piece for an executor. folder: the URI of the archives' folder. storage: the settings of file systems."""

    work: Piece
    folder: str
    storage: StorageSettings = field(default_factory=StorageSettings, repr=False)
    tls: TlsSettings | None = None


def build_staged(staged: StagedPiece) -> str:
    """Build a piece, and return the result as JSON: a list, or a failure in the form of `rebuild_staged`."""

    def build(folder: Path, tls: ssl.SSLContext | None) -> list[dict[str, Any]]:
        # pieces of one task on the same machine share inputs
        packed = build_piece(staged.work, folder, tls=tls, cache=SegmentCache(default_cache_folder(), CACHE_BYTES))
        for one in packed:
            _store(Path(one.archive), f"{staged.folder}/{Path(one.archive).name}", staged.storage)
        return [asdict(one) for one in packed]

    return _told(build, staged.tls)


def read_pieces(text: str, task: str) -> list[Packed]:
    """Return the result of `build_staged`, with the archives' paths on the executor. Raises as `read_outcome`."""
    told: Any = orjson.loads(text)
    _raise_failure(told, task)
    return [Packed(**one) for one in told]


def rebuild_staged(staged: StagedRebuild) -> str:
    """Execute the work, and return the result as JSON. Failures are returned, too: raised ones would be retried by
    Spark."""

    def build(folder: Path, tls: ssl.SSLContext | None) -> dict[str, Any]:
        built = staged.work.build(folder, lambda _: None, tls)
        if is_local(built):
            _store(Path(built.archive), staged.uri, staged.storage)
        return asdict(built)

    return _told(build, staged.tls)


def _told(build: Callable[[Path, ssl.SSLContext | None], Any], settings: TlsSettings | None) -> str:
    told: Any
    try:
        tls = settings.client_context() if settings is not None else None
        with scratch_folder() as folder:
            told = build(folder, tls)
    except OtherCopyError as error:
        told = {"other": error.segment, "crc": error.crc}
    except Exception as error:  # noqa: BLE001 - `read_outcome` raises it again
        told = {"error": str(error) if isinstance(error, GamayError | OSError) else repr(error)}
    return orjson.dumps(told).decode()


def _store(archive: Path, uri: str, storage: StorageSettings) -> None:
    scheme = scheme_of(uri)
    access = Access(options=storage.options_of(scheme))
    storage.retries_of(scheme).call(f"storing {uri}", lambda: put(archive, uri, access))


def is_local(built: Rebuilt) -> bool:
    """Whether the archive is on the machine that built it, and still has to be transferred."""
    return bool(built.archive) and scheme_of(built.archive) is None


def read_outcome(text: str, segment: str) -> Rebuilt:
    """Return the result of `rebuild_staged`, with the archive's path on the executor.

    segment: its name, for messages. Raises OtherCopyError, and ExecutorError for other failures.
    """
    told: dict[str, Any] = orjson.loads(text)
    _raise_failure(told, f"segment {segment}")
    return Rebuilt(**told)


def _raise_failure(told: Any, what: str) -> None:
    if "error" in told:
        raise ExecutorError(f"{what} could not be built in a Spark executor: {told['error']}")
    if "other" in told:
        raise OtherCopyError(told["other"], told["crc"])

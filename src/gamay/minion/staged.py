"""What a Spark executor does of a rebuild: it builds, and puts the archive where the minion finds it."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gamay.base.errors import GamayError
from gamay.base.tls import TlsSettings
from gamay.minion.rebuild import OtherCopyError
from gamay.minion.work import Rebuilt, Work
from gamay.spark.building.target import scratch_folder
from gamay.storage.files import Access, put
from gamay.storage.filesystems import scheme_of
from gamay.storage.settings import StorageSettings


class ExecutorError(GamayError):
    """A rebuild that failed in a Spark executor, or because Spark did."""


@dataclass(frozen=True, slots=True)
class StagedRebuild:
    """A work for an executor. uri: where the archive is to be put. storage: how file systems are reached."""

    work: Work
    uri: str
    storage: StorageSettings = field(default_factory=StorageSettings, repr=False)
    tls: TlsSettings | None = None


def rebuild_staged(staged: StagedRebuild) -> str:
    """Do it, and return what came of it as JSON, failures too: Spark would try them again, and show them as its own."""
    told: dict[str, Any]
    try:
        tls = staged.tls.client_context() if staged.tls is not None else None
        with scratch_folder() as folder:
            built = staged.work.build(folder, lambda _: None, tls)
            if is_local(built):
                scheme = scheme_of(staged.uri)
                access = Access(options=staged.storage.options_of(scheme))
                retries = staged.storage.retries_of(scheme)
                retries.call(f"storing {staged.uri}", lambda: put(Path(built.archive), staged.uri, access))
        told = asdict(built)
    except OtherCopyError as error:
        told = {"other": error.segment, "crc": error.crc}
    except Exception as error:  # noqa: BLE001 - it is raised again, by `read_outcome`
        told = {"error": str(error) if isinstance(error, GamayError | OSError) else repr(error)}
    return orjson.dumps(told).decode()


def is_local(built: Rebuilt) -> bool:
    """Whether there is an archive where it was built, to be brought to whoever pushes it."""
    return bool(built.archive) and scheme_of(built.archive) is None


def read_outcome(text: str, segment: str) -> Rebuilt:
    """Return what `rebuild_staged` tells, with the archive's path as it was on the executor.

    Raises OtherCopyError, and ExecutorError for what failed. segment: that was built.
    """
    told: dict[str, Any] = orjson.loads(text)
    if "error" in told:
        raise ExecutorError(f"segment {segment} could not be built in a Spark executor: {told['error']}")
    if "other" in told:
        raise OtherCopyError(told["other"], told["crc"])
    return Rebuilt(**told)

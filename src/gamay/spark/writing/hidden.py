"""Uploaded segments that are hidden until their write is complete."""

from dataclasses import dataclass
from pathlib import Path

from gamay.base.errors import ConflictError
from gamay.client.controller import ControllerClient
from gamay.ingest.job.spec import PushJobSpec
from gamay.spark.building.attempts import with_attempts
from gamay.spark.source_options import WriteOptions
from gamay.storage.archive import ZSTD_LEVEL_JOBS, pack

IN_PROGRESS = "IN_PROGRESS"


@dataclass(frozen=True, slots=True)
class Announced:
    """An uploaded hidden segment. entry: the id of its lineage entry. size_bytes: of its archive."""

    name: str
    entry: str
    num_docs: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Replaced:
    """The segments that an overwrite replaces. rewritten: new hidden segments with the rows of these that remain."""

    segments: tuple[str, ...]
    rewritten: tuple[Announced, ...]


def upload_hidden(client: ControllerClient, options: WriteOptions, folder: Path, name: str, num_docs: int) -> Announced:
    """Start a lineage entry for the segment in a folder of its name, and upload it, with the attempts set in the options.

    Raises the errors of `HttpService.request`, and ConflictError if the entry was reverted during the upload: the write was
    aborted without deleting this segment, which is deleted here.
    """
    from gamay.spark.building.target import ARCHIVE_SUFFIX  # loads the engine, see `gamay.spark.writing.sink`

    table = options.cluster.table
    archive = pack(folder, folder.with_name(f"{name}{ARCHIVE_SUFFIX}"), ZSTD_LEVEL_JOBS)
    push = PushJobSpec(push_attempts=options.push_attempts, push_retry_interval_ms=100)
    entries: list[str] = []
    size = archive.stat().st_size

    def start() -> None:
        entries[:] = [client.start_replace(table, [], [name], options.table_type)]

    with_attempts(start, push)
    with_attempts(lambda: client.upload_tar(table, archive, table_type=options.table_type), push)
    archive.unlink()
    if client.lineage(table, options.table_type).get(entries[0], {}).get("state") != IN_PROGRESS:
        client.delete_segments(f"{table}_{options.table_type}", [name])
        raise ConflictError(f"the write of segment '{name}' was given up while it was uploaded")
    return Announced(name, entries[0], num_docs, size)

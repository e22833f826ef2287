"""Rebuilding segments from the rows that are kept, as described by a record, in this process or in a Spark executor.

It is independent of tasks and of Spark, and makes no visible change: the caller pushes the archive.
"""

import ssl
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pyroaring import BitMap

from gamay.base.errors import ConflictError
from gamay.client.controller import ControllerClient
from gamay.minion.work import ARCHIVE_SUFFIX, Rebuilt
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.read.reader import open_segment
from gamay.segment.write.row_subset import KeptRows, write_kept
from gamay.storage.archive import pack, unpack

CONTROLLER_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Input:
    """An input segment. rows: those that are kept, a serialized `BitMap`. crc: of its stored copy; None for any."""

    name: str
    rows: bytes
    crc: int | None


@dataclass(frozen=True, slots=True)
class Rebuild:
    """The description of a build; small, and sent to executors.

    table: typed. created_ms: the creation time of the output, None for that of the first input. schema_json,
    table_config_json: the documents, as text. controller: the URL of the controller, for the inputs. auth_token: the
    `Authorization` header that it demands.
    """

    table: str
    inputs: tuple[Input, ...]
    output: str
    created_ms: int | None
    schema_json: str
    table_config_json: str
    controller: str
    auth_token: str = field(default="", repr=False)

    def build(self, folder: Path, step: Callable[[str], None], tls: ssl.SSLContext | None) -> Rebuilt:
        """Implement `Work`. Raises as `rebuild`."""
        return rebuild(self, folder, step, tls)


class OtherCopyError(ConflictError):
    """An input whose stored copy is not the expected one. crc: of the stored copy."""

    def __init__(self, segment: str, crc: int) -> None:
        super().__init__(f"the stored segment {segment} has CRC {crc}")
        self.segment = segment
        self.crc = crc


def rebuild(
    work: Rebuild, folder: Path, step: Callable[[str], None] = lambda _: None, tls: ssl.SSLContext | None = None
) -> Rebuilt:
    """Fetch the inputs, build the segment of their kept rows, and pack it.

    folder: for all files written, including the archive. step: called with the next step; an exception from it aborts
    the work. tls: the context that verifies the controller's certificate, None for the system's authorities. Raises
    OtherCopyError, NotFoundError for a deleted input, and as `write_kept` and `HttpService.request`.
    """
    schema, config = stored_schema(orjson.loads(work.schema_json)), stored_table_config(orjson.loads(work.table_config_json))
    kept = []
    with ExitStack() as opened:
        for given in work.inputs:
            step(f"downloading segment {given.name}")
            archive = download(work.controller, work.auth_token, work.table, given.name, folder, tls)
            segment = open_segment(unpack(archive, folder / "in" / given.name))
            opened.callback(segment.close)
            if given.crc not in (None, segment.info.crc):
                raise OtherCopyError(given.name, segment.info.crc)
            kept.append(KeptRows.of(segment, BitMap.deserialize(given.rows)))
        rows, rows_before = sum(len(part.docs) for part in kept), sum(part.segment.num_docs for part in kept)
        step(f"building segment {work.output} with {rows} of {rows_before} rows")
        created_ms = kept[0].segment.info.creation_time_ms if work.created_ms is None else work.created_ms
        built = write_kept(kept, schema, config, work.output, folder / "out", created_ms)
    step(f"packing segment {work.output}")
    archive = pack(built, folder / f"{work.output}{ARCHIVE_SUFFIX}")
    return Rebuilt(str(archive), read_metadata(built).crc, rows, rows_before)


def download(controller: str, auth_token: str, table: str, name: str, folder: Path, tls: ssl.SSLContext | None) -> Path:
    """Write the archive of a segment into a folder, and return its path. Raises as `HttpService.request`."""
    archive = folder / f"{name}.tar.gz"
    with ControllerClient(
        controller, auth_token=auth_token or None, timeout_s=CONTROLLER_TIMEOUT_S, verify=tls or True
    ) as client:
        client.download_segment(table, name, archive)
    return archive

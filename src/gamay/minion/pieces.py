"""Pieces of a task that merges segments: each is built alone, here or in a Spark executor, and gives some segments.

A piece is one bucket of time, of some rows of the inputs. Like `rebuild` this changes nothing that others see.
"""

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from gamay.cluster.records.records import SegmentRecord
from gamay.minion.progress import AttemptProgress
from gamay.minion.rebuild import OtherCopyError, fetch_segment
from gamay.minion.work import ARCHIVE_SUFFIX
from gamay.model.merge_task_settings import MergeForm
from gamay.model.table.merging import MergeType
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.process.output import every_row, process
from gamay.segment.process.spec import ProcessSpec, Slice
from gamay.storage.archive import pack


@dataclass(frozen=True, slots=True)
class PieceInput:
    """Rows [first, last) of a segment. crc: that its stored copy must have."""

    name: str
    crc: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What is to be built, of what; small, and sent to executors.

    table: typed, of the inputs. name: of the outputs, to which a number is added. created_ms: their creation time.
    schema_json, table_config_json: the documents of the table that they go to. controller, auth_token: see
    `gamay.minion.rebuild.Origin`.
    """

    table: str
    inputs: tuple[PieceInput, ...]
    name: str
    spec: ProcessSpec
    created_ms: int
    schema_json: str
    table_config_json: str
    controller: str
    auth_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Packed:
    """A segment that was built: its name, the path of its archive, its CRC and rows, and how many rows became these."""

    name: str
    archive: str
    crc: int
    rows: int
    rows_before: int


PieceBuilder = Callable[[Sequence[Piece], Path, AttemptProgress], list[Packed]]
"""Has all pieces built; archives are files in the folder. Raises as `build_piece`, and when the subtask is not to go on."""


def pieces_of(
    whole: Piece, records: Sequence[SegmentRecord], form: MergeForm, window: tuple[int, int], *, apart: bool
) -> Iterator[Piece]:
    """Yield the pieces of a task: the buckets of a window of time, in milliseconds, that the records of segments overlap.

    apart: divide buckets, so that many can be built at once; of rows that are alike, all stay in one piece.
    """
    start_ms = window[0]
    while start_ms < window[1]:
        end_ms = min(start_ms + form.bucket_ms, window[1])
        inside = [record for record in records if record.start_time_ms < end_ms and record.end_time_ms >= start_ms]
        rows = sum(record.total_docs for record in inside)
        count = -(-rows // form.segment_rows) if apart else 1
        for number in range(count if inside else 0):
            is_cut = form.merge_type is MergeType.CONCAT
            inputs = _cut(inside, rows * number // count, rows * (number + 1) // count) if is_cut else _cut(inside, 0, rows)
            part = Slice() if is_cut else Slice(number, count)
            spec = ProcessSpec(
                form.merge_type, (start_ms, end_ms), form.round_ms, form.metrics, form.erased, form.segment_rows, part=part
            )
            yield replace(whole, inputs=tuple(inputs), name=f"{whole.name}_{start_ms}_{number}", spec=spec)
        start_ms = end_ms


def _cut(records: Sequence[SegmentRecord], first: int, last: int) -> Iterator[PieceInput]:
    """Yield the rows [first, last) of segments put one after the other."""
    begin = 0
    for record in records:
        low, high = max(first - begin, 0), min(last - begin, record.total_docs)
        if low < high:
            yield PieceInput(record.name, record.crc, low, high)
        begin += record.total_docs


def build_piece(
    piece: Piece, folder: Path, step: Callable[[str], None] = lambda _: None, tls: ssl.SSLContext | None = None
) -> list[Packed]:
    """Fetch the inputs, unless they are in the folder already, and build and pack the segments; none without rows.

    folder, step, tls: as of `rebuild`. Raises OtherCopyError, NotFoundError for an input that is gone, and as
    `gamay.segment.process.output.process` and `HttpService.request`.
    """
    schema, config = (
        stored_schema(orjson.loads(piece.schema_json)),
        stored_table_config(orjson.loads(piece.table_config_json)),
    )
    rows = []
    with ExitStack() as opened:
        for given in piece.inputs:
            step(f"downloading segment {given.name}")
            segment = fetch_segment(piece, given.name, folder, tls)
            opened.callback(segment.close)
            if given.crc != segment.info.crc:
                raise OtherCopyError(given.name, segment.info.crc)
            rows.append(every_row(segment, given.first, given.last))
        step(f"building segments {piece.name}_0 and following of {sum(len(one.docs) for one in rows)} rows")
        packed = []
        for made in process(
            rows, schema, config, piece.spec, lambda n: f"{piece.name}_{n}", folder / "out", piece.created_ms
        ):
            name = made.folder.name
            step(f"packing segment {name} with {made.num_rows} rows")
            archive = pack(made.folder, folder / f"{name}{ARCHIVE_SUFFIX}")
            crc = read_metadata(made.folder).crc
            packed.append(Packed(name, str(archive), crc, made.num_rows, made.rows_before))
    return packed

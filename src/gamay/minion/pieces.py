"""Pieces of a task that merges segments: each is built separately, locally or in a Spark executor, and yields some
segments.

A piece covers a time bucket or a part of one, and some rows of the inputs. Like `rebuild`, building makes no visible
change.
"""

import ssl
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import orjson

from gamay.cluster.records.records import SegmentRecord
from gamay.minion.progress import AttemptProgress
from gamay.minion.rebuild import OtherCopyError, download
from gamay.minion.stretches import row_edges, stretches
from gamay.minion.work import ARCHIVE_SUFFIX
from gamay.model.merge_task_settings import MergeForm
from gamay.model.table.merging import MergeType
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.process.output import every_row, process
from gamay.segment.process.spec import ProcessSpec, Slice
from gamay.spark.reading.segment_cache import SegmentCache
from gamay.storage.archive import pack


@dataclass(frozen=True, slots=True)
class PieceInput:
    """Rows [first, last) of a segment. crc: the CRC that its stored copy must have."""

    name: str
    crc: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Piece:
    """The description of a build; small, and sent to executors.

    table: typed, of the inputs. name: of the outputs, to which a number is appended. created_ms: their creation time.
    schema_json, table_config_json: the documents of the target table. controller, auth_token: as in
    `gamay.minion.rebuild.Rebuild`.
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
    """A built segment: its name, the path of its archive, its CRC and rows, and the number of input rows."""

    name: str
    archive: str
    crc: int
    rows: int
    rows_before: int


PieceBuilder = Callable[[Sequence[Piece], Path, AttemptProgress], list[Packed]]
"""Builds all pieces; archives are files in the folder. Raises as `build_piece`, and if the subtask is cancelled."""


def pieces_of(
    whole: Piece, records: Sequence[SegmentRecord], form: MergeForm, window: tuple[int, int], *, apart: bool
) -> Iterator[Piece]:
    """Yield the pieces of a task: the buckets of a time window, in milliseconds, that the segments overlap.

    apart: divide buckets, so that parts are built in parallel; rows with equal dimensions stay in one piece.
    """
    start_ms = window[0]
    while start_ms < window[1]:
        end_ms = min(start_ms + form.bucket_ms, window[1])
        inside = _overlapping(records, start_ms, end_ms)
        common = ProcessSpec(
            form.merge_type, (start_ms, end_ms), form.round_ms, form.metrics, form.erased, form.segment_rows
        )
        for number, (inputs, spec) in enumerate(_divided(inside, form, common) if apart else _undivided(inside, common)):
            yield replace(whole, inputs=inputs, name=f"{whole.name}_{start_ms}_{number}", spec=spec)
        start_ms = end_ms


def _overlapping(records: Sequence[SegmentRecord], start_ms: int, end_ms: int) -> list[SegmentRecord]:
    return [record for record in records if record.start_time_ms < end_ms and record.end_time_ms >= start_ms]


def _undivided(
    records: Sequence[SegmentRecord], spec: ProcessSpec
) -> "Iterator[tuple[tuple[PieceInput, ...], ProcessSpec]]":
    if records:
        yield _cut(records), spec


def _divided(
    records: Sequence[SegmentRecord], form: MergeForm, spec: ProcessSpec
) -> "Iterator[tuple[tuple[PieceInput, ...], ProcessSpec]]":
    """Yield pieces of about as many rows as a segment may have.

    Rows with equal dimensions have equal times. So each piece is a time range, and reads the segments that overlap it; a
    range with too many rows is divided by hashes of the dimensions into pieces, each of which reads all segments of the
    range.
    """
    if not records:
        return
    assert spec.window is not None
    if form.merge_type is MergeType.CONCAT:
        edges = row_edges(records, spec.window, form.segment_rows)
        for first, last in pairwise(edges):
            yield _cut(records, first, last), spec
        return
    for stretch in stretches(records, spec.window, form.segment_rows, form.round_ms):
        inside = _overlapping(records, stretch.start_ms, stretch.end_ms)
        count = max(1, round(stretch.rows / form.segment_rows))
        for number in range(count if inside else 0):
            window = stretch.start_ms, stretch.end_ms
            yield _cut(inside), replace(spec, window=window, part=Slice(number, count))


def _cut(records: Sequence[SegmentRecord], first: int = 0, last: int | None = None) -> tuple[PieceInput, ...]:
    """Return the rows [first, last) of the concatenated segments, by default all."""
    begin, found = 0, []
    for record in records:
        low, high = max(first - begin, 0), record.total_docs if last is None else min(last - begin, record.total_docs)
        if low < high:
            found.append(PieceInput(record.name, record.crc, low, high))
        begin += record.total_docs
    return tuple(found)


def build_piece(
    piece: Piece,
    folder: Path,
    step: Callable[[str], None] = lambda _: None,
    tls: ssl.SSLContext | None = None,
    cache: SegmentCache | None = None,
) -> list[Packed]:
    """Fetch the inputs, unless they are cached, and build and pack the segments; without rows, none.

    folder, step, tls: as of `rebuild`. cache: of inputs; None: one in the folder.
    Raises OtherCopyError, NotFoundError for a deleted input, and as `gamay.segment.process.output.process` and
    `HttpService.request`.
    """
    schema, config = (
        stored_schema(orjson.loads(piece.schema_json)),
        stored_table_config(orjson.loads(piece.table_config_json)),
    )
    rows = []
    with ExitStack() as opened:
        for given in piece.inputs:
            step(f"opening segment {given.name}")
            segment = (cache or SegmentCache(folder / "in", sys.maxsize)).open(
                piece.table, given.name, given.crc, partial(_download, piece, given.name, tls)
            )
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


def _download(piece: Piece, name: str, tls: ssl.SSLContext | None, folder: Path) -> Path:
    return download(piece.controller, piece.auth_token, piece.table, name, folder, tls)

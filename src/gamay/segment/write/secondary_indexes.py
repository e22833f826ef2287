"""Building of the secondary indexes of a segment's folder."""

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from gamay.base.clock import Clock
from gamay.model.table.secondary_indexes import IndexDeclaration
from gamay.segment.encode.metadata import SegmentMetadata
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.secondary.files import (
    StoredIndex,
    describe_index,
    index_folder,
    link_index,
    write_index_list,
)
from gamay.segment.secondary.registry import index_type, missing_extra

_log = logging.getLogger(__name__)


def buildable(declarations: Sequence[IndexDeclaration], info: SegmentMetadata) -> list[IndexDeclaration]:
    """Return the indexes whose columns the segment has, and whose libraries are installed."""
    return [
        declaration
        for declaration in declarations
        if missing_extra(declaration.kind) is None and all(column in info.columns for column in declaration.columns)
    ]


def add_indexes(
    folder: Path, declarations: Sequence[IndexDeclaration], clock: Clock, present: Sequence[StoredIndex] = ()
) -> None:
    """Build indexes into the folder of a segment that has none, on the caller's thread.

    present: intact indexes of another copy of the segment, whose files are reused if declared. An index that
    cannot be built is omitted and logged: the segment can be read without it.
    """
    segment = open_segment(folder, verify=False)
    try:
        stored: list[StoredIndex] = []
        for declaration in buildable(declarations, segment.info):
            target = index_folder(folder, len(stored))
            same = next((index for index in present if index.declaration == declaration), None)
            try:
                built = _build(segment, declaration, target, clock) if same is None else link_index(same, target)
            except Exception:  # noqa: BLE001 - no error of an index may fail the segment, which can be read without it
                named = ", ".join(declaration.columns)
                _log.exception("segment %s has no %s index of %s, it cannot be built", segment.name, declaration.kind, named)
                shutil.rmtree(target, ignore_errors=True)
                continue
            stored.append(built)
        if stored:
            write_index_list(folder, segment.info.crc, stored)
    finally:
        segment.close()


def _build(segment: ImmutableSegment, declaration: IndexDeclaration, folder: Path, clock: Clock) -> StoredIndex:
    begun_s = clock.monotonic_s()
    folder.mkdir(parents=True)
    columns = [segment.column(name).with_forward() for name in declaration.columns]
    content = index_type(declaration.kind).build(columns, declaration.settings, folder)
    return describe_index(declaration, folder, content, round((clock.monotonic_s() - begun_s) * 1000))

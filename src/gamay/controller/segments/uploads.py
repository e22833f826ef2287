"""Segment uploads in their three modes, from a file on disk to a segment of a table."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from gamay.base.errors import CorruptSegmentError, InvalidConfigError
from gamay.cluster.records.invariants import name_problem
from gamay.cluster.records.records import SegmentRecord
from gamay.controller.context import ControllerContext
from gamay.controller.segments.segments import PushOptions, SegmentManager
from gamay.controller.segments.verify import VerifiedSegment, read_metadata_archive, verify_archive
from gamay.segment.encode.metadata import SegmentMetadata, read_metadata
from gamay.storage.archive import unpack
from gamay.storage.files import full_disk_explained

# returns the typed table that a segment goes to
Target: TypeAlias = Callable[[SegmentMetadata], str]

_BATCH_LIST = "all_segments_metadata"


@dataclass(frozen=True, slots=True)
class UploadManager:
    """Manager of segment uploads. A failed upload leaves nothing behind."""

    context: ControllerContext
    segments: SegmentManager

    @contextmanager
    def scratch(self, purpose: str) -> Iterator[Path]:
        """Provide a folder for one upload, on the file system of the deep store; it is removed afterwards.

        Raises DiskFullError, with a message that the purpose ("add a segment …") is not possible, if the disk is full.
        """
        folder = self.context.work_dir / self.context.ids.new()
        with full_disk_explained(f"cannot {purpose}", self.context.work_dir):
            folder.mkdir(parents=True)
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def archive(self, target: Target, archive: Path, scratch: Path, options: PushOptions) -> SegmentRecord:
        """Add the segment in an archive in `scratch`. Raises CorruptSegmentError and the errors of a push."""
        named = with_archive_suffix(archive)
        segment = verify_archive(named, scratch / "unpacked")
        return self.segments.push(target(segment.info), segment, named, options)

    def uri(self, target: Target, uri: str, options: PushOptions, purpose: str, *, keep_url: bool = False) -> SegmentRecord:
        """Download an archive and add its segment; `keep_url` records the URI instead of a copy in the deep store.

        purpose: as for `scratch`. Raises InvalidConfigError for a URI that clients may not use,
        NotFoundError, DiskFullError, OSError.
        """
        with self.scratch(purpose) as scratch:
            archive = scratch / _file_name(uri)
            self.context.fetchers.fetch_named(uri, archive)
            if not keep_url:
                return self.archive(target, archive, scratch, options)
            archive = with_archive_suffix(archive)
            segment = verify_archive(archive, scratch / "unpacked")
            return self.segments.push_metadata(target(segment.info), segment.info, uri, archive.stat().st_size, options)

    def metadata(
        self, target: Target, metadata_archive: Path, scratch: Path, uri: str, options: PushOptions, *, copy: bool
    ) -> SegmentRecord:
        """Add a segment by its metadata; the data stays at `uri`, or with `copy` is copied to the deep store.

        Raises CorruptSegmentError, InvalidConfigError, NotFoundError.
        """
        self.context.fetchers.check(uri)
        info = read_metadata_archive(with_archive_suffix(metadata_archive), scratch / "metadata")
        table = target(info)
        if not copy:
            return self.segments.push_metadata(table, info, uri, -1, options)
        segment, archive = self._fetched(info, uri, scratch)
        return self.segments.push(table, segment, archive, options)

    def metadata_batch(
        self, table: str, archive: Path, scratch: Path, options: PushOptions, *, copy: bool
    ) -> list[SegmentRecord]:
        """Add many segments by their metadata: a list of names and URIs, and `<name>.metadata.json` for each.

        copy: as in `metadata`; all segments are fetched and verified before the first is added. If adding one fails,
        those before it stay. Raises CorruptSegmentError, InvalidConfigError, NotFoundError.
        """
        folder = scratch / "batch"
        unpack(with_archive_suffix(archive), folder)
        lists = sorted(folder.rglob(_BATCH_LIST))
        if len(lists) != 1:
            raise CorruptSegmentError(f"the archive has {len(lists)} files '{_BATCH_LIST}', it must have one")
        lines = lists[0].read_text().split("\n")
        entries = [line.strip() for line in lines if line.strip()]
        if len(entries) % 2:
            raise CorruptSegmentError(f"'{_BATCH_LIST}' must have lines in pairs: segment name, download URI")
        infos: list[tuple[SegmentMetadata, str]] = []
        for name, uri in zip(entries[::2], entries[1::2], strict=True):
            if problem := name_problem(name):
                raise InvalidConfigError(f"'{_BATCH_LIST}': segment name: {problem}")
            self.context.fetchers.check(uri)
            described = _new(scratch, f"segment-{len(infos)}")
            source = lists[0].parent / f"{name}.metadata.json"
            if not source.is_file():
                raise CorruptSegmentError(f"the archive has no '{source.name}'")
            shutil.copyfile(source, described / "metadata.json")
            info = read_metadata(described)
            if info.name != name:
                raise CorruptSegmentError(f"'{source.name}' describes segment '{info.name}'")
            infos.append((info, uri))
        if not copy:
            return [self.segments.push_metadata(table, info, uri, -1, options) for info, uri in infos]
        fetched = [self._fetched(info, uri, scratch / f"segment-{i}") for i, (info, uri) in enumerate(infos)]
        return [self.segments.push(table, segment, archive, options) for segment, archive in fetched]

    def _fetched(self, info: SegmentMetadata, uri: str, folder: Path) -> tuple[VerifiedSegment, Path]:
        """Fetch the data of a segment into `folder`, and check that it matches the metadata."""
        archive = folder / _file_name(uri)
        self.context.fetchers.fetch_named(uri, archive)
        archive = with_archive_suffix(archive)
        segment = verify_archive(archive, folder / "unpacked")
        if (segment.info.name, segment.info.crc) != (info.name, info.crc):
            raise CorruptSegmentError(
                f"'{uri}' holds segment '{segment.info.name}' (CRC {segment.info.crc}), but the metadata is that of "
                f"'{info.name}' (CRC {info.crc})"
            )
        return segment, archive


def _new(scratch: Path, name: str) -> Path:
    folder = scratch / name
    folder.mkdir()
    return folder


def _file_name(uri: str) -> str:
    return "fetched.tar.zst" if uri.partition("?")[0].endswith(".tar.zst") else "fetched.tar.gz"


def with_archive_suffix(archive: Path) -> Path:
    """Rename an archive so that its suffix matches its first bytes."""
    with archive.open("rb") as file:
        suffix = ".tar.zst" if file.read(4) == b"\x28\xb5\x2f\xfd" else ".tar.gz"
    if archive.name.endswith(suffix):
        return archive
    return archive.rename(archive.with_name(archive.name.partition(".tar")[0] + suffix))

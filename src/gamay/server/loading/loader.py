"""Fetching, verifying and opening of segments."""

import logging
import shutil
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gamay.base.clock import Clock
from gamay.base.errors import CorruptSegmentError, DiskFullError, InvalidConfigError
from gamay.base.ids import Ids
from gamay.cluster.records.records import SegmentRecord
from gamay.query.layout.rebuild import TableLayout, rebuild
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.read.reader import open_segment
from gamay.server.loading.sources import SegmentSources
from gamay.server.loading.table import LoadedSegment
from gamay.storage.archive import unpack
from gamay.storage.files import full_disk_explained, publish_folder

_log = logging.getLogger(__name__)
_TEMPORARY = ".tmp-"


@dataclass(frozen=True, slots=True)
class SegmentLoader:
    """Loader of a server's copies, which are in `root/<typed table>/<segment>__<crc>/`.

    sources: for downloads. layout_of: returns the storage layout of a typed table, None if the
    table does not exist. A copy with rebuilt indexes is in
    `<segment>__<crc>__<fingerprint of the layout>/`.
    """

    root: Path
    sources: SegmentSources
    layout_of: Callable[[str], TableLayout | None]
    clock: Clock
    ids: Ids
    verify_on_use: bool = False

    def load(
        self, table: str, record: SegmentRecord, *, force_download: bool = False, verify_on_use: bool | None = None
    ) -> LoadedSegment:
        """Return the segment, ready for queries: from an intact copy on disk, else downloaded.

        verify_on_use: verify the checksums of an existing copy when a query first reads a column,
        not now; the default is the loader's. Downloads are always verified immediately.
        Indexes are updated to the table config; if that fails, they are left unchanged.
        Raises CorruptSegmentError if the download does not match the record, NotFoundError, DiskFullError, OSError.
        """
        lazy = self.verify_on_use if verify_on_use is None else verify_on_use
        layout = self._layout(table, record)
        rebuilt = None if layout is None else self._folder(table, record, layout.fingerprint())
        if rebuilt is not None and rebuilt.exists() and not force_download:
            try:
                found = self._open(rebuilt, record, layout, owned=True, rebuilt=True, lazy=lazy)
                if layout is None or _has_extras(layout, found):
                    return found
                found.segment.close()
            except CorruptSegmentError as error:
                _log.warning("the copy of segment %s of %s is damaged, it is rebuilt: %s", record.name, table, error)
        loaded = self._load_as_pushed(table, record, layout, force_download, lazy)
        if layout is None or rebuilt is None:
            return loaded
        return self._in_line(table, loaded, layout, rebuilt, record)

    def _in_line(
        self, table: str, loaded: LoadedSegment, layout: TableLayout, rebuilt: Path, record: SegmentRecord
    ) -> LoadedSegment:
        """Return a segment with the indexes and star-trees of its table; unchanged if they cannot be built."""
        if layout.matches(loaded.segment.info) and _has_extras(layout, loaded):
            return loaded
        try:
            return self._rebuild(loaded, layout, rebuilt, record)
        except (InvalidConfigError, DiskFullError) as error:
            _log.error("segment %s of %s keeps its indexes, they cannot be rebuilt: %s", record.name, table, error)
            return loaded

    def _layout(self, table: str, record: SegmentRecord) -> TableLayout | None:
        layout = self.layout_of(table)
        return None if layout is None else layout.of_tier(record.tier)

    def _load_as_pushed(
        self, table: str, record: SegmentRecord, layout: TableLayout | None, force_download: bool, lazy: bool
    ) -> LoadedSegment:
        folder = self._folder(table, record)
        if folder.exists() and not force_download:  # first: the source to download from may be down
            try:
                return self._open(folder, record, layout, owned=True, lazy=lazy)
            except CorruptSegmentError as error:
                _log.warning("the copy of segment %s of %s is damaged, it is fetched again: %s", record.name, table, error)
        in_place = self.sources.in_place(record)
        if in_place is not None:
            return self._open(in_place, record, layout, owned=False, lazy=lazy)
        self._download(table, folder, record)
        return self._open(folder, record, layout, owned=True, lazy=True)  # verified in `_download`

    def adopt(self, table: str, name: str, folder: Path) -> LoadedSegment:
        """Move a segment that was built on this server, with its star-trees, into the folder of copies, and return it.

        Raises CorruptSegmentError, OSError.
        """
        record = SegmentRecord(name, crc=read_metadata(folder).crc)
        final = self._folder(table, record)
        final.parent.mkdir(parents=True, exist_ok=True)
        _replace(final, folder)
        layout = self._layout(table, record)
        built = self._open(final, record, layout, owned=True)
        if layout is None or not layout.matches(
            built.segment.info
        ):  # the config has changed since: a reload builds the indexes
            return built
        return self._in_line(table, built, layout, self._folder(table, record, layout.fingerprint()), record)

    def remove(self, loaded: LoadedSegment) -> None:
        """Remove this server's copy of a segment that is no longer visible."""
        if loaded.owned:
            shutil.rmtree(loaded.folder, ignore_errors=True)

    def remove_strays(self, table: str, kept: set[Path], failed: Container[str] = ()) -> None:
        """Remove folders of a table that no loaded segment uses, and remains of interrupted downloads.

        failed: segments that could not be loaded; their copies are kept, as these may not be the cause.
        """
        folder = self.root / table
        if not folder.is_dir():
            return
        for path in folder.iterdir():
            if path not in kept and not any(name in failed for name in _segments_of(path)):
                shutil.rmtree(path, ignore_errors=True)
        if not any(folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)

    def tables_on_disk(self) -> list[str]:
        """Return the typed names of the tables that have folders here."""
        return sorted(p.name for p in self.root.iterdir()) if self.root.is_dir() else []

    def _download(self, table: str, folder: Path, record: SegmentRecord) -> None:
        layout = self.layout_of(table)
        peers = layout is not None and layout.config.segments.peer_segment_download_scheme is not None
        with self._scratch(folder, record) as scratch:

            def accept(archive: Path) -> Path:
                fresh = scratch / "segment"
                shutil.rmtree(fresh, ignore_errors=True)
                unpack(archive, fresh)
                # Verified before it replaces a copy that may be intact.
                self._open(fresh, record, None, owned=True).segment.close()
                return fresh

            _replace(folder, self.sources.fetch(table, record, scratch, accept, peers=peers))

    def _rebuild(self, pushed: LoadedSegment, layout: TableLayout, folder: Path, record: SegmentRecord) -> LoadedSegment:
        with self._scratch(folder, record) as scratch:
            _replace(folder, rebuild(pushed.segment, layout, scratch, self.clock))
        self.remove(pushed)
        return self._open(folder, record, layout, owned=True, rebuilt=True)

    @contextmanager
    def _scratch(self, folder: Path, record: SegmentRecord) -> Iterator[Path]:
        """Yield a temporary folder next to `folder`, the copy to be created. Raises DiskFullError."""
        scratch = folder.parent / f"{_TEMPORARY}{self.ids.new()}"
        with full_disk_explained(f"cannot make a copy of segment '{record.name}'", folder.parent):
            scratch.mkdir(parents=True)
            try:
                yield scratch
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def _folder(self, table: str, record: SegmentRecord, fingerprint: str = "") -> Path:
        return self.root / table / f"{record.name}__{record.crc}{'__' if fingerprint else ''}{fingerprint}"

    def _open(
        self,
        folder: Path,
        record: SegmentRecord,
        layout: TableLayout | None,
        *,
        owned: bool,
        rebuilt: bool = False,
        lazy: bool = False,
    ) -> LoadedSegment:
        in_memory = layout is not None and layout.in_memory
        segment = open_segment(folder, verify_on_use=lazy, in_memory=in_memory, own_indexes=rebuilt)
        # Rebuilt indexes change the CRC; the folder's name contains the CRC of the original copy.
        if segment.name != record.name or (segment.info.crc != record.crc and not rebuilt):
            segment.close()
            raise CorruptSegmentError(
                f"the copy of segment '{record.name}' (CRC {record.crc}) holds '{segment.name}' (CRC {segment.info.crc})"
            )
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return LoadedSegment(segment, record.crc, folder, owned, self.clock.now_ms(), size)


def _has_extras(layout: TableLayout, loaded: LoadedSegment) -> bool:
    """Whether a segment has intact star-trees and secondary indexes according to its layout."""
    return layout.matches_star_trees(loaded.segment, verify=True) and layout.matches_indexes(loaded.segment)


def _segments_of(folder: Path) -> tuple[str, str]:
    """Return the possible segments of a copy, by its name: `<segment>__<crc>` or `<segment>__<crc>__<fingerprint>`."""
    name = folder.name.rpartition("__")[0]
    return name, name.rpartition("__")[0]


def _replace(folder: Path, fresh: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    publish_folder(fresh, folder)

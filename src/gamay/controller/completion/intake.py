"""Intake of the segments that servers build: verified when they are uploaded, looked up when they are committed."""

from dataclasses import dataclass
from pathlib import Path

from gamay.base.errors import CorruptSegmentError, InvalidConfigError
from gamay.cluster.records.completion import PEER_SCHEME
from gamay.cluster.records.records import SegmentRecord
from gamay.controller.context import ControllerContext
from gamay.controller.segments.uploads import with_archive_suffix
from gamay.controller.segments.verify import check_matches, record_of, verify_archive
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.encode.metadata import SegmentMetadata, read_metadata
from gamay.storage.archive import unpack
from gamay.storage.deep_store import url_of


@dataclass(frozen=True, slots=True)
class SegmentIntake:
    """The deep store as the completion of segments uses it.

    An upload is stored at its final location at once: the CRC in its name distinguishes it from other builds, and no
    record refers to it until it is committed. The periodic repair removes uploads that were never committed.
    """

    context: ControllerContext

    def store(
        self, config: TableConfig, schema: Schema, segment: str, archive: Path, scratch: Path
    ) -> tuple[str, SegmentMetadata]:
        """Verify an archive in `scratch`, store it durably, and return its location and its metadata.

        Raises CorruptSegmentError, InvalidConfigError, OSError.
        """
        named = with_archive_suffix(archive)
        info = verify_archive(named, scratch / "unpacked").info
        _check_name(info, segment)
        check_matches(info, schema)
        return self.context.deep_store.put(named, config.typed_name, segment, info.crc), info

    def describe(
        self, config: TableConfig, segment: str, location: str, scratch: Path, metadata_file: Path | None, size_bytes: int
    ) -> SegmentRecord:
        """Return the record of the segment at `location`; the caller sets its status.

        metadata_file: the segment's `metadata.json`; None reads it from the archive. size_bytes: as reported by the
        server, for locations outside the deep store. Raises CorruptSegmentError, InvalidConfigError, NotFoundError.
        """
        if location.startswith(PEER_SCHEME):
            if config.segments.peer_segment_download_scheme is None or metadata_file is None:
                raise InvalidConfigError(
                    f"segment '{segment}' is not in the deep store ({location}); that needs "
                    "segmentsConfig.peerSegmentDownloadScheme and the segment's metadata"
                )
            return record_of(_read(metadata_file, segment), "", size_bytes)
        if not self.context.deep_store.owns(location):
            raise InvalidConfigError(f"the location '{location}' of segment '{segment}' is not in the deep store")
        store, name = self.context.deep_store, location.rpartition("/")[2]
        size = store.size(location)
        if metadata_file is None:
            unpacked = unpack(store.get(location, scratch), scratch / "described")
            info = read_metadata(unpacked)
            _check_name(info, segment)
        else:
            info = _read(metadata_file, segment)
        # the exact name, without parts such as `..`, shows that it is the archive that was verified at its upload
        is_own = location == url_of(config.typed_name, name)
        if not is_own or name.partition(".tar")[0] != f"{segment}__{info.crc}":
            raise CorruptSegmentError(f"'{location}' is not the segment '{segment}' with CRC {info.crc}")
        return record_of(info, location, size)


def _read(metadata_file: Path, segment: str) -> SegmentMetadata:
    folder = metadata_file.with_name("metadata")
    folder.mkdir()
    info = read_metadata(Path(metadata_file.rename(folder / "metadata.json")).parent)
    _check_name(info, segment)
    return info


def _check_name(info: SegmentMetadata, segment: str) -> None:
    if info.name != segment:
        raise CorruptSegmentError(f"the segment is named '{info.name}', not '{segment}'")

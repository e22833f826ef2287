"""Rewriting one segment under its name, unless it is already as it should be."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import orjson

from gamay.base.clock import SYSTEM_CLOCK
from gamay.minion.rebuild import OtherCopyError, download
from gamay.minion.work import ARCHIVE_SUFFIX, Rebuilt
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.query.layout.rebuild import TableLayout, rebuild
from gamay.segment.encode.metadata import Encoding, read_metadata
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.storage.archive import pack, unpack


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment in the deep store, and the documents of its table.

    table: typed. crc: the CRC that its copy must have. tier: of the segment; the config may have overrides for it.
    controller: the controller's URL. auth_token: the `Authorization` header that it demands.
    """

    table: str
    name: str
    crc: int
    tier: str
    schema_json: str
    table_config_json: str
    controller: str
    auth_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class SegmentRewrite:
    """Base class of works that rewrite one segment. A subclass implements `rewritten`, and names its action in `verb`."""

    stored: StoredSegment
    verb: ClassVar[str] = "rewriting"

    @property
    def output(self) -> str:
        """The name of the segment."""
        return self.stored.name

    def rewritten(self, segment: ImmutableSegment, layout: TableLayout, out_dir: Path) -> Path | None:
        """Write the changed segment as a folder in `out_dir` and return it; None if nothing changes.

        layout: schema and config of the table, for the segment's tier.
        """
        raise AssertionError("each work says it")

    def build(self, folder: Path, step: Callable[[str], None], tls: ssl.SSLContext | None) -> Rebuilt:
        """Implement `Work`; if nothing changes, the result is the downloaded archive.

        Raises OtherCopyError, NotFoundError for a deleted segment, InvalidConfigError, and as `HttpService.request`.
        """
        stored = self.stored
        step(f"downloading segment {stored.name}")
        archive = download(stored.controller, stored.auth_token, stored.table, stored.name, folder, tls)
        segment = open_segment(unpack(archive, folder / "in" / stored.name))
        try:
            if segment.info.crc != stored.crc:
                raise OtherCopyError(stored.name, segment.info.crc)
            step(f"{self.verb} segment {stored.name} of {segment.num_docs} rows")
            out_dir = folder / "out"
            out_dir.mkdir()
            schema = stored_schema(orjson.loads(stored.schema_json))
            config = stored_table_config(orjson.loads(stored.table_config_json))
            layout = TableLayout(schema, config, of_archives=True).of_tier(stored.tier)
            built = self.rewritten(segment, layout, out_dir)
            if built is None:
                return Rebuilt(str(archive), stored.crc, segment.num_docs, segment.num_docs, is_changed=False)
            archive.unlink()
            info = read_metadata(built)
            step(f"packing segment {stored.name}")
            packed = pack(built, folder / f"{stored.name}{ARCHIVE_SUFFIX}")
            return Rebuilt(str(packed), info.crc, info.num_docs, segment.num_docs)
        finally:
            segment.close()


@dataclass(frozen=True)
class Refresh(SegmentRewrite):
    """A work that stores a segment as the current schema and config demand."""

    verb: ClassVar[str] = "refreshing"

    def rewritten(self, segment: ImmutableSegment, layout: TableLayout, out_dir: Path) -> Path | None:
        """See the base."""
        return None if layout.is_met_by(segment) else rebuild(segment, layout, out_dir, SYSTEM_CLOCK)


@dataclass(frozen=True)
class ConvertToRaw(SegmentRewrite):
    """A work that removes the dictionaries of the given columns, which the table's config stores without one."""

    columns: tuple[str, ...]
    verb: ClassVar[str] = "converting"

    def rewritten(self, segment: ImmutableSegment, layout: TableLayout, out_dir: Path) -> Path | None:
        """See the base."""
        found = (segment.info.columns.get(name) for name in self.columns)
        if not any(column is not None and column.encoding is Encoding.DICTIONARY for column in found):
            return None
        return rebuild(segment, layout, out_dir, SYSTEM_CLOCK)

"""Reading a part of a table in an executor: segments are fetched, or opened in place, and queried by Gamay's engine."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pyroaring import BitMap

from gamay.base.errors import GamayError
from gamay.model.schema.schema import Schema
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.query.bind.binder import BoundQuery, bind
from gamay.query.execute.matching_rows import matching_rows
from gamay.segment.read.defaults import with_defaults
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.read.visible import VisibleDocs, VisibleSegment
from gamay.segment.spi import Segment
from gamay.spark.reading.segment_cache import SegmentCache, check_crc
from gamay.spark.reading.snapshot import SegmentPart, TablePart
from gamay.spark.reading.values import to_spark
from gamay.spark.source_options import ReadOptions
from gamay.sql.parser import parse_query
from gamay.storage.fetchers import Fetchers
from gamay.storage.files import local_path
from gamay.storage.filesystems import scheme_of


@dataclass(frozen=True, slots=True)
class Scan:
    """A reader of parts of a table. schema_json: the schema of the table."""

    options: ReadOptions
    schema_json: bytes

    def read(self, part: TablePart, target: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part. target: the Spark schema as an Arrow schema.

        Raises NotFoundError, ConflictError for a segment replaced since planning, CorruptSegmentError, OSError, and
        InvalidConfigError for a value that its Spark type cannot represent.
        """
        schema = stored_schema(orjson.loads(self.schema_json))
        for batch in self._conformed(part, schema):
            arrays = [to_spark(batch.column(field.name), schema.field(field.name), field.type) for field in target]
            yield pa.RecordBatch.from_arrays(arrays, schema=target)

    def _conformed(self, part: TablePart, schema: Schema) -> Iterator[pa.RecordBatch]:
        if part.arrow is not None:
            with pa.ipc.open_stream(part.arrow) as reader:
                yield from (batch for batch in reader if batch.num_rows)
            return
        bound = bind(parse_query(part.sql), schema)
        for one in part.segments:
            segment = self.open_segment(part.table, one)
            try:
                yield from self._matching(part, one, segment, schema, bound)
            finally:
                segment.close()

    @staticmethod
    def _matching(
        part: TablePart, one: SegmentPart, segment: ImmutableSegment, schema: Schema, bound: BoundQuery
    ) -> Iterator[pa.RecordBatch]:
        seen: Segment = segment
        if one.rows is not None:
            seen = VisibleSegment(segment, _visible(one.rows, segment.num_docs))
        config = stored_table_config(orjson.loads(part.config_json))
        return matching_rows(bound, with_defaults(seen, schema, config))

    def open_segment(self, table: str, part: SegmentPart) -> ImmutableSegment:
        """Open a segment in place, or from the cache after fetching it if needed. Raises as `read` does."""
        local = local_path(part.uri)
        if local is not None and local.is_dir() and self.options.fetch == "auto":
            return check_crc(open_segment(local, verify_on_use=True), part.crc)
        cache = SegmentCache(self.options.cache_folder(), self.options.cache_bytes)
        return check_crc(cache.open(table, part.name, part.crc, lambda scratch: self._fetch(table, part, scratch)), part.crc)

    def _fetch(self, table: str, part: SegmentPart, scratch: Path) -> Path:
        """Return a segment's archive: from the deep store if this machine can access it, else from the controller."""
        target = scratch / "archive"
        if self.options.fetch == "auto":
            try:
                Fetchers(self.options.cluster.storage(scheme_of(part.uri))).fetch(part.uri, target)
                return target
            except (GamayError, OSError) as error:
                reason: Exception = error
        with self.options.cluster.client() as client:
            try:
                return client.download_segment(table, part.name, target)
            except GamayError as error:
                if self.options.fetch == "auto":
                    error.add_note(f"and it cannot be fetched from {part.uri}: {reason}")
                raise


def _visible(rows: bytes, num_docs: int) -> VisibleDocs:
    mask = np.zeros(num_docs, np.bool_)
    mask[np.asarray(BitMap.deserialize(rows).to_array())] = True
    bits = np.packbits(mask, bitorder="little")
    padded: Any = np.zeros(-(-num_docs // 64) * 8, np.uint8)
    padded[: len(bits)] = bits
    return VisibleDocs(padded, num_docs)

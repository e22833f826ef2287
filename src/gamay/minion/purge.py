"""Purging a segment: rows selected by purgers or by a list of values are removed, others are changed by modifiers."""

import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from gamay.base.clock import ManualClock
from gamay.base.errors import InvalidConfigError
from gamay.ingest.read.sources import open_bytes
from gamay.minion.purgers import PurgeFactories, RecordModifier, RecordPurger
from gamay.minion.rewrite import SegmentRewrite
from gamay.minion.work import Rebuilt
from gamay.model.schema.schema import Schema
from gamay.model.segment_task_settings import PurgeSettings
from gamay.model.table.table_config import TableConfig
from gamay.query.layout.chosen_rows import rows_with, values_of_texts
from gamay.query.layout.rebuild import TableLayout, conformed_rows
from gamay.segment.index.bitmaps import bitmap_of
from gamay.segment.read.reader import ImmutableSegment
from gamay.segment.write.builder import SegmentBuilder
from gamay.segment.write.row_subset import KeptRows, write_kept
from gamay.storage.fetchers import Fetchers
from gamay.storage.settings import StorageSettings

_VALUES_FILE = "values"


@dataclass(frozen=True)
class Purge(SegmentRewrite):
    """A work that purges a segment. told: the subtask's config. storage: the settings of file systems, for a file of
    values."""

    told: Mapping[str, str]
    factories: PurgeFactories
    storage: StorageSettings = field(repr=False)
    verb: ClassVar[str] = "purging"

    def build(self, folder: Path, step: Callable[[str], None], tls: ssl.SSLContext | None) -> Rebuilt:
        """Do what the base does, after fetching a file of values."""
        if "openedURI" in self.told:
            step(f"fetching {self.told['purgeValuesURI']}")
            Fetchers(self.storage, tls).fetch_recorded(self.told["openedURI"], folder / _VALUES_FILE)
        return super().build(folder, step, tls)

    def rewritten(self, segment: ImmutableSegment, layout: TableLayout, out_dir: Path) -> Path | None:
        """See the base."""
        schema, config = layout.schema, layout.config
        purgers = self._purgers(schema, out_dir.parent / _VALUES_FILE)
        by_values = "purgeColumn" in self.told
        modifiers = [] if by_values else self.factories.modifiers_of(self.stored.table, self.told)
        if not purgers and not modifiers:
            return None
        kept, is_modified = BitMap(), False
        begin = 0
        for batch in conformed_rows(segment, schema):
            rows = np.flatnonzero(~_purged(batch, purgers))
            kept |= bitmap_of(rows + begin)
            before = batch.take(pa.array(rows))
            is_modified = is_modified or not _modified(before, modifiers).equals(before)
            begin += batch.num_rows
        if is_modified:
            return _written(segment, schema, config, out_dir, purgers, modifiers)
        if len(kept) == segment.num_docs:
            return None
        parts, created_ms = [KeptRows.of(segment, kept)], segment.info.creation_time_ms
        return write_kept(parts, schema, config, segment.name, out_dir, created_ms)

    def _purgers(self, schema: Schema, values_file: Path) -> list[RecordPurger]:
        settings = PurgeSettings.of(self.told)
        if settings.column is None:
            return self.factories.purgers_of(self.stored.table, self.told)
        column, texts = settings.column, list(settings.values)
        if settings.values_uri is not None:
            with open_bytes(str(values_file)) as file:
                texts = [line.strip() for line in file.read().decode().splitlines() if line.strip()]
        values = values_of_texts(schema.field(column), texts)
        return [lambda batch: rows_with(batch.column(column), values)]


def _written(
    segment: ImmutableSegment,
    schema: Schema,
    config: TableConfig,
    out_dir: Path,
    purgers: list[RecordPurger],
    modifiers: list[RecordModifier],
) -> Path:
    """Write the remaining rows, with the changes of modifiers."""
    clock = ManualClock(segment.info.creation_time_ms)
    builder = SegmentBuilder(schema, config, segment.name, out_dir, clock=clock)
    for batch in _changed(segment, schema, purgers, modifiers):
        builder.append(batch)
    return builder.build()


def _changed(
    segment: ImmutableSegment, schema: Schema, purgers: list[RecordPurger], modifiers: list[RecordModifier]
) -> Iterator[pa.RecordBatch]:
    for batch in conformed_rows(segment, schema):
        yield _modified(batch.filter(pa.array(~_purged(batch, purgers))), modifiers)


def _purged(batch: pa.RecordBatch, purgers: list[RecordPurger]) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return for each row whether a purger selects it."""
    found = np.zeros(batch.num_rows, np.bool_)
    for purger in purgers:
        given = purger(batch)
        if isinstance(given, pa.Array | pa.ChunkedArray):
            given = given.to_numpy(zero_copy_only=False) if isinstance(given, pa.Array) else given.to_numpy()
        mask = np.asarray(given)
        if mask.dtype != np.bool_ or mask.shape != found.shape:
            raise InvalidConfigError(
                f"the record purger {purger!r} returned {mask.dtype} {list(mask.shape)} for {batch.num_rows} rows; it must "
                "return a boolean without null for each row"
            )
        found |= mask
    return found


def _modified(batch: pa.RecordBatch, modifiers: list[RecordModifier]) -> pa.RecordBatch:
    """Return the rows with the changes of modifiers."""
    for modifier in modifiers:
        for name, given in (modifier(batch) or {}).items():
            position = batch.schema.get_field_index(name)
            if position < 0:
                raise InvalidConfigError(
                    f"the record modifier {modifier!r} changes the column '{name}', which does not exist"
                )
            kind = batch.schema.field(position).type
            try:
                values = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else pa.array(given)
                values = values if values.type == kind else values.cast(kind)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                raise InvalidConfigError(
                    f"the record modifier {modifier!r} gave values for column '{name}' that are not {kind}: {error}"
                ) from error
            if len(values) != batch.num_rows:
                raise InvalidConfigError(
                    f"the record modifier {modifier!r} gave {len(values)} values of '{name}' for {batch.num_rows} rows"
                )
            batch = batch.set_column(position, name, values)
    return batch

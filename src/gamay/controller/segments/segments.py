"""Segments of tables: pushes (durable), replacement, listing and deletion.

Order of a push: the verified copy is moved into the deep store, then the record is written, then the segment is added
to the ideal state. A push that a crash interrupted before the last step was never acknowledged; its remains are
removed at the next start (`gamay.controller.health.repair`).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from gamay.base.errors import ConflictError, GamayError, InvalidConfigError, NotFoundError
from gamay.cluster.records.llc_name import partition_of
from gamay.cluster.records.records import LineageState, SegmentRecord
from gamay.controller.context import ControllerContext
from gamay.controller.placement import PlacementManager
from gamay.controller.realtime.ideal_steps import latest_segments
from gamay.controller.segments.verify import VerifiedSegment, check_matches, check_times, record_of
from gamay.controller.tables.storage_quota import check_room
from gamay.controller.tables.tables import TableManager
from gamay.model.schema.datetime_format import DateTimeFormat, DateTimeKind
from gamay.model.schema.schema import Schema
from gamay.model.table.table_name import TableType
from gamay.segment.encode.metadata import SegmentMetadata
from gamay.storage.local_store import size_of


class PreconditionError(GamayError):
    """A refresh of a segment whose stored CRC is not the one that the pusher expects."""

    http_status = 412


class GoneError(GamayError):
    """A push that may only refresh existing segments, of a segment that does not exist."""

    http_status = 410


@dataclass(frozen=True, slots=True)
class PushOptions:
    """Options of a push.

    if_match: CRC that the stored segment must have. custom_map: (mode UPDATE or REPLACE, entries).
    """

    allow_refresh: bool = True
    refresh_only: bool = False
    if_match: str | None = None
    custom_map: tuple[str, Mapping[str, str]] | None = None
    check_times: bool = True


_Store: TypeAlias = Callable[[SegmentRecord | None], str]
"""Stores the data of a segment at its final location; takes the existing record, and returns a URL."""


@dataclass(frozen=True, slots=True)
class SegmentManager:
    """Manager of the segments of all tables. Its methods may be called from any thread; pushes are committed one at a
    time."""

    context: ControllerContext
    tables: TableManager

    @property
    def _lock(self) -> threading.RLock:
        return self.tables.schemas.lock

    def push(self, table: str, segment: VerifiedSegment, source: Path, options: PushOptions) -> SegmentRecord:
        """Add or refresh one segment. `source`: its archive or its folder, in the work folder; it is moved.

        Raises NotFoundError, InvalidConfigError, ConflictError, PreconditionError, GoneError, SegmentTimeError,
        StorageQuotaError.
        """
        self._check(table, segment.info, options)
        size = size_of(source)

        def store(existing: SegmentRecord | None) -> str:
            deep_store, own = self.context.deep_store, self._own_copy(existing, segment.info)
            # an archive is written again, since the stored one may be damaged; a folder stays, since servers have opened it
            if own is not None and deep_store.in_place(own) is not None:
                return own
            return deep_store.put(source, table, segment.info.name, segment.info.crc)

        return self._commit(table, segment.info, size, store, options)

    def push_metadata(self, table: str, info: SegmentMetadata, url: str, size: int, options: PushOptions) -> SegmentRecord:
        """Add or refresh one segment whose data stays where it is. Raises as `push`."""
        self._check(table, info, options)
        return self._commit(table, info, size, lambda existing: self._own_copy(existing, info) or url, options)

    def add_all(self, table: str, segments: Sequence[VerifiedSegment], schema: Schema | None = None) -> list[SegmentRecord]:
        """Add new segments from their folders, all of them or none: they become visible together.

        schema: the table's schema when the segments become visible, if not the current one. Raises ConflictError if
        one already exists, StorageQuotaError.
        """
        options = PushOptions(allow_refresh=False, check_times=False)
        registry, store = self.context.registry, self.context.deep_store
        with self._lock:
            for segment in segments:
                self._check(table, segment.info, options, schema)
                self._check_existing(table, registry.get_segment(table, segment.info.name), segment.info, options)
            sizes = {segment.info.name: size_of(segment.folder) for segment in segments}
            check_room(registry, self.tables.get(table), sizes)
            records: list[SegmentRecord] = []
            try:
                for segment in segments:
                    info, size = segment.info, sizes[segment.info.name]
                    url = store.put(segment.folder, table, info.name, info.crc)
                    record = record_of(info, url, size).with_changes(push_time_ms=self.context.clock.now_ms())
                    records.append(record)
                    registry.create_segment(table, record)
                self._assign(table, [record.name for record in records])
            except BaseException:
                for record in records:
                    registry.delete_segment(table, record.name)
                    store.discard(record.download_url, None)
                raise
        return records

    def record(self, table: str, name: str) -> SegmentRecord:
        """Return a segment's record. Raises NotFoundError."""
        record = self.context.registry.get_segment(table, name)
        if record is None:
            raise NotFoundError(f"Segment {name} not found in table {table}")
        return record

    def names(self, table: str, *, exclude_replaced: bool = False) -> list[str]:
        """Return the segments of a typed table, ascending."""
        names = list(self.context.registry.must_get_ideal_state(table).states)
        hidden = self.context.registry.get_lineage(table).hidden_segments() if exclude_replaced else frozenset()
        return sorted(name for name in names if name not in hidden)

    def names_between(
        self, table: str, start_ms: int, end_ms: int, *, exclude_overlapping: bool = False, exclude_replaced: bool = False
    ) -> list[str]:
        """Return the segments with rows in [start_ms, end_ms); with `exclude_overlapping` only those entirely inside."""
        chosen = []
        names = self.names(table, exclude_replaced=exclude_replaced)
        for name, record in self.context.registry.get_segments(table, names).items():
            if record.total_docs == 0 or record.start_time_ms < 0:
                continue
            inside = start_ms <= record.start_time_ms and record.end_time_ms < end_ms
            overlaps = record.start_time_ms < end_ms and record.end_time_ms >= start_ms
            if inside or (overlaps and not exclude_overlapping):
                chosen.append(name)
        return chosen

    def delete(self, table: str, names: Sequence[str], retention: str | None = None) -> None:
        """Delete segments; their copies are set aside until `TableManager.kept_until`.

        Raises NotFoundError if one does not exist, ConflictError while a replacement of segments needs one.
        """
        with self._lock:
            until_ms = self.tables.kept_until(self.tables.document(table), retention)
            known = set(self.names(table))
            if missing := [name for name in names if name not in known]:
                raise NotFoundError(f"Segment {', '.join(missing)} not found in table {table}")
            self._check_not_locked(table, names)
            self.delete_unchecked(table, names, until_ms)

    def delete_unchecked(self, table: str, names: Sequence[str], until_ms: int | None) -> None:
        """Delete segments without checking whether a replacement needs them."""
        registry = self.context.registry
        with self._lock:
            records = registry.get_segments(table, names).values()
            registry.update_ideal_state(table, lambda ideal: ideal.with_segments({}, frozenset(names)))
            for name in names:
                registry.delete_segment(table, name)
            for record in records:
                if self.context.deep_store.owns(record.download_url):
                    self.context.deep_store.discard(record.download_url, until_ms)

    def update_times(self, table: str) -> None:
        """Recompute the time ranges in all records of a table by the current format of its time column.

        Raises InvalidConfigError for a table without a time column, or a value that does not match the format.
        """
        column = self.tables.get(table).time_column
        time_format = None if column is None else self.tables.schema_of(table).field(column).format
        if time_format is None:
            raise InvalidConfigError(f"Table {table} has no time column, so its segments have no time range")

        def updated(record: SegmentRecord | None) -> SegmentRecord | None:
            if record is None or not record.start_time_raw:
                return record
            try:
                return record.with_changes(
                    start_time_ms=_millis(time_format, record.start_time_raw),
                    end_time_ms=_millis(time_format, record.end_time_raw),
                )
            except ValueError as error:
                raise InvalidConfigError(f"segment '{record.name}': column '{column}': {error}") from error

        with self._lock:
            for name in self.names(table):
                self.context.registry.update_segment(table, name, updated)

    def _check(self, table: str, info: SegmentMetadata, options: PushOptions, schema: Schema | None = None) -> None:
        config = self.tables.get(table)
        check_matches(info, schema or self.tables.schema_of(table))
        checks = options.check_times and config.ingestion.segment_time_value_check
        if checks and config.time_column and info.time_column:
            check_times(info)
        if config.has_keys and config.table_type is TableType.REALTIME:
            self._check_partition(table, info.name)

    def _check_partition(self, table: str, segment: str) -> None:
        """Raise InvalidConfigError for a segment of a partition that is not consumed: its keys would also be in
        another one."""
        consumed = sorted(latest_segments(self.context.registry.must_get_ideal_state(table)))
        partition = partition_of(segment)
        if partition is not None and consumed and partition not in consumed:
            raise InvalidConfigError(
                f"segment {segment} is of partition {partition}, which {table} does not consume: rows of a key must be in "
                f"the same partition as in the stream, one of {', '.join(map(str, consumed))}"
            )

    def _own_copy(self, existing: SegmentRecord | None, info: SegmentMetadata) -> str | None:
        """Return the URL of the deep store's copy of a segment that is pushed again unchanged, or None."""
        is_same = existing is not None and existing.crc == info.crc and self.context.deep_store.owns(existing.download_url)
        return existing.download_url if existing is not None and is_same else None

    def _commit(self, table: str, info: SegmentMetadata, size: int, store: _Store, options: PushOptions) -> SegmentRecord:
        with self._lock:
            registry, now_ms = self.context.registry, self.context.clock.now_ms()
            existing = registry.get_segment(table, info.name)
            self._check_existing(table, existing, info, options)
            check_room(registry, self.tables.get(table), {info.name: size})
            url = store(existing)
            record = record_of(info, url, size).with_changes(
                push_time_ms=now_ms if existing is None else existing.push_time_ms,
                refresh_time_ms=-1 if existing is None else now_ms,
                custom=_custom_map({} if existing is None else existing.custom, options),
                **({} if existing is None else existing.stream_place()),
            )
            try:
                self._switch(table, existing, record)
            except BaseException:
                self._discard_unless_named(table, record)
                raise
            try:
                self._assign(table, [info.name])
            except BaseException:
                if existing is None:
                    self._withdraw(table, record)
                raise
            if existing is not None and existing.download_url != url and self.context.deep_store.owns(existing.download_url):
                self.context.deep_store.discard(existing.download_url, None)
            return record

    def _switch(self, table: str, existing: SegmentRecord | None, record: SegmentRecord) -> None:
        """Replace the record that was checked. Raises ConflictError if another controller changed it meanwhile."""

        def switched(current: SegmentRecord | None) -> SegmentRecord:
            if current != existing:
                raise ConflictError(
                    f"Segment: {record.name} of table: {table} was pushed elsewhere at the same time, try again"
                )
            return record

        self.context.registry.update_segment(table, record.name, switched)

    def _withdraw(self, table: str, record: SegmentRecord) -> None:
        """Undo a push that failed after its record was written, unless another controller has replaced the record."""
        registry = self.context.registry
        registry.update_segment(table, record.name, lambda current: None if current == record else current)
        self._discard_unless_named(table, record)

    def _discard_unless_named(self, table: str, record: SegmentRecord) -> None:
        """Remove the copy of a failed push, unless the segment's record refers to it: two pushes may share a copy."""
        current, url = self.context.registry.get_segment(table, record.name), record.download_url
        if self.context.deep_store.owns(url) and (current is None or current.download_url != url):
            self.context.deep_store.discard(url, None)

    def _check_existing(
        self, table: str, existing: SegmentRecord | None, info: SegmentMetadata, options: PushOptions
    ) -> None:
        if existing is None:
            if options.refresh_only:
                raise GoneError(f"Cannot refresh non-existing segment: {info.name} of table: {table}")
            return
        if not existing.complete:
            raise ConflictError(f"Segment: {info.name} of table: {table} is being consumed; it cannot be replaced yet")
        if not options.allow_refresh:
            raise ConflictError(f"Segment: {info.name} already exists in table: {table}. Refresh not permitted.")
        if options.if_match is not None and options.if_match.strip('"') != str(existing.crc):
            raise PreconditionError(f"Expected CRC: {options.if_match} does not match the stored CRC: {existing.crc}")

    def _assign(self, table: str, names: Sequence[str]) -> None:
        placement = PlacementManager(self.context, self.tables)
        self.context.registry.update_ideal_state(
            table, lambda ideal: ideal.with_segments(placement.assigned(table, names, ideal))
        )

    def _check_not_locked(self, table: str, names: Sequence[str]) -> None:
        for entry in self.context.registry.get_lineage(table).entries.values():
            locked: set[str] = set()
            if entry.state is LineageState.IN_PROGRESS:
                locked = {*entry.segments_from, *entry.segments_to}
            elif entry.state is LineageState.COMPLETED:
                locked = set(entry.segments_from)
            if both := sorted(locked & set(names)):
                raise ConflictError(
                    f"Segments {both} of table {table} belong to the replacement {entry.id}, revert or end it first"
                )


def _millis(time_format: DateTimeFormat, raw: str) -> int:
    """Return epoch milliseconds of a time column's value, as text in a record. Raises ValueError."""
    is_number = raw.removeprefix("-").isdecimal()  # as of a column of type TIMESTAMP
    return time_format.to_millis(int(raw) if is_number and time_format.kind is DateTimeKind.TIMESTAMP else raw)


def _custom_map(existing: Mapping[str, str], options: PushOptions) -> Mapping[str, str]:
    if options.custom_map is None:
        return existing
    mode, entries = options.custom_map
    if mode == "REPLACE":
        return entries
    if mode == "UPDATE":
        return {**existing, **entries}
    raise InvalidConfigError(f"mapModifyMode: '{mode}' must be UPDATE or REPLACE")

"""Reconciliation of a server's consumers with the ideal states, on a thread that is not blocked by downloads."""

import logging
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from gamay.base.errors import GamayError
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import CONSUMING, ONLINE, SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.cluster.store.znrecord import CorruptRecordError
from gamay.model.table.table_name import TableType, table_type_of
from gamay.query.layout.rebuild import TableLayout
from gamay.server.loading.table import TableData

if TYPE_CHECKING:
    from gamay.server.consuming.manager import ConsumerManager

_log = logging.getLogger(__name__)


class ConsumingTransitions:
    """Controller of consumers: starts them, informs them that their segments are ONLINE, and stops them.

    data_of: returns the visible data of a typed table. report: writes the table's current state. failed: records that a
    segment is in the ERROR state, and schedules a retry; begun: clears the error. resting: the typed tables that are
    disabled, or were and are not loaded again yet.
    """

    def __init__(
        self,
        server: str,
        registry: Registry,
        manager: "ConsumerManager",
        layout_of: Callable[[str], TableLayout | None],
        data_of: Callable[[str], TableData],
        report: Callable[[str], None],
        failed: Callable[[str, str, Exception], None],
        begun: Callable[[str, str], None],
        resting: Collection[str],
    ) -> None:
        self._server = server
        self._registry = registry
        self.manager = manager
        self._layout_of = layout_of
        self._data_of = data_of
        self._report = report
        self._failed = failed
        self._begun = begun
        self._resting = resting
        self._wake = threading.Condition()
        self.applying = threading.Lock()
        """Held while consumers of a table start and end, and while a table is removed."""
        self._tables: set[str] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="server-consuming", daemon=True)

    def start(self) -> None:
        """Start processing the tables queued by `note`."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, then the consumers."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self.manager.close()

    def note(self, table: str) -> None:
        """Queue a table."""
        with self._wake:
            self._tables.add(table)
            self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._tables or self._stopping)
                if self._stopping:
                    return
                tables, self._tables = self._tables, set()
            for table in sorted(tables):
                try:
                    self.apply(table)
                except Exception:  # noqa: BLE001 - a broken record of one table must not affect others
                    _log.exception("%s: the consumers of %s cannot be reconciled", self._server, table)

    def apply(self, table: str) -> None:
        """Reconcile the consumers of a typed table with its ideal state."""
        if table_type_of(table) is TableType.REALTIME:
            with self.applying:
                self._apply(table)

    def end(self, table: str) -> None:
        """Stop all consumers of a table whose key state is dropped with them; `applying` must be held."""
        data = self._data_of(table)
        for segment in self.manager.consumers(table):
            self.manager.stop(data, segment)
        for segment in self.manager.prefetched_behind(table):
            self.manager.drop_prefetch(table, segment)

    def drop(self, table: str) -> None:
        """Stop all consumers of a table and remove its state; `applying` must be held."""
        self.end(table)
        self.manager.forget(table)

    def _apply(self, table: str) -> None:
        # Read before the ideal state: a segment that is CONSUMING in it nevertheless was OFFLINE in between, if only
        # briefly.
        consumers = self.manager.consumers(table)
        given_up = {name for name, consumer in consumers.items() if consumer.gave_up}
        beyond = {name for name, consumer in consumers.items() if consumer.is_beyond}
        ideal = self._registry.get_ideal_state(table)
        if ideal is not None and (not ideal.enabled or table in self._resting):
            return  # its consumers end with its keys: started again, they would miss the rows that their own have replaced
        states = ideal.segments_of(self._server) if ideal is not None else {}
        self.manager.assign(table, [segment for segment, state in states.items() if state in (CONSUMING, ONLINE)])
        data = self._data_of(table)
        for segment in given_up:
            if states.get(segment) == CONSUMING:
                self.manager.stop(data, segment)
        for segment in beyond:
            self.manager.stop(data, segment)
            self.manager.leave(table, segment)  # it may be complete by now, and must be loaded
        consumers = self.manager.consumers(table)
        started = set(states) - set(consumers) - set(data.snapshot())
        for segment in consumers:
            if states.get(segment) not in (CONSUMING, ONLINE):
                self.manager.stop(data, segment)
            elif states[segment] == ONLINE:
                # Before its successor starts: a consumer's rows beyond the end are the successor's first ones.
                self._end(data, segment)
        for segment in sorted(started):
            if states[segment] in (CONSUMING, ONLINE):
                self._begin(data, segment, states[segment])
        for segment in self.manager.prefetched_behind(table):
            if states.get(segment) != CONSUMING:  # its end is decided, and its successor is not consumed here
                self.manager.drop_prefetch(table, segment)
        if consumers or CONSUMING in states.values():
            self._report(table)

    def _end(self, data: TableData, segment: str) -> None:
        record = self._readable(data.name, segment)
        if record is not None and record.end_offset:
            self.manager.end_at(data, segment, record.end_offset, committed=record.complete)

    def _begin(self, data: TableData, segment: str, state: str) -> None:
        try:
            record = self._registry.get_segment(data.name, segment)
            layout = self._layout_of(data.name)
            if record is None or record.complete or layout is None:
                return  # a complete segment is loaded like any other
            if state == ONLINE and not record.end_offset:
                return
            self.manager.start(data, record, layout, self._before(data.name, record))
        except (GamayError, OSError) as error:
            self._failed(data.name, segment, error)
        else:
            self._begun(data.name, segment)

    def _before(self, table: str, record: SegmentRecord) -> str | None:
        """Return the predecessor of a record's segment if it is consumed here."""
        name = LlcName.must_parse(record.name)
        known = [LlcName.must_parse(segment) for segment in self.manager.consumers(table)]
        before = max((n for n in known if n.partition == name.partition and n.sequence < name.sequence), default=None)
        found = None if before is None else self._readable(table, str(before))
        return found.name if found is not None and found.end_offset == record.start_offset else None

    def _readable(self, table: str, segment: str) -> SegmentRecord | None:
        """Return a record, None also if it is damaged: it must not block others, and its repair triggers a new attempt."""
        try:
            return self._registry.get_segment(table, segment)
        except CorruptRecordError as error:
            _log.error("%s: %s", self._server, error)
            return None

"""Brings the consumers of a server in line with the ideal states, on a thread that no download holds up."""

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
    """Starts consumers, tells them that their segments are ONLINE, and stops them.

    data_of: what queries see of a typed table. report: writes the table's current state. failed: notes that a segment is
    in the ERROR state, and has it tried again; begun: notes that it is not any more. resting: the typed tables that are
    switched off, or were and are not loaded again yet.
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
        """Held while consumers of a table begin and end; who forgets a table takes it."""
        self._tables: set[str] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="server-consuming", daemon=True)

    def start(self) -> None:
        """Begin to follow what `note` tells."""
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
        """Look at a table soon."""
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
                except Exception:  # noqa: BLE001 - one table's broken record must not keep others from being consumed
                    _log.exception("%s: the consumers of %s cannot be brought in line", self._server, table)

    def apply(self, table: str) -> None:
        """Bring the consumers of a typed table in line with its ideal state."""
        if table_type_of(table) is TableType.REALTIME:
            with self.applying:
                self._apply(table)

    def end(self, table: str) -> None:
        """End all consumers of a table whose keys are forgotten with them; `applying` is held."""
        data = self._data_of(table)
        for segment in self.manager.consumers(table):
            self.manager.stop(data, segment)
        for segment in self.manager.prefetched_behind(table):
            self.manager.drop_prefetch(table, segment)

    def drop(self, table: str) -> None:
        """End all consumers of a table and forget it; `applying` is held."""
        self.end(table)
        self.manager.forget(table)

    def _apply(self, table: str) -> None:
        # Asked before the ideal state is read: who is to consume there nevertheless was OFFLINE in between, if only briefly.
        consumers = self.manager.consumers(table)
        given_up = {name for name, consumer in consumers.items() if consumer.gave_up}
        beyond = {name for name, consumer in consumers.items() if consumer.is_beyond}
        ideal = self._registry.get_ideal_state(table)
        if ideal is not None and (not ideal.enabled or table in self._resting):
            return  # its consumers end with its keys: begun again, they would find nothing of what their rows had replaced
        states = ideal.segments_of(self._server) if ideal is not None else {}
        self.manager.assign(table, [segment for segment, state in states.items() if state in (CONSUMING, ONLINE)])
        data = self._data_of(table)
        for segment in given_up:
            if states.get(segment) == CONSUMING:
                self.manager.stop(data, segment)
        for segment in beyond:
            self.manager.stop(data, segment)
            self.manager.leave(table, segment)  # it may be complete by now, and is to be loaded
        consumers = self.manager.consumers(table)
        started = set(states) - set(consumers) - set(data.snapshot())
        for segment in consumers:
            if states.get(segment) not in (CONSUMING, ONLINE):
                self.manager.stop(data, segment)
            elif states[segment] == ONLINE:
                # Before its successor begins: the rows that a consumer has beyond the end are the successor's first ones.
                self._end(data, segment)
        for segment in sorted(started):
            if states[segment] in (CONSUMING, ONLINE):
                self._begin(data, segment, states[segment])
        for segment in self.manager.prefetched_behind(table):
            if states.get(segment) != CONSUMING:  # its end is decided, and nothing follows here
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
                return  # what is complete is loaded like any other segment
            if state == ONLINE and not record.end_offset:
                return
            self.manager.start(data, record, layout, self._before(data.name, record))
        except (GamayError, OSError) as error:
            self._failed(data.name, segment, error)
        else:
            self._begun(data.name, segment)

    def _before(self, table: str, record: SegmentRecord) -> str | None:
        """Return the segment consumed here that ends where the one of `record` begins."""
        name = LlcName.must_parse(record.name)
        known = [LlcName.must_parse(segment) for segment in self.manager.consumers(table)]
        before = max((n for n in known if n.partition == name.partition and n.sequence < name.sequence), default=None)
        found = None if before is None else self._readable(table, str(before))
        return found.name if found is not None and found.end_offset == record.start_offset else None

    def _readable(self, table: str, segment: str) -> SegmentRecord | None:
        """Return a record, None also where it is damaged: others must go on, and a change of it is looked at again."""
        try:
            return self._registry.get_segment(table, segment)
        except CorruptRecordError as error:
            _log.error("%s: %s", self._server, error)
            return None

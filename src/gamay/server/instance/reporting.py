"""A server's current states: the state of each assigned segment, written to the metadata store."""

import threading
from collections.abc import Callable, Mapping

from gamay.cluster.records.records import CONSUMING, ERROR, ONLINE
from gamay.cluster.records.registry import Registry
from gamay.server.instance.failures import SegmentFailures
from gamay.server.loading.table import TableData


class CurrentStates:
    """Writer of changed current states. Thread-safe. data_of: returns the visible data of a typed table."""

    def __init__(
        self, instance_id: str, registry: Registry, data_of: Callable[[str], TableData], failures: SegmentFailures
    ) -> None:
        self._instance_id = instance_id
        self._registry = registry
        self._data_of = data_of
        self._failures = failures
        self._lock = threading.Lock()
        self._written: dict[str, dict[str, str]] = {}

    def forget(self) -> None:
        """Discard the record of written states, because their session has ended."""
        self._written.clear()

    def report(self, table: str, *, anew: bool = False) -> None:
        """Write the table's current state if it has changed. anew: in any case, because the written state is lost."""
        with self._lock:
            if anew:
                self._written.pop(table, None)
            ideal = self._registry.get_ideal_state(table)
            if ideal is None:
                self._written.pop(table, None)
                self._registry.delete_current_state(self._instance_id, table)
                return
            states = self._states(table, ideal.segments_of(self._instance_id) if ideal.enabled else {})
            if self._written.get(table) != states:
                self._registry.put_current_state(self._instance_id, table, states)
                self._written[table] = states

    def _states(self, table: str, wanted: Mapping[str, str]) -> dict[str, str]:
        """Return the states of the present segments; a committed one is CONSUMING until it should be ONLINE."""
        contents = self._data_of(table).contents()
        states: dict[str, str] = {}
        for segment, state in sorted(wanted.items()):
            if state not in (ONLINE, CONSUMING):
                continue
            if segment in contents.loaded:
                states[segment] = state
            elif self._failures.has(table, segment):
                states[segment] = ERROR
            elif segment in contents.consuming:
                states[segment] = CONSUMING
        return states

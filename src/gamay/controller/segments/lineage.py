"""Atomic replacement of segments: start, push the new ones, end; queries see either all old segments or all new ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gamay.base.errors import ConflictError, GamayError
from gamay.cluster.records.records import Lineage, LineageEntry, LineageState, WriterBatch
from gamay.cluster.records.views import SegmentStatus, segment_status
from gamay.controller.context import ControllerContext
from gamay.controller.segments.segments import SegmentManager

_POLL_S = 0.05


class ReplaceError(GamayError):
    """A replacement that cannot be started, ended or reverted; Pinot's clients expect status 500."""

    http_status = 500


class ReplaceEndedError(ConflictError):
    """A replacement that cannot be reverted, since queries see its segments."""


class BatchShownError(ConflictError):
    """A batch of a streaming writer that queries already see."""


@dataclass(frozen=True, slots=True)
class ReplaceManager:
    """Manager of the replacements of all tables."""

    context: ControllerContext
    segments: SegmentManager

    def start(
        self, table: str, segments_from: Sequence[str], segments_to: Sequence[str], *,
        force: bool = False, of_table: bool = False,
    ) -> str:  # fmt: skip
        """Start to replace segments and return the id of the entry; `segments_to` stay hidden until the end.

        force: revert open entries that overlap, and delete what was pushed for them. of_table: the whole table is
        replaced, so that this overlaps with every other such entry, even if there was nothing to replace. Raises
        ReplaceError.
        """
        if not segments_from and not segments_to:
            raise ReplaceError("'segmentsFrom' and 'segmentsTo' are both empty")
        existing = set(self.segments.names(table))
        if missing := sorted(set(segments_from) - existing):
            raise ReplaceError(f"Segments {missing} from 'segmentsFrom' do not exist in table {table}")
        if clash := sorted(set(segments_to) & existing):
            raise ReplaceError(f"Segments {clash} from 'segmentsTo' already exist in table {table}")
        entry = LineageEntry(
            self.context.ids.new(),
            tuple(segments_from),
            tuple(segments_to),
            LineageState.IN_PROGRESS,
            self.context.clock.now_ms(),
            of_table,
        )
        touched = {*segments_from, *segments_to}
        left: set[str] = set()

        def change(lineage: Lineage) -> Lineage:
            left.clear()
            for other in lineage.entries.values():
                used = touched & {*other.segments_from, *other.segments_to}
                if other.state is LineageState.IN_PROGRESS and (used or (of_table and other.is_of_table)):
                    if not force:
                        what = f"Segments {sorted(used)} are" if used else f"table {table} is"
                        raise ReplaceError(f"{what} already being replaced by entry {other.id}")
                    left.update(other.segments_to)
                    other = replace(other, state=LineageState.REVERTED)
                    lineage = lineage.with_entry(other)
                elif other.state is LineageState.COMPLETED and (gone := set(segments_from) & set(other.segments_from)):
                    raise ReplaceError(f"Segments {sorted(gone)} were already replaced by entry {other.id}")
                if other.state is LineageState.REVERTED and set(segments_to) & set(other.segments_to):
                    # none of them exists yet: this entry brings them, and the other one would keep them hidden
                    rest = tuple(name for name in other.segments_to if name not in segments_to)
                    lineage = lineage.with_entry(replace(other, segments_to=rest))
            if unseen := sorted(lineage.hidden_segments() & set(segments_from)):
                # what they were to replace is visible, and would stay visible beside the replacement of this entry
                raise ReplaceError(f"Segments {unseen} from 'segmentsFrom' are not visible: end their own replacement first")
            return lineage.with_entry(entry)

        self.context.registry.update_lineage(table, change)
        self._delete(table, left - touched)
        return entry.id

    def end(
        self, table: str, entry_id: str, segments_to: Sequence[str], timeout_s: float, sleep: Callable[[float], object]
    ) -> None:
        """Make the new segments visible and hide the old ones, once every server has loaded the new ones.

        segments_to: the segments that were actually pushed, if fewer than announced. Raises ReplaceError.
        """
        entry = self._entry(table, entry_id)
        if entry.state is LineageState.COMPLETED:
            return
        if entry.state is LineageState.REVERTED:
            raise ReplaceError(f"entry {entry_id} of table {table} was reverted, it cannot be ended")
        wanted = tuple(segments_to) or entry.segments_to
        if unknown := sorted(set(wanted) - set(entry.segments_to)):
            raise ReplaceError(f"Segments {unknown} are not among those that entry {entry_id} announced")
        self._wait_until_good(table, wanted, timeout_s, sleep)
        done = replace(entry, segments_to=wanted, state=LineageState.COMPLETED, timestamp_ms=self.context.clock.now_ms())
        self._switch(table, entry, done)

    def end_together(
        self, table: str, entry_ids: Sequence[str], timeout_s: float, sleep: Callable[[float], object],
        batch: tuple[str, int] | None = None,
    ) -> None:  # fmt: skip
        """End several replacements atomically, once every server has loaded all of their segments; one entry remains.

        The first id is that of the remaining entry; ending it again has no effect. batch: the id of a streaming writer
        and the number of the batch; it is recorded in the same step, so that this batch and earlier ones are never shown
        again. Raises ReplaceError, and BatchShownError for a batch that other entries have already shown.
        """
        first = self._entry(table, entry_ids[0])
        if first.state is LineageState.COMPLETED:
            return
        _refuse_shown(self.context.registry.get_lineage(table), batch)
        entries = [self._entry(table, entry_id) for entry_id in entry_ids]
        if reverted := [entry.id for entry in entries if entry.state is not LineageState.IN_PROGRESS]:
            raise ReplaceError(f"entries {reverted} of table {table} are not in progress any more, they cannot be ended")
        segments_to = tuple(name for entry in entries for name in entry.segments_to)
        self._wait_until_good(table, segments_to, timeout_s, sleep)
        ended = LineageEntry(
            first.id,
            tuple(name for entry in entries for name in entry.segments_from),
            segments_to,
            LineageState.COMPLETED,
            self.context.clock.now_ms(),
        )

        def change(lineage: Lineage) -> Lineage:
            _refuse_shown(lineage, batch)
            if changed := [entry.id for entry in entries if lineage.entries.get(entry.id) != entry]:
                raise ReplaceError(f"entries {changed} of table {table} were changed by another request")
            after = lineage.without(frozenset(entry_ids)).with_entry(ended)
            return after if batch is None else after.with_writer(batch[0], WriterBatch(batch[1], ended.timestamp_ms))

        self.context.registry.update_lineage(table, change)

    def clean_up(self, table: str, entry_id: str) -> None:
        """Delete the segments that an ended replacement has replaced, rather than leaving them to retention.

        Raises ReplaceError.
        """
        self._delete(table, self._entry(table, entry_id).segments_from)

    def revert(self, table: str, entry_id: str, *, force: bool = False, unless_ended: bool = False) -> None:
        """Show the old segments again and hide the new ones. Raises ReplaceError.

        An entry in progress is reverted only with `force`, because its pusher may still be running. unless_ended:
        raise ReplaceEndedError for one that has ended, so that a pusher that got no answer does not revert visible
        segments.
        """
        entry = self._entry(table, entry_id)
        if entry.state is LineageState.COMPLETED and unless_ended:
            raise ReplaceEndedError(f"entry {entry_id} of table {table} has ended: its segments are visible")
        if entry.state is LineageState.IN_PROGRESS and not force:
            raise ReplaceError(f"entry {entry_id} of table {table} is still in progress, use forceRevert=true")
        if entry.state is LineageState.REVERTED:
            return
        existing = set(self.segments.names(table))
        if missing := sorted(set(entry.segments_from) - existing):
            raise ReplaceError(f"Segments {missing} that would become visible again no longer exist in table {table}")
        lineage = self.context.registry.get_lineage(table)
        for other in lineage.entries.values():
            if other.id != entry_id and set(other.segments_from) & set(entry.segments_to):
                raise ReplaceError(f"entry {other.id} of table {table} builds on entry {entry_id}, revert that first")
        self._switch(table, entry, replace(entry, state=LineageState.REVERTED, timestamp_ms=self.context.clock.now_ms()))

    def document(self, table: str) -> Mapping[str, object] | None:
        """Return the lineage as JSON, or None if there is none."""
        lineage = self.context.registry.get_lineage(table)
        if not lineage.entries and not lineage.writers:
            return None
        return {
            "tableNameWithType": table,
            "lineageEntries": {
                entry.id: {
                    "segmentsFrom": list(entry.segments_from),
                    "segmentsTo": list(entry.segments_to),
                    "state": entry.state.value,
                    "timestamp": entry.timestamp_ms,
                }
                for entry in lineage.entries.values()
            },
            "writers": {name: batch.number for name, batch in lineage.writers.items()},
            **({"customMap": dict(lineage.custom)} if lineage.custom else {}),
        }

    def note(self, table: str, notes: Mapping[str, str]) -> None:
        """Store the callers' notes with the lineage, replacing earlier ones with the same keys."""
        if notes:
            self.context.registry.update_lineage(table, lambda lineage: lineage.with_custom(notes))

    def _entry(self, table: str, entry_id: str) -> LineageEntry:
        entry = self.context.registry.get_lineage(table).entries.get(entry_id)
        if entry is None:
            raise ReplaceError(f"Invalid segment lineage entry id: {entry_id} of table {table}")
        return entry

    def _delete(self, table: str, names: Iterable[str]) -> None:
        """Delete those of the segments that exist."""
        if found := sorted({*names}.intersection(self.segments.names(table))):
            tables = self.segments.tables
            self.segments.delete_unchecked(table, found, tables.kept_until(tables.document(table), None))

    def _switch(self, table: str, before: LineageEntry, after: LineageEntry) -> None:
        def change(lineage: Lineage) -> Lineage:
            if lineage.entries.get(before.id) != before:
                raise ReplaceError(f"entry {before.id} of table {table} was changed by another request")
            return lineage.with_entry(after)

        self.context.registry.update_lineage(table, change)

    def _wait_until_good(self, table: str, names: Sequence[str], timeout_s: float, sleep: Callable[[float], object]) -> None:
        registry, clock = self.context.registry, self.context.clock
        give_up = clock.monotonic_s() + timeout_s
        while True:
            ideal = registry.must_get_ideal_state(table)
            view = registry.get_external_view(table)
            if missing := sorted(set(names) - set(ideal.states)):
                raise ReplaceError(f"Segments {missing} of the replacement were not pushed to table {table}")
            actual = {} if view is None else view.states
            waiting = [n for n in names if segment_status(ideal.states[n], actual.get(n)) is not SegmentStatus.GOOD]
            if not waiting:
                return
            if clock.monotonic_s() >= give_up:
                raise ReplaceError(f"Segments {waiting[:5]} of table {table} are not online after {timeout_s:g} s")
            sleep(_POLL_S)


def _refuse_shown(lineage: Lineage, batch: tuple[str, int] | None) -> None:
    """Raise BatchShownError if the batch of a writer, or a later one, was already shown."""
    if batch is None or batch[0] not in lineage.writers:
        return
    last = lineage.writers[batch[0]].number
    if batch[1] <= last:
        raise BatchShownError(
            f"batch {batch[1]} of writer {batch[0]} is already in table {lineage.table}: the last one is {last}"
        )

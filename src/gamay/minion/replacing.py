"""Atomic replacement of segments of a table by others.

An attempt that dies in between leaves an open entry in the table's lineage, and invisible segments. The next attempt
recognises them by their names, reverts the entry and deletes the segments. So an attempt that lost its lease unknowingly
cannot end its replacement, and deletes the segments that it has pushed since.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import lcm

import orjson

from gamay.base.errors import ConflictError, GamayError, NotFoundError
from gamay.cluster.records.records import LineageState, SegmentRecord
from gamay.cluster.records.time_boundary import ROUNDED_KEY, rounded_ms
from gamay.minion.context import TaskContext
from gamay.minion.pieces import Packed, Piece, pieces_of
from gamay.model.merge_task_settings import MergeForm
from gamay.model.table.stored import stored_table_config
from gamay.model.table.table_name import raw_table_name, table_type_of
from gamay.segment.process.spec import ProcessSpec

_log = logging.getLogger(__name__)


def piece_for(task: TaskContext, table: str, stem: str) -> Piece:
    """Return a piece without inputs, for outputs in a typed table; their names begin with a stem and the attempt's time.

    Raises NotFoundError if the table does not exist.
    """
    registry = task.access.registry
    config, schema = registry.get_table_config(table), registry.get_schema(raw_table_name(table))
    if config is None or schema is None:
        raise NotFoundError(f"table '{table}' does not exist")
    documents = orjson.dumps(schema).decode(), orjson.dumps(config).decode()
    access, now_ms = task.access, task.clock.now_ms()
    name, url = f"{stem}_{now_ms}", access.controller_url()
    return Piece(task.table, (), name, ProcessSpec(), now_ms, *documents, url, access.auth_token)


def settle_earlier(task: TaskContext, table: str, stem: str, window: tuple[int, int] | None = None) -> bool:
    """Remove the remains of earlier attempts from a typed table: open replacements are reverted, their segments
    deleted; return whether the segments of one of the attempts are visible.

    stem: of the outputs' names. window: the time window of the pieces, in milliseconds, if other subtasks have the same
    stem. Raises TaskCancelledError.
    """
    # as `piece_for`, `pieces_of` and `build_piece` name them: attempt, bucket, piece, segment
    name = re.compile(rf"{re.escape(stem)}_\d+_(\d+)_\d+_\d+")

    def is_ours(segment: str) -> bool:
        found = name.fullmatch(segment)
        return found is not None and (window is None or window[0] <= int(found[1]) < window[1])

    is_shown = False
    for entry in task.access.registry.get_lineage(table).entries.values():
        if not entry.segments_to or not all(map(is_ours, entry.segments_to)):
            continue
        task.confirm()
        is_shown |= entry.state is LineageState.COMPLETED or not _undo(task, table, entry.id, entry.segments_to)
    return is_shown


def build_pieces(
    task: TaskContext, whole: Piece, records: Sequence[SegmentRecord], form: MergeForm, window: tuple[int, int]
) -> list[Packed]:
    """Build the segments of a time window, in pieces if that does not increase their number much. Raises as the
    pieces."""
    config = stored_table_config(orjson.loads(whole.table_config_json))
    # each piece yields a segment per partition
    apart = task.is_distributed or config.indexing.segment_partition is None
    return task.pieces(list(pieces_of(whole, records, form, window, apart=apart)), task.folder, task.progress)


def inputs_of(task: TaskContext) -> list[SegmentRecord] | str:
    """Return the records of the subtask's segments, or a sentence if one has changed since the task was created."""
    found = []
    for name, crc in zip(task.config["segmentName"].split(","), task.config["crc"].split(","), strict=True):
        record = task.record(name)
        if record is None or str(record.crc) != crc:
            now = "gone" if record is None else f"another one, with CRC {record.crc}"
            return f"segment {name} is {now}: nothing is done"
        found.append(record)
    return found


def stamp(task: TaskContext, records: Sequence[SegmentRecord], round_ms: int, **entries: str) -> dict[str, str]:
    """Return the custom map of segments built from others: the time of the task, the rounding period, and further
    entries."""
    task_type = task.leased.job.task_type
    custom = {f"{task_type}.{key}": value for key, value in entries.items()} | {
        f"{task_type}.time": str(task.clock.now_ms())
    }
    period = lcm(*(period for period in (round_ms, *(rounded_ms(record.custom) for record in records)) if period))
    return custom | ({ROUNDED_KEY: str(period)} if period > 1 else {})


def replace_segments(
    task: TaskContext,
    table: str,
    outgoing: Sequence[str],
    incoming: Sequence[Packed],
    custom: Mapping[str, str],
    batch: tuple[str, int] | None = None,
) -> None:
    """Push segments of a typed table, and atomically replace others by them.

    custom: entries of their records' custom maps. batch: see `ControllerClient.end_replaces`. Raises ConflictError if the
    batch is already visible, or an input has changed meanwhile; the errors of pushes, and TaskCancelledError. Then
    nothing becomes visible.
    """
    with replacement(task, table, outgoing, [one.name for one in incoming], batch):
        for packed in incoming:
            task.upload(packed, custom, table=table)
        if isinstance(changed := inputs_of(task), str):
            raise ConflictError(changed)


@contextmanager
def replacement(
    task: TaskContext,
    table: str,
    outgoing: Sequence[str],
    incoming: Sequence[str],
    batch: tuple[str, int] | None = None,
    *,
    of_table: bool = False,
) -> Iterator[None]:
    """Atomically replace segments of a typed table by others when the block has pushed them; not if it raises.

    batch: see `ControllerClient.end_replaces`. of_table: all segments of the table, possibly none, are replaced: an
    earlier replacement of the whole table that is still open is aborted. Raises the errors of `end_replaces`, and
    TaskCancelledError.
    """
    kind = table_type_of(table)
    assert kind is not None
    task.confirm()
    with task.access.controller() as controller:
        entry = controller.start_replace(table, outgoing, incoming, kind.value, of_table=of_table)
    try:
        yield
        task.progress.step(f"waiting until servers have the {len(incoming)} new segments of {table}")
        task.confirm()
        with task.access.controller() as controller:
            controller.end_replaces(table, [entry], kind.value, batch)
    except Exception:
        _undo(task, table, entry, incoming)
        raise


def _undo(task: TaskContext, table: str, entry: str, incoming: Sequence[str]) -> bool:
    """Revert a replacement and delete the segments pushed for it; return False if they are visible to queries.

    A failure is left to the next attempt, or to retention.
    """
    kind, registry = table_type_of(table), task.access.registry
    assert kind is not None
    found = registry.get_lineage(table).entries.get(entry)
    if found is None or found.state is LineageState.COMPLETED:
        return False  # the entry of a completed replacement may be gone already
    try:
        with task.access.controller() as controller:
            if found.state is LineageState.IN_PROGRESS:
                controller.revert_replace(table, entry, kind.value)
            if left := list(registry.get_segments(table, incoming)):
                controller.delete_segments(table, left)
    except ConflictError:
        return False  # it has ended meanwhile
    except GamayError as error:
        _log.warning("the replacement %s of table %s could not be undone: %s", entry, table, error)
    return True

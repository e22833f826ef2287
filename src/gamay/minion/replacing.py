"""Segments of a table that come in place of others, in one step for those who query it.

An attempt that dies in between leaves an open entry in the table's lineage: nobody sees its segments, and retention deletes
them. An attempt that was given up and does not know it yet ends nothing: what comes after it has reverted its entry.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import lcm

import orjson

from gamay.base.errors import ConflictError, GamayError, NotFoundError
from gamay.cluster.records.records import LineageState, SegmentRecord
from gamay.cluster.records.time_boundary import ROUNDED_KEY, rounded_ms
from gamay.minion.context import TaskContext
from gamay.minion.pieces import Packed, Piece
from gamay.model.table.table_name import raw_table_name, table_type_of
from gamay.segment.process.spec import ProcessSpec

_log = logging.getLogger(__name__)


def piece_for(task: TaskContext, table: str, name: str) -> Piece:
    """Return a piece without inputs, for outputs in a typed table. Raises NotFoundError when that does not exist."""
    registry = task.access.registry
    config, schema = registry.get_table_config(table), registry.get_schema(raw_table_name(table))
    if config is None or schema is None:
        raise NotFoundError(f"table '{table}' does not exist")
    documents = orjson.dumps(schema).decode(), orjson.dumps(config).decode()
    access, now_ms = task.access, task.clock.now_ms()
    return Piece(task.table, (), name, ProcessSpec(), now_ms, *documents, access.controller_url(), access.auth_token)


def inputs_of(task: TaskContext) -> list[SegmentRecord] | str:
    """Return the records of the subtask's segments; words instead when one is not what it was when the task was made."""
    found = []
    for name, crc in zip(task.config["segmentName"].split(","), task.config["crc"].split(","), strict=True):
        record = task.record(name)
        if record is None or str(record.crc) != crc:
            now = "gone" if record is None else f"another one, with CRC {record.crc}"
            return f"segment {name} is {now}: nothing is done"
        found.append(record)
    return found


def stamp(task: TaskContext, records: Sequence[SegmentRecord], round_ms: int, **entries: str) -> dict[str, str]:
    """Return the custom map of segments made of others: when that was, what their times are rounded to, and more."""
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
    """Push segments of a typed table, and show them in place of others, at once.

    custom: entries of their records' custom maps. batch: see `ControllerClient.end_replaces`. Raises ConflictError when
    that has been shown, or an input has changed meanwhile; as pushes do, and TaskCancelledError. Then nothing is shown.
    """
    with replacement(task, table, outgoing, [one.name for one in incoming], batch):
        for packed in incoming:
            task.upload(packed, custom, table=table)
        if isinstance(changed := inputs_of(task), str):
            raise ConflictError(changed)


@contextmanager
def replacement(
    task: TaskContext, table: str, outgoing: Sequence[str], incoming: Sequence[str], batch: tuple[str, int] | None = None
) -> Iterator[None]:
    """Show segments of a typed table in place of others, at once, when the block has pushed them; not when it raises.

    batch: see `ControllerClient.end_replaces`. Raises as that does, and TaskCancelledError.
    """
    kind = table_type_of(table)
    assert kind is not None
    task.confirm()
    with task.access.controller() as controller:
        entry = controller.start_replace(table, outgoing, incoming, kind.value)
    try:
        yield
        task.progress.step(f"waiting until servers have the {len(incoming)} new segments of {table}")
        task.confirm()
        with task.access.controller() as controller:
            controller.end_replaces(table, [entry], kind.value, batch)
    except Exception:
        _revert(task, table, entry)
        raise


def _revert(task: TaskContext, table: str, entry: str) -> None:
    """Give an entry up; where that fails it is left to whoever does the subtask again, or to retention."""
    kind = table_type_of(table)
    assert kind is not None
    found = task.access.registry.get_lineage(table).entries.get(entry)
    if found is None or found.state is not LineageState.IN_PROGRESS:
        return
    try:
        with task.access.controller() as controller:
            controller.revert_replace(table, entry, kind.value)
    except GamayError as error:
        _log.warning("the replacement %s of table %s stays open: %s", entry, table, error)

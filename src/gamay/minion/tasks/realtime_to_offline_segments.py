"""`RealtimeToOfflineSegmentsTask`: copies the rows of a time window from the REALTIME half of a table to its OFFLINE
half.

The window becomes visible in the OFFLINE table together with a note about it, in one step of that table's lineage; the
watermark of the task follows. If an attempt dies between the two, the next one sees from the note that only the watermark
is missing; of two concurrent attempts, one is refused. So no row is copied twice.
"""

from dataclasses import replace

from gamay.base.errors import ConflictError
from gamay.cluster.tasks.memory import TaskMemory, read_memory, write_memory
from gamay.minion.context import TaskContext
from gamay.minion.rebuild import OtherCopyError
from gamay.minion.replacing import build_pieces, inputs_of, piece_for, replace_segments, settle_earlier, stamp
from gamay.model.merge_task_settings import RealtimeToOfflineSettings
from gamay.model.table.table_name import TableType, raw_table_name, typed_table_name
from gamay.model.task_settings import REALTIME_TO_OFFLINE


def run(task: TaskContext) -> str:
    """Execute the subtask; a window that was already copied, or whose segments have changed, is only reported."""
    config, store = task.config, task.access.registry.store
    window = int(config["windowStartMs"]), int(config["windowEndMs"])
    offline = typed_table_name(raw_table_name(task.table), TableType.OFFLINE)
    memory = read_memory(store, task.table, REALTIME_TO_OFFLINE)
    if memory.whole is None or memory.whole > window[0]:
        return f"the watermark is {memory.whole}, behind the window's start {window[0]}: the window was already copied"
    settle_earlier(task, offline, _stem(task), window)
    if _is_shown(task, offline, window):
        _advance(task, memory, window[1])
        return f"{offline} already has the window: the watermark is {window[1]} now"
    told = _move(task, offline, window)
    if told is None:
        return "a segment of the window has changed: nothing is done"
    _advance(task, memory, window[1])
    return f"{told}: the watermark is {window[1]} now"


def _move(task: TaskContext, offline: str, window: tuple[int, int]) -> str | None:
    """Build the segments of a window and make them visible; return a sentence about it, or None if an input has
    changed."""
    settings = RealtimeToOfflineSettings.of(task.config)
    records = inputs_of(task)
    if isinstance(records, str):
        return None
    whole = piece_for(task, offline, _stem(task))
    try:
        packed = build_pieces(task, whole, records, settings.form, window)
    except OtherCopyError:
        return None
    if packed:
        times = {"windowStartMs": str(window[0]), "windowEndMs": str(window[1])}
        custom = stamp(task, records, settings.form.round_ms, **times)
        try:
            replace_segments(task, offline, (), packed, custom, (REALTIME_TO_OFFLINE, window[1]))
        except ConflictError:
            if not _is_shown(task, offline, window):
                raise
            return f"another attempt showed the window in {offline}"
    return f"{sum(one.rows for one in packed)} rows of {len(records)} segments are in {len(packed)} of {offline}"


def _stem(task: TaskContext) -> str:
    return RealtimeToOfflineSettings.of(task.config).prefix or raw_table_name(task.table)


def _is_shown(task: TaskContext, offline: str, window: tuple[int, int]) -> bool:
    shown = task.access.registry.get_lineage(offline).writers.get(REALTIME_TO_OFFLINE)
    return shown is not None and shown.number >= window[1]


def _advance(task: TaskContext, memory: TaskMemory, watermark_ms: int) -> None:
    """Replace the watermark that was read at the start. Raises ConflictError if it was reset meanwhile."""
    try:
        write_memory(task.access.registry.store, REALTIME_TO_OFFLINE, replace(memory, whole=watermark_ms))
    except ConflictError:
        now = read_memory(task.access.registry.store, task.table, REALTIME_TO_OFFLINE)
        if now.whole is None or now.whole < watermark_ms:
            raise

"""The recent history of task generation by type and table, in the metadata store, so that any controller can show it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore, update
from gamay.cluster.store.znrecord import CorruptRecordError, ZNRecord, encode, read_record

_log = logging.getLogger(__name__)

_KEPT = 5
_REASON_MAX = 2000


@dataclass(frozen=True, slots=True)
class GeneratorHistory:
    """The last runs. succeeded: milliseconds, oldest first; failed: (milliseconds, reason); fired_ms: last run by
    schedule."""

    succeeded: tuple[int, ...] = ()
    failed: tuple[tuple[int, str], ...] = ()
    fired_ms: int = -1


def read_history(store: MetadataStore, table: str, task_type: str) -> GeneratorHistory:
    """Return the history; empty if there is none or it cannot be read."""
    node = store.get(_path(table, task_type))
    return GeneratorHistory() if node is None else _decode(table, task_type, node.value)


def note_run(store: MetadataStore, table: str, task_type: str, now_ms: int, reason: str | None) -> None:
    """Record a successful run, or the reason for its failure."""

    def change(known: GeneratorHistory) -> GeneratorHistory:
        if reason is None:
            return GeneratorHistory((*known.succeeded, now_ms)[-_KEPT:], known.failed, known.fired_ms)
        failed = (*known.failed, (now_ms, reason[:_REASON_MAX]))[-_KEPT:]
        return GeneratorHistory(known.succeeded, failed, known.fired_ms)

    _change(store, table, task_type, change)


def note_fired(store: MetadataStore, table: str, task_type: str, now_ms: int) -> None:
    """Record a run by schedule."""
    _change(store, table, task_type, lambda known: GeneratorHistory(known.succeeded, known.failed, now_ms))


def forget(store: MetadataStore, table: str) -> None:
    """Delete the history of a table."""
    store.delete(f"{paths.TASK_HISTORY}/{table}", recursive=True)


def _change(
    store: MetadataStore, table: str, task_type: str, change: Callable[[GeneratorHistory], GeneratorHistory]
) -> None:
    def apply(value: bytes | None) -> bytes:
        after = change(GeneratorHistory() if value is None else _decode(table, task_type, value))
        simple = {
            "succeeded": orjson.dumps(after.succeeded).decode(),
            "failed": orjson.dumps(after.failed).decode(),
            "firedMs": str(after.fired_ms),
        }
        return encode(ZNRecord(_id(table, task_type), simple))

    update(store, _path(table, task_type), apply)


def _decode(table: str, task_type: str, value: bytes) -> GeneratorHistory:
    try:
        return read_record(_path(table, task_type), value, _history_of, _id(table, task_type))
    except CorruptRecordError as error:  # no task depends on it: the next run replaces it
        _log.warning("%s", error)
        return GeneratorHistory()


def _history_of(record: ZNRecord) -> GeneratorHistory:
    succeeded, failed = (orjson.loads(record.simple[key]) for key in ("succeeded", "failed"))
    failures = tuple((int(ms), str(why)) for ms, why in failed)
    return GeneratorHistory(tuple(map(int, succeeded)), failures, int(record.simple["firedMs"]))


def _id(table: str, task_type: str) -> str:
    return f"{table}__{task_type}"


def _path(table: str, task_type: str) -> str:
    return f"{paths.TASK_HISTORY}/{table}/{task_type}"

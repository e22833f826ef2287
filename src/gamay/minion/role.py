"""The construction of a minion's worker. Executors are imported with the first subtask."""

import os
import ssl
from collections.abc import Sequence
from pathlib import Path

from gamay.base.clock import Clock
from gamay.base.ids import Ids
from gamay.cluster.records.registry import Registry
from gamay.cluster.tasks.queue import Leased, TaskQueues
from gamay.minion.executors import load_executor, task_types
from gamay.minion.on_spark import SparkBuilder
from gamay.minion.progress import AttemptProgress
from gamay.minion.purgers import NO_FACTORIES, PurgeFactories
from gamay.minion.worker import TaskWorker
from gamay.storage.settings import StorageSettings

_SPARK_WORKS = 64  # per subtask at a time; Spark queues them for its cores


def task_worker(
    instance_id: str,
    registry: Registry,
    folder: Path,
    clock: Clock,
    ids: Ids,
    auth_token: str = "",
    tls: ssl.SSLContext | None = None,
    spark: SparkBuilder | None = None,
    storage: StorageSettings | None = None,
    factories: PurgeFactories = NO_FACTORIES,
    *,
    builds: int = 0,
    tells_lineage: bool = False,
) -> TaskWorker:
    """Return the worker of a minion.

    folder: scratch space. auth_token, tls: see `MinionAccess`. spark: builds segments; None: they are built in this
    process. storage: the settings of file systems. factories: of record purgers and modifiers. builds: how many
    segments of one subtask are built in parallel in this process; 0: one per core.
    tells_lineage: whether OpenLineage events of subtasks are sent.
    """
    queues = TaskQueues(registry.store, clock)

    def run(leased: Leased, progress: AttemptProgress, scratch: Path) -> str:
        from gamay.minion.context import MinionAccess, TaskContext
        from gamay.minion.pieces import Packed, Piece, build_piece
        from gamay.minion.side_by_side import side_by_side
        from gamay.minion.work import Rebuilt, Work

        def build_here(work: Work, folder: Path, progress: AttemptProgress) -> Rebuilt:
            return work.build(folder, progress.step, tls)

        def build_pieces_here(pieces: Sequence[Piece], folder: Path, progress: AttemptProgress) -> list[Packed]:
            built = side_by_side(lambda piece: build_piece(piece, folder, progress.step, tls), pieces, at_once)
            return [packed for packs in built for packed in packs]

        access = MinionAccess(registry, auth_token, tls, storage)
        builder = build_here if spark is None else spark.rebuild
        at_once = (builds or os.cpu_count() or 1) if spark is None else _SPARK_WORKS
        pieces = build_pieces_here if spark is None else spark.build_pieces
        task = TaskContext(
            leased, progress, scratch, access, queues, clock, builder, pieces, spark is not None, at_once, factories
        )
        executor = load_executor(leased.job.task_type)
        if not tells_lineage:
            return executor(task)
        from gamay.minion.lineage import with_events

        return with_events(leased, access, lambda: executor(task))

    return TaskWorker(
        instance_id, registry.store, lambda: registry.get_instance(instance_id), run, task_types(), folder, clock, ids
    )

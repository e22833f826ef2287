"""A minion as its own process."""

import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.ids import RANDOM_IDS, Ids
from gamay.minion.app import minion_app
from gamay.minion.metrics import minion_history
from gamay.minion.on_spark import SparkBuilder
from gamay.minion.role import task_worker
from gamay.roles.process import RoleProcess
from gamay.roles.settings import RoleSettings
from gamay.web.process_routes import process_routes

_log = logging.getLogger(__name__)
_WORK = ".work"


class MinionProcess(RoleProcess):
    """The process of a minion, which executes tasks."""

    def __init__(self, settings: RoleSettings, clock: Clock = SYSTEM_CLOCK, ids: Ids = RANDOM_IDS) -> None:
        super().__init__(settings, clock, ids)
        self._spark = None
        if settings.spark is not None:
            self._spark = SparkBuilder(settings.spark, self.id, settings.storage, settings.tls, dead=self._dead_minions)
            self._spark.check()
        settings.purge.check()

    def _build(self) -> tuple[Any, ...]:
        folder = self.settings.data_dir
        self._own_folder = Path(tempfile.mkdtemp(prefix="gamay-minion-")) if folder is None else None
        scratch = (self._own_folder or folder or Path()).expanduser().absolute() / _WORK / self.id
        token = self.settings.auth_token
        self._worker = task_worker(
            self.id, self.registry, scratch, self.clock, self.ids, token, self._tls_client, self._spark,
            self.settings.storage, self.settings.purge, builds=self.settings.builds,
            tells_lineage=self.settings.tells_lineage,
        )  # fmt: skip
        self._history = minion_history(self._worker, self.clock)
        more = process_routes(self.registry, self.id, self.clock, self._history)
        return (minion_app(self._worker, lambda: self.ready, self._access(), more),)

    def _begin(self) -> None:
        self._worker.start()

    def _dead_minions(self) -> list[str]:
        return sorted({*self.registry.instance_ids()} - {self.id, *self.registry.live_instance_ids()})

    def _is_of_use(self) -> bool:
        return self.store.connected

    def _leave(self, deadline_s: float) -> None:
        """Drain: no more tasks are taken, and running ones may finish until the deadline."""
        self._worker.drain()
        if not self._worker.wait_idle(max(deadline_s - self.clock.monotonic_s(), 0)):
            _log.warning("%s returns its unfinished tasks", self.id)

    def _end(self) -> None:
        self._worker.stop()
        if self._spark is not None:
            self._spark.close()
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)

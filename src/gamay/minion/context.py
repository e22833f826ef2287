"""The context of an executor: its subtask's config, the cluster's records, the controller, and a folder."""

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gamay.base.clock import Clock
from gamay.base.errors import NotFoundError
from gamay.client.controller import ControllerClient, custom_map_headers
from gamay.client.http import HttpService
from gamay.cluster.records.controllers import controller_url
from gamay.cluster.records.records import SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.cluster.tasks.queue import Leased, TaskQueues
from gamay.minion.pieces import Packed, PieceBuilder
from gamay.minion.progress import AttemptProgress, TaskCancelledError
from gamay.minion.purgers import NO_FACTORIES, PurgeFactories
from gamay.minion.rebuild import CONTROLLER_TIMEOUT_S, Input, Rebuild
from gamay.minion.work import Builder, Rebuilt
from gamay.model.table.table_name import raw_table_name, table_type_of
from gamay.storage.settings import StorageSettings


class MinionAccess:
    """A minion's access to controllers and servers.

    auth_token: the `Authorization` header that they demand. tls: the context that verifies their certificates. storage:
    the settings of file systems.
    """

    def __init__(
        self,
        registry: Registry,
        auth_token: str = "",
        tls: ssl.SSLContext | None = None,
        storage: StorageSettings | None = None,
    ) -> None:
        self.registry = registry
        self.storage = storage or StorageSettings()
        self._tls = tls
        self.auth_token = auth_token

    def controller_url(self) -> str:
        """Return the URL of the lead controller, or else of any live one. Raises NotFoundError."""
        return controller_url(self.registry)

    def controller(self) -> ControllerClient:
        """Return a client of the controller at `controller_url`."""
        url, token = self.controller_url(), self.auth_token or None
        return ControllerClient(url, auth_token=token, timeout_s=CONTROLLER_TIMEOUT_S, verify=self._tls or True)

    def server(self, name: str) -> HttpService:
        """Return a client of a server's HTTP interface. Raises NotFoundError."""
        found = self.registry.get_instance(name)
        if found is None:
            raise NotFoundError(f"server '{name}' is not known")
        return HttpService(
            found.url, auth_token=self.auth_token or None, timeout_s=CONTROLLER_TIMEOUT_S, verify=self._tls or True
        )


@dataclass(frozen=True)
class TaskContext:
    """One attempt at a subtask.

    folder: its own, removed afterwards. builder, pieces: build segments, locally or remotely. is_distributed: whether
    pieces are built in parallel on other machines. works_at_once: how many works of a subtask to build in parallel.
    factories: of record purgers and modifiers.
    """

    leased: Leased
    progress: AttemptProgress
    folder: Path
    access: MinionAccess
    queues: TaskQueues
    clock: Clock
    builder: Builder
    pieces: PieceBuilder
    is_distributed: bool = False
    works_at_once: int = 1
    factories: PurgeFactories = NO_FACTORIES

    @property
    def config(self) -> Mapping[str, str]:
        """The config of the subtask."""
        return self.leased.subtask.config

    @property
    def table(self) -> str:
        """The typed name of its table."""
        return self.leased.subtask.table

    def confirm(self) -> None:
        """Raise TaskCancelledError unless the subtask is still leased to this minion; to be called before any visible
        change."""
        self.progress.check()
        if not self.queues.is_held(self.leased):
            raise TaskCancelledError(f"task {self.leased.subtask.name} is no longer this minion's")

    def record(self, segment: str) -> SegmentRecord | None:
        """Return a segment's record."""
        return self.access.registry.get_segment(self.table, segment)

    def documents(self) -> tuple[str, str]:
        """Return the current schema and config of the table, as JSON texts. Raises NotFoundError."""
        registry = self.access.registry
        config, schema = registry.get_table_config(self.table), registry.get_schema(raw_table_name(self.table))
        if config is None or schema is None:
            raise NotFoundError(f"table '{self.table}' no longer exists")
        return orjson.dumps(schema).decode(), orjson.dumps(config).decode()

    def rebuild(self, inputs: Sequence[Input], output: str, created_ms: int | None = None) -> Rebuilt:
        """Build one segment from others with the table's current config and schema; see `Rebuild`.

        Raises NotFoundError if the table does not exist, and as `Builder`.
        """
        schema_json, config_json = self.documents()
        work = Rebuild(
            self.table,
            tuple(inputs),
            output,
            created_ms,
            schema_json,
            config_json,
            self.access.controller_url(),
            self.access.auth_token,
        )
        return self.builder(work, self.folder, self.progress)

    def upload(
        self,
        built: Rebuilt | Packed,
        custom: Mapping[str, str],
        *,
        if_match: int | None = None,
        refresh_only: bool = False,
        table: str | None = None,
    ) -> None:
        """Push a segment's archive. if_match: the CRC that the stored one must have. table: typed, if not the subtask's.

        Raises as a push does.
        """
        archive = Path(built.archive)
        headers: dict[str, Any] = custom_map_headers(custom)
        if if_match is not None:
            headers["If-Match"] = str(if_match)
        if refresh_only:
            headers["REFRESH_ONLY"] = "true"
        self.progress.step(f"uploading {archive.name}, {archive.stat().st_size} bytes")
        self.confirm()
        table = table or self.table
        table_type = table_type_of(table)
        assert table_type is not None
        with self.access.controller() as controller:
            controller.upload_tar(table, archive, headers=headers, table_type=table_type.value)


Executor = Callable[[TaskContext], str]
"""Executes a subtask and returns a sentence about the result."""

"""What an executor has: its subtask's config, the cluster's records, the controller, and a folder."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gamay.base.clock import Clock
from gamay.base.errors import NotFoundError
from gamay.client.controller import ControllerClient
from gamay.client.http import HttpService
from gamay.cluster.election import leader_of
from gamay.cluster.records import Role, SegmentRecord
from gamay.cluster.registry import Registry
from gamay.cluster.tasks.queue import Leased, TaskQueues
from gamay.minion.progress import Progress, TaskCancelledError
from gamay.model.schema import Schema
from gamay.model.stored import stored_schema, stored_table_config
from gamay.model.table_config import TableConfig
from gamay.model.table_name import raw_table_name, table_type_of
from gamay.segment.reader import ImmutableSegment, open_segment
from gamay.storage.archive import pack, unpack

_TIMEOUT_S = 60.0
_CUSTOM_MAP = "Pinot-SegmentZKMetadataCustomMapModifier"


class MinionAccess:
    """The way of a minion to controllers and servers.

    auth_token: the `Authorization` header that they want to see. tls: what their certificates are checked against.
    """

    def __init__(self, registry: Registry, auth_token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.registry = registry
        self._tls = tls
        self._auth_token = auth_token

    def controller(self) -> ControllerClient:
        """Return a client of the controller that leads, else of any that is alive. Raises NotFoundError."""
        leader = leader_of(self.registry.store)
        found = None if leader is None else self.registry.get_instance(leader)
        if found is None:
            live = set(self.registry.live_instance_ids())
            there = [i for i in self.registry.instances() if i.role is Role.CONTROLLER and i.id in live]
            if not there:
                raise NotFoundError("no controller is alive")
            found = there[0]
        return ControllerClient(
            found.url, auth_token=self._auth_token or None, timeout_s=_TIMEOUT_S, verify=self._tls or True
        )

    def server(self, name: str) -> HttpService:
        """Return a client of a server's HTTP interface. Raises NotFoundError."""
        found = self.registry.get_instance(name)
        if found is None:
            raise NotFoundError(f"server '{name}' is not known")
        return HttpService(found.url, auth_token=self._auth_token or None, timeout_s=_TIMEOUT_S, verify=self._tls or True)


@dataclass(frozen=True)
class TaskContext:
    """One attempt at a subtask. folder: its own, gone afterwards."""

    leased: Leased
    progress: Progress
    folder: Path
    access: MinionAccess
    queues: TaskQueues
    clock: Clock

    @property
    def config(self) -> Mapping[str, str]:
        """What this subtask is told."""
        return self.leased.subtask.config

    @property
    def table(self) -> str:
        """The typed name of its table."""
        return self.leased.subtask.table

    def confirm(self) -> None:
        """Raise TaskCancelledError unless the subtask is still this minion's; before anything that others see."""
        self.progress.check()
        if not self.queues.is_held(self.leased):
            raise TaskCancelledError(f"task {self.leased.subtask.name} is no longer this minion's")

    def table_config(self) -> tuple[TableConfig, Schema]:
        """Return the table's config and schema as they are now. Raises NotFoundError."""
        registry = self.access.registry
        config, schema = registry.get_table_config(self.table), registry.get_schema(raw_table_name(self.table))
        if config is None or schema is None:
            raise NotFoundError(f"table '{self.table}' does not exist any more")
        return stored_table_config(config), stored_schema(schema)

    def record(self, segment: str) -> SegmentRecord | None:
        """Return a segment's record."""
        return self.access.registry.get_segment(self.table, segment)

    def fetch(self, segment: str) -> ImmutableSegment:
        """Download a segment, compare its checksums, and open it."""
        self.progress.step(f"downloading segment {segment}")
        archive = self.folder / f"{segment}.tar.gz"
        with self.access.controller() as controller:
            controller.download_segment(self.table, segment, archive)
        folder = unpack(archive, self.folder / "in" / segment)
        archive.unlink()
        return open_segment(folder)

    def upload(
        self, folder: Path, custom: Mapping[str, str], *, if_match: int | None = None, refresh_only: bool = False
    ) -> None:
        """Pack a segment's folder and push it. if_match: the CRC that the stored one must have. Raises as a push does."""
        self.progress.step(f"packing segment {folder.name}")
        archive = pack(folder, self.folder / f"{folder.name}.tar.zst")
        headers: dict[str, Any] = {_CUSTOM_MAP: _custom_map(custom)}
        if if_match is not None:
            headers["If-Match"] = str(if_match)
        if refresh_only:
            headers["REFRESH_ONLY"] = "true"
        self.progress.step(f"uploading segment {folder.name}, {archive.stat().st_size} bytes")
        self.confirm()
        table_type = table_type_of(self.table)
        assert table_type is not None
        with self.access.controller() as controller:
            controller.upload_tar(self.table, archive, headers=headers, table_type=table_type.value)


Executor = Callable[[TaskContext], str]
"""Does a subtask and says in words what came of it."""


def _custom_map(entries: Mapping[str, str]) -> str:
    import orjson

    return orjson.dumps({"mapModifyMode": "UPDATE", "map": dict(entries)}).decode()

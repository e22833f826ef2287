"""All roles in one process, without HTTP: the core of `gamay.connect` and of an embedded cluster."""

import logging
import ssl
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import GamayError, NotFoundError
from gamay.base.ids import RANDOM_IDS, Ids
from gamay.broker.answer.query_log import SLOW_QUERY_MS
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.routes.routing import RoutingTables
from gamay.cluster.records.llc_name import Place
from gamay.cluster.records.records import ONLINE, Instance, Role
from gamay.cluster.records.registry import Registry, announce
from gamay.cluster.store import paths
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.embedded.local_completion import LocalCompletion
from gamay.ingest.stream.spi import StreamContext
from gamay.minion.purgers import NO_FACTORIES, PurgeFactories
from gamay.model.table.sections import DEFAULT_TENANT
from gamay.model.task_settings import DEFAULT_TAG
from gamay.query.limits.budget import ProcessBudget
from gamay.roles.controller_role import ControllerRole
from gamay.roles.layout import Layout
from gamay.roles.lock import FolderLock
from gamay.roles.pandas_import import keep_arrow_from_importing_pandas
from gamay.roles.server_role import ServerRole, consuming_resources
from gamay.server.http.describe import describe_segments
from gamay.server.http.key_counts import upsert_keys
from gamay.server.http.valid_docs import valid_doc_counts
from gamay.server.instance.instance import ServerInstance
from gamay.server.loading.sources import SegmentSources
from gamay.storage.fetchers import Fetchers
from gamay.storage.local_store import LocalStore
from gamay.storage.settings import StorageSettings

if TYPE_CHECKING:
    from gamay.minion.worker import TaskWorker
    from gamay.server.consuming.manager import ConsumerManager

HOST = "localhost"
_log = logging.getLogger(__name__)

_LOOK_S = 1.0


class LocalCluster:
    """An open data folder: controller, server and broker connected by method calls.

    controller_port, broker_port, server_port: ports of the HTTP interfaces, None without one. minion_port: likewise, but
    without it there is no minion; minion_token: the `Authorization` header between the minion and the other roles.
    tls: verifies the certificates of these ports; None if they are not encrypted.
    verify_on_use: verify the checksums of a column when it is first read, not those of all columns at the start.
    Raises InUseError when another process has the folder open.
    """

    def __init__(
        self,
        data_dir: str | Path,
        *,
        controller_port: int | None = None,
        broker_port: int | None = None,
        server_port: int | None = None,
        grpc_port: int = -1,
        minion_port: int | None = None,
        minion_token: str = "",
        tls: ssl.SSLContext | None = None,
        storage: StorageSettings | None = None,
        server_storage: StorageSettings | None = None,
        purge: PurgeFactories = NO_FACTORIES,
        threads: int | None = None,
        verify_on_use: bool = False,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = RANDOM_IDS,
    ) -> None:
        keep_arrow_from_importing_pandas()
        self.layout = Layout(Path(data_dir).expanduser().absolute())
        self.clock = clock
        self._lock = FolderLock(self.layout.root)
        self._tls, at = tls, f"{'http' if tls is None else 'https'}://{HOST}"
        if broker_port is not None:
            self._lock.describe({"broker": f"{at}:{broker_port}", "controller": f"{at}:{controller_port}"})
        self._closed = False
        self._ready = False
        try:
            self._store = EmbeddedStore.open(self.layout.metadata, clock)
        except BaseException:
            self._lock.release()
            raise
        self._server_session = self._store.new_session()
        self.registry = Registry(self._store)
        server = self._register_server(server_port, grpc_port)
        self._register(Role.CONTROLLER, controller_port, ())
        broker_id = self._register(Role.BROKER, broker_port, (f"{DEFAULT_TENANT}_BROKER",))
        self.controller = ControllerRole(
            self.registry,
            self.registry,
            LocalStore(self.layout.deep_store),
            self.layout.work,
            _LocalServers(self),
            Instance.make_id(Role.CONTROLLER, HOST, controller_port or 0),
            f"{at}:{controller_port or 0}",
            clock,
            ids,
            StreamContext(self.layout.streams, clock=clock),
            minion_token,
            fetchers=Fetchers(storage, tls),
            tls=tls,
        )
        self.context, self.schemas, self.tables = self.controller.context, self.controller.schemas, self.controller.tables
        self.segments, self.replacements = self.controller.segments, self.controller.replacements
        self.minion = None if minion_port is None else self._minion(minion_port, ids, minion_token, storage, purge)
        role = self._server_role(server, ids, threads, verify_on_use, Fetchers(server_storage, tls))
        self.server, self.executor = role.instance, role.executor
        # without ports only this process can query: there is no broker instance that tables could be assigned to
        self.routing = RoutingTables(self.registry, broker_id=None if broker_port is None else broker_id)
        self.runner = QueryRunner(
            broker_id,
            self.routing,
            {server: self.executor},
            clock,
            request_base=clock.now_ms() % 1_000_000,
            memory=ProcessBudget.of_machine(self.layout.spill),
            slow_ms=None if broker_port is None else SLOW_QUERY_MS,
        )

    @property
    def ready(self) -> bool:
        """Whether all segments present at the start are loaded and routed."""
        return self._ready and self.server.ready

    def prepare(self) -> None:
        """Complete or roll back operations that a crash interrupted; must precede any request."""
        self.controller.prepare(alone=True)

    def start(self) -> None:
        """Load the segments, and follow changes; to be called after `prepare`."""
        self.server.start()
        self.controller.lead()
        self.routing.start()
        self._ready = True

    def stop(self) -> None:
        """End all threads and release the folder. No data is lost without it."""
        if self._closed:
            return
        self._closed = True
        self._ready = False
        self.runner.close()
        self.routing.stop()
        self.controller.stop()
        self.controller.resign()
        self.server.stop()
        self._server_session.close()
        self._store.close()
        self.executor.close()
        self._lock.release()

    def is_at(self, folder: Path) -> bool:
        """Whether the data folder is the one at a path."""
        return self._lock.is_of(folder)

    def forget(self) -> None:
        """After a fork: detach from the folder, which the parent process keeps."""
        self._closed = True
        self._lock.release()

    @contextmanager
    def in_one_step(self) -> Iterator[None]:
        """Apply the changes of records that this thread makes within the block in one transaction."""
        with self._store.transaction():
            yield

    def wait_until_visible(self, table: str, segments: Sequence[str], timeout_s: float = 600) -> None:
        """Wait until queries see the named segments. Raises GamayError if one cannot be loaded, or after the timeout."""
        wanted = set(segments)

        def settled() -> bool:
            if any(name in wanted for name in self.server.failures(table)):
                return True
            return any(route.table == table and wanted <= set(route.segments) for route in self.routing.find(table))

        done = self.routing.wait_until(settled, timeout_s)
        for name, failure in self.server.failures(table).items():
            if name in wanted:
                raise GamayError(f"segment '{name}' of table '{table}' cannot be loaded: {failure.reason}")
        if not done:
            raise GamayError(f"the segments of table '{table}' are stored, but not loaded after {timeout_s:g} s")

    def wait_until_loaded(self, table: str, segments: Sequence[str], timeout_s: float) -> None:
        """Wait until the server has loaded segments that queries need not see yet. Raises GamayError."""
        wanted, changed = set(segments), threading.Event()
        cancel = self._store.watch(paths.external_view(table), lambda _: changed.set())
        give_up = self.clock.monotonic_s() + timeout_s
        try:
            while True:
                changed.clear()
                view = self.registry.get_external_view(table)
                for name, failure in self.server.failures(table).items():
                    if name in wanted:
                        raise GamayError(f"segment '{name}' of table '{table}' cannot be loaded: {failure.reason}")
                if view is not None and all(ONLINE in view.states.get(name, {}).values() for name in wanted):
                    return
                if self.clock.monotonic_s() >= give_up:
                    raise GamayError(f"the segments of table '{table}' are stored, but not loaded after {timeout_s:g} s")
                changed.wait(_LOOK_S)
        finally:
            cancel()

    def wait_until_gone(self, table: str, timeout_s: float = 60) -> None:
        """Wait until queries no longer see a typed table and the server has released it."""
        self.routing.wait_until(lambda: not any(r.table == table for r in self.routing.find(table)), timeout_s)

    def wait_until_routed(self, table: str, timeout_s: float = 60) -> None:
        """Wait until queries know a typed table."""
        self.routing.wait_until(lambda: any(r.table == table for r in self.routing.find(table)), timeout_s)

    def _server_role(
        self, server: str, ids: Ids, threads: int | None, verify_on_use: bool, fetchers: Fetchers
    ) -> ServerRole:
        streams = StreamContext(self.layout.streams, server, self.clock)
        completion = LocalCompletion(self.controller)
        return ServerRole(
            server,
            Registry(self._server_session),
            self.layout.server,
            SegmentSources(self.context.deep_store, fetchers),
            self.clock,
            ids,
            threads=threads,
            verify_on_use=verify_on_use,
            consuming=partial(consuming_resources, server, self.layout, streams, completion, self.clock, ids),
        )

    def _minion(
        self, port: int, ids: Ids, token: str, storage: StorageSettings | None, purge: PurgeFactories
    ) -> "TaskWorker":
        from gamay.minion.role import task_worker  # `gamay.connect` has no minion

        name = self._register(Role.MINION, port, (DEFAULT_TAG,))
        return task_worker(
            name, self.registry, self.layout.minion, self.clock, ids, token, self._tls, storage=storage, factories=purge
        )

    def _register_server(self, port: int | None, grpc_port: int) -> str:
        """Return the id of this folder's server, which ideal states refer to, so it does not change with the port."""
        known = self._instances_here(Role.SERVER)
        https = self._tls is not None
        if known:
            instance = known[0]
            now = replace(_moved(instance, port or instance.port), https=https, grpc_port=grpc_port)
            if port is not None and now != instance:
                self.registry.put_instance(now)
            return instance.id
        tags = (f"{DEFAULT_TENANT}_OFFLINE", f"{DEFAULT_TENANT}_REALTIME")
        chosen = port or 8098
        name = Instance.make_id(Role.SERVER, HOST, chosen)
        for damaged, reason in self.registry.readable_instances()[1].items():
            if damaged.startswith(f"{Role.SERVER.value}_{HOST}_"):  # keeps its id for ideal states
                _log.error("%s is registered again, with the tags of the default tenant: %s", damaged, reason)
                name = damaged
                self.registry.delete_instance(damaged)
        made = Instance(name, HOST, chosen, tags, admin_port=chosen, https=https, grpc_port=grpc_port)
        self.registry.create_instance(made)
        return name

    def _instances_here(self, role: Role) -> list[Instance]:
        """Return the instances of a role that processes of this folder registered, without those that users added."""
        start = Instance.make_id(role, HOST, 0)[:-1]
        return [
            found
            for found in self.registry.instances()
            if found.id.startswith(start) or (found.role is role and found.host == HOST)
        ]

    def _register(self, role: Role, port: int | None, tags: tuple[str, ...]) -> str:
        """Register the instance of a role, if it has a port, replacing those registered for earlier ports; return its id."""
        name = Instance.make_id(role, HOST, port or 0)
        if port is None:
            return name
        for other in self._instances_here(role):
            if other.id != name:
                self.registry.delete_instance(other.id)
        if name in self.registry.readable_instances()[1]:
            self.registry.delete_instance(name)
        known, https = self.registry.get_instance(name), self._tls is not None
        if known is None:
            self.registry.create_instance(Instance(name, HOST, port, tags, https=https))
        elif known.https != https:
            self.registry.put_instance(replace(known, https=https))
        announce(self._store, name)
        return name


class _LocalServers:
    """The controller's access to the one server, by method calls."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def _check(self, instance: str) -> ServerInstance:
        if instance != self._cluster.server.id:
            raise NotFoundError(f"server '{instance}' does not answer")
        return self._cluster.server

    def segment_sizes(self, instance: str, table: str) -> Mapping[str, int]:
        data = self._check(instance).table(table)
        return {} if data is None else {name: loaded.size_bytes for name, loaded in data.snapshot().items()}

    def segment_details(self, instance: str, table: str, segment: str, columns: Sequence[str]) -> dict[str, Any]:
        found = describe_segments(self._check(instance), table, [segment], columns)
        if segment not in found:
            raise NotFoundError(f"server '{instance}' has not loaded segment '{segment}' of table '{table}'")
        return found[segment]

    def reload_progress(
        self, instance: str, table: str, segments: Sequence[str], since_ms: int
    ) -> tuple[int, Mapping[str, str]]:
        return self._check(instance).reload_progress(table, segments, since_ms)

    def stale_segments(self, instance: str, table: str) -> Sequence[str]:
        return self._check(instance).stale_segments(table)

    def segment_errors(self, instance: str, table: str) -> Mapping[str, str]:
        return {name: failure.reason for name, failure in self._check(instance).failures(table).items()}

    def consuming_segments(self, instance: str, table: str) -> Sequence[Mapping[str, Any]]:
        return self._consumers(instance).consuming_info(table)

    def consumption(self, instance: str, table: str) -> Mapping[str, Any]:
        return self._consumers(instance).status(table)

    def dead_letters(self, instance: str, table: str, limit: int) -> Sequence[Mapping[str, Any]]:
        return self._consumers(instance).dead_letters(table).entries(limit)

    def replayable(self, instance: str, table: str, limit: int) -> tuple[Sequence[Place], bool]:
        return self._consumers(instance).dead_letters(table).replayable(limit)

    def find_dead_letters(
        self, instance: str, table: str, places: Collection[Place]
    ) -> tuple[Sequence[Mapping[str, Any]], Mapping[Place, str]]:
        return self._consumers(instance).dead_letters(table).find(places)

    def note_replayed(self, instance: str, table: str, replayed: Mapping[Place, str]) -> None:
        try:
            self._consumers(instance).dead_letters(table).note_replayed(replayed)
        except OSError as error:
            raise NotFoundError(f"server '{instance}' cannot record the replay: {error}") from error

    def _consumers(self, instance: str) -> "ConsumerManager":
        consumers = self._check(instance).consumers
        if consumers is None:
            raise NotFoundError(f"server '{instance}' does not consume streams")
        return consumers

    def valid_doc_counts(self, instance: str, table: str, segments: Sequence[str], kind: str) -> Sequence[Mapping[str, Any]]:
        return valid_doc_counts(self._check(instance), table, segments, kind)

    def upsert_keys(self, instance: str, table: str) -> Mapping[str, int]:
        return upsert_keys(self._check(instance), table)

    def disk_usage(self, instance: str) -> tuple[int, int]:
        _, total, used = self._check(instance).disk_usage()
        return total, used

    def fetch_segment(self, instance: str, table: str, segment: str, target: Path) -> None:
        data = self._check(instance).table(table)
        if data is None:
            raise NotFoundError(f"server '{instance}' has nothing of table '{table}'")
        data.pack(segment, target)


def _moved(instance: Instance, port: int) -> Instance:
    return replace(instance, port=port, admin_port=port)

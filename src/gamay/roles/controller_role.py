"""A controller: the managers behind its REST interface, and its work as the lead controller."""

import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gamay.base.clock import Clock
from gamay.base.history import MetricsHistory
from gamay.base.ids import Ids
from gamay.cluster.records.broker_resource import BrokerResource
from gamay.cluster.records.registry import Registry
from gamay.controller.completion.consumption import ForcedCommits
from gamay.controller.completion.manager import RealtimeManager
from gamay.controller.context import ControllerContext, Servers
from gamay.controller.health.periodic import PeriodicTask, PeriodicTasks
from gamay.controller.health.repair import empty_work_dir, repair
from gamay.controller.health.view_builder import ViewBuilder
from gamay.controller.instances.instances import InstanceManager
from gamay.controller.instances.stale_instances import StaleInstances
from gamay.controller.metrics.gauges import controller_history
from gamay.controller.metrics.status_gauges import StatusGauges
from gamay.controller.placement import PlacementManager
from gamay.controller.rebalance.rebalance import RebalanceManager
from gamay.controller.rebalance.relocation import SegmentRelocator
from gamay.controller.segments.lineage import ReplaceManager
from gamay.controller.segments.retention import RetentionManager
from gamay.controller.segments.segments import SegmentManager
from gamay.controller.segments.uploads import UploadManager
from gamay.controller.tables.schemas import SchemaManager
from gamay.controller.tables.tables import TableManager
from gamay.ingest.stream.spi import StreamContext
from gamay.model.cluster_settings import (
    BROKER_RESOURCE_FREQUENCY,
    REBALANCE_CHECK_FREQUENCY,
    RELOCATION_FREQUENCY,
    RETENTION_FREQUENCY,
    STALE_INSTANCES_FREQUENCY,
    STATUS_FREQUENCY,
    VALIDATION_FREQUENCY,
)
from gamay.storage.deep_store import DeepStore
from gamay.storage.fetchers import Fetchers

if TYPE_CHECKING:
    from gamay.controller.api.services import Services
    from gamay.controller.tasks.lead import TaskLead
    from gamay.controller.tasks.manager import TaskManager
    from gamay.controller.tasks.scheduling import TaskScheduler

Sleep: TypeAlias = Callable[[float], object]


class ControllerRole:
    """The parts of a controller, wired together.

    registry: for requests of users, with which every controller changes records by compare-and-set. lead_registry:
    for the work of the lead controller; with several controllers, its store refuses writes after the lead is lost.
    instance_id, url: of this controller. streams: the context of stream plug-ins. minion_token: the `Authorization`
    header that minions demand. fetchers: download files that pushes refer to by URI. tls: the context that verifies
    the certificates of other roles.
    """

    def __init__(
        self,
        registry: Registry,
        lead_registry: Registry,
        deep_store: DeepStore,
        work_dir: Path,
        servers: Servers,
        instance_id: str,
        url: str,
        clock: Clock,
        ids: Ids,
        streams: StreamContext | None = None,
        minion_token: str = "",
        fetchers: Fetchers | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.context = ControllerContext(
            registry, deep_store, work_dir, clock, ids, servers, instance_id, url, streams or StreamContext(clock=clock),
            fetchers or Fetchers(), tls, auth_token=minion_token,
        )  # fmt: skip
        self.schemas = SchemaManager(registry)
        self.tables = TableManager(self.context, self.schemas)
        self.segments = SegmentManager(self.context, self.tables)
        self.replacements = ReplaceManager(self.context, self.segments)
        self.placement = PlacementManager(self.context, self.tables)
        self.uploads = UploadManager(self.context, self.segments)
        self._stopping = threading.Event()
        self.realtime = RealtimeManager(self.context, self.uploads, lead_registry, self._stopping.wait)
        self.rebalances = RebalanceManager(self.context, self.placement, ForcedCommits(self.realtime.consumption))
        # the same, for the work of the lead controller
        self._lead_context = replace(self.context, registry=lead_registry)
        self._lead_tables = TableManager(self._lead_context, SchemaManager(lead_registry, self.schemas.lock))
        self._lead_segments = SegmentManager(self._lead_context, self._lead_tables)
        self._views = ViewBuilder(lead_registry)

    @cached_property
    def history(self) -> MetricsHistory:
        """The metrics history of this controller; it must be sampled periodically."""
        return controller_history(self.context.registry, self.context.clock)

    @cached_property
    def tasks(self) -> "TaskManager":
        """The maintenance tasks, for REST; imported here because `gamay.connect` has none."""
        from gamay.controller.tasks.manager import TaskManager
        from gamay.controller.tasks.minions import Minions

        scheduler = self._scheduler(self.context, self.tables, self.segments)
        minions = Minions(self.context.registry, self.context.auth_token, self.context.tls)
        return TaskManager(self.context, self.tables, scheduler.queues, scheduler, minions)

    @cached_property
    def task_lead(self) -> "TaskLead":
        """The lead controller's work for tasks."""
        from gamay.controller.tasks.lead import TaskLead

        scheduler = self._scheduler(self._lead_context, self._lead_tables, self._lead_segments)
        registry, clock = self._lead_context.registry, self._lead_context.clock
        return TaskLead(scheduler.queues, registry, self._lead_tables, scheduler, clock)

    def _scheduler(self, context: ControllerContext, tables: TableManager, segments: SegmentManager) -> "TaskScheduler":
        from gamay.cluster.tasks.queue import TaskQueues
        from gamay.controller.tasks.generators import generators
        from gamay.controller.tasks.scheduling import TaskScheduler

        queues = TaskQueues(context.registry.store, context.clock)
        return TaskScheduler(context, tables, segments, queues, generators())

    def prepare(self, *, alone: bool) -> None:
        """Prepare for requests. alone: no other controller runs, so interrupted operations can be rolled back at once."""
        self.context.deep_store.prepare()
        empty_work_dir(self.context)
        if alone:
            repair(self.context, self.tables, self.segments)

    def lead(self) -> None:
        """Start the work of the lead controller."""
        self._views.start()
        self.realtime.lead()

    def resign(self) -> None:
        """Stop the work of the lead controller."""
        self.realtime.resign()
        self._views.stop()

    def repair(self, settled_ms: int) -> None:
        """As the lead controller, complete or roll back operations of controllers that died; see `repair`."""
        repair(self._lead_context, self._lead_tables, self._lead_segments, settled_ms)

    def stop(self) -> None:
        """Stop the background work; after `resign`, or instead of it."""
        self._stopping.set()
        self.realtime.stop()
        self.rebalances.stop()

    def periodic_tasks(self, more: Sequence[PeriodicTask] = ()) -> PeriodicTasks:
        """Return the periodic tasks of the lead controller, with further ones of this process."""
        retention = RetentionManager(self._lead_context, self._lead_tables, self._lead_segments)
        relocator = SegmentRelocator(self.placement, self.rebalances)
        gauges = StatusGauges(self.context, self.tables)
        brokers = BrokerResource(self._lead_context.registry)
        stale = StaleInstances(InstanceManager(self._lead_context, self._lead_tables))
        own = [
            PeriodicTask(
                "RealtimeSegmentValidationManager", VALIDATION_FREQUENCY, self.realtime.validate_all, self.realtime.validate
            ),
            PeriodicTask(
                "BrokerResourceValidationManager",
                BROKER_RESOURCE_FREQUENCY,
                brokers.rebuild,
                lambda table: brokers.rebuild([table]),
            ),
            PeriodicTask("RetentionManager", RETENTION_FREQUENCY, retention.run, retention.apply),
            PeriodicTask("SegmentRelocator", RELOCATION_FREQUENCY, relocator.run, relocator.move),
            PeriodicTask("SegmentStatusChecker", STATUS_FREQUENCY, gauges.run, measure=gauges.measure),
            PeriodicTask("RebalanceChecker", REBALANCE_CHECK_FREQUENCY, self.rebalances.check),
            PeriodicTask("StaleInstancesCleanupTask", STALE_INSTANCES_FREQUENCY, stale.run, measure=stale.measure),
        ]
        return PeriodicTasks([*own, *more], self.context.clock, self.context.registry.cluster_config)

    def services(
        self, periodic: PeriodicTasks, is_ready: Callable[[], bool], sleep: Callable[[float], object]
    ) -> "Services":
        """Return the services of the REST interface; imported here because `gamay.connect` has none."""
        from gamay.controller.api.services import Services
        from gamay.controller.health.damage import RecordRepair
        from gamay.controller.rebalance.tenants import TenantRebalanceManager
        from gamay.controller.segments.reload import ReloadManager
        from gamay.controller.segments.writer import TableWriter
        from gamay.controller.tables.documents import TableDocuments

        return Services(
            context=self.context,
            schemas=self.schemas,
            tables=self.tables,
            documents=TableDocuments(self.context, self.schemas, self.tables),
            segments=self.segments,
            uploads=self.uploads,
            damage=RecordRepair(self.context, self.tables, self.uploads),
            realtime=self.realtime,
            replacements=self.replacements,
            reloads=ReloadManager(self.context),
            writer=TableWriter(self.context, self.tables, self.segments),
            instances=InstanceManager(self.context, self.tables),
            placement=self.placement,
            rebalances=self.rebalances,
            tenant_rebalances=TenantRebalanceManager(self.context, self.tables, self.rebalances),
            tasks=self.tasks,
            history=self.history,
            periodic=periodic,
            is_ready=is_ready,
            sleep=sleep,
        )

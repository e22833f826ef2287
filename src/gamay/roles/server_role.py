"""A server: its loaded segments, and the executor of queries on them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gamay.base.clock import Clock
from gamay.base.ids import Ids
from gamay.base.machine import usable_processors
from gamay.cluster.records.registry import Registry
from gamay.ingest.stream.spi import StreamContext
from gamay.model.cluster_settings import PARALLEL_SEGMENT_BUILDS
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.model.table.table_name import raw_table_name
from gamay.model.table.upsert_defaults import DEFAULTS, ServerDefaults
from gamay.query.layout.rebuild import TableLayout
from gamay.roles.layout import Layout
from gamay.server.answering.executor import QueryExecutor
from gamay.server.instance.instance import ServerInstance
from gamay.server.loading.loader import SegmentLoader
from gamay.server.loading.sources import SegmentSources
from gamay.storage.deep_store import DeepStore

if TYPE_CHECKING:
    from gamay.server.consuming.completion_client import CompletionClient
    from gamay.server.consuming.host import Resources


def consuming_resources(
    server: str,
    layout: Layout,
    streams: StreamContext,
    completion: "CompletionClient",
    clock: Clock,
    ids: Ids,
    deep_store: DeepStore | None = None,
) -> "Resources":
    """Return the resources of a server's consumers; imported here because most uses of `gamay.connect` have none.

    completion: the client of the controllers.
    """
    from gamay.server.consuming.builds import BuildPermits
    from gamay.server.consuming.host import Resources

    permits = BuildPermits()
    return Resources(server, layout.consuming, layout.realtime, streams, completion, permits, clock, ids, deep_store)


class ServerRole:
    """The parts of a server, wired together.

    folder: for its copies of segments. sources: of these copies. threads: per query; None for one per processor.
    consuming: creates the resources of consumers; None if this server does not consume streams.
    """

    def __init__(
        self,
        instance_id: str,
        registry: Registry,
        folder: Path,
        sources: SegmentSources,
        clock: Clock,
        ids: Ids,
        *,
        threads: int | None = None,
        verify_on_use: bool = False,
        consuming: "Callable[[], Resources] | None" = None,
        key_defaults: ServerDefaults = DEFAULTS,
    ) -> None:
        self._registry = registry
        loader = SegmentLoader(folder, sources, self._layout_of, clock, ids, verify_on_use)
        made = None if consuming is None else partial(self._resources, consuming)
        self.instance = ServerInstance(instance_id, registry, loader, clock, consuming=made, key_defaults=key_defaults)
        self.executor = QueryExecutor(self.instance, threads or usable_processors())

    def _resources(self, consuming: "Callable[[], Resources]") -> "Resources":
        resources = consuming()
        resources.permits.follow(lambda: PARALLEL_SEGMENT_BUILDS.whole(self._registry.cluster_config()))
        return resources

    def _layout_of(self, table: str) -> TableLayout | None:
        config = self._registry.get_table_config(table)
        schema = self._registry.get_schema(raw_table_name(table))
        if config is None or schema is None:
            return None
        return TableLayout(stored_schema(schema), stored_table_config(config))

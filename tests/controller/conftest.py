from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import NotFoundError
from gamay.base.ids import CountingIds
from gamay.cluster.access.principals import ANYONE
from gamay.cluster.records.records import Instance
from gamay.cluster.records.registry import Registry
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.controller.context import ControllerContext
from gamay.controller.health.repair import RepairReport, empty_work_dir, repair
from gamay.controller.segments.lineage import ReplaceManager
from gamay.controller.segments.segments import SegmentManager
from gamay.controller.segments.verify import VerifiedSegment
from gamay.controller.segments.writer import TableWriter
from gamay.controller.tables.schemas import SchemaManager
from gamay.controller.tables.tables import TableManager
from gamay.ingest.stream.spi import StreamContext
from gamay.storage.local_store import LocalStore

SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "INT"}],
}
TABLE: dict[str, Any] = {
    "tableName": "t",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}


class NoServers:
    """Servers that do not answer."""

    def segment_sizes(self, instance: str, table: str) -> Mapping[str, int]:
        raise NotFoundError(instance)

    def segment_details(self, instance: str, table: str, segment: str, columns: Sequence[str]) -> dict[str, Any]:
        raise NotFoundError(instance)

    def reload_progress(self, instance: str, table: str, segments: Sequence[str], since_ms: int) -> Any:
        raise NotFoundError(instance)

    def stale_segments(self, instance: str, table: str) -> Sequence[str]:
        raise NotFoundError(instance)

    def segment_errors(self, instance: str, table: str) -> Mapping[str, str]:
        raise NotFoundError(instance)

    def disk_usage(self, instance: str) -> tuple[int, int]:
        raise NotFoundError(instance)

    def fetch_segment(self, instance: str, table: str, segment: str, target: Path) -> None:
        raise NotFoundError(instance)


class Controller:
    """The managers over a folder, without HTTP and without servers."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.folder = folder
        self.clock = clock
        folder.mkdir(exist_ok=True)
        self.store = EmbeddedStore.open(folder / "metadata.db", clock)
        self.registry = Registry(self.store)
        if not self.registry.instance_ids():
            tags = ("DefaultTenant_OFFLINE",)
            self.registry.create_instance(Instance("Server_a_1", "a", 1, tags))
        self.context = ControllerContext(
            self.registry, LocalStore(folder / "deepstore"), folder / "tmp", clock, CountingIds(), NoServers(),
            "Controller_a_1", "http://a:1", StreamContext(folder / "streams", clock=clock),
        )  # fmt: skip
        self.context.deep_store.prepare()
        self.schemas = SchemaManager(self.registry)
        self.tables = TableManager(self.context, self.schemas)
        self.segments = SegmentManager(self.context, self.tables)
        self.replacements = ReplaceManager(self.context, self.segments)
        self.writer = TableWriter(self.context, self.tables, self.segments)

    def repair(self) -> RepairReport:
        empty_work_dir(self.context)
        return repair(self.context, self.tables, self.segments)

    def create(self) -> None:
        self.schemas.add(SCHEMA)
        self.tables.add(TABLE, by=ANYONE)

    def write(self, *names: str) -> None:
        """Add segments of two rows each."""
        batch = pa.record_batch({"s": ["a", "b"] * len(names), "n": pa.array([1, 2] * len(names), pa.int32())})
        self.writer.write("t_OFFLINE", lambda pipeline: [pipeline.apply(batch)], lambda i: names[i], 2)

    def built(self, name: str) -> VerifiedSegment:
        """Build a segment in the work folder without adding it."""
        from gamay.controller.segments.verify import verify_folder
        from gamay.ingest.transform.pipeline import Pipeline
        from gamay.segment.write.builder import SegmentBuilder

        schema, config = self.tables.schema_of("t"), self.tables.get("t_OFFLINE")
        builder = SegmentBuilder(schema, config, name, self.folder / "tmp" / self.context.ids.new(), clock=self.clock)
        builder.append(Pipeline(schema, config).apply(pa.record_batch({"s": [name], "n": pa.array([1], pa.int32())})))
        return verify_folder(builder.build())

    def copies(self) -> list[str]:
        return sorted(p.name.rpartition("__")[0] for p in (self.folder / "deepstore" / "t_OFFLINE").glob("*"))

    def close(self) -> None:
        self.store.close()


@pytest.fixture
def open_controller(tmp_path: Path) -> Iterator[Callable[[], Controller]]:
    opened: list[Controller] = []
    clock = ManualClock()

    def start() -> Controller:
        for one in opened:
            one.close()
        opened.clear()
        opened.append(Controller(tmp_path / "data", clock))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def controller(open_controller: Callable[[], Controller]) -> Controller:
    made = open_controller()
    made.repair()
    made.create()
    return made

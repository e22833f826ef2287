"""How long a broker and a server take from a cold start to their first answer.

    python -m benchmarks.cold_start [--segments 100000] [--loaded 1000] [--zk HOST:PORT]

A broker builds the routes of one table with many segments, two replicas each on four servers, from records in the metadata
store: the embedded one and, with `--zk`, ZooKeeper. A server opens segments whose copies lie on its disk. Processor
time is that of this process; with a store on ZooKeeper, the store's own comes on top.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from benchmarks import report
from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.ids import RANDOM_IDS
from gamay.broker.routes.routing import RoutingTables
from gamay.cluster.records.records import ONLINE, Assignment, Instance, SegmentRecord
from gamay.cluster.records.registry import Registry, announce
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.store.zookeeper_store import ZooKeeperAddress, ZooKeeperStore
from gamay.controller.segments.verify import record_of
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.roles.server_role import ServerRole
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.write.builder import SegmentBuilder
from gamay.server.loading.sources import SegmentSources
from gamay.storage.deep_store import SCHEME

SERVERS = 4
ROWS = 1000
TABLE = "visits_OFFLINE"
SCHEMA = {
    "schemaName": "visits",
    "dimensionFieldSpecs": [
        {"name": "memberId", "dataType": "LONG"},
        {"name": "country", "dataType": "STRING"},
        {"name": "page", "dataType": "INT"},
    ],
    "metricFieldSpecs": [{"name": "seconds", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
CONFIG = {
    "tableName": "visits",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "day", "replication": "2", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}

_EMBEDDED = "broker: routes of 100,000 segments with two replicas, records in the embedded store"
_ZOOKEEPER = "the same, records in ZooKeeper"
_LOADED = "server: 1,000 segments whose copies are on its disk"
SHAPES = {"cold_start": report.Shape(("what", "seconds"), (_EMBEDDED, _LOADED), ("processor seconds",))}


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--segments", type=int, default=100_000)
    parser.add_argument("--loaded", type=int, default=1000)
    parser.add_argument("--zk", help="a ZooKeeper to use, below a path of its own")
    arguments = report.arguments_of(parser)
    folder = Path(tempfile.mkdtemp(prefix="gamay-cold-"))
    shown = report.Report("cold_start", SHAPES["cold_start"])
    try:
        built = built_segment(folder / "built", 0)
        stores: dict[str, Callable[[], MetadataStore]] = {
            _EMBEDDED: lambda: EmbeddedStore.open(folder / "routes.db", SYSTEM_CLOCK)
        }
        if arguments.zk:
            address = ZooKeeperAddress(f"{arguments.zk}/cold-{RANDOM_IDS.new()}", patience_s=120)
            stores[_ZOOKEEPER] = lambda: ZooKeeperStore.open(address)
        for name, open_store in stores.items():
            write_table(open_store, built, arguments.segments)
            taken = [f"{seconds:.2f}" for seconds in route_s(open_store, arguments.segments)]
            if name == _EMBEDDED:
                shown.add(name, *taken)
            else:
                print(f"{name}: {taken[0]} s, {taken[1]} s of the processor")
        shown.add(_LOADED, *_load(folder, arguments.loaded))
    finally:
        shutil.rmtree(folder)
    shown.finish(writes=arguments.write_docs)
    return 0


def built_segment(folder: Path, number: int) -> SegmentRecord:
    """Build a segment of some rows in `folder`, and return its record."""
    schema, config = Schema.from_json(SCHEMA).value, TableConfig.from_json(CONFIG).value
    rows = pa.table(
        {
            "memberId": pa.array([(number * ROWS + i) * 7919 % 1_000_003 for i in range(ROWS)], pa.int64()),
            "country": [f"c{i % 200}" for i in range(ROWS)],
            "page": pa.array([i % 100 for i in range(ROWS)], pa.int32()),
            "seconds": pa.array([i / 8 for i in range(ROWS)], pa.float64()),
            "day": pa.array([17_000 + number % 2000] * ROWS, pa.int32()),
        }
    )
    builder, pipeline = SegmentBuilder(schema, config, f"visits_{number}", folder), Pipeline(schema, config)
    for batch in rows.to_batches():
        builder.append(pipeline.apply(batch))
    made = builder.build()
    return record_of(read_metadata(made), f"{SCHEME}{TABLE}/{made.name}", 1).with_changes(push_time_ms=1)


def write_table(open_store: Callable[[], MetadataStore], built: SegmentRecord, segments: int) -> None:
    """Write the records of a table with the given number of segments, all like the one that was built."""
    store = open_store()
    registry = Registry(store)
    servers = [f"Server_s{i}_8098" for i in range(SERVERS)]
    for server in servers:
        registry.put_instance(Instance(server, server, 8098, ("DefaultTenant_OFFLINE",)))
    registry.put_schema("visits", SCHEMA)
    states = {
        f"visits_{i}": {servers[i % SERVERS]: ONLINE, servers[(i + 1 + i // SERVERS % (SERVERS - 1)) % SERVERS]: ONLINE}
        for i in range(segments)
    }
    registry.create_ideal_state(Assignment.new_table(TABLE, 2).with_segments(states))
    registry.put_external_view(Assignment(TABLE, states))

    def create(i: int) -> None:
        day = (17_000 + i // 50) * 86_400_000
        registry.create_segment(TABLE, built.with_changes(name=f"visits_{i}", start_time_ms=day, end_time_ms=day))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(create, range(segments)))
    registry.create_table_config(TABLE, CONFIG)
    store.close()


def route_s(open_store: Callable[[], MetadataStore], segments: int) -> tuple[float, float]:
    """Build the routes of the table, and return the elapsed and the processor time in seconds."""
    store = open_store()
    for i in range(SERVERS):
        announce(store, f"Server_s{i}_8098")
    routing = RoutingTables(Registry(store))
    started, started_cpu = time.perf_counter(), time.process_time()
    routing.start()
    took = time.perf_counter() - started, time.process_time() - started_cpu
    assert len(routing.find("visits")[0].segments) == segments
    routing.stop()
    store.close()
    return took


def _load(folder: Path, count: int) -> tuple[str, str]:
    store = EmbeddedStore.open(folder / "server.db", SYSTEM_CLOCK)
    registry, name = Registry(store), "Server_localhost_8098"
    registry.put_instance(Instance(name, "localhost", 8098, ("DefaultTenant_OFFLINE",)))
    registry.put_schema("visits", SCHEMA)
    copies = folder / "server" / TABLE
    copies.mkdir(parents=True)
    records = []
    for number in range(count):
        record = built_segment(folder / "scratch" / str(number), number)
        (folder / "scratch" / str(number) / record.name).rename(copies / f"{record.name}__{record.crc}")
        records.append(record)
    ideal = Assignment.new_table(TABLE, 1).with_segments({record.name: {name: ONLINE} for record in records})
    for record in records:
        registry.create_segment(TABLE, record)
    registry.create_ideal_state(ideal)
    registry.create_table_config(TABLE, CONFIG)
    role = ServerRole(name, Registry(store.new_session()), folder / "server", SegmentSources(), SYSTEM_CLOCK, RANDOM_IDS)
    started, started_cpu = time.perf_counter(), time.process_time()
    role.instance.start()
    took = f"{time.perf_counter() - started:.2f}", f"{time.process_time() - started_cpu:.2f}"
    data = role.instance.table(TABLE)
    assert data is not None
    assert len(data.snapshot()) == count
    role.instance.stop()
    store.close()
    return took


if __name__ == "__main__":
    sys.exit(main())

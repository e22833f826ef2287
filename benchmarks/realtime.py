"""How fast a stream partition becomes queryable: rows per second, freshness, and the pause of a commit.

    python -m benchmarks.realtime [--rows 2000000] [--rate 50000] [--commits 20] [--segment-rows 200000]
                                  [--only throughput|pauses] [--write-docs]

One partition of the embedded log, messages of 10 columns in JSON (rates also in Avro), one process with controller, broker
and server. Rates are by processor time of the consumer's thread, which other work on the machine does not change, and by
the clock. The pause of a commit is the longest time in the second that begins when a segment ends between two answers of
queries that have more rows than those before (seen; one is asked every 5 ms), and between two batches that are put into a
segment (indexed), or fetched and converted (read). Beside their distribution stands that of seconds without a commit: where
nothing pauses, they are alike. The builds go on during such seconds.

Other sessions of the machine take part of the processor whatever their `nice` says, where the kernel groups by session: run
`setsid bash -c 'echo -17 > /proc/self/autogroup; exec python -m benchmarks.realtime'` as root to have it for the most part.
"""

import argparse
import bisect
import io
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa

from benchmarks import data, report
from gamay.base.clock import SYSTEM_CLOCK
from gamay.cluster.access.principals import ANYONE
from gamay.embedded.core import LocalCluster
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic, open_topic
from gamay.ingest.stream.spi import MessageBatch, PartitionConsumer
from gamay.roles.switching import switch_threads_often
from gamay.segment.mutable.segment import MutableSegment
from gamay.server.consuming.consumption import Consumption
from gamay.server.consuming.intake import Intake, Taken

TABLE = "events"
RESULTS = data.FOLDER.parent / "realtime.json"
_BLOCK = 50_000
_SEED = 5
_RATES = {
    "rows a second by the clock, from the stream to queries": "rows_per_s",
    "rows a second of the consumer's processor time": "rows_per_cpu_s",
    "bytes of memory of a consuming row, an inverted index on one column included": "memory_bytes_per_row",
}
_AGE = "age of the newest row that a query sees"
_RATE = 50_000
_PAUSES = {
    "at a commit": ("", "commit"),
    "in the other seconds of that run": ("", "other"),
    "at a commit without pauses": ("pauseless_", "commit"),
    "in the other seconds of the run without pauses": ("pauseless_", "other"),
}
SHAPES = {
    "realtime: rates": report.Shape(("what", "JSON", "Avro"), tuple(_RATES)),
    "realtime: age": report.Shape((_AGE, "median, ms", "99 %, ms"), (f"at {_RATE:,} rows a second, no commit near",)),
    "realtime: pauses": report.Shape(
        (
            "longest time without new rows, ms",
            *("indexed: median", "90 %", "longest"),
            *("seen: median", "90 %", "longest"),
        ),
        tuple(_PAUSES),
    ),
}

SCHEMA = {
    "schemaName": TABLE,
    "dimensionFieldSpecs": [
        {"name": "user", "dataType": "LONG"},
        {"name": "country", "dataType": "STRING"},
        {"name": "device", "dataType": "STRING"},
        {"name": "page", "dataType": "STRING"},
        {"name": "referrer", "dataType": "STRING"},
        {"name": "session", "dataType": "STRING"},
    ],
    "metricFieldSpecs": [
        {"name": "amount", "dataType": "DOUBLE"},
        {"name": "latency", "dataType": "INT"},
        {"name": "clicks", "dataType": "INT"},
    ],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}


AVRO: dict[str, Any] = {
    "type": "record", "name": "Event", "fields": [
        *({"name": name, "type": "string"} for name in ("country", "device", "page", "referrer", "session")),
        *({"name": name, "type": "long"} for name in ("user", "ts")),
        *({"name": name, "type": "int"} for name in ("latency", "clicks")), {"name": "amount", "type": "double"},
    ],
}  # fmt: skip


def table_config(segment_rows: int, *, pauseless: bool = False, avro: bool = False) -> dict[str, Any]:
    """Return the config of the table, with the number of rows after which segments are committed."""
    decoder = {"stream.log.decoder.class.name": "SimpleAvroMessageDecoder" if avro else "JSONMessageDecoder"}
    decoder |= {"stream.log.decoder.prop.schema": json.dumps(AVRO)} if avro else {}
    return {
        "tableName": TABLE,
        "tableType": "REALTIME",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"noDictionaryColumns": ["amount"], "invertedIndexColumns": ["country"]},
        "ingestionConfig": {
            "streamIngestionConfig": {
                "pauselessConsumptionEnabled": pauseless,
                "streamConfigMaps": [
                    {
                        "streamType": "log",
                        "stream.log.topic.name": TABLE,
                        **decoder,
                        "stream.log.consumer.prop.auto.offset.reset": "smallest",
                        "realtime.segment.flush.threshold.segment.rows": str(segment_rows),
                    }
                ],
            }
        },
    }


def messages(rng: np.random.Generator, rows: int, ts: int, *, avro: bool = False) -> pa.BinaryArray:
    """Return messages of about 190 bytes, or 80 in Avro."""
    columns = [
        rng.integers(0, 1_000_000, rows).tolist(),
        rng.choice(["no", "se", "de", "fr", "us", "br", "in", "jp"], rows).tolist(),
        rng.choice(["phone", "tablet", "desktop"], rows).tolist(),
        [f"/products/{n}" for n in rng.zipf(1.3, rows) % 5_000],
        [f"https://example.org/{n}" for n in rng.integers(0, 200, rows)],
        [f"s{n:08x}" for n in rng.integers(0, 200_000, rows)],
        rng.random(rows).round(4).tolist(),
        rng.integers(1, 3_000, rows).tolist(),
        rng.integers(0, 10, rows).tolist(),
    ]
    names = ["user", "country", "device", "page", "referrer", "session", "amount", "latency", "clicks"]
    rows_of = (dict(zip(names, values, strict=True)) | {"ts": ts} for values in zip(*columns, strict=True))
    return pa.array([_avro(row) if avro else orjson.dumps(row) for row in rows_of], pa.binary())


def _avro(row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, row)
    return out.getvalue()


def _produce_steadily(folder: Path, rate: int, seconds: float) -> None:
    """Send `rate` rows per second in parts of 10 ms; runs in a dedicated process."""
    rng = np.random.default_rng(_SEED)
    part = max(1, rate // 100)
    # Only the time differs, and it has as many digits for years to come: it is put into texts that are there.
    texts = [bytes(text.as_py()) for text in messages(rng, part * 20, 1_700_000_000_000)]
    producer = Producer(open_topic(folder / "streams", TABLE), SYSTEM_CLOCK)
    began = time.monotonic()
    for number in range(int(seconds * 100)):
        time.sleep(max(0.0, began + number / 100 - time.monotonic()))
        now = str(time.time_ns() // 1_000_000).encode()
        first = number % 20 * part
        sent = [text.replace(b"1700000000000", now) for text in texts[first : first + part]]
        producer.send(pa.array(sent, pa.binary()), partition=0)
    producer.close()


class Bench:
    """A cluster in a separate folder, with the topic and the table."""

    def __init__(self, segment_rows: int, *, pauseless: bool = False, avro: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gamay-bench-"))
        self.topic = create_topic(self.folder / "streams", TABLE, TopicConfig(1))
        self.cluster = LocalCluster(self.folder)
        self.cluster.prepare()
        self.cluster.start()
        self._config = table_config(segment_rows, pauseless=pauseless, avro=avro)

    def create_table(self) -> None:
        """Create the table, which starts consumption."""
        self.cluster.schemas.add(SCHEMA)
        self.cluster.tables.add(self._config, by=ANYONE)
        self.cluster.routing.wait_until(lambda: bool(self.cluster.routing.find(TABLE)), 60)

    def ask(self, sql: str) -> list[tuple[Any, ...]] | None:
        """Return the rows of an answer; None if segments are missing, as at the very beginning."""
        response = self.cluster.runner.run(sql)
        return None if response.exceptions or response.table is None else response.table.rows()

    def count(self) -> int:
        """Return the number of rows visible to queries."""
        rows = self.ask(f"SELECT COUNT(*) FROM {TABLE}")
        return 0 if rows is None else int(rows[0][0])

    def consumer_cpu_s(self) -> float:
        """Return the present processor time of all consuming threads."""
        clocks = [
            time.pthread_getcpuclockid(thread.ident)
            for thread in threading.enumerate()
            if thread.name.startswith("consume-") and thread.ident is not None
        ]
        return sum(time.clock_gettime(clock) for clock in clocks)

    def close(self) -> None:
        """End the cluster and remove the folder."""
        self.cluster.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def throughput(rows: int, *, avro: bool = False) -> dict[str, float]:
    """Consume rows that are already in the stream, into one segment; the first block compiles the kernels."""
    bench = Bench(rows + 2 * _BLOCK, avro=avro)
    try:
        rng = np.random.default_rng(_SEED)
        producer = Producer(bench.topic, SYSTEM_CLOCK)
        producer.send(messages(rng, _BLOCK, 1_700_000_000_000, avro=avro), partition=0)
        bench.create_table()
        while bench.count() < _BLOCK:
            time.sleep(0.01)
        blocks = [messages(rng, _BLOCK, 1_700_000_000_000 + n, avro=avro) for n in range(4)]
        [consumer] = bench.cluster.server.consumers.consumers(f"{TABLE}_REALTIME").values()  # type: ignore[union-attr]
        cpu_s, clock_s, bytes_sent = bench.consumer_cpu_s(), 0.0, 0
        for start in range(0, rows, 4 * _BLOCK):
            before = bench.count()
            for block in blocks:
                producer.send(block, partition=0)
                bytes_sent += block.nbytes
            began = time.monotonic()
            while bench.count() < before + 4 * _BLOCK:
                time.sleep(0.002)
            clock_s += time.monotonic() - began
            _ = start
        cpu_s = bench.consumer_cpu_s() - cpu_s
        sent = -(-rows // (4 * _BLOCK)) * 4 * _BLOCK
        memory = consumer.status().memory_bytes / (sent + _BLOCK)
        return {
            "rows_per_cpu_s": sent / cpu_s,
            "rows_per_s": sent / clock_s,
            "message_bytes": bytes_sent / sent,
            "memory_bytes_per_row": memory,
        }
    finally:
        bench.close()


class Batches:
    """When segments ended, batches of messages were read and indexed, and queries saw rows, while the block runs."""

    def __init__(self) -> None:
        self.ends: dict[str, float] = {}
        self.read: list[float] = []
        self.indexed: list[float] = []
        self.seen: list[float] = []
        self._ended, self._take, self._append = Consumption.give_reader, Intake.take, MutableSegment.append

    def __enter__(self) -> "Batches":
        def ended(consumption: Consumption) -> PartitionConsumer | None:
            self.ends.setdefault(consumption.rows.name, time.monotonic())
            return self._ended(consumption)

        def take(intake: Intake, batch: MessageBatch) -> Taken:
            taken = self._take(intake, batch)
            if len(batch):
                self.read.append(time.monotonic())
            return taken

        def append(segment: MutableSegment, rows: pa.RecordBatch) -> None:
            self._append(segment, rows)
            self.indexed.append(time.monotonic())

        Consumption.give_reader, Intake.take = ended, take  # type: ignore[assignment,method-assign]
        MutableSegment.append = append  # type: ignore[assignment,method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        Consumption.give_reader, Intake.take = self._ended, self._take  # type: ignore[method-assign]
        MutableSegment.append = self._append  # type: ignore[method-assign]

    def gaps(self, since: float) -> dict[str, float]:
        """Return the longest times without a batch, of seconds that begin when a segment ended and of others, in ms."""
        seconds = [at for at in sorted(self.ends.values()) if at >= since]
        # as many others as there are: each begins where one ended, unless a commit touches it
        at, last, others = since, self.seen[-1], []
        while at + 1 <= last:
            touched = next((end for end in seconds if end - 1 < at < end + 1), None)
            others += [] if touched is not None else [at]
            at = at + 1 if touched is None else touched + 1
        found: dict[str, float] = {}
        for name, moments in (("seen", self.seen), ("indexed", self.indexed), ("read", self.read)):
            found |= _spread(f"{name}_commit", [_longest(sorted(moments), second) for second in seconds])
            found |= _spread(f"{name}_other", [_longest(sorted(moments), second) for second in others])
        return found


def _longest(moments: list[float], second: float) -> float:
    """Return the longest time in milliseconds between two moments, of those times that begin within a second."""
    first, last = bisect.bisect_left(moments, second), bisect.bisect_left(moments, second + 1)
    return 1000 * max((after - at for at, after in itertools.pairwise(moments[first : last + 1])), default=1.0)


def _spread(name: str, values: list[float]) -> dict[str, float]:
    """Return the number of values, and their distribution."""
    if not values:
        return {f"{name}_count": 0.0}
    p50, p90 = np.percentile(values, [50, 90])
    spread = {"p50_ms": float(p50), "p90_ms": float(p90), "max_ms": max(values)}
    return {f"{name}_count": float(len(values))} | {f"{name}_{key}": value for key, value in spread.items()}


def freshness(rate: int, seconds: float, segment_rows: int, *, pauseless: bool = False) -> dict[str, float]:
    """Send rows steadily from another process, and query every 5 ms the age of the newest visible row."""
    bench = Bench(segment_rows, pauseless=pauseless)
    try:
        bench.create_table()
        ages: list[tuple[float, float, int]] = []
        with Batches() as batches:
            sender = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.realtime", "--produce", str(bench.folder), "--rate", str(rate),
                 "--seconds", str(seconds)]
            )  # fmt: skip
            while sender.poll() is None:
                rows = bench.ask(f"SELECT MAX(ts), COUNT(*) FROM {TABLE}")
                now = time.time()
                if rows is not None and rows[0][1]:
                    if not ages or rows[0][1] > ages[-1][2]:
                        batches.seen.append(time.monotonic())
                    ages.append((now, now * 1000 - rows[0][0], int(rows[0][1])))
                time.sleep(0.005)
        # kernels are compiled in the first two seconds, those of a commit in the first commit
        builds = bench.cluster.server.consumers.status(f"{TABLE}_REALTIME")["builds"]  # type: ignore[union-attr]
        begun = next(at for at, _, count in ages if count > rate * 2)
        begun = max(begun, builds[0]["timestampMs"] / 1000 + 1.5) if builds else begun
        ages = [age for age in ages if age[0] > begun]
        calm = [age for at, age, _ in ages if not any(_near(at * 1000, built) for built in builds)]
        pauses = [max((age for at, age, _ in ages if _near(at * 1000, built)), default=0.0) for built in builds[1:]]
        found = {
            "freshness_p50_ms": statistics.median(calm),
            "freshness_p99_ms": float(np.percentile(calm, 99)),
            "samples": float(len(calm)),
        }
        found |= batches.gaps(time.monotonic() - (time.time() - begun))
        if pauses:
            found |= {
                "commits": float(len(pauses)),
                "commit_age_p50_ms": statistics.median(pauses),
                "commit_age_max_ms": max(pauses),
                "build_p50_ms": statistics.median(built["buildTimeMs"] for built in builds[1:]),
            }
        return found
    finally:
        bench.close()


def _near(at_ms: float, built: dict[str, Any]) -> bool:
    """Whether a moment belongs to a commit: from the start of its build to a second after its end."""
    end_ms = built["timestampMs"]
    return bool(end_ms - built["buildTimeMs"] - 50 <= at_ms <= end_ms + 1000)


def tables_of(results: dict[str, float]) -> list[report.Report]:
    """Return the tables of the measurements."""
    found = []
    if "rows_per_s" in results:
        rates = report.Report("realtime: rates", SHAPES["realtime: rates"])
        for case, name in _RATES.items():
            digits = -3 if name.startswith("rows") else 0
            rates.add(case, *(f"{round(results[kind + name], digits):,.0f}" for kind in ("", "avro_")))
        found.append(rates)
    if "freshness_p50_ms" in results:
        age = report.Report("realtime: age", SHAPES["realtime: age"])
        age.add(*age.shape.cases, *(f"{results[f'freshness_{part}_ms']:.0f}" for part in ("p50", "p99")))
        pauses = report.Report("realtime: pauses", SHAPES["realtime: pauses"])
        parts = [(what, part) for what in ("indexed", "seen") for part in ("p50", "p90", "max")]
        for case, (run, seconds) in _PAUSES.items():
            pauses.add(case, *(f"{results[f'{run}{what}_{seconds}_{part}_ms']:.0f}" for what, part in parts))
        found += [age, pauses]
    return found


def main() -> None:
    """Run what the arguments select, print it, and write all of it to build/realtime.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rate", type=int, default=_RATE)
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--segment-rows", type=int, default=200_000)
    parser.add_argument("--only", choices=("throughput", "pauses"))
    parser.add_argument("--seconds", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--produce", type=Path, help=argparse.SUPPRESS)
    arguments = report.arguments_of(parser)
    if arguments.produce is not None:
        _produce_steadily(arguments.produce, arguments.rate, arguments.seconds)
        return
    results: dict[str, float] = {}
    switch_threads_often()
    if arguments.only != "pauses":
        results |= throughput(arguments.rows)
        results |= {f"avro_{name}": value for name, value in throughput(arguments.rows, avro=True).items()}
    if arguments.only != "throughput":
        # the first commit compiles kernels; the last segment is not committed any more
        seconds = (arguments.commits + 1.5) * arguments.segment_rows / arguments.rate
        for pauseless in (False, True):
            found = freshness(arguments.rate, seconds, arguments.segment_rows, pauseless=pauseless)
            results |= {f"{'pauseless_' if pauseless else ''}{name}": value for name, value in found.items()}
    for name, value in results.items():
        print(f"{name:<32} {value:>14,.1f}")
    for table in tables_of(results):
        table.finish(writes=arguments.write_docs)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

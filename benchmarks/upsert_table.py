"""A table with `upsertConfig`: restarts, consumption, and queries, compared with the same table without it.

    python -m benchmarks.upsert_table [--only restart|consume|queries|views] [--keys 10000000] [--queries 100000]
                                      [--write-docs]

restart: so many rows in sealed segments, each of a key of its own, then ten of each key, loaded by snapshots, beside
what a server without segments and snapshots does: it fetches the same rows from the stream, decodes, indexes and looks
them up, and builds and commits the segments. consume: JSON
messages to rows that queries see, a core. queries: a sealed segment with and without upsert. views: queries in SYNC and
SNAPSHOT mode while 100,000 upserts a second go over a fixed set of keys and segments are
sealed; every answer is compared with that set. "cpu" is processor time of all threads.
"""

import argparse
import itertools
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from benchmarks import report
from gamay.base.clock import SYSTEM_CLOCK
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.fields import input_fields
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.reader import PartitionReader
from gamay.ingest.stream.log.topic import Topic, TopicConfig, create_topic
from gamay.ingest.stream.offsets import IntegerOffset, Offset
from gamay.ingest.stream.plugins import open_decoder
from gamay.ingest.stream.spi import MessageBatch
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.segment.mutable import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.read.visible import VisibleSegment
from gamay.segment.spi import Segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.server.consuming.intake import Intake
from gamay.server.loading.table import ConsumingSegment, Contents, LoadedSegment, TableData
from gamay.sql.parser import parse_query
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.partitions.views import ViewOptions
from gamay.upsert.persist.snapshots import SnapshotFolder
from gamay.upsert.spi import SegmentSource
from gamay.upsert.tables.table import TableUpsert

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "k", "dataType": "STRING"}, {"name": "city", "dataType": "INT"}],
        "metricFieldSpecs": [{"name": "v", "dataType": "LONG"}],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
        ],
        "primaryKeyColumns": ["k"],
    }
).value
PARTITIONS = 2
SEGMENT_ROWS = 500_000
RATE = 100_000
TOUCHED_BYTES = 2 << 30
QUERIES = {
    "`COUNT(*)` with a filter": "SELECT COUNT(*) FROM t WHERE city < 50",
    "`SUM`, `MAX` with a filter": "SELECT SUM(v), MAX(v) FROM t WHERE city BETWEEN 20 AND 60",
    "`GROUP BY` a number": "SELECT city, COUNT(*), SUM(v) FROM t GROUP BY city ORDER BY city LIMIT 200",
    "`ORDER BY … LIMIT 10`": "SELECT k, v FROM t ORDER BY v DESC LIMIT 10",
    "`DISTINCTCOUNTHLL` of texts": "SELECT DISTINCTCOUNTHLL(k) FROM t",
}
MODES: dict[str, dict[str, Any]] = {
    "without upsert": {"mode": "NONE"},
    "FULL": {"mode": "FULL"},
    "PARTIAL, one INCREMENT": {"mode": "PARTIAL", "partialUpsertStrategies": {"v": "INCREMENT"}},
}
VERSIONS = {1: "each row of a key of its own", 10: "ten rows a key"}
_OPENED = "segments opened and their checksums compared"
_LOADED = "keys loaded by snapshots, by two threads"
_WITHOUT = "without snapshots"
_CONSUMED = "consumed again"
_TIMES = "consuming again takes so many times as long as both of the first"
SHAPES = {
    "upsert_table: restart": report.Shape(
        ("seconds of processor time", *VERSIONS.values()),
        (_OPENED, _LOADED, _WITHOUT, _CONSUMED, _TIMES),
        tuple(f"by the clock: {text}" for text in VERSIONS.values()),
    ),
    "upsert_table: consume": report.Shape(("400,000 JSON messages of 4 columns", "rows a second of a core"), tuple(MODES)),
    "upsert_table: queries": report.Shape(
        ("query over 1,000,000 rows", "plain, ms", "all rows valid, times that", "nine in ten valid"), tuple(QUERIES)
    ),
    "upsert_table: views": report.Shape(
        ("mode", "upserts/s meanwhile", "segments sealed", "answers that deviate"), ("`SYNC`", "`SNAPSHOT`")
    ),
}


def config_of(**upsert: Any) -> TableConfig:
    """Return a config of the table."""
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "REALTIME",
            "tenants": {},
            "segmentsConfig": {"timeColumnName": "ts"},
            "tableIndexConfig": {"nullHandlingEnabled": True, "noDictionaryColumns": ["k", "v", "ts"]},
            "routing": {"instanceSelectorType": "strictReplicaGroup"},
            "upsertConfig": {"hashFunction": "MURMUR3", **upsert},
        }
    ).value


def table_of(folder: Path, **upsert: Any) -> TableUpsert:
    """Return the keys of the table, with snapshots under the folder."""
    settings = UpsertSettings.of(config_of(**upsert), SCHEMA)
    assert settings is not None
    return TableUpsert(settings, SnapshotFolder(folder / "snapshots"), SYSTEM_CLOCK)


def batch_of(numbers: Any, at: int) -> pa.RecordBatch:
    """Return a conformed batch with these keys."""
    names = [spec.name for spec in SCHEMA.stored_fields]
    texts = pa.array(np.char.add("order-", numbers.astype(str)).tolist(), pa.string())
    columns = {
        "k": texts, "city": pa.array((numbers % 100).astype(np.int32)), "v": pa.array(numbers.astype(np.int64) * 7),
        "ts": pa.array(np.full(len(numbers), at, np.int64)),
    }  # fmt: skip
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def timed(action: Callable[[], Any]) -> tuple[float, float]:
    """Return the elapsed and the processor time in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - cpu


def own_bytes() -> int:
    """Return the bytes of this process's memory that no file backs."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def touch_memory() -> None:
    """Have memory that the machine has had before: a virtual one takes 2 ns a byte from its host when it is first used."""
    np.empty(TOUCHED_BYTES, np.uint8).fill(1)


def segments_of(folder: Path, num_keys: int, versions: int) -> None:
    """Build sealed segments with so many keys, each in a row of so many segments, the last of which counts."""
    rounds = list(range(0, num_keys, SEGMENT_ROWS))
    for number, start in enumerate(rounds * versions):
        name = f"t__{start // SEGMENT_ROWS % PARTITIONS}__{number:04}__20260101T0000Z"
        builder = SegmentBuilder(SCHEMA, config_of(), name, folder / "segments")
        for first in range(start, min(start + SEGMENT_ROWS, num_keys), 50_000):
            builder.append(batch_of(np.arange(first, min(first + 50_000, num_keys)), number))
        builder.build()


def opened(folder: Path) -> list[list[SegmentSource]]:
    """Open the segments of each partition, which reads all of them to compare checksums."""
    found = []
    for partition in range(PARTITIONS):
        segments = map(open_segment, sorted((folder / "segments").glob(f"t__{partition}__*")))
        found.append([SegmentSource(segment, segment.info.crc, 1) for segment in segments])
    return found


def load_all(sources: list[list[SegmentSource]], table: TableUpsert) -> None:
    """Load the keys of segments like a server at startup."""

    def one(mine: list[SegmentSource]) -> None:
        table.expect(mine)
        for source in mine:
            table.load(source, lambda _: None)

    with ThreadPoolExecutor(PARTITIONS) as pool:
        list(pool.map(one, sources))


def restarted(folder: str, num_keys: int) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Open and load the segments in a process of their own, with kernels that are there.

    Returns seconds by the clock and of processor time of both, and bytes a key.
    """
    with tempfile.TemporaryDirectory() as warm:
        segments_of(Path(warm), 1000, 1)
        for _ in range(2):
            table = table_of(Path(warm))
            load_all(opened(Path(warm)), table)
            table.settle(0)
    touch_memory()
    sources: list[list[SegmentSource]] = []
    opening = timed(lambda: sources.extend(opened(Path(folder))))
    before = own_bytes()
    table = table_of(Path(folder))
    loading = timed(lambda: load_all(sources, table))
    assert table.num_keys == num_keys, table.num_keys
    return opening, loading, (own_bytes() - before) / num_keys


def restart(found: report.Report, folder: Path, num_keys: int) -> None:
    """Add the time to restore the keys."""
    print(f"restart {num_keys:,} rows in {PARTITIONS} partitions, {PARTITIONS} threads, {SEGMENT_ROWS:,} rows a segment")
    cells: dict[str, list[tuple[str, str]]] = {case: [] for case in found.shape.cases}
    for versions in VERSIONS:
        mine, keys = folder / str(versions), num_keys // versions
        segments_of(mine, keys, versions)
        table = table_of(mine)
        touch_memory()
        without = timed(partial(load_all, opened(mine), table))
        for partition in range(PARTITIONS):
            table.settle(partition)
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            opening, loading, memory = process.submit(restarted, str(mine), keys).result()
            replay = process.submit(replayed, str(mine), keys, versions).result()
        print(f"  {keys:,} keys, each has {versions} rows: {memory:.1f} bytes a key", flush=True)
        for case, (wall_s, cpu_s) in ((_OPENED, opening), (_LOADED, loading), (_WITHOUT, without), (_CONSUMED, replay)):
            cells[case].append((_seconds(cpu_s), _seconds(wall_s)))
        cells[_TIMES].append((f"{replay[1] / (opening[1] + loading[1]):.0f}", ""))
        shutil.rmtree(mine)
    for case, by_versions in cells.items():
        found.add(case, *(cpu for cpu, _ in by_versions), *(wall for _, wall in by_versions))


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"


def lines_of(numbers: Any, at: int) -> pa.BinaryArray:
    """Return the rows of `batch_of` as JSON messages."""
    lines = [orjson.dumps({"k": f"order-{n}", "city": n % 100, "v": n * 7, "ts": at}) for n in numbers.tolist()]
    return pa.array(lines, pa.binary())


def replayed(folder: str, num_keys: int, versions: int) -> tuple[float, float]:
    """Consume the rows of `segments_of` from a topic, in a process of their own, with kernels that are there.

    Returns seconds by the clock and of processor time of both partitions, side by side.
    """
    with tempfile.TemporaryDirectory() as warm:
        for _ in range(2):
            _consume_all(_topic_of(Path(warm) / f"{time.monotonic_ns()}", 1000, 1), 1000)
    topic = _topic_of(Path(folder) / "stream", num_keys, versions)
    touch_memory()
    return timed(partial(_consume_all, topic, num_keys))


def _topic_of(folder: Path, num_keys: int, versions: int) -> Topic:
    """Write the rows of `segments_of` to a topic, partition by partition."""
    topic = create_topic(folder, "t", TopicConfig(PARTITIONS))
    producer = Producer(topic, SYSTEM_CLOCK)
    for number, start in enumerate(list(range(0, num_keys, SEGMENT_ROWS)) * versions):
        for first in range(start, min(start + SEGMENT_ROWS, num_keys), 50_000):
            rows = np.arange(first, min(first + 50_000, num_keys))
            producer.send(lines_of(rows, number), partition=start // SEGMENT_ROWS % PARTITIONS)
    producer.close()
    return topic


def _consume_all(topic: Topic, num_keys: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = table_of(Path(folder), snapshot="DISABLE")
        with ThreadPoolExecutor(PARTITIONS) as pool:
            list(pool.map(partial(_consume_partition, topic, Path(folder), table), range(PARTITIONS)))
        assert table.num_keys == num_keys, table.num_keys


def _consume_partition(topic: Topic, folder: Path, table: TableUpsert, partition: int) -> None:
    """Consume the topic's rows, and commit a segment after each given number of rows."""
    config, reader = config_of(), PartitionReader(topic, partition, SYSTEM_CLOCK)
    stream = StreamConfig("log", "t", decoder_name="JSONMessageDecoder")
    at: Offset = IntegerOffset(0)
    for sequence in itertools.count():
        name = f"t__{partition}__{sequence}__20260101T0000Z"
        decoder = open_decoder(stream, input_fields(SCHEMA, config))
        intake = Intake(name, partition, decoder, Pipeline(SCHEMA, config, drop_failed=True), SYSTEM_CLOCK)
        segment = MutableSegment(name, SCHEMA, config, folder / name)
        keys = table.consume(partition, name, 1, segment.view)
        while segment.num_docs < SEGMENT_ROWS and len(batch := reader.fetch(at, 20_000, 1 << 24, 0)):
            at, taken = batch.next_offset, intake.take(batch)
            assert taken.rows is not None
            prepared = keys.prepare(taken.rows)
            segment.append(prepared.batch)
            keys.publish(prepared)
        if not segment.num_docs:
            break
        sealed = open_segment(segment.seal(folder / f"sealed-{name}"))
        table.commit(SegmentSource(sealed, sealed.info.crc, 1), lambda _: None)
        segment.close()
    reader.close()


def messages_of(rows: int, size: int) -> Iterator[MessageBatch]:
    """Yield JSON messages in batches; every second row has an existing key."""
    rng = np.random.default_rng(3)
    for start in range(0, rows, size):
        numbers = rng.integers(0, rows // 2, size)
        lines = [
            orjson.dumps({"k": f"order-{n}", "city": n % 100, "v": n * 7, "ts": start + i})
            for i, n in enumerate(numbers.tolist())
        ]
        offsets = pa.array(np.arange(start, start + size))
        yield MessageBatch(pa.array(lines, pa.binary()), offsets, np.zeros(size, np.int64), IntegerOffset(start + size))


def consume_rate(folder: Path, rows: int, **upsert: Any) -> float:
    """Return rows per second of processor time from messages to rows visible to queries."""
    config = config_of(**upsert)
    stream = StreamConfig("log", "t", decoder_name="JSONMessageDecoder")
    decoder = open_decoder(stream, input_fields(SCHEMA, config))
    intake = Intake("t__0__0__20260101T0000Z", 0, decoder, Pipeline(SCHEMA, config, drop_failed=True), SYSTEM_CLOCK)
    batches = list(messages_of(rows, 20_000))
    spent = 0.0
    for part in ("warm", "measured"):
        name = "t__0__0__20260101T0000Z"
        segment = MutableSegment(name, SCHEMA, config, folder / part)
        keys = None
        if upsert.get("mode") != "NONE":
            keys = table_of(folder / part, **upsert).consume(0, name, 1, segment.view)
        begun = time.process_time()
        for batch in batches[:2] if part == "warm" else batches:
            taken = intake.take(batch)
            assert taken.rows is not None
            if keys is None:
                segment.append(taken.rows)
                continue
            prepared = keys.prepare(taken.rows)
            segment.append(prepared.batch)
            keys.publish(prepared)
        spent = time.process_time() - begun
        segment.close()
    return rows / spent


def consume(found: report.Report, folder: Path) -> None:
    """Add rows per second with and without upsert."""
    for number, (case, upsert) in enumerate(MODES.items()):
        found.add(case, f"{round(consume_rate(folder / str(number), 400_000, **upsert), -3):,.0f}")


def queries(found: report.Report, folder: Path) -> None:
    """Add the time of queries over a segment with only valid rows, and over the same rows without upsert."""
    builder = SegmentBuilder(SCHEMA, config_of(), "t__0__0__20260101T0000Z", folder / "segments")
    for start in range(0, 1_000_000, 50_000):
        builder.append(batch_of(np.arange(start, start + 50_000), start))
    segment = open_segment(builder.build())
    docs = table_of(folder).load(SegmentSource(segment, segment.info.crc, 1), lambda _: None)
    # a tenth of the rows has been replaced by rows elsewhere
    replaced = table_of(folder / "other").load(SegmentSource(segment, segment.info.crc, 1), lambda _: None)
    replaced.remove(np.arange(0, 1_000_000, 10))
    with WorkPool(1) as pool:
        for case, sql in QUERIES.items():
            times: list[list[float]] = [[], [], []]
            for _ in range(15):
                # the rows that count are taken anew, as the first query after a change does
                asked: list[Segment] = [segment]
                asked += [VisibleSegment(segment, rows.snapshot()) for rows in (docs, replaced)]
                for which, seen in enumerate(asked):
                    bound = bind(parse_query(sql), SCHEMA)
                    begun = time.process_time()
                    reduce(bound, [execute(bound, [seen], pool, Deadline.after_ms(60_000, SYSTEM_CLOCK))])
                    times[which].append(time.process_time() - begun)
            plain, full, most = (1000 * median(values[3:]) for values in times)
            found.add(case, f"{plain:.3g}", f"{full / plain:.2f}", f"{most / plain:.2f}")


class Writer:
    """Sends batches of upserts over a fixed set of keys at a steady rate, sealing a segment now and then."""

    def __init__(self, folder: Path, table: TableUpsert, num_keys: int, seal_rows: int) -> None:
        self._folder, self._table, self._num_keys, self._seal_rows = folder, table, num_keys, seal_rows
        self.data = TableData("t_REALTIME")
        self._sealed: deque[str] = deque()
        self.done = threading.Event()
        self.num_rows = self.sequence = 0
        self.round = 0
        self._begin()
        self._send()

    def _begin(self) -> None:
        self.name = f"t__0__{self.sequence}__20260101T0000Z"
        segment = MutableSegment(self.name, SCHEMA, config_of(), self._folder / "mutable")
        self._segment = segment

        def install(docs: Any) -> None:
            self.data.add_consuming(ConsumingSegment(self.name, segment.view, lambda: 0, docs))

        self._keys = self._table.consume(0, self.name, 1, segment.view, install)

    def _send(self) -> None:
        self.round += 1
        prepared = self._keys.prepare(batch_of(np.arange(self._num_keys), self.round))
        self._segment.append(prepared.batch)
        self._keys.publish(prepared)
        self.num_rows += self._num_keys
        if self._segment.num_docs >= self._seal_rows:
            self._seal()

    def _seal(self) -> None:
        sealed = open_segment(self._segment.seal(self._folder / f"sealed-{self.sequence}"))

        def install(docs: Any) -> None:
            self.data.swap({self.name: LoadedSegment(sealed, sealed.info.crc, self._folder, False, 0, 0, docs)})

        self._table.commit(SegmentSource(sealed, sealed.info.crc, 1), install)
        self._segment.close()
        self.sequence += 1
        # all rows of older segments are replaced: those go, as retention removes them
        self._sealed.append(self.name)
        while len(self._sealed) > 2:
            self._remove(self._sealed.popleft())
        self._begin()

    def _remove(self, name: str) -> None:
        def install() -> None:
            self.data.swap({}, [name])

        self._table.remove(name, install)

    def run(self) -> None:
        """Send until `done`."""
        begun, sent = time.perf_counter(), self.num_rows
        while not self.done.is_set():
            self._send()
            ahead = (self.num_rows - sent) / RATE - (time.perf_counter() - begun)
            if ahead > 0:
                time.sleep(ahead)


def views(found: report.Report, folder: Path, num_queries: int) -> None:
    """Add the number of answers that deviated during ingestion."""
    num_keys = 500
    bound = bind(parse_query("SELECT COUNT(*), DISTINCTCOUNT(k) FROM t"), SCHEMA)
    for mode in ("SYNC", "SNAPSHOT"):
        table = table_of(folder / mode, consistencyMode=mode, upsertViewRefreshIntervalMs=20, snapshot="DISABLE")
        writer = Writer(folder / mode, table, num_keys, 400_000)
        thread = threading.Thread(target=writer.run)
        thread.start()
        wrong, begun, first = 0, time.perf_counter(), writer.num_rows
        with WorkPool(1) as pool:
            for _ in range(num_queries):
                contents, visible = table.views.read(writer.data.contents, Contents.all_docs, ViewOptions())
                seen = [VisibleSegment(s.segment, visible(s.docs)) for s in contents.loaded.values() if s.docs is not None]
                for consuming in contents.consuming.values():
                    if consuming.docs is not None:
                        docs = visible(consuming.docs)
                        seen.append(VisibleSegment(consuming.freeze()[0], docs))
                answer = reduce(bound, [execute(bound, seen, pool, Deadline.after_ms(60_000, SYSTEM_CLOCK))])
                assert answer.table is not None
                wrong += [tuple(row) for row in answer.table.rows()] != [(num_keys, num_keys)]
        took = time.perf_counter() - begun
        writer.done.set()
        thread.join()
        rate = (writer.num_rows - first) / took
        print(f"views {mode:8} {num_queries:,} queries in {took:.0f} s over {num_keys} keys", flush=True)
        found.add(f"`{mode}`", f"{rate:,.0f}", str(writer.sequence), f"{wrong:,}")


def main() -> None:
    """Run the part named by the arguments; everything by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("restart", "consume", "queries", "views"))
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--queries", type=int, default=100_000)
    chosen = report.arguments_of(parser)
    for name, shape in SHAPES.items():
        part = name.partition(": ")[2]
        if chosen.only not in (None, part):
            continue
        found = report.Report(name, shape)
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            if part == "restart":
                restart(found, root, chosen.keys)
            elif part == "consume":
                consume(found, root)
            elif part == "queries":
                queries(found, root)
            else:
                views(found, root, chosen.queries)
        found.finish(writes=chosen.write_docs)


if __name__ == "__main__":
    main()

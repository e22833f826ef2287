"""From messages to columns: rows per second of processor time, on one core, for each decoder.

    python -m benchmarks.decode [--messages 200000] [--write-docs]

The messages are flights of ten columns. Beside each decoder stands what a parser of the same format, called for each
message, takes to make dicts of them. `pipeline` is the decoder and the table's
ingestion pipeline.
"""

import argparse
import io
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa

from benchmarks import report
from gamay.base.clock import SYSTEM_CLOCK
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.fields import input_fields
from gamay.ingest.stream.log.reader import PartitionReader
from gamay.ingest.stream.log.topic import TopicConfig, create_topic
from gamay.ingest.stream.log.writer import PartitionWriter
from gamay.ingest.stream.offsets import IntegerOffset
from gamay.ingest.stream.plugins import open_decoder
from gamay.ingest.stream.spi import MessageBatch
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig

BATCH = 20_000
REPEATS = 3
SHAPES = {
    "decode": report.Shape(
        ("messages", "decoder", "and the table's pipeline", "message by message"),
        ("JSON", "JSON, all values in quotes", "JSON, 0.1 % of the messages damaged", "Avro", "CSV", "Arrow"),
    ),
    "decode: log": report.Shape(("the embedded log", "million JSON messages a second"), ("appended", "read")),
}

AVRO = {
    "type": "record", "name": "Flight", "fields": [
        {"name": "id", "type": "long"}, {"name": "carrier", "type": "string"}, {"name": "flight", "type": "int"},
        {"name": "origin", "type": "string"}, {"name": "dest", "type": "string"},
        {"name": "tail", "type": ["null", "string"]}, {"name": "delay", "type": ["null", "int"]},
        {"name": "distance", "type": "double"}, {"name": "air_time", "type": "int"}, {"name": "ts", "type": "long"},
    ],
}  # fmt: skip
SCHEMA = Schema.from_json(
    {
        "schemaName": "flights",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "LONG"}, {"name": "carrier", "dataType": "STRING"},
            {"name": "flight", "dataType": "INT"}, {"name": "origin", "dataType": "STRING"},
            {"name": "dest", "dataType": "STRING"}, {"name": "tail", "dataType": "STRING"},
        ],
        "metricFieldSpecs": [
            {"name": "delay", "dataType": "INT"}, {"name": "distance", "dataType": "DOUBLE"},
            {"name": "air_time", "dataType": "INT"},
        ],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"},
        ],
    }
).value  # fmt: skip
TABLE = TableConfig.from_json(
    {
        "tableName": "flights", "tableType": "REALTIME", "tenants": {}, "tableIndexConfig": {},
        "segmentsConfig": {"replication": "1", "timeColumnName": "ts"},
    }
).value  # fmt: skip


def flights(count: int) -> list[dict[str, Any]]:
    """Return synthetic flights, the same in every run."""
    rng = random.Random(2013)
    airports = ["JFK", "LGA", "EWR", "LAX", "SFO", "ORD", "ATL"]
    return [
        {
            "id": i, "carrier": rng.choice(["UA", "B6", "EV", "DL"]), "flight": rng.randrange(1, 9000),
            "origin": rng.choice(airports), "dest": rng.choice(airports), "tail": f"N{rng.randrange(4000)}",
            "delay": rng.randrange(-30, 300), "distance": round(rng.uniform(80, 4983), 1),
            "air_time": rng.randrange(20, 700), "ts": 1_357_016_400_000 + 93_000 * i,
        }
        for i in range(count)
    ]  # fmt: skip


def batches(messages: list[bytes]) -> list[MessageBatch]:
    """Return messages in the form in which consumers pass them on."""
    array = pa.array(messages, pa.binary())
    found = []
    for start in range(0, len(messages), BATCH):
        part = array.slice(start, BATCH)
        offsets = pa.array(np.arange(start, start + len(part), dtype=np.int64))
        found.append(MessageBatch(part, offsets, np.zeros(len(part), np.int64), IntegerOffset(start + len(part))))
    return found


def rate(rows: int, work: Callable[[], object]) -> float:
    """Return the best of a few runs in thousands of rows a second of processor time."""
    best = float("inf")
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return rows / best / 1000


def avro_messages(rows: list[dict[str, Any]]) -> list[bytes]:
    """Return the rows as Avro without a header."""
    schema = fastavro.parse_schema(AVRO)
    found = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        found.append(out.getvalue())
    return found


def arrow_messages(rows: list[dict[str, Any]]) -> list[bytes]:
    """Return the rows as Arrow streams of a thousand each."""
    found = []
    for start in range(0, len(rows), 1000):
        table = pa.Table.from_pylist(rows[start : start + 1000])
        out = io.BytesIO()
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
        found.append(out.getvalue())
    return found


def measure(
    found: report.Report, case: str, messages: list[bytes], properties: dict[str, str] | None = None,
    other: Callable[[bytes], Any] | None = None, rows: int = 0,
) -> None:  # fmt: skip
    """Add one line. other: parses one message by itself; rows: in all messages, one in each unless given."""
    rows, decoder_name = rows or len(messages), case.partition(",")[0].lower()
    config = StreamConfig("log", "t", decoder_name=decoder_name, decoder_properties=properties or {})
    decoder = open_decoder(config, input_fields(SCHEMA, TABLE))
    pipeline = Pipeline(SCHEMA, TABLE)
    taken = batches(messages)
    decoded = rate(rows, lambda: [decoder.decode(batch) for batch in taken])
    piped = rate(rows, lambda: [pipeline.apply(decoder.decode(batch).rows) for batch in taken])
    alone = "" if other is None else _rounded(rate(rows, lambda: [other(message) for message in messages]))
    found.add(case, _rounded(decoded), _rounded(piped), alone)


def _rounded(thousands: float) -> str:
    return f"{round(thousands, -1):,.0f}"


def measure_log(found: report.Report, messages: list[bytes]) -> None:
    """Add how fast messages are appended to, and read from, the embedded log."""
    rows = len(messages)
    with tempfile.TemporaryDirectory() as folder:
        topic = create_topic(Path(folder), "t", TopicConfig(1))
        writer = PartitionWriter(topic, 0, SYSTEM_CLOCK)
        taken = batches(messages)
        appended = rate(rows, lambda: [writer.append(batch.payloads) for batch in taken])
        reader = PartitionReader(topic, 0, SYSTEM_CLOCK)

        def read() -> None:
            at = IntegerOffset(0)
            while at.value < rows:
                at = IntegerOffset(int(str(reader.fetch(at, BATCH, 64 << 20, 0).next_offset)))

        found.add("appended", f"{appended / 1000:.1f}")
        found.add("read", f"{rate(rows, read) / 1000:.1f}")
        reader.close()
        writer.close()


def main() -> None:
    """Measure all decoders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=200_000)
    arguments = report.arguments_of(parser)
    rows = flights(arguments.messages)
    json_lines = [orjson.dumps(row) for row in rows]
    schema = fastavro.parse_schema(AVRO)
    print("thousands of rows a second of one core")
    found = report.Report("decode", SHAPES["decode"])
    measure(found, "JSON", json_lines, other=orjson.loads)
    quoted = [orjson.dumps({k: str(v) for k, v in row.items()}) for row in rows]
    measure(found, "JSON, all values in quotes", quoted, other=orjson.loads)
    odd = [line if i % 1000 else b"{" for i, line in enumerate(json_lines)]
    measure(found, "JSON, 0.1 % of the messages damaged", odd)
    measure(
        found, "Avro", avro_messages(rows), {"schema": orjson.dumps(AVRO).decode()},
        lambda message: fastavro.schemaless_reader(io.BytesIO(message), schema, None),
    )  # fmt: skip
    csv = [",".join(str(value) for value in row.values()).encode() for row in rows]
    measure(found, "CSV", csv, {"header": ",".join(rows[0])}, lambda message: message.decode().split(","))
    measure(found, "Arrow", arrow_messages(rows), rows=len(rows))
    log = report.Report("decode: log", SHAPES["decode: log"])
    measure_log(log, json_lines)
    for each in (found, log):
        each.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()

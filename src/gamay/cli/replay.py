"""The flights of 2013 as a stream of events: JSON messages, in the order of their departure, at a steady rate."""

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ConflictError
from gamay.cli.flights import flights_csv
from gamay.ingest.stream.log.plugin import LogMetadata
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import Topic, TopicConfig, create_topic, open_topic, topic_names

TOPIC = "flights"
PARTITIONS = 2
_BATCH_ROWS = 500


def flights_by_departure() -> pa.Table:
    """Return all flights, ascending by time of departure. Raises NotFoundError if the data is not installed."""
    options = pyarrow.csv.ConvertOptions(
        null_values=["NA"], strings_can_be_null=True, column_types={"time_hour": pa.string()}
    )
    table = pyarrow.csv.read_csv(io.BytesIO(flights_csv()), convert_options=options)
    return table.sort_by([("time_hour", "ascending"), ("minute", "ascending"), ("flight", "ascending")])


def json_lines(rows: pa.RecordBatch) -> pa.BinaryArray:
    """Return each row as a JSON object. The strings of these rows need no escapes."""
    parts: list[Any] = []
    for number, name in enumerate(rows.schema.names):
        values = rows.column(name)
        text = values.cast(pa.string())
        if pa.types.is_string(values.type):
            text = pc.binary_join_element_wise('"', text, '"', "")
        parts += [f'{"," if number else "{"}"{name}":', pc.fill_null(text, "null")]
    return pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary())


class Replay:
    """A background thread that sends rows to a topic in a data folder, `rows_per_s` of them a second."""

    def __init__(
        self,
        data_dir: Path,
        rows: pa.Table,
        rows_per_s: int,
        *,
        name: str = TOPIC,
        key: str = "carrier",
        resume: bool = True,
    ) -> None:
        """Create the topic `name` if it does not exist. key: the text column that determines a row's partition.

        resume: skip the first rows, which an earlier run has sent. Raises ConflictError if that run ended within a batch.
        """
        folder = data_dir / "streams"
        if name in topic_names(folder):
            topic = open_topic(folder, name)
        else:
            topic = create_topic(folder, name, TopicConfig(PARTITIONS))
        self.skipped = min(_num_messages(topic), rows.num_rows) if resume else 0
        if self.skipped % _BATCH_ROWS and self.skipped < rows.num_rows:
            raise ConflictError(
                f"the topic '{name}' in {data_dir} has {self.skipped:,} messages of a replay that was interrupted; "
                "take another folder, or remove this one"
            )
        self.num_rows = rows.num_rows
        self.sent = self.skipped
        self.failure: BaseException | None = None
        self._rows = rows
        self._key = key
        self._rows_per_s = rows_per_s
        self._producer = Producer(topic, SYSTEM_CLOCK)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    @property
    def done(self) -> bool:
        """Whether everything was sent, or sending has ended."""
        return not self._thread.is_alive()

    def __enter__(self) -> "Replay":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        try:
            began = time.monotonic()
            for batch in self._batches():
                ahead_s = (self.sent - self.skipped) / self._rows_per_s - (time.monotonic() - began)
                if self._stopping.wait(max(0.0, ahead_s)):
                    return
                self._producer.send(json_lines(batch), batch.column(self._key).cast(pa.binary()))
                self.sent += batch.num_rows
        except BaseException as error:  # noqa: BLE001 - reported by the caller that waits for the rows
            self.failure = error

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for start in range(self.skipped, self.num_rows, _BATCH_ROWS):
            yield self._rows.slice(start, _BATCH_ROWS).combine_chunks().to_batches()[0]


def _num_messages(topic: Topic) -> int:
    metadata = LogMetadata(topic, SYSTEM_CLOCK)
    return sum(int(str(metadata.latest_offset(partition))) for partition in metadata.partition_ids())

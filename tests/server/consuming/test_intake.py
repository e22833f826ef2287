"""Messages to rows: every message becomes rows, or is listed with the reason."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import GamayError
from gamay.ingest.stream.offsets import IntegerOffset
from gamay.ingest.stream.spi import DecodedBatch, Gap, MessageBatch, PermanentStreamError, Undecodable
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.server.consuming.dead_letters import DeadLetterKind
from gamay.server.consuming.foreign import foreign_rows
from gamay.server.consuming.intake import Intake

SCHEMA = Schema.from_json(
    {"schemaName": "t", "metricFieldSpecs": [{"name": "n", "dataType": "INT"}], "dimensionFieldSpecs": []}
).value


class PlainDecoder:
    """Decoder of one JSON object per message; anything else is undecodable, and null is a tombstone."""

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        rows, places, bad = [], [], []
        for place, payload in enumerate(messages.payloads.to_pylist()):
            if payload is None:
                continue
            try:
                rows.append(json.loads(payload))
                places.append(place)
            except ValueError as error:
                bad.append(Undecodable(place, str(error)))
        return DecodedBatch(pa.RecordBatch.from_pylist(rows), np.array(places, np.int64), bad)


def messages(*payloads: str | None, first: int = 10, gap: Gap | None = None) -> MessageBatch:
    binary = pa.array([None if p is None else p.encode() for p in payloads], pa.binary())
    offsets = pa.array(range(first, first + len(payloads)), pa.int64())
    times = np.zeros(len(payloads), np.int64)
    return MessageBatch(binary, offsets, times, IntegerOffset(first + len(payloads)), gap=gap)


def intake(*, stop: bool = False, metadata: bool = False, **ingestion: object) -> Intake:
    document = {**TableConfig.offline("t").to_json(), "ingestionConfig": ingestion}
    config = TableConfig.from_json(document).value
    pipeline = Pipeline(SCHEMA, config, drop_failed=True)
    clock = ManualClock(5)
    return Intake("t__0__0__x", 0, PlainDecoder(), pipeline, clock, stop_on_decode_error=stop, with_metadata=metadata)


def test_rows_and_what_is_none() -> None:
    taken = intake().take(messages('{"n": "1"}', "{", None, '{"n": "x"}', '{"n": "4"}'))
    assert taken.rows is not None
    assert taken.rows.to_pylist() == [{"n": 1}, {"n": 4}]
    assert [(d.offset, d.kind, d.payload) for d in taken.dead] == [
        ("11", DeadLetterKind.UNDECODABLE, b"{"),
        ("13", DeadLetterKind.UNCONVERTIBLE, b'{"n": "x"}'),
    ]
    assert "'x' is not a valid INT" in taken.dead[1].reason


def test_what_the_stream_knows_of_a_message_can_be_a_column() -> None:
    transform = [{"columnName": "n", "transformFunction": 'CAST("__metadata$offset" AS INT)'}]
    for wanted, rows in ((True, [{"n": 10}, {"n": 12}]), (False, [{"n": None}, {"n": None}])):
        taken = intake(metadata=wanted, transformConfigs=transform, continueOnError=True).take(
            messages('{"m": 1}', None, '{"m": 2, "__metadata$offset": null}')
        )
        assert taken.rows is not None
        assert taken.rows.to_pylist() == rows


def test_filtered_and_incomplete_rows_are_counted() -> None:
    taken = intake(continueOnError=True, filterConfig={"filterFunction": "n = '9'"}).take(
        messages('{"n": "9"}', '{"n": "x"}', '{"n": "2"}')
    )
    assert taken.rows is not None
    assert taken.rows.to_pylist() == [{"n": None}, {"n": 2}]
    assert (taken.num_filtered, taken.num_incomplete, list(taken.dead)) == (1, 1, [])


def test_a_gap_is_listed_even_without_messages() -> None:
    gap = Gap(IntegerOffset(3), IntegerOffset(10))
    taken = intake().take(messages(gap=gap))
    assert taken.rows is None
    assert [(d.offset, d.next_offset, d.kind) for d in taken.dead] == [("3", "10", DeadLetterKind.GAP)]


def test_a_bad_message_can_end_consumption() -> None:
    with pytest.raises(PermanentStreamError, match="the message at offset 11 cannot become a row"):
        intake(stop=True).take(messages('{"n": 1}', "{"))


def test_a_batch_that_fails_as_a_whole_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = intake()
    whole = subject._pipeline.apply

    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        if "13" in batch.column("n").to_pylist():
            raise GamayError("an unlucky number")
        return whole(batch)

    monkeypatch.setattr(subject._pipeline, "apply", apply)
    taken = subject.take(messages(*[json.dumps({"n": str(n)}) for n in range(20)], first=0))
    assert taken.rows is not None
    assert taken.rows.column("n").to_pylist() == [n for n in range(20) if n != 13]
    assert [(d.offset, d.reason) for d in taken.dead] == [("13", "an unlucky number")]


def test_a_dead_letter_has_what_the_stream_knows_of_its_message() -> None:
    keys = pa.array([b"k", None, b"m"], pa.binary())
    headers = pa.array([[], [("h", b"1"), ("h", b"\xff")], []], pa.map_(pa.string(), pa.binary()))
    batch = replace(messages('{"n": "1"}', "{", '{"n": "x"}'), keys=keys, headers=headers)
    dead = intake().take(batch).dead
    assert [(d.offset, d.key, d.headers, d.rows_taken) for d in dead] == [
        ("11", None, [("h", b"1"), ("h", b"\xff")], 0), ("12", b"m", [], 0),
    ]  # fmt: skip
    assert dead[0].to_json()["headers"] == [["h", "MQ=="], ["h", "/w=="]]


def test_a_dead_letter_tells_how_many_rows_of_its_message_are_taken() -> None:
    subject = intake()

    class Lines:
        def decode(self, batch: MessageBatch) -> DecodedBatch:
            lines = [(place, n) for place, text in enumerate(batch.payloads.to_pylist()) for n in text.decode().split()]
            places, values = zip(*lines, strict=True)
            return DecodedBatch(pa.record_batch({"n": list(values)}), np.array(places, np.int64))

    subject._decoder = Lines()
    batch = messages("1 2", "3 x 5", "y z", "8 w")
    taken = subject.take(batch)
    found = [("11", "'x'", 2), ("12", "'y'", 0), ("12", "'z'", 0), ("13", "'w'", 1)]
    assert [(d.offset, d.reason.split()[2], d.rows_taken) for d in taken.dead] == found
    assert taken.messages.tolist() == [0, 0, 1, 1, 3]
    rejected = subject.rejected(batch, taken, {0: "no", 2: "no", 4: "no"})
    assert [(d.offset, d.kind, d.rows_taken) for d in rejected] == [
        ("10", DeadLetterKind.REJECTED, 1), ("11", DeadLetterKind.REJECTED, 1), ("13", DeadLetterKind.REJECTED, 0),
    ]  # fmt: skip


def test_rows_of_other_partitions_are_left_out_where_the_table_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def table(drops: bool) -> TableConfig:
        streams = {"streamConfigMaps": [{"streamType": "log"}], "dropRecordOnPartitionMismatch": drops}
        columns = {"n": {"functionName": "Modulo", "numPartitions": 3}}
        return TableConfig.from_json(
            {
                **TableConfig.offline("t").to_json(),
                "tableName": "t",
                "tableType": "REALTIME",
                "tableIndexConfig": {"segmentPartitionConfig": {"columnPartitionMap": columns}},
                "ingestionConfig": {"streamIngestionConfig": streams},
            }
        ).value

    assert foreign_rows("s", SCHEMA, table(False), 1) is None
    config = table(True)
    for partition in (1, 4):  # a topic of six partitions, say
        foreign = foreign_rows("s", SCHEMA, config, partition)
        pipeline = Pipeline(SCHEMA, config, drop_failed=True)
        taker = Intake("s", partition, PlainDecoder(), pipeline, ManualClock(5), foreign=foreign)
        taken = taker.take(messages('{"n": 1}', '{"n": 2}', "{", '{"n": 7}', '{"n": null}'))
        assert taken.rows is not None
        assert taken.rows.to_pylist() == [{"n": 1}, {"n": 7}]
        assert (taken.messages.tolist(), taken.num_filtered, len(taken.dead)) == ([0, 3], 2, 1)
        assert taker.take(messages('{"n": 3}')).rows is None
    told = [record.getMessage() for record in caplog.records if record.name.startswith("gamay.server.consuming")]
    assert told == ["s: rows of other partitions are dropped, such as n 2"] * 2

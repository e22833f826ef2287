"""Stream settings of table configs: forms, aliases, defaults, and the messages for refused values."""

from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.ingest.stream.config import (
    DEFAULT_FLUSH_ROWS,
    DEFAULT_FLUSH_SEGMENT_BYTES,
    FlushThresholds,
    StreamConfig,
    stream_configs,
)
from gamay.ingest.stream.offsets import IntegerOffset, OffsetCriteria, OffsetKind, parse_integer_offset
from gamay.model.table.table_config import TableConfig

BASE = {"streamType": "foo", "stream.foo.topic.name": "SomeTopic"}
FLUSH = "realtime.segment.flush."


def parse(**keys: str) -> StreamConfig:
    return StreamConfig.parse(BASE | keys)


def flush(**keys: str) -> FlushThresholds:
    return StreamConfig.parse(BASE | {FLUSH + k.replace("__", "."): v for k, v in keys.items()}).flush


def test_the_example_of_the_documents_is_read() -> None:
    config = StreamConfig.parse(
        {
            "streamType": "foo",
            "stream.foo.topic.name": "SomeTopic",
            "stream.foo.consumer.type": "lowlevel",
            "stream.foo.consumer.factory.class.name": "fully.qualified.pkg.ConsumerFactoryClassName",
            "stream.foo.consumer.prop.auto.offset.reset": "largest",
            "stream.foo.decoder.class.name": "fully.qualified.pkg.DecoderClassName",
            "stream.foo.decoder.prop.a.decoder.property": "decoderPropValue",
            "stream.foo.connection.timeout.millis": "10000",
            "stream.foo.fetch.timeout.millis": "10000",
            "stream.foo.some.buffer.size": "24g",
            "realtime.segment.flush.threshold.size": "100000",
            "realtime.segment.flush.threshold.time": "6h",
        }
    )
    assert (config.stream_type, config.topic) == ("foo", "SomeTopic")
    assert (config.is_low_level, config.is_high_level) == (True, False)
    assert config.factory_name == "fully.qualified.pkg.ConsumerFactoryClassName"
    assert config.decoder_properties == {"a.decoder.property": "decoderPropValue"}
    assert (config.connection_timeout_ms, config.fetch_timeout_ms) == (10_000, 10_000)
    assert config.properties == {"some.buffer.size": "24g"}
    assert config.flush.rows == 100_000
    assert config.flush.time_ms == 6 * 3_600_000


def test_defaults() -> None:
    config = parse()
    assert config.fetch_timeout_ms == 5_000
    assert config.connection_timeout_ms == 30_000
    assert config.idle_timeout_ms == 180_000
    assert config.offset_criteria.kind is OffsetKind.LARGEST
    assert config.flush == FlushThresholds(rows=DEFAULT_FLUSH_ROWS)
    assert parse(**{"stream.foo.idle.timeout.millis": "-1"}).idle_timeout_ms is None


def test_which_threshold_decides() -> None:
    assert flush(threshold__rows="7").rows == 7
    assert flush(threshold__size="7").rows == 7
    by_size = FlushThresholds(rows=None, segment_bytes=DEFAULT_FLUSH_SEGMENT_BYTES)
    assert flush(threshold__rows="0") == by_size
    assert flush(threshold__size="0") == by_size
    assert flush(threshold__size="0", desired__size="50M").segment_bytes == 50 << 20
    assert flush(threshold__segment__size="1.5G").segment_bytes == 3 << 29
    fixed = flush(threshold__segment__rows="9")
    assert (fixed.rows, fixed.segment_rows, fixed.segment_bytes) == (None, 9, None)
    # the older pair of keys was often written with both set: the size counts only when the rows are 0
    assert flush(threshold__size="100", desired__size="50M") == FlushThresholds(rows=100)


def test_memory_is_a_threshold_beside_the_others() -> None:
    assert flush(threshold__rows="7").memory_bytes is None
    found = flush(threshold__rows="7", threshold__memory="1.5M")
    assert (found.rows, found.memory_bytes) == (7, 3 << 19)
    assert flush(threshold__memory="").memory_bytes is None


def test_llc_keys_override_for_partition_level_consumption_only() -> None:
    keys = {FLUSH + "threshold.size": "100", FLUSH + "threshold.size.llc": "40", FLUSH + "threshold.time.llc": "30m"}
    config = parse(**keys)
    assert (config.flush.rows, config.flush.time_ms) == (40, 1_800_000)
    assert (config.high_level_flush.rows, config.high_level_flush.time_ms) == (100, 6 * 3_600_000)
    assert parse(**keys, **{FLUSH + "threshold.rows": "5"}).flush.rows == 5


def test_times_may_be_plain_milliseconds() -> None:
    assert flush(threshold__time="60000").time_ms == 60_000
    assert flush(threshold__time="1d12h").time_ms == 36 * 3_600_000


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({FLUSH + "threshold.rows": "5", FLUSH + "threshold.segment.rows": "6"}, "at most one"),
        ({FLUSH + "threshold.rows": "5", FLUSH + "threshold.segment.size": "6M"}, "at most one"),
        ({FLUSH + "threshold.rows": "many"}, "threshold.rows: 'many' is not a whole number"),
        ({FLUSH + "threshold.memory": "0"}, "threshold.memory: '0' is no memory for rows; write a size like 512M"),
        ({FLUSH + "threshold.memory": "much"}, "threshold.memory: "),
        ({FLUSH + "threshold.time": "0"}, "must be greater than 0"),
        ({FLUSH + "threshold.time": "6 hours"}, "is not a period"),
        ({FLUSH + "threshold.rowz": "5"}, "Did you mean 'realtime.segment.flush.threshold.rows'?"),
        ({"partition.consumption.rate.limit": "fast"}, "partition.consumption.rate.limit: 'fast' is not a number"),
        ({"stream.foo.consumer.type": "sideways"}, "consumer type"),
        ({"stream.bar.topic.name": "x"}, "another stream type"),
        ({"stream.foo.consumer.prop.auto.offset.reset": "earliest"}, "Write 'smallest'"),
        ({"realtime.segment.offsetAutoReset.enable": "true"}, "offsetThreshold"),
    ],
)
def test_what_is_wrong_is_refused_with_its_key(keys: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfigError, match=words.replace("?", r"\?").replace(".", r"\.")):
        parse(**keys)


def test_defaults_take_the_place_of_some_wrong_values_with_a_warning() -> None:
    wrong = {f"stream.foo.{name}.timeout.millis": "soon" for name in ("fetch", "connection", "idle")}
    config = parse(**wrong, **{FLUSH + "threshold.variance.fraction": "0.5", FLUSH + "threshold.time": "2h"})
    assert (config.fetch_timeout_ms, config.connection_timeout_ms, config.idle_timeout_ms) == (5_000, 30_000, 180_000)
    assert (config.flush.variance_fraction, config.flush.time_ms) == (0.0, 7_200_000)
    assert len(config.warnings) == 4
    assert (
        "streamConfigs: stream.foo.fetch.timeout.millis: 'soon' is not a whole number; 5000 is taken instead"
        in config.warnings
    )
    assert parse().warnings == ()


def test_limits_that_are_none_are_named() -> None:
    keys = ["threshold.rows", "threshold.segment.rows", "threshold.segment.size", "autotune.initialRows"]
    for name in [*keys, "threshold.size", "threshold.size.llc", "desired.size"]:
        told = f"streamConfigs: {FLUSH}{name} has no effect: -5 is no limit; write one greater than 0, or leave the key out"
        config = parse(**{FLUSH + name: "-5"})
        assert (config.warnings, config.flush) == ((told,), parse().flush)
        for none in ("-1", ""):
            assert parse(**{FLUSH + name: none}).warnings == ()
    for text in ("-5", "0", "-5m"):
        with pytest.raises(InvalidConfigError, match=FLUSH.replace(".", r"\.") + "threshold.time"):
            parse(**{FLUSH + "threshold.time": text})
    with pytest.raises(InvalidConfigError, match="is not a whole number"):
        parse(**{FLUSH + "threshold.segment.size": "-5M"})


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        StreamConfig.parse({"streamType": "foo", FLUSH + "threshold.rows": "x", FLUSH + "threshold.time": "y"})
    assert "topic.name: is required" in str(caught.value)
    assert "threshold.rows" in str(caught.value)
    assert "threshold.time" in str(caught.value)


def test_keys_without_a_prefix_are_left_to_the_client_library() -> None:
    config = parse(**{"security.protocol": "SASL_SSL", "stream.foo.consumer.prop.group.id": "g"})
    assert config.client_properties == {"security.protocol": "SASL_SSL"}
    assert config.consumer_properties == {"group.id": "g"}


def test_both_kinds_of_consumers_at_once() -> None:
    config = parse(**{"stream.foo.consumer.type": "highLevel,simple"})
    assert config.is_low_level
    assert config.is_high_level


@pytest.mark.parametrize(
    ("text", "kind", "millis"),
    [
        ("smallest", OffsetKind.SMALLEST, 0),
        ("LARGEST", OffsetKind.LARGEST, 0),
        ("2d", OffsetKind.PERIOD, 172_800_000),
        ("1970-01-01T00:00:01.500Z", OffsetKind.TIMESTAMP, 1_500),
        ("1970-01-01T01:00:00.000+0100", OffsetKind.TIMESTAMP, 0),
        ("1700000000000", OffsetKind.TIMESTAMP, 1_700_000_000_000),
    ],
)
def test_offset_criteria(text: str, kind: OffsetKind, millis: int) -> None:
    assert OffsetCriteria.parse(text) == OffsetCriteria(kind, millis)


@pytest.mark.parametrize("text", ["latest", "", "2026-13-01T00:00:00.000Z", "2d ago", "-5"])
def test_other_criteria_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError):
        OffsetCriteria.parse(text)


def test_integer_offsets_are_ordered_and_come_back_from_text() -> None:
    assert IntegerOffset(9) < IntegerOffset(10)
    assert parse_integer_offset(str(IntegerOffset(2**62))) == IntegerOffset(2**62)
    with pytest.raises(InvalidConfigError):
        parse_integer_offset("ten")


def table(ingestion: Any = None, older: Any = None) -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": "t", "tableType": "REALTIME", "segmentsConfig": {"replication": "1"}, "tenants": {},
            "tableIndexConfig": {"streamConfigs": older} if older else {},
            "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": ingestion}} if ingestion else {},
        }
    ).value  # fmt: skip


def test_topics_of_a_table() -> None:
    second = BASE | {"stream.foo.topic.name": "Other"}
    assert [c.topic for c in stream_configs(table([BASE, second]))] == ["SomeTopic", "Other"]
    assert [c.topic for c in stream_configs(table(older=BASE))] == ["SomeTopic"]
    assert stream_configs(table()) == ()
    for bad, words in (
        ([BASE, BASE], "twice"),
        ([BASE, second | {FLUSH + "threshold.rows": "3"}], "flush thresholds"),
        ([BASE, {"streamType": "bar", "stream.bar.topic.name": "x"}], "same streamType"),
    ):
        with pytest.raises(InvalidConfigError, match=words):
            stream_configs(table(bad))
    with pytest.raises(InvalidConfigError, match="exclude each other"):
        stream_configs(table([BASE], BASE))

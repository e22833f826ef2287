"""Settings of Kafka streams: which the client receives, and which are refused. No broker is needed."""

from typing import Any

import pyarrow as pa
import pytest

from gamay.base.errors import InvalidConfigError
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.kafka import KafkaStream
from gamay.ingest.stream.kafka_settings import producer_settings
from gamay.ingest.stream.plugins import open_stream
from gamay.ingest.stream.spi import StreamContext, TransientStreamError

BASE = {"streamType": "kafka", "stream.kafka.topic.name": "t", "stream.kafka.broker.list": "a:1,b:2"}


def stream(**keys: str) -> Any:
    return open_stream(StreamConfig.parse(BASE | keys), StreamContext(client_id="me"))


def test_the_names_of_the_java_client_are_understood() -> None:
    made = stream(
        **{
            "stream.kafka.consumer.factory.class.name": "org.apache.pinot.plugin.stream.kafka30.KafkaConsumerFactory",
            "stream.kafka.isolation.level": "read_committed",
            "stream.kafka.hlc.zk.connect.string": "zk:2181",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'o.a.k.PlainLoginModule required username="u" password="p\\"=;w";',
            "ssl.truststore.location": "/etc/ca.pem",
            "ssl.endpoint.identification.algorithm": "",
            "stream.kafka.consumer.prop.max.poll.records": "7",
            "stream.kafka.consumer.prop.fetch.min.bytes": "9",
            "enable.auto.commit": "true",
        }
    )
    assert isinstance(made, KafkaStream)
    settings = made.settings
    assert settings["bootstrap.servers"] == "a:1,b:2"
    assert settings["isolation.level"] == "read_committed"
    assert (settings["sasl.username"], settings["sasl.password"]) == ("u", 'p"=;w')
    assert settings["ssl.ca.location"] == "/etc/ca.pem"
    assert settings["ssl.endpoint.identification.algorithm"] == "none"
    assert settings["fetch.min.bytes"] == "9"
    assert settings["client.id"] == "me"
    assert settings["enable.auto.commit"] is False
    assert "max.poll.records" not in settings
    assert "sasl.jaas.config" not in settings


def test_a_producer_is_connected_as_the_consumer_is_and_acknowledged_by_all() -> None:
    config = StreamConfig.parse(
        BASE
        | {
            "stream.kafka.connection.timeout.millis": "7000",
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": "/etc/ca.pem",
            "compression.type": "zstd",
            "acks": "0",
            "enable.idempotence": "false",
            "transactional.id": "mine",
            "delivery.report.only.error": "true",
            "stream.kafka.consumer.prop.fetch.min.bytes": "9",
        }
    )
    settings = producer_settings(config, "me")
    assert settings == {
        "bootstrap.servers": "a:1,b:2", "client.id": "me", "security.protocol": "SASL_SSL", "ssl.ca.location": "/etc/ca.pem",
        "compression.type": "zstd", "socket.timeout.ms": 10_000, "socket.receive.buffer.bytes": 512_000,
        "reconnect.backoff.ms": 200, "reconnect.backoff.max.ms": 5_000, "linger.ms": 5, "message.max.bytes": 1_000_000_000,
        "enable.idempotence": True, "acks": "all", "message.timeout.ms": 7_000,
    }  # fmt: skip
    with pytest.raises(InvalidConfigError, match="it would load code"):
        producer_settings(StreamConfig.parse(BASE | {"plugin.library.paths": "mine"}), "me")


def test_a_broker_that_is_not_there_is_not_waited_for_without_end() -> None:
    keys = {"stream.kafka.broker.list": "127.0.0.1:9", "stream.kafka.connection.timeout.millis": "200"}
    producer = stream(**keys).producer()
    sent = producer.send(0, pa.array([b"a", b"b"], pa.binary()), None, None)
    assert [type(error) for error in sent] == [TransientStreamError] * 2
    assert "_MSG_TIMED_OUT" in str(sent[0])
    producer.close()
    metadata = stream(**keys).metadata()
    with pytest.raises(TransientStreamError, match=r"^Kafka topic 't' at 127\.0\.0\.1:9, metadata: .*_TRANSPORT"):
        metadata.partition_ids()
    metadata.close()


def test_partition_ids() -> None:
    assert stream(**{"stream.kafka.partition.ids": "0-3, 7,5"}).partition_ids == (0, 1, 2, 3, 5, 7)
    assert stream().partition_ids is None


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"stream.kafka.broker.list": ""}, "stream.kafka.broker.list is required"),
        ({"stream.kafka.isolation.level": "serial"}, "isolation.level: 'serial'"),
        ({"stream.kafka.isolation.levl": "x"}, "Did you mean 'isolation.level'"),
        ({"stream.kafka.partition.ids": "0-"}, "neither a partition nor a range"),
        ({"stream.kafka.partition.ids": "0-10000"}, "at most 10000"),
        ({"stream.kafka.socket.timeout": "soon"}, "socket.timeout: 'soon'"),
        ({"ssl.truststore.location": "/a.jks"}, "a Java key store cannot be read"),
        ({"sasl.jaas.config": "nothing"}, "username and password are missing"),
        ({"plugin.library.paths": "mine"}, "cannot set this: it would load code"),
        ({"stream.kafka.consumer.prop.plugin.library.paths": "mine"}, "cannot set this: it would load code"),
        ({"plugin.library.paths\0x": "mine"}, "a setting's name has letters"),
        ({"ssl.ca.location": "/etc/ca.pem\0x"}, "its value no zero byte"),
        ({"ssl.engine.location": "mine.so"}, "cannot set this: it would load code"),
        ({"sasl.kerberos.kinit.cmd": "touch mine"}, "cannot set this: it would run a command"),
        ({"offset.store.path": "/tmp"}, "cannot set this: it would write files"),
        ({"sasl.oauthbearer.metadata.authentication.type": "azure_imds"}, "credentials of this machine"),
    ],
)
def test_what_is_wrong_is_named(keys: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfigError, match=words):
        stream(**keys)


def test_a_setting_that_the_client_refuses_is_named() -> None:
    with pytest.raises(InvalidConfigError, match=r"no\.such\.thing"):
        stream(**{"no.such.thing": "1"}).metadata()


@pytest.mark.parametrize("name", ["error_cb", "default.topic.config"])
def test_a_setting_that_is_no_text_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfigError, match="the stream of topic 't'"):
        stream(**{name: "1"}).metadata()


def test_unknown_types_and_keys_of_other_streams() -> None:
    with pytest.raises(InvalidConfigError, match=r"unknown stream type 'kafak'.*Did you mean 'kafka'"):
        open_stream(StreamConfig.parse({"streamType": "kafak", "stream.kafak.topic.name": "t"}), StreamContext())
    with pytest.raises(InvalidConfigError, match=r"security\.protocol: is not a known key"):
        open_stream(
            StreamConfig.parse({"streamType": "log", "stream.log.topic.name": "t", "security.protocol": "x"}),
            StreamContext(),
        )

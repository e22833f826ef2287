"""Translation of Kafka's keys in `streamConfigs`, including those of its Java client, to settings of librdkafka."""

import re
from collections.abc import Iterator
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.ingest.stream.config import TOPIC_PARTITIONS_MAX, StreamConfig

_LEGACY = ("zk.broker.url", "hlc.zk.connect.string", "hlc.bootstrap.server", "hlc.group.id")
_JAVA_ONLY = (
    "key.deserializer", "value.deserializer", "partition.assignment.strategy", "interceptor.classes", "metric.reporters",
    "receive.buffer.bytes", "send.buffer.bytes", "request.timeout.ms", "max.poll.records", "max.poll.interval.ms",
    "fetch.max.wait.ms", "sasl.login.callback.handler.class", "ssl.truststore.type", "ssl.keystore.type",
)  # fmt: skip
_TRANSLATED = {
    "receive.buffer.bytes": "socket.receive.buffer.bytes", "send.buffer.bytes": "socket.send.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms", "fetch.max.wait.ms": "fetch.wait.max.ms",
}  # fmt: skip
_JAAS = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")
_OWN = ("bootstrap.servers", "group.id", "enable.auto.commit", "enable.auto.offset.store", "isolation.level", "client.id")

_BROKER = re.compile(r"(?:([A-Za-z_]+)://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_PORT = 9092
_SETTING = re.compile(r"[A-Za-z0-9._-]+")  # the library truncates a name at its first zero byte
_FILES = re.compile(r"\.(location|file|keytab|url)$")
_REFUSED = {
    "metadata.broker.list": "stream.kafka.broker.list names the brokers",
    "plugin.library.paths": "it would load code", "ssl.engine.location": "it would load code",
    "ssl.engine.id": "it would load code", "ssl.providers": "it would load code",
    "sasl.kerberos.kinit.cmd": "it would run a command", "offset.store.path": "it would write files",
    "offset.store.method": "it would write files",
    "sasl.oauthbearer.metadata.authentication.type": "it would send the credentials of this machine to the broker",
}  # fmt: skip

_CONSUMING = (
    "group.id", "group.instance.id", "enable.auto.commit", "enable.auto.offset.store", "isolation.level",
    "auto.offset.reset", "enable.partition.eof", "fetch.wait.max.ms", "fetch.error.backoff.ms", "queued.min.messages",
    "queued.max.messages.kbytes", "fetch.queue.backoff.ms", "fetch.message.max.bytes", "max.partition.fetch.bytes",
    "fetch.max.bytes", "fetch.min.bytes", "check.crcs",
)  # fmt: skip
"""Settings that apply to consumers only."""
_PRODUCING = (
    "acks", "request.required.acks", "enable.idempotence", "transactional.id", "max.in.flight", "retries",
    "max.in.flight.requests.per.connection", "message.send.max.retries", "queuing.strategy", "delivery.timeout.ms",
    "message.timeout.ms", "message.max.bytes", "delivery.report.only.error", "dr_cb", "dr_msg_cb", "on_delivery",
)  # fmt: skip
"""Producer settings that a table cannot override, so that each acknowledged message is stored exactly once."""
_MESSAGE_BYTES_MAX = 1_000_000_000

PROPERTIES = frozenset(
    {
        "broker.list", "isolation.level", "buffer.size", "socket.timeout", "fetcher.size", "fetcher.minBytes",
        "partition.ids", *_LEGACY,
    }
)  # fmt: skip
"""The known keys below `stream.kafka.`; older ones among them have no effect."""


def client_settings(config: StreamConfig, client_id: str) -> dict[str, Any]:
    """Return librdkafka's settings; raises InvalidConfigError naming the missing or invalid key."""
    brokers = [f"{protocol}{host}:{port}" for protocol, host, port in _brokers(config)[1]]
    isolation = config.properties.get("isolation.level", "read_uncommitted").strip()
    if isolation not in ("read_committed", "read_uncommitted"):
        key = config.property_key("isolation.level")
        raise InvalidConfigError(f"{key}: '{isolation}' is neither read_committed nor read_uncommitted")
    settings: dict[str, Any] = {
        "bootstrap.servers": ",".join(brokers),
        "client.id": client_id,
        "group.id": f"gamay-{config.topic}",  # required by librdkafka, although partition consumers join no group
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": isolation,
        "auto.offset.reset": "error",
        "enable.partition.eof": False,
        "fetch.wait.max.ms": 50,
        "fetch.error.backoff.ms": 50,
        "reconnect.backoff.ms": 200,
        "reconnect.backoff.max.ms": 5_000,
        "queued.min.messages": 100_000,
        "fetch.queue.backoff.ms": 10,  # with the default of 1 s, a full queue drains before fetching resumes
        "queued.max.messages.kbytes": 65_536,
        "socket.timeout.ms": max(_number(config, "socket.timeout", 10_000), 1_000),
        "socket.receive.buffer.bytes": _number(config, "buffer.size", 512_000),
        "fetch.message.max.bytes": max(_number(config, "fetcher.size", 0), 1 << 20),
    }
    given = {**config.consumer_properties, **config.client_properties}
    for name, value in given.items():
        if name not in _OWN:
            settings |= _client_setting(name, value)
    return settings


def producer_settings(config: StreamConfig, client_id: str) -> dict[str, Any]:
    """Return librdkafka's settings for producing to a table's topic; raises as `client_settings` does."""
    shared = client_settings(config, client_id)
    for name in (*_CONSUMING, *_PRODUCING):
        shared.pop(name, None)
    return shared | {
        "enable.idempotence": True,
        "acks": "all",
        "message.timeout.ms": max(config.connection_timeout_ms, 1_000),
        "message.max.bytes": _MESSAGE_BYTES_MAX,  # the broker enforces and reports its own limit
        "linger.ms": 5,
    }


def broker_addresses(config: StreamConfig) -> Iterator[tuple[str, str]]:
    """Yield the config key and URI of each bootstrap broker, from which the client discovers the others."""
    key, brokers = _brokers(config)
    for _, host, port in brokers:
        yield key, f"kafka://{host}:{port}"


def _brokers(config: StreamConfig) -> tuple[str, list[tuple[str, str, int]]]:
    """Return the config key and each broker's protocol (`SSL://`), host and port; stricter than librdkafka's own parser."""
    key, given = config.property_key("broker.list"), config.properties.get("broker.list")
    if not given:
        given = config.client_properties.get("bootstrap.servers", "")
        key = "bootstrap.servers" if given else key
    found = []
    for broker in filter(None, map(str.strip, given.split(","))):
        match = _BROKER.fullmatch(broker)
        if match is None or int(match[3] or _PORT) > 65_535:
            raise InvalidConfigError(f"{key}: '{broker}' is no broker, which is written host:port, or [::1]:port for IPv6")
        found.append((f"{match[1]}://" if match[1] else "", match[2], int(match[3] or _PORT)))
    if not found:
        raise InvalidConfigError(f"{key} is required: host:port, several with commas")
    return key, found


def named_files(config: StreamConfig) -> Iterator[tuple[str, str]]:
    """Yield name and value of each setting that makes the client read a file or send HTTP requests."""
    for name, value in {**config.consumer_properties, **config.client_properties}.items():
        if _FILES.search(name) and value not in ("", "probe"):  # ssl.ca.location: the system's trust store
            yield name, value


def _client_setting(name: str, value: str) -> dict[str, str]:
    """Return librdkafka's setting for one of Kafka's Java client; empty if it has no counterpart."""
    if name in _REFUSED:
        raise InvalidConfigError(f"{name}: a table's config cannot set this: {_REFUSED[name]}")
    if not _SETTING.fullmatch(name) or "\0" in value:
        raise InvalidConfigError(f"{name!r}: a setting's name has letters, digits, '.', '_' and '-', its value no zero byte")
    if name == "sasl.jaas.config":
        return _jaas(value)
    if name in ("ssl.truststore.location", "ssl.keystore.location") and not value.lower().endswith((".p12", ".pfx", ".pem")):
        raise InvalidConfigError(f"{name}: a Java key store cannot be read; give one in .p12, or ssl.ca.location in PEM")
    if name == "ssl.truststore.location":
        return {"ssl.ca.location": value}
    if name == "ssl.endpoint.identification.algorithm":
        return {name: value or "none"}
    if name in _TRANSLATED:
        return {_TRANSLATED[name]: value}
    return {} if name in (*_JAVA_ONLY, "ssl.truststore.password") else {name: value}


def _jaas(text: str) -> dict[str, str]:
    found = {name: re.sub(r"\\(.)", r"\1", a or b or c) for name, a, b, c in _JAAS.findall(text)}
    if "username" not in found or "password" not in found:
        raise InvalidConfigError(
            "sasl.jaas.config: username and password are missing; sasl.username and sasl.password do too"
        )
    return {"sasl.username": found["username"], "sasl.password": found["password"]}


def _number(config: StreamConfig, name: str, default: int) -> int:
    text = config.properties.get(name, "").strip()
    if text and not re.fullmatch(r"\d{1,10}", text, re.ASCII):
        raise InvalidConfigError(f"{config.property_key(name)}: '{text}' is not a whole number")
    return int(text) if text else default


def partition_ids(config: StreamConfig) -> tuple[int, ...] | None:
    """Return the partitions to consume in ascending order, parsed from text such as `0-99,200`; None for all."""
    text = config.properties.get("partition.ids", "").strip()
    if not text:
        return None
    key = config.property_key("partition.ids")
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part, re.ASCII)
        if match is None:
            raise InvalidConfigError(f"{key}: '{part}' is neither a partition nor a range such as '0-99'")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= TOPIC_PARTITIONS_MAX:
            raise InvalidConfigError(f"{key}: '{part}' is no range of at most {TOPIC_PARTITIONS_MAX} partitions")
        found.update(range(first, last + 1))
    if len(found) > TOPIC_PARTITIONS_MAX:
        raise InvalidConfigError(f"{key}: at most {TOPIC_PARTITIONS_MAX} partitions can be named, not {len(found)}")
    return tuple(sorted(found))

"""`gamay topic` and `gamay produce`: the embedded stream on the command line, with or without a running cluster."""

import os
import select
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError, InvalidConfigError

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_BYTES = 8 << 20
_READ_BYTES = 1 << 20


def create_topic(data_dir: Path, name: str, partitions: int, settings: dict[str, str | None]) -> None:
    """Create a topic. settings: `retention`, `retention_size` and `segment_size` as text, None where not given."""
    from gamay.ingest.stream.log.topic import TopicConfig, with_changes
    from gamay.ingest.stream.log.topic import create_topic as create

    create(_folder(data_dir), name, with_changes(TopicConfig(partitions), **_parsed(settings)))
    print(f"created the topic '{name}' with {partitions} partition{'s' if partitions > 1 else ''}")


def alter_topic(data_dir: Path, name: str, partitions: int | None, settings: dict[str, str | None]) -> None:
    """Add partitions to a topic, or change its retention."""
    from gamay.ingest.stream.log.topic import open_topic, with_changes

    topic = open_topic(_folder(data_dir), name)
    topic.alter(with_changes(topic.config(), partitions=partitions, **_parsed(settings)))
    print(f"changed the topic '{name}': {asdict(topic.config())}")


def list_topics(data_dir: Path) -> None:
    """Print each topic with the first and the next offset of its partitions."""
    from gamay.ingest.stream.log.plugin import LogMetadata
    from gamay.ingest.stream.log.topic import open_topic, topic_names
    from gamay.ingest.stream.offsets import LARGEST, SMALLEST

    folder = _folder(data_dir)
    for name in topic_names(folder):
        metadata = LogMetadata(open_topic(folder, name), SYSTEM_CLOCK)
        ranges = [f"{metadata.offset(p, SMALLEST)}-{metadata.offset(p, LARGEST)}" for p in metadata.partition_ids()]
        print(f"{name}\t{len(ranges)}\t{' '.join(ranges)}")


def produce(data_dir: Path, name: str, partition: int | None, key: str | None) -> None:
    """Append the lines of standard input; print their number when all are durable.

    Raises GamayError, with the number of lines appended before the failure.
    """
    import pyarrow.compute as pc

    from gamay.ingest.stream.log.producer import Producer, keys_of_lines
    from gamay.ingest.stream.log.topic import open_topic

    if partition is not None and key is not None:
        raise InvalidConfigError("--partition and --key exclude each other")
    producer = Producer(open_topic(_folder(data_dir), name), SYSTEM_CLOCK)
    sent = lines_read = 0
    try:
        for lines in _lines(sys.stdin.fileno()):
            keys = None if key is None else keys_of_lines(lines, key, lines_read + 1)
            lines_read += len(lines)
            wanted = pc.not_equal(lines, b"")
            if not pc.all(wanted).as_py():
                lines, keys = lines.filter(wanted), None if keys is None else keys.filter(wanted)
            producer.send(lines, keys, partition)
            sent += len(lines)
    except GamayError as error:
        raise type(error)(f"{error} ({sent} messages before it were appended)") from error
    finally:
        producer.close()
    ends = ", ".join(f"partition {p} ends at {end}" for p, end in sorted(producer.ends.items()))
    print(f"appended {sent} messages to '{name}'{': ' if ends else ''}{ends}")


def _lines(descriptor: int) -> Iterator["pa.BinaryArray"]:
    """Yield the lines as they arrive, many at a time if they arrive fast; the last one need not end in a newline."""
    import pyarrow as pa

    parts: list[bytes] = []
    size = 0
    while data := os.read(descriptor, _READ_BYTES):
        parts.append(data)
        size += len(data)
        if size < _BATCH_BYTES and select.select([descriptor], [], [], 0)[0]:
            continue
        whole, newline, rest = b"".join(parts).rpartition(b"\n")
        if newline:
            yield pa.array(whole.replace(b"\r\n", b"\n").split(b"\n"), pa.binary())
        parts, size = [rest], len(rest)
    last = b"".join(parts).removesuffix(b"\n")
    if last:
        yield pa.array(last.replace(b"\r\n", b"\n").split(b"\n"), pa.binary())


def _folder(data_dir: Path) -> Path:
    from gamay.roles.layout import Layout

    return Layout(data_dir).streams


def _parsed(settings: dict[str, str | None]) -> dict[str, int | None]:
    from gamay.model.units import parse_data_size, parse_period

    retention, size, segment = (settings[name] for name in ("retention", "retention_size", "segment_size"))
    return {
        "retention_ms": None if retention is None else parse_period(retention),
        "retention_bytes": None if size is None else parse_data_size(size),
        "segment_bytes": None if segment is None else parse_data_size(segment),
    }

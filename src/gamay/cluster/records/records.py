"""The cluster's records as objects, each with its two-way conversion to the ZNRecord that tools know."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import orjson

from gamay.cluster.store.znrecord import ZNRecord

ONLINE = "ONLINE"
OFFLINE = "OFFLINE"
CONSUMING = "CONSUMING"
ERROR = "ERROR"
DROPPED = "DROPPED"
SEGMENT_STATES = frozenset({ONLINE, OFFLINE, CONSUMING, ERROR, DROPPED})

IN_PROGRESS = "IN_PROGRESS"  # consuming
COMMITTING = "COMMITTING"  # pauseless tables: end decided, copy not stored yet, the next segment is already consuming
DONE = "DONE"
UPLOADED = "UPLOADED"
SEGMENT_STATUSES = frozenset({IN_PROGRESS, COMMITTING, DONE, UPLOADED})

_ZK_INT = {
    "segment.start.time": "start_time_ms",
    "segment.end.time": "end_time_ms",
    "segment.total.docs": "total_docs",
    "segment.crc": "crc",
    "segment.creation.time": "creation_time_ms",
    "segment.push.time": "push_time_ms",
    "segment.refresh.time": "refresh_time_ms",
    "segment.size.in.bytes": "size_bytes",
    "segment.realtime.numReplicas": "num_replicas",
    "segment.flush.threshold.size": "flush_threshold_rows",
    "gamay.segment.end.time": "end_decided_ms",
    "gamay.segment.abandoned.time": "abandoned_ms",
}
_ZK_TEXT = {
    "segment.start.time.raw": "start_time_raw",
    "segment.end.time.raw": "end_time_raw",
    "segment.time.unit": "time_unit",
    "segment.index.version": "index_version",
    "segment.download.url": "download_url",
    "segment.crypter": "crypter",
    "segment.partition.metadata": "partition_metadata",
    "segment.tier": "tier",
    "segment.realtime.status": "status",
    "segment.realtime.startOffset": "start_offset",
    "segment.realtime.endOffset": "end_offset",
    "gamay.segment.lost.offsets": "lost_offsets",
    "gamay.segment.stop.reason": "stop_reason",
    "gamay.segment.columns": "column_stats",
}
_CUSTOM_MAP = "custom.map"
_STREAM_PLACE = (
    "status", "start_offset", "end_offset", "lost_offsets", "stop_reason", "num_replicas", "flush_threshold_rows",
    "end_decided_ms", "creation_time_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """The cluster's metadata of a segment.

    Numbers are -1 when unknown; times are milliseconds. `column_stats` is the text of `gamay.cluster.records.column_stats`,
    empty when there is none. `extra` keeps fields of other writers.

    Consumed segments also have: status IN_PROGRESS, COMMITTING or DONE; the offsets of their rows, from start_offset
    up to end_offset (exclusive, empty until it is decided); num_replicas that consume, and flush_threshold_rows at
    which they stop. end_decided_ms, stop_reason: when and why end_offset was decided. abandoned_ms: the time since
    which no server may commit the segment, because another one replaced it. lost_offsets: `<from>,<to>` if the stream
    had deleted the rows between the preceding segment's end and start_offset. download_url may be empty with DONE:
    then only servers have copies.
    """

    name: str
    crc: int = -1
    total_docs: int = -1
    start_time_ms: int = -1
    end_time_ms: int = -1
    creation_time_ms: int = -1
    push_time_ms: int = -1
    refresh_time_ms: int = -1
    size_bytes: int = -1
    num_replicas: int = -1
    flush_threshold_rows: int = -1
    end_decided_ms: int = -1
    abandoned_ms: int = -1
    start_time_raw: str = ""
    end_time_raw: str = ""
    time_unit: str = ""
    index_version: str = "v3"
    download_url: str = ""
    crypter: str = ""
    partition_metadata: str = ""
    tier: str = ""
    status: str = UPLOADED
    start_offset: str = ""
    end_offset: str = ""
    lost_offsets: str = ""
    stop_reason: str = ""
    column_stats: str = ""
    custom: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: ZNRecord) -> "SegmentRecord":
        """Convert from a record. Raises ValueError for an invalid number."""
        known: dict[str, Any] = {}
        extra: dict[str, str] = {}
        for key, text in record.simple.items():
            if key in _ZK_INT:
                known[_ZK_INT[key]] = int(text)
            elif key in _ZK_TEXT:
                known[_ZK_TEXT[key]] = text
            elif key != _CUSTOM_MAP:
                extra[key] = text
        custom = record.maps.get(_CUSTOM_MAP) or orjson.loads(record.simple.get(_CUSTOM_MAP) or "{}")
        return cls(record.id, **known, custom=custom, extra=extra)

    def to_record(self) -> ZNRecord:
        """Convert to a record; unknown fields are left out, except those that clients always read."""
        simple = dict(self.extra)
        always = ("segment.crc", "segment.total.docs", "segment.start.time", "segment.end.time", "segment.creation.time")
        for key, name in _ZK_INT.items():
            value = getattr(self, name)
            if value != -1 or key in always:
                simple[key] = str(value)
        for key, name in _ZK_TEXT.items():
            if text := getattr(self, name):
                simple[key] = text
        if self.custom:
            simple[_CUSTOM_MAP] = orjson.dumps(dict(self.custom)).decode()
        return ZNRecord(self.name, simple)

    @property
    def complete(self) -> bool:
        """Whether the segment's rows are final and its copies can be verified: not while it is consumed or built."""
        return self.status in (DONE, UPLOADED)

    def stream_place(self) -> dict[str, Any]:
        """Return the fields about a segment's place in its stream, which are kept when its data is replaced."""
        return {name: getattr(self, name) for name in _STREAM_PLACE} if self.start_offset else {}

    def with_changes(self, **changes: Any) -> "SegmentRecord":
        """Return a copy with some fields replaced."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Assignment:
    """An ideal state or external view: the state of each segment on each instance.

    states: segment -> instance -> state.
    """

    resource: str
    states: Mapping[str, Mapping[str, str]]
    simple: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: ZNRecord) -> "Assignment":
        return cls(record.id, record.maps, record.simple)

    def to_record(self) -> ZNRecord:
        return ZNRecord(self.resource, dict(self.simple), {seg: dict(states) for seg, states in self.states.items()})

    def segments_of(self, instance: str) -> dict[str, str]:
        """Return the states of an instance's segments."""
        return {seg: states[instance] for seg, states in self.states.items() if instance in states}

    def with_segments(self, added: Mapping[str, Mapping[str, str]], removed: frozenset[str] = frozenset()) -> "Assignment":
        """Return a copy with segments added or replaced, and others removed."""
        kept = {seg: states for seg, states in self.states.items() if seg not in removed}
        return replace(self, states={**kept, **added})

    @property
    def enabled(self) -> bool:
        """Whether the resource is enabled."""
        return self.simple.get("HELIX_ENABLED", "true") != "false"

    @staticmethod
    def new_table(table: str, replicas: int) -> "Assignment":
        """Return the ideal state of a table without segments."""
        simple = {
            "IDEAL_STATE_MODE": "CUSTOMIZED",
            "REBALANCE_MODE": "CUSTOMIZED",
            "MAX_PARTITIONS_PER_INSTANCE": "1",
            "NUM_PARTITIONS": "0",
            "REPLICAS": str(replicas),
            "STATE_MODEL_DEF_REF": "SegmentOnlineOfflineStateModel",
            "STATE_MODEL_FACTORY_NAME": "DEFAULT",
            "INSTANCE_GROUP_TAG": table,
        }
        return Assignment(table, {}, simple)

    def created_at(self, now_ms: int) -> "Assignment":
        """Return a copy with the creation time, which distinguishes the table from earlier ones of the same name."""
        return replace(self, simple={**self.simple, "CREATED_MS": str(now_ms)})

    @property
    def created(self) -> str:
        """When the table was created, or '' if unknown."""
        return self.simple.get("CREATED_MS", "")


class Role(Enum):
    """The role of a process; the value is the prefix of its instance id."""

    CONTROLLER = "Controller"
    BROKER = "Broker"
    SERVER = "Server"
    MINION = "Minion"


_HTTPS = "gamay.https"


@dataclass(frozen=True, slots=True)
class Instance:
    """The configuration of one process: `<Role>_<host>_<port>` is its permanent id; host and port are its current
    address."""

    id: str
    host: str
    port: int
    tags: tuple[str, ...] = ()
    enabled: bool = True
    admin_port: int = -1
    grpc_port: int = -1
    queries_disabled: bool = False
    pools: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    shutting_down: bool = False
    https: bool = False

    @property
    def url(self) -> str:
        """Return the URL of its HTTP interface."""
        return f"{'https' if self.https else 'http'}://{self.host}:{self.admin_port if self.admin_port > 0 else self.port}"

    @property
    def role(self) -> Role:
        """Return the role in the id. Raises ValueError."""
        return Role(self.id.partition("_")[0])

    @classmethod
    def from_record(cls, record: ZNRecord) -> "Instance":
        """Convert from a record. Raises ValueError for an invalid number or flag."""
        simple = dict(record.simple)
        return cls(
            record.id,
            host=simple.pop("HELIX_HOST", ""),
            port=int(simple.pop("HELIX_PORT", "-1")),
            tags=tuple(record.lists.get("TAG_LIST", ())),
            enabled=_is_true(simple.pop("HELIX_ENABLED", "true")),
            admin_port=int(simple.pop("adminPort", "-1")),
            grpc_port=int(simple.pop("grpcPort", "-1")),
            queries_disabled=_is_true(simple.pop("queriesDisabled", "false")),
            shutting_down=_is_true(simple.pop("shutdownInProgress", "false")),
            https=_is_true(simple.pop(_HTTPS, "false")),
            pools=record.maps.get("pool", {}),
            extra=simple,
        )

    def to_record(self) -> ZNRecord:
        simple = {
            **self.extra,
            "HELIX_ENABLED": _flag(self.enabled),
            "HELIX_HOST": self.host,
            "HELIX_PORT": str(self.port),
            "adminPort": str(self.admin_port),
            "grpcPort": str(self.grpc_port),
            "queriesDisabled": _flag(self.queries_disabled),
            **({"shutdownInProgress": "true"} if self.shutting_down else {}),
            **({_HTTPS: "true"} if self.https else {}),
        }
        return ZNRecord(self.id, simple, {"pool": dict(self.pools)} if self.pools else {}, {"TAG_LIST": list(self.tags)})

    @staticmethod
    def make_id(role: Role, host: str, port: int) -> str:
        """Return the id of a new instance."""
        return f"{role.value}_{host}_{port}"


class LineageState(Enum):
    """The state of a replacement of segments."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    REVERTED = "REVERTED"


_SEGMENT = "segment"
_WRITER = "writer/"
_OF_TABLE = "ofTable"
_NOTE = "custom/"
_WRITERS_MAX = 1000


@dataclass(frozen=True, slots=True)
class LineageEntry:
    """One atomic replacement: `segments_from` are visible until it is completed, `segments_to` from then on.

    is_of_table: the whole table is replaced, even if it was empty at the start.
    """

    id: str
    segments_from: tuple[str, ...]
    segments_to: tuple[str, ...]
    state: LineageState
    timestamp_ms: int
    is_of_table: bool = False

    @property
    def hidden(self) -> tuple[str, ...]:
        """Return the segments that queries must not see because of this entry."""
        return self.segments_from if self.state is LineageState.COMPLETED else self.segments_to


@dataclass(frozen=True, slots=True)
class WriterBatch:
    """The last batch that a streaming writer made visible, and its time."""

    number: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The replacements of one table by entry id, and the last batches of its streaming writers by writer id.

    custom: notes of the replacing clients.
    """

    table: str
    entries: Mapping[str, LineageEntry] = field(default_factory=dict)
    writers: Mapping[str, WriterBatch] = field(default_factory=dict)
    custom: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: ZNRecord) -> "Lineage":
        """Convert from a record of either form. Raises ValueError."""
        entries = {}
        apart: dict[str, list[str]] = {}
        for place in sorted(record.maps):
            apart.setdefault(place.rpartition("/")[0], []).append(record.maps[place][_SEGMENT])
        for entry_id, (from_text, to_text, state, timestamp) in record.lists.items():
            before = (*_names(from_text), *apart.get(f"{entry_id}/from", ()))
            after = (*_names(to_text), *apart.get(f"{entry_id}/to", ()))
            of_table = entry_id in _names(record.simple.get(_OF_TABLE, ""))
            entries[entry_id] = LineageEntry(entry_id, before, after, LineageState(state), int(timestamp), of_table)
        writers = {}
        for key, text in record.simple.items():
            if key.startswith(_WRITER):
                number, _, timestamp = text.partition(" ")
                writers[key.removeprefix(_WRITER)] = WriterBatch(int(number), int(timestamp))
        custom = {key.removeprefix(_NOTE): text for key, text in record.simple.items() if key.startswith(_NOTE)}
        return cls(record.id, entries, writers, custom)

    def to_record(self) -> ZNRecord:
        lists = {
            e.id: [",".join(e.segments_from), ",".join(e.segments_to), e.state.value, str(e.timestamp_ms)]
            for e in self.entries.values()
        }
        return ZNRecord(self.table, self._simple(), lists=lists)

    def to_large_record(self) -> ZNRecord:
        """Return a record with the segments in map fields, `<entry>/from/<n>` and `…/to/<n>`, which buckets can hold."""
        lists = {e.id: ["", "", e.state.value, str(e.timestamp_ms)] for e in self.entries.values()}
        maps = {
            f"{e.id}/{side}/{n:08d}": {_SEGMENT: name}
            for e in self.entries.values()
            for side, names in (("from", e.segments_from), ("to", e.segments_to))
            for n, name in enumerate(names)
        }
        return ZNRecord(self.table, self._simple(), maps=maps, lists=lists)

    def _simple(self) -> dict[str, str]:
        writers = {f"{_WRITER}{name}": f"{batch.number} {batch.timestamp_ms}" for name, batch in self.writers.items()}
        of_table = ",".join(entry.id for entry in self.entries.values() if entry.is_of_table)
        custom = {f"{_NOTE}{key}": text for key, text in self.custom.items()}
        return writers | custom | ({_OF_TABLE: of_table} if of_table else {})

    def with_entry(self, entry: LineageEntry) -> "Lineage":
        """Return a copy with one entry added or replaced."""
        return replace(self, entries={**self.entries, entry.id: entry})

    def without(self, entry_ids: frozenset[str]) -> "Lineage":
        """Return a copy without some entries."""
        return replace(self, entries={k: e for k, e in self.entries.items() if k not in entry_ids})

    def with_custom(self, notes: Mapping[str, str]) -> "Lineage":
        """Return a copy with notes added or replaced."""
        return replace(self, custom={**self.custom, **notes})

    def with_writer(self, name: str, batch: WriterBatch) -> "Lineage":
        """Return a copy with a writer's last batch; only the most recent writers are kept."""
        writers = {**self.writers, name: batch}
        kept = sorted(writers, key=lambda one: writers[one].timestamp_ms)[-_WRITERS_MAX:]
        return replace(self, writers={one: writers[one] for one in kept})

    def hidden_segments(self) -> frozenset[str]:
        """Return the segments that queries must not see."""
        return frozenset(name for entry in self.entries.values() for name in entry.hidden)


def _is_true(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"'{text}' must be true or false")
    return text.lower() == "true"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()

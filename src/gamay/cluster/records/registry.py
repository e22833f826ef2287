"""Typed access to the records in the metadata store; every read and every write checks the invariants."""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import orjson

from gamay.base.errors import ConflictError, NotFoundError
from gamay.cluster.records import invariants
from gamay.cluster.records.failed_access import FailedAccess, counting
from gamay.cluster.records.records import Assignment, Instance, Lineage, SegmentRecord
from gamay.cluster.store import buckets, paths
from gamay.cluster.store.store import MAX_VALUE_BYTES, MetadataStore, update
from gamay.cluster.store.znrecord import CorruptRecordError, ZNRecord, decode, encode, parse_record, read_record
from gamay.model.table.table_name import raw_table_name

_log = logging.getLogger(__name__)
T = TypeVar("T")

_PLAIN_CONFIG_KEYS = frozenset({"tableName", "tableType"})


class Registry:
    """The cluster's records. Its methods may be called from any thread.

    cluster: the cluster's name for users. failed: counters of failed accesses, shared by the registries of a process.
    """

    def __init__(self, store: MetadataStore, cluster: str = paths.CLUSTER_NAME, failed: FailedAccess | None = None) -> None:
        self.store = store
        self.cluster = cluster
        self.failed = FailedAccess() if failed is None else failed

    # schemas and table configs: JSON documents, interpreted by gamay.model

    def schema_names(self) -> list[str]:
        """Return the names of all schemas."""
        return self.store.children(paths.SCHEMAS)

    def get_schema(self, name: str) -> dict[str, Any] | None:
        """Return a schema's JSON document."""
        node = self.store.get(paths.schema(name))
        return None if node is None else read_record(paths.schema(name), node.value, _schema_of)

    def put_schema(self, name: str, document: Mapping[str, Any]) -> None:
        """Create or replace a schema."""
        value = encode(ZNRecord(name, {"schemaJSON": orjson.dumps(document).decode()}))
        update(self.store, paths.schema(name), lambda _: value)

    def delete_schema(self, name: str) -> None:
        """Delete a schema, if it exists."""
        self.store.delete(paths.schema(name))

    def table_names(self) -> list[str]:
        """Return the typed names of all tables."""
        return self.store.children(paths.TABLE_CONFIGS)

    def get_table_config(self, table: str) -> dict[str, Any] | None:
        """Return a table config's JSON document."""
        with counting(self.failed.reads, table):
            node = self.store.get(paths.table_config(table))
        if node is None:
            return None
        return read_record(paths.table_config(table), node.value, _table_config_of)

    def put_table_config(self, table: str, document: Mapping[str, Any]) -> None:
        """Create or replace a table config."""
        update(self.store, paths.table_config(table), lambda _: _encode_table_config(table, document))

    def create_table_config(self, table: str, document: Mapping[str, Any]) -> None:
        """Create a table config. Raises ConflictError if it exists."""
        self.store.create(paths.table_config(table), _encode_table_config(table, document))

    def delete_table_config(self, table: str) -> None:
        """Delete a table config, if it exists."""
        self.store.delete(paths.table_config(table))

    def table_times(self, table: str) -> tuple[int, int]:
        """Return when a table was created and last changed, in milliseconds. Raises NotFoundError."""
        node = self.store.get(paths.table_config(table))
        if node is None:
            raise NotFoundError(f"table '{table}' does not exist")
        return node.created_ms, node.modified_ms

    def definition_changed_ms(self, table: str) -> int:
        """Return when the config of a typed table or its schema was last changed, by the clock of the store; 0 if
        neither exists."""
        nodes = self.store.get_many([paths.table_config(table), paths.schema(raw_table_name(table))])
        return max((node.modified_ms for node in nodes if node is not None), default=0)

    def resources_with_state(self) -> list[str]:
        """Return the typed tables that have an ideal state, a view, segment records or a lineage."""
        parents = (paths.IDEAL_STATES, paths.EXTERNAL_VIEWS, paths.SEGMENTS, paths.LINEAGES)
        names = {name for parent in parents for name in self.store.children(parent)}
        return sorted(names - {paths.BROKER_RESOURCE})

    # assignments

    def assigned_tables(self) -> list[str]:
        """Return the typed tables that have an ideal state."""
        return [name for name in self.store.children(paths.IDEAL_STATES) if name != paths.BROKER_RESOURCE]

    def get_ideal_state(self, resource: str) -> Assignment | None:
        """Return the ideal state of a resource, or None."""
        with counting(self.failed.reads, resource):
            return self._get_assignment(paths.ideal_state(resource), invariants.ASSIGNMENT)

    def must_get_ideal_state(self, resource: str) -> Assignment:
        """Return the ideal state of a resource. Raises NotFoundError."""
        ideal = self.get_ideal_state(resource)
        if ideal is None:
            raise NotFoundError(f"table '{resource}' does not exist")
        return ideal

    def create_ideal_state(self, ideal: Assignment) -> None:
        """Create an ideal state. Raises ConflictError if it exists."""
        record = invariants.check(ideal, invariants.ASSIGNMENT).to_record()
        buckets.create(self.store, paths.ideal_state(ideal.resource), record)

    def update_ideal_state(self, resource: str, change: Callable[[Assignment], Assignment]) -> None:
        """Change an ideal state atomically. Raises NotFoundError if it does not exist."""

        def apply(record: ZNRecord | None) -> ZNRecord:
            if record is None:
                raise NotFoundError(f"table '{resource}' does not exist")
            changed = change(Assignment.from_record(record))
            return invariants.check(changed, invariants.ASSIGNMENT).to_record()

        with counting(self.failed.ideal_states, resource):
            buckets.update(self.store, paths.ideal_state(resource), apply)

    def replace_ideal_state(self, ideal: Assignment) -> None:
        """Replace an ideal state that cannot be read. Raises VersionConflictError."""
        record = invariants.check(ideal, invariants.ASSIGNMENT).to_record()
        buckets.replace(self.store, paths.ideal_state(ideal.resource), record)

    def delete_ideal_state(self, resource: str) -> None:
        """Delete an ideal state, if it exists."""
        buckets.delete(self.store, paths.ideal_state(resource))

    def get_external_view(self, resource: str) -> Assignment | None:
        """Return the external view of a resource, or None."""
        return self._get_assignment(paths.external_view(resource), ())

    def put_external_view(self, view: Assignment) -> None:
        """Create or replace an external view."""
        record, path = view.to_record(), paths.external_view(view.resource)
        try:
            buckets.update(self.store, path, lambda _: record)
        except CorruptRecordError:  # a view is replaced as a whole
            buckets.replace(self.store, path, record)

    def delete_external_view(self, resource: str) -> None:
        """Delete an external view, if it exists."""
        buckets.delete(self.store, paths.external_view(resource))

    def get_current_state(self, instance: str, resource: str) -> Mapping[str, str]:
        """Return an instance's report about a resource, segment -> state; empty if there is none."""
        path = paths.current_state(instance, resource)
        found = self._get_assignment(path, ())
        if found is None:
            return {}
        if any(set(states) != {instance} for states in found.states.values()):
            raise CorruptRecordError(f"the record {path} is damaged: it is about other instances")
        return {segment: states[instance] for segment, states in found.states.items()}

    def put_current_state(self, instance: str, resource: str, states: Mapping[str, str]) -> None:
        """Write an instance's report about a resource, as an ephemeral node of the store's session."""
        record = Assignment(resource, {segment: {instance: state} for segment, state in states.items()}).to_record()
        path = paths.current_state(instance, resource)
        try:
            buckets.update(self.store, path, lambda _: record, ephemeral=True)
        except CorruptRecordError:  # a report is replaced as a whole
            buckets.delete(self.store, path)
            buckets.update(self.store, path, lambda _: record, ephemeral=True)

    def delete_current_state(self, instance: str, resource: str) -> None:
        """Delete an instance's report about a resource."""
        buckets.delete(self.store, paths.current_state(instance, resource))

    # segments

    def segment_names(self, table: str) -> list[str]:
        """Return the names of all segments of a typed table that have a record."""
        return self.store.children(paths.segments(table))

    def get_segment(self, table: str, name: str) -> SegmentRecord | None:
        """Return a segment's record."""
        with counting(self.failed.reads, table):
            return self._get(paths.segment(table, name), _checked_segment)

    def segments(self, table: str) -> Iterator[SegmentRecord]:
        """Yield all segment records of a typed table, by name."""
        yield from self.get_segments(table, self.segment_names(table)).values()

    def get_segments(self, table: str, names: Sequence[str]) -> dict[str, SegmentRecord]:
        """Return the records of the named segments that have one, read together."""
        found, damaged = self.readable_segments(table, names)
        for error in damaged.values():
            raise error
        return found

    def readable_segments(
        self, table: str, names: Sequence[str]
    ) -> tuple[dict[str, SegmentRecord], dict[str, CorruptRecordError]]:
        """Return the records of the named segments that have one, and the errors of damaged records, both by name."""
        return self._segments(table, names, _checked_segment)

    def segment_documents(
        self, table: str, names: Sequence[str]
    ) -> tuple[dict[str, ZNRecord], dict[str, CorruptRecordError]]:
        """Return the stored records of the named segments, unchecked, for readers of a few fields of many segments.

        Errors of values that are no records at all are returned separately.
        """
        return self._segments(table, names, lambda record: record)

    def _segments(
        self, table: str, names: Sequence[str], parse: Callable[[ZNRecord], T]
    ) -> tuple[dict[str, T], dict[str, CorruptRecordError]]:
        with counting(self.failed.reads, table):
            nodes = self.store.get_many([paths.segment(table, name) for name in names])
        found: dict[str, T] = {}
        damaged: dict[str, CorruptRecordError] = {}
        for name, node in zip(names, nodes, strict=True):
            if node is None:
                continue
            try:
                found[name] = read_record(paths.segment(table, name), node.value, parse)
            except CorruptRecordError as error:
                damaged[name] = error
        return found, damaged

    def create_segment(self, table: str, record: SegmentRecord) -> None:
        """Create a segment's record. Raises ConflictError if it exists."""
        with counting(self.failed.writes, table):
            self.store.create(paths.segment(table, record.name), _encode_segment(record))

    def update_segment(self, table: str, name: str, change: Callable[[SegmentRecord | None], SegmentRecord | None]) -> None:
        """Change a segment's record atomically; `change` gets None for a missing record, and returns None to delete
        it."""

        def apply(value: bytes | None) -> bytes | None:
            record = change(None if value is None else SegmentRecord.from_record(decode(value)))
            return None if record is None else _encode_segment(record)

        with counting(self.failed.writes, table):
            update(self.store, paths.segment(table, name), apply)

    def replace_segment(self, table: str, record: SegmentRecord) -> None:
        """Replace a segment's record that cannot be read."""
        value = _encode_segment(record)
        update(self.store, paths.segment(table, record.name), lambda _: value)

    def delete_segment(self, table: str, name: str) -> None:
        """Delete a segment's record, if it exists."""
        self.store.delete(paths.segment(table, name))

    def delete_segments(self, table: str) -> None:
        """Delete all segment records of a typed table, atomically if the store supports it."""
        self.store.delete(paths.segments(table), recursive=True)

    # lineage

    def get_lineage(self, table: str) -> Lineage:
        """Return the lineage of a table; empty if there is none."""
        path = paths.lineage(table)
        record = buckets.get(self.store, path)
        if record is None:
            return Lineage(table)
        return parse_record(path, record, lambda found: invariants.check(Lineage.from_record(found), invariants.LINEAGE))

    def update_lineage(self, table: str, change: Callable[[Lineage], Lineage]) -> None:
        """Change the lineage of a table atomically."""

        def apply(record: ZNRecord | None) -> ZNRecord | None:
            before = Lineage(table) if record is None else Lineage.from_record(record)
            after = invariants.check(change(before), invariants.LINEAGE)
            if record is None and not after.entries and not after.writers:
                return None
            plain = after.to_record()
            return plain if len(encode(plain)) <= MAX_VALUE_BYTES else after.to_large_record()

        buckets.update(self.store, paths.lineage(table), apply)

    def delete_lineage(self, table: str) -> None:
        """Delete the lineage of a table, if it exists."""
        buckets.delete(self.store, paths.lineage(table))

    # instances

    def instance_ids(self) -> list[str]:
        """Return the ids of all known instances."""
        return self.store.children(paths.PARTICIPANT_CONFIGS)

    def instances(self) -> list[Instance]:
        """Return the configurations of all known instances, by id."""
        return self.readable_instances()[0]

    def readable_instances(self) -> tuple[list[Instance], dict[str, CorruptRecordError]]:
        """Return the configurations of all known instances by id, and id -> error for damaged records, which are not
        used."""
        names = self.instance_ids()
        found: list[Instance] = []
        damaged: dict[str, CorruptRecordError] = {}
        for name, node in zip(names, self.store.get_many([paths.participant_config(n) for n in names]), strict=True):
            if node is None:
                continue
            try:
                found.append(read_record(paths.participant_config(name), node.value, _checked_instance))
            except CorruptRecordError as error:
                damaged[name] = error
        return found, damaged

    def live_instance_ids(self) -> list[str]:
        """Return the ids of the live instances."""
        return self.store.children(paths.LIVE_INSTANCES)

    def get_instance(self, instance_id: str) -> Instance | None:
        """Return an instance's configuration."""
        return self._get(paths.participant_config(instance_id), _checked_instance)

    def put_instance(self, instance: Instance) -> None:
        """Create or replace an instance's configuration."""
        value = encode(invariants.check(instance, invariants.INSTANCE).to_record())
        update(self.store, paths.participant_config(instance.id), lambda _: value)

    def create_instance(self, instance: Instance) -> None:
        """Create an instance's configuration. Raises ConflictError if it exists."""
        value = encode(invariants.check(instance, invariants.INSTANCE).to_record())
        self.store.create(paths.participant_config(instance.id), value)

    def delete_instance(self, instance_id: str) -> None:
        """Delete an instance and its reports."""
        self.store.delete(paths.participant_config(instance_id))
        self.store.delete(f"{paths.INSTANCES}/{instance_id}", recursive=True)

    # cluster configuration: a flat map

    def cluster_config(self) -> dict[str, str]:
        """Return the settings of the whole cluster; empty if their record cannot be read, so that defaults apply."""
        return settings_at(self.store, paths.CLUSTER_CONFIG)

    def update_cluster_config(self, changes: Mapping[str, str], removed: frozenset[str] = frozenset()) -> None:
        """Set some settings of the cluster and remove others."""

        def apply(value: bytes | None) -> bytes:
            before = {} if value is None else decode(value).simple
            after = {k: v for k, v in before.items() if k not in removed} | dict(changes)
            return encode(ZNRecord(paths.CLUSTER_NAME, after))

        update(self.store, paths.CLUSTER_CONFIG, apply)

    def _get_assignment(self, path: str, predicates: tuple[invariants.Predicate[Assignment], ...]) -> Assignment | None:
        record = buckets.get(self.store, path)
        if record is None:
            return None
        return parse_record(path, record, lambda found: invariants.check(Assignment.from_record(found), predicates))

    def _get(self, path: str, parse: Callable[[ZNRecord], T]) -> T | None:
        node = self.store.get(path)
        return None if node is None else read_record(path, node.value, parse)


def settings_at(store: MetadataStore, path: str) -> dict[str, str]:
    """Return the settings in a record; empty, with a log entry, if it cannot be read."""
    node = store.get(path)
    if node is None or not node.value:
        return {}
    try:
        return decode(node.value).simple
    except CorruptRecordError as error:
        _log.error("the record %s is damaged, its settings have no effect: %s", path, error)
        return {}


def _schema_of(record: ZNRecord) -> dict[str, Any]:
    return _object(record.simple["schemaJSON"])


def _table_config_of(record: ZNRecord) -> dict[str, Any]:
    return {key: text if key in _PLAIN_CONFIG_KEYS else orjson.loads(text) for key, text in record.simple.items()}


def _object(text: str) -> dict[str, Any]:
    found = orjson.loads(text)
    if not isinstance(found, dict):
        raise TypeError(f"{text[:40]!r} is not a JSON object")
    return found


def _checked_segment(record: ZNRecord) -> SegmentRecord:
    return invariants.check(SegmentRecord.from_record(record), invariants.SEGMENT)


def _checked_instance(record: ZNRecord) -> Instance:
    return invariants.check(Instance.from_record(record), invariants.INSTANCE)


def announce(store: MetadataStore, instance_id: str) -> None:
    """Register an instance as live, as an ephemeral node of the store's session.

    Raises ConflictError if another session has registered it.
    """
    path = paths.live_instance(instance_id)
    node = store.get(path)
    if node is not None and node.ephemeral_owner != store.session_id:
        raise ConflictError(f"instance '{instance_id}' is already running")
    if node is None:
        process = f"{os.getpid()}@{socket.gethostname()}"
        value = encode(
            ZNRecord(instance_id, {"SESSION_ID": f"{store.session_id:x}", "HELIX_VERSION": "1", "LIVE_INSTANCE": process})
        )
        store.create(path, value, ephemeral=True)


def _encode_segment(record: SegmentRecord) -> bytes:
    return encode(invariants.check(record, invariants.SEGMENT).to_record())


def _encode_table_config(table: str, document: Mapping[str, Any]) -> bytes:
    simple = {key: value if key in _PLAIN_CONFIG_KEYS else orjson.dumps(value).decode() for key, value in document.items()}
    return encode(ZNRecord(table, simple))

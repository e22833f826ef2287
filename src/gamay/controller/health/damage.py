"""Records of the metadata store that cannot be read, and their reconstruction from what is left.

The replaced value is kept below `PROPERTYSTORE/SET_ASIDE`, under its path with `|` for `/`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from gamay.base.errors import ConflictError, CorruptSegmentError, GamayError, InvalidConfigError, NotFoundError
from gamay.cluster.access.users import Users
from gamay.cluster.records import invariants, messages
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import CONSUMING, ONLINE, Assignment, Lineage, SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.cluster.records.views import fold
from gamay.cluster.store import buckets, paths
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.store.znrecord import CorruptRecordError, decode, read_record
from gamay.cluster.tasks.queue import TaskQueues
from gamay.cluster.tasks.records import Target
from gamay.controller.context import ControllerContext
from gamay.controller.health.salvage import UndecidedError, lineage_of
from gamay.controller.health.stream_records import StreamRecords
from gamay.controller.placement import PlacementManager
from gamay.controller.segments.uploads import UploadManager
from gamay.controller.segments.verify import record_of, verify_archive, verify_folder
from gamay.controller.tables.tables import TableManager
from gamay.model.schema.schema import Schema
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.model.table.table_config import TableConfig, TableType
from gamay.model.table.table_name import raw_table_name, table_type_of
from gamay.storage.local_store import size_of

_FROM_COPY = "rebuilt from the copy in the deep store"
_FROM_SERVERS = "rebuilt from the segments' records and what servers hold"
_FROM_FILE = "replaced by the document that you give"
_BY_ITSELF = "deleted; the instance registers again when it starts"
_FROM_REPORTS = "rebuilt from what servers report"
_BY_REPORT = "deleted, and reported again by the instance"
_BY_CONFIG = "deleted; instances follow from the table's config and their tags, as for a table without it"
_GOES_ON = "replaced; the queue continues"
_WITH_JOB = "deleted with its job; schedules and requests create its tasks again"
_DEFAULTS = "deleted; defaults apply until its settings are set again"
_GIVEN = "replaced by the record that you give"
_FROM_ENTRIES = f"rebuilt from what can be read of it and the existing segments, or {_GIVEN}"
_FROM_PLACE = f"rebuilt from what can be read of it, its copy, its servers and its neighbours, or {_GIVEN}"
_BY_USER = "its content exists nowhere else: DELETE /users/{name}?component=…, and add the user again"

_MAY_BE_GIVEN = (_FROM_ENTRIES, _FROM_PLACE)
_JOB_DEPTH = paths.task_job("type", "job").count("/") + 1


@dataclass(frozen=True, slots=True)
class Damage:
    """A record that cannot be read. path: in the metadata store. remedy: a description of what `RecordRepair.repair`
    does."""

    path: str
    problem: str
    remedy: str

    def to_json(self) -> dict[str, str]:
        """Return the finding as the REST interface shows it."""
        return {"path": self.path, "problem": self.problem, "remedy": self.remedy}


@dataclass(frozen=True, slots=True)
class RecordRepair:
    """Repair of damaged records, one at a time."""

    context: ControllerContext
    tables: TableManager
    uploads: UploadManager

    def damaged(self) -> list[Damage]:
        """Return the records that cannot be read: of schemas, tables, segments, instances, tasks, users and settings."""
        return list(self._found())

    def repair(self, path: str, document: Mapping[str, Any] | None = None) -> str:
        """Rebuild a damaged record, and return a description.

        document: its content, as JSON. Raises NotFoundError for an unknown record, ConflictError for one that can be
        read, InvalidConfigError for a missing or invalid document, and if the content cannot be determined.
        """
        with self.tables.schemas.lock:
            found = next((damage for damage in self._found() if damage.path == path), None)
            if found is None and self.context.registry.store.get(path) is None:
                raise NotFoundError(f"There is no record {path}")
            if found is None:
                raise ConflictError(f"The record {path} can be read, there is nothing to repair")
            if found.remedy == _BY_USER:
                raise InvalidConfigError(f"The record {path} cannot be repaired: {found.remedy}")
            done = _GIVEN if found.remedy in _MAY_BE_GIVEN and document is not None else found.remedy
            if done != _GIVEN and (document is not None) != (done == _FROM_FILE):
                wants = "needs the document that it held, as JSON" if document is None else "is repaired without a document"
                raise InvalidConfigError(f"The record {path} {wants}: it is {found.remedy}")
            write = self._given(path, document) if done == _GIVEN else self._replacement(found, document or {})
            _keep(self.context.registry.store, path)
            write()
            return f"The record {path} was {done.removesuffix(f', or {_GIVEN}')}; what it held is kept as {_kept(path)}"

    def _replacement(self, damage: Damage, document: Mapping[str, Any]) -> Callable[[], object]:
        """Return a function that writes the new record, which is built here, so that errors are raised before any
        write."""
        registry = self.context.registry
        parent, _, name = damage.path.rpartition("/")
        if parent == paths.SCHEMAS:
            return partial(registry.put_schema, name, _schema(name, document).to_json())
        if parent == paths.TABLE_CONFIGS:
            return partial(registry.put_table_config, name, _config(name, document).to_json())
        if parent == paths.IDEAL_STATES:
            return partial(registry.replace_ideal_state, self._assigned_anew(name))
        if parent == paths.PARTICIPANT_CONFIGS:
            return partial(registry.delete_instance, name)
        if parent == paths.EXTERNAL_VIEWS:
            return partial(registry.put_external_view, self._reported(name))
        if damage.remedy == _GOES_ON:
            return partial(TaskQueues(registry.store, self.context.clock).set_target, name, Target.START)
        if damage.remedy == _WITH_JOB:
            return partial(registry.store.delete, "/".join(damage.path.split("/")[:_JOB_DEPTH]), recursive=True)
        if damage.remedy == _BY_REPORT:
            return partial(self._report_anew, damage.path)
        if damage.remedy in (_DEFAULTS, _BY_CONFIG):
            return partial(registry.store.delete, damage.path)
        if parent == paths.LINEAGES:
            return partial(buckets.replace, registry.store, damage.path, self._lineage_anew(name).to_record())
        table = parent.rpartition("/")[2]
        anew = self._streamed_anew if damage.remedy == _FROM_PLACE else self._recorded_anew
        return partial(registry.replace_segment, table, anew(table, name))

    def _given(self, path: str, document: Mapping[str, Any] | None) -> Callable[[], object]:
        """Return a function that writes a given record of a lineage or a segment, after checking it."""
        store, value = self.context.registry.store, orjson.dumps(document)
        try:
            if path.startswith(f"{paths.LINEAGES}/"):
                read_record(path, value, lambda record: invariants.check(Lineage.from_record(record), invariants.LINEAGE))
            else:
                read_record(
                    path, value, lambda record: invariants.check(SegmentRecord.from_record(record), invariants.SEGMENT)
                )
        except CorruptRecordError as error:
            raise InvalidConfigError(f"The given document is not a valid record: {error}") from error
        return partial(buckets.replace, store, path, decode(value))

    def _report_anew(self, path: str) -> None:
        """Delete a server's report, and have the server send it again."""
        store = self.context.registry.store
        buckets.delete(store, path)
        server, table = path.removeprefix(f"{paths.INSTANCES}/").split("/CURRENTSTATES/")
        messages.send(store, server, messages.REPORT, table)

    def _lineage_anew(self, table: str) -> Lineage:
        registry = self.context.registry
        node, path = registry.store.get(paths.lineage(table)), paths.lineage(table)
        try:
            now_ms = self.context.clock.now_ms()
            return lineage_of(table, b"" if node is None else node.value, registry.segment_names(table), now_ms)
        except UndecidedError as error:
            raise InvalidConfigError(
                f"The record {path} cannot be repaired from what is left: {error}. Give the record (--file) "
                f"in the form that GET /zk/get shows for other tables: in listFields an entry [from, to, state, time] for "
                f'each replacement; {{"id": "{table}", "simpleFields": {{}}, "mapFields": {{}}, "listFields": {{}}}} shows '
                f"all segments, so first delete those that others have replaced"
            ) from error

    def _streamed_anew(self, table: str, name: str) -> SegmentRecord:
        registry, path = self.context.registry, paths.segment(table, name)
        node = registry.store.get(path)
        try:
            states = registry.must_get_ideal_state(table).states.get(name, {})
        except CorruptRecordError:
            states = self._reported(table).states.get(name, {})
        try:
            maker = StreamRecords(self.context, self._copies)
            return maker.anew(table, name, b"" if node is None else node.value, states)
        except UndecidedError as error:
            raise InvalidConfigError(
                f"The record {path} cannot be repaired from what is left: {error}. Give the record (--file) "
                f"in the form that GET /zk/get shows for the table's other segments; or abandon its rows, and remove it by "
                f"DELETE /zk/delete"
            ) from error

    def _found(self) -> Iterator[Damage]:
        registry = self.context.registry
        for name in registry.schema_names():
            path = paths.schema(name)
            yield from _tried(path, _FROM_FILE, partial(_read_schema, registry, name))
        for table in registry.table_names():
            reads = (
                (paths.table_config(table), _FROM_FILE, partial(_read_config, registry, table)),
                (paths.ideal_state(table), _FROM_SERVERS, partial(registry.get_ideal_state, table)),
                (paths.external_view(table), _FROM_REPORTS, partial(registry.get_external_view, table)),
                (paths.lineage(table), _FROM_ENTRIES, partial(registry.get_lineage, table)),
            )
            for path, remedy, read in reads:
                yield from _tried(path, remedy, read)
            is_offline = table_type_of(table) is TableType.OFFLINE
            for segment, error in registry.readable_segments(table, registry.segment_names(table))[1].items():
                is_streamed = not is_offline and LlcName.parse(segment) is not None
                yield Damage(paths.segment(table, segment), str(error), _FROM_PLACE if is_streamed else _FROM_COPY)
        for instance, error in registry.readable_instances()[1].items():
            yield Damage(paths.participant_config(instance), str(error), _BY_ITSELF)
        yield from self._found_of_placement()
        for path, error in TaskQueues(registry.store, self.context.clock).damaged():
            yield Damage(path, str(error), _GOES_ON if path.rpartition("/")[0] == paths.TASKS else _WITH_JOB)
        quotas = [paths.database(name) for name in registry.store.children(paths.DATABASES)]
        for path in (paths.CLUSTER_CONFIG, paths.APPLICATION_QUOTAS, *quotas):
            yield from _tried(path, _DEFAULTS, partial(_read_settings, registry.store, path))
        for user, error in Users(registry.store).readable()[1].items():
            yield Damage(paths.user(user), str(error), _BY_USER)

    def _found_of_placement(self) -> Iterator[Damage]:
        registry = self.context.registry
        for name in registry.store.children(paths.INSTANCE_PARTITIONS):
            read = partial(PlacementManager(self.context, self.tables).stored, name)
            yield from _tried(paths.instance_partitions(name), _BY_CONFIG, read)
        for instance in registry.live_instance_ids():
            for table in registry.store.children(paths.current_states(instance)):
                read_report = partial(registry.get_current_state, instance, table)
                yield from _tried(paths.current_state(instance, table), _BY_REPORT, read_report)

    def _reported(self, table: str) -> Assignment:
        registry = self.context.registry
        return fold(table, {one: registry.get_current_state(one, table) for one in registry.live_instance_ids()})

    def _assigned_anew(self, table: str) -> Assignment:
        """Return an ideal state with every segment that has a record: on the servers that hold it, or where a new one
        would go."""
        registry = self.context.registry
        records, damaged = registry.readable_segments(table, registry.segment_names(table))
        if damaged:
            raise ConflictError(f"Repair the records of the segments of {table} first, among them {min(damaged)}")
        try:
            replication = self.tables.get(table).replication
        except CorruptRecordError as error:
            raise ConflictError(f"Repair the config of {table} first: {error}") from error
        held = self._reported(table).states
        ideal = Assignment.new_table(table, replication).with_segments(
            {name: dict.fromkeys(held[name], _state(one)) for name, one in records.items() if held.get(name)}
        )
        complete = [name for name, one in records.items() if one.complete]
        return ideal.with_segments(PlacementManager(self.context, self.tables).assigned(table, complete, ideal))

    def _recorded_anew(self, table: str, name: str) -> SegmentRecord:
        """Return the record of a segment, from its newest intact copy in the deep store."""
        problems: list[str] = []
        for record in self._whole_copies(table, name, problems):
            return record.with_changes(push_time_ms=self.context.clock.now_ms())
        problem = problems[-1] if problems else "the deep store has no copy of it"
        raise InvalidConfigError(
            f"The record of segment {name} cannot be rebuilt: {problem}. Remove it by DELETE /zk/delete, and push the "
            f"segment to table {raw_table_name(table)} again"
        )

    def _copies(self, table: str, name: str) -> list[SegmentRecord]:
        return list(self._whole_copies(table, name, []))

    def _whole_copies(self, table: str, name: str, problems: list[str]) -> Iterator[SegmentRecord]:
        """Yield the records of a segment's intact copies in the deep store, newest first; problems: receives those of
        other copies."""
        deep_store = self.context.deep_store
        copies = [url for url in deep_store.urls(table) if url.rpartition("/")[2].startswith(f"{name}__")]
        for url in sorted(copies, key=deep_store.modified_ms, reverse=True):
            with self.uploads.scratch(f"repair the record of segment {name}") as scratch:
                copy = deep_store.get(url, scratch)
                try:
                    segment = verify_folder(copy) if copy.is_dir() else verify_archive(copy, scratch / "unpacked")
                except CorruptSegmentError as error:
                    problems.append(str(error))
                    continue
                if segment.info.name == name:
                    yield record_of(segment.info, url, size_of(copy))


def _read_schema(registry: Registry, name: str) -> None:
    if (document := registry.get_schema(name)) is not None:
        stored_schema(document)


def _read_config(registry: Registry, table: str) -> None:
    if (document := registry.get_table_config(table)) is not None:
        stored_table_config(document)


def _read_settings(store: MetadataStore, path: str) -> None:
    if (node := store.get(path)) is not None and node.value:
        decode(node.value)


def _schema(name: str, document: Mapping[str, Any]) -> Schema:
    schema = Schema.from_json(document).value
    if schema.name != name:
        raise InvalidConfigError(f"The document is of schema '{schema.name}', not of '{name}'")
    return schema


def _config(table: str, document: Mapping[str, Any]) -> TableConfig:
    config = TableConfig.from_json(document).value
    if config.typed_name != table:
        raise InvalidConfigError(f"The document is of table {config.typed_name}, not of {table}")
    return config


def _keep(store: MetadataStore, path: str) -> None:
    """Copy a node's value to where damaged records are kept, unless one is there already."""
    node = store.get(path)
    if node is not None and store.get(_kept(path)) is None:
        store.create(_kept(path), node.value)


def _kept(path: str) -> str:
    return f"{paths.SET_ASIDE}/{path.strip('/').replace('/', '|')}"


def _tried(path: str, remedy: str, read: Callable[[], object]) -> Iterator[Damage]:
    try:
        read()
    except GamayError as error:
        yield Damage(path, str(error), remedy)


def _state(record: SegmentRecord) -> str:
    return ONLINE if record.complete else CONSUMING

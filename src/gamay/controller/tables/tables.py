"""Tables: create, change, enable and disable, delete.

The table config's record decides whether a table exists: it is written last on creation and deleted first on deletion, so
that a crash in between leaves remains that `gamay.controller.health.repair` removes, never half a table.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any

from gamay.base.errors import ConflictError, GamayError, InvalidConfigError, NotFoundError, nearest
from gamay.cluster.access.principals import Principal
from gamay.cluster.place.instance_partitions import tagged_instances
from gamay.cluster.records.broker_resource import BrokerResource, broker_tag
from gamay.cluster.records.invariants import name_problem
from gamay.cluster.records.records import Assignment, Role, SegmentRecord
from gamay.cluster.store import paths
from gamay.cluster.tasks.memory import forget_table
from gamay.cluster.tasks.queue import TaskQueues
from gamay.controller.context import ControllerContext
from gamay.controller.placement import PlacementManager, tag_of
from gamay.controller.realtime.context import realtime_context
from gamay.controller.realtime.lifecycle import SegmentLifecycle
from gamay.controller.realtime.streams import check_named, check_streams, stream_opener
from gamay.controller.tables.guards import guarded
from gamay.controller.tables.ingestion import check_ingestion
from gamay.controller.tables.schemas import SchemaManager
from gamay.ingest.stream.config import stream_configs
from gamay.ingest.stream.spi import PermanentStreamError, TransientStreamError
from gamay.model.cluster_settings import DELETED_SEGMENTS_RETENTION, MD5_DISABLED
from gamay.model.index.kinds import INSTALLED_TYPES
from gamay.model.parse import Parsed, raise_problems
from gamay.model.rules.hybrid import hybrid_problems
from gamay.model.rules.upsert import unusual_columns
from gamay.model.rules.upsert_changes import deprecated_keys, followed_late, forbidden_changes, migrated
from gamay.model.rules.validation import validate_table_config
from gamay.model.rules.without_effect import without_effect
from gamay.model.schema.schema import Schema
from gamay.model.table.secondary_indexes import declared_indexes
from gamay.model.table.stored import stored_schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType, raw_table_name, table_type_of, typed_table_name
from gamay.model.table.tuning import tuned
from gamay.model.units import parse_period
from gamay.sql.columns import columns_of, volatile_functions
from gamay.sql.overrides import read_overrides
from gamay.storage.deep_store import SCHEME, UPSERT_SNAPSHOTS

_log = logging.getLogger(__name__)

_DAY_MS = 24 * 3600 * 1000
_SKIPPABLE = frozenset({"ALL", "TASK", "UPSERT", "TENANT", "MINION_INSTANCES", "ACTIVE_TASKS"})


class TypeMismatchError(GamayError):
    """A requested table type that contradicts the suffix of the table's name."""

    http_status = 403


class StreamUnavailableError(GamayError):
    """A stream of a new table that cannot be read, so that the start offsets are unknown."""

    http_status = 400


@dataclass(frozen=True, slots=True)
class TableManager:
    """Manager of the tables of the cluster."""

    context: ControllerContext
    schemas: SchemaManager

    def names(self) -> list[str]:
        """Return the typed names of all tables, ascending."""
        return self.context.registry.table_names()

    def resolve(self, name: str, table_type: str | None = None) -> list[str]:
        """Return the typed names of the existing tables with a raw or typed name, OFFLINE first.

        Raises NotFoundError if there is none, InvalidConfigError for an unknown type, TypeMismatchError.
        """
        wanted = parse_table_type(table_type)
        suffix = table_type_of(name)
        if wanted is not None and suffix not in (None, wanted):
            raise TypeMismatchError(f"Table type: {wanted.value} does not match the suffix of table name: {name}")
        types = [suffix or wanted] if suffix or wanted else list(TableType)
        existing = self.names()
        found = [typed for t in types if t is not None and (typed := typed_table_name(name, t)) in existing]
        if not found:
            raw = raw_table_name(name)
            known = {raw_table_name(table) for table in existing}
            hint = " It exists with the other type." if raw in known else nearest(raw, known)
            raise NotFoundError(f"Table {name} not found.{hint}")
        return found

    def resolve_one(self, name: str, table_type: str | None = None) -> str:
        """Return the only typed table with a name. Raises as `resolve`, and InvalidConfigError if there are two."""
        found = self.resolve(name, table_type)
        if len(found) > 1:
            raise InvalidConfigError(f"Table {name} has both types: choose one with the 'type' parameter")
        return found[0]

    def document(self, table: str) -> dict[str, Any]:
        """Return the config of a typed table as JSON. Raises NotFoundError."""
        document = self.context.registry.get_table_config(table)
        if document is None:
            raise NotFoundError(f"Table {table} not found.")
        return document

    def get(self, table: str) -> TableConfig:
        """Return the config of a typed table. Raises NotFoundError."""
        return TableConfig.from_json(self.document(table)).value

    def schema_of(self, name: str) -> Schema:
        """Return the schema of a raw or typed table. Raises NotFoundError."""
        return self.schemas.get(raw_table_name(name))

    def notices(self, config: TableConfig, document: Mapping[str, Any], schema: Schema | None = None) -> list[str]:
        """Return warnings about a config: settings without effect, and deprecated keys of its document.

        schema: the table's, unless it is the stored one.
        """
        known = self.known_schema(config) if schema is None else schema
        return [*_passed_over(config, known), *deprecated_keys(TableConfig.from_json(document).value)]

    def known_schema(self, config: TableConfig) -> Schema | None:
        """Return the schema of a table, or None."""
        document = self.context.registry.get_schema(config.raw_name)
        return None if document is None else stored_schema(document)

    def parse(
        self, document: Mapping[str, Any], schema: Schema | None = None, skip: str = "", *, by: Principal
    ) -> Parsed[TableConfig]:
        """Parse a config, tune it and validate it, against the schema of the same name unless one is given.

        by: the sender, which may not be allowed to name any broker. skip: comma-separated validations to skip. Raises
        InvalidConfigError.
        """
        skipped = frozenset(part.strip().upper() for part in skip.split(",") if part.strip())
        if unknown := skipped - _SKIPPABLE:
            raise InvalidConfigError(f"validationTypesToSkip: {sorted(unknown)} are not among {sorted(_SKIPPABLE)}")
        parsed = TableConfig.from_json(document)
        config = parsed.value
        if problem := name_problem(config.typed_name):
            raise InvalidConfigError(f"tableName: {problem}")
        if schema is None:
            schema_document = self.context.registry.get_schema(config.raw_name)
            if schema_document is None:
                raise InvalidConfigError(
                    f"Failed to find schema for table: {config.typed_name}: add the schema '{config.raw_name}' first."
                    f"{nearest(config.raw_name, self.schemas.names())}"
                )
            schema = Schema.from_json(schema_document).value
        if config.tuners:
            parsed = TableConfig.from_json(tuned(document, schema))
            config = parsed.value
        config = guarded(migrated(config, schema), self.context.registry.cluster_config())
        parsed = replace(parsed, value=config)
        document_before = self.context.registry.get_table_config(config.typed_name)
        stored = None if document_before is None else TableConfig.from_json(document_before).value
        if config.table_type is TableType.REALTIME:
            check_named(config, stored, self.context.fetchers, by)
        if "ALL" not in skipped:
            validate_table_config(
                config, schema, columns_of=columns_of, volatile_in=volatile_functions,
                stored=stored, with_tasks="TASK" not in skipped, with_keys="UPSERT" not in skipped,
            )  # fmt: skip
            check_ingestion(schema, config)
            _check_star_trees(schema, config)
            read_overrides(config.query.expression_override_map)
            _check_index_types(schema, config)
            if "UPSERT" not in skipped:
                self._check_hash_function(config)
                _check_classes(config, schema)
            if config.table_type is TableType.REALTIME:
                check_streams(config, stream_opener(self.context.streams))
            if "TENANT" not in skipped:
                self._check_tenant(config)
        return parsed

    def add(self, document: Mapping[str, Any], skip: str = "", *, by: Principal) -> Parsed[TableConfig]:
        """Create a table; the partitions of the stream of a REALTIME table are consumed from then on.

        Raises ConflictError if it exists, InvalidConfigError, StreamUnavailableError.
        """
        records, ideal = self._first_segments(self.parse(document, skip=skip, by=by).value)
        with self.schemas.lock:
            parsed = self.parse(document, skip=skip, by=by)
            config = parsed.value
            registry = self.context.registry
            table = config.typed_name
            if table in registry.table_names():
                raise ConflictError(f"Table config for {table} already exists. If this is unexpected, use PUT to update it.")
            self._check_other_half(config)
            # remains of a crashed creation or deletion must not become part of the new table
            self.delete_remains(table)
            for record in records:
                registry.create_segment(table, record)
            registry.create_ideal_state(ideal.created_at(self.context.clock.now_ms()))
            registry.create_table_config(table, config.to_json())
            if records:
                # servers that looked before the config existed look again
                registry.update_ideal_state(table, lambda i: replace(i, simple={**i.simple, "HAS_CONFIG": "true"}))
            BrokerResource(registry).rebuild([table])
        _log_warnings(config, self.known_schema(config))
        return parsed

    def replace(
        self, name: str, document: Mapping[str, Any], skip: str = "", *, by: Principal, force: bool = False
    ) -> tuple[Parsed[TableConfig], list[str]]:
        """Change the config of an existing table; return it, and warnings about the change.

        force: allow changes of settings that determined the stored rows, such as which row of a primary key is valid.
        Raises NotFoundError, InvalidConfigError.
        """
        parsed = TableConfig.from_json(document)
        table = parsed.value.typed_name
        if name not in (table, parsed.value.raw_name):
            raise InvalidConfigError(f"Request table name '{name}' does not match the table name '{table}' in the body")
        with self.schemas.lock:
            before = TableConfig.from_json(self.document(table)).value
            parsed = self.parse(document, skip=skip, by=by)
            if not force:
                refuse_changes(table, forbidden_changes(before, parsed.value))
            self.context.registry.put_table_config(table, parsed.value.to_json())
            BrokerResource(self.context.registry).rebuild([table])
            replicas = str(parsed.value.replication)
            self.context.registry.update_ideal_state(table, lambda i: replace(i, simple={**i.simple, "REPLICAS": replicas}))
        _log_warnings(parsed.value, self.known_schema(parsed.value))
        return parsed, followed_late(before, parsed.value)

    def delete(self, table: str, retention: str | None = None) -> None:
        """Delete a typed table; its segments are set aside until `kept_until`. Raises NotFoundError."""
        with self.schemas.lock:
            until_ms = self.kept_until(self.document(table), retention)
            self.context.registry.delete_table_config(table)
            self._delete_remains(table, until_ms)

    def kept_until(self, document: Mapping[str, Any], retention: str | None) -> int | None:
        """Return the time until which deleted segments of a table are kept, or None if they are not.

        document: the table's config. The period is the request's `retention`, or else the config's
        deletedSegmentsRetentionPeriod, or else the cluster's `controller.deleted.segments.retentionInDays`, or else 7
        days. Raises InvalidConfigError for a bad `retention`.
        """
        keep_ms = parse_period(retention) if retention is not None else self._configured_retention_ms(document)
        return self.context.clock.now_ms() + keep_ms if keep_ms > 0 else None

    def _configured_retention_ms(self, document: Mapping[str, Any]) -> int:
        period = document.get("segmentsConfig", {}).get("deletedSegmentsRetentionPeriod")
        if period is not None:
            try:
                return parse_period(period)
            except InvalidConfigError as error:  # stored without validation; that must not prevent the deletion of the table
                _log.warning("segmentsConfig.deletedSegmentsRetentionPeriod: %s; the cluster's setting is used", error)
        return DELETED_SEGMENTS_RETENTION.whole(self.context.registry.cluster_config()) * _DAY_MS

    def is_enabled(self, table: str) -> bool:
        """Whether queries and servers may use the table. Raises NotFoundError."""
        return self.context.registry.must_get_ideal_state(table).enabled

    def set_enabled(self, table: str, enabled: bool) -> None:
        """Enable or disable a table. Raises NotFoundError."""
        flag = "true" if enabled else "false"
        self.context.registry.update_ideal_state(table, lambda i: replace(i, simple={**i.simple, "HELIX_ENABLED": flag}))

    def remains(self) -> Iterator[str]:
        """Yield the typed names of tables without a config that still have other records."""
        registry = self.context.registry
        existing = set(registry.table_names())
        yield from sorted(set(registry.resources_with_state()) - existing)

    def delete_remains(self, table: str) -> None:
        """Complete an interrupted deletion."""
        with self.schemas.lock:
            self._delete_remains(table, self.kept_until({}, None))

    def _delete_remains(self, table: str, until_ms: int | None) -> None:
        registry = self.context.registry
        BrokerResource(registry).forget(table)
        registry.delete_ideal_state(table)
        registry.delete_external_view(table)
        registry.delete_lineage(table)
        TaskQueues(registry.store, self.context.clock).cancel_table(table)
        forget_table(registry.store, table)
        self._delete_instance_partitions(table)
        for url in list(self.context.deep_store.urls(table)):
            self.context.deep_store.discard(url, until_ms)
        for name in self.context.deep_store.names(f"{UPSERT_SNAPSHOTS}/{table}"):
            self.context.deep_store.discard(f"{SCHEME}{UPSERT_SNAPSHOTS}/{table}/{name}", None)
        # last, because after a crash these records show that files may be left
        registry.delete_segments(table)

    def _delete_instance_partitions(self, table: str) -> None:
        """Delete the instance partitions of this table only; tiers are shared with the table of the other type."""
        raw, store = raw_table_name(table), self.context.registry.store
        own = ("OFFLINE",) if table_type_of(table) is TableType.OFFLINE else ("CONSUMING", "COMPLETED")
        names = {f"{raw}_{kind}" for kind in own}
        if not any(raw_table_name(other) == raw and other != table for other in self.names()):
            names |= {name for name in store.children(paths.INSTANCE_PARTITIONS) if name.startswith(f"{raw}__TIER__")}
        for name in names:
            store.delete(paths.instance_partitions(name))

    def _first_segments(self, config: TableConfig) -> tuple[list[SegmentRecord], Assignment]:
        """Return the first segments of a new table and its ideal state: consuming segments if it has a stream, or
        none."""
        if config.table_type is not TableType.REALTIME:
            return [], Assignment.new_table(config.typed_name, config.replication)
        realtime = realtime_context(self.context, self.context.registry)
        with closing(realtime.open_streams(config)) as streams:
            try:
                return SegmentLifecycle(realtime).first_segments(config, streams)
            except (TransientStreamError, PermanentStreamError) as error:
                raise StreamUnavailableError(f"table {config.typed_name} was not created: {error}") from error

    def _check_hash_function(self, config: TableConfig) -> None:
        sections = {"upsertConfig": config.upsert, "dedupConfig": config.dedup}
        used = [name for name, section in sections.items() if section is not None and section.hash_function == "MD5"]
        if used and MD5_DISABLED.flag(self.context.registry.cluster_config()):
            raise InvalidConfigError(
                f"{used[0]}.hashFunction is MD5, which the cluster's setting {MD5_DISABLED.name} forbids"
            )

    def _check_other_half(self, config: TableConfig) -> None:
        is_offline = config.table_type is TableType.OFFLINE
        other = typed_table_name(config.raw_name, TableType.REALTIME if is_offline else TableType.OFFLINE)
        if other in self.context.registry.table_names():
            halves = (config, self.get(other)) if is_offline else (self.get(other), config)
            raise_problems(f"the table config of '{config.typed_name}'", list(hybrid_problems(*halves)))

    def _check_tenant(self, config: TableConfig) -> None:
        instances = self.context.registry.instances()
        tag_of_brokers, brokers = broker_tag(config.tenants.broker), [i for i in instances if i.role is Role.BROKER]
        if brokers and not any(tag_of_brokers in broker.tags for broker in brokers):  # brokers may join later
            raise InvalidConfigError(
                f"Failed to find instances with tag: {tag_of_brokers} for table: {config.typed_name}: tenants.broker is "
                f"'{config.tenants.broker}', which no broker belongs to"
            )
        placement = PlacementManager(self.context, self)
        for kind in placement.kinds(config):
            if kind in config.effective_assignment:
                placement.computed(config, kind)  # raises an error about what is missing
                continue
            tag = tag_of(config, kind)
            servers = tagged_instances(instances, tag)
            if len(servers) < config.replication and kind not in config.instance_partitions:
                raise InvalidConfigError(
                    f"segmentsConfig.replication: {config.replication} replicas need as many servers tagged '{tag}', "
                    f"but there are {len(servers)}"
                )


def server_tag(config: TableConfig) -> str:
    """Return the tag of the servers that hold a table."""
    return f"{config.tenants.server}_{config.table_type.value}"


def parse_table_type(text: str | None) -> TableType | None:
    """Return the type that a request names, in any case. Raises InvalidConfigError."""
    if text is None:
        return None
    try:
        return TableType(text.strip().upper())
    except ValueError:
        raise InvalidConfigError(f"Illegal table type: '{text}', it must be OFFLINE or REALTIME") from None


def refuse_changes(table: str, changed: Sequence[str], flag: str = "force") -> None:
    """Raise InvalidConfigError for changed settings that determined the stored rows. flag: the parameter that allows
    them."""
    if changed:
        raise InvalidConfigError(
            f"Failed to update table '{table}': Cannot modify [{', '.join(changed)}] as it may lead to data "
            f"inconsistencies. Please create a new table instead. With {flag}=true it changes for new rows."
        )


def _passed_over(config: TableConfig, schema: Schema | None) -> list[str]:
    """Return a sentence for each setting without effect, and for each value that another one replaces.

    schema: the table's, or None if unknown.
    """
    found = without_effect(config)
    if schema is not None:
        found += unusual_columns(config, schema)
    with suppress(InvalidConfigError):  # stored without validation
        found += [sentence for topic in stream_configs(config) for sentence in topic.warnings]
    return found


def _check_star_trees(schema: Schema, config: TableConfig) -> None:
    """Raise InvalidConfigError for a star-tree that cannot be built, such as one with a sum of strings."""
    if config.indexing.star_tree_configs:
        from gamay.query.startree.definition import tree_definitions  # which other tables do not need

        list(tree_definitions(schema, config, {}))


def _check_index_types(schema: Schema, config: TableConfig) -> None:
    """Raise InvalidConfigError for an index type of another package that cannot be loaded."""
    installed = [one.kind for one in declared_indexes(config, schema) if one.kind in INSTALLED_TYPES]
    if installed:
        from gamay.segment.secondary.registry import index_type  # which other tables do not need

        for kind in installed:
            index_type(kind)


def _check_classes(config: TableConfig, schema: Schema) -> None:
    """Raise InvalidConfigError for a user's class that cannot be loaded, since servers could not consume without it."""
    if config.has_keys:
        from gamay.upsert.tables.plugins import check_classes  # which other tables do not need

        check_classes(config, schema)


def _log_warnings(config: TableConfig, schema: Schema | None) -> None:
    for sentence in _passed_over(config, schema):
        _log.warning("table %s: %s", config.typed_name, sentence)

"""Schemas: add, change compatibly, delete."""

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError, nearest
from gamay.cluster.records.invariants import name_problem
from gamay.cluster.records.registry import Registry
from gamay.controller.tables.ingestion import check_ingestion
from gamay.model.parse import Parsed
from gamay.model.rules.validation import validate_schema, validate_table_config
from gamay.model.schema.schema import Schema, check_backward_compatible
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import raw_table_name
from gamay.sql.columns import columns_of


@dataclass(frozen=True, slots=True)
class SchemaManager:
    """Manager of the schemas of the cluster.

    lock: held while schemas, tables or segments are checked and changed, so that the checks still hold at the change.
    """

    registry: Registry
    lock: threading.RLock = field(default_factory=threading.RLock)

    def names(self) -> list[str]:
        """Return all names, ascending."""
        return self.registry.schema_names()

    def document(self, name: str) -> dict[str, Any]:
        """Return a schema's JSON. Raises NotFoundError."""
        document = self.registry.get_schema(name)
        if document is None:
            raise NotFoundError(f"Schema {name} not found.{nearest(name, self.names())}")
        return document

    def get(self, name: str) -> Schema:
        """Return a schema. Raises NotFoundError."""
        return Schema.from_json(self.document(name)).value

    def parse(self, document: Mapping[str, Any]) -> Parsed[Schema]:
        """Read and validate a document. Raises InvalidConfigError."""
        parsed = Schema.from_json(document)
        if problem := name_problem(parsed.value.name):
            raise InvalidConfigError(f"schemaName: {problem}")
        validate_schema(parsed.value, columns_of=columns_of)
        if any(spec.transform_function for spec in parsed.value.fields):
            check_ingestion(parsed.value, TableConfig.offline(parsed.value.name))
        return parsed

    def add(
        self,
        document: Mapping[str, Any],
        *,
        override: bool = True,
        force: bool = False,
        replaced_tables: Collection[str] = (),
    ) -> Parsed[Schema]:
        """Add a schema, or with `override` replace it by a compatible one.

        replaced_tables: typed tables whose configs the caller replaces as well, so that their current ones are not
        checked. Raises ConflictError if it exists and may not be replaced, InvalidConfigError if the document is
        invalid, is incompatible with the present schema (without `force`), or lacks a column that a table config
        names.
        """
        parsed = self.parse(document)
        name = parsed.value.name
        with self.lock:
            existing = self.registry.get_schema(name)
            if existing is not None:
                if not override:
                    raise ConflictError(f"Schema: {name} already exists. Use override=true to replace it.")
                before = Schema.from_json(existing).value
                self._check_keys(before, parsed.value, replaced_tables)
                if not force:
                    check_backward_compatible(before, parsed.value)
                self._check_tables(before, parsed.value, replaced_tables)
            self.registry.put_schema(name, parsed.value.to_json())
        return parsed

    def _check_keys(self, before: Schema, after: Schema, but: Collection[str]) -> None:
        """Raise InvalidConfigError if the primary key of an upsert or dedup table changes, since it determined the
        stored rows."""
        if before.primary_key_columns == after.primary_key_columns:
            return
        for table, config in self._tables_of(after.name, but):
            if config.has_keys:
                raise InvalidConfigError(
                    f"Failed to update table '{table}': Cannot modify [primaryKeyColumns] as it may lead to data "
                    "inconsistencies. Please create a new table instead."
                )

    def _tables_of(self, name: str, but: Collection[str]) -> Iterator[tuple[str, TableConfig]]:
        for table in self.registry.table_names():
            document = self.registry.get_table_config(table)
            if raw_table_name(table) == name and table not in but and document is not None:
                yield table, TableConfig.from_json(document).value

    def _check_tables(self, before: Schema, after: Schema, but: Collection[str]) -> None:
        """Raise InvalidConfigError if a table's config is valid with the old schema but not with the new one."""
        for table, config in self._tables_of(after.name, but):
            try:
                validate_table_config(config, after, columns_of=columns_of)
            except InvalidConfigError as error:
                if _is_valid(config, before):
                    raise InvalidConfigError(
                        f"schema '{after.name}' does not match the config of table {table}, change that first, or both with "
                        f"PUT /tableConfigs/{after.name}: {error}"
                    ) from error

    def replace(self, name: str, document: Mapping[str, Any], *, force: bool = False) -> Parsed[Schema]:
        """Replace the schema `name`. Raises NotFoundError, InvalidConfigError."""
        parsed = self.parse(document)
        if parsed.value.name != name:
            raise InvalidConfigError(f"Schema name mismatch for uploaded schema: '{parsed.value.name}' is not '{name}'")
        with self.lock:
            self.document(name)
            return self.add(document, override=True, force=force)

    def delete(self, name: str) -> None:
        """Delete a schema. Raises NotFoundError, or ConflictError while a table uses it."""
        with self.lock:
            self.document(name)
            self._check_unused(name)
            self.registry.delete_schema(name)

    def _check_unused(self, name: str) -> None:
        users = [table for table in self.registry.table_names() if raw_table_name(table) == name]
        if users:
            raise ConflictError(f"Cannot delete schema {name}, as it is associated with table {', '.join(users)}")


def _is_valid(config: TableConfig, schema: Schema) -> bool:
    try:
        validate_table_config(config, schema, columns_of=columns_of)
    except InvalidConfigError:
        return False
    return True

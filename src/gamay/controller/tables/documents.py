"""A schema and its tables as one document, changed together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.cluster.access.principals import Principal
from gamay.controller.context import ControllerContext
from gamay.controller.tables.schemas import SchemaManager
from gamay.controller.tables.tables import TableManager, refuse_changes
from gamay.model.parse import Parsed
from gamay.model.rules.upsert_changes import forbidden_changes
from gamay.model.schema.schema import Schema, check_backward_compatible
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType, raw_table_name, table_type_of, typed_table_name

_KEYS = frozenset({"tableName", "schema", "offline", "realtime"})
_SLOTS = {"offline": TableType.OFFLINE, "realtime": TableType.REALTIME}


@dataclass(frozen=True, slots=True)
class TableDocument:
    """A raw name, its schema, and its table configs by type."""

    name: str
    schema: Parsed[Schema]
    configs: Mapping[TableType, Parsed[TableConfig]]
    unrecognized: Mapping[str, Any]
    suggestions: Mapping[str, str]
    warnings: Sequence[str]
    """Warnings for the client: settings without effect, deprecated keys, and changes that servers apply late."""

    def to_json(self) -> dict[str, Any]:
        """Return the document with every part in its full form."""
        tables = {slot: self.configs[t].value.to_json() for slot, t in _SLOTS.items() if t in self.configs}
        return {"tableName": self.name, "schema": self.schema.value.to_json(), **tables}


@dataclass(frozen=True, slots=True)
class TableDocuments:
    """Manager of the documents of all tables."""

    context: ControllerContext
    schemas: SchemaManager
    tables: TableManager

    def document(self, name: str) -> dict[str, Any]:
        """Return a raw table's document. Raises NotFoundError, InvalidConfigError."""
        _check_raw(name)
        found: dict[str, Any] = {"tableName": name}
        schema = self.context.registry.get_schema(name)
        configs = {
            slot: config
            for slot, table_type in _SLOTS.items()
            if (config := self.context.registry.get_table_config(typed_table_name(name, table_type))) is not None
        }
        if not configs:
            raise NotFoundError(f"Table {name} not found.")
        return {**found, **({} if schema is None else {"schema": schema}), **configs}

    def parse(self, document: Mapping[str, Any], skip: str = "", *, by: Principal) -> TableDocument:
        """Read and validate a document and all its parts. Raises InvalidConfigError."""
        name = document.get("tableName")
        if not isinstance(name, str) or not name:
            raise InvalidConfigError("tableConfigs: the key 'tableName' is missing")
        _check_raw(name)
        if not isinstance(document.get("schema"), dict):
            raise InvalidConfigError(f"tableConfigs '{name}': the key 'schema' is missing or not an object")
        schema = self.schemas.parse(document["schema"])
        if schema.value.name != name:
            raise InvalidConfigError(f"tableConfigs '{name}': the schema is named '{schema.value.name}'")
        unrecognized = {f"/{key}": value for key, value in document.items() if key not in _KEYS}
        unrecognized |= {f"/schema{pointer}": value for pointer, value in schema.unrecognized.items()}
        suggestions = {f"/schema{pointer}": key for pointer, key in schema.suggestions.items()}
        configs: dict[TableType, Parsed[TableConfig]] = {}
        warnings: list[str] = []
        for slot, table_type in _SLOTS.items():
            part = document.get(slot)
            if part is None:
                continue
            parsed = self.tables.parse(part, schema.value, skip, by=by)
            if parsed.value.typed_name != typed_table_name(name, table_type):
                raise InvalidConfigError(f"tableConfigs '{name}': '{slot}' is the config of '{parsed.value.typed_name}'")
            unrecognized |= {f"/{slot}{pointer}": value for pointer, value in parsed.unrecognized.items()}
            suggestions |= {f"/{slot}{pointer}": key for pointer, key in parsed.suggestions.items()}
            configs[table_type] = parsed
            warnings += [f"{slot}: {told}" for told in self.tables.notices(parsed.value, part, schema.value)]
        if not configs:
            raise InvalidConfigError(f"tableConfigs '{name}': it has neither 'offline' nor 'realtime'")
        return TableDocument(name, schema, configs, unrecognized, suggestions, warnings)

    def add(self, document: Mapping[str, Any], skip: str = "", *, by: Principal) -> TableDocument:
        """Add a schema and its tables, all or nothing. Raises InvalidConfigError, also if a part already exists."""
        with self.schemas.lock:
            return self._add(document, skip, by)

    def _add(self, document: Mapping[str, Any], skip: str, by: Principal) -> TableDocument:
        parsed = self.parse(document, skip, by=by)
        existing = [t for t in TableType if typed_table_name(parsed.name, t) in self.tables.names()]
        if existing or self.context.registry.get_schema(parsed.name) is not None:
            raise InvalidConfigError(f"TableConfigs: {parsed.name} already exists. Use PUT to update existing config")
        self.schemas.add(parsed.schema.value.to_json(), override=False)
        added: list[str] = []
        try:
            for config in parsed.configs.values():
                self.tables.add(config.value.to_json(), skip, by=by)
                added.append(config.value.typed_name)
        except BaseException:
            for table in added:
                self.tables.delete(table, "0d")
            self.context.registry.delete_schema(parsed.name)
            raise
        return parsed

    def replace(
        self, name: str, document: Mapping[str, Any], skip: str = "", *, by: Principal, force_schema: bool = False
    ) -> TableDocument:
        """Change a schema and its tables, adding a type that is missing. Raises InvalidConfigError."""
        with self.schemas.lock:
            return self._replace(name, document, skip, by, force_schema)

    def _replace(
        self, name: str, document: Mapping[str, Any], skip: str, by: Principal, force_schema: bool
    ) -> TableDocument:
        parsed = self.parse(document, skip, by=by)
        if parsed.name != name:
            raise InvalidConfigError(
                f"Request table name '{name}' does not match the table name '{parsed.name}' in the body"
            )
        existing = {t for t in TableType if typed_table_name(name, t) in self.tables.names()}
        if not existing:
            raise InvalidConfigError(f"TableConfigs: {name} does not exist. Use POST to create it first.")
        known = self.context.registry.get_schema(name)
        if known is not None and not force_schema:
            check_backward_compatible(Schema.from_json(known).value, parsed.schema.value)
        if not force_schema:
            for table_type in existing & parsed.configs.keys():
                table = typed_table_name(name, table_type)
                changed = forbidden_changes(self.tables.get(table), parsed.configs[table_type].value)
                refuse_changes(table, changed, "forceTableSchemaUpdate")
        replaced = [typed_table_name(name, table_type) for table_type in parsed.configs]
        self.schemas.add(parsed.schema.value.to_json(), force=True, replaced_tables=replaced)
        warnings = list(parsed.warnings)
        for slot, table_type in _SLOTS.items():
            if table_type not in parsed.configs:
                continue
            config = parsed.configs[table_type].value
            if table_type in existing:
                _, late = self.tables.replace(config.typed_name, config.to_json(), skip, by=by, force=force_schema)
                warnings += [f"{slot}: {told}" for told in late]
            else:
                self.tables.add(config.to_json(), skip, by=by)
        return replace(parsed, warnings=warnings)

    def delete(self, name: str) -> bool:
        """Delete the tables and the schema of a raw name; return whether any existed."""
        _check_raw(name)
        with self.schemas.lock:
            found = [typed for t in TableType if (typed := typed_table_name(name, t)) in self.tables.names()]
            for table in found:
                self.tables.delete(table)
            had_schema = self.context.registry.get_schema(name) is not None
            self.context.registry.delete_schema(name)
        return bool(found) or had_schema


def _check_raw(name: str) -> None:
    if table_type_of(name) is not None:
        raise InvalidConfigError(f"tableConfigs are named without type, '{raw_table_name(name)}', not '{name}'")

"""Schemas: add, change compatibly, delete."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError, nearest
from gamay.cluster.invariants import name_problem
from gamay.cluster.registry import Registry
from gamay.model.parse import Parsed
from gamay.model.schema import Schema, check_backward_compatible
from gamay.model.table_name import raw_table_name
from gamay.model.validation import validate_schema
from gamay.sql.columns import columns_of


@dataclass(frozen=True, slots=True)
class SchemaManager:
    """The schemas of the cluster."""

    registry: Registry

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
        return parsed

    def add(self, document: Mapping[str, Any], *, override: bool = True, force: bool = False) -> Parsed[Schema]:
        """Add a schema, or with `override` replace it by a compatible one.

        Raises ConflictError when it exists and may not be replaced, InvalidConfigError when the document is invalid or,
        without `force`, takes from queries what they may rely on.
        """
        parsed = self.parse(document)
        name = parsed.value.name
        existing = self.registry.get_schema(name)
        if existing is not None:
            if not override:
                raise ConflictError(f"Schema: {name} already exists. Use override=true to replace it.")
            if not force:
                check_backward_compatible(Schema.from_json(existing).value, parsed.value)
        self.registry.put_schema(name, parsed.value.to_json())
        return parsed

    def replace(self, name: str, document: Mapping[str, Any], *, force: bool = False) -> Parsed[Schema]:
        """Replace the schema `name`. Raises NotFoundError, InvalidConfigError."""
        parsed = self.parse(document)
        if parsed.value.name != name:
            raise InvalidConfigError(f"Schema name mismatch for uploaded schema: '{parsed.value.name}' is not '{name}'")
        self.document(name)
        return self.add(document, override=True, force=force)

    def delete(self, name: str) -> None:
        """Delete a schema. Raises NotFoundError, or ConflictError while a table uses it."""
        self.document(name)
        users = [table for table in self.registry.table_names() if raw_table_name(table) == name]
        if users:
            raise ConflictError(f"Cannot delete schema {name}, as it is associated with table {', '.join(users)}")
        self.registry.delete_schema(name)

"""Databases: tables with a common name prefix, as in `sales.trips`; those without a dot are in the database `default`."""

from dataclasses import dataclass
from typing import Any

from gamay.base.errors import GamayError, NotFoundError, nearest
from gamay.cluster.store import paths
from gamay.controller.tables.tables import TableManager
from gamay.model.table.table_name import database_of


@dataclass(frozen=True, slots=True)
class DatabaseManager:
    """Manager of the databases of the cluster."""

    tables: TableManager

    def names(self) -> list[str]:
        """Return the databases that have tables, schemas or a quota, ascending."""
        registry = self.tables.context.registry
        named = {database_of(name) for name in (*self.tables.names(), *registry.schema_names())}
        return sorted(named | set(registry.store.children(paths.DATABASES)))

    def tables_of(self, name: str) -> list[str]:
        """Return the typed tables of a database, ascending."""
        return [table for table in self.tables.names() if database_of(table) == name]

    def delete(self, name: str, *, dry_run: bool) -> dict[str, Any]:
        """Delete all tables of a database, or only list them.

        Raises NotFoundError. A table that cannot be deleted is reported with the reason and does not affect the others.
        Schemas stay.
        """
        if name not in (known := self.names()):
            raise NotFoundError(f"Database {name} does not exist.{nearest(name, known)}")
        deleted: list[str] = []
        failed: list[dict[str, str]] = []
        for table in self.tables_of(name):
            try:
                if not dry_run:
                    self.tables.delete(table)
                deleted.append(table)
            except GamayError as error:
                failed.append({"tableName": table, "errorMessage": str(error)})
        if not dry_run and not failed:
            self.tables.context.registry.store.delete(paths.database(name))
        return {"deletedTables": deleted, "failedTables": failed, "dryRun": dry_run}

"""Creation of a table's primary keys from its config; imported with the first table that has keys."""

from pathlib import Path

from gamay.base.clock import Clock
from gamay.ingest.transform.post_merge import post_merge_transform
from gamay.model.table.upsert_defaults import ServerDefaults
from gamay.query.layout.rebuild import TableLayout
from gamay.upsert.config.settings import DedupSettings, UpsertSettings
from gamay.upsert.persist.host import Host
from gamay.upsert.persist.snapshots import SnapshotFolder
from gamay.upsert.spi import KeyedTable
from gamay.upsert.tables.plugins import dedup_manager, upsert_manager
from gamay.upsert.tables.table import TableUpsert


def keyed_table(layout: TableLayout, folder: Path, clock: Clock, defaults: ServerDefaults, host: Host) -> KeyedTable | None:
    """Return the keys of a table, None if it does not need them. Raises InvalidConfigError.

    folder: for its snapshots. host: the interface to its server.
    """
    settings = UpsertSettings.of(layout.config, layout.schema, defaults)
    dedup = DedupSettings.of(layout.config, layout.schema, defaults)
    if settings is None:
        return None if dedup is None else dedup_manager(dedup.manager)(dedup)
    transforms = settings.config.post_partial_upsert_transforms
    transform = post_merge_transform(settings.schema, transforms) if transforms else None
    return upsert_manager(settings.manager)(settings, SnapshotFolder(folder), clock, transform, host)


def upsert_of(keys: KeyedTable) -> TableUpsert | None:
    """Return the keys of an upsert table, None for a dedup table."""
    return keys if isinstance(keys, TableUpsert) else None

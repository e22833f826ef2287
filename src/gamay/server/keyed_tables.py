"""Making the keys of a table from its config: imported when the first table comes whose rows have keys."""

from pathlib import Path
from typing import TypeVar

from gamay.base.clock import Clock
from gamay.base.errors import InvalidConfigError
from gamay.ingest.post_merge import post_merge_transform
from gamay.model.upsert_defaults import ServerDefaults
from gamay.server.rebuild import TableLayout
from gamay.upsert.dedup import TableDedup
from gamay.upsert.host import Host
from gamay.upsert.merging import load_class
from gamay.upsert.settings import DedupSettings, UpsertSettings
from gamay.upsert.snapshots import SnapshotFolder
from gamay.upsert.spi import KeyedTable
from gamay.upsert.table import TableUpsert

T = TypeVar("T")


def keyed_table(layout: TableLayout, folder: Path, clock: Clock, defaults: ServerDefaults, host: Host) -> KeyedTable | None:
    """Return the keys of a table, None when it has no use for them. Raises InvalidConfigError.

    folder: for its snapshots. host: what its server does for it.
    """
    settings = UpsertSettings.of(layout.config, layout.schema, defaults)
    dedup = DedupSettings.of(layout.config, layout.schema, defaults)
    if settings is None:
        return None if dedup is None else _manager(dedup.manager, TableDedup, "dedup")(dedup)
    transforms = settings.config.post_partial_upsert_transforms
    transform = post_merge_transform(settings.schema, transforms) if transforms else None
    made = _manager(settings.manager, TableUpsert, "upsert")
    return made(settings, SnapshotFolder(folder), clock, transform, host)


def upsert_of(keys: KeyedTable) -> TableUpsert | None:
    """Return the keys of a table whose rows replace each other, None for those that only drop repeated ones."""
    return keys if isinstance(keys, TableUpsert) else None


def _manager(path: str, base: "type[T]", section: str) -> "type[T]":
    """Return the class that a config names as `module.Class`, or `base`. Raises InvalidConfigError."""
    if not path:
        return base
    found = load_class(path, "metadataManagerClass", section)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InvalidConfigError(
            f"{section}Config.metadataManagerClass is '{path}', which is no subclass of {base.__module__}.{base.__name__}"
        )
    return found

"""Upload of segments to the deep store on request."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.model.table.table_name import TableType, table_type_of
from gamay.server.instance.instance import ServerInstance


@dataclass(frozen=True, slots=True)
class StoredCopy:
    """A segment's copy in the deep store."""

    url: str
    crc: int


def store_copy(instance: ServerInstance, table: str, segment: str) -> StoredCopy:
    """Upload a loaded segment of a REALTIME table to the deep store; its record is not changed.

    Raises NotFoundError if it is not loaded, InvalidConfigError for another table or if this server cannot access
    the deep store, OSError if that does not answer.
    """
    if table_type_of(table) is not TableType.REALTIME:
        raise InvalidConfigError(f"segments of '{table}' are not uploaded by servers: they came from the deep store")
    data, store = instance.table(table), instance.deep_store
    loaded = None if data is None else data.snapshot().get(segment)
    if data is None or loaded is None:
        raise NotFoundError(f"segment '{segment}' of table '{table}' is not loaded on this server")
    if store is None:
        raise InvalidConfigError(
            "this server does not know where the deep store is: set pinot.server.instance.segment.store.uri, or ask the "
            f"controller for POST /segments/{table}/uploadFromServerToDeepstore"
        )
    scratch = Path(tempfile.mkdtemp(prefix="gamay-copy-"))
    try:
        archive = scratch / f"{segment}.tar.zst"
        data.pack(segment, archive)
        return StoredCopy(store.put(archive, table, segment, loaded.crc), loaded.crc)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

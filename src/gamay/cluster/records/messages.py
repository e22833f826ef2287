"""Messages to servers: one-time commands that no record contains."""

from collections.abc import Mapping, Sequence

from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.store.znrecord import ZNRecord, encode

RELOAD = "RELOAD_SEGMENT"
"""Reload segments (default: all of the table); `forceDownload`: not from the server's local copies."""
FORCE_COMMIT = "FORCE_COMMIT"
"""Commit the named consuming segments with the rows they have."""
REPORT = "REPORT"
"""Report the table's current state again, since the report was deleted."""


def send(
    store: MetadataStore,
    server: str,
    subtype: str,
    table: str,
    segments: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
) -> None:
    """Send a server a command for a typed table. more: further fields of the message."""
    simple = {"MSG_TYPE": "USER_DEFINE_MSG", "MSG_SUBTYPE": subtype, "tableName": table, **(more or {})}
    message = ZNRecord(f"{subtype.lower()}-{table}", simple, lists={"segments": list(segments)})
    store.create(f"{paths.messages(server)}/{subtype.lower()}-", encode(message), sequence=True)

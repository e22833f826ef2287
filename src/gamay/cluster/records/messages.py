"""Messages to servers: what one is to do now, which no record says."""

from collections.abc import Mapping, Sequence

from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.store.znrecord import ZNRecord, encode

RELOAD = "RELOAD_SEGMENT"
"""Load segments again, all of the table's when none is named; `forceDownload`: not from the server's copies."""
FORCE_COMMIT = "FORCE_COMMIT"
"""Commit the named consuming segments with what they have."""
REPORT = "REPORT"
"""Report the table's current state anew: the report was deleted."""


def send(
    store: MetadataStore,
    server: str,
    subtype: str,
    table: str,
    segments: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
) -> None:
    """Have a server do what a subtype says with a typed table. more: what else the message says."""
    simple = {"MSG_TYPE": "USER_DEFINE_MSG", "MSG_SUBTYPE": subtype, "tableName": table, **(more or {})}
    message = ZNRecord(f"{subtype.lower()}-{table}", simple, lists={"segments": list(segments)})
    store.create(f"{paths.messages(server)}/{subtype.lower()}-", encode(message), sequence=True)

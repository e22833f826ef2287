"""The secret that the processes of a cluster share where none is configured: made by the first, read by the others.

It lies in the metadata store. With ZooKeeper only those who may read that node may know it: give the processes an identity
(`zookeeper.auth.digest`, `zookeeper.sasl.…`), by which all nodes are made theirs alone.
"""

import logging
import secrets
from contextlib import suppress

from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore, update
from gamay.cluster.store.znrecord import CorruptRecordError, ZNRecord, decode, encode

_log = logging.getLogger(__name__)
_BYTES = 32
_FIELD = "secret"


def shared_secret(store: MetadataStore) -> bytes:
    """Return the cluster's secret, made now if there is none, or if its record is damaged, which is logged."""
    node = store.get(paths.CLUSTER_SECRET)
    known = None if node is None else _secret_in(node.value)
    if known is not None:
        return known
    if node is not None:
        _log.error("%s is damaged, the secret is made anew: start all other processes anew, too", paths.CLUSTER_SECRET)
    name, made = paths.CLUSTER_SECRET.rpartition("/")[2], secrets.token_hex(_BYTES)
    used = b""

    def change(value: bytes | None) -> bytes:
        nonlocal used
        found = None if value is None else _secret_in(value)  # another process was first
        used = made.encode() if found is None else found
        return encode(ZNRecord(name, {_FIELD: used.decode()}))

    update(store, paths.CLUSTER_SECRET, change)
    return used


def _secret_in(value: bytes) -> bytes | None:
    with suppress(CorruptRecordError):
        return decode(value).simple.get(_FIELD, "").encode() or None
    return None

"""The secret that the processes of a cluster share where none is configured: made by the first, read by the others.

It lies in the metadata store. With ZooKeeper only those who may read that node may know it: give the processes an identity
(`zookeeper.auth.digest`, `zookeeper.sasl.…`), by which all nodes are made theirs alone.
"""

import secrets
from contextlib import suppress

from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.cluster import paths
from gamay.cluster.store import MetadataStore
from gamay.cluster.znrecord import ZNRecord, decode, encode

_BYTES = 32
_FIELD = "secret"


def shared_secret(store: MetadataStore) -> bytes:
    """Return the secret of the cluster, made now if there is none. Raises InvalidConfigError for a record without one."""
    node = store.get(paths.CLUSTER_SECRET)
    if node is None:
        name = paths.CLUSTER_SECRET.rpartition("/")[2]
        with suppress(ConflictError):  # another process was first
            store.create(paths.CLUSTER_SECRET, encode(ZNRecord(name, {_FIELD: secrets.token_hex(_BYTES)})))
        node = store.get(paths.CLUSTER_SECRET)
    found = None if node is None else decode(node.value).simple.get(_FIELD)
    if not found:
        raise InvalidConfigError(
            f"{paths.CLUSTER_SECRET} of the metadata store has no '{_FIELD}': delete the node, and start all processes anew"
        )
    return found.encode()

"""Records of any size in a store whose nodes are small.

A record that fits a node is stored in one. The node of a larger record keeps everything but the map fields (for an
ideal state: the table's own settings), and a list of buckets: nodes under `paths.BUCKETS` with the map fields,
distributed by the CRC-32 of their names. A change writes the buckets that differ, under new names, then switches the
node to them by compare-and-set, and then removes the buckets that are no longer referenced. So a reader that finds a
bucket missing reads the node again, and a writer that lost the race, or died, has changed nothing; `sweep` removes
the buckets of dead writers.
See `docs/decisions/0005-large-records.md`.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gamay.base.errors import ConflictError
from gamay.cluster.store import paths
from gamay.cluster.store.store import MAX_VALUE_BYTES, MetadataStore, Node, VersionConflictError
from gamay.cluster.store.znrecord import CorruptRecordError, ZNRecord, decode, encode

_LIST = "gamay.buckets"
_ENTRIES_MAX = 1024  # per bucket, on average
_ATTEMPTS_MAX = 50


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A record as read: its node, and the buckets of its map fields, each as `<name>:<CRC-32>`."""

    node: Node
    record: ZNRecord
    buckets: Sequence[str] = ()


def get(store: MetadataStore, path: str) -> ZNRecord | None:
    """Return the record at a path. Raises CorruptRecordError."""
    loaded = _load(store, path)
    return None if loaded is None else loaded.record


def update(
    store: MetadataStore, path: str, change: Callable[[ZNRecord | None], ZNRecord | None], *, ephemeral: bool = False
) -> None:
    """Change a record atomically: read, change and write until no other writer changed it in between.

    change: from the current record (None if there is none) to the new one; None deletes it. It may be called several
    times and must not modify its argument. ephemeral: the record belongs to the session, and replaces one of another
    session. Raises VersionConflictError after too many conflicts.
    """
    for _ in range(_ATTEMPTS_MAX):
        before = _load(store, path)
        if before is not None and ephemeral and before.node.ephemeral_owner != store.session_id:
            delete(store, path)
            before = None
        after = change(None if before is None else before.record)
        if after is None:
            if before is None:
                return
            try:
                store.delete(path, before.node.version)
            except VersionConflictError:
                continue
            _remove(store, path, before.buckets)
            return
        if before is not None and after == before.record:
            return
        if _write(store, path, before, after, ephemeral):
            return
    raise VersionConflictError(f"'{path}' was changed by other writers {_ATTEMPTS_MAX} times in a row")


def create(store: MetadataStore, path: str, record: ZNRecord) -> None:
    """Create a record. Raises ConflictError if it exists."""
    if store.get(path) is not None or not _write(store, path, None, record, ephemeral=False):
        raise ConflictError(f"'{path}' exists already")


def replace(store: MetadataStore, path: str, record: ZNRecord) -> None:
    """Replace a record that cannot be read. Raises VersionConflictError if another writer changes it meanwhile."""
    node = store.get(path)
    damaged = None if node is None else _Loaded(node, ZNRecord(record.id))
    if not _write(store, path, damaged, record, ephemeral=False):
        raise VersionConflictError(f"'{path}' was changed by another writer")


def delete(store: MetadataStore, path: str) -> None:
    """Delete a record, if it exists."""
    node = store.get(path)
    if node is not None:
        store.delete(path)
        _remove(store, path, _named(node))


def sweep(store: MetadataStore, before_ms: int) -> int:
    """Remove unreferenced buckets that were written before a time; return how many.

    `before_ms` must be so long ago that no writer can still be about to reference such a bucket.
    """
    swept = 0
    for kind in store.children(paths.BUCKETS):
        for name in store.children(f"{paths.BUCKETS}/{kind}"):
            swept += _sweep(store, f"{paths.BUCKETS}/{kind}/{name}", before_ms)
    return swept


def _sweep(store: MetadataStore, folder: str, before_ms: int) -> int:
    swept = 0
    path = f"/{paths.CLUSTER_NAME}{folder.removeprefix(paths.BUCKETS)}".replace(":", "/")
    for name in store.children(folder):
        bucket = store.get(f"{folder}/{name}")
        if bucket is None or bucket.created_ms >= before_ms or bucket.ephemeral_owner:
            continue
        node = store.get(path)
        named = () if node is None else _named(node)
        if name not in {entry.partition(":")[0] for entry in named}:
            store.delete(f"{folder}/{name}")
            swept += 1
    return swept


def _named(node: Node) -> Sequence[str]:
    """Return the buckets that a node references; empty if it does not hold a record."""
    try:
        return decode(node.value).lists.get(_LIST, ())
    except CorruptRecordError:
        return ()


def _folder(path: str) -> str:
    """Return the folder of a record's buckets: `BUCKETS/<kind>/<rest of the path, with ':' for '/'>`."""
    kind, _, rest = path.removeprefix(f"/{paths.CLUSTER_NAME}/").partition("/")
    return f"{paths.BUCKETS}/{kind}/{rest.replace('/', ':')}"


def _bucket_of(name: str, count: int) -> int:
    return zlib.crc32(name.encode()) & (count - 1)


def _load(store: MetadataStore, path: str) -> _Loaded | None:
    problem = ""
    for _ in range(_ATTEMPTS_MAX):
        node = store.get(path)
        if node is None:
            return None
        record = decode(node.value)
        buckets = record.lists.get(_LIST)
        if buckets is None:
            return _Loaded(node, record)
        maps: dict[str, dict[str, str]] = {}
        found = store.get_many([f"{_folder(path)}/{entry.partition(':')[0]}" for entry in buckets])
        for entry, bucket in zip(buckets, found, strict=True):
            if bucket is None or f"{zlib.crc32(bucket.value):08x}" != entry.partition(":")[2]:
                problem = f"'{path}' references a bucket that is missing or damaged: {entry}"
                break
            maps |= decode(bucket.value).maps
        else:
            lists = {name: value for name, value in record.lists.items() if name != _LIST}
            return _Loaded(node, ZNRecord(record.id, record.simple, maps, lists), buckets)
    raise CorruptRecordError(problem)


def _write(store: MetadataStore, path: str, before: _Loaded | None, after: ZNRecord, ephemeral: bool) -> bool:
    """Replace the record that was read; return False if another writer changed it meanwhile."""
    value, buckets, made = _encode(store, path, before, after, ephemeral)
    try:
        if before is None:
            store.create(path, value, ephemeral=ephemeral)
        else:
            store.set(path, value, before.node.version)
    except BaseException as error:
        _remove(store, path, made)
        if isinstance(error, ConflictError):
            return False
        raise
    if before is not None:
        _remove(store, path, [entry for entry in before.buckets if entry not in set(buckets)])
    return True


def _encode(
    store: MetadataStore, path: str, before: _Loaded | None, after: ZNRecord, ephemeral: bool
) -> tuple[bytes, Sequence[str], Sequence[str]]:
    """Return the node's value, the buckets that it references, and those of them that were created for it."""
    if len(after.maps) <= _ENTRIES_MAX:
        value = encode(after)
        if len(value) <= MAX_VALUE_BYTES:
            return value, (), ()
    count = 1 << max(0, (len(after.maps) - 1).bit_length() - _ENTRIES_MAX.bit_length() + 1)
    kept = () if before is None or len(before.buckets) != count else before.buckets
    was = {} if before is None or not kept else before.record.maps
    changed = {_bucket_of(n, count) for n, states in after.maps.items() if was.get(n) != states}
    changed |= {_bucket_of(n, count) for n in was if n not in after.maps}
    contents: dict[int, dict[str, dict[str, str]]] = {number: {} for number in (changed if kept else range(count))}
    for name, states in after.maps.items():
        number = _bucket_of(name, count)
        if number in contents:
            contents[number][name] = states
    buckets = list(kept) or [""] * count
    made: list[str] = []
    try:
        for number, maps in contents.items():
            value = encode(ZNRecord(f"{after.id}_{number}", maps=maps))
            created = store.create(f"{_folder(path)}/b", value, ephemeral=ephemeral, sequence=True)
            made.append(f"{created.rpartition('/')[2]}:{zlib.crc32(value):08x}")
            buckets[number] = made[-1]
    except BaseException:
        _remove(store, path, made)
        raise
    return encode(ZNRecord(after.id, after.simple, lists={**after.lists, _LIST: buckets})), buckets, made


def _remove(store: MetadataStore, path: str, entries: Sequence[str]) -> None:
    for entry in entries:
        store.delete(f"{_folder(path)}/{entry.partition(':')[0]}")

"""The metadata store: a small tree of versioned values that all roles of a cluster share.

Paths are absolute, parts joined by `/`, like ZooKeeper's. A node holds at most `MAX_VALUE_BYTES` bytes and may have
children. Everything that is acknowledged is durable, except ephemeral nodes, which live as long as the session that
created them. The conformance suite in `tests/cluster` defines the behaviour of an implementation.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gamay.base.errors import ConflictError, GamayError, InvalidConfigError

MAX_VALUE_BYTES = 100_000
_UPDATE_ATTEMPTS_MAX = 500  # a thread among many on a busy machine may lose dozens of races
_MALFORMED = re.compile(r"/\.{0,2}(?:/|\Z)|\0")  # an empty part, '.' or '..'

Watcher = Callable[[str], None]


class VersionConflictError(ConflictError):
    """A write to a node that was changed since it was read; read it again and repeat the decision."""


class FencedError(GamayError):
    """A write by a writer that was fenced off, because the node that authorises it was changed; the writer must stop."""

    http_status = 503


class StoreUnavailableError(GamayError):
    """A store that does not answer. A requested change may have been made regardless."""

    http_status = 503


class Node(NamedTuple):
    """A node as it was read.

    version: number of times that the value was set since the node was created, from 0.
    created_ms, modified_ms: wall clock of the store. ephemeral_owner: id of the owning session, 0 if persistent.
    """

    value: bytes
    version: int
    created_ms: int
    modified_ms: int
    ephemeral_owner: int
    num_children: int


class MetadataStore(Protocol):
    """One session with a metadata store. All methods may be called from any thread."""

    @property
    def session_id(self) -> int:
        """Return the id that owns the ephemeral nodes created through this object; never 0."""
        ...

    @property
    def connected(self) -> bool:
        """Return whether the store answers now, as far as known without a request."""
        ...

    @property
    def num_reconnects(self) -> int:
        """Return how often a lost connection was restored; 0 for a store without connections."""
        ...

    def get(self, path: str) -> Node | None:
        """Return the node, or None if it does not exist."""
        ...

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes of many paths, in order, much faster than one by one; not an atomic snapshot."""
        ...

    def children(self, path: str) -> list[str]:
        """Return the names of the children, ascending; empty if the node does not exist."""
        ...

    def create(self, path: str, value: bytes, *, ephemeral: bool = False, sequence: bool = False) -> str:
        """Create a node and its missing parents, and return its path.

        sequence: append ten digits to `path` that grow with each node created under the same parent.
        Raises ConflictError if the node exists or its parent is ephemeral, InvalidConfigError for a value above
        `MAX_VALUE_BYTES` or a malformed path.
        """
        ...

    def set(self, path: str, value: bytes, version: int | None) -> int:
        """Replace the value if the node still has `version` (None: any) and return the new version.

        Raises NotFoundError if the node does not exist, VersionConflictError if it has another version.
        """
        ...

    def delete(self, path: str, version: int | None = None, *, recursive: bool = False) -> None:
        """Delete a node; a missing node is not an error.

        Raises VersionConflictError if it has another version, ConflictError if it has children and `recursive` is not
        set. A recursive deletion is atomic only in stores that document it.
        """
        ...

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher(changed_path)` after changes at or below the node; return the function that cancels the watch.

        A notification is a hint: the watcher reads what it needs. Several changes of one node may come as one
        notification, but the last change is always notified. After a loss of connection the watcher is called once
        with `path` itself: anything at or below it may have changed meanwhile. Watchers of a session run one at a
        time, in the
        order of the changes, on a thread of the store; they must be quick and must not raise.
        """
        ...

    def on_new_session(self, follow: Callable[[], None]) -> Callable[[], None]:
        """Call `follow` whenever the store had to start a new session; return the function that cancels this.

        The ephemeral nodes of the old session are gone, and `session_id` has changed, so owners create their nodes again.
        Watches continue. `follow` runs as watchers do, before they are notified that anything may have changed.
        """
        ...

    def fenced(self, path: str, version: int) -> "MetadataStore":
        """Return a view of this session that writes only while a node has `version`, which is checked with each write.

        A later write, even one in flight, changes nothing and raises FencedError. Reads still work.
        """
        ...

    def new_session(self) -> "MetadataStore":
        """Open another session with the same store, with its own ephemeral nodes and watches."""
        ...

    def close(self) -> None:
        """End the session: its ephemeral nodes are removed, its watches are cancelled."""
        ...


def update(store: MetadataStore, path: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
    """Read, change and write a node until no other writer changed it in between; return its new value.

    change: from the current value (None if the node does not exist) to the new one; None deletes the node, an equal value
    leaves it alone. It may be called several times, so it must have no side effects. Raises VersionConflictError after
    too many conflicts.
    """
    for _ in range(_UPDATE_ATTEMPTS_MAX):
        node = store.get(path)
        before = None if node is None else node.value
        after = change(before)
        if after == before:
            return after
        try:
            if node is None:
                assert after is not None
                store.create(path, after)
            elif after is None:
                store.delete(path, node.version)
            else:
                store.set(path, after, node.version)
        except ConflictError:
            continue
        return after
    raise VersionConflictError(f"'{path}' was changed by other writers {_UPDATE_ATTEMPTS_MAX} times in a row")


def check_path(path: str) -> None:
    """Raise InvalidConfigError unless the path is absolute, without empty, `.` or `..` parts."""
    if not path.startswith("/") or _MALFORMED.search(path):
        raise InvalidConfigError(f"'{path}' is not a path of the metadata store: it must look like /a/b")


def check_value(path: str, value: bytes) -> None:
    """Raise InvalidConfigError if the value exceeds `MAX_VALUE_BYTES`."""
    if len(value) > MAX_VALUE_BYTES:
        raise InvalidConfigError(
            f"the value for '{path}' has {len(value)} bytes, the metadata store takes {MAX_VALUE_BYTES}"
        )


def parent_of(path: str) -> str:
    """Return the path of the parent; of a top-level node, the empty string."""
    return path.rpartition("/")[0]

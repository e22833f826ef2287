"""The metadata store: a small tree of versioned values that all roles of a cluster share.

Paths are absolute, parts joined by `/`, like ZooKeeper's. A node holds at most `MAX_VALUE_BYTES` bytes and may have
children. Everything that is acknowledged is durable, except ephemeral nodes, which live as long as the session that
created them. The conformance suite in `tests/cluster` is the definition of what an implementation has to do.
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
    """The node was changed by someone else since it was read: read it again and decide anew."""


class FencedError(GamayError):
    """The writer has lost the right to write, because the node that gives it was changed: it must stop what it does."""

    http_status = 503


class StoreUnavailableError(GamayError):
    """The store does not answer. A change that was asked for may have been made all the same."""

    http_status = 503


class Node(NamedTuple):
    """What a node held at one moment.

    version: number of times that the value was set since the node was created, from 0.
    created_ms, modified_ms: wall clock of the store. ephemeral_owner: id of the owning session, 0 when persistent.
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
        """Return whether the store answers at the moment, as far as is known without asking it."""
        ...

    @property
    def num_reconnects(self) -> int:
        """Return how often a connection that was lost came back; 0 for a store that cannot be lost."""
        ...

    def get(self, path: str) -> Node | None:
        """Return the node, or None when it does not exist."""
        ...

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes of many paths, in their order, in far less time than one by one; not as of one moment."""
        ...

    def children(self, path: str) -> list[str]:
        """Return the names of the children, ascending; empty when the node does not exist."""
        ...

    def create(self, path: str, value: bytes, *, ephemeral: bool = False, sequence: bool = False) -> str:
        """Create a node, and parents that are missing, and return its path.

        sequence: append ten digits to `path` that grow with each node created under the same parent.
        Raises ConflictError when the node exists or its parent is ephemeral, InvalidConfigError for a value above
        `MAX_VALUE_BYTES` or a malformed path.
        """
        ...

    def set(self, path: str, value: bytes, version: int | None) -> int:
        """Replace the value if the node still has `version` (None: whatever it has) and return the new version.

        Raises NotFoundError when the node does not exist, VersionConflictError when it has another version.
        """
        ...

    def delete(self, path: str, version: int | None = None, *, recursive: bool = False) -> None:
        """Delete a node; deleting what does not exist is not an error.

        Raises VersionConflictError when it has another version, ConflictError when it has children and `recursive`
        is not set. A recursive deletion is one atomic change only in stores that say so.
        """
        ...

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher(changed_path)` after changes of the node or of anything below it; return what ends the watch.

        A notification is a hint: the watcher reads what it needs. Several changes of one node may come as one
        notification, but the last change is always notified. After a loss of connection the watcher is told `path`
        itself, once: anything at or below it may have changed meanwhile. Watchers of a session run one at a time, in the
        order of the changes, on a thread of the store; they must be quick and must not raise.
        """
        ...

    def on_new_session(self, follow: Callable[[], None]) -> Callable[[], None]:
        """Call `follow` whenever the store had to begin another session; return what ends that.

        The ephemeral nodes of the old one are gone, and `session_id` is another: who owned some creates them again.
        Watches go on. `follow` runs as watchers do, before they are told that anything may have changed.
        """
        ...

    def fenced(self, path: str, version: int) -> "MetadataStore":
        """Return this session with the right to write tied to a node: while it has `version`, checked with each write.

        A write after that, even one that was under way, changes nothing and raises FencedError. Reads go on.
        """
        ...

    def new_session(self) -> "MetadataStore":
        """Open another session with the same store, with ephemeral nodes and watches of its own."""
        ...

    def close(self) -> None:
        """End the session: its ephemeral nodes go, its watches fall silent."""
        ...


def update(store: MetadataStore, path: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
    """Read, change and write a node until nobody else changed it in between; return what it then holds.

    change: from the present value (None when the node does not exist) to the new one; None deletes the node, and the
    same value back leaves it alone. It may be called several times, so it must have no effect of its own.
    Raises VersionConflictError when the node never comes to rest.
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
    raise VersionConflictError(f"'{path}' was changed by others {_UPDATE_ATTEMPTS_MAX} times in a row")


def check_path(path: str) -> None:
    """Raise InvalidConfigError unless the path is absolute, without empty, `.` or `..` parts."""
    if not path.startswith("/") or _MALFORMED.search(path):
        raise InvalidConfigError(f"'{path}' is not a path of the metadata store: it must look like /a/b")


def check_value(path: str, value: bytes) -> None:
    """Raise InvalidConfigError when the value is larger than a node may be."""
    if len(value) > MAX_VALUE_BYTES:
        raise InvalidConfigError(
            f"the value for '{path}' has {len(value)} bytes, the metadata store takes {MAX_VALUE_BYTES}"
        )


def parent_of(path: str) -> str:
    """Return the path of the parent; of a top-level node, the empty string."""
    return path.rpartition("/")[0]

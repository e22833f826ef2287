"""The metadata store of a cluster of processes: ZooKeeper 3.6 or later, through kazoo.

A path of the store is a path below the address's chroot, with the cluster's name in place of `paths.CLUSTER_NAME`.
Changes are durable once a quorum has them. Reads of one session never go back in time; another session may see a
change later, and is notified by a watch. A recursive deletion is atomic up to `_DELETE_BATCH` nodes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from gamay.base.errors import ConflictError, NotFoundError
from gamay.cluster.store.store import (
    FencedError,
    Node,
    StoreUnavailableError,
    VersionConflictError,
    Watcher,
    check_path,
    check_value,
    parent_of,
)
from gamay.cluster.store.zookeeper_session import LostError, Session, ZooKeeperAddress, pause
from gamay.cluster.store.zookeeper_wire import MultiRead, Stat, is_no_node, send

__all__ = ["ZooKeeperAddress", "ZooKeeperStore"]

_READ_BATCH = 1000
_DELETE_BATCH = 1000
_ANY_VERSION = -1


class ZooKeeperStore:
    """A session. fence: a node and the version that it must have for any write."""

    def __init__(self, session: Session, fence: tuple[str, int] | None = None) -> None:
        self._session = session
        self._fence = fence

    @classmethod
    def open(cls, address: ZooKeeperAddress) -> "ZooKeeperStore":
        """Start a session.

        Raises StoreUnavailableError if ZooKeeper does not answer within `patience_s`, InvalidConfigError for an
        invalid address, or if the package kazoo is missing.
        """
        return cls(Session.open(address))

    @property
    def session_id(self) -> int:
        return self._session.id

    @property
    def num_reconnects(self) -> int:
        return self._session.num_reconnects

    @property
    def connected(self) -> bool:
        """Whether ZooKeeper answers now."""
        return self._session.connected.is_set()

    def get(self, path: str) -> Node | None:
        check_path(path)
        return _get(self._session, path)

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        for path in paths:
            check_path(path)
        session, nodes = self._session, list[Node | None]()
        for start in range(0, len(paths), _READ_BATCH):
            request = MultiRead([session.names.there(path) for path in paths[start : start + _READ_BATCH]])
            for found in session.read(lambda request=request: send(session.client, request)):  # type: ignore[misc]
                if isinstance(found, int) and not is_no_node(found):
                    raise StoreUnavailableError(f"ZooKeeper cannot read nodes: error {found}")
                nodes.append(None if isinstance(found, int) else _node(*found))
        return nodes

    def children(self, path: str) -> list[str]:
        check_path(path)
        return _children(self._session, path)

    def create(self, path: str, value: bytes, *, ephemeral: bool = False, sequence: bool = False) -> str:
        check_path(path)
        check_value(path, value)
        return _Writer(self._session, self._fence).create(path, value, ephemeral, sequence)

    def set(self, path: str, value: bytes, version: int | None) -> int:
        check_path(path)
        check_value(path, value)
        return _Writer(self._session, self._fence).set(path, value, version)

    def delete(self, path: str, version: int | None = None, *, recursive: bool = False) -> None:
        check_path(path)
        _Writer(self._session, self._fence).delete(path, version, recursive)

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        check_path(path)
        cancel = self._session.watches.add(path, watcher)
        self._session.add_watch(path)
        return cancel

    def on_new_session(self, follow: Callable[[], None]) -> Callable[[], None]:
        followers = self._session.followers
        followers.append(follow)
        return lambda: followers.remove(follow) if follow in followers else None

    def fenced(self, path: str, version: int) -> "ZooKeeperStore":
        check_path(path)
        return ZooKeeperStore(self._session, (path, version))

    def new_session(self) -> "ZooKeeperStore":
        return ZooKeeperStore.open(self._session.address)

    def close(self) -> None:
        self._session.close()


class _Writer:
    """A change that is made exactly once although connections break: an earlier attempt is recognised by its result."""

    def __init__(self, session: Session, fence: tuple[str, int] | None) -> None:
        self._session = session
        self._fence = fence
        self._was_sent = False

    def create(self, path: str, value: bytes, ephemeral: bool, sequence: bool) -> str:
        from kazoo.exceptions import NoChildrenForEphemeralsError, NodeExistsError, NoNodeError

        there = self._session.names.there(path)
        while True:
            try:
                made = self._commit(
                    lambda t: t.create(there, value, ephemeral=ephemeral, sequence=sequence), again=not sequence
                )
                return self._session.names.here(made)
            except NoNodeError:
                self._create_parent(path)
            except NoChildrenForEphemeralsError as error:
                raise ConflictError(f"'{parent_of(path)}' is ephemeral and cannot have children") from error
            except NodeExistsError as error:
                node = _get(self._session, path) if self._was_sent else None
                owner = self._session.id if ephemeral else 0
                if node is not None and (node.value, node.version, node.ephemeral_owner) == (value, 0, owner):
                    return path
                raise ConflictError(f"'{path}' exists already") from error

    def set(self, path: str, value: bytes, version: int | None) -> int:
        from kazoo.exceptions import BadVersionError, NoNodeError

        there = self._session.names.there(path)
        expected = _ANY_VERSION if version is None else version
        try:
            return int(self._commit(lambda t: t.set_data(there, value, expected)).version)
        except NoNodeError as error:
            raise NotFoundError(f"'{path}' does not exist") from error
        except BadVersionError as error:
            node = _get(self._session, path) if self._was_sent else None
            if node is not None and (node.value, node.version) == (value, expected + 1):
                return node.version
            raise VersionConflictError(f"'{path}' has another version than {version}") from error

    def delete(self, path: str, version: int | None, recursive: bool) -> None:
        from kazoo.exceptions import BadVersionError, NoNodeError, NotEmptyError

        expected = _ANY_VERSION if version is None else version
        while True:
            names = [*(self._descendants(path) if recursive else ()), path]
            try:
                for start in range(0, len(names), _DELETE_BATCH):
                    self._delete_all(names[start : start + _DELETE_BATCH], path, expected)
                return
            except BadVersionError as error:
                raise VersionConflictError(f"'{path}' has another version than {version}") from error
            except NotEmptyError as error:
                if not recursive:
                    raise ConflictError(f"'{path}' has children") from error
            except NoNodeError:
                # another process deletes the same tree: the remaining nodes are listed again
                if _get(self._session, path) is None:
                    return

    def _delete_all(self, names: Sequence[str], top: str, version: int) -> None:
        def add(transaction: Any) -> None:
            if version != _ANY_VERSION:
                transaction.check(self._session.names.there(top), version)
            for name in names:
                transaction.delete(self._session.names.there(name))

        self._commit(add)

    def _descendants(self, path: str) -> list[str]:
        """Return the paths below, children before their parents."""
        found: list[str] = []
        for name in _children(self._session, path):
            child = f"{path}/{name}"
            found += [*self._descendants(child), child]
        return found

    def _create_parent(self, path: str) -> None:
        parent = parent_of(path)
        if not parent:
            # the chroot itself
            there = self._session.names.there("")
            self._session.read(lambda: self._session.client.ensure_path_async(there))
            return
        try:
            _Writer(self._session, self._fence).create(parent, b"", False, False)
        except ConflictError:
            return  # another process created it first

    def _commit(self, add: Callable[[Any], None], *, again: bool = True) -> Any:
        """Run a transaction and return the answer of its last step; raises ZooKeeper's error of a step, FencedError.

        again: whether it may be repeated when it is unknown if the first attempt arrived.
        """
        session, deadline_s = self._session, self._session.deadline_s()

        def ask() -> Any:
            transaction = session.client.transaction()
            if self._fence is not None:
                transaction.check(session.names.there(self._fence[0]), self._fence[1])
            add(transaction)
            return transaction.commit_async()

        while True:
            session.wait_connected(deadline_s)
            try:
                answers = session.answer(ask, deadline_s)
            except LostError:
                self._was_sent = True
                if not again:
                    raise StoreUnavailableError("the connection to ZooKeeper broke during a change") from None
                pause()
                continue
            self._raise_failure(answers)
            return answers[-1]

    def _raise_failure(self, answers: Sequence[Any]) -> None:
        from kazoo.exceptions import NoAuthError, RolledBackError, RuntimeInconsistency

        for position, answer in enumerate(answers):
            if not isinstance(answer, Exception) or isinstance(answer, (RolledBackError, RuntimeInconsistency)):
                continue
            if position == 0 and self._fence is not None:
                raise FencedError(f"'{self._fence[0]}' no longer has version {self._fence[1]}: nothing is written")
            if isinstance(answer, NoAuthError):
                raise self._session.refused() from answer
            raise answer


def _node(value: bytes, stat: Stat) -> Node:
    return Node(value, stat.version, stat.ctime, stat.mtime, stat.ephemeral_owner, stat.num_children)


def _get(session: Session, path: str) -> Node | None:
    there = session.names.there(path)
    found = session.read(lambda: session.client.get_async(there))
    return None if found is None else _node(found[0], Stat._make(found[1]))


def _children(session: Session, path: str) -> list[str]:
    there = session.names.there(path)
    found: list[str] = session.read(lambda: session.client.get_children_async(there)) or []
    return sorted(session.names.children_here(path, found))

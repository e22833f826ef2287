"""The metadata store of a single machine: one SQLite file, used by one process at a time.

Changes are committed with a write-ahead log and `synchronous=FULL`: when a call returns, the change survives a crash of
the process and of the machine. Recursive deletions are atomic. Sessions end with the process, so opening the file removes
the ephemeral nodes of an earlier process.
"""

import copy
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gamay.base.clock import Clock
from gamay.base.errors import ConflictError, DiskFullError, GamayError, NotFoundError
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
from gamay.cluster.store.watches import Watches

_SCHEMA = """
CREATE TABLE IF NOT EXISTS node (
    path TEXT PRIMARY KEY,
    parent TEXT NOT NULL,
    value BLOB NOT NULL,
    version INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    modified_ms INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    next_sequence INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS node_parent ON node (parent);
"""
_NODE = (
    "value, version, created_ms, modified_ms, owner,"
    " (SELECT count(*) FROM node AS child WHERE child.parent = node.path) FROM node WHERE path"
)
_SELECT = f"SELECT {_NODE} = ?"
_SELECT_MANY = f"SELECT path, {_NODE} IN"
_READ_BATCH = 500
_INSERT = "INSERT INTO node VALUES (?, ?, ?, 0, ?, ?, ?, 0)"
# all nodes below a path: '0' is the character after '/', so the range is exactly the paths that begin with `path/`
_BELOW = "path > ? || '/' AND path < ? || '0'"


class DamagedStoreError(GamayError):
    """The file is not a metadata store, or cannot be read or written."""


class EmbeddedStore:
    """One session; `EmbeddedStore.open` creates the first, whose `close` also closes the file."""

    def __init__(self, file: "_File", session_id: int) -> None:
        self._file = file
        self._session_id = session_id
        self._events = Watches(f"store-watch-{session_id}")
        self._fence: tuple[str, int] | None = None
        file.sessions[session_id] = self._events

    @classmethod
    def open(cls, path: Path, clock: Clock) -> "EmbeddedStore":
        """Open or create the file. Raises DamagedStoreError if it is not a metadata store, or cannot be read or
        written."""
        try:
            return cls(_File(path, clock), session_id=1)
        except sqlite3.DatabaseError as error:
            raise DamagedStoreError(
                f"the metadata store '{path}' cannot be used: {error}. Put back a copy of it, with its -wal file if "
                "there is one; without it, the segments in the folder 'deepstore' beside it can be pushed to a new cluster"
            ) from error

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def connected(self) -> bool:
        return True

    @property
    def num_reconnects(self) -> int:
        return 0

    def get(self, path: str) -> Node | None:
        check_path(path)
        with self._file.read_lock:
            row = self._file.reads.execute(_SELECT, (path,)).fetchone()
        return None if row is None else Node(*row)

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        found: dict[str, Node] = {}
        for start in range(0, len(paths), _READ_BATCH):
            batch = list(paths[start : start + _READ_BATCH])
            for path in batch:
                check_path(path)
            select = f"{_SELECT_MANY} ({', '.join('?' * len(batch))})"
            with self._file.read_lock:
                found.update((row[0], Node(*row[1:])) for row in self._file.reads.execute(select, batch))
        return [found.get(path) for path in paths]

    def children(self, path: str) -> list[str]:
        check_path(path)
        with self._file.read_lock:
            rows = self._file.reads.execute("SELECT path FROM node WHERE parent = ? ORDER BY path", (path,)).fetchall()
        return [row[0][len(path) + 1 :] for row in rows]

    def create(self, path: str, value: bytes, *, ephemeral: bool = False, sequence: bool = False) -> str:
        check_path(path)
        check_value(path, value)
        with self._change() as changed:
            db, now = self._file.db, self._file.clock.now_ms()
            for missing in self._missing_parents(path):
                db.execute(_INSERT, (missing, parent_of(missing), b"", now, now, 0))
                changed.append(missing)
            if sequence:
                path += f"{self._next_sequence(parent_of(path)):010d}"
            try:
                db.execute(_INSERT, (path, parent_of(path), value, now, now, self._session_id if ephemeral else 0))
            except sqlite3.IntegrityError as error:
                raise ConflictError(f"'{path}' exists already") from error
            changed.append(path)
        return path

    def set(self, path: str, value: bytes, version: int | None) -> int:
        check_path(path)
        check_value(path, value)
        with self._change() as changed:
            current = self._version(path)
            if current is None:
                raise NotFoundError(f"'{path}' does not exist")
            if version is not None and version != current:
                raise VersionConflictError(f"'{path}' has version {current}, not {version}")
            self._file.db.execute(
                "UPDATE node SET value = ?, version = version + 1, modified_ms = ? WHERE path = ?",
                (value, self._file.clock.now_ms(), path),
            )
            changed.append(path)
        return current + 1

    def delete(self, path: str, version: int | None = None, *, recursive: bool = False) -> None:
        check_path(path)
        with self._change() as changed:
            current = self._version(path)
            if current is None:
                return
            if version is not None and version != current:
                raise VersionConflictError(f"'{path}' has version {current}, not {version}")
            below = [row[0] for row in self._file.db.execute(f"SELECT path FROM node WHERE {_BELOW}", (path, path))]
            if below and not recursive:
                raise ConflictError(f"'{path}' has children")
            self._file.db.execute(f"DELETE FROM node WHERE path = ? OR ({_BELOW})", (path, path, path))
            changed.extend([*below, path])

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        check_path(path)
        return self._events.add(path, watcher)

    def on_new_session(self, follow: Callable[[], None]) -> Callable[[], None]:
        return lambda: None  # a session here ends with its process

    def fenced(self, path: str, version: int) -> "EmbeddedStore":
        check_path(path)
        view = copy.copy(self)
        view._fence = (path, version)
        return view

    def new_session(self) -> "EmbeddedStore":
        return EmbeddedStore(self._file, self._file.new_session_id())

    def close(self) -> None:
        self._events.close()
        if self._file.sessions.pop(self._session_id, None) is None:
            return
        with self._file.change() as changed:
            owned = self._file.db.execute("SELECT path FROM node WHERE owner = ?", (self._session_id,))
            changed.extend(row[0] for row in owned)
            self._file.db.execute("DELETE FROM node WHERE owner = ?", (self._session_id,))
        if self._session_id == 1:
            self._file.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all changes of this thread in the body together, or none if the body raises.

        Reads see the state before; watchers are notified at the end. Each node may be changed once.
        """
        with self._change():
            yield

    @contextmanager
    def _change(self) -> Iterator[list[str]]:
        with self._file.change() as changed:
            if self._fence is not None and self._version(self._fence[0]) != self._fence[1]:
                raise FencedError(f"'{self._fence[0]}' no longer has version {self._fence[1]}: nothing is written")
            yield changed

    def _version(self, path: str) -> int | None:
        row = self._file.db.execute("SELECT version FROM node WHERE path = ?", (path,)).fetchone()
        return None if row is None else int(row[0])

    def _missing_parents(self, path: str) -> list[str]:
        """Return the missing ancestors, topmost first. Raises ConflictError if the nearest existing one is ephemeral."""
        missing: list[str] = []
        parent = parent_of(path)
        while parent:
            row = self._file.db.execute("SELECT owner FROM node WHERE path = ?", (parent,)).fetchone()
            if row is not None:
                if row[0]:
                    raise ConflictError(f"'{parent}' is ephemeral and cannot have children")
                break
            missing.append(parent)
            parent = parent_of(parent)
        return missing[::-1]

    def _next_sequence(self, parent: str) -> int:
        row = self._file.db.execute(
            "UPDATE node SET next_sequence = next_sequence + 1 WHERE path = ? RETURNING next_sequence - 1", (parent,)
        ).fetchone()
        return int(row[0])


class _File:
    """Two SQLite connections, shared by all sessions of the process, each under a lock: one to write, and one to read
    meanwhile.

    A read does not wait for a commit in progress; it sees committed changes.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.clock = clock
        self.lock = threading.RLock()
        self.sessions: dict[int, Watches] = {}
        self._last_session_id = 1
        self._changed: list[str] | None = None
        self._db: sqlite3.Connection | None = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.executescript(_SCHEMA)
        self.db.execute("DELETE FROM node WHERE owner <> 0")
        self.read_lock = threading.Lock()
        self._reads = sqlite3.connect(path, check_same_thread=False, isolation_level=None)

    @property
    def db(self) -> sqlite3.Connection:
        """The connection that writes, to be used under `lock`. Raises StoreUnavailableError after `close`."""
        if self._db is None:
            raise StoreUnavailableError(f"the metadata store {self.path} is closed")
        return self._db

    @property
    def reads(self) -> sqlite3.Connection:
        """The connection that reads, to be used under `read_lock`. Raises StoreUnavailableError after `close`."""
        if self._db is None:
            raise StoreUnavailableError(f"the metadata store {self.path} is closed")
        return self._reads

    def new_session_id(self) -> int:
        with self.lock:
            self._last_session_id += 1
            return self._last_session_id

    @contextmanager
    def change(self) -> Iterator[list[str]]:
        """Run one transaction; the paths that the body appends are notified once it is durable.

        Raises DiskFullError if the disk is full, StoreUnavailableError if the file is closed; nothing is changed then.
        """
        with self.lock:
            if self._changed is not None:
                yield self._changed  # part of a transaction
                return
            db = self.db
            changed = self._changed = []
            try:
                db.execute("BEGIN IMMEDIATE")
                yield changed
                db.execute("COMMIT")
            except BaseException as error:
                if db.in_transaction:  # SQLite rolls back by itself after some failures, such as a full disk
                    db.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error) and error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                    raise DiskFullError(f"the disk of the metadata store {self.path} is full: free some space") from error
                raise
            finally:
                self._changed = None
            # under the lock, so that every session sees the changes in the order of their commits

            for path in changed:
                for events in self.sessions.values():
                    events.notify(path)

    def close(self) -> None:
        with self.lock, self.read_lock:
            db, self._db = self.db, None
            self._reads.close()
            db.close()

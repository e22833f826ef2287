"""The metadata store in memory, accessed by processes that may die, pause or lose responses at every access."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.simulation.scheduler import Process, Scheduler

from gamay.base.errors import ConflictError, NotFoundError
from gamay.cluster.store.store import MetadataStore, Node, StoreUnavailableError, VersionConflictError


@dataclass
class Tree:
    """The contents shared by all processes. on_write: called with path and value (None: deleted) of every change."""

    scheduler: Scheduler
    nodes: dict[str, Node] = field(default_factory=dict)
    children: dict[str, set[str]] = field(default_factory=dict)
    sequence: int = 0
    on_write: Callable[[str, bytes | None], None] = lambda path, value: None

    def put(self, path: str, value: bytes, version: int, created_ms: int) -> None:
        self.nodes[path] = Node(value, version, created_ms, self.scheduler.now_ms, 0, 0)
        parent, _, name = path.rpartition("/")
        self.children.setdefault(parent, set()).add(name)
        self.on_write(path, value)

    def drop(self, path: str) -> None:
        del self.nodes[path]
        parent, _, name = path.rpartition("/")
        self.children[parent].discard(name)
        self.on_write(path, None)


class SimStore:
    """One process's session. fail_chance: of an access that gets no answer, done or not."""

    session_id = 1

    def __init__(self, tree: Tree, process: Process | None = None, fail_chance: float = 0.0) -> None:
        self._tree = tree
        self._process = process
        self.fail_chance = fail_chance

    def get(self, path: str) -> Node | None:
        self._access()
        return self._tree.nodes.get(path)

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        self._access()
        return [self._tree.nodes.get(path) for path in paths]

    def children(self, path: str) -> list[str]:
        self._access()
        return sorted(self._tree.children.get(path, ()))

    def create(self, path: str, value: bytes, *, ephemeral: bool = False, sequence: bool = False) -> str:
        lost = self._access()
        if sequence:
            self._tree.sequence += 1
            path += f"{self._tree.sequence:010d}"
        if path in self._tree.nodes:
            raise ConflictError(path)
        self._tree.put(path, value, 0, self._tree.scheduler.now_ms)
        self._after(lost)
        return path

    def set(self, path: str, value: bytes, version: int | None) -> int:
        lost = self._access()
        node = self._tree.nodes.get(path)
        if node is None:
            raise NotFoundError(path)
        if version is not None and version != node.version:
            raise VersionConflictError(path)
        self._tree.put(path, value, node.version + 1, node.created_ms)
        self._after(lost)
        return node.version + 1

    def delete(self, path: str, version: int | None = None, *, recursive: bool = False) -> None:
        lost = self._access()
        node = self._tree.nodes.get(path)
        if node is None:
            return
        if version is not None and version != node.version:
            raise VersionConflictError(path)
        if recursive:
            for below in sorted((p for p in self._tree.nodes if p.startswith(f"{path}/")), reverse=True):
                self._tree.drop(below)
        self._tree.drop(path)
        self._after(lost)

    def watch(self, path: str, watcher: Callable[[str], None]) -> Callable[[], None]:
        raise AssertionError("the simulation polls")

    def on_new_session(self, follow: Callable[[], None]) -> Callable[[], None]:
        raise AssertionError("sessions do not end")

    def fenced(self, path: str, version: int) -> MetadataStore:
        raise AssertionError("the simulation shows what happens without a fence")

    def new_session(self) -> MetadataStore:
        return self

    def close(self) -> None:
        pass

    def _access(self) -> bool:
        """Return whether the answer is lost although the access is done."""
        if self._process is None:
            return False
        self._process.at_store()
        rng: random.Random = self._tree.scheduler.rng
        if self.fail_chance and rng.random() < self.fail_chance:
            if rng.random() < 0.5:
                raise StoreUnavailableError("no answer")
            return True
        return False

    def _after(self, lost: bool) -> None:
        if lost:
            raise StoreUnavailableError("no answer")

"""A server under random ideal states, failing loads, refreshed segments, resets and lost sessions.

At any time it reports only segments that it has; each change of a reported state is one or two transitions of Helix's state
model; and after the faults it serves exactly the segments of the ideal state.
"""

import random
import threading
import time
from collections.abc import Callable, Container
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError
from gamay.cluster.records.records import ERROR, OFFLINE, ONLINE, Assignment, SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.store.znrecord import ZNRecord, encode
from gamay.server.instance.instance import ServerInstance
from gamay.server.loading.table import LoadedSegment

ME, TABLES = "Server_me_8098", ("a_OFFLINE", "b_OFFLINE")
# behaviour of SegmentOnlineOfflineStateModel without CONSUMING; a segment that is not reported is OFFLINE or DROPPED
LEGAL = {(OFFLINE, ONLINE), (OFFLINE, ERROR), (ONLINE, OFFLINE), (ONLINE, ERROR), (ERROR, OFFLINE), (ERROR, ONLINE)}


class Loader:
    """A loader that loads nothing, and fails a given number of times."""

    def __init__(self, root: Path, draw: random.Random) -> None:
        self.root = root
        self.sources = SimpleNamespace(store=None)  # nothing is kept in the deep store
        self.failing = 0.0
        self.most_at_once = 0
        self._draw = draw
        self._lock = threading.Lock()
        self._fast_path = 0

    def load(self, table: str, record: SegmentRecord, **_: Any) -> LoadedSegment:
        with self._lock:
            self._fast_path += 1
            self.most_at_once = max(self.most_at_once, self._fast_path)
            fails = self._draw.random() < self.failing
        time.sleep(0.0005)
        with self._lock:
            self._fast_path -= 1
        if fails:
            raise GamayError("the disk is full")
        segment: Any = None
        return LoadedSegment(segment, record.crc, self.root / record.name, True, 0, 1)

    def remove(self, loaded: LoadedSegment) -> None: ...

    def remove_strays(self, table: str, kept: set[Path], failed: Container[str] = ()) -> None: ...

    def tables_on_disk(self) -> list[str]:
        return []

    def layout_of(self, table: str) -> None:
        return None


class World:
    """One server, and a controller that changes its mind."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.store: MetadataStore = EmbeddedStore.open(folder / "metadata.db", SYSTEM_CLOCK)
        self.registry = Registry(self.store)
        self.loader: Any = Loader(folder / "server", random.Random(seed + 1))
        self.session = self.store.new_session()
        self.server = ServerInstance(ME, Registry(self.session), self.loader, SYSTEM_CLOCK)
        self.illegal: list[str] = []
        self._seen: dict[str, dict[str, str]] = {}
        self.store.watch(f"{paths.INSTANCES}/{ME}", self._check)
        for table in TABLES:
            self.registry.create_ideal_state(Assignment.new_table(table, 1))
        self.server.start()

    def _check(self, path: str) -> None:
        table = path.rpartition("/")[2]
        if table not in TABLES:
            return
        now, before = self.registry.get_current_state(ME, table), self._seen.get(table, {})
        for segment in {*now, *before}:
            change = (before.get(segment, OFFLINE), now.get(segment, OFFLINE))
            if change[0] != change[1] and change not in LEGAL:
                self.illegal.append(f"{segment}: {change}")
        self._seen[table] = dict(now)

    def step(self) -> None:
        table, name = self.draw.choice(TABLES), f"s{self.draw.randrange(8)}"
        action = self.draw.choice(("add", "add", "refresh", "offline", "drop", "fail", "reset", "switch", "session"))
        if action == "add":
            self._record(table, name)
            self._assign(table, name, ONLINE)
        elif action == "refresh":
            if self.registry.get_segment(table, name) is not None:
                self._record(table, name)
        elif action == "offline":
            self._assign(table, name, OFFLINE)
        elif action == "drop":
            self.registry.update_ideal_state(table, lambda ideal: ideal.with_segments({}, frozenset({name})))
            self.registry.delete_segment(table, name)
        elif action == "fail":
            self.loader.failing = self.draw.choice((0.0, 0.5, 1.0))
        elif action == "reset":
            self.reset(table)
        elif action == "switch":
            flag = self.draw.choice(("true", "false"))
            self._set(table, flag)
        else:
            # as if the session had ended: what was reported is gone, then the store begins another
            for gone in TABLES:
                self.session.delete(paths.current_state(ME, gone))
            self.session.delete(paths.live_instance(ME))
            self.server._work.note_session()

    def _record(self, table: str, name: str) -> None:
        crc = self.draw.randrange(1 << 30)
        record = SegmentRecord(name, crc=crc, total_docs=1, creation_time_ms=1, download_url="x")
        self.registry.update_segment(table, name, lambda _: record)

    def _assign(self, table: str, name: str, state: str) -> None:
        if self.registry.get_segment(table, name) is not None:
            self.registry.update_ideal_state(table, lambda ideal: ideal.with_segments({name: {ME: state}}))

    def _set(self, table: str, enabled: str) -> None:
        def switched(ideal: Assignment) -> Assignment:
            return Assignment(ideal.resource, ideal.states, {**ideal.simple, "HELIX_ENABLED": enabled})

        self.registry.update_ideal_state(table, switched)

    def reset(self, table: str) -> None:
        message = ZNRecord("r", {"MSG_SUBTYPE": "RELOAD_SEGMENT", "tableName": table, "forceDownload": "false"})
        self.store.create(f"{paths.messages(ME)}/reload-", encode(message), sequence=True)

    def is_settled(self) -> bool:
        for table in TABLES:
            ideal = self.registry.must_get_ideal_state(table)
            wanted = {s for s, states in ideal.states.items() if states.get(ME) == ONLINE} if ideal.enabled else set()
            data = self.server.table(table)
            loaded = {} if data is None else {name: found.crc for name, found in data.snapshot().items()}
            records = self.registry.get_segments(table, sorted(wanted))
            if loaded != {name: record.crc for name, record in records.items()}:
                return False
            if self.registry.get_current_state(ME, table) != dict.fromkeys(wanted, ONLINE):
                return False
        return ME in self.registry.live_instance_ids()

    def stop(self) -> None:
        self.server.stop()
        self.session.close()
        self.store.close()


def _until(condition: Callable[[], bool], timeout_s: float = 120) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_the_server_comes_to_rest(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    for _ in range(60):
        world.step()
        if world.draw.random() < 0.2:
            time.sleep(0.002)
    world.loader.failing = 0.0
    for table in TABLES:
        world.reset(table)
    settled = _until(world.is_settled)
    states = {table: world.registry.get_current_state(ME, table) for table in TABLES}
    world.stop()
    assert settled, (seed, states)
    assert world.illegal == []
    assert world.loader.most_at_once <= 2  # transitions run in parallel, but not without bound

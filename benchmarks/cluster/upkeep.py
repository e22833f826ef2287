"""Maintenance during faults: segments are refreshed, replaced and reloaded, and the table rebalanced, in a loop."""

import logging
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from benchmarks.cluster.asking import Asking
from benchmarks.cluster.facts import CONFIG, GROUPS, PARTS, SCHEMA, SINGLE, TABLE, Versions, build, segment_name
from benchmarks.cluster.processes import Processes, RoleProcess

_log = logging.getLogger(__name__)
_TYPED = {"type": "OFFLINE"}
_RETRY_S = 0.5
_PATIENCE_S = 400.0
_TAGS = "DefaultTenant_OFFLINE,DefaultTenant_REALTIME"


class Upkeep:
    """Changes to the table between `start` and `stop`. Each is repeated until a controller acknowledges it."""

    def __init__(self, processes: Processes, folder: Path, versions: Versions, asking: Asking, rows: int, seed: int) -> None:
        self.counts: dict[str, int] = {}
        self._processes = processes
        self._folder = folder
        self._versions = versions
        self._asking = asking
        self._rows = rows
        self._rng = random.Random(seed)
        self._built: dict[tuple[int, int], Path] = {}
        self._away: RoleProcess | None = None
        self._gate = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def prepare(self) -> None:
        """Create the table with its first segments."""
        self._processes.call("POST", "/schemas", json=SCHEMA).raise_for_status()
        self._processes.call("POST", "/tables", json=CONFIG).raise_for_status()
        for part in range(PARTS):
            self._push(part, 0)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the change in progress, and bring back the server that was taken out of the table."""
        self._stopping.set()
        self._thread.join()
        if self._away is not None:
            self._rebalance()

    def held(self) -> threading.Lock:
        """Return a lock; while it is held, no change is in progress."""
        return self._gate

    def names(self) -> set[str]:
        """Return the segments that the table must have now, at least."""
        return {segment_name(part, self._versions.newest(part)) for part in range(PARTS)}

    def _run(self) -> None:
        work: list[Callable[[], None]] = [self._refresh, self._refresh, self._replace, self._replace, self._reload]
        work += [self._rebalance, self.clean]
        while not self._stopping.is_set():
            one = self._rng.choice(work)
            name = one.__name__.strip("_")
            with self._gate:
                _log.info("%s", name)
                try:
                    one()
                except Exception as error:  # noqa: BLE001 - whatever it is, it is told with the other problems
                    self._asking.note(f"{name}: {error!r}")
                self.counts[name] = self.counts.get(name, 0) + 1
            self._stopping.wait(self._rng.uniform(0.2, 1.5))

    # what is done

    def _refresh(self) -> None:
        """Replace a segment by another version of itself."""
        part = self._rng.choice(SINGLE)
        version = self._versions.newest(part) + 1
        self._versions.begin(part, version, time.monotonic())
        self._push(part, version)

    def _replace(self) -> None:
        """Replace the segments of a group, atomically."""
        group = self._rng.choice(GROUPS)
        before = self._versions.newest(group[0])
        old = [segment_name(part, before) for part in group]
        new = [segment_name(part, before + 1) for part in group]
        entry = self._acknowledged(
            "POST",
            f"/segments/{TABLE}/startReplaceSegments",
            params={**_TYPED, "forceCleanup": "true"},
            json={"segmentsFrom": old, "segmentsTo": new},
        ).json()["segmentLineageEntryId"]
        for part in group:
            self._push(part, before + 1)
        for part in group:
            self._versions.begin(part, before + 1, time.monotonic())
        path = f"/segments/{TABLE}/endReplaceSegments"
        self._acknowledged("POST", path, params={**_TYPED, "segmentLineageEntryId": entry}, timeout_s=70)

    def clean(self) -> None:
        """Delete the replaced segments."""
        for controller in self._processes.controllers:  # it is done by the one that leads
            if controller.is_up:
                try:
                    controller.http.get("/periodictask/run", params={"taskname": "RetentionManager"})
                except httpx.TransportError as error:
                    _log.info("clean: %r", error)

    def _reload(self) -> None:
        force = str(self._rng.random() < 0.5).lower()
        self._acknowledged("POST", f"/segments/{TABLE}/reload", params={**_TYPED, "forceDownload": force})

    def _rebalance(self) -> None:
        """Take a server out of the table, or bring it back, and move the segments."""
        server = self._away or self._rng.choice(self._processes.servers)
        tags = _TAGS if self._away is not None else "elsewhere_OFFLINE"
        self._away = None if self._away is not None else server
        self._acknowledged("PUT", f"/instances/{server.instance}/updateTags", params={"tags": tags})
        deadline_s = time.monotonic() + _PATIENCE_S
        while (status := self._rebalanced()) not in ("DONE", "NO_OP"):
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"the table is not balanced after {_PATIENCE_S:.0f} s: {status}")
            time.sleep(_RETRY_S)

    def _rebalanced(self) -> str:
        """Rebalance once; return the outcome, or why it was not done."""
        try:
            params = {**_TYPED, "minAvailableReplicas": "1"}
            begun = self._processes.call("POST", f"/tables/{TABLE}/rebalance", params=params)
            told: dict[str, Any] = begun.json()
            status = str(told.get("status") or begun.text)
            deadline_s = time.monotonic() + _PATIENCE_S / 4
            while status == "IN_PROGRESS" and time.monotonic() < deadline_s:
                time.sleep(0.2)
                found = self._processes.call("GET", f"/rebalanceStatus/{told['jobId']}")
                if found.is_success:
                    status = str(found.json()["tableRebalanceProgressStats"]["status"])
        except httpx.TransportError as error:
            return repr(error)
        return status

    # how

    def _push(self, part: int, version: int) -> None:
        archive = self._built.get((part, version))
        if archive is None:
            archive = self._built[part, version] = build(self._folder, part, version, self._rows)
        content = archive.read_bytes()
        files = {"file": (archive.name, content)}
        self._acknowledged("POST", "/v2/segments", params={"tableName": TABLE, "tableType": "OFFLINE"}, files=files)
        archive.unlink()
        del self._built[part, version]

    def _acknowledged(self, method: str, path: str, timeout_s: float = 30, **more: Any) -> httpx.Response:
        """Repeat a request until a controller responds with success."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            told: object
            try:
                answer = self._processes.call(method, path, timeout_s, **more)
                if answer.is_success:
                    return answer
                told = f"{answer.status_code} {answer.text[:300]}"
            except httpx.TransportError as error:
                told = repr(error)
            _log.info("%s %s: %s", method, path, told)
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{method} {path} was not done within {_PATIENCE_S:.0f} s: {told}")
            time.sleep(_RETRY_S)

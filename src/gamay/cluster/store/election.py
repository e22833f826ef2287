"""The election of the lead controller, and the fencing of former ones.

The lead controller owns an ephemeral node, `paths.LEADER`. A new leader increments the epoch, the version of the
persistent node `paths.EPOCH`, and the store checks with each of its writes that the epoch is unchanged. A controller that
was suspended, or lost its connection to the store, may believe for a while that it leads; its writes are rejected as soon
as another controller leads.
"""

import logging
import threading
from collections.abc import Callable, Sequence

from gamay.base.errors import ConflictError, GamayError
from gamay.cluster.store import paths
from gamay.cluster.store.store import FencedError, MetadataStore, Node, VersionConflictError, Watcher
from gamay.cluster.store.znrecord import CorruptRecordError, ZNRecord, decode, encode

_log = logging.getLogger(__name__)

_RETRY_S = 1.0


def leader_of(store: MetadataStore) -> str | None:
    """Return the id of the lead controller, or None."""
    node = store.get(paths.LEADER)
    if node is None:
        return None
    try:
        return decode(node.value).id
    except CorruptRecordError:
        return None


class LeadElection:
    """A candidate between `start` and `stop`, on its own thread.

    lead: called when this controller becomes the lead; it writes through `store` only. resign: called when it has lost
    the lead, as far as this process knows. The two are never called concurrently.
    """

    def __init__(self, store: MetadataStore, instance_id: str, lead: Callable[[], None], resign: Callable[[], None]) -> None:
        self._base = store
        self._instance_id = instance_id
        self._lead = lead
        self._resign = resign
        self._condition = threading.Condition()
        self._changed = True
        self._stopping = False
        self._epoch: int | None = None
        self._thread: threading.Thread | None = None
        self._cancels: list[Callable[[], None]] = []

    @property
    def is_lead(self) -> bool:
        """Whether this controller leads, as far as it knows; the store checks its writes."""
        return self._epoch is not None

    @property
    def store(self) -> MetadataStore:
        """The session for writes of the lead controller; writes raise FencedError while this controller does not lead."""
        return _LeadStore(self._base, self._fenced)

    def start(self) -> None:
        """Become a candidate for the lead."""
        self._cancels = [
            self._base.watch(paths.LEADER, lambda _: self._look()),
            self._base.on_new_session(self._look),
        ]
        self._thread = threading.Thread(target=self._run, name="lead-election", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Resign if this controller leads, so that another can lead at once."""
        for cancel in self._cancels:
            cancel()
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()
        if self._epoch is not None:
            self._leave_office()
            try:
                self._base.delete(paths.LEADER)
            except GamayError as error:
                _log.warning("the next lead controller has to wait until this session ends: %s", error)

    def _look(self) -> None:
        with self._condition:
            self._changed = True
            self._condition.notify_all()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._changed or self._stopping)
                if self._stopping:
                    return
                self._changed = False
            try:
                self._settle()
            except Exception as error:  # noqa: BLE001 - it is tried again, because the cluster needs a leader
                _log.warning("%s cannot determine the lead controller, or cannot lead: %r", self._instance_id, error)
                with self._condition:
                    self._condition.wait_for(lambda: self._stopping, _RETRY_S)
                self._look()

    def _settle(self) -> None:
        """Check which controller leads, and take or give up the lead accordingly."""
        if self._epoch is not None and not self._is_mine(self._base.get(paths.LEADER)):
            _log.warning("%s no longer leads the cluster", self._instance_id)
            self._leave_office()
        if self._epoch is None and (epoch := self._elected()) is not None:
            self._epoch = epoch
            _log.info("%s leads the cluster, epoch %d", self._instance_id, epoch)
            try:
                self._lead()
            except BaseException:
                self._leave_office()
                raise

    def _leave_office(self) -> None:
        self._epoch = None
        self._resign()

    def _elected(self) -> int | None:
        """Return the epoch that starts with this controller, or None if another one leads.

        The epoch is read before the check that the leader node is this session's: if another controller is elected in
        between, it has incremented the epoch, and the compare-and-set fails.
        """
        while True:
            epoch = self._base.get(paths.EPOCH)
            if epoch is None:
                self._try(lambda: self._base.create(paths.EPOCH, self._record()))
                continue
            self._try(lambda: self._base.create(paths.LEADER, self._record(), ephemeral=True))
            if not self._is_mine(self._base.get(paths.LEADER)):
                return None
            try:
                return self._base.set(paths.EPOCH, self._record(), epoch.version)
            except VersionConflictError:
                continue

    def _try(self, create: Callable[[], object]) -> None:
        try:
            create()
        except ConflictError:
            return  # it exists already

    def _is_mine(self, node: Node | None) -> bool:
        return node is not None and node.ephemeral_owner == self._base.session_id

    def _record(self) -> bytes:
        return encode(ZNRecord(self._instance_id, {"SESSION_ID": f"{self._base.session_id:x}"}))

    def _fenced(self) -> MetadataStore:
        epoch = self._epoch
        if epoch is None:
            raise FencedError(f"{self._instance_id} does not lead the cluster")
        return self._base.fenced(paths.EPOCH, epoch)


class _LeadStore:
    """A store session that writes only while its controller leads."""

    def __init__(self, base: MetadataStore, fenced: Callable[[], MetadataStore]) -> None:
        self._base = base
        self._fenced = fenced

    @property
    def session_id(self) -> int:
        return self._base.session_id

    @property
    def connected(self) -> bool:
        return self._base.connected

    @property
    def num_reconnects(self) -> int:
        return self._base.num_reconnects

    def get(self, path: str) -> Node | None:
        return self._base.get(path)

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        return self._base.get_many(paths)

    def children(self, path: str) -> list[str]:
        return self._base.children(path)

    def create(self, path: str, value: bytes, *, ephemeral: bool = False, sequence: bool = False) -> str:
        return self._fenced().create(path, value, ephemeral=ephemeral, sequence=sequence)

    def set(self, path: str, value: bytes, version: int | None) -> int:
        return self._fenced().set(path, value, version)

    def delete(self, path: str, version: int | None = None, *, recursive: bool = False) -> None:
        self._fenced().delete(path, version, recursive=recursive)

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        return self._base.watch(path, watcher)

    def on_new_session(self, follow: Callable[[], None]) -> Callable[[], None]:
        return self._base.on_new_session(follow)

    def fenced(self, path: str, version: int) -> MetadataStore:
        return self._base.fenced(path, version)

    def new_session(self) -> MetadataStore:
        return self._base.new_session()

    def close(self) -> None:
        self._base.close()

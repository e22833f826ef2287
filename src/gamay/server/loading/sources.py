"""Sources of segments: the deep store, a controller that can access it, or another server that has the segment."""

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote

from gamay.base.errors import CorruptSegmentError, DiskFullError, GamayError, NotFoundError
from gamay.cluster.records.records import ONLINE, Role, SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.storage.deep_store import DeepStore
from gamay.storage.fetchers import Fetchers
from gamay.storage.files import local_path
from gamay.storage.filesystems import NO_ROOM

_log = logging.getLogger(__name__)
T = TypeVar("T")

_PEER = "another server, "


class Members(Protocol):
    """Other members of the cluster that may have a segment, as URLs of HTTP interfaces, in the order to try them."""

    def controllers(self) -> Sequence[str]:
        """Return the controllers that are alive."""
        ...

    def peers(self, table: str, segment: str) -> Sequence[str]:
        """Return the other servers that have a segment ONLINE."""
        ...


@dataclass(frozen=True, slots=True)
class NoMembers:
    """Implementation without members."""

    def controllers(self) -> Sequence[str]:
        return ()

    def peers(self, table: str, segment: str) -> Sequence[str]:
        return ()


class ClusterMembers:
    """Members according to the cluster's records. own_id: of this server. shuffle: randomises the order of peers."""

    def __init__(self, registry: Registry, own_id: str, shuffle: Callable[[list[str]], None]) -> None:
        self._registry = registry
        self._own_id = own_id
        self._shuffle = shuffle
        self._turn = itertools.count()

    def controllers(self) -> Sequence[str]:
        live = set(self._registry.live_instance_ids())
        found = [i for i in self._registry.instances() if i.id in live and i.role is Role.CONTROLLER and i.enabled]
        first = next(self._turn) % len(found) if found else 0
        return [instance.url for instance in found[first:] + found[:first]]

    def peers(self, table: str, segment: str) -> Sequence[str]:
        view = self._registry.get_external_view(table)
        states = {} if view is None else view.states.get(segment, {})
        live = set(self._registry.live_instance_ids())
        online = sorted(name for name, state in states.items() if state == ONLINE)
        names = [name for name in online if name in live and name != self._own_id]
        self._shuffle(names)
        found = (self._registry.get_instance(name) for name in names)
        return [instance.url for instance in found if instance is not None]


@dataclass(frozen=True, slots=True)
class SegmentSources:
    """Fetching of copies of segments.

    store: the deep store, None if this server cannot access it, but controllers can. headers: of requests to members.
    """

    store: DeepStore | None = None
    fetchers: Fetchers = field(default_factory=Fetchers)
    members: Members = field(default_factory=NoMembers)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    peer_failures: "Counter[str]" = field(default_factory=Counter)
    """The number of failed downloads from other servers, by typed table."""

    def in_place(self, record: SegmentRecord) -> Path | None:
        """Return the folder of a segment that can be opened in place, None if it must be fetched."""
        url = record.download_url
        return self.store.in_place(url) if self.store is not None and self.store.owns(url) else None

    def fetch(
        self, table: str, record: SegmentRecord, scratch: Path, accept: Callable[[Path], T], *, peers: bool = False
    ) -> T:
        """Return what `accept` returns for the archive from the first source whose archive it accepts.

        accept: raises CorruptSegmentError for a wrong one. peers: whether the table's servers may be asked.
        Raises CorruptSegmentError if the archives of all sources are wrong, NotFoundError if no source has the segment,
        DiskFullError, OSError: the message names all sources with their errors.
        """
        failures: list[tuple[str, Exception]] = []
        for name, get in self._candidates(table, record, peers):
            try:
                return accept(get(scratch))
            except DiskFullError:
                raise
            except (GamayError, OSError) as error:
                if isinstance(error, OSError) and error.errno in NO_ROOM:
                    raise
                _log.warning("segment %s of %s cannot be fetched from %s: %s", record.name, table, name, error)
                failures.append((name, error))
                self.peer_failures[table] += name.startswith(_PEER)
        text = "; ".join(f"{name}: {error}" for name, error in failures) or "no controller and no other server is alive"
        what = f"segment '{record.name}' of {table} cannot be fetched: {text}"
        if any(isinstance(error, CorruptSegmentError) for _, error in failures):
            raise CorruptSegmentError(what)
        if all(isinstance(error, NotFoundError) for _, error in failures):
            raise NotFoundError(what)
        raise OSError(what)

    def _candidates(self, table: str, record: SegmentRecord, peers: bool) -> Iterator[tuple[str, Callable[[Path], Path]]]:
        url = record.download_url
        if DeepStore.owns(url):
            if self.store is not None:
                store = self.store
                yield "the deep store", lambda scratch: store.get(url, scratch)
            for base in self.members.controllers():
                yield base, self._member(base, table, record)
        elif url:
            local = local_path(url)
            if local is not None and local.is_file():
                yield url, lambda _: local
            else:
                yield url, lambda scratch: self._fetched(scratch, partial(self.fetchers.fetch_recorded, url))
        if peers:
            for base in self.members.peers(table, record.name):
                yield f"{_PEER}{base}", self._member(base, table, record)

    def _member(self, base: str, table: str, record: SegmentRecord) -> Callable[[Path], Path]:
        url = f"{base}/segments/{quote(table)}/{quote(record.name, safe='')}"
        return lambda scratch: self._fetched(scratch, partial(self.fetchers.fetch_member, url, headers=self.headers))

    @staticmethod
    def _fetched(scratch: Path, fetch: Callable[[Path], None]) -> Path:
        target = scratch / "fetched"
        target.unlink(missing_ok=True)
        fetch(target)
        return target

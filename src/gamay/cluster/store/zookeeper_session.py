"""Consecutive sessions with ZooKeeper: connecting, repeating requests until they are answered, and resuming watches."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError, InvalidConfigError
from gamay.base.zookeeper_login import ANYBODY, ZooKeeperLogin
from gamay.cluster.store.paths import CLUSTER_NAME
from gamay.cluster.store.store import StoreUnavailableError, check_path
from gamay.cluster.store.watches import Watches
from gamay.cluster.store.zookeeper_wire import AddWatch, follow_events, send

_log = logging.getLogger(__name__)

_PAUSE_S = 0.1

Send: TypeAlias = Callable[[], Any]
"""Sends a request and returns its future result."""


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """The address of ZooKeeper, with timeouts and credentials.

    hosts: `HOST:PORT[,HOST:PORT…][/PATH]`, all nodes are below the path. cluster: the cluster's name there.
    session_timeout_s: the time without a heartbeat after which ZooKeeper considers a process dead. patience_s: how
    long a call waits for a lost connection. login: encryption, and the identity of this process; records are readable
    by that user only.
    """

    hosts: str
    cluster: str = CLUSTER_NAME
    session_timeout_s: float = 10
    patience_s: float = 30
    login: ZooKeeperLogin = ANYBODY


class Names:
    """Mapping between paths of the store and paths in ZooKeeper."""

    def __init__(self, chroot: str, cluster: str) -> None:
        config = f"/{CLUSTER_NAME}/CONFIGS/CLUSTER/{CLUSTER_NAME}"
        self._chroot = chroot
        # the longer prefix first: it contains the name twice
        self._pairs = ((config, f"/{cluster}/CONFIGS/CLUSTER/{cluster}"), (f"/{CLUSTER_NAME}", f"/{cluster}"))

    def there(self, path: str) -> str:
        """Return the path in ZooKeeper of a path of the store; of the empty one, the chroot."""
        for ours, theirs in self._pairs:
            if path == ours or path.startswith(ours + "/"):
                return f"{self._chroot}{theirs}{path[len(ours) :]}"
        return self._chroot + path

    def here(self, path: str) -> str:
        """Return the path of the store of a path in ZooKeeper."""
        path = path[len(self._chroot) :]
        for ours, theirs in self._pairs:
            if path == theirs or path.startswith(theirs + "/"):
                return ours + path[len(theirs) :]
        return path

    def children_here(self, path: str, names: list[str]) -> list[str]:
        """Return the names in the store of the children that a path of the store has in ZooKeeper."""
        if path != self._pairs[0][0].rpartition("/")[0]:
            return names
        return [self.here(f"{self.there(path)}/{name}").rpartition("/")[2] for name in names]


def _check_login(client: Any, hosts: str) -> None:
    """Send a request, since SASL starts only after kazoo considers the session started. Raises InvalidConfigError if
    refused."""
    from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss, SessionExpiredError

    try:
        client.exists("/")
    except (AuthFailedError, ConnectionClosedError, ConnectionLoss, SessionExpiredError) as error:
        if client.state == "CONNECTED":
            return  # the connection broke and was already restored
        client.stop()
        raise InvalidConfigError(f"ZooKeeper at '{hosts}' refuses the user of zookeeper.sasl.*: {error!r}") from error


class LostError(Exception):
    """A connection that broke while a request was in flight: it is unknown whether the request arrived."""


class Session:
    """A wrapper of a kazoo client; when ZooKeeper ends a session, the next one is started and the watches continue."""

    def __init__(self, address: ZooKeeperAddress, client: Any, names: Names) -> None:
        self.address = address
        self.client = client
        self.names = names
        self.watches = Watches("store-watch")
        self.followers: list[Callable[[], None]] = []
        self.num_reconnects = 0
        self.connected = threading.Event()
        self.connected.set()
        self._session_lost = False
        self._connection_lost = False
        self._closed = False
        follow_events(client, lambda path: self.watches.notify(names.here(path)))
        client.add_listener(self._on_state)

    @classmethod
    def open(cls, address: ZooKeeperAddress) -> "Session":
        """Start a session. Raises as `ZooKeeperStore.open`."""
        try:
            from kazoo.client import KazooClient
            from kazoo.security import CREATOR_ALL_ACL
        except ImportError as error:
            raise InvalidConfigError(
                "a cluster on ZooKeeper needs the package 'kazoo': install it with pip install 'gamay[zookeeper]'"
            ) from error
        hosts, slash, chroot = address.hosts.partition("/")
        if not hosts or (slash and not chroot) or chroot.strip("/") != chroot or "//" in chroot:
            raise InvalidConfigError(
                f"'{address.hosts}' is not an address of ZooKeeper: it must look like HOST:PORT or HOST:PORT,HOST:PORT/PATH"
            )
        check_path(f"/{address.cluster}")
        try:
            client = KazooClient(
                hosts,
                timeout=address.session_timeout_s,
                connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 1, "backoff": 2},
                default_acl=CREATOR_ALL_ACL if address.login.has_identity else None,
                **address.login.kazoo_options(),
            )
        except ValueError as error:
            raise InvalidConfigError(f"'{address.hosts}' is not an address of ZooKeeper: {error}") from error
        try:
            client.start(address.patience_s)
        except client.handler.timeout_exception as error:
            raise StoreUnavailableError(
                f"ZooKeeper at '{hosts}' gives no answer for {address.patience_s:g} s: is it running, and reachable?"
            ) from error
        if address.login.sasl is not None:
            _check_login(client, hosts)
        return cls(address, client, Names(slash + chroot, address.cluster))

    @property
    def id(self) -> int:
        """ZooKeeper's id of the session."""
        self.wait_connected(self.deadline_s())
        return int(self.client.client_id[0])

    def close(self) -> None:
        """End the session."""
        if self._closed:
            return
        self._closed = True
        self.watches.close()
        self.client.stop()
        self.client.close()

    def deadline_s(self) -> float:
        """Return the deadline of a call that starts now."""
        return SYSTEM_CLOCK.monotonic_s() + self.address.patience_s

    def wait_connected(self, deadline_s: float) -> None:
        """Wait for the connection. Raises StoreUnavailableError."""
        if self._closed:
            raise StoreUnavailableError("the session with ZooKeeper is closed")
        if not self.connected.wait(max(0.0, deadline_s - SYSTEM_CLOCK.monotonic_s())):
            raise StoreUnavailableError(
                f"ZooKeeper at '{self.address.hosts}' does not answer for {self.address.patience_s:g} s"
            )

    def read(self, ask: Send) -> Any:
        """Repeat a read until it is answered, across lost connections; return None if the node does not exist."""
        from kazoo.exceptions import NoNodeError

        deadline_s = self.deadline_s()
        while True:
            self.wait_connected(deadline_s)
            try:
                return self.answer(ask, deadline_s)
            except NoNodeError:
                return None
            except LostError:
                pause()

    def answer(self, ask: Send, deadline_s: float) -> Any:
        """Send once and return the answer. Raises LostError, StoreUnavailableError, and ZooKeeper's errors."""
        from kazoo.exceptions import (
            ConnectionClosedError,
            ConnectionLoss,
            NoAuthError,
            OperationTimeoutError,
            SessionExpiredError,
        )

        result = ask()
        try:
            return result.get(timeout=max(0.1, deadline_s - SYSTEM_CLOCK.monotonic_s()))
        except (ConnectionLoss, SessionExpiredError, ConnectionClosedError, OperationTimeoutError) as error:
            raise LostError from error
        except self.client.handler.timeout_exception as error:
            raise StoreUnavailableError(f"ZooKeeper at '{self.address.hosts}' does not answer in time") from error
        except NoAuthError as error:
            raise self.refused() from error

    def refused(self) -> GamayError:
        """Return the error for a record that this process may not read or change."""
        return InvalidConfigError(
            f"ZooKeeper at '{self.address.hosts}' holds the cluster's records of another user: "
            "set zookeeper.auth.digest to the USER:PASSWORD, or zookeeper.sasl.* to the user, that wrote them"
        )

    def add_watch(self, path: str) -> None:
        """Have ZooKeeper notify changes at and below a path of the store."""
        there = self.names.there(path)
        self.read(lambda: send(self.client, AddWatch(there)))

    def _on_state(self, state: str) -> None:
        """Record a change of the connection's state; called on kazoo's thread, which must not block."""
        if state == "CONNECTED":
            self.connected.set()
            _log.info("ZooKeeper at %s answers again", self.address.hosts)
            if self._connection_lost or self._session_lost:
                self.num_reconnects += 1
                self.watches.run(self._resume)
            return
        self.connected.clear()
        if not self._closed:
            _log.warning("ZooKeeper at %s does not answer", self.address.hosts)
        if state == "LOST":
            self._session_lost = True
        else:
            self._connection_lost = True

    def _resume(self) -> None:
        """Set the watches again, call the followers of a new session, then all watchers, since anything may have
        changed."""
        self._connection_lost = False
        session_lost, self._session_lost = self._session_lost, False
        try:
            for path in self.watches.paths():
                self.add_watch(path)
            if session_lost:
                _log.warning("ZooKeeper has ended the session; the next one is %x", self.id)
        except GamayError:
            # the connection is lost again; this method is called again when it is restored
            self._session_lost |= session_lost
            if not self._closed:
                _log.warning("watches are set again when ZooKeeper is back")
            return
        for follow in list(self.followers) if session_lost else ():
            try:
                follow()
            except StoreUnavailableError:
                self._session_lost = True  # all followers are called again when the connection is restored
            except Exception:  # noqa: BLE001 - each follower has to be called
                _log.exception("ephemeral nodes of the ended session could not be created again")
        self.watches.tell_each()


def pause() -> None:
    """Wait before repeating a request."""
    threading.Event().wait(_PAUSE_S)

"""Membership in a cluster on ZooKeeper: waiting for ZooKeeper, joining, and replacing a predecessor."""

import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace

from gamay.base.clock import Clock
from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.cluster.records.records import Instance, Role
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore, StoreUnavailableError
from gamay.cluster.store.znrecord import decode
from gamay.cluster.store.zookeeper_store import ZooKeeperAddress, ZooKeeperStore
from gamay.model.table.sections import DEFAULT_TENANT
from gamay.roles.cluster_keys import AUTO_JOIN
from gamay.roles.settings import RoleSettings

_log = logging.getLogger(__name__)

_ATTEMPT_S = 5.0
_POLL_S = 0.2
_MARGIN_S = 5.0  # ZooKeeper may take this much longer than the timeout to end a session


def connect(settings: RoleSettings, clock: Clock, is_stopping: Callable[[], bool]) -> ZooKeeperStore:
    """Return a session, once ZooKeeper answers.

    Raises StoreUnavailableError after `wait_s`, or if the process must stop, InvalidConfigError for a bad address.
    """
    began_s = clock.monotonic_s()
    patience_s = min(_ATTEMPT_S, settings.wait_s)
    while True:
        try:
            store = ZooKeeperStore.open(
                ZooKeeperAddress(
                    settings.zk,
                    settings.cluster,
                    settings.session_timeout_s,
                    patience_s=patience_s,
                    login=settings.zk_login,
                )
            )
        except StoreUnavailableError as error:
            waited_s = clock.monotonic_s() - began_s
            if waited_s >= settings.wait_s or is_stopping():
                raise StoreUnavailableError(
                    f"ZooKeeper at '{settings.zk}' has not answered for {waited_s:.0f} s: start it, or correct --zk"
                ) from error
            _log.warning("waiting for ZooKeeper at %s, for %.0f s so far", settings.zk, waited_s)
        else:
            _log.info("connected to ZooKeeper at %s", settings.zk)
            return store


def join(
    settings: RoleSettings, registry: Registry, name: str, port: int, admin_port: int, grpc_port: int | None = None
) -> Instance:
    """Register the instance with its current address, and clear its shutdown flag; return it.

    grpc_port: -1 for none, None if unknown. Raises InvalidConfigError for a new one if the cluster does not allow
    auto-join.
    """
    known = registry.get_instance(name)
    if known is None:
        if registry.cluster_config().get(AUTO_JOIN, "true").lower() == "false":
            raise InvalidConfigError(
                f"instance '{name}' is unknown, and the cluster's '{AUTO_JOIN}' is false: add it with POST /instances first"
            )
        known = Instance(name, settings.host, port, _first_tags(settings), admin_port=admin_port)
        try:
            registry.create_instance(known)
        except ConflictError:
            known = registry.get_instance(name) or known
        _log.info("%s joins cluster %s, tagged %s", name, settings.cluster, ", ".join(known.tags) or "with nothing")
    now = replace(known, host=settings.host, port=port, admin_port=admin_port, https=settings.https, shutting_down=False)
    if grpc_port is not None:
        now = replace(now, grpc_port=grpc_port)
    if now != known:
        registry.put_instance(now)
    return now


def set_shutting_down(registry: Registry, name: str) -> None:
    """Mark an instance as shutting down, so that brokers send it no more queries."""
    known = registry.get_instance(name)
    if known is not None:
        registry.put_instance(replace(known, shutting_down=True))


def claim_instance_id(store: MetadataStore, name: str, clock: Clock, session_timeout_s: float) -> None:
    """Wait until no other process is live as this instance.

    The session of a killed process lives on for a while; if the process is known to be gone, its live node is removed.
    Raises ConflictError if another process stays live as this instance.
    """
    path = paths.live_instance(name)
    deadline_s = clock.monotonic_s() + session_timeout_s + _MARGIN_S
    while (node := store.get(path)) is not None and node.ephemeral_owner != store.session_id:
        owner = decode(node.value).simple.get("LIVE_INSTANCE", "")
        if _is_gone(owner):
            _log.info("%s takes the place of process %s, which is gone", name, owner)
            store.delete(path, node.version)
            return
        if clock.monotonic_s() >= deadline_s:
            raise ConflictError(f"instance '{name}' is already running, as process {owner or 'unknown'}")
        _log.info("waiting for process %s to stop being %s", owner or "unknown", name)
        time.sleep(_POLL_S)


def _is_gone(owner: str) -> bool:
    """Whether a process of this machine has ended. This process's own id means a predecessor: it has not registered
    yet."""
    pid, _, machine = owner.partition("@")
    if machine != socket.gethostname() or not pid.isdecimal():
        return False
    if int(pid) == os.getpid():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _first_tags(settings: RoleSettings) -> tuple[str, ...]:
    if settings.tags is not None:
        return settings.tags
    role, isolated = settings.role, settings.tenant_isolation
    if role is Role.BROKER:
        return (f"{DEFAULT_TENANT}_BROKER",) if isolated else ("broker_untagged",)
    if role is Role.SERVER:
        return (f"{DEFAULT_TENANT}_OFFLINE", f"{DEFAULT_TENANT}_REALTIME") if isolated else ("server_untagged",)
    return ("minion_untagged",) if role is Role.MINION else ()

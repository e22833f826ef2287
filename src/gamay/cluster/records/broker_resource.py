"""The resource `brokerResource`: the brokers of each typed table.

Its ideal state has the brokers that are tagged for a table's broker tenant, running or not; its external view has those
that are live, as OFFLINE if they are disabled. Both are one record for the whole cluster: typed table -> broker -> state.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from gamay.cluster.records.records import OFFLINE, ONLINE, Assignment, Instance, Role
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import buckets, paths
from gamay.cluster.store.store import update
from gamay.cluster.store.znrecord import CorruptRecordError, ZNRecord, decode, encode
from gamay.model.table.sections import DEFAULT_TENANT

_log = logging.getLogger(__name__)

BrokerStates: TypeAlias = Mapping[str, Mapping[str, str]]

_IDEAL = paths.ideal_state(paths.BROKER_RESOURCE)
_UNLIMITED = "2147483647"
_SIMPLE = {
    "IDEAL_STATE_MODE": "CUSTOMIZED",
    "MAX_PARTITIONS_PER_INSTANCE": _UNLIMITED,
    "NUM_PARTITIONS": _UNLIMITED,
    "REBALANCE_MODE": "CUSTOMIZED",
    "REPLICAS": _UNLIMITED,
    "STATE_MODEL_DEF_REF": "BrokerResourceOnlineOfflineStateModel",
    "STATE_MODEL_FACTORY_NAME": "DEFAULT",
}


def broker_tag(tenant: str) -> str:
    """Return the tag of the brokers of a tenant."""
    return f"{tenant}_BROKER"


def assigned_brokers(tenants: Mapping[str, str], instances: Iterable[Instance]) -> dict[str, dict[str, str]]:
    """Return the ideal state; tables without brokers are left out. tenants: typed table -> broker tenant."""
    by_tag: dict[str, dict[str, str]] = {}
    for broker in sorted((i for i in instances if i.role is Role.BROKER), key=lambda i: i.id):
        for tag in broker.tags:
            by_tag.setdefault(tag, {})[broker.id] = ONLINE
    found = {table: by_tag.get(broker_tag(tenant)) for table, tenant in sorted(tenants.items())}
    return {table: dict(brokers) for table, brokers in found.items() if brokers}


def broker_states(ideal: BrokerStates, instances: Iterable[Instance], live: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the external view: the assigned live brokers, with state OFFLINE for those that take no queries.

    live: ids of instances that are alive.
    """
    states = {i.id: ONLINE if _answers(i, live) else OFFLINE for i in instances if i.id in live}
    return {table: {b: states[b] for b in brokers if b in states} for table, brokers in sorted(ideal.items())}


def answering_instances(registry: Registry) -> list[Instance]:
    """Return the brokers that are alive and enabled, by id."""
    live = frozenset(registry.live_instance_ids())
    return [i for i in registry.instances() if i.role is Role.BROKER and _answers(i, live)]


def _answers(instance: Instance, live: Collection[str]) -> bool:
    return instance.id in live and instance.enabled and not instance.shutting_down


@dataclass(frozen=True, slots=True)
class BrokerResource:
    """The record of `brokerResource` in the metadata store. Its methods may be called from any thread and process."""

    registry: Registry

    def ideal(self) -> BrokerStates | None:
        """Return the brokers of each typed table; None before any controller of this version has led the cluster.

        A damaged record is replaced in the result by what table configs and tags demand.
        """
        try:
            record = buckets.get(self.registry.store, _IDEAL)
        except CorruptRecordError as error:
            _log.error("the record %s is damaged: %s", _IDEAL, error)
            return assigned_brokers(self._tenants(), self.registry.instances())
        return None if record is None else record.maps

    def brokers_of(self, table: str) -> list[str]:
        """Return the ids of the brokers assigned to a typed table, running or not."""
        return sorted((self.ideal() or {}).get(table, {}))

    def rebuild(self, tables: Collection[str] | None = None) -> list[str]:
        """Update the ideal state by table configs and tags; return the typed tables whose brokers changed.

        tables: the tables to update; None for all, which also removes tables that no longer exist.
        """
        changed: list[str] = []

        def apply(record: ZNRecord | None) -> ZNRecord:
            # read again for each attempt, since another process may have changed configs or tags
            wanted = assigned_brokers(self._tenants(), self.registry.instances())
            before = {} if record is None else record.maps
            if tables is None or record is None:
                after = wanted
            else:
                others = {t: states for t, states in before.items() if t not in tables}
                after = others | {t: wanted[t] for t in tables if t in wanted}
            changed[:] = sorted(t for t in {*before, *after} if before.get(t) != after.get(t))
            return _record(dict(_SIMPLE) if record is None else record.simple, after)

        try:
            buckets.update(self.registry.store, _IDEAL, apply)
        except CorruptRecordError as error:  # all of its content follows from configs and tags
            _log.error("the record %s is damaged, it is rebuilt: %s", _IDEAL, error)
            buckets.delete(self.registry.store, _IDEAL)
            buckets.update(self.registry.store, _IDEAL, apply)
        return changed

    def forget(self, table: str) -> None:
        """Remove a typed table that was deleted."""
        self._change(lambda states: {t: brokers for t, brokers in states.items() if t != table})

    def enrol(self, broker: Instance) -> None:
        """Add a broker that joins the cluster to the tables of its tenants, and remove it from others.

        Nothing happens before a controller has written the record: until then brokers answer for all tables.
        """
        own = assigned_brokers(self._tenants(), [broker])

        def apply(states: BrokerStates) -> BrokerStates:
            others = {t: {b: state for b, state in brokers.items() if b != broker.id} for t, brokers in states.items()}
            after = {t: {**others.get(t, {}), **own.get(t, {})} for t in {*states, *own}}
            return {t: brokers for t, brokers in after.items() if brokers}

        self._change(apply)

    def publish(self) -> None:
        """Write the external view; clients look for brokers there.

        It is one plain node, however many tables there are, because clients cannot read split records.
        """
        live = frozenset(self.registry.live_instance_ids())
        states = broker_states(self.ideal() or {}, self.registry.instances(), live)
        value = encode(Assignment(paths.BROKER_RESOURCE, states).to_record())
        update(self.registry.store, paths.external_view(paths.BROKER_RESOURCE), lambda _: value)

    def _change(self, change: Callable[[BrokerStates], BrokerStates]) -> None:
        def apply(record: ZNRecord | None) -> ZNRecord | None:
            if record is None:
                return None
            return _record(record.simple, change(record.maps))

        buckets.update(self.registry.store, _IDEAL, apply)

    def _tenants(self) -> dict[str, str]:
        """Return the tenant of the brokers of each typed table."""
        names = self.registry.table_names()
        nodes = self.registry.store.get_many([paths.table_config(table) for table in names])
        found = {name: _broker_tenant(node.value) for name, node in zip(names, nodes, strict=True) if node is not None}
        return {table: tenant for table, tenant in found.items() if tenant is not None}


def _broker_tenant(config: bytes) -> str | None:
    """Return the broker tenant in a table config; None for a damaged config, with which no query of the table can be
    bound."""
    try:
        return str(orjson.loads(decode(config).simple.get("tenants", "{}")).get("broker") or DEFAULT_TENANT)
    except (CorruptRecordError, ValueError, AttributeError):
        return None


def _record(simple: dict[str, str], states: BrokerStates) -> ZNRecord:
    ordered = {table: dict(sorted(brokers.items())) for table, brokers in sorted(states.items())}
    return ZNRecord(paths.BROKER_RESOURCE, simple, ordered)

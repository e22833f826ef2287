"""Instances and tenants: add, change, enable and disable, tag, drop.

A tenant is a name in the tags of instances: `<tenant>_BROKER`, `<tenant>_OFFLINE`, `<tenant>_REALTIME`. An instance that
belongs to none carries `broker_untagged`, `server_untagged` or `minion_untagged`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError, nearest
from gamay.cluster.records.broker_resource import BrokerResource
from gamay.cluster.records.quotas import RATE_LIMIT_DISABLED
from gamay.cluster.records.records import Instance, Role
from gamay.controller.context import ControllerContext
from gamay.controller.tables.tables import TableManager, server_tag

_KEYS = (
    "host",
    "port",
    "type",
    "tags",
    "pools",
    "grpcPort",
    "adminPort",
    "queryServicePort",
    "queryMailboxPort",
    "queriesDisabled",
)
# ports of engines that Gamay does not have: instance records keep them for other readers
KEPT_PORTS = {"queryServerPort": "queryServicePort", "queryMailboxPort": "queryMailboxPort"}
_STATES = ("enable", "disable", "drain", "queries_disable", "queries_enable")
_UNTAGGED = {Role.BROKER: "broker_untagged", Role.SERVER: "server_untagged", Role.MINION: "minion_untagged"}


@dataclass(frozen=True, slots=True)
class InstanceManager:
    """Manager of the cluster's instances and tenants."""

    context: ControllerContext
    tables: TableManager

    def all(self) -> list[Instance]:
        """Return all instances, by id."""
        return self.context.registry.instances()

    def get(self, name: str) -> Instance:
        """Return an instance. Raises NotFoundError."""
        found = self.context.registry.get_instance(name)
        if found is None:
            hint = nearest(name, self.context.registry.instance_ids())
            raise NotFoundError(f"Failed to find instance config for instance: {name}.{hint}")
        return found

    def add(self, document: Mapping[str, Any]) -> Instance:
        """Register an instance that may start later. Raises ConflictError if it exists, InvalidConfigError."""
        added = _parse(document)
        if self.context.registry.get_instance(added.id) is not None:
            raise ConflictError(f"Instance: {added.id} already exists")
        self.context.registry.create_instance(added)
        self._assign_brokers(added.role)
        return added

    def update(self, name: str, document: Mapping[str, Any]) -> None:
        """Replace the record of an instance; its id stays. Raises NotFoundError, InvalidConfigError."""
        before, after = self.get(name), _parse(document)
        if after.role is not before.role:
            raise InvalidConfigError(f"type: instance {name} is a {before.role.value}, its type cannot change")
        extra = {**before.extra, **after.extra}
        self.context.registry.put_instance(
            replace(after, id=before.id, enabled=before.enabled, extra=extra, shutting_down=before.shutting_down)
        )
        self._assign_brokers(before.role)

    def set_tags(self, name: str, tags: Sequence[str]) -> None:
        """Replace the tags of an instance. Raises NotFoundError."""
        instance = self.get(name)
        self.context.registry.put_instance(replace(instance, tags=tuple(tags)))
        self._assign_brokers(instance.role)

    def set_state(self, name: str, state: str) -> None:
        """Enable or disable an instance, entirely or for queries, or drain a minion. Raises NotFoundError,
        InvalidConfigError."""
        instance, wanted = self.get(name), state.lower()
        if wanted not in _STATES:
            raise InvalidConfigError(
                f"Invalid state: '{state}', it must be one of {', '.join(_STATES)}.{nearest(wanted, _STATES)}"
            )
        if wanted == "drain" and instance.role is not Role.MINION:
            raise InvalidConfigError(f"Only minions can be drained, and {name} is a {instance.role.value}")
        if wanted.startswith("queries") and instance.role is not Role.SERVER:
            raise InvalidConfigError(f"Queries can be disabled on servers only, and {name} is a {instance.role.value}")
        if wanted.startswith("queries"):
            changed = replace(instance, queries_disabled=wanted == "queries_disable")
        else:
            changed = replace(instance, enabled=wanted == "enable")
        self.context.registry.put_instance(changed)

    def set_rate_limited(self, name: str, state: str) -> None:
        """Enable or disable the query quotas of a broker. Raises NotFoundError, InvalidConfigError."""
        instance = self.get(name)
        if instance.role is not Role.BROKER:
            raise InvalidConfigError(f"Only brokers limit rates, and {name} is a {instance.role.value}")
        if state.upper() not in ("ENABLE", "DISABLE"):
            raise InvalidConfigError(f"Invalid state: '{state}', it must be ENABLE or DISABLE")
        others = {key: value for key, value in instance.extra.items() if key != RATE_LIMIT_DISABLED}
        disabled = {RATE_LIMIT_DISABLED: "true"} if state.upper() == "DISABLE" else {}
        self.context.registry.put_instance(replace(instance, extra={**others, **disabled}))

    def drop(self, name: str) -> None:
        """Delete an instance. Raises NotFoundError, ConflictError while it is live or has segments."""
        if problems := self.drop_problems(name):
            raise ConflictError(f"Failed to drop instance {name}: {'; '.join(message for _, message in problems)}")
        role = self.get(name).role
        self.context.registry.delete_instance(name)
        self._assign_brokers(role)

    def drop_problems(self, name: str) -> list[tuple[str, str]]:
        """Return why an instance cannot be dropped: pairs of code and sentence. Raises NotFoundError."""
        self.get(name)
        registry = self.context.registry
        problems = [("INSTANCE_IS_LIVE", "it is still live")] if name in registry.live_instance_ids() else []
        for table in self.tables.names():
            if any(name in states for states in registry.must_get_ideal_state(table).states.values()):
                problems.append(("INSTANCE_CONTAINED_IN_IDEAL_STATE", f"segments of table {table} are assigned to it"))
        return problems

    def tag_problems(self, changes: Mapping[str, Sequence[str]]) -> dict[str, list[tuple[str, str]]]:
        """Return instance -> why it cannot get its new tags, as pairs of code and sentence; all changes apply together.

        A table must keep as many servers as it has replicas, and one broker. Raises NotFoundError for an unknown
        instance.
        """
        before = {instance.id: instance for instance in self.all()}
        problems: dict[str, list[tuple[str, str]]] = {self.get(name).id: [] for name in changes}
        after = [replace(i, tags=tuple(changes[i.id])) if i.id in changes else i for i in before.values()]
        needs: dict[tuple[Role, str], int] = {}
        for table in self.tables.names():
            config = self.tables.get(table)
            for need, count in (
                ((Role.SERVER, server_tag(config)), config.replication),
                ((Role.BROKER, f"{config.tenants.broker}_BROKER"), 1),
            ):
                needs[need] = max(needs.get(need, 0), count)
        for (role, tag), count in needs.items():
            left = sum(i.role is role and tag in i.tags for i in after)
            if left >= count:
                continue
            for name in changes:
                if before[name].role is role and tag in before[name].tags and tag not in changes[name]:
                    sentence = f"tables need {count} {role.value.lower()}s tagged '{tag}', and {left} would be left"
                    problems[name].append(("MINIMUM_INSTANCE_UNSATISFIED", sentence))
        return problems

    # tenants

    def put_tenant(self, document: Mapping[str, Any], *, exists: bool) -> str:
        """Create a tenant from untagged instances, or change the size of an existing one; return its name.

        Raises NotFoundError for an unknown tenant, ConflictError for a new one that exists, InvalidConfigError for bad
        keys or too few instances.
        """
        role, name, suffixes = _tenant_request(document)
        members = self.of_tenant(role, name)
        if exists and not members:
            raise NotFoundError(f"Tenant {name} has no {role.value.lower()}s: create it with POST")
        if not exists and members:
            raise ConflictError(f"Tenant {name} already exists: change it with PUT")
        wanted = max(suffixes.values())
        free = [i for i in self.all() if i.role is role and _UNTAGGED[role] in i.tags]
        if wanted > len(members) + len(free):
            raise InvalidConfigError(
                f"Tenant {name} needs {wanted} {role.value.lower()}s, but {len(members)} belong to it and {len(free)} are "
                f"untagged: tag more of them '{_UNTAGGED[role]}' with PUT /instances/{{name}}/updateTags"
            )
        chosen = [*members, *free][:wanted]
        for position, instance in enumerate(chosen):
            ours = [f"{name}_{suffix}" for suffix, count in suffixes.items() if position < count]
            others = [tag for tag in instance.tags if tag != _UNTAGGED[role] and tag.rpartition("_")[0] != name]
            self.set_tags(instance.id, [*others, *ours])
        for instance in members[wanted:]:
            self._leave(instance, role, name)
        return name

    def delete_tenant(self, name: str, kind: str) -> None:
        """Remove a tenant's tags from its instances. Raises InvalidConfigError while a table uses the tenant,
        NotFoundError."""
        role = _tenant_role(kind)
        members = self.of_tenant(role, name)
        if not members:
            raise NotFoundError(f"Failed to find {role.value.lower()}s of tenant: {name}")
        users = [
            table
            for table in self.tables.names()
            if name == (self._broker_tenant(table) if role is Role.BROKER else self._server_tenant(table))
        ]
        if users:
            raise InvalidConfigError(f"Tenant {name} cannot be deleted, tables use it: {', '.join(users)}")
        for instance in members:
            self._leave(instance, role, name)

    def set_tenant_state(self, name: str, kind: str | None, state: str) -> None:
        """Enable or disable all instances of a tenant. Raises NotFoundError, InvalidConfigError."""
        if state.lower() not in ("enable", "disable"):
            raise InvalidConfigError(f"Invalid state: '{state}', it must be enable or disable")
        roles = [_tenant_role(kind)] if kind else [Role.SERVER, Role.BROKER]
        members = [instance for role in roles for instance in self.of_tenant(role, name)]
        if not members:
            raise NotFoundError(f"Failed to find instances for tenant: {name}")
        for instance in members:
            self.set_state(instance.id, state)

    def of_tenant(self, role: Role, name: str) -> list[Instance]:
        """Return the instances of a tenant."""
        suffixes = ("BROKER",) if role is Role.BROKER else ("OFFLINE", "REALTIME")
        tags = {f"{name}_{suffix}" for suffix in suffixes}
        return [i for i in self.all() if i.role is role and tags & set(i.tags)]

    def _assign_brokers(self, role: Role) -> None:
        """Update `brokerResource` by the tags of brokers if the changed instance is a broker."""
        if role is Role.BROKER:
            BrokerResource(self.context.registry).rebuild()

    def _leave(self, instance: Instance, role: Role, tenant: str) -> None:
        kept = [tag for tag in instance.tags if tag.rpartition("_")[0] != tenant]
        self.set_tags(instance.id, kept or [_UNTAGGED[role]])

    def _broker_tenant(self, table: str) -> str:
        return self.tables.get(table).tenants.broker

    def _server_tenant(self, table: str) -> str:
        return server_tag(self.tables.get(table)).rpartition("_")[0]


def _parse(document: Mapping[str, Any]) -> Instance:
    if unknown := [key for key in document if key not in _KEYS]:
        raise InvalidConfigError(f"instance: unknown key '{unknown[0]}'.{nearest(unknown[0], _KEYS)}")
    document = _set(document)
    host, kind = document.get("host"), str(document.get("type", "")).upper()
    roles = {role.name: role for role in Role}
    if not isinstance(host, str) or not host:
        raise InvalidConfigError("instance: the key 'host' is missing")
    if kind not in roles:
        raise InvalidConfigError(f"instance: 'type' is '{kind}', it must be one of {', '.join(roles)}")
    tags = document.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidConfigError("instance: 'tags' must be a list of strings")
    role, port = roles[kind], _port(document, "port", required=True)
    untagged = [_UNTAGGED[role]] if role in _UNTAGGED else []
    return Instance(
        Instance.make_id(role, host, port),
        host,
        port,
        tuple(tags or untagged),
        admin_port=_port(document, "adminPort"),
        grpc_port=_port(document, "grpcPort"),
        queries_disabled=_flag(document, "queriesDisabled"),
        pools={str(tag): str(pool) for tag, pool in _object(document, "pools").items()},
        extra={key: str(port) for key, name in KEPT_PORTS.items() if (port := _port(document, name)) != -1},
    )


def _set(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that have a value; an empty string counts as no value, as in Pinot."""
    return {key: value for key, value in document.items() if value is not None and value != ""}


def _flag(document: Mapping[str, Any], key: str) -> bool:
    text = str(document.get(key, False)).lower()
    if text not in ("true", "false"):
        raise InvalidConfigError(f"instance: '{key}' must be true or false, not {document[key]!r}")
    return text == "true"


def _object(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key, {})
    if not isinstance(found, Mapping):
        raise InvalidConfigError(f"instance: '{key}' must be an object, not {found!r}")
    return found


def _port(document: Mapping[str, Any], key: str, *, required: bool = False) -> int:
    try:
        port = int(document[key]) if required or key in document else -1
    except (KeyError, TypeError, ValueError):
        port = 0
    if port != -1 and not 1 <= port <= 65_535:
        raise InvalidConfigError(f"instance: '{key}' must be a number from 1 to 65535, not {document.get(key)!r}")
    return port


def _tenant_role(kind: str) -> Role:
    if kind.upper() not in ("SERVER", "BROKER"):
        raise InvalidConfigError(f"Invalid tenant type: '{kind}', it must be SERVER or BROKER")
    return Role[kind.upper()]


def _tenant_request(document: Mapping[str, Any]) -> tuple[Role, str, dict[str, int]]:
    """Return role, name, and suffix -> the number of instances with that tag."""
    document = _set(document)
    role, name = _tenant_role(str(document.get("tenantRole", ""))), document.get("tenantName")
    if not isinstance(name, str) or not name:
        raise InvalidConfigError("tenant: the key 'tenantName' is missing")
    counts = {}
    for key in ("numberOfInstances", "offlineInstances", "realtimeInstances"):
        count = str(document.get(key, 0))
        if not (count.isascii() and count.isdigit()):
            raise InvalidConfigError(f"tenant: '{key}' must be a number of instances, not {document[key]!r}")
        counts[key] = int(count)
    total = counts["numberOfInstances"]
    if total == 0:
        raise InvalidConfigError("tenant: 'numberOfInstances' must be at least 1")
    if role is Role.BROKER:
        return role, name, {"BROKER": total}
    offline, realtime = counts["offlineInstances"], counts["realtimeInstances"]
    if offline == realtime == 0:
        offline = realtime = total
    if max(offline, realtime) > total:
        raise InvalidConfigError(
            "tenant: 'offlineInstances' and 'realtimeInstances' cannot be more than 'numberOfInstances'"
        )
    return role, name, {"OFFLINE": offline, "REALTIME": realtime}

"""Diagnosis of the cluster, in sentences. The diagnosis is pure; `cluster_status` reads its input."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, TypeAlias

from gamay.base.errors import GamayError, NotFoundError
from gamay.cluster.records.records import CONSUMING, ERROR, OFFLINE, ONLINE, Assignment, Instance, Role
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.election import leader_of
from gamay.cluster.store.store import StoreUnavailableError
from gamay.controller.context import ControllerContext
from gamay.controller.realtime.ideal_steps import KEYS_MOVED, has_moved_keys, latest_segments, pause_state
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.model.table.table_name import raw_table_name

Reasons: TypeAlias = Callable[[str], Mapping[str, str]]

_SHOWN_MAX = 3
_READY = (ONLINE, CONSUMING)
_OTHER_TABLE = (
    "create a new table that consumes the topic from its beginning, or wait until retention has removed older segments"
)
_ENABLE = "PUT /instances/{name}/state?state=enable"
_ENABLE_QUERIES = "PUT /instances/{name}/state?state=queries_enable"


class Severity(IntEnum):
    """Severity of a finding: BAD affects users now, DEGRADED would with the next failure."""

    GOOD = 0
    DEGRADED = 1
    BAD = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: its subject, a sentence about it, and advice."""

    severity: Severity
    subject: str
    problem: str
    advice: str

    def to_json(self) -> dict[str, str]:
        """Return the finding as the REST interface shows it."""
        return {"severity": self.severity.name, "subject": self.subject, "problem": self.problem, "advice": self.advice}


def cluster_status(context: ControllerContext) -> dict[str, Any]:
    """Return `{"status", "problems"}`; GOOD has none."""
    try:
        findings = _findings(context)
    except StoreUnavailableError as error:
        findings = [
            Finding(
                Severity.BAD,
                "cluster",
                f"{error}: nothing can be changed, and no process replaces one that dies; queries are answered as before",
                "start ZooKeeper, or restore the connection to it; all processes recover by themselves when it is back",
            )
        ]
    findings.sort(key=lambda finding: -finding.severity)
    worst = max((finding.severity for finding in findings), default=Severity.GOOD)
    return {"status": worst.name, "problems": [finding.to_json() for finding in findings]}


def _findings(context: ControllerContext) -> list[Finding]:
    registry = context.registry
    live = set(registry.live_instance_ids())
    instances, damaged = registry.readable_instances()
    findings = [_damaged(name, error) for name, error in damaged.items()]
    if registry.store.get(paths.EPOCH) is not None and leader_of(registry.store) is None:
        findings.append(
            Finding(
                Severity.BAD,
                "cluster",
                "no controller leads the cluster: repairs do not run, and servers' states reach no broker",
                "wait for the session of the last leader to end, some seconds; then start a controller",
            )
        )
    assigned: dict[str, int] = {}
    of_tables: list[Finding] = []
    for table in registry.table_names():
        try:
            ideal, view = registry.get_ideal_state(table), registry.get_external_view(table)
            _check_table(registry, table)
        except GamayError as error:
            of_tables.append(_damaged(table, error))
            continue
        if ideal is None or not ideal.enabled:
            continue
        of_tables += [_damaged(f"{table}/{name}", error) for name, error in _damaged_segments(registry, table).items()]
        for states in ideal.states.values():
            for instance in states:
                assigned[instance] = assigned.get(instance, 0) + 1
        of_tables += diagnose_table(ideal, view, live, partial(_reasons, context, table))
    return [*findings, *diagnose_instances(instances, live, assigned), *of_tables]


def _damaged(subject: str, error: GamayError) -> Finding:
    advice = "gamay admin repair shows how it is repaired"
    return Finding(Severity.BAD, subject, str(error), advice)


def _check_table(registry: Registry, table: str) -> None:
    """Raise GamayError if a table's config, schema or lineage cannot be read."""
    if (config := registry.get_table_config(table)) is not None:
        stored_table_config(config)
    if (schema := registry.get_schema(raw_table_name(table))) is not None:
        stored_schema(schema)
    registry.get_lineage(table)


def _damaged_segments(registry: Registry, table: str) -> Mapping[str, GamayError]:
    return registry.readable_segments(table, registry.segment_names(table))[1]


def diagnose_instances(instances: Sequence[Instance], live: Iterable[str], assigned: Mapping[str, int]) -> list[Finding]:
    """Return the problems of instances. assigned: the number of segments of each by the ideal states."""
    alive, findings = set(live), list[Finding]()
    for role, effect in ((Role.BROKER, "no query is answered"), (Role.SERVER, "no table can be queried")):
        if not any(i.role is role and i.id in alive for i in instances):
            findings.append(Finding(Severity.BAD, "cluster", f"no {role.value.lower()} is alive: {effect}", "start one"))
    for instance in instances:
        count = assigned.get(instance.id, 0)
        has = f"; {_count(count, 'segment')} of tables {'is' if count == 1 else 'are'} assigned to it" if count else ""
        if instance.id not in alive:
            findings.append(
                Finding(
                    Severity.DEGRADED,
                    instance.id,
                    f"it is not alive{has}",
                    "start it again, or move its segments and drop it" if count else "start it again, or drop it",
                )
            )
        elif not instance.enabled:
            findings.append(Finding(Severity.DEGRADED, instance.id, f"it is disabled{has}", _ENABLE))
        elif instance.shutting_down:
            findings.append(Finding(Severity.DEGRADED, instance.id, f"it is shutting down{has}", "wait until it is back"))
        elif instance.queries_disabled:
            findings.append(Finding(Severity.DEGRADED, instance.id, "queries are disabled on it", _ENABLE_QUERIES))
    return findings


def diagnose_table(
    ideal: Assignment, view: Assignment | None, live: Iterable[str], reasons: Reasons = lambda _: {}
) -> list[Finding]:
    """Return the problems of a typed table's segments. reasons: server -> segment -> why it cannot be loaded."""
    alive, actual = set(live), {} if view is None else view.states
    lost: dict[str, str] = {}
    thin: dict[str, str] = {}
    broken: dict[str, list[str]] = {}
    for segment, wanted in sorted(ideal.states.items()):
        replicas = [server for server, state in wanted.items() if state != OFFLINE]
        if not replicas:
            continue
        now = actual.get(segment, {})
        for server in replicas:
            if now.get(server) == ERROR:
                broken.setdefault(server, []).append(segment)
        ready = sum(server in alive and now.get(server) in _READY for server in replicas)
        if ready < len(replicas):
            states = {server: now.get(server, OFFLINE) for server in replicas if server in alive}
            (thin if ready else lost)[segment] = _what_to_do(states, len(replicas))
    findings = []
    if lost:
        problem = (
            f"{_count(len(lost), 'segment')} without a live replica ({_some(list(lost))}): answers are marked as partial"
        )
        findings.append(Finding(Severity.BAD, ideal.resource, problem, _joined(lost.values())))
    for server, segments in sorted(broken.items()):
        why = reasons(server).get(segments[0], "") if server in alive else ""
        problem = f"{_count(len(segments), 'segment')} in the ERROR state on {server} ({_some(segments)})"
        findings.append(
            Finding(
                Severity.DEGRADED,
                ideal.resource,
                f"{problem}: {why}" if why else problem,
                "repair the cause; the server tries again by itself, POST /segments/{table}/reset makes it try at once",
            )
        )
    if thin:
        problem = f"{_count(len(thin), 'segment')} with fewer live replicas than wanted ({_some(list(thin))})"
        findings.append(Finding(Severity.DEGRADED, ideal.resource, problem, _joined(thin.values())))
    if has_moved_keys(ideal):
        findings.append(Finding(Severity.DEGRADED, ideal.resource, KEYS_MOVED, _OTHER_TABLE))
    return [*findings, *_diagnose_consumption(ideal)]


def _diagnose_consumption(ideal: Assignment) -> Iterable[Finding]:
    """Yield findings about stream partitions that are not consumed, or not on all of their servers."""
    pause, stopped, thin = pause_state(ideal), list[str](), list[str]()
    for name in latest_segments(ideal).values():
        states = set(ideal.states[str(name)].values())
        if OFFLINE in states and not pause.pauses(name):
            (stopped if states == {OFFLINE} else thin).append(str(name))
    advice = f"gamay admin realtime status {ideal.resource} shows why; the servers try again with the next periodic repair"
    if stopped:
        problem = f"all servers stopped consuming {_count(len(stopped), 'consuming segment')} ({_some(sorted(stopped))})"
        missing = f"{problem}: rows of the stream are missing in answers"
        yield Finding(Severity.BAD, ideal.resource, missing, advice)
    if thin:
        problem = f"some servers stopped consuming {_count(len(thin), 'consuming segment')} ({_some(sorted(thin))})"
        yield Finding(Severity.DEGRADED, ideal.resource, problem, advice)


def _what_to_do(states: Mapping[str, str], replicas: int) -> str:
    """Return the advice for a segment that lacks replicas. states: its state on the live servers."""
    if len(states) < replicas:
        return "start the servers that hold them"
    if ERROR in states.values():
        return "see why they are in the ERROR state"
    return "wait until the servers have loaded them"


def _joined(advices: Iterable[str]) -> str:
    return "; ".join(sorted(set(advices)))


def _reasons(context: ControllerContext, table: str, server: str) -> Mapping[str, str]:
    try:
        return context.servers.segment_errors(server, table)
    except NotFoundError:
        return {}


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more

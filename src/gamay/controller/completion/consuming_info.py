"""The state of a table's consuming segments, gathered from its servers, and whether it is healthy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gamay.base.errors import NotFoundError
from gamay.cluster.records.records import OFFLINE, Assignment
from gamay.controller.context import ControllerContext
from gamay.controller.realtime.ideal_steps import consuming_segments

HEALTHY = {"ingestionState": "HEALTHY", "errorMessage": ""}

# Pinot's controller names these four differently from its servers
_RENAMED = {
    "currentOffsets": "currentOffsetsMap",
    "latestUpstreamOffsets": "latestUpstreamOffsetMap",
    "recordsLag": "recordsLagMap",
    "availabilityLagMs": "availabilityLagMsMap",
}


@dataclass(frozen=True, slots=True)
class ConsumingInfo:
    """The state of a table's consuming segments.

    wanted: segment -> the servers that should consume it. segments: segment -> the report of each replica.
    silent: the servers that do not answer.
    """

    wanted: Mapping[str, tuple[str, ...]]
    segments: Mapping[str, list[dict[str, Any]]]
    silent: list[str]


def consuming_info(context: ControllerContext, table: str) -> ConsumingInfo:
    """Return the state as the servers of a typed table report it. Raises NotFoundError if the table does not exist."""
    ideal = context.registry.must_get_ideal_state(table)
    answers, silent = ask_servers(ideal, lambda server: context.servers.consuming_segments(server, table))
    wanted = consuming_segments(ideal)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    for server, segments in answers.items():
        for info in segments:
            found.setdefault(info["segmentName"], []).append(_renamed(server, info))
    return ConsumingInfo(wanted, found, silent)


def ingestion_status(context: ControllerContext, table: str) -> dict[str, str]:
    """Return whether each of a typed REALTIME table's servers consumes every segment that it should.

    Raises NotFoundError if the table does not exist.
    """
    found = consuming_info(context, table)
    for segment, states in sorted(context.registry.must_get_ideal_state(table).states.items()):
        if OFFLINE in states.values():  # reported to the controller; the next validation tries again
            return _unhealthy(f"Servers stopped consuming segment: {segment}; the table's realtimeStatus says why")
    for segment, servers in found.wanted.items():
        told = {info["serverName"]: info["consumerState"] for info in found.segments[segment]}
        if not told:
            return _unhealthy(f"Did not get any response from servers for segment: {segment}")
        if missing := [server for server in servers if server not in told]:
            return _unhealthy(f"Not all servers responded for segment: {segment} Missing servers : {missing}")
        for server, state in told.items():
            if state != "CONSUMING":
                return _unhealthy(f"Segment: {segment} is not being consumed on server: {server}")
    return HEALTHY


def ask_servers(ideal: Assignment, ask: Callable[[str], Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the answers of a table's servers, by server, and the servers that do not answer."""
    answers: dict[str, Any] = {}
    silent: list[str] = []
    for server in sorted({server for states in ideal.states.values() for server in states}):
        try:
            answers[server] = ask(server)
        except NotFoundError:
            silent.append(server)
    return answers, silent


def _renamed(server: str, info: Mapping[str, Any]) -> dict[str, Any]:
    offsets = {_RENAMED[name]: value for name, value in info["partitionOffsetInfo"].items()}
    rest = {name: value for name, value in info.items() if name not in ("segmentName", "partitionOffsetInfo")}
    return {"serverName": server, **rest, "partitionOffsetInfo": offsets}


def _unhealthy(text: str) -> dict[str, str]:
    return {"ingestionState": "UNHEALTHY", "errorMessage": text}

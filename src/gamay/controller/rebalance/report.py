"""Reports of rebalances to clients: their moves and their progress. Pure functions."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gamay.cluster.place.rebalance_steps import States
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import SegmentRecord


@dataclass(frozen=True, slots=True)
class RebalanceResult:
    """The result of a rebalance so far. target: None if it could not be computed."""

    job_id: str
    status: str
    description: str
    partitions: tuple[tuple[str, InstancePartitions], ...] = ()
    target: States | None = None
    summary: dict[str, Any] | None = None
    checks: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the answer of the REST interface."""
        tiers = {kind: part for kind, part in self.partitions if part.name.endswith(f"__TIER__{kind}")}
        plain = {kind: part for kind, part in self.partitions if kind not in tiers}
        return {
            "jobId": self.job_id,
            "status": self.status,
            "description": self.description,
            "instanceAssignment": {kind: _shown(part) for kind, part in plain.items()} or None,
            "tierInstanceAssignment": {kind: _shown(part) for kind, part in tiers.items()} or None,
            "segmentAssignment": self.target,
            "preChecksResult": self.checks,
            "rebalanceSummaryResult": self.summary,
        }


def moves_summary(present: States, target: States, records: Mapping[str, SegmentRecord]) -> dict[str, Any]:
    """Return how many segments and bytes move, and what each server gains and loses."""
    before, after, gained, lost = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    moved_bytes = 0
    for segment, states in target.items():
        now = present.get(segment, {})
        before.update(now.keys())
        after.update(states.keys())
        comes = states.keys() - now.keys()
        gained.update(comes)
        lost.update(now.keys() - states.keys())
        record = records.get(segment)
        moved_bytes += len(comes) * max(0, -1 if record is None else record.size_bytes)
    sizes = [record.size_bytes for record in records.values() if record.size_bytes >= 0]
    servers = sorted({*before, *after})
    added = [server for server in servers if server not in before]
    removed = [server for server in servers if server not in after]
    return {
        "serverInfo": {
            "numServersGettingNewSegments": len(gained),
            "numServers": {"valueBeforeRebalance": len(before), "expectedValueAfterRebalance": len(after)},
            "serversAdded": added,
            "serversRemoved": removed,
            "serversUnchanged": [s for s in servers if s in before and s in after],
            "serversGettingNewSegments": sorted(gained),
            "serverSegmentChangeInfo": {
                server: {
                    "serverStatus": "ADDED" if server in added else "REMOVED" if server in removed else "UNCHANGED",
                    "totalSegmentsBeforeRebalance": before[server],
                    "totalSegmentsAfterRebalance": after[server],
                    "segmentsAdded": gained[server],
                    "segmentsDeleted": lost[server],
                    "segmentsUnchanged": before[server] - lost[server],
                }
                for server in servers
            },
        },
        "segmentInfo": {
            "totalSegmentsToBeMoved": sum(gained.values()),
            "totalSegmentsToBeDeleted": sum(lost.values()),
            "maxSegmentsAddedToASingleServer": max(gained.values(), default=0),
            "estimatedAverageSegmentSizeInBytes": sum(sizes) // len(sizes) if sizes else 0,
            "totalEstimatedDataToBeMovedInBytes": moved_bytes,
            "replicationFactor": {
                "valueBeforeRebalance": max(map(len, present.values()), default=0),
                "expectedValueAfterRebalance": max(map(len, target.values()), default=0),
            },
            "numSegmentsAcrossAllReplicas": {
                "valueBeforeRebalance": sum(before.values()),
                "expectedValueAfterRebalance": sum(after.values()),
            },
        },
    }


def moves_left(present: States, target: States) -> dict[str, Any]:
    """Return the remaining moves from one assignment to another."""
    missing = [segment for segment in target if segment not in present]
    differ = [segment for segment in target if segment in present and dict(present[segment]) != dict(target[segment])]
    replicas = sum(
        state != present.get(segment, {}).get(instance)
        for segment in (*missing, *differ)
        for instance, state in target[segment].items()
    )
    return {
        "_segmentsMissing": len(missing),
        "_segmentsToRebalance": len(differ),
        "_percentSegmentsToRebalance": 100.0 * len(differ) / max(1, len(target)),
        "_replicasToRebalance": replicas,
    }


def progress(status: str, text: str, started_ms: int, now_ms: int) -> dict[str, Any]:
    """Return the fields of the progress that all jobs have."""
    is_over = status != "IN_PROGRESS"
    return {
        "status": status,
        "startTimeMs": started_ms,
        "heartbeatMs": now_ms,
        "timeToFinishInSeconds": (now_ms - started_ms) // 1000 if is_over else -1,
        "completionStatusMsg": text if is_over else None,
    }


def _shown(partitions: InstancePartitions) -> dict[str, Any]:
    return {"instancePartitionsName": partitions.name, "partitionToInstancesMap": partitions.to_map()}

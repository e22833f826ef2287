"""The valid rows of a segment, as agreed by its servers."""

import base64
from typing import Any

from pyroaring import BitMap

from gamay.base.errors import ConflictError, GamayError
from gamay.cluster.records.records import ONLINE
from gamay.cluster.tasks.consensus import Refused, Replica, agreed
from gamay.minion.context import TaskContext


class NoConsensusError(ConflictError):
    """Missing agreement of the servers about the valid rows of a segment; the task is retried later."""


def valid_rows(task: TaskContext, segment: str, crc: int, kind: str, mode: str, *, ignore_crc: bool) -> BitMap:
    """Return the valid rows of a segment. Raises NoConsensusError with the servers' reports."""
    ideal = task.access.registry.must_get_ideal_state(task.table)
    assigned = sorted(server for server, state in ideal.states.get(segment, {}).items() if state == ONLINE)
    replicas: list[Replica[BitMap]] = []
    silent: list[str] = []
    for server in assigned:
        task.progress.step(f"asking {server} for the valid rows of {segment}")
        try:
            with task.access.server(server) as service:
                path = f"/segments/{task.table}/{segment}/validDocIdsBitmap"
                answer: dict[str, Any] = service.json("GET", path, params={"validDocIdsType": kind})
            rows = BitMap.deserialize(base64.b64decode(answer["bitmap"]))
        except (GamayError, ValueError, KeyError) as error:
            silent.append(f"{server}: {error}")
            continue
        replicas.append(Replica(server, str(answer["serverStatus"]), str(answer["segmentCrc"]), len(rows), rows))
    chosen = agreed(mode, replicas, assigned, str(crc), ignore_crc=ignore_crc)
    if isinstance(chosen, Refused):
        raise NoConsensusError(f"the valid rows of segment {segment} are unknown: {'; '.join([chosen.reason, *silent])}")
    return chosen.docs

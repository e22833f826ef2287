"""Which rows of a segment count, as its servers agree."""

import base64
from typing import Any

from pyroaring import BitMap

from gamay.base.errors import ConflictError, GamayError
from gamay.cluster.records.records import ONLINE
from gamay.cluster.tasks.consensus import Refused, Replica, agreed
from gamay.minion.context import TaskContext


class NoConsensusError(ConflictError):
    """The servers do not agree about the rows of a segment, or cannot say: it is to be tried later."""


def valid_rows(task: TaskContext, segment: str, crc: int, kind: str, mode: str, *, ignore_crc: bool) -> BitMap:
    """Return the rows of a segment that count. Raises NoConsensusError, which says who says what."""
    ideal = task.access.registry.must_get_ideal_state(task.table)
    assigned = sorted(server for server, state in ideal.states.get(segment, {}).items() if state == ONLINE)
    replicas: list[Replica[BitMap]] = []
    silent: list[str] = []
    for server in assigned:
        task.progress.step(f"asking {server} which rows of {segment} count")
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
        raise NoConsensusError(
            f"the rows of segment {segment} that count are not known: {'; '.join([chosen.reason, *silent])}"
        )
    return chosen.docs

"""Counts of valid rows of segments, as agreed by their servers."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gamay.base.errors import GamayError
from gamay.cluster.records.records import ONLINE, SegmentRecord
from gamay.cluster.tasks.consensus import Refused, Replica, agreed
from gamay.controller.tasks.spi import GeneratorInput
from gamay.model.task_settings import ConsensusSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DocCounts:
    """The counts of a segment's rows. size_bytes: on the server's disk, -1 if unknown."""

    total: int
    valid: int
    size_bytes: int = -1

    @property
    def invalid(self) -> int:
        """The number of invalid rows."""
        return self.total - self.valid


def doc_counts(
    wanted: GeneratorInput, records: Sequence[SegmentRecord], kind: str, settings: ConsensusSettings
) -> dict[str, DocCounts]:
    """Return the agreed counts by segment; segments without agreement are left out and logged."""
    ideal = wanted.registry.must_get_ideal_state(wanted.table)
    assigned = {
        record.name: sorted(s for s, state in ideal.states.get(record.name, {}).items() if state == ONLINE)
        for record in records
    }
    servers = sorted({server for names in assigned.values() for server in names})
    told: dict[str, list[Replica[int]]] = {record.name: [] for record in records}
    sizes: dict[tuple[str, str], tuple[int, int]] = {}
    for server in servers:
        mine = [name for name, names in assigned.items() if server in names]
        for start in range(0, len(mine), settings.batch):
            batch = mine[start : start + settings.batch]
            try:
                answers = wanted.servers.valid_doc_counts(server, wanted.table, batch, kind)
            except GamayError as error:
                _log.warning("%s does not report the valid rows of %s: %s", server, wanted.table, error)
                break
            for answer in answers:
                name, valid = str(answer["segmentName"]), int(answer["totalValidDocs"])
                if name in told:
                    replica = Replica(server, str(answer["serverStatus"]), str(answer["segmentCrc"]), valid, valid)
                    told[name].append(replica)
                    sizes[server, name] = int(answer["totalDocs"]), int(answer["segmentSizeInBytes"])
    return _agreed(records, told, assigned, sizes, settings)


def _agreed(
    records: Sequence[SegmentRecord],
    told: Mapping[str, Sequence[Replica[int]]],
    assigned: Mapping[str, Sequence[str]],
    sizes: Mapping[tuple[str, str], tuple[int, int]],
    settings: ConsensusSettings,
) -> dict[str, DocCounts]:
    found: dict[str, DocCounts] = {}
    for record in records:
        chosen = agreed(
            settings.generator_mode, told[record.name], assigned[record.name], str(record.crc),
            ignore_crc=settings.ignore_crc,
        )  # fmt: skip
        if isinstance(chosen, Refused):
            _log.info("segment %s is left alone: %s", record.name, chosen.reason)
            continue
        total, size = sizes[chosen.server, record.name]
        found[record.name] = DocCounts(total, chosen.valid, size)
    return found

"""The valid docs of segments, for compaction.

| type | rows |
| --- | --- |
| `SNAPSHOT` | the latest rows of their keys, as last stored on disk |
| `IN_MEMORY` | the current latest rows of their keys |
| `SNAPSHOT_WITH_DELETE`, `IN_MEMORY_WITH_DELETE` | without those that delete their keys |
"""

import base64
from collections.abc import Sequence
from typing import Any

from pyroaring import BitMap

from gamay.base.errors import InvalidConfigError, NotFoundError, nearest
from gamay.server.instance.instance import ServerInstance
from gamay.server.loading.table import LoadedSegment

KINDS = ("SNAPSHOT", "SNAPSHOT_WITH_DELETE", "IN_MEMORY", "IN_MEMORY_WITH_DELETE")


def valid_doc_bitmap(instance: ServerInstance, table: str, segment: str, kind: str) -> dict[str, Any]:
    """Return the valid docs of one segment, as a bitmap in base64 (roaring, portable).

    Raises NotFoundError if the segment is not loaded or its valid docs are unknown, InvalidConfigError.
    """
    loaded = _loaded(instance, table).get(segment)
    if loaded is None:
        raise NotFoundError(f"segment '{segment}' of table '{table}' is not loaded here")
    found = _rows(instance, table, loaded, _checked(kind))
    if found is None:
        raise NotFoundError(f"no {kind} of the valid rows of segment '{segment}'")
    return {
        "segmentName": segment,
        "segmentCrc": str(loaded.crc),
        "segmentDataCrc": None,
        "validDocIdsType": kind,
        "bitmap": base64.b64encode(found.serialize()).decode(),
        "instanceId": instance.id,
        "serverStatus": _status(instance),
    }


def valid_doc_counts(instance: ServerInstance, table: str, segments: Sequence[str], kind: str) -> list[dict[str, Any]]:
    """Return the numbers of valid docs of segments, by default of all loaded ones.

    Segments that are not loaded, or whose valid docs are unknown, are omitted. Raises NotFoundError, InvalidConfigError.
    """
    loaded, checked = _loaded(instance, table), _checked(kind)
    found = []
    for name in segments or sorted(loaded):
        segment = loaded.get(name)
        rows = None if segment is None else _rows(instance, table, segment, checked)
        if segment is None or rows is None:
            continue
        total = segment.segment.num_docs
        found.append(
            {
                "segmentName": name,
                "totalValidDocs": len(rows),
                "totalInvalidDocs": total - len(rows),
                "totalDocs": total,
                "segmentCrc": str(segment.crc),
                "segmentDataCrc": None,
                "validDocIdsType": kind,
                "segmentSizeInBytes": segment.size_bytes,
                "segmentCreationTimeMillis": segment.segment.info.creation_time_ms,
                "instanceId": instance.id,
                "serverStatus": _status(instance),
            }
        )
    return found


def _loaded(instance: ServerInstance, table: str) -> dict[str, LoadedSegment]:
    data = instance.table(table)
    if data is None:
        raise NotFoundError(f"'{table}' is not loaded on this server")
    return dict(data.snapshot())


def _checked(kind: str) -> str:
    if kind not in KINDS:
        raise InvalidConfigError(f"validDocIdsType: '{kind}' is not among {', '.join(KINDS)}.{nearest(kind, KINDS)}")
    return kind


def _rows(instance: ServerInstance, table: str, loaded: LoadedSegment, kind: str) -> BitMap | None:
    docs, keys = loaded.docs, instance.upserts.upsert(table)
    if docs is None or keys is None:
        return None  # in this table every row is valid
    # a row that deletes its key is needed while older rows exist elsewhere; later it becomes invalid by itself
    with_deleted = not kind.endswith("_WITH_DELETE") or keys.settings.keeps_deleted
    if kind.startswith("IN_MEMORY"):
        return docs.snapshot(with_deleted).bitmap()
    stored = keys.stored_rows(loaded.segment.name, loaded.crc, loaded.segment.num_docs)
    if stored is None:
        return None
    valid, queryable = stored
    return valid if with_deleted or queryable is None else queryable


def _status(instance: ServerInstance) -> str:
    return "GOOD" if instance.ready else "STARTING"

"""Snapshots in the deep store, which tell a server the valid docs of segments that it never had.

`Upsert_Snapshots/<typed table>/<partition>.zip`, shared by all replicas: for each segment with a CRC, `<segment>__<crc>/`
with the bitmaps of `gamay.upsert.persist.snapshots`, and `about.json`: the sequence number of the segment that started at
the time of the snapshot, and the watermark. The file is stored atomically; an unreadable one, or one of a later state, is
ignored.
"""

import logging
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
from pyroaring import BitMap

from gamay.base.errors import GamayError, NotFoundError
from gamay.storage.deep_store import SCHEME, UPSERT_SNAPSHOTS, DeepStore
from gamay.upsert.persist.snapshots import QUERYABLE, VALID

_ABOUT = "about.json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The valid docs of a partition at one moment.

    sequence: of the consuming segment at whose first row it was taken, None in tables without a stream; watermark: as a
    number, None if there is none. rows: by (segment, CRC), the valid rows and, with a delete column, the queryable ones.
    """

    sequence: int | None
    watermark: float | None
    rows: "Mapping[tuple[str, int], tuple[BitMap, BitMap | None]]"


class SharedSnapshots:
    """The states of a table's partitions in the deep store. scratch: a folder for temporary files."""

    def __init__(self, store: DeepStore, table: str, scratch: Path) -> None:
        self._store = store
        self._folder = f"{UPSERT_SNAPSHOTS}/{table}"
        self._scratch = scratch

    def put(self, partition: int, state: PartitionState) -> None:
        """Store a state, replacing the former one. Raises OSError."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self._scratch) as folder:
            path = Path(folder) / _name(partition)
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                about = {"sequence": state.sequence, "watermark": state.watermark}
                archive.writestr(_ABOUT, orjson.dumps(about))
                for (segment, crc), (valid, queryable) in state.rows.items():
                    archive.writestr(f"{segment}__{crc}/{VALID}", valid.serialize())
                    if queryable is not None:
                        archive.writestr(f"{segment}__{crc}/{QUERYABLE}", queryable.serialize())
            self._store.put_file(path, self._folder, path.name)

    def get(self, partition: int) -> PartitionState | None:
        """Return the state of a partition, None if there is no readable one."""
        url = f"{SCHEME}{self._folder}/{_name(partition)}"
        try:
            self._scratch.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self._scratch) as folder:
                return _read(self._store.get(url, Path(folder)))
        except NotFoundError:
            return None
        except (GamayError, OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            _log.warning("the snapshots %s cannot be read and are ignored: %s", url, error)
            return None


def _name(partition: int) -> str:
    return f"{partition}.zip"


def _read(path: Path) -> PartitionState:
    with zipfile.ZipFile(path) as archive:
        about = orjson.loads(archive.read(_ABOUT))
        names = set(archive.namelist())
        rows: dict[tuple[str, int], tuple[BitMap, BitMap | None]] = {}
        for name in names:
            folder, _, kind = name.rpartition("/")
            if kind != VALID:
                continue
            segment, _, crc = folder.rpartition("__")
            other = f"{folder}/{QUERYABLE}"
            queryable = BitMap.deserialize(archive.read(other)) if other in names else None
            rows[segment, int(crc)] = (BitMap.deserialize(archive.read(name)), queryable)
        return PartitionState(about["sequence"], about["watermark"], rows)

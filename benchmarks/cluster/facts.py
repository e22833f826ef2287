"""A table whose correct answers are known at any time, while its segments are replaced and refreshed.

The table has `PARTS` parts of as many rows each; a row has the number of its part, a number within all rows, and the version
of the segment that brought it. Whatever the versions are, each part has the same rows. Parts of a group are replaced
together, so an answer must show all of a group in the same version; each other part is one segment that is refreshed, so an
answer must show it in one version. Which versions an answer may show is known: from the moment that one is pushed, until
nobody has an older one any more.
"""

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.write.builder import SegmentBuilder
from gamay.storage.archive import pack

PARTS = 8
GROUPS = ((0, 1), (2, 3))
SINGLE = tuple(part for part in range(PARTS) if not any(part in group for group in GROUPS))
TABLE = "facts"
SCHEMA: dict[str, Any] = {
    "schemaName": TABLE,
    "dimensionFieldSpecs": [
        {"name": "part", "dataType": "INT"},
        {"name": "version", "dataType": "INT"},
        {"name": "name", "dataType": "STRING"},
    ],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
}
CONFIG: dict[str, Any] = {
    "tableName": TABLE,
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "2", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {"invertedIndexColumns": ["name"]},
    "metadata": {},
}
_NAMES = 50


def segment_name(part: int, version: int) -> str:
    """Return the segment of a part: those of groups are new ones for each version, the others keep their names."""
    return f"{TABLE}_{part}" if part in SINGLE else f"{TABLE}_{part}_v{version}"


def build(folder: Path, part: int, version: int, rows: int) -> Path:
    """Write the archive of a part's segment."""
    schema, config = Schema.from_json(SCHEMA).value, TableConfig.from_json(CONFIG).value
    name = segment_name(part, version)
    builder = SegmentBuilder(schema, config, name, folder / f"{part}-{version}")
    data = pa.table(
        {
            "part": pa.array([part] * rows, pa.int32()),
            "version": pa.array([version] * rows, pa.int32()),
            "name": [f"name {i % _NAMES}" for i in range(rows)],
            "n": pa.array(range(part * rows, (part + 1) * rows), pa.int64()),
        }
    )
    pipeline = Pipeline(schema, config)
    for batch in data.to_batches():
        builder.append(pipeline.apply(batch))
    return pack(builder.build(), folder / f"{part}-{version}" / f"{name}.tar.gz")


@dataclass(slots=True)
class _Version:
    """A version of a part that answers may show between two moments, in seconds; until None: still allowed."""

    number: int
    since_s: float
    until_s: float | None = None


class Versions:
    """The versions that answers may show; thread-safe."""

    def __init__(self) -> None:
        self._of: dict[int, list[_Version]] = {part: [_Version(0, 0.0)] for part in range(PARTS)}
        self._lock = threading.Lock()

    def newest(self, part: int) -> int:
        """Return the version that was pushed last, or is about to be pushed."""
        with self._lock:
            return self._of[part][-1].number

    def begin(self, part: int, number: int, now_s: float) -> None:
        """Allow answers to show a new version of a part, which is about to be pushed."""
        with self._lock:
            self._of[part].append(_Version(number, now_s))

    def settle(self, now_s: float) -> None:
        """Allow only the newest versions in answers to queries sent from now on."""
        with self._lock:
            for versions in self._of.values():
                for old in versions[:-1]:
                    old.until_s = old.until_s or now_s

    def legal(self, part: int, since_s: float, until_s: float) -> set[int]:
        """Return the versions that an answer may show, given the times of its query and of the answer."""
        with self._lock:
            return {v.number for v in self._of[part] if v.since_s <= until_s and (v.until_s is None or v.until_s >= since_s)}


@dataclass(frozen=True, slots=True)
class Question:
    """A query and its expected answer; rows None marks the query that shows versions."""

    sql: str
    rows: list[list[Any]] | None


class Questions:
    """Random queries about the table. rows: of each part."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._versions = Question(
            f"SELECT part, COUNT(*), SUM(n), MIN(version), MAX(version) FROM {TABLE} GROUP BY part ORDER BY part LIMIT 100",
            None,
        )

    def one(self, rng: random.Random) -> Question:
        """Return a query."""
        return rng.choice((self._of_versions, self._of_all, self._of_some, self._first))(rng)

    def _of_versions(self, _: random.Random) -> Question:
        return self._versions

    def _of_all(self, _: random.Random) -> Question:
        count = PARTS * self._rows
        total = count * (count - 1) / 2
        return Question(
            f"SELECT COUNT(*), SUM(n), MIN(n), MAX(n) FROM {TABLE}", [[count, float(total), 0.0, float(count - 1)]]
        )

    def _of_some(self, rng: random.Random) -> Question:
        parts = sorted(rng.sample(range(PARTS), rng.randint(1, PARTS - 1)))
        chosen = rng.randrange(_NAMES)
        count = len(range(chosen, self._rows, _NAMES)) * len(parts)
        listed = ", ".join(map(str, parts))
        return Question(f"SELECT COUNT(*) FROM {TABLE} WHERE part IN ({listed}) AND name = 'name {chosen}'", [[count]])

    def _first(self, rng: random.Random) -> Question:
        begin = rng.randrange(PARTS * self._rows - 5)
        return Question(
            f"SELECT n FROM {TABLE} WHERE n >= {begin} ORDER BY n LIMIT 5", [[n] for n in range(begin, begin + 5)]
        )

    def problem(
        self, question: Question, found: Sequence[Sequence[Any]], versions: Versions, since_s: float, until_s: float
    ) -> str | None:
        """Return what is wrong with the rows of an answer reported as complete; None if it is exact."""
        if question.rows is not None:
            return None if found == question.rows else f"{question.sql}: {_shown(found)} instead of {question.rows}"
        shown: dict[int, int] = {}
        for part, count, total, low, high in found:
            first = part * self._rows
            if (count, total) != (self._rows, float(sum(range(first, first + self._rows)))):
                return f"part {part} has {count} rows with the sum {total}"
            if low != high:
                return f"part {part} is a mix of versions {low} and {high}"
            if low not in (legal := versions.legal(part, since_s, until_s)):
                return f"part {part} has version {low}, which is none of {sorted(legal)}"
            shown[part] = low
        if shown.keys() != set(range(PARTS)):
            return f"there are only the parts {sorted(shown)}"
        mixed = [group for group in GROUPS if len({shown[part] for part in group}) > 1]
        return f"groups {mixed} are a mix of versions: {shown}" if mixed else None


def _shown(rows: Sequence[Sequence[Any]]) -> str:
    return f"{list(rows[:3])}{f' and {len(rows) - 3} more rows' if len(rows) > 3 else ''}"

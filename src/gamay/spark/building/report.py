"""Reports of a job, for people and for the push."""

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class Outcome(Enum):
    """Outcome of an input."""

    BUILT = "BUILT"
    KEPT = "KEPT"  # the output existed already and was kept
    EMPTY = "EMPTY"  # no rows remained, so there is no segment
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """Report of one segment of a job, or of one input without a segment.

    uri: the location of its archive. size_bytes: of the archive. input_uri: the input file, empty for shuffled
    rows. errors: the first records and values that could not be read or converted; num_errors: their number.
    bytes_read: of the input, as stored.
    star_trees: their number; star_tree_bytes: of their records; star_tree_ms: the time to build them.
    read_ms, build_ms, publish_ms: the task's time to read and convert rows, to build columns and indexes, and
    to pack the segment and write it to the output folder.
    """

    outcome: str
    name: str = ""
    uri: str = ""
    input_uri: str = ""
    num_docs: int = 0
    size_bytes: int = 0
    rows_read: int = 0
    rows_filtered: int = 0
    num_errors: int = 0
    values_trimmed: int = 0
    errors: tuple[str, ...] = ()
    message: str = ""
    star_trees: int = 0
    star_tree_bytes: int = 0
    star_tree_ms: int = 0
    read_ms: int = 0
    build_ms: int = 0
    publish_ms: int = 0
    bytes_read: int = 0

    def of_input(self) -> dict[str, Any]:
        """Return the outcome of an input, for programs."""
        return {
            "uri": self.input_uri, "bytes": self.bytes_read, "rowsRead": self.rows_read, "rowsFiltered": self.rows_filtered,
            "errors": self.num_errors, "readMs": self.read_ms,
        }  # fmt: skip

    def of_segment(self) -> dict[str, Any]:
        """Return the segment, for programs."""
        return {
            "name": self.name, "uri": self.uri or None, "rows": self.num_docs, "bytes": self.size_bytes,
            "outcome": self.outcome, "input": self.input_uri or None, "readMs": self.read_ms, "buildMs": self.build_ms,
            "publishMs": self.publish_ms,
        }  # fmt: skip

    def to_json(self) -> str:
        """Return the report as JSON, the form that executors send."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "SegmentReport":
        """Read what `to_json` wrote."""
        document = json.loads(text)
        return cls(**{**document, "errors": tuple(document["errors"])})


@dataclass(frozen=True, slots=True)
class BuildReport:
    """Report of a build, over all segments. seconds: wall-clock time."""

    reports: tuple[SegmentReport, ...]
    seconds: float
    num_files: int = 0
    reading: tuple[SegmentReport, ...] = ()

    @property
    def segments(self) -> list[SegmentReport]:
        """The segments that exist after the build, ordered by name."""
        there = (Outcome.BUILT.value, Outcome.KEPT.value)
        return sorted((r for r in self.reports if r.outcome in there), key=lambda r: r.name)

    @property
    def failures(self) -> list[SegmentReport]:
        """The inputs that failed entirely."""
        return [r for r in (*self.reading, *self.reports) if r.outcome == Outcome.FAILED.value]

    @property
    def rows_read(self) -> int:
        """Records read from the input."""
        return sum(r.rows_read for r in (*self.reading, *self.reports))

    @property
    def bytes_read(self) -> int:
        """Bytes of the input, as it is stored."""
        return sum(r.bytes_read for r in (*self.reading, *self.reports))

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments' archives."""
        return sum(r.size_bytes for r in self.segments)

    @property
    def rows_filtered(self) -> int:
        """Records that the table's filter dropped."""
        return sum(r.rows_filtered for r in (*self.reading, *self.reports))

    @property
    def rows_written(self) -> int:
        """Rows in the segments."""
        return sum(r.num_docs for r in self.segments)

    @property
    def num_errors(self) -> int:
        """The number of records skipped and values replaced by null because they could not be read or converted."""
        return sum(r.num_errors for r in (*self.reading, *self.reports))

    @property
    def errors(self) -> list[str]:
        """The first of those, each with file and position."""
        return [error for r in (*self.reading, *self.reports) for error in r.errors]

    def summary(self) -> dict[str, Any]:
        """Return the report for programs, as JSON can hold it."""
        every = (*self.reading, *self.reports)
        spent_ms = {phase: sum(getattr(r, f"{phase}_ms") for r in every) for phase in ("read", "build", "publish")}
        return {
            "files": self.num_files,
            "bytesRead": self.bytes_read,
            "rowsRead": self.rows_read,
            "rowsFiltered": self.rows_filtered,
            "rowsWritten": self.rows_written,
            "errors": self.num_errors,
            "firstErrors": self.errors[:20],
            "valuesTrimmed": sum(r.values_trimmed for r in every),
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "taskSeconds": {phase: millis / 1000 for phase, millis in spent_ms.items()},
            "inputs": [r.of_input() for r in every if r.input_uri],
            "segments": [r.of_segment() for r in self.segments],
        }

    def lines(self) -> list[str]:
        """Return the report for people."""
        rate = self.rows_written / self.seconds if self.seconds else 0.0
        lines = [
            f"{_count(self.num_files, 'file')}, {self.rows_read:,} rows read, {self.rows_filtered:,} filtered out, "
            f"{self.num_errors:,} errors",
            f"{_count(len(self.segments), 'segment')}, {self.rows_written:,} rows, {self.size_bytes:,} bytes, "
            f"{self.seconds:.1f} s, {rate:,.0f} rows/s",
        ]
        if trees := sum(r.star_trees for r in self.segments):
            size = sum(r.star_tree_bytes for r in self.segments)
            seconds = sum(r.star_tree_ms for r in self.segments) / 1000
            lines.append(f"{_count(trees, 'star-tree')}, {size:,} bytes before packing, built in {seconds:.1f} s")
        trimmed = sum(r.values_trimmed for r in (*self.reading, *self.reports))
        if trimmed:
            lines.append(f"{trimmed:,} values were cut to their column's maxLength or at a NUL character")
        kept = [r.name for r in self.reports if r.outcome == Outcome.KEPT.value]
        if kept:
            lines.append(f"{len(kept)} archives existed already and were kept (overwriteOutput is false): {kept[0]}, …")
        return lines + [f"error: {error}" for error in self.errors[:20]]


@dataclass(frozen=True, slots=True)
class PushReport:
    """Report of a push. attempts: requests made, over all segments and clusters."""

    segments: tuple[str, ...]
    clusters: tuple[str, ...]
    attempts: int
    seconds: float

    def summary(self) -> dict[str, Any]:
        """Return the report for programs, as JSON can hold it."""
        return {
            "segments": list(self.segments),
            "clusters": list(self.clusters),
            "requests": self.attempts,
            "seconds": round(self.seconds, 3),
        }

    def lines(self) -> list[str]:
        """Return the report for people."""
        where = ", ".join(self.clusters)
        pushed, requests = _count(len(self.segments), "segment"), _count(self.attempts, "request")
        return [f"{pushed} pushed to {where} with {requests} in {self.seconds:.1f} s"]


@dataclass(frozen=True, slots=True)
class JobReport:
    """Report of a whole job; parts that it does not have are None."""

    build: BuildReport | None = None
    push: PushReport | None = None

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def summary(self) -> dict[str, Any]:
        """Return the report for programs, as JSON can hold it; without the parts that the job does not have."""
        parts = {"build": self.build, "push": self.push}
        return {name: part.summary() for name, part in parts.items() if part is not None}

    def lines(self) -> list[str]:
        """Return the report for people."""
        parts = [part.lines() for part in (self.build, self.push) if part is not None]
        return [line for part in parts for line in part]

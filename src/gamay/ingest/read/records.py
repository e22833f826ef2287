"""Common parts of record readers: the interface, and the reporting of bad records."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from gamay.base.errors import RecordError
from gamay.ingest.read.parts import ByteRange

BATCH_ROWS = 65_536
"""Most rows that a reader puts into one batch."""

ERRORS_KEPT = 1_000
"""Bad records that are remembered one by one; beyond that they are only counted."""

MULTI_VALUE_DELIMITER = b"gamay.multi_value_delimiter"
"""Key in the metadata of a batch's schema: what separates the values of a multi-value column in its text."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that could not be read or converted. `position` reads like `line 17` or `record 3`, counted from 1."""

    file: str
    position: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, {self.position}: {self.reason}"


@dataclass(slots=True)
class ErrorLog:
    """Log of bad records; raises at the first one unless `continue_on_error`."""

    continue_on_error: bool = False
    count: int = 0
    kept: list[BadRecord] = field(default_factory=list)

    def add(self, bad: BadRecord) -> None:
        """Count a bad record; raises RecordError unless `continue_on_error`."""
        self.count += 1
        if len(self.kept) < ERRORS_KEPT:
            self.kept.append(bad)
        if not self.continue_on_error:
            raise RecordError(str(bad))


class RecordReader(Protocol):
    """A file as record batches of at most `BATCH_ROWS` rows; it can be iterated once.

    Columns of batches may differ from batch to batch (JSON). Nested JSON objects are text of Arrow's JSON type.
    """

    file: str

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; raises RecordError for a bad record unless the reader continues after errors."""
        ...

    @property
    def errors(self) -> list[BadRecord]:
        """The first bad records that were left out."""
        ...

    @property
    def num_errors(self) -> int:
        """How many bad records were left out."""
        ...

    def position(self, row: int) -> str:
        """Return where in the file row `row` of all yielded rows (from 0) stands, e.g. `line 17`."""
        ...


class Positions:
    """The positions of yielded rows in a file with skipped records. Numbers start from 1."""

    def __init__(self, unit: str = "record", first_number: int = 1) -> None:
        self._jumps = [(0, unit, first_number)]  # (row, unit, its number), ascending by row

    def skip(self, row: int, skipped_total: int) -> None:
        """Record that from `row` on, record numbers exceed row numbers by `skipped_total`."""
        self._jumps.append((row, self._jumps[-1][1], 1 + row + skipped_total))

    def expect(self, row: int, line: int) -> None:
        """Set the line of a row; later rows are assumed to be on the following lines."""
        last_row, unit, number = self._jumps[-1]
        if unit != "line" or number + row - last_row != line:
            self._jumps.append((row, "line", line))

    def position(self, row: int) -> str:
        """Return the position of a row."""
        first_row, unit, number = self._jumps[bisect_right(self._jumps, row, key=lambda jump: jump[0]) - 1]
        return f"{unit} {number + row - first_row}"


class FileReader:
    """Base class of readers; a RecordReader without the iteration."""

    def __init__(self, uri: str, log: ErrorLog, unit: str = "record") -> None:
        """`unit`: what positions count, as in `Positions`."""
        self.file = uri
        self._uri = uri
        self._part: ByteRange | None = None
        self._log = log
        self._positions = Positions(unit)

    def restrict(self, part: ByteRange) -> None:
        """Read only the rows that start in a part of the file; positions are counted from there."""
        self._part = part
        if part.start:
            self.file = f"{self._uri}, from byte {part.start} on"

    @property
    def errors(self) -> list[BadRecord]:
        """The first bad records that were left out."""
        return self._log.kept

    @property
    def num_errors(self) -> int:
        """How many bad records were left out."""
        return self._log.count

    def position(self, row: int) -> str:
        """Return where in the file row `row` of all yielded rows (from 0) stands, e.g. `line 17`."""
        return self._positions.position(row)

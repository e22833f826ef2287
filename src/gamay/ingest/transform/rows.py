"""The rows of a batch on their way through the pipeline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.ingest.convert.arrays import Mask
from gamay.ingest.convert.values import convert
from gamay.ingest.read.records import BadRecord, ErrorLog
from gamay.model.schema.field_spec import FieldSpec

Locate: TypeAlias = Callable[[int], str]


@dataclass(slots=True)
class PipelineStats:
    """Counts of everything that a pipeline has seen.

    rows_incomplete: rows that were kept although a value of theirs was replaced by null; values_failed: those values.
    rows_dropped: rows of the input of which nothing was kept because a value failed.
    values_trimmed: texts that were cut at a NUL character or to the column's maximum length, or replaced for being too long;
    rows_sanitised: rows that were kept with such values.
    """

    rows_read: int = 0
    rows_filtered: int = 0
    rows_written: int = 0
    rows_incomplete: int = 0
    rows_dropped: int = 0
    values_failed: int = 0
    values_trimmed: int = 0
    rows_sanitised: int = 0


@dataclass(slots=True)
class Rows:
    """Columns by name, each of `num_rows` values; `typed` holds what was converted already, and which values failed.

    origin: int64 [num_rows], the row of the source batch that each row comes from. sanitised: the rows with text that had to
    be changed before it could be stored; None for none.
    """

    columns: dict[str, pa.Array]
    num_rows: int
    origin: "np.ndarray[Any, np.dtype[np.int64]]"
    typed: dict[str, tuple[pa.Array, Mask | None]] = field(default_factory=dict)
    sanitised: Mask | None = None

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> "Rows":
        """Return the rows of a batch."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return cls(columns, batch.num_rows, np.arange(batch.num_rows, dtype=np.int64))

    def put(self, name: str, values: pa.Array) -> None:
        """Set a column."""
        self.columns[name] = values
        self.typed.pop(name, None)

    def converted(self, spec: FieldSpec, multi_value_delimiter: str | None) -> tuple[pa.Array, Mask | None]:
        """Return a column in its conformed type, and which values failed; a missing column is all null."""
        known = self.typed.get(spec.name)
        if known is None:
            source = self.columns.get(spec.name)
            values = pa.nulls(self.num_rows) if source is None else source
            known = self.typed[spec.name] = convert(values, spec, multi_value_delimiter)
        return known

    def take(self, indices: "np.ndarray[Any, np.dtype[np.int64]]") -> "Rows":
        """Return the rows at these places, in this order."""
        at = pa.array(indices)
        typed = {n: (v.take(at), None if f is None else f[indices]) for n, (v, f) in self.typed.items()}
        columns = {n: v.take(at) for n, v in self.columns.items() if n not in typed or typed[n][1] is not None}
        columns |= {n: typed[n][0] for n in self.columns if n not in columns}
        return Rows(columns, len(indices), self.origin[indices], typed)


class Failures:
    """Where values that fail go: counted and made null, or raised as RecordError, or their rows are dropped.

    dropped: of the present batch, the rows of the input that have to go, and why.
    """

    def __init__(self, log: ErrorLog, stats: PipelineStats, *, drop: bool = False) -> None:
        self.dropped: dict[int, str] = {}
        self._log = log
        self._stats = stats
        self._drop = drop
        self._file = ""
        self._locate: Locate = lambda row: f"row {row + 1}"
        self._incomplete: set[int] = set()

    def begin(self, file: str, locate: Locate) -> None:
        """Start with a batch."""
        self._file = file
        self._locate = locate
        self._incomplete.clear()
        self.dropped.clear()

    def end(self) -> None:
        """Count the rows of the batch that had a value replaced by null, and those that were dropped."""
        self._stats.rows_incomplete += len(self._incomplete)
        self._stats.rows_dropped += len(self.dropped)

    def add(self, rows: Rows, failed: Mask, reason: Callable[[int], str]) -> None:
        """Report the failed rows; `reason` tells why. Raises RecordError unless errors are to be passed over."""
        for row in np.flatnonzero(failed).tolist():
            source_row = int(rows.origin[row])
            self._stats.values_failed += 1
            if self._drop:
                if source_row not in self.dropped:
                    self.dropped[source_row] = reason(row)
                continue
            self._incomplete.add(source_row)
            self._log.add(BadRecord(self._file, self._locate(source_row), reason(row)))


def describe_value(values: Mapping[str, pa.Array], name: str, row: int) -> str:
    """Return a value as it came in, shortened, for a message."""
    array = values.get(name)
    text = repr(None if array is None else array[row].as_py())
    return text if len(text) <= 100 else text[:97] + "..."

"""The rows of a batch as they pass through the pipeline."""

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
    """The counters of a pipeline.

    values_failed: values that could not be computed or converted; rows_incomplete: input rows kept with such values as null;
    rows_dropped: input rows dropped because of such values.
    values_trimmed: texts truncated at a NUL character or to the column's maximum length, or replaced because they exceed it;
    rows_sanitised: rows kept with such values.
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
    """Columns by name, each of `num_rows` values; `typed` caches converted columns, and which of their values failed.

    origin: int64 [num_rows], the row of the source batch that each row comes from. sanitised: a mask of the rows whose text
    was changed before storing it; None if there are none.
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
        """Return a column in its conformed type, and which values failed; all null for a missing column."""
        known = self.typed.get(spec.name)
        if known is None:
            source = self.columns.get(spec.name)
            values = pa.nulls(self.num_rows) if source is None else source
            known = self.typed[spec.name] = convert(values, spec, multi_value_delimiter)
        return known

    def take(self, indices: "np.ndarray[Any, np.dtype[np.int64]]") -> "Rows":
        """Return the rows at the given indices, in their order."""
        at = pa.array(indices)
        typed = {n: (v.take(at), None if f is None else f[indices]) for n, (v, f) in self.typed.items()}
        columns = {n: v.take(at) for n, v in self.columns.items() if n not in typed or typed[n][1] is not None}
        columns |= {n: typed[n][0] for n in self.columns if n not in columns}
        return Rows(columns, len(indices), self.origin[indices], typed)


class Failures:
    """A collector of failed values, which are counted and become null, raise RecordError, or drop their rows.

    dropped: the input rows to drop of the current batch, and the reasons.
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
        """Start a batch."""
        self._file = file
        self._locate = locate
        self._incomplete.clear()
        self.dropped.clear()

    def end(self) -> None:
        """Count the rows of the batch that had a value replaced by null, and those that were dropped."""
        self._stats.rows_incomplete += len(self._incomplete)
        self._stats.rows_dropped += len(self.dropped)

    def add(self, rows: Rows, failed: Mask, reason: Callable[[int], str]) -> None:
        """Add failed rows; reason: returns the reason for a row. Raises RecordError unless they are tolerated or dropped."""
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
    """Return an input value for a message, shortened."""
    array = values.get(name)
    text = repr(None if array is None else array[row].as_py())
    return text if len(text) <= 100 else text[:97] + "..."

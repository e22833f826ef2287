"""The optional reports of a write: a summary as JSON, and OpenLineage events."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gamay.base.clock import SYSTEM_CLOCK
from gamay.model.schema.schema import Schema
from gamay.spark.building.report import BuildReport, SegmentReport
from gamay.spark.lineage import Dataset, LineageRun, RunState
from gamay.spark.source_options import WriteOptions

_ABORTED = "the write was aborted; the exception that Spark raised says why"


class WriteTelling:
    """A reporter of the outcome of one write; sent from the driver process that plans it to the one that commits it.

    Raises InvalidConfigError if events are enabled and OpenLineage's client is not installed.
    """

    def __init__(self, options: WriteOptions, schema: Schema) -> None:
        self._summary = options.summary
        self._begun_ms = SYSTEM_CLOCK.now_ms()
        typed = f"{options.cluster.table}_{options.table_type}"
        self._table = Dataset.of_table(options.cluster.controller, typed, schema)
        self._run = LineageRun.begin(f"gamay.write.{typed}") if options.open_lineage else None

    def begin(self) -> None:
        """Report the start of the write."""
        if self._run is not None:
            self._run.tell(RunState.START, (), (self._table,))

    def keep(self) -> None:
        """Report that nothing was done, as the table already has the segments of the job."""
        self._write("KEPT", {})

    def complete(self, reports: Sequence[SegmentReport], reading: Sequence[SegmentReport]) -> None:
        """Report that queries see the rows. reports: on segments. reading: on the input rows of tasks."""
        seconds = (SYSTEM_CLOCK.now_ms() - self._begun_ms) / 1000
        report = BuildReport(tuple(reports), seconds, 0, tuple(reading))
        self._write("COMPLETED", {"build": report.summary()})
        if self._run is not None:
            written = self._table.with_counts(report.rows_written, report.size_bytes, len(report.segments))
            self._run.tell(RunState.COMPLETE, (), (written,))

    def fail(self) -> None:
        """Report that the write was aborted."""
        self._write("FAILED", {"error": _ABORTED})
        if self._run is not None:
            self._run.tell(RunState.FAIL, (), (self._table,), _ABORTED)

    def _write(self, state: str, rest: Mapping[str, Any]) -> None:
        if self._summary is not None:
            Path(self._summary).write_text(json.dumps({"state": state, **rest}, indent=1) + "\n", encoding="utf-8")

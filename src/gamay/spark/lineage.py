"""OpenLineage events about the inputs and outputs of jobs, writes and tasks, sent by OpenLineage's own client.

That client's settings determine the destination: `OPENLINEAGE_URL`, variables `OPENLINEAGE__…`, or `openlineage.yml`. A
failure to send an event is logged only.
"""

import importlib.util
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import InvalidConfigError
from gamay.ingest.read.sources import absolute_uri
from gamay.model.schema.schema import Schema

_log = logging.getLogger(__name__)
_NAMESPACE = "OPENLINEAGE_NAMESPACE"  # of jobs
_PRODUCER = "urn:gamay"


class RunState(Enum):
    """The state of a run in an event."""

    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table, or a folder of files, named by OpenLineage's rules. fields: names and types of columns, empty if unknown.

    rows, size_bytes, num_files: the amounts read or written, None if unknown; a table's files are its segments.
    """

    namespace: str
    name: str
    fields: tuple[tuple[str, str], ...] = ()
    rows: int | None = None
    size_bytes: int | None = None
    num_files: int | None = None

    @classmethod
    def of_files(cls, uri: str) -> "Dataset":
        """Return the dataset of a file or a folder.

        >>> Dataset.of_files("s3://bucket/trips/2024/")
        Dataset(namespace='s3://bucket', name='trips/2024', fields=(), rows=None, size_bytes=None, num_files=None)
        """
        parts = urlsplit(absolute_uri(uri))
        if parts.scheme in ("", "file"):
            return cls("file", parts.path.rstrip("/") or "/")
        return cls(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/")

    @classmethod
    def of_table(cls, controller: str, table: str, schema: Schema | None = None) -> "Dataset":
        """Return the dataset of a typed table in a controller's cluster."""
        fields = () if schema is None else fields_of(schema)
        return cls(f"gamay://{urlsplit(controller).netloc.rpartition('@')[2]}", table, fields)

    def with_counts(self, rows: int | None, size_bytes: int | None, num_files: int | None) -> "Dataset":
        """Return the dataset with the amounts read or written."""
        return replace(self, rows=rows, size_bytes=size_bytes, num_files=num_files)


def fields_of(schema: Schema) -> tuple[tuple[str, str], ...]:
    """Return the names and types of a table's columns."""
    return tuple((f.name, f.data_type.value + ("" if f.single_value else "[]")) for f in schema.stored_fields)


@dataclass(frozen=True, slots=True)
class LineageRun:
    """One run of a job, from its first event to its last; picklable, as several processes may send its events.

    job: the name of the job, common to all of its runs. run_id: a UUID.
    """

    job: str
    run_id: str

    @classmethod
    def begin(cls, job: str) -> "LineageRun":
        """Return a new run. Raises InvalidConfigError when OpenLineage's client is not installed."""
        if importlib.util.find_spec("openlineage") is None:
            raise InvalidConfigError("OpenLineage events need its client: pip install 'gamay[openlineage]'")
        from openlineage.client.uuid import generate_new_uuid

        return cls(job, str(generate_new_uuid()))

    def tell(self, state: RunState, inputs: Sequence[Dataset], outputs: Sequence[Dataset], error: str = "") -> None:
        """Send an event. error: the reason why the run failed, if known."""
        from openlineage.client import OpenLineageClient

        try:
            client = OpenLineageClient()
            client.emit(self._event(state, inputs, outputs, error))
            client.close()
        except Exception as reason:  # noqa: BLE001 - transports raise any; the job continues
            _log.warning("the OpenLineage event %s of %s could not be sent: %s", state.value, self.job, reason)

    def _event(self, state: RunState, inputs: Sequence[Dataset], outputs: Sequence[Dataset], error: str) -> Any:
        from openlineage.client import event_v2, facet_v2

        job_type = facet_v2.job_type_job.JobTypeJobFacet("BATCH", "GAMAY", "JOB", producer=_PRODUCER)
        engine = facet_v2.processing_engine_run.ProcessingEngineRunFacet(version("gamay"), "Gamay", producer=_PRODUCER)
        run: dict[str, Any] = {"processing_engine": engine}
        if error:
            run["errorMessage"] = facet_v2.error_message_run.ErrorMessageRunFacet(error, "PYTHON", producer=_PRODUCER)
        return event_v2.RunEvent(
            eventTime=datetime.fromtimestamp(SYSTEM_CLOCK.now_ms() / 1000, UTC).isoformat(),
            eventType=event_v2.RunState(state.value),
            run=event_v2.Run(self.run_id, run),
            job=event_v2.Job(os.environ.get(_NAMESPACE, "default"), self.job, {"jobType": job_type}),
            inputs=[_input(one) for one in inputs],
            outputs=[_output(one) for one in outputs],
            producer=_PRODUCER,
        )


def _input(dataset: Dataset) -> Any:
    from openlineage.client import event_v2, facet_v2

    counts = (dataset.rows, dataset.size_bytes, dataset.num_files)
    statistics = facet_v2.input_statistics_input_dataset.InputStatisticsInputDatasetFacet(*counts, producer=_PRODUCER)
    facets: dict[str, Any] = {} if counts == (None, None, None) else {"inputStatistics": statistics}
    return event_v2.InputDataset(dataset.namespace, dataset.name, facets, facets=_facets(dataset))


def _output(dataset: Dataset) -> Any:
    from openlineage.client import event_v2, facet_v2

    counts = (dataset.rows, dataset.size_bytes, dataset.num_files)
    statistics = facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(*counts, producer=_PRODUCER)
    facets: dict[str, Any] = {} if counts == (None, None, None) else {"outputStatistics": statistics}
    return event_v2.OutputDataset(dataset.namespace, dataset.name, facets, facets=_facets(dataset))


def _facets(dataset: Dataset) -> dict[str, Any]:
    from openlineage.client import facet_v2

    if not dataset.fields:
        return {}
    fields = [facet_v2.schema_dataset.SchemaDatasetFacetFields(name, type=kind) for name, kind in dataset.fields]
    return {"schema": facet_v2.schema_dataset.SchemaDatasetFacet(fields, producer=_PRODUCER)}

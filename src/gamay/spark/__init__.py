"""The batch pipeline as functions of a SparkSession, for notebooks, `spark-submit` and the command line.

A job: `gamay.ingest.job.spec.load_job_spec` reads its file and `gamay.spark.jobs.run_job` runs it.
`gamay.spark.building.segments` builds segment archives from input files, or a DataFrame, on executors
(`gamay.spark.building.segment_task.build_segment` runs there), and `gamay.spark.building.push.push_segments` pushes these to
controllers.

Tables as DataFrames: `gamay.spark.source.register` registers the format `gamay`, for reading and writing;
`gamay.spark.read.read_table` reads a table in one call, and `gamay.spark.queries.run.sql` runs a query over tables.

Streams: `gamay.spark.topics.job.repartition` copies messages of one topic to the partitions of a table's keys in another.
"""

import importlib
from typing import Any

_EXPORTS = {
    "LocalEngine": "gamay.spark.building.execute",
    "build_segments": "gamay.spark.building.segments",
    "dry_run": "gamay.spark.writing.dry_run",
    "local_session": "gamay.spark.session.local",
    "progress": "gamay.spark.building.watch",
    "push_segments": "gamay.spark.building.push",
    "read_table": "gamay.spark.read",
    "register": "gamay.spark.source",
    "repartition": "gamay.spark.topics.job",
    "run_job": "gamay.spark.jobs",
    "sql": "gamay.spark.queries.run",
    "write_dataframe": "gamay.spark.building.segments",
}


def __getattr__(name: str) -> Any:
    """Import the public functions on first use, so that executors import only the modules that they need."""
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'gamay.spark' has no attribute '{name}'")

"""Running a job spec: build, push, or both."""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import GamayError, InvalidConfigError, NotFoundError, nearest
from gamay.ingest.job.spec import JobSpec
from gamay.ingest.read.readers import format_of_class
from gamay.ingest.read.sources import open_bytes, path_matcher
from gamay.model.parse import load_json
from gamay.model.rules.validation import validate_schema, validate_table_config
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType, table_type_of
from gamay.spark.building.archive_push import Destination, controller_client
from gamay.spark.building.execute import LocalEngine
from gamay.spark.building.manifest import Manifest
from gamay.spark.building.progress import JobProgress, shown_progress
from gamay.spark.building.push import list_archives, push_segments
from gamay.spark.building.report import BuildReport, JobReport, PushReport
from gamay.spark.building.segments import ROWS_PER_SEGMENT, InputFiles, build_segments
from gamay.spark.building.target import ARCHIVE, METADATA_SUFFIX, SegmentTarget
from gamay.spark.lineage import Dataset, LineageRun, RunState, fields_of
from gamay.spark.session.local import active_session, ignore_pandas_warning, is_submitted, local_session
from gamay.storage.files import Access, remove
from gamay.storage.filesystems import scheme_of
from gamay.storage.settings import StorageSettings, storage_settings

_log = logging.getLogger(__name__)

EXTRA_KEYS = ("rowsPerSegment", "partitionAndSort", "sortColumn", "bytesPerTask", "openLineage")


def run_job(
    spec: JobSpec | Mapping[str, Any], spark: Any = None, *, progress: JobProgress | None = None, clock: Clock = SYSTEM_CLOCK
) -> JobReport:
    """Run a job and return its report.

    spark: None uses the running session, or starts a local one for the job and stops it. A `LocalEngine` builds in threads
    of this process instead.
    progress: None shows bars in a notebook and on a terminal, and logs elsewhere.
    Raises InvalidConfigError, NotFoundError, RecordError, ConflictError, ServiceError; a push that fails is rolled back if
    the table has `consistentDataPush`.
    """
    job = spec if isinstance(spec, JobSpec) else JobSpec.from_document(dict(spec))
    if progress is not None:
        return _run(job, spark, progress, clock)
    ignore_pandas_warning()
    with shown_progress() as shown:
        return _run(job, spark, shown, clock)


def run_with_summary(job: JobSpec, summary: Path | None, spark: Any = None) -> JobReport:
    """Run a job as `run_job` does; unless `summary` is None, write the report or the error to that file as JSON."""

    def write(state: str, rest: Mapping[str, Any]) -> None:
        if summary is not None:
            summary.write_text(json.dumps({"state": state, **rest}, indent=1) + "\n", encoding="utf-8")

    try:
        report = run_job(job, spark)
    except GamayError as error:
        write("FAILED", {"error": str(error)})
        raise
    write("COMPLETED", report.summary())
    return report


def _run(job: JobSpec, spark: Any, progress: JobProgress, clock: Clock) -> JobReport:
    for sentence in job.warnings:
        _log.warning("the job spec: %s", sentence)
    extra = _extra(job.execution.extra_configs)
    table_config, schema = _documents(job)
    if extra["openLineage"].lower() != "true":
        return _carried_out(job, extra, spark, schema, table_config, progress, clock)
    run = LineageRun.begin(f"gamay.ingest.{table_config.typed_name}")
    datasets = _datasets(job, table_config, schema, JobReport())
    run.tell(RunState.START, *datasets)
    try:
        report = _carried_out(job, extra, spark, schema, table_config, progress, clock)
    except BaseException as error:
        run.tell(RunState.FAIL, *datasets, str(error) or repr(error))
        raise
    run.tell(RunState.COMPLETE, *_datasets(job, table_config, schema, report))
    return report


def _datasets(
    job: JobSpec, table_config: TableConfig, schema: Schema, report: JobReport
) -> tuple[list[Dataset], list[Dataset]]:
    """Return the datasets that a job reads and those that it writes, with the counts of its report so far."""
    assert job.output_dir_uri is not None
    archives = Dataset.of_files(job.output_dir_uri)
    if job.push_mode is None:
        outputs = [replace(archives, fields=fields_of(schema))]
    else:
        outputs = [Dataset.of_table(one.controller_uri, table_config.typed_name, schema) for one in job.clusters]
    if not job.creates:
        pushed = None if report.push is None else len(report.push.segments)
        return [archives.with_counts(None, None, pushed)], [one.with_counts(None, None, pushed) for one in outputs]
    assert job.input_dir_uri is not None
    files, built = Dataset.of_files(job.input_dir_uri), report.build
    if built is None:
        return [files], outputs
    written = (built.rows_written, built.size_bytes, len(built.segments))
    return [files.with_counts(built.rows_read, built.bytes_read, built.num_files)], [
        one.with_counts(*written) for one in outputs
    ]


def _carried_out(
    job: JobSpec,
    extra: Mapping[str, str],
    spark: Any,
    schema: Schema,
    table_config: TableConfig,
    progress: JobProgress,
    clock: Clock,
) -> JobReport:
    if job.creates and extra["partitionAndSort"].lower() == "true" and isinstance(spark, LocalEngine):
        raise InvalidConfigError("partitionAndSort needs Spark: leave it out, or choose the engine 'spark'")
    built = pushed = None
    manifest = _manifest(job, table_config)
    with _engine(job, progress) if spark is None else nullcontext(spark) as engine:
        if job.creates:
            manifest.begin()
            built = _build(job, extra, engine, schema, table_config, progress, clock)
            manifest.complete(built.segments)
        if job.push_mode is not None:
            archives = _archives_to_push(job, built, manifest)
            pushed = _push(job, table_config, archives, engine, progress)
            if job.clean_up_output_dir:
                _remove(archives, manifest.access)
                manifest.remove()
    return JobReport(built, pushed)


def _build(
    job: JobSpec,
    extra: Mapping[str, str],
    spark: Any,
    schema: Schema,
    table_config: TableConfig,
    progress: JobProgress,
    clock: Clock,
) -> BuildReport:
    assert job.input_dir_uri is not None
    assert job.output_dir_uri is not None
    name_configs = dict(job.segment_names.configs)
    if _is_consistent(table_config):
        # new segments coexist with those they replace until all are uploaded, so their names must differ
        postfix = [name_configs.get("segment.name.postfix"), str(clock.now_ms())]
        name_configs["segment.name.postfix"] = "_".join(part for part in postfix if part)
    inputs = InputFiles(
        job.input_dir_uri,
        job.record_reader.data_format or format_of_class(job.record_reader.class_name),
        job.record_reader.configs,
        job.search_recursively,
        job.include_file_name_pattern,
        job.exclude_file_name_pattern,
        name_configs.get("use.global.directory.sequence.id", "").lower() == "true",
    )
    target = replace(
        SegmentTarget.of(schema, table_config, job.output_dir_uri),
        name_type=job.segment_names.type,
        name_configs=name_configs,
        overwrite=job.overwrite_output,
        storage=_storage(job),
        metadata_archive=job.create_metadata_tar_gz or job.push_mode == "metadata",
    )
    return build_segments(
        spark,
        schema,
        table_config,
        inputs,
        job.output_dir_uri,
        target=target,
        partition_and_sort=extra["partitionAndSort"].lower() == "true",
        rows_per_segment=int(extra["rowsPerSegment"]),
        sort_column=extra["sortColumn"] or None,
        bytes_per_task=int(extra["bytesPerTask"]) if extra["bytesPerTask"] else None,
        parallelism=job.parallelism,
        fail_on_empty=job.fail_on_empty_segment,
        progress=progress,
    )


def _extra(configs: Mapping[str, str]) -> dict[str, str]:
    """Return Gamay's settings in `extraConfigs`, validated; those of other frameworks are skipped."""
    for key in configs:
        if key not in EXTRA_KEYS and nearest(key, EXTRA_KEYS):
            raise InvalidConfigError(
                f"unknown key '{key}' in executionFrameworkSpec.extraConfigs.{nearest(key, EXTRA_KEYS)}"
            )
    extra = {
        "rowsPerSegment": str(ROWS_PER_SEGMENT),
        "partitionAndSort": "false",
        "sortColumn": "",
        "bytesPerTask": "",
        "openLineage": "false",
        **configs,
    }
    for key in ("rowsPerSegment", "bytesPerTask"):
        if extra[key] and (not extra[key].isdecimal() or int(extra[key]) < 1):
            raise InvalidConfigError(f"{key} must be a positive number, not '{extra[key]}'")
    for key in ("partitionAndSort", "openLineage"):
        if extra[key].lower() not in ("true", "false"):
            raise InvalidConfigError(f"{key} must be true or false, not '{extra[key]}'")
    return extra


def _manifest(job: JobSpec, table_config: TableConfig) -> Manifest:
    assert job.output_dir_uri is not None
    access = Access(options=_storage(job).options_of(scheme_of(job.output_dir_uri)))
    return Manifest(job.output_dir_uri, table_config.typed_name, access)


def _storage(job: JobSpec) -> StorageSettings:
    """Return the settings of file systems in `pinotFSSpecs`. Raises InvalidConfigError for an unknown key."""
    prefix = "pinot.minion.storage.factory"
    given = {f"{prefix}.{fs.scheme}.{name}": value for fs in job.file_systems for name, value in fs.configs.items()}
    settings, used = storage_settings("minion", given)
    for key in given:
        if key not in used:
            scheme, _, name = key.removeprefix(f"{prefix}.").partition(".")
            raise InvalidConfigError(f"pinotFSSpecs: the file system {scheme} has no key '{name}'")
    return settings


def _archives_to_push(job: JobSpec, built: BuildReport | None, manifest: Manifest) -> list[str]:
    """Return the archives that this job built, or else the last job in its folder; without a manifest, all in the folder."""
    assert job.output_dir_uri is not None
    pattern = job.push.push_file_name_pattern
    told = manifest.archives() if built is None else [segment.uri for segment in built.segments]
    if told is None:
        archives = list_archives(job.output_dir_uri, pattern)
    else:
        matches = path_matcher(pattern) if pattern else None
        archives = [uri for uri in told if matches is None or matches(uri)]
    if not archives and built is None:
        raise NotFoundError(f"there is no segment archive to push in {job.output_dir_uri}")
    return archives


def _push(job: JobSpec, table_config: TableConfig, archives: list[str], spark: Any, progress: JobProgress) -> PushReport:
    destination = Destination(
        tuple(cluster.controller_uri for cluster in job.clusters),
        table_config.raw_name,
        table_config.table_type.value,
        job.auth_token,
        job.tls,
        _is_consistent(table_config),
        _storage(job),
    )
    mode = job.push_mode or "tar"
    return push_segments(archives, destination, spark=spark, mode=mode, options=job.push, progress=progress)


def _is_consistent(table_config: TableConfig) -> bool:
    batch = table_config.ingestion.batch
    return batch is not None and batch.consistent_data_push and table_config.replaces_all


def _remove(archives: list[str], access: Access) -> None:
    for archive in archives:
        remove(archive, access)
        remove(ARCHIVE.sub(rf"\g<name>{METADATA_SUFFIX}", archive), access)


# -- schema and table config


def _documents(job: JobSpec) -> tuple[TableConfig, Schema]:
    """Return the table's config and schema from the URIs in the job, or else from the first controller."""
    table = job.table
    config_uri = table.table_config_uri or _at_controller(job, f"/tables/{table.table_name}")
    schema_uri = table.schema_uri or _at_controller(job, f"/tables/{table.table_name}/schema")
    if schema_uri is None and job.creates:
        raise InvalidConfigError("tableSpec.schemaURI is missing, and there is no pinotClusterSpecs to ask for the schema")
    if config_uri is None:
        table_config = TableConfig.offline(table.table_name)
    else:
        document = _half(_document(job, config_uri), table.table_name, config_uri)
        table_config = TableConfig.from_json(document).value
    if not job.creates or schema_uri is None:
        return table_config, Schema(name=table_config.raw_name, fields=())
    schema = Schema.from_json(_document(job, schema_uri)).value
    validate_schema(schema)
    validate_table_config(table_config, schema)
    return table_config, schema


def _half(document: Any, table: str, uri: str) -> Any:
    """Return a table config from a document, which may hold the configs of both types as a controller returns them.

    table: the name in the job; its suffix selects the type, and OFFLINE is preferred without one. Raises InvalidConfigError.
    """
    halves = {t: document[t.value] for t in TableType if isinstance(document, dict) and t.value in document}
    if not halves:
        return document
    named = table_type_of(table)
    if named is not None and named not in halves:
        raise InvalidConfigError(f"{uri} has no {named.value} table, which tableSpec.tableName '{table}' names")
    return halves[named or next(iter(halves))]


def _at_controller(job: JobSpec, path: str) -> str | None:
    return job.clusters[0].controller_uri.rstrip("/") + path if job.clusters else None


def _document(job: JobSpec, uri: str) -> Any:
    if not uri.startswith(("http://", "https://")):
        with open_bytes(uri) as file:
            return load_json(file.read(), uri)
    base, _, path = uri.partition("://")[2].partition("/")
    origin = f"{uri.partition('://')[0]}://{base}"
    with controller_client(origin, job.auth_token, job.tls) as client:
        return load_json(client.request("GET", f"/{path}").content, uri)


@contextmanager
def _engine(job: JobSpec, progress: JobProgress) -> Iterator[Any]:
    """Yield the running session, or else a local one that ends with the job, or threads for a job that does without Java."""
    running = active_session()
    if running is not None:
        yield running
        return
    if not job.creates and not is_submitted() and "SPARK_REMOTE" not in os.environ:
        yield LocalEngine()
        return
    progress.update("starting Spark", 0, 1)
    own = {k: v for k, v in job.execution.extra_configs.items() if k.startswith("spark.")}
    # a job's plans are fixed: adaptive execution only adds stages
    spark = local_session(configs={"spark.sql.adaptive.enabled": "false", **own})
    progress.update("starting Spark", 1, 1)
    try:
        yield spark
    finally:
        spark.stop()

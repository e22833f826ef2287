"""Batch ingestion job specs: YAML or JSON, and the older properties file. Unknown keys are rejected."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gamay.base.clock import SYSTEM_CLOCK, Clock
from gamay.base.errors import InvalidConfigError, NotFoundError, nearest
from gamay.base.properties import parse_properties
from gamay.ingest.job.template import render, template_variables
from gamay.model.parse import (
    EMPTY_MAP,
    FLAG,
    INTEGER,
    OBJECT,
    REQUIRED,
    TEXT,
    TEXT_MAP,
    choice,
    key,
    list_of,
    raise_problems,
    read_document,
    section,
    write_section,
)
from gamay.model.rules.without_effect import unused_keys
from gamay.storage.files import local_path

JOB_TYPES = (
    "SegmentCreation", "SegmentTarPush", "SegmentUriPush", "SegmentMetadataPush", "SegmentCreationAndTarPush",
    "SegmentCreationAndUriPush", "SegmentCreationAndMetadataPush",
)  # fmt: skip


def values_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the values for `${…}` in a job spec, from texts like `name=text`. Raises InvalidConfigError."""
    values = {}
    for given in texts:
        name, equals, text = given.partition("=")
        if not equals or not name:
            raise InvalidConfigError(f"value '{given}': expected name=text, as in inputDir=/data/trips")
        values[name] = text
    return values


_PYSPARK = "jobs run on PySpark"
_PEM = "certificates and keys are PEM files"
_TLS_KEYS = ("keyStoreType", "trustStoreType", "trustStorePassword")
_RUNNERS = ("segmentGeneration", "segmentTarPush", "segmentUriPush", "segmentMetadataPush")
NO_EFFECT: Mapping[str, str] = {
    **{f"executionFrameworkSpec.{runner}JobRunnerClassName": _PYSPARK for runner in _RUNNERS},
    "recordReaderSpec.configClassName": "a reader takes its configs as they are",
    **{f"tlsSpec.{name}": _PEM for name in _TLS_KEYS},
    "tlsSpec.connectTimeout": "readTimeout holds for connecting, too",
}
"""Keys of a job spec that are accepted and not acted on, and why."""


@dataclass(frozen=True)
class ExecutionFrameworkSpec:
    """The execution framework of the job. It is always PySpark; names are accepted so that existing specs work.

    extra_configs: `rowsPerSegment`, `partitionAndSort`, `sortColumn`, `bytesPerTask`, `spark.*` are supported, others
    belong to other frameworks (`stagingDir`, …).
    """

    name: str | None = key("name", TEXT)
    segment_generation_runner: str | None = key("segmentGenerationJobRunnerClassName", TEXT)
    segment_tar_push_runner: str | None = key("segmentTarPushJobRunnerClassName", TEXT)
    segment_uri_push_runner: str | None = key("segmentUriPushJobRunnerClassName", TEXT)
    segment_metadata_push_runner: str | None = key("segmentMetadataPushJobRunnerClassName", TEXT)
    extra_configs: Mapping[str, str] = key("extraConfigs", TEXT_MAP, EMPTY_MAP)


@dataclass(frozen=True)
class PinotFsSpec:
    """A file system, identified by its scheme; class names are accepted and ignored."""

    scheme: str = key("scheme", TEXT, REQUIRED)
    class_name: str | None = key("className", TEXT)
    configs: Mapping[str, str] = key("configs", TEXT_MAP, EMPTY_MAP)


@dataclass(frozen=True)
class RecordReaderSpec:
    """The format of the input files and the reader's config."""

    data_format: str | None = key("dataFormat", TEXT)
    class_name: str | None = key("className", TEXT)
    config_class_name: str | None = key("configClassName", TEXT)
    configs: Mapping[str, Any] = key("configs", OBJECT, EMPTY_MAP)


@dataclass(frozen=True)
class TableSpec:
    """The table, and the locations of its schema and config, by default the controller."""

    table_name: str = key("tableName", TEXT, REQUIRED)
    schema_uri: str | None = key("schemaURI", TEXT)
    table_config_uri: str | None = key("tableConfigURI", TEXT)


@dataclass(frozen=True)
class SegmentNameGeneratorSpec:
    """The naming of segments; see `gamay.ingest.job.segment_names`."""

    type: str | None = key("type", TEXT)
    configs: Mapping[str, str] = key("configs", TEXT_MAP, EMPTY_MAP)


@dataclass(frozen=True)
class PinotClusterSpec:
    """A cluster to push to."""

    controller_uri: str = key("controllerURI", TEXT, REQUIRED)


@dataclass(frozen=True)
class PushJobSpec:
    """The pushing of segments. push_retry_interval_ms is multiplied by five after every attempt."""

    push_attempts: int = key("pushAttempts", INTEGER, 1)
    push_parallelism: int = key("pushParallelism", INTEGER, 1)
    push_retry_interval_ms: int = key("pushRetryIntervalMillis", INTEGER, 1000)
    segment_uri_prefix: str | None = key("segmentUriPrefix", TEXT)
    segment_uri_suffix: str | None = key("segmentUriSuffix", TEXT)
    push_file_name_pattern: str | None = key("pushFileNamePattern", TEXT)
    copy_to_deep_store: bool = key("copyToDeepStoreForMetadataPush", FLAG, False)
    batch_segment_upload: bool = key("batchSegmentUpload", FLAG, False)
    metadata_generation_parallelism: int = key("segmentMetadataGenerationParallelism", INTEGER, 1)
    prefer_metadata_tar_gz: bool = key("preferMetadataTarGz", FLAG, True)


@dataclass(frozen=True)
class TlsSpec:
    """Certificates for HTTPS controllers, as PEM files. Timeouts in milliseconds."""

    key_store_type: str | None = key("keyStoreType", TEXT)
    key_store_path: str | None = key("keyStorePath", TEXT)
    key_store_password: str | None = key("keyStorePassword", TEXT)
    trust_store_type: str | None = key("trustStoreType", TEXT)
    trust_store_path: str | None = key("trustStorePath", TEXT)
    trust_store_password: str | None = key("trustStorePassword", TEXT)
    connect_timeout_ms: int = key("connectTimeout", INTEGER, 5000)
    read_timeout_ms: int = key("readTimeout", INTEGER, 5000)


@dataclass(frozen=True)
class JobSpec:
    """A batch ingestion job."""

    job_type: str = key("jobType", choice(*JOB_TYPES), REQUIRED)
    table: TableSpec = key("tableSpec", section(TableSpec), REQUIRED)
    execution: ExecutionFrameworkSpec = key(
        "executionFrameworkSpec", section(ExecutionFrameworkSpec), ExecutionFrameworkSpec()
    )
    input_dir_uri: str | None = key("inputDirURI", TEXT)
    search_recursively: bool = key("searchRecursively", FLAG, True)
    include_file_name_pattern: str | None = key("includeFileNamePattern", TEXT)
    exclude_file_name_pattern: str | None = key("excludeFileNamePattern", TEXT)
    output_dir_uri: str | None = key("outputDirURI", TEXT)
    overwrite_output: bool = key("overwriteOutput", FLAG, False)
    clean_up_output_dir: bool = key("cleanUpOutputDir", FLAG, False)
    parallelism: int = key("segmentCreationJobParallelism", INTEGER, 0)
    fail_on_empty_segment: bool = key("failOnEmptySegment", FLAG, False)
    create_metadata_tar_gz: bool = key("createMetadataTarGz", FLAG, False)
    auth_token: str | None = key("authToken", TEXT)
    file_systems: tuple[PinotFsSpec, ...] = key("pinotFSSpecs", list_of(section(PinotFsSpec)), ())
    record_reader: RecordReaderSpec = key("recordReaderSpec", section(RecordReaderSpec), RecordReaderSpec())
    segment_names: SegmentNameGeneratorSpec = key(
        "segmentNameGeneratorSpec", section(SegmentNameGeneratorSpec), SegmentNameGeneratorSpec()
    )
    clusters: tuple[PinotClusterSpec, ...] = key("pinotClusterSpecs", list_of(section(PinotClusterSpec)), ())
    push: PushJobSpec = key("pushJobSpec", section(PushJobSpec), PushJobSpec())
    tls: TlsSpec | None = key("tlsSpec", section(TlsSpec))

    @classmethod
    def from_document(cls, document: Any) -> "JobSpec":
        """Read a job spec (a dict); raises InvalidConfigError with all problems, including unknown keys."""
        parsed = read_document(cls, document, "the job spec")
        problems = [_unknown(at, parsed.suggestions.get(at)) for at in parsed.unrecognized]
        raise_problems("the job spec", problems + _missing(parsed.value))
        return parsed.value

    @classmethod
    def load(cls, path: str | Path, **options: Any) -> "JobSpec":
        """Read a job file; options as for `load_job_spec`."""
        return load_job_spec(path, **options)

    def to_document(self) -> dict[str, Any]:
        """Return the job spec as a dict that `from_document` reads."""
        return write_section(self)

    @property
    def warnings(self) -> list[str]:
        """A sentence for each key that the spec sets and that has no effect."""
        return list(unused_keys(self, NO_EFFECT))

    @property
    def creates(self) -> bool:
        """Whether the job builds segments."""
        return self.job_type.startswith("SegmentCreation")

    @property
    def push_mode(self) -> str | None:
        """The push mode of the job: `tar`, `uri`, `metadata`, or None if it does not push."""
        for mode in ("tar", "uri", "metadata"):
            if self.job_type.lower().endswith(f"{mode}push"):
                return mode
        return None


def _unknown(pointer: str, suggestion: str | None) -> str:
    return f"{pointer}: unknown key." + (f" Did you mean '{suggestion}'?" if suggestion else "")


def _missing(spec: JobSpec) -> list[str]:
    problems = []
    if spec.creates and not spec.input_dir_uri:
        problems.append(f"/inputDirURI: missing; {spec.job_type} reads input files from it")
    if not spec.output_dir_uri:
        problems.append("/outputDirURI: missing; it is where the segments' archives are")
    if spec.push_mode and not spec.clusters:
        problems.append(f"/pinotClusterSpecs: missing; {spec.job_type} pushes to its controllerURI")
    if spec.push_mode == "uri" and spec.output_dir_uri and local_path(spec.push.segment_uri_prefix or spec.output_dir_uri):
        problems.append(
            f"/outputDirURI: {spec.output_dir_uri} is a folder of this machine, from which no controller fetches; use a URI "
            f"like s3://… that it can read, a pushJobSpec.segmentUriPrefix that leads there, or a job type with TarPush"
        )
    for name, value in (("pushAttempts", spec.push.push_attempts), ("pushParallelism", spec.push.push_parallelism)):
        if value < 1:
            problems.append(f"/pushJobSpec/{name}: {value} is not at least 1")
    return problems


def load_job_spec(
    path: str | Path,
    *,
    values: Mapping[str, str] | None = None,
    property_file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    job_type: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> JobSpec:
    """Read a job file: YAML or JSON with `${name}` templates, or a `.properties` file of the older kind.

    values: for `${name}`, overriding the environment (None: the process's), which overrides `property_file`.
    job_type: the type of a `.properties` job, which does not contain it. Raises InvalidConfigError or NotFoundError.
    """
    text = _read(path)
    if str(path).endswith(".properties"):
        return job_spec_from_properties(parse_properties(text), job_type)
    properties = parse_properties(_read(property_file)) if property_file is not None else {}
    environment = os.environ if environment is None else environment
    return parse_job_spec(text, template_variables(values or {}, properties, environment, clock))


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except FileNotFoundError:
        raise NotFoundError(f"the file {path} does not exist") from None


def parse_job_spec(text: str, variables: Mapping[str, str]) -> JobSpec:
    """Read the text of a YAML or JSON job spec after filling in its `${name}`."""
    try:
        document = yaml.safe_load(render(text, variables))
    except yaml.YAMLError as error:
        raise InvalidConfigError(f"the job spec is not valid YAML: {error}") from error
    return JobSpec.from_document(document)


_PROPERTIES = (
    "path.to.input", "path.to.output", "path.to.schema", "path.to.table.config", "segment.table.name", "push.to.hosts",
    "push.to.port", "path.to.deps.jar", "segment.name.prefix", "segment.name.postfix", "data.format",
)  # fmt: skip


def job_spec_from_properties(properties: Mapping[str, str], job_type: str | None = None) -> JobSpec:
    """Return the job of an older properties file (`path.to.input`, …, `push.to.hosts`).

    The format of files is that of their extension, Avro if it is unknown. Without `job_type` segments are created,
    and pushed if hosts are given. Raises InvalidConfigError for unknown and missing keys.
    """
    for name in properties:
        if name not in _PROPERTIES:
            raise InvalidConfigError(f"unknown key '{name}' in the job properties.{nearest(name, _PROPERTIES)}")
    hosts = [host.strip() for host in properties.get("push.to.hosts", "").split(",") if host.strip()]
    job_type = job_type or ("SegmentCreationAndTarPush" if hosts else "SegmentCreation")
    needed = {"path.to.input": "Creation" in job_type, "push.to.hosts": "Push" in job_type}
    for name in ("path.to.output", "segment.table.name", *(name for name, is_needed in needed.items() if is_needed)):
        if not properties.get(name):
            raise InvalidConfigError(f"the job properties lack '{name}', which {job_type} needs")
    port = properties.get("push.to.port", "9000")
    names = {k: properties[k] for k in ("segment.name.prefix", "segment.name.postfix") if properties.get(k)}
    return JobSpec.from_document(
        {
            "jobType": job_type,
            "inputDirURI": properties.get("path.to.input"),
            "outputDirURI": properties["path.to.output"],
            "overwriteOutput": True,
            "recordReaderSpec": {"dataFormat": properties.get("data.format")},
            "tableSpec": {
                "tableName": properties["segment.table.name"],
                "schemaURI": properties.get("path.to.schema"),
                "tableConfigURI": properties.get("path.to.table.config"),
            },
            "segmentNameGeneratorSpec": {"configs": names},
            "pinotClusterSpecs": [{"controllerURI": f"http://{host}:{port}"} for host in hosts],
        }
    )

"""Ingestion of one file as one segment on the controller, meant for experiments."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from gamay.base.errors import InvalidConfigError, RecordError
from gamay.controller.segments.verify import VerifiedSegment, check_times
from gamay.controller.segments.writer import TableWriter
from gamay.ingest.job.segment_names import SegmentFacts, SegmentNameGenerator, segment_name_generator
from gamay.ingest.read.readers import open_reader
from gamay.ingest.run import conformed_batches
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.batch_settings import name_configs
from gamay.model.parse import load_json
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType, table_type_of
from gamay.segment.encode.metadata import rename_segment

_READER_PREFIX = "recordReader.prop."
_ONE_SEGMENT = 2**31 - 1
_PROVISIONAL_NAME = "segment"


def batch_config(text: str) -> dict[str, str]:
    """Return the settings in `batchConfigMapStr`. Raises InvalidConfigError."""
    document = load_json(text, "batchConfigMapStr")
    if not isinstance(document, dict):
        raise InvalidConfigError("batchConfigMapStr must be a JSON object")
    return {str(key): str(value) for key, value in document.items()}


def ingest_file(writer: TableWriter, table: str, path: Path, shown_name: str, config: Mapping[str, str]) -> str:
    """Build a segment from a file, add it to a typed OFFLINE table and return its name.

    shown_name: the name of the file in error messages.
    Raises InvalidConfigError, NotFoundError, RecordError, ConflictError, SegmentTimeError.
    """
    if table_type_of(table) is not TableType.OFFLINE:
        raise InvalidConfigError(f"tableNameWithType must end with _OFFLINE, '{table}' does not")
    data_format = config.get("inputFormat")
    if not data_format:
        raise InvalidConfigError(
            "batchConfigMapStr: the key 'inputFormat' is missing, for example csv, json, avro or parquet"
        )
    settings = {key.removeprefix(_READER_PREFIX): value for key, value in config.items() if key.startswith(_READER_PREFIX)}
    schema, table_config = writer.tables.schema_of(table), writer.tables.get(table)
    names = _names(writer, config, schema, table_config)

    def rows(pipeline: Pipeline) -> Iterator[pa.RecordBatch]:
        return conformed_batches(open_reader(str(path), data_format, settings), pipeline)

    try:
        with writer.built(schema, table_config, rows, lambda _: _PROVISIONAL_NAME, _ONE_SEGMENT) as built:
            named = [_named(segment, names, shown_name) for segment in built]
            if table_config.ingestion.segment_time_value_check and table_config.time_column:
                for segment in named:
                    check_times(segment.info)
            records = writer.segments.add_all(table, named)
    except RecordError as error:
        # the user knows the file by its original name, not by its temporary path
        raise RecordError(str(error).replace(str(path), shown_name)) from error
    if not records:
        raise InvalidConfigError(f"the file '{shown_name}' has no rows, so there is no segment to add")
    return records[0].name


def ingest_uri(writer: TableWriter, table: str, uri: str, config: Mapping[str, str], scratch: Path) -> str:
    """Fetch a file and ingest it as `ingest_file` does. Raises InvalidConfigError for a URI that clients may not use."""
    path = scratch / "fetched"
    writer.context.fetchers.fetch_named(uri, path)
    return ingest_file(writer, table, path, uri, config)


def _names(
    writer: TableWriter, config: Mapping[str, str], schema: Schema, table_config: TableConfig
) -> SegmentNameGenerator:
    """Return the segment name generator: as in jobs, but the default postfix is the time, which distinguishes files."""
    configs = {"segment.name.postfix": str(writer.context.clock.now_ms()), **name_configs(config)}
    kind = config.get("segmentNameGenerator.type")
    return segment_name_generator(kind, configs, schema, table_config, table_name=table_config.raw_name)


def _named(segment: VerifiedSegment, names: SegmentNameGenerator, source: str) -> VerifiedSegment:
    info = segment.info
    raw, millis = (info.start_time_raw, info.end_time_raw), (info.start_time_ms, info.end_time_ms)
    name = names.name(SegmentFacts.of(None, source, raw, millis))
    return VerifiedSegment(replace(info, name=name), rename_segment(segment.folder, name))

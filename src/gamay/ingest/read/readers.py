"""Registry of readers by the name of the format."""

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from gamay.base.errors import InvalidConfigError, nearest
from gamay.ingest.read.parts import ByteRange, even_parts, is_gzipped, lines_are_records, row_group_parts
from gamay.ingest.read.records import ErrorLog, FileReader, RecordReader

ReaderFactory: TypeAlias = Callable[[str, Mapping[str, Any], ErrorLog], RecordReader]


def _csv(uri: str, config: Mapping[str, Any], log: ErrorLog) -> RecordReader:
    from gamay.ingest.read.csv import CsvReader
    from gamay.ingest.read.csv_format import parse_csv_format

    csv_format = parse_csv_format(config)
    if csv_format.stop_on_error:
        log.continue_on_error = False
    return CsvReader(uri, csv_format, log)


def _json(uri: str, config: Mapping[str, Any], log: ErrorLog) -> RecordReader:
    from gamay.ingest.read.json import JsonReader

    _check_keys("json", config, ())
    return JsonReader(uri, log)


def _avro(uri: str, config: Mapping[str, Any], log: ErrorLog) -> RecordReader:
    from gamay.ingest.read.avro import AvroReader

    _check_keys("avro", config, ("extractRawTimeValues", "enableLogicalTypes"))
    raw_times = str(config.get("extractRawTimeValues", False)).lower() == "true"
    return AvroReader(uri, log, raw_times=raw_times)


def _parquet(uri: str, config: Mapping[str, Any], log: ErrorLog) -> RecordReader:
    from gamay.ingest.read.columnar import parquet_reader

    _check_keys("parquet", config, ("useParquetAvroRecordReader", "useParquetNativeRecordReader", "extractRawTimeValues"))
    return parquet_reader(uri, log)


def _orc(uri: str, config: Mapping[str, Any], log: ErrorLog) -> RecordReader:
    from gamay.ingest.read.columnar import orc_reader

    _check_keys("orc", config, ("extractRawTimeValues",))
    return orc_reader(uri, log)


def _arrow(uri: str, config: Mapping[str, Any], log: ErrorLog) -> RecordReader:
    from gamay.ingest.read.columnar import arrow_reader

    _check_keys("arrow", config, ())
    return arrow_reader(uri, log)


def _bson(uri: str, config: Mapping[str, Any], log: ErrorLog) -> RecordReader:
    from gamay.ingest.read.bson import BsonReader

    _check_keys("bson", config, ())
    return BsonReader(uri, log)


_FACTORIES: dict[str, ReaderFactory] = {
    "csv": _csv,
    "json": _json,
    "avro": _avro,
    "gzipped_avro": _avro,
    "parquet": _parquet,
    "orc": _orc,
    "arrow": _arrow,
    "bson": _bson,
}

_SUFFIXES = {
    ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".avro": "avro",
    ".parquet": "parquet", ".orc": "orc", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".bson": "bson",
}  # fmt: skip


def data_formats() -> tuple[str, ...]:
    """Return the names of the supported formats."""
    return tuple(_FACTORIES)


def register_reader(data_format: str, factory: ReaderFactory) -> None:
    """Add a format, or replace one: the factory takes a URI, the reader's config and the log of bad records."""
    _FACTORIES[data_format.lower()] = factory


def open_reader(
    path_or_uri: str,
    data_format: str,
    config: Mapping[str, Any] | None = None,
    *,
    continue_on_error: bool = False,
    part: ByteRange | None = None,
) -> RecordReader:
    """Return a reader of one file; nothing is read before it is iterated.

    data_format: as in `data_formats`, in any case. config: the keys of `recordReaderSpec.configs`; unknown ones are
    rejected.
    continue_on_error: skip bad records and list them in `errors`; otherwise the first one raises RecordError.
    part: a part of a file from `split`; None for all of it.
    Raises InvalidConfigError for an unknown format or key.
    """
    factory = _FACTORIES.get(data_format.lower())
    if factory is None:
        known = ", ".join(_FACTORIES)
        raise InvalidConfigError(
            f"unknown data format '{data_format}'; known are {known}.{nearest(data_format, _FACTORIES)}"
        )
    reader = factory(path_or_uri, config or {}, ErrorLog(continue_on_error))
    if part is not None:
        assert isinstance(reader, FileReader), "only files of built-in readers are split"
        reader.restrict(part)
    return reader


def split(uri: str, data_format: str, config: Mapping[str, Any], size: int, bytes_max: int) -> list[ByteRange]:
    """Return independently readable parts of a file, of about `bytes_max` at most; a single one if it cannot be split.

    For CSV with quotes, each part must pass `has_record_lines`, else the file must be read as a whole. size: its bytes.
    Raises NotFoundError, RecordError for a damaged file, and InvalidConfigError as `open_reader`.
    """
    factory = _FACTORIES.get(data_format.lower())
    whole = [ByteRange(0, size)]
    if size <= bytes_max or factory not in (_csv, _json, _avro, _parquet):
        return whole
    if factory is _parquet:
        from gamay.ingest.read.columnar import row_group_starts

        return row_group_parts(row_group_starts(uri), size, bytes_max) or whole
    if is_gzipped(uri):
        return whole
    if factory is _csv:
        from gamay.ingest.read.csv_format import parse_csv_format

        f = parse_csv_format(config)
        is_plain = f.comment is None and f.escape is None and f.record_separator in ("\n", "\r\n")
        return even_parts(size, bytes_max) if is_plain else whole
    if factory is _json:
        from gamay.ingest.read.json import is_one_object_a_line

        return even_parts(size, bytes_max) if is_one_object_a_line(uri) else whole
    return even_parts(size, bytes_max)


def has_record_lines(uri: str, data_format: str, config: Mapping[str, Any], part: ByteRange) -> bool:
    """Whether each line of a part is certainly a record; always True except for CSV files with quotes."""
    if _FACTORIES.get(data_format.lower()) is not _csv:
        return True
    from gamay.ingest.read.csv_format import parse_csv_format

    csv_format = parse_csv_format(config)
    return csv_format.quote is None or lines_are_records(uri, part, csv_format.delimiter, csv_format.quote)


def format_of(path_or_uri: str) -> str:
    """Return the format for a file name's suffix, ignoring `.gz`; raises InvalidConfigError for an unknown one.

    >>> format_of("/data/trips.json.gz")
    'json'
    """
    name = PurePosixPath(path_or_uri.rstrip("/")).name.lower().removesuffix(".gz")
    data_format = _SUFFIXES.get(PurePosixPath(name).suffix)
    if data_format is None:
        raise InvalidConfigError(
            f"the name {path_or_uri!r} does not tell the file's format; give the format, one of {', '.join(_FACTORIES)}"
        )
    return data_format


_READER_CLASSES = {
    "csvrecordreader": "csv", "jsonrecordreader": "json", "avrorecordreader": "avro", "parquetrecordreader": "parquet",
    "parquetavrorecordreader": "parquet", "parquetnativerecordreader": "parquet", "orcrecordreader": "orc",
    "arrowrecordreader": "arrow",
}  # fmt: skip


def format_of_class(class_name: str | None) -> str | None:
    """Return the format of one of Pinot's reader classes, None for None; raises InvalidConfigError for an unknown class."""
    if class_name is None:
        return None
    data_format = _READER_CLASSES.get(class_name.rpartition(".")[2].lower())
    if data_format is None:
        raise InvalidConfigError(f"the reader class '{class_name}' is not known; name the format instead")
    return data_format


def _check_keys(data_format: str, config: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in config:
        if key not in known:
            raise InvalidConfigError(f"unknown key '{key}' in the {data_format} reader config.{nearest(key, known)}")

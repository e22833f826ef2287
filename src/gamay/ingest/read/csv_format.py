"""The options of CSV files: the named formats, and the keys of the reader's config."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """Format of a delimited text file. None for a character means that there is none.

    An empty value is null, quoted or not; so is `null_text`.
    header: column names when the file's first line is not a header (or is to be skipped).
    ignore_extra_values: drop the extra values of a record with more values than the header; else it is a bad record.
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comment: str | None = None
    null_text: str | None = None
    record_separator: str = "\n"
    ignore_empty_lines: bool = True
    trim: bool = True
    multi_value_delimiter: str | None = ";"
    header: tuple[str, ...] | None = None
    skip_header: bool = False
    date_columns: tuple[str, ...] = ()
    date_format: str = "MM-dd-yyyy"
    stop_on_error: bool = False
    ignore_extra_values: bool = False


_NAMED = {
    "DEFAULT": CsvFormat(),
    "EXCEL": CsvFormat(),
    "RFC4180": CsvFormat(),
    "TDF": CsvFormat(delimiter="\t"),
    "MYSQL": CsvFormat(delimiter="\t", quote=None, escape="\\", null_text="\\N"),
    "INFORMIX_UNLOAD": CsvFormat(delimiter="|", escape="\\"),
    "INFORMIX_UNLOAD_CSV": CsvFormat(),
    "MONGODB_CSV": CsvFormat(),
    "MONGODB_TSV": CsvFormat(delimiter="\t"),
    "ORACLE": CsvFormat(escape="\\", null_text="\\N"),
    "POSTGRESQL_CSV": CsvFormat(),
    "POSTGRESQL_TEXT": CsvFormat(delimiter="\t", escape="\\", null_text="\\N"),
}
_NAMED_BY_FOLDED = {name.replace("_", ""): name for name in _NAMED}

KEYS = (
    "fileFormat", "header", "skipHeader", "delimiter", "multiValueDelimiter", "multiValueDelimiterEnabled", "commentMarker",
    "escapeCharacter", "nullStringValue", "ignoreEmptyLines", "ignoreSurroundingSpaces", "quoteCharacter", "quoteMode",
    "recordSeparator", "stopOnError", "dateFormat", "dateColumns", "ignoreExtraValues",
)  # fmt: skip


def parse_csv_format(config: Mapping[str, Any]) -> CsvFormat:
    """Return the format that a reader config describes.

    A named `fileFormat` has its own delimiter, quote and escape characters, which explicit keys override. Raises
    InvalidConfigError for unknown keys, formats and malformed values.
    """
    for key in config:
        if key not in KEYS:
            raise InvalidConfigError(f"unknown key '{key}' in the CSV reader config.{nearest(key, KEYS)}")
    csv_format = replace(
        _named_format(config.get("fileFormat")),
        skip_header=_flag(config, "skipHeader", False),
        ignore_empty_lines=_flag(config, "ignoreEmptyLines", True),
        trim=_flag(config, "ignoreSurroundingSpaces", True),
        stop_on_error=_flag(config, "stopOnError", False),
        ignore_extra_values=_flag(config, "ignoreExtraValues", False),
    )
    csv_format = replace(csv_format, **_characters(config))
    if csv_format.escape == csv_format.quote:  # "the quote escapes itself" is what doubling means
        csv_format = replace(csv_format, escape=None)
    return replace(csv_format, **_names(config, csv_format.delimiter))


def _named_format(name: Any) -> CsvFormat:
    if name is None:
        return CsvFormat()
    key = _NAMED_BY_FOLDED.get(str(name).upper().replace("_", ""))
    if key is None:
        known = ", ".join(_NAMED)
        raise InvalidConfigError(f"unknown CSV fileFormat '{name}'; known are {known}.{nearest(str(name), _NAMED)}")
    return _NAMED[key]


def _characters(config: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for key, attribute in (("delimiter", "delimiter"), ("quoteCharacter", "quote"), ("escapeCharacter", "escape"),
                           ("commentMarker", "comment")):  # fmt: skip
        if config.get(key) not in (None, ""):
            changes[attribute] = _character(key, config[key])
    if config.get("nullStringValue") is not None:
        changes["null_text"] = str(config["nullStringValue"])
    if config.get("recordSeparator"):
        changes["record_separator"] = _unescape(str(config["recordSeparator"]))
    if str(config.get("quoteMode", "")).upper() == "NONE":
        changes["quote"] = None
    if not _flag(config, "multiValueDelimiterEnabled", True):
        changes["multi_value_delimiter"] = None
    elif config.get("multiValueDelimiter") not in (None, ""):
        changes["multi_value_delimiter"] = _character("multiValueDelimiter", config["multiValueDelimiter"])
    return changes


def _names(config: Mapping[str, Any], delimiter: str) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    header = config.get("header")
    if header:
        names = header if isinstance(header, list) else str(header).split(delimiter)
        changes["header"] = tuple(str(name).strip() for name in names)
    columns = config.get("dateColumns")
    if columns:
        names = columns if isinstance(columns, list) else str(columns).split(",")
        changes["date_columns"] = tuple(str(name).strip() for name in names)
    if config.get("dateFormat"):
        changes["date_format"] = _as_months(str(config["dateFormat"]))
    return changes


def _as_months(pattern: str) -> str:
    """Replace `mm` (minutes) by months in a pattern without hours, such as the formerly documented default `mm-dd-yyyy`."""
    return pattern if "M" in pattern or "H" in pattern or "h" in pattern else pattern.replace("m", "M")


def _unescape(text: str) -> str:
    return {"\\t": "\t", "\\n": "\n", "\\r\\n": "\r\n", "\\r": "\r"}.get(text, text)


def _character(key: str, value: Any) -> str:
    text = _unescape(str(value))
    if re.fullmatch(r"\\u[0-9a-fA-F]{4}", text):
        text = chr(int(text[2:], 16))
    if len(text) != 1 or ord(text) > 127:
        raise InvalidConfigError(f"'{key}' of the CSV reader config must be one ASCII character, not {value!r}")
    return text


def _flag(config: Mapping[str, Any], key: str, default: bool) -> bool:
    value = config.get(key)
    if value is None or value == "":
        return default
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise InvalidConfigError(f"'{key}' of the CSV reader config must be true or false, not {value!r}")

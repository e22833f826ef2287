"""Answers to queries as files: Parquet, and Arrow's stream format in a file."""

import io
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.client.results import ResultSet


class FailedQueryError(GamayError):
    """A query whose answer is incomplete, which a file could not express."""

    http_status = 400


def _parquet(table: pa.Table) -> bytes:
    written = io.BytesIO()
    pq.write_table(table, written, compression="zstd")
    return written.getvalue()


def _arrow(table: pa.Table) -> bytes:
    written = io.BytesIO()
    with pa.ipc.new_file(written, table.schema) as writer:
        writer.write_table(table)
    return written.getvalue()


FORMATS: Mapping[str, tuple[str, Callable[[pa.Table], bytes]]] = MappingProxyType(
    {
        "parquet": ("application/vnd.apache.parquet", _parquet),
        "arrow": ("application/vnd.apache.arrow.file", _arrow),
    }
)
"""Content type and writer by file extension."""


def check_format(name: str) -> str:
    """Return the name of a format. Raises InvalidConfigError."""
    if name not in FORMATS:
        raise InvalidConfigError(f"format: '{name}' must be one of {', '.join(FORMATS)}")
    return name


def as_file(answer: Mapping[str, Any], name: str) -> bytes:
    """Return the rows of a broker's answer as a file. Repeated column names get a number, as files need unique names.

    Raises FailedQueryError for an answer without rows, or with exceptions.
    """
    if answer.get("exceptions") or "resultTable" not in answer:
        told = [str(exception.get("message")) for exception in answer.get("exceptions", [])]
        raise FailedQueryError("\n".join(told) or str(answer.get("error", "the answer to the query has no rows")))
    schema = answer["resultTable"]["dataSchema"]
    rows = ResultSet(_distinct(schema["columnNames"]), schema["columnDataTypes"], answer["resultTable"]["rows"])
    return FORMATS[name][1](rows.to_arrow())


def _distinct(names: list[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in names:
        number, free = 1, name
        while free in found:
            number += 1
            free = f"{name}_{number}"
        found[free] = None
    return list(found)

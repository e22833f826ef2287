"""Shared parts of the advisers on star-trees and indexes: sample segment, queries, and measurement of queries."""

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gamay.base.errors import InvalidConfigError

if TYPE_CHECKING:
    from gamay.query.stats import QueryStats

TableOrSegment = Annotated[str, typer.Argument(help="A table, or the folder or archive of one of its segments.")]
Queries = Annotated[Path, typer.Argument(help="A file of queries that end with semicolons, or the log of a broker.")]
Controller = Annotated[str, typer.Option(help="The controller that knows the table.")]

_ROUNDS = 5
_LIMIT_MS = 600_000
_SHOWN_MAX = 100


def queries_of(path: Path) -> list[str]:
    """Return the queries of a file or a log. Raises InvalidConfigError if there are none."""
    from gamay.query.startree.advice import statements

    if not path.is_file():
        raise InvalidConfigError(f"{path} does not exist; give a file of queries, or the log of a broker")
    asked = statements(path.read_text(encoding="utf-8"))
    if not asked:
        raise InvalidConfigError(f"{path} has no query; end each with a semicolon")
    return asked


@contextmanager
def segment_folder(table: str, controller: str) -> Iterator[Path]:
    """Yield a folder with the files of a segment: that of a path, or the largest segment of a table."""
    from gamay.client.controller import ControllerClient
    from gamay.storage.archive import unpack

    with tempfile.TemporaryDirectory(prefix="gamay-advise-") as made:
        path, folder = Path(table), Path(made) / "segment"
        if path.is_dir():
            shutil.copytree(path, folder)
        elif path.is_file():
            folder = unpack(path, folder)
        else:
            client = ControllerClient(controller)
            names = client.list_segments(table, queried_only=True)
            if not names:
                raise InvalidConfigError(f"the table '{table}' has no segments to measure; push some first")
            name = max(names, key=lambda name: int(client.segment_metadata(table, name).get("segment.total.docs", 0)))
            folder = unpack(client.download_segment(table, name, Path(made) / "archive.tar"), folder)
        yield folder


def measured(sql: str, segment: Any, schema: Any, options: Mapping[str, str]) -> "tuple[QueryStats, float]":
    """Run a query of a segment several times; return its statistics and the median of its times in milliseconds."""
    from gamay.base.clock import SYSTEM_CLOCK
    from gamay.query.bind.binder import bind
    from gamay.query.execute.executor import execute
    from gamay.query.limits.deadline import Deadline
    from gamay.query.pool import WorkPool
    from gamay.sql.parser import parse_query

    query = parse_query(sql)
    bound = bind(replace(query, options={**query.options, **options}), schema)
    times = []
    with WorkPool(os.cpu_count() or 1) as pool:
        for _ in range(_ROUNDS):
            begun_s = SYSTEM_CLOCK.monotonic_s()
            result = execute(bound, [segment], pool, Deadline.after_ms(_LIMIT_MS, SYSTEM_CLOCK))
            times.append((SYSTEM_CLOCK.monotonic_s() - begun_s) * 1000)
    return result.stats, statistics.median(times)


def folder_size(folder: Path) -> int:
    """Return the bytes of the files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def shown(sql: str) -> str:
    """Return a query on one line, truncated if long."""
    text = " ".join(sql.split())
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"

"""`gamay startree`: which star-trees would make the queries of a table faster, and by how much."""

import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gamay.base.errors import InvalidConfigError

app = typer.Typer(help="Find star-trees for the queries of a table.", no_args_is_help=True)

_ROUNDS = 5
_LIMIT_MS = 600_000
_SHOWN_MAX = 100


@app.command("advise")
def advise_trees(
    table: Annotated[str, typer.Argument(help="A table, or the folder or archive of one of its segments.")],
    queries: Annotated[Path, typer.Argument(help="A file of queries that end with semicolons, or the log of a broker.")],
    controller: Annotated[str, typer.Option(help="The controller that knows the table.")] = "http://localhost:9000",
) -> None:
    """Print star-trees for queries, with the size of the trees and the speed-up of each query on a segment of the table."""
    from gamay.query.startree.advice import Advice, advise, statements
    from gamay.segment.metadata import read_metadata

    if not queries.is_file():
        raise InvalidConfigError(f"{queries} does not exist; give a file of queries, or the log of a broker")
    asked = statements(queries.read_text(encoding="utf-8"))
    if not asked:
        raise InvalidConfigError(f"{queries} has no query; end each with a semicolon")
    with _segment(table, controller) as folder:
        info = read_metadata(folder)
        advice: Advice = advise(info, asked)
        typer.echo(f"by segment {info.name} of {info.num_docs:,} rows, {_size(folder):,} bytes:\n")
        if advice.trees:
            typer.echo(json.dumps({"starTreeIndexConfigs": advice.trees}, indent=2) + "\n")
            _print_measured(folder, advice)
        for sql, reason in advice.unhelped:
            typer.echo(f"no tree helps: {reason}: {_shown(sql)}")


@contextmanager
def _segment(table: str, controller: str) -> Iterator[Path]:
    """Yield a folder with the files of a segment: that of a path, or the largest segment of a table."""
    from gamay.client.controller import ControllerClient
    from gamay.storage.archive import unpack

    with tempfile.TemporaryDirectory(prefix="gamay-advise-") as made:
        path, folder = Path(table), Path(made) / "segment"
        if path.is_dir():
            folder.mkdir()
            for file in path.iterdir():
                if not file.name.startswith("startree."):
                    shutil.copyfile(file, folder / file.name)
        elif path.is_file():
            folder = unpack(path, folder)
        else:
            client = ControllerClient(controller)
            names = client.list_segments(table, queried_only=True)
            if not names:
                raise InvalidConfigError(f"the table '{table}' has no segments to look at; push some first")
            name = max(names, key=lambda name: int(client.segment_metadata(table, name).get("segment.total.docs", 0)))
            folder = unpack(client.download_segment(table, name, Path(made) / "archive.tar"), folder)
        yield folder


def _print_measured(folder: Path, advice: Any) -> None:
    """Build the advised trees for a segment, run each query with and without them, and print how long that took."""
    from gamay.base.clock import SYSTEM_CLOCK
    from gamay.cli.output import print_answer
    from gamay.model.table_config import TableConfig
    from gamay.query.startree.advice import schema_of
    from gamay.query.startree.build import add_star_trees
    from gamay.segment.metadata import read_metadata
    from gamay.segment.reader import open_segment
    from gamay.segment.star_tree_file import read_star_trees, remove_star_trees

    info = read_metadata(folder)
    schema = schema_of(info)
    config = TableConfig.from_json(
        {**TableConfig.offline("t").to_json(), "tableIndexConfig": {"starTreeIndexConfigs": advice.trees}}
    ).value
    remove_star_trees(folder)
    add_star_trees(folder, schema, config, SYSTEM_CLOCK)
    trees = read_star_trees(folder, info.crc)
    rows = [(", ".join(d.text for d in tree.dimensions), tree.num_records, tree.size_bytes, tree.build_ms) for tree in trees]
    print_answer(("star-tree of", "records", "bytes", "built in ms"), ("STRING", "LONG", "LONG", "LONG"), rows)
    typer.echo("")
    segment = open_segment(folder)
    try:
        measured = [(_shown(shape.sql), *_measured(shape.sql, segment, schema)) for shape in advice.shapes]
    finally:
        segment.close()
    names = ("query", "records", "rows", "ms", "ms without", "×")
    print_answer(names, ("STRING", "LONG", "LONG", "DOUBLE", "DOUBLE", "DOUBLE"), measured)


def _measured(sql: str, segment: Any, schema: Any) -> Sequence[Any]:
    """Return what a query reads with trees and without, its times in milliseconds, and their ratio."""
    from gamay.base.clock import SYSTEM_CLOCK
    from gamay.query.bind import bind
    from gamay.query.deadline import Deadline
    from gamay.query.execute import execute
    from gamay.query.pool import WorkPool
    from gamay.sql.parser import parse_query

    found: list[tuple[int, float]] = []
    with WorkPool(os.cpu_count() or 1) as pool:
        for uses_trees in ("true", "false"):
            query = parse_query(sql)
            bound = bind(replace(query, options={**query.options, "useStarTree": uses_trees}), schema)
            times, read = [], 0
            for _ in range(_ROUNDS):
                begun_s = SYSTEM_CLOCK.monotonic_s()
                read = execute(bound, [segment], pool, Deadline.after_ms(_LIMIT_MS, SYSTEM_CLOCK)).stats.num_docs_scanned
                times.append((SYSTEM_CLOCK.monotonic_s() - begun_s) * 1000)
            found.append((read, statistics.median(times)))
    (records, with_ms), (docs, without_ms) = found
    return records, docs, round(with_ms, 2), round(without_ms, 2), round(without_ms / with_ms, 1)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _shown(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"

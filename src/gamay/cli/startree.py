"""`gamay startree`: advice on star-trees that speed up the queries of a table, with measurements."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from gamay.cli.advising import Controller, Queries, TableOrSegment, folder_size, measured, queries_of, segment_folder, shown

app = typer.Typer(help="Find star-trees for the queries of a table.", no_args_is_help=True)


@app.command("advise")
def advise_trees(
    table: TableOrSegment,
    queries: Queries,
    controller: Controller = "http://localhost:9000",
) -> None:
    """Print star-trees for queries, with the size of the trees and the speed-up of each query on a segment of the table."""
    from gamay.query.startree.advice import Advice, advise, schema_of, sizes_of
    from gamay.segment.encode.metadata import read_metadata

    asked = queries_of(queries)
    with segment_folder(table, controller) as folder:
        info = read_metadata(folder)
        advice: Advice = advise(schema_of(info), sizes_of(info), asked)
        typer.echo(f"by segment {info.name} of {info.num_docs:,} rows, {folder_size(folder):,} bytes:\n")
        if advice.trees:
            typer.echo(json.dumps({"starTreeIndexConfigs": advice.trees}, indent=2) + "\n")
            _print_measured(folder, advice)
        for sql, reason in advice.unhelped:
            typer.echo(f"no tree helps: {reason}: {shown(sql)}")


def _print_measured(folder: Path, advice: Any) -> None:
    """Build the advised trees for a segment, run each query with and without them, and print the times."""
    from gamay.base.clock import SYSTEM_CLOCK
    from gamay.model.table.table_config import TableConfig
    from gamay.query.startree.advice import schema_of
    from gamay.query.startree.build import add_star_trees
    from gamay.segment.encode.metadata import read_metadata
    from gamay.segment.read.reader import open_segment
    from gamay.segment.star_tree_file import read_star_trees, remove_star_trees
    from gamay.shell.formats.table import print_table

    info = read_metadata(folder)
    schema = schema_of(info)
    config = TableConfig.from_json(
        {**TableConfig.offline("t").to_json(), "tableIndexConfig": {"starTreeIndexConfigs": advice.trees}}
    ).value
    remove_star_trees(folder)
    add_star_trees(folder, schema, config, SYSTEM_CLOCK)
    trees = read_star_trees(folder, info.crc)
    rows = [(", ".join(d.text for d in tree.dimensions), tree.num_records, tree.size_bytes, tree.build_ms) for tree in trees]
    print_table(("star-tree of", "records", "bytes", "built in ms"), ("STRING", "LONG", "LONG", "LONG"), rows)
    typer.echo("")
    segment = open_segment(folder)
    try:
        rows_measured = [(shown(shape.sql), *_compared(shape.sql, segment, schema)) for shape in advice.shapes]
    finally:
        segment.close()
    names = ("query", "records", "rows", "ms", "ms without", "×")
    print_table(names, ("STRING", "LONG", "LONG", "DOUBLE", "DOUBLE", "DOUBLE"), rows_measured)


def _compared(sql: str, segment: Any, schema: Any) -> Sequence[Any]:
    """Return the docs that a query scans with trees and without, its times in milliseconds, and their ratio."""
    read, ms = measured(sql, segment, schema, {"useStarTree": "true"})
    without, without_ms = measured(sql, segment, schema, {"useStarTree": "false"})
    docs = (read.num_docs_scanned, without.num_docs_scanned)
    return *docs, round(ms, 2), round(without_ms, 2), round(without_ms / ms, 1)

"""`gamay index`: which indexes would make the queries of a table faster, and by how much."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from gamay.cli.advising import Controller, Queries, TableOrSegment, folder_size, measured, queries_of, segment_folder, shown

app = typer.Typer(help="Find indexes for the queries of a table.", no_args_is_help=True)

# An index is worth its room where it saves half of the values that filters read, or a third of a time that can be measured.
_ENTRIES_SAVED = 2
_TIME_SAVED = 1.5
_MEASURABLE_MS = 1.0


@app.command("advise")
def advise_indexes(
    table: TableOrSegment,
    queries: Queries,
    controller: Controller = "http://localhost:9000",
) -> None:
    """Print indexes for queries, with the size of each and what it saves each query on a segment of the table."""
    from gamay.query.advice.indexes import candidates, facts_of
    from gamay.query.startree.advice import schema_of
    from gamay.segment.encode.metadata import read_metadata

    asked = queries_of(queries)
    with segment_folder(table, controller) as folder:
        info = read_metadata(folder)
        found = candidates(asked, schema_of(info), facts_of(info))
        typer.echo(f"by segment {info.name} of {info.num_docs:,} rows, {folder_size(folder):,} bytes:\n")
        helped = _print_measured(folder, found) if found.every else set()
        for sql in found.by_query:
            if sql not in helped:
                reason = "none saves enough" if found.by_query[sql] else "no condition that an index could answer"
                typer.echo(f"no index helps: {reason}: {shown(sql)}")
        for sql, reason in found.refused.items():
            typer.echo(f"not a query of this table: {reason}: {shown(sql)}")


def _print_measured(folder: Path, found: Any) -> set[str]:
    """Build all candidates for a segment, and print what each saves; return the queries that one of them helps."""
    from gamay.base.clock import SYSTEM_CLOCK
    from gamay.query.layout.rebuild import TableLayout, rebuild
    from gamay.query.startree.advice import schema_of
    from gamay.segment.read.reader import open_segment
    from gamay.shell.formats.table import print_table

    with tempfile.TemporaryDirectory(prefix="gamay-advise-") as made:
        segment = open_segment(folder)
        schema = schema_of(segment.info)
        present = {(name, kind) for name, kind in _present(segment)}
        new = [one for one in found.every if (one.column, one.kind) not in present]
        config = _config(segment.info, [(one.column, one.kind) for one in new])
        built = open_segment(rebuild(segment, TableLayout(schema, config), Path(made), SYSTEM_CLOCK), own_indexes=True)
        segment.close()
        rows: list[tuple[Any, ...]] = []
        worth: dict[Any, set[str]] = {}
        for sql, wanted in found.by_query.items():
            for one in (one for one in new if one in wanted):
                saved = _compared(sql, built, schema, one, new)
                rows.append((one.kind, one.column, *saved, shown(sql)))
                entries, entries_without, _, without_ms, ratio = saved
                is_faster = without_ms >= _MEASURABLE_MS and ratio >= _TIME_SAVED
                if entries * _ENTRIES_SAVED < entries_without or is_faster:
                    worth.setdefault(one, set()).add(sql)
        if worth:
            typer.echo(json.dumps({"fieldConfigList": _field_configs([(one.column, one.kind) for one in worth])}, indent=2))
            typer.echo("")
        sizes = [(one.kind, one.column, _size(built, one), "yes" if one in worth else "no") for one in new]
        print_table(("index", "column", "bytes", "worth it"), ("STRING", "STRING", "LONG", "STRING"), sizes)
        typer.echo("")
        names = ("index", "column", "entries", "entries without", "ms", "ms without", "×", "query")
        types = ("STRING", "STRING", "LONG", "LONG", "DOUBLE", "DOUBLE", "DOUBLE", "STRING")
        print_table(names, types, rows)
        built.close()
    return {sql for helped in worth.values() for sql in helped}


def _compared(sql: str, segment: Any, schema: Any, one: Any, new: Sequence[Any]) -> tuple[Any, ...]:
    """Return what a query scans with one of the new indexes and with none, its times, and their ratio."""
    alone = _skipping([other for other in new if other != one])
    stats, ms = measured(sql, segment, schema, alone)
    without, without_ms = measured(sql, segment, schema, _skipping(new))
    entries = (stats.num_entries_scanned_in_filter, without.num_entries_scanned_in_filter)
    return *entries, round(ms, 2), round(without_ms, 2), round(without_ms / ms, 1)


def _skipping(indexes: Sequence[Any]) -> dict[str, str]:
    by_column: dict[str, list[str]] = {}
    for one in indexes:
        by_column.setdefault(one.column, []).append(one.kind)
    return {"skipIndexes": "&".join(f"{column}={','.join(kinds)}" for column, kinds in by_column.items())}


def _present(segment: Any) -> list[tuple[str, str]]:
    """Return the indexes that a segment has, as (column, kind)."""
    own = [(name, kind) for name, column in segment.info.columns.items() for kind in column.index_sizes()]
    return own + [(name, stored.kind) for stored in segment.indexes for name in stored.declaration.columns]


def _config(info: Any, new: Sequence[tuple[str, str]]) -> Any:
    """Return a table config by which a segment is stored as it is, and with further indexes."""
    from gamay.model.table.table_config import TableConfig

    kept = [
        (name, kind)
        for name, column in info.columns.items()
        for kind in column.index_sizes()
        if kind in ("inverted", "range", "bloom")
    ]
    raw = [name for name, column in info.columns.items() if column.id_bits is None]
    document = {
        **TableConfig.offline("t").to_json(),
        "tableIndexConfig": {"noDictionaryColumns": raw},
        "fieldConfigList": _field_configs([*kept, *new]),
    }
    return TableConfig.from_json(document).value


def _field_configs(indexes: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    by_column: dict[str, dict[str, Any]] = {}
    for column, kind in indexes:
        by_column.setdefault(column, {})[kind] = {}
    return [{"name": column, "indexes": kinds} for column, kinds in by_column.items()]


def _size(segment: Any, one: Any) -> int:
    """Return the bytes of a column's index."""
    sizes: dict[str, int] = segment.info.columns[one.column].index_sizes()
    for stored in segment.indexes:
        if stored.declaration.columns == (one.column,):
            sizes[stored.kind] = stored.size_bytes
    return sizes.get(one.kind, 0)

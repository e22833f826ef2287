"""`gamay index`: advice on indexes that speed up the queries of a table, with measurements."""

import json
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import typer

from gamay.cli.advising import Controller, Queries, TableOrSegment, folder_size, measured, queries_of, segment_folder, shown

app = typer.Typer(help="Find indexes for the queries of a table.", no_args_is_help=True)

# An index is worth its space if it saves half of the values that filters read, or a third of a measurable time.
_ENTRIES_SAVED = 2
_TIME_SAVED = 1.5
_MEASURABLE_MS = 1.0
# Indexes that a segment keeps while others are tried.
_KEPT = ("inverted", "range", "bloom")


@app.command("advise")
def advise_indexes(
    table: TableOrSegment,
    queries: Queries,
    controller: Controller = "http://localhost:9000",
) -> None:
    """Print useful indexes for queries, each with its size and its savings per query on a segment of the table."""
    from gamay.query.advice.indexes import candidates, facts_of
    from gamay.query.startree.advice import schema_of
    from gamay.segment.read.reader import open_segment

    asked = queries_of(queries)
    with segment_folder(table, controller) as folder, closing(open_segment(folder)) as segment:
        info = segment.info
        found = candidates(asked, schema_of(info), facts_of(info), partial(_share, segment))
        typer.echo(f"by segment {info.name} of {info.num_docs:,} rows, {folder_size(folder):,} bytes:\n")
        helped = _print_measured(segment, found) if found.every else set()
        for sql in found.by_query:
            if sql not in helped:
                reason = "none saves enough" if found.by_query[sql] else "no condition that an index could answer"
                typer.echo(f"no index helps: {reason}: {shown(sql)}")
        for sql, reason in found.refused.items():
            typer.echo(f"not a query of this table: {reason}: {shown(sql)}")


def _share(segment: Any, conditions: Sequence[Any]) -> float:
    """Return which share of a segment's rows passes all of some conditions."""
    from gamay.query.bind.predicate import conjunction
    from gamay.query.filter.apply import apply_filter
    from gamay.query.view.virtual import QuerySegment

    matches = apply_filter(conjunction(conditions), QuerySegment(segment, {}, "")).matches()
    return len(matches.docs()) / max(1, int(segment.num_docs))


def _print_measured(segment: Any, found: Any) -> set[str]:
    """Build all candidates for a segment, and print the savings of each; return the queries that benefit."""
    from gamay.base.clock import SYSTEM_CLOCK
    from gamay.model.index.kinds import COMPOUND_INVERTED
    from gamay.query.layout.rebuild import TableLayout, rebuild
    from gamay.query.startree.advice import schema_of
    from gamay.segment.read.reader import open_segment
    from gamay.shell.formats.table import print_table

    with tempfile.TemporaryDirectory(prefix="gamay-advise-") as made:
        schema = schema_of(segment.info)
        present = _present(segment)
        new = [one for one in found.every if one not in present]
        config = _config(segment.info, present, new)
        built = open_segment(rebuild(segment, TableLayout(schema, config), Path(made), SYSTEM_CLOCK), own_indexes=True)
        rows: list[tuple[Any, ...]] = []
        worth: dict[Any, None] = {}
        helped: set[str] = set()
        for sql, wanted in found.by_query.items():
            helpful, tried = [], [one for one in new if one in wanted]
            for one in tried:
                saved = _compared(sql, built, schema, one, new)
                rows.append((one.kind, ", ".join(one.columns), *saved, shown(sql)))
                entries, entries_without, _, without_ms, ratio = saved
                is_faster = without_ms >= _MEASURABLE_MS and ratio >= _TIME_SAVED
                if entries * _ENTRIES_SAVED < entries_without or is_faster:
                    helpful.append(one)
            if helpful:
                helped.add(sql)
                compounds = [one for one in tried if one.kind == COMPOUND_INVERTED]
                needless = found.covered[sql] if compounds and set(compounds) <= set(helpful) else ()
                worth |= dict.fromkeys(one for one in helpful if one not in needless)
        if worth:
            typer.echo(json.dumps(_settings(list(worth)), indent=2))
            typer.echo("")
        sizes = [(one.kind, ", ".join(one.columns), _size(built, one), "yes" if one in worth else "no") for one in new]
        print_table(("index", "columns", "bytes", "worth it"), ("STRING", "STRING", "LONG", "STRING"), sizes)
        typer.echo("")
        names = ("index", "columns", "entries", "entries without", "ms", "ms without", "×", "query")
        types = ("STRING", "STRING", "LONG", "LONG", "DOUBLE", "DOUBLE", "DOUBLE", "STRING")
        print_table(names, types, rows)
        built.close()
    return helped


def _compared(sql: str, segment: Any, schema: Any, one: Any, new: Sequence[Any]) -> tuple[Any, ...]:
    """Return the entries that a query scans with one of the new indexes and with none, its times, and their ratio."""
    stats, ms = measured(sql, segment, schema, _skipping([other for other in new if other != one], one))
    without, without_ms = measured(sql, segment, schema, _skipping(new))
    entries = (stats.num_entries_scanned_in_filter, without.num_entries_scanned_in_filter)
    return *entries, round(ms, 2), round(without_ms, 2), round(without_ms / ms, 1)


def _skipping(indexes: Sequence[Any], but: Any = None) -> dict[str, str]:
    """Return the option by which a query uses none of some indexes but one.

    An index of several columns is told apart from that one by a column of its own; without such a column it is not left out,
    and the query prefers the one that has more columns.
    """
    by_column: dict[str, list[str]] = {}
    for one in indexes:
        kept = but.columns if but is not None and one.kind == but.kind else ()
        column = next((column for column in one.columns if column not in kept), None)
        if column is not None:
            by_column.setdefault(column, []).append(one.kind)
    return {"skipIndexes": "&".join(f"{column}={','.join(kinds)}" for column, kinds in by_column.items())}


def _present(segment: Any) -> list[Any]:
    """Return the indexes that a segment has."""
    from gamay.model.index.kinds import COMPOUND_INVERTED
    from gamay.query.advice.indexes import Candidate

    own = [Candidate((name,), kind) for name, column in segment.info.columns.items() for kind in column.index_sizes()]
    for stored in segment.indexes:
        columns = stored.declaration.columns
        apart = [tuple(sorted(columns))] if stored.kind == COMPOUND_INVERTED else [(name,) for name in columns]
        own.extend(Candidate(columns, stored.kind) for columns in apart)
    return own


def _config(info: Any, present: Sequence[Any], new: Sequence[Any]) -> Any:
    """Return a table config for a segment's present storage with additional indexes."""
    from gamay.model.index.kinds import COMPOUND_INVERTED
    from gamay.model.table.table_config import TableConfig

    settings = _settings([*(one for one in present if one.kind in (*_KEPT, COMPOUND_INVERTED)), *new])
    raw = [name for name, column in info.columns.items() if column.id_bits is None]
    document = TableConfig.offline("t").to_json() | settings
    document["tableIndexConfig"] = {"noDictionaryColumns": raw, **settings.get("tableIndexConfig", {})}
    return TableConfig.from_json(document).value


def _settings(indexes: Sequence[Any]) -> dict[str, Any]:
    """Return the settings of a table config that declare some indexes."""
    from gamay.model.index.kinds import COMPOUND_INVERTED

    compounds = [{"columns": list(one.columns)} for one in indexes if one.kind == COMPOUND_INVERTED]
    by_column: dict[str, dict[str, Any]] = {}
    for one in (one for one in indexes if one.kind != COMPOUND_INVERTED):
        by_column.setdefault(one.columns[0], {})[one.kind] = {}
    settings: dict[str, Any] = {}
    if by_column:
        settings["fieldConfigList"] = [{"name": column, "indexes": kinds} for column, kinds in by_column.items()]
    if compounds:
        settings["tableIndexConfig"] = {"compoundInvertedIndexConfigs": compounds}
    return settings


def _size(segment: Any, one: Any) -> int:
    """Return the bytes of an index."""
    for stored in segment.indexes:
        if stored.declaration.columns == one.columns and stored.kind == one.kind:
            return int(stored.size_bytes)
    return int(segment.info.columns[one.columns[0]].index_sizes().get(one.kind, 0))

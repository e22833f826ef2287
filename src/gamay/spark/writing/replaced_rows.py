"""The rows that an overwrite with `replaceWhere` replaces: whole segments, or the rows of a segment that satisfy it.

A segment is replaced if all of its rows satisfy the condition, and kept if none does; it is read only if the bounds in its
record do not decide that. If some rows do, the others are rewritten into a new segment, which replaces it in the same atomic
step.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import InvalidConfigError
from gamay.client.controller import ControllerClient
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.query.bind.binder import BoundQuery, bind
from gamay.query.execute.matching_rows import matching_rows
from gamay.segment.read.defaults import with_defaults
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import Segment
from gamay.segment.write.row_subset import KeptRows, write_kept
from gamay.spark.building.target import scratch_folder
from gamay.spark.reading.conditions import check_where
from gamay.spark.reading.scan import Scan
from gamay.spark.reading.snapshot import plan_segments
from gamay.spark.source_options import ReadOptions, WriteOptions
from gamay.spark.writing.hidden import Announced, Replaced, upload_hidden
from gamay.sql.parser import parse_query


def check_condition(where: str, schema: Schema, config: TableConfig) -> None:
    """Raise InvalidConfigError for a `replaceWhere` that is not a condition over a table's columns."""
    check_where(where, schema, config.raw_name, "replaceWhere")


def check_inside(folder: Path, where: str, schema: Schema) -> None:
    """Raise InvalidConfigError if a new segment has a row that fails `replaceWhere`: it could duplicate a kept one."""
    segment = open_segment(folder, verify=False)
    try:
        outside = sum(len(rows) for rows in _docs(_outside(where, schema), segment))
    finally:
        segment.close()
    if outside:
        raise InvalidConfigError(
            f"{outside} rows to be written are not among those that replaceWhere ({where}) says; filter the DataFrame by it"
        )


def replaced_by(
    options: WriteOptions, client: ControllerClient, schema: Schema, config: TableConfig, prefix: str
) -> Replaced:
    """Return the replaced segments, after uploading their remaining rows in hidden segments named with a prefix."""
    read = ReadOptions(options.cluster)
    snapshot = client.read_snapshot(options.cluster.table, "OFFLINE")
    touched = plan_segments(snapshot, options.replace_where)
    parted = {one.name for one in plan_segments(snapshot, f"NOT ({options.replace_where})")}
    outside = _outside(options.replace_where, schema)
    rewritten: list[Announced] = []
    gone = []
    for one in touched:
        if one.name not in parted:
            gone.append(one.name)
            continue
        segment = Scan(read, b"").open_segment(config.typed_name, one)
        try:
            seen = with_defaults(segment, schema, config)
            docs = np.concatenate([np.empty(0, np.int32), *_docs(outside, seen)])
            if len(docs) == segment.num_docs:
                continue
            gone.append(one.name)
            if not len(docs):
                continue
            with scratch_folder() as scratch:
                name = f"{prefix}_{len(rewritten)}"
                kept = [KeptRows(segment, docs)]
                folder = write_kept(kept, schema, config, name, scratch, SYSTEM_CLOCK.now_ms())
                rewritten.append(upload_hidden(client, options, folder, name, len(docs)))
        finally:
            segment.close()
    return Replaced(tuple(gone), tuple(rewritten))


def _outside(where: str, schema: Schema) -> BoundQuery:
    return bind(parse_query(f"SELECT $docId FROM t WHERE NOT ({where})"), schema)  # noqa: S608 - validated and read-only


def _docs(bound: BoundQuery, segment: Segment) -> "Sequence[np.ndarray[Any, np.dtype[np.int32]]]":
    return [batch.column(0).to_numpy() for batch in matching_rows(bound, segment)]

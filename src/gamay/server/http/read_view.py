"""Data for readers of a table from the deep store that is not there: consuming rows, and valid docs.

All of it is as of one moment, between two batches of rows, so that it is consistent: a replaced row is reported as
invalid exactly when the row that replaced it is visible.
"""

import base64
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.model.parse import load_json
from gamay.query.bind.binder import BoundQuery, QueryKind, bind
from gamay.query.execute.matching_rows import matching_rows, matching_schema
from gamay.segment.read.defaults import with_defaults
from gamay.segment.read.visible import VisibleDocs, VisibleSegment
from gamay.segment.spi import Segment
from gamay.server.instance.instance import ServerInstance
from gamay.server.loading.table import Contents
from gamay.sql.parser import parse_query

METADATA_KEY = b"gamay.view"
_FORM = '{"sql": "SELECT …", "rows": [segments], "counting": [segments], "deleting": false}'


def read_view(instance: ServerInstance, table: str, body: bytes) -> bytes:
    """Return an Arrow IPC stream of the rows that a selection finds; its schema's metadata has JSON with the rest.

    body: `sql`, the selection; `rows`: the segments to read; `counting`: those whose valid docs to return; `deleting`:
    whether rows that delete their keys, which queries do not see, are included in the valid docs. The JSON:
    `counting`, by segment {crc, rows: a roaring bitmap in base64} unless all rows are valid; `present`, the names of
    all segments here; `missing`, the requested ones that are not here.
    Raises InvalidConfigError for an invalid body, NotFoundError for a missing table, QueryError like `bind`.
    """
    data, layout = instance.table(table), instance.layout_of(table)
    if data is None or layout is None:
        raise NotFoundError(f"'{table}' is not loaded on this server")
    sql, rows, counting, with_deleting = _asked(body)
    bound = bind(parse_query(sql), layout.schema)
    if bound.kind is not QueryKind.SELECTION:
        raise InvalidConfigError(f"the query of a view is a selection without ORDER BY, not: {sql}")
    keys = instance.upserts.upsert(table)
    visible: dict[str, VisibleDocs] = {}
    valid: dict[str, VisibleDocs] = {}
    if keys is None:
        contents = data.contents()
    else:
        contents, visible_of = keys.views.read_now(data.contents, Contents.all_docs)
        docs = {name: held.docs for name, held in contents.loaded.items()}
        docs |= {name: held.docs for name, held in contents.consuming.items()}
        visible = {name: visible_of(rows) for name, rows in docs.items() if rows is not None}
        valid = visible
        if with_deleting:
            valid = {name: held.snapshot(True) for name in counting if (held := docs.get(name)) is not None}
    found = [(name, segment) for name in rows if (segment := _segment(contents, name)) is not None]
    seen = [VisibleSegment(segment, visible[name]) if name in visible else segment for name, segment in found]
    missing = [name for name in (*rows, *counting) if name not in contents.loaded and name not in contents.consuming]
    told = {
        "counting": {name: _counting(contents, name, valid[name]) for name in counting if name in valid},
        "present": sorted({*contents.loaded, *contents.consuming}),
        "missing": missing,
    }
    complete = [with_defaults(segment, layout.schema, layout.config) for segment in seen]
    return _stream(bound, complete, told)


def _asked(body: bytes) -> tuple[str, list[str], list[str], bool]:
    document = load_json(body, "body")
    if not isinstance(document, dict) or not isinstance(document.get("sql"), str):
        raise InvalidConfigError(f"the body must be {_FORM}")
    lists = [document.get(key, []) for key in ("rows", "counting")]
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists):
        raise InvalidConfigError(f"the body must be {_FORM}")
    return document["sql"], lists[0], lists[1], document.get("deleting") is True


def _segment(contents: Contents, name: str) -> Segment | None:
    """Return a segment's current state; called after the snapshot of valid docs, so that it has all of them."""
    if (loaded := contents.loaded.get(name)) is not None:
        return loaded.segment
    growing = contents.consuming.get(name)
    return None if growing is None else growing.freeze()[0]


def _counting(contents: Contents, name: str, visible: VisibleDocs) -> dict[str, Any]:
    loaded = contents.loaded.get(name)
    crc = None if loaded is None else str(loaded.crc)
    return {"crc": crc, "rows": base64.b64encode(visible.bitmap().serialize()).decode()}


def _stream(bound: BoundQuery, segments: Sequence[Segment], told: dict[str, Any]) -> bytes:
    schema = matching_schema(bound).with_metadata({METADATA_KEY: orjson.dumps(told)})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for segment in segments:
            for batch in matching_rows(bound, segment):
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    sent: bytes = sink.getvalue().to_pybytes()
    return sent

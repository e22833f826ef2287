"""Small tables in every form of storage.

A table is `tables/NAME.json`, with its schema, and the `tableIndexConfig` of the form `sealed`, and `tables/NAME.jsonl`, its
rows. They are in two segments, queried like two servers; the form `database` runs the complete path of a query.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

import gamay
from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import QueryError
from gamay.functions.arrow import arrow_type
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.answer.response import BrokerResponse
from gamay.query.bind.binder import BoundQuery, bind
from gamay.query.execute.executor import execute
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.query.wire.result import encode_result, receive
from gamay.segment.mutable import MutableSegment
from gamay.segment.read.reader import open_segment
from gamay.segment.spi import Segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

TABLES = Path(__file__).parent / "tables"
DATABASE = "database"
FORMS = ("sealed", "raw", "indexed", "consuming", "mixed", "remote", DATABASE)
_LIMIT_MS = 60_000
_BATCH = 7


@dataclass(frozen=True)
class Definition:
    """A table as its files say."""

    name: str
    schema: Schema
    schema_document: Mapping[str, Any]
    indexing: Mapping[str, Any]
    rows: pa.RecordBatch


@cache
def definition(name: str) -> Definition:
    """Read a table."""
    document = json.loads((TABLES / f"{name}.json").read_text())
    schema = Schema.from_json({"schemaName": name, **document["schema"]}).value
    lines = [orjson.loads(line) for line in (TABLES / f"{name}.jsonl").read_bytes().splitlines()]
    columns = []
    for spec in schema.fields:
        values = [line.get(spec.name) for line in lines]
        if spec.data_type in (DataType.BYTES, DataType.UUID):
            values = [None if value is None else bytes.fromhex(value.replace("-", "")) for value in values]
        columns.append(pa.array(values, arrow_type(spec.data_type, spec.single_value)))
    rows = pa.RecordBatch.from_arrays(columns, names=[spec.name for spec in schema.fields])
    return Definition(name, schema, {"schemaName": name, **document["schema"]}, document.get("tableIndexConfig", {}), rows)


Ask = Callable[[str], BrokerResponse]


@contextmanager
def opened(form: str, names: Sequence[str], folder: Path) -> Iterator[Ask]:
    """Yield a function that answers queries of tables in a form."""
    if form == DATABASE:
        with gamay.connect(folder) as db:
            for name in names:
                table = definition(name)
                first, second = _halves(table)
                config = {"tableIndexConfig": {**table.indexing, "nullHandlingEnabled": True}}
                db.create_table(name, pa.Table.from_batches([first]), schema=table.schema_document, config=config)
                db.append(name, pa.Table.from_batches([second]))
            yield db._cluster.runner.run
        return
    with WorkPool(2) as pool:
        tables = {name: list(_segments(definition(name), form, folder / name)) for name in names}
        yield lambda sql: _asked(sql, form, tables, pool)


def _asked(sql: str, form: str, tables: Mapping[str, Sequence[Segment]], pool: WorkPool) -> BrokerResponse:
    try:
        query = parse_query(sql)
        assert query.table is not None
        bound = bind(query, definition(query.table).schema)
        deadline = Deadline.after_ms(_LIMIT_MS, SYSTEM_CLOCK)
        found = [execute(bound, [segment], pool, deadline, "host") for segment in tables[query.table]]
        if form == "remote":
            found = [_sent(bound, result) for result in found]
        return BrokerResponse(reduce(bound, found).table)
    except QueryError as error:
        return BrokerResponse.of_error(error)


def _sent(bound: BoundQuery, result: ServerResult) -> ServerResult:
    buffers = [memoryview(bytearray(buffer)) for buffer in encode_result(bound, result, ())]
    return receive(buffers).result(bound, SYSTEM_CLOCK)


def _segments(table: Definition, form: str, folder: Path) -> Iterator[Segment]:
    config = TableConfig.from_json(_config(table, form)).value
    for number, rows in enumerate(_halves(table)):
        if form == "consuming" or (form == "mixed" and number):
            consuming = MutableSegment(f"{table.name}_{number}", table.schema, config, folder)
            for start in range(0, rows.num_rows, _BATCH):
                consuming.append(rows.slice(start, _BATCH))
            view = consuming.view()
            consuming.append(rows.slice(0, _BATCH))  # what comes after a view is not in it
            yield view
        else:
            builder = SegmentBuilder(table.schema, config, f"{table.name}_{number}", folder)
            builder.append(rows)
            yield open_segment(builder.build())


def _halves(table: Definition) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    first = table.rows.num_rows * 2 // 5
    return table.rows.slice(0, first), table.rows.slice(first)


def _config(table: Definition, form: str) -> dict[str, Any]:
    scalar = [spec for spec in table.schema.fields if spec.single_value]
    indexing: dict[str, Any] = dict(table.indexing)
    if form == "raw":
        indexing = {"noDictionaryColumns": [spec.name for spec in table.schema.fields]}
    if form == "indexed":
        indexing = {
            "invertedIndexColumns": [spec.name for spec in table.schema.fields],
            "rangeIndexColumns": [spec.name for spec in scalar if spec.data_type.is_numeric],
            "bloomFilterColumns": [spec.name for spec in scalar if spec.data_type is not DataType.BOOLEAN],
        }
    return {
        "tableName": table.name,
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {**indexing, "nullHandlingEnabled": True},
    }

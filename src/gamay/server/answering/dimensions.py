"""The dimension tables of a server for lookUp, built from the loaded segments on first use."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arrow import arrow_scalar
from gamay.functions.dimension import DimensionTable, KeyColumn, with_row
from gamay.functions.vector import Vector
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.table.table_name import raw_table_name
from gamay.query.columns.operations import concat_vectors
from gamay.query.layout.rebuild import TableLayout
from gamay.segment.encode.dictionary import SortedDictionary
from gamay.segment.encode.storage_form import from_arrow
from gamay.segment.read.defaults import with_defaults
from gamay.segment.spi import Segment
from gamay.server.instance.instance import ServerInstance
from gamay.server.loading.table import LoadedSegment

_NO_ROWS = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True)
class _Made:
    """A dimension table, and the segments and layout from which it was built."""

    segments: Sequence[LoadedSegment]
    layout: TableLayout
    table: DimensionTable

    def is_of(self, segments: Sequence[LoadedSegment], layout: TableLayout) -> bool:
        same = len(segments) == len(self.segments) and all(a is b for a, b in zip(segments, self.segments, strict=True))
        return same and (layout.schema is self.layout.schema or layout.schema == self.layout.schema) and (
            layout.config.dimension_table == self.layout.config.dimension_table
        )  # fmt: skip


class DimensionTables:
    """Cache of dimension tables, each valid until its segments change."""

    def __init__(self, instance: ServerInstance) -> None:
        self._instance = instance
        self._made: dict[str, _Made] = {}
        self._lock = threading.Lock()

    def table(self, name: str) -> DimensionTable:
        """Return a typed table in its current state. Raises QueryError if this server does not have all of it."""
        data, layout = self._instance.table(name), self._instance.layout_of(name)
        if layout is None or not layout.schema.primary_key_columns or not layout.config.is_dim_table:
            self._made.pop(name, None)
            raise QueryError(
                ErrorCode.QUERY_VALIDATION, f"Function 'lookUp': the dimension table '{raw_table_name(name)}' is gone"
            )
        failures = self._instance.failures(name)
        if failures:
            segment, failure = next(iter(sorted(failures.items())))
            raise QueryError(
                ErrorCode.QUERY_EXECUTION,
                f"Server {self._instance.id} does not have all of the dimension table '{raw_table_name(name)}': "
                f"segment {segment} could not be loaded: {failure.reason}",
            )
        hidden = self._instance.hidden_segments(name)
        loaded = {} if data is None else data.snapshot()
        # in the order of their creation, which is the same on all servers and after a restart
        segments = sorted(
            (one for segment, one in loaded.items() if segment not in hidden),
            key=lambda one: (one.segment.info.creation_time_ms, one.segment.name),
        )
        with self._lock:
            known = self._made.get(name)
            if known is None or not known.is_of(segments, layout):
                known = self._made[name] = _Made(segments, layout, _made(name, segments, layout))
            return known.table


class QueryDimensions:
    """The dimension tables of one query, each as of its first use in the query."""

    def __init__(self, tables: DimensionTables) -> None:
        self._tables = tables
        self._taken: dict[str, DimensionTable] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str) -> DimensionTable:
        known = self._taken.get(name)
        if known is None:
            with self._lock:
                known = self._taken.get(name)
                if known is None:
                    known = self._taken[name] = self._tables.table(name)
        return known


def _made(name: str, segments: Sequence[LoadedSegment], layout: TableLayout) -> DimensionTable:
    whole = [with_defaults(one.segment, layout.schema, layout.config) for one in segments]

    def column(field: str) -> Vector:
        spec = layout.schema.field(field)
        return with_row(_column(whole, spec), _default(spec))

    keys = [KeyColumn(key, _column(whole, layout.schema.field(key))) for key in layout.schema.primary_key_columns]
    settings = layout.config.dimension_table
    unique = settings is not None and settings.error_on_duplicate_primary_key
    return DimensionTable(raw_table_name(name), keys, column, unique=unique)


def _default(spec: FieldSpec) -> Vector:
    scalar = arrow_scalar(spec.default_null_value, spec.data_type)
    stored = from_arrow(pa.array([scalar.as_py()], scalar.type), spec.data_type)
    return SortedDictionary(spec.data_type, stored).values


def _column(segments: Sequence[Segment], spec: FieldSpec) -> Vector:
    """Return a column of all segments, end to end."""
    parts = [segment.column(spec.name).values(0, segment.num_docs) for segment in segments if segment.num_docs]
    if not parts:
        none = _default(spec).values[:0]
        return Vector(spec.data_type, none, None if spec.single_value else _NO_ROWS)
    whole = concat_vectors(parts)
    return Vector(whole.type, whole.values, whole.offsets)

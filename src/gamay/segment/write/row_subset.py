"""Writing of selected rows of segments as a new segment, by column and dictionary, never by row.

Memory holds one column at a time: the ids, or values, of the rows that are kept. Unused dictionary entries are dropped, so
the new segment is the same as if it had been built from these rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from gamay.base.errors import InvalidConfigError
from gamay.functions.vector import take
from gamay.kernels.encode.encoding import list_indices
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.encode.dictionary import sort_distinct
from gamay.segment.encode.forward import id_dtype
from gamay.segment.encode.storage_form import Stored, concat_stored, empty_stored, fixed_dtype, from_python
from gamay.segment.read.column import ImmutableColumn
from gamay.segment.read.reader import ImmutableSegment
from gamay.segment.spi import DocIds, Ids
from gamay.segment.write.accumulate import EncodedColumn, RawColumn
from gamay.segment.write.column_writer import ColumnPlan
from gamay.segment.write.folder_writer import SegmentPlan, write_segment


@dataclass(frozen=True, slots=True)
class KeptRows:
    """A segment, and its docs to keep: int32, ascending."""

    segment: ImmutableSegment
    docs: DocIds

    @classmethod
    def of(cls, segment: ImmutableSegment, rows: BitMap) -> "KeptRows":
        """Return the rows of a bitmap; raises InvalidConfigError if the bitmap has docs beyond the segment."""
        if rows and rows.max() >= segment.num_docs:
            raise InvalidConfigError(
                f"row {rows.max()} of segment '{segment.name}' is to be kept, which has {segment.num_docs} rows"
            )
        return cls(segment, np.asarray(rows.to_array()).astype(np.int32))


def write_kept(
    parts: Sequence[KeptRows],
    schema: Schema,
    config: TableConfig,
    name: str,
    out_dir: Path,
    created_ms: int,
    given: "Mapping[str, KeptColumn | GivenColumn] | None" = None,
) -> Path:
    """Write the kept rows of segments, concatenated, as the segment `out_dir/name`, and return its folder.

    given: columns, by name, whose values differ from those in the segments. Rows are ordered by the table's sorted column,
    if any, stably. Columns missing in a segment are null, with their default value. Raises
    InvalidConfigError if a column's type differs from the schema's or it grows too large, ConflictError if the folder
    exists.
    """
    plan = SegmentPlan.of(schema, config, name, created_ms)
    columns = [(given or {}).get(each.spec.name) or KeptColumn(each, parts) for each in plan.columns]
    order = None
    for column in columns:
        if column.name == config.sorted_column and column.single_value:
            order = column.ascending()

    def ordered() -> Iterator[KeptColumn | GivenColumn]:
        for column in columns:
            column.order = order
            yield column

    return write_segment(plan, ordered(), sum(len(part.docs) for part in parts), out_dir)


class KeptColumn:
    """A column of the kept rows; implements `column_writer.FinishedColumn`.

    order: the new order of rows. erased: every row becomes null.
    """

    def __init__(self, plan: ColumnPlan, parts: Sequence[KeptRows], *, erased: bool = False) -> None:
        self.name = plan.spec.name
        self.single_value = plan.spec.single_value
        self.order: Ids | None = None
        self._data_type = plan.spec.data_type
        default = from_python(plan.default, plan.spec.data_type)
        dtype = fixed_dtype(plan.spec.data_type)
        self._default: Stored = pa.array([default], pa.binary()) if dtype is None else np.array([default], dtype)
        self._parts = [(None, part.docs) if erased else self._part(part) for part in parts]
        self._num_docs = sum(len(docs) for _, docs in self._parts)

    def ascending(self) -> "Ids | None":
        """Return the rows in the order of their values, stable; None when they are in order. Single-value only."""
        return _ascending(self.encoded()[1])

    def finish_encoded(self) -> EncodedColumn:
        dictionary, ids, offsets = self.encoded()
        positions, offsets = self._reordered(offsets)
        return EncodedColumn(dictionary, ids if positions is None else take(ids, positions), offsets, self._null_docs())

    def finish_raw(self) -> RawColumn:
        values, offsets = self.stored()
        positions, offsets = self._reordered(offsets)
        return RawColumn(values if positions is None else take(values, positions), offsets, self._null_docs())

    def stored(self) -> "tuple[Stored, Ids | None]":
        """Return (values in stored form, offsets of multi-value rows) of the rows in their original order."""
        found: list[Stored] = []
        lengths: list[Ids] = []
        for column, docs in self._parts:
            values, offsets = self._values(column, docs)
            found.append(values)
            if offsets is not None:
                lengths.append(np.diff(offsets))
        return concat_stored(found) if found else empty_stored(self._data_type), self._offsets(lengths)

    def _part(self, part: KeptRows) -> "tuple[ImmutableColumn | None, DocIds]":
        segment = part.segment
        if self.name not in segment.column_names:
            return None, part.docs
        column = segment.column(self.name)
        if (column.data_type, column.single_value) != (self._data_type, self.single_value):
            raise InvalidConfigError(
                f"column '{self.name}' of segment '{segment.name}' is {column.data_type.value}, in the schema "
                f"{self._data_type.value}, or only one of them is multi-value: reload the table first"
            )
        return column.with_forward(), part.docs

    def encoded(self) -> "tuple[Stored, Ids, Ids | None]":
        """Return (dictionary, ids, offsets) of the rows in their original order."""
        dictionaries: list[Stored] = []
        ids_of_parts: list[Ids] = []
        lengths: list[Ids] = []
        for column, docs in self._parts:
            if column is not None and column.dictionary is not None:
                ids, offsets = column.stored_at(docs)
                used = np.zeros(len(column.dictionary), np.bool_)
                used[ids] = True
                new_ids = (np.cumsum(used) - 1).astype(np.int32)
                dictionaries.append(take(column.dictionary.stored, np.flatnonzero(used)))
                ids_of_parts.append(take(new_ids, ids))
            else:
                values, offsets = self._values(column, docs)
                distinct, (ids,) = sort_distinct([values], self._data_type)
                dictionaries.append(distinct)
                ids_of_parts.append(ids)
            if offsets is not None:
                lengths.append(np.diff(offsets))
        dictionary, merged = sort_distinct(dictionaries, self._data_type)
        dtype = id_dtype(len(dictionary))
        joined = [take(new.astype(dtype), ids) for new, ids in zip(merged, ids_of_parts, strict=True)]
        return dictionary, np.concatenate(joined) if joined else np.empty(0, dtype), self._offsets(lengths)

    def _values(self, column: "ImmutableColumn | None", docs: DocIds) -> "tuple[Stored, Ids | None]":
        """Return (values in stored form, offsets of multi-value rows)."""
        if column is None:
            offsets = None if self.single_value else np.arange(len(docs) + 1, dtype=np.int32)
            return take(self._default, np.zeros(len(docs), np.int32)), offsets
        stored, offsets = column.stored_at(docs)
        return (stored if column.dictionary is None else take(column.dictionary.stored, stored)), offsets

    def _offsets(self, lengths: Sequence[Ids]) -> "Ids | None":
        if self.single_value:
            return None
        offsets = np.zeros(self._num_docs + 1, np.int64)
        if lengths:
            np.cumsum(np.concatenate(lengths), out=offsets[1:])
        if offsets[-1] > np.iinfo(np.int32).max:
            raise InvalidConfigError(f"column '{self.name}' has {offsets[-1]:,} values: merge fewer segments")
        return offsets.astype(np.int32)

    def _reordered(self, offsets: "Ids | None") -> "tuple[Ids | None, Ids | None]":
        """Return the positions of the values in the rows' new order (None: unchanged), and the rows' offsets."""
        if self.order is None or offsets is None:
            return self.order, offsets
        starts, ends = offsets[self.order], offsets[self.order + 1]
        positions = np.empty(offsets[-1], np.int64)
        list_indices(starts, ends, positions)
        return positions, np.concatenate(([0], np.cumsum(ends - starts))).astype(np.int32)

    def _null_docs(self) -> Ids:
        is_null = self.nulls()
        return np.flatnonzero(is_null if self.order is None else is_null[self.order])

    def nulls(self) -> Ids:
        """Return which rows are null, in their original order: bool."""
        is_null = np.zeros(self._num_docs, np.bool_)
        begin = 0
        for column, docs in self._parts:
            rows = slice(begin, begin + len(docs))
            if column is None:
                is_null[rows] = True
            elif column.null_docs:
                nulls = np.zeros(column.num_docs, np.bool_)
                nulls[np.asarray(column.null_docs.to_array())] = True
                is_null[rows] = nulls[docs]
            begin += len(docs)
        return is_null


class GivenColumn:
    """A single-value column of rows whose values are given; implements `column_writer.FinishedColumn`.

    values: in stored form, one for each row. nulls: bool, the rows that are null and hold the default. order: see
    `KeptColumn`.
    """

    single_value = True

    def __init__(self, spec: FieldSpec, values: Stored, nulls: Ids) -> None:
        self.name = spec.name
        self.order: Ids | None = None
        self._data_type = spec.data_type
        self._values = values
        self._nulls = nulls

    def encoded(self) -> tuple[Stored, Ids, None]:
        """Return (dictionary, ids, no offsets) of the rows in the given order."""
        dictionary, (ids,) = sort_distinct([self._values], self._data_type)
        return dictionary, ids.astype(id_dtype(len(dictionary))), None

    def nulls(self) -> Ids:
        """Return which rows are null, in the given order: bool."""
        return self._nulls

    def ascending(self) -> "Ids | None":
        """Return the rows in the order of their values, stable; None when they are in order."""
        return _ascending(self.encoded()[1])

    def finish_encoded(self) -> EncodedColumn:
        dictionary, ids, _ = self.encoded()
        return EncodedColumn(dictionary, ids if self.order is None else ids[self.order], None, self._null_docs())

    def finish_raw(self) -> RawColumn:
        values = self._values if self.order is None else take(self._values, self.order)
        return RawColumn(values, None, self._null_docs())

    def _null_docs(self) -> Ids:
        return np.flatnonzero(self._nulls if self.order is None else self._nulls[self.order])


def _ascending(ids: Ids) -> "Ids | None":
    return None if not np.any(ids[1:] < ids[:-1]) else np.argsort(ids, kind="stable")

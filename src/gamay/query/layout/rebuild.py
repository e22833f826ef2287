"""Rewriting of a segment so that its encodings and indexes match the current table config."""

import logging
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
from pyroaring import BitMap

from gamay.base.clock import Clock, ManualClock
from gamay.base.errors import CorruptSegmentError, InvalidConfigError
from gamay.functions.arrow import arrow_type
from gamay.functions.vector import Vector
from gamay.model.index.timestamp_index import TimestampColumn
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.secondary_indexes import IndexDeclaration, declared_indexes
from gamay.model.table.table_config import TableConfig
from gamay.model.table.tier_overwrites import overwritten
from gamay.query.answer.response import arrow_array
from gamay.query.startree.build import add_star_trees
from gamay.query.startree.definition import TreeDefinition, tree_definitions
from gamay.segment.encode.format import COLUMNS_FILE, METADATA_FILE
from gamay.segment.encode.metadata import ColumnMeta, Encoding, SegmentMetadata
from gamay.segment.read.column import ImmutableColumn
from gamay.segment.read.reader import ImmutableSegment
from gamay.segment.secondary.registry import index_type
from gamay.segment.star_tree_file import remove_star_trees
from gamay.segment.write.builder import SegmentBuilder
from gamay.segment.write.secondary_indexes import add_indexes, buildable

_log = logging.getLogger(__name__)
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The required storage of a table's segments.

    of_archives: for segments in the deep store, from which servers download them: with the columns and types of the current
    schema. Servers themselves fill in default values for missing columns, and build indexes of some types only locally.
    """

    schema: Schema
    config: TableConfig
    of_archives: bool = False

    def of_tier(self, tier: str) -> "TableLayout":
        """Return the layout of a tier's segments; ignores invalid overwrites that were never validated."""
        try:
            config = overwritten(self.config, tier)
        except InvalidConfigError as error:
            _log.error("the tierOverwrites.%s of %s are left out: %s", tier, self.config.typed_name, error)
            return self
        return self if config is self.config else replace(self, config=config)

    @property
    def in_memory(self) -> bool:
        """Whether segments are read into memory completely, rather than mapped."""
        return self.config.indexing.load_mode == "HEAP"

    def fingerprint(self) -> str:
        """Return a short text that changes whenever encodings or indexes may change."""
        document = self.config.to_json()
        parts = [self.schema.to_json(), document.get("tableIndexConfig"), document.get("fieldConfigList")]
        return f"{zlib.crc32(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)):08x}"

    def matches(self, info: SegmentMetadata) -> bool:
        """Whether a segment already has this layout; servers do not convert columns of another type than the schema's.

        With `skipSegmentPreprocess` segments stay as they were pushed.
        """
        if self.config.indexing.skip_segment_preprocess:
            return True
        for spec in self.schema.stored_fields:
            column = info.columns.get(spec.name)
            if column is None:
                if self.of_archives:
                    return False
                continue
            if (column.data_type, column.single_value) != (spec.data_type, spec.single_value):
                return not self.of_archives
            if not self._matches_column(spec, column, info.num_docs):
                return False
        return self._timestamp_columns(info) == info.timestamp_columns

    def _timestamp_columns(self, info: SegmentMetadata) -> dict[str, TimestampColumn]:
        """Return the columns that timestamp indexes should derive from a segment's columns."""
        bases = (spec for spec in self.schema.stored_fields if spec.name in info.columns)
        return {column.name: column for spec in bases for column in self.config.timestamp_columns(self.schema, spec)}

    def star_trees(self, info: SegmentMetadata) -> list[TreeDefinition]:
        """Return the star-trees that a segment should have; ignores invalid ones that were never validated."""
        if self.config.indexing.skip_segment_preprocess:
            return []
        try:
            return list(tree_definitions(self.schema, self.config, info.columns))
        except InvalidConfigError as error:
            _log.error("segments of %s have no star-trees: %s", self.config.typed_name, error)
            return []

    def is_met_by(self, segment: ImmutableSegment) -> bool:
        """Whether a segment already has this layout, including its star-trees and secondary indexes."""
        return self.matches(segment.info) and self.matches_indexes(segment) and self.matches_star_trees(segment)

    def matches_star_trees(self, segment: ImmutableSegment, *, verify: bool = False) -> bool:
        """Whether a segment has exactly its star-trees; with `verify`, also whether they are undamaged."""
        if self.config.indexing.skip_segment_preprocess:
            return True
        wanted = [definition.config for definition in self.star_trees(segment.info)]
        try:
            return wanted == [tree.config for tree in segment.star_trees(verify=verify)]
        except CorruptSegmentError as error:
            _log.warning("the star-trees of segment %s are built again: %s", segment.name, error)
            return False

    @property
    def indexes(self) -> Sequence[IndexDeclaration]:
        """The secondary indexes that segments should have."""
        if self.config.indexing.skip_segment_preprocess:
            return ()
        declared = declared_indexes(self.config, self.schema)
        return [index for index in declared if not self.of_archives or index_type(index.kind).is_portable]

    def matches_indexes(self, segment: ImmutableSegment) -> bool:
        """Whether a segment has exactly its secondary indexes, all of them intact."""
        if self.config.indexing.skip_segment_preprocess:
            return True
        return buildable(self.indexes, segment.info) == [stored.declaration for stored in segment.indexes]

    def _matches_column(self, spec: FieldSpec, column: ColumnMeta, num_docs: int) -> bool:
        wanted = self.config.column_index(self.schema, spec.name)
        has_dictionary = column.encoding is Encoding.DICTIONARY
        if has_dictionary != wanted.dictionary and not wanted.may_drop_dictionary:
            return False
        if not has_dictionary and wanted.codec is not None and column.codec != wanted.codec:
            return False
        if has_dictionary and wanted.forward and column.packed != wanted.packed:
            return False
        if num_docs and (column.stats.minimum is not None) != self.config.keeps_bounds(self.schema, spec.name):
            return False
        present = set(column.index_sizes())
        # The row order of a sorted column replaces these two, so that they are never built for one.
        is_sorted = has_dictionary and column.stats.is_sorted
        wants = {
            "forward": wanted.forward,
            "inverted": wanted.inverted and not is_sorted,
            "range": wanted.range and not is_sorted,
            "bloom": wanted.bloom is not None,
        }
        return all((index in present) == wish for index, wish in wants.items())


def rebuild(segment: ImmutableSegment, layout: TableLayout, out_dir: Path, clock: Clock) -> Path:
    """Store a segment with the given layout, as `out_dir/<name>`, and return that folder.

    Its rows are rewritten if columns or the indexes in their buffers differ; otherwise its files are linked, with those of
    the secondary indexes that are still needed. Star-trees are rebuilt. Raises InvalidConfigError if an index in the
    buffers cannot be built.
    """
    is_same = layout.matches(segment.info)
    folder = _linked(segment, out_dir) if is_same else _rewritten(segment, layout, out_dir)
    add_indexes(folder, layout.indexes, clock, segment.indexes if is_same else ())
    try:
        add_star_trees(folder, layout.schema, layout.config, clock)
    except Exception:  # noqa: BLE001 - whatever is wrong with a tree, its segment can be read without it
        _log.exception("segment %s is read without star-trees, for they cannot be built", segment.name)
        remove_star_trees(folder)
    return folder


def _linked(segment: ImmutableSegment, out_dir: Path) -> Path:
    folder = out_dir / segment.name
    folder.mkdir()
    for name in (METADATA_FILE, COLUMNS_FILE):
        try:
            os.link(segment.path / name, folder / name)
        except OSError:  # on another file system, or on one without links
            shutil.copyfile(segment.path / name, folder / name)
    return folder


def _rewritten(segment: ImmutableSegment, layout: TableLayout, out_dir: Path) -> Path:
    clock = ManualClock(segment.info.creation_time_ms)
    builder = SegmentBuilder(layout.schema, layout.config, segment.name, out_dir, clock=clock)
    for batch in conformed_rows(segment, layout.schema):
        builder.append(batch)
    return builder.build()


def conformed_rows(segment: ImmutableSegment, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a segment, in order, as conformed batches; missing columns are null.

    Raises InvalidConfigError for a column whose values cannot be converted to the schema's type.
    """
    names = [spec.name for spec in schema.stored_fields]
    columns = {name: segment.column(name).with_forward() for name in names if name in segment.column_names}
    for start in range(0, segment.num_docs, _BATCH_ROWS):
        stop = min(start + _BATCH_ROWS, segment.num_docs)
        arrays = [_array(segment.name, columns, spec, start, stop) for spec in schema.stored_fields]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _array(segment: str, columns: Mapping[str, ImmutableColumn], spec: FieldSpec, start: int, stop: int) -> pa.Array:
    kind = arrow_type(spec.data_type, spec.single_value)
    if spec.name not in columns:
        return pa.nulls(stop - start, kind)
    column = columns[spec.name]
    values = column.values(start, stop)
    if column.null_docs is not None:
        nulls = np.zeros(stop - start, np.bool_)
        inside = column.null_docs & BitMap(range(start, stop))
        nulls[np.array(inside, np.int64) - start] = True
        values = Vector(values.type, values.values, values.offsets, nulls)
    array = arrow_array(values)
    if array.type == kind:
        return array
    try:
        if column.single_value and not spec.single_value:
            return pa.ListArray.from_arrays(np.arange(len(array) + 1, dtype=np.int32), array.cast(kind.value_type))
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidConfigError(
            f"column '{spec.name}' of segment '{segment}' is {column.data_type.value}, and cannot become "
            f"{'' if spec.single_value else 'multi-value '}{spec.data_type.value} as the schema says: {error}"
        ) from error

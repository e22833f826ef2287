"""Building the star-trees of a segment: its rows are grouped by all dimensions, then groups are merged into fewer ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base.clock import Clock
from gamay.functions.aggregate.spi import Partial
from gamay.functions.text import to_text
from gamay.functions.vector import EncodedVector
from gamay.query.bind import BoundQuery
from gamay.query.groupby.numbering import HashedNumbering
from gamay.query.groupby.segment import group_segment
from gamay.query.groupby.table import GroupTable
from gamay.query.matches import AllDocs
from gamay.query.pool import WorkPool
from gamay.query.read import segment_reader
from gamay.query.response import arrow_array
from gamay.query.startree.definition import TreeDefinition
from gamay.query.startree.lattice import Kept, Limits, grow
from gamay.query.virtual import QuerySegment
from gamay.segment.dictionary import sort_distinct
from gamay.segment.reader import ImmutableSegment
from gamay.segment.star_tree_file import Cuboid, Dimension, TreeContent, id_dtype, write_star_trees
from gamay.segment.storage_form import from_arrow

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Records:
    """A cuboid in memory: groups, sorted by their ids.

    kept: the positions of its dimensions, ascending; ids: of each of them, int32 [num_records]; partials: one for each
    aggregate of the tree.
    """

    kept: tuple[int, ...]
    ids: tuple[Array, ...]
    partials: tuple[Partial, ...]
    num_records: int


def build_star_trees(
    segment: ImmutableSegment, definitions: Sequence[TreeDefinition], folder: Path, pool: WorkPool, clock: Clock
) -> None:
    """Build the trees of a segment and write their files into a folder that has none."""
    contents = [_build(segment, definition, pool, clock) for definition in definitions]
    write_star_trees(folder, segment.info.crc, contents)


def _build(segment: ImmutableSegment, definition: TreeDefinition, pool: WorkPool, clock: Clock) -> TreeContent:
    begun_s = clock.monotonic_s()
    bound = definition.bound
    view = QuerySegment(segment, bound.fields, "")
    every_doc = AllDocs(0, segment.num_docs)
    table = group_segment(bound.rows, bound.aggregates, every_doc, segment_reader(view), pool)
    dimensions, finest = _finest(table, bound, view)
    cuboids = _Lattice(dimensions, finest, bound)
    most_bytes = int(segment.size_bytes * definition.config["maxSizeRatio"])
    most_records = most_bytes * finest.num_records // max(1, _num_bytes(bound, dimensions, finest))
    limits = Limits(definition.leaf_records, segment.num_docs, most_records)
    unstarred = sum(1 << position for position in definition.unstarred)
    chosen = grow((1 << len(dimensions)) - 1, finest.num_records, unstarred, limits, cuboids.reduce)
    kept = [cuboids.records[mask] for mask in chosen]
    took_ms = round((clock.monotonic_s() - begun_s) * 1000)
    return TreeContent(
        definition.config, dimensions, _placed(kept), [part.ids for part in kept], _encoded(bound, kept), took_ms
    )


def _finest(table: GroupTable, bound: BoundQuery, view: QuerySegment) -> tuple[list[Dimension], Records]:
    """Return the dimensions, and the groups of all of them in ascending order."""
    dimensions: list[Dimension] = []
    codes: list[Array] = []
    for row, (data_type, _), key in zip(bound.rows, bound.row_types, table.keys, strict=True):
        text = to_text(row)
        column = view.column(text) if text in view.column_names else None
        if column is not None and column.dictionary is not None and isinstance(key, EncodedVector):
            dimensions.append(Dimension(text, data_type, len(column.dictionary)))
            codes.append(key.ids.astype(np.int32))
            continue
        vector = key.decode() if isinstance(key, EncodedVector) else key
        values, (ids,) = sort_distinct([from_arrow(arrow_array(vector), data_type)], data_type)
        dimensions.append(Dimension(text, data_type, len(values), values))
        codes.append(ids)
    order = np.lexsort(codes[::-1])
    partials = tuple(
        call.aggregate.select(partial, order) for call, partial in zip(bound.aggregates, table.partials, strict=True)
    )
    kept = tuple(range(len(dimensions)))
    return dimensions, Records(kept, tuple(code[order] for code in codes), partials, table.num_groups)


class _Lattice:
    """The cuboids computed so far, by what they keep."""

    def __init__(self, dimensions: Sequence[Dimension], finest: Records, bound: BoundQuery) -> None:
        self._cardinalities = [dimension.cardinality for dimension in dimensions]
        self._aggregates = [call.aggregate for call in bound.aggregates]
        self.records: dict[Kept, Records] = {(1 << len(dimensions)) - 1: finest}

    def reduce(self, parent: Kept, kept: Kept, most: int) -> int | None:
        """Compute a cuboid from another one; returns its number of records, None where these are more than `most`."""
        source = self.records[parent]
        left = tuple(d for d in source.kept if kept >> d & 1)
        ids = [source.ids[source.kept.index(d)] for d in left]
        numbers, codes = _groups(ids, [self._cardinalities[d] for d in left], source.num_records, most)
        if numbers is None:
            return None
        size = len(codes[0]) if codes else 1
        partials = tuple(
            aggregate.merge([partial], [numbers], size)
            for aggregate, partial in zip(self._aggregates, source.partials, strict=True)
        )
        self.records[kept] = Records(left, tuple(codes), partials, size)
        return size


def _groups(
    ids: Sequence[Array], cardinalities: Sequence[int], num_rows: int, most: int
) -> tuple[Array | None, Sequence[Array]]:
    """Return the group of each row, int32, and the ids of each group, ascending; None for more groups than `most`."""
    if not ids:
        return np.zeros(num_rows, np.int32), ()
    numbering = HashedNumbering(cardinalities, most + 1)
    numbers = numbering.number(ids)
    if numbering.num_groups > most:
        return None, ()
    codes = [code.astype(np.int32) for code in numbering.codes(np.arange(numbering.num_groups))]
    order = np.lexsort(codes[::-1])
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[numbers], [code[order] for code in codes]


def _num_bytes(bound: BoundQuery, dimensions: Sequence[Dimension], records: Records) -> int:
    """Return what the records take in a file."""
    encoded = [call.aggregate.encode(part) for call, part in zip(bound.aggregates, records.partials, strict=True)]
    ids = sum(np.dtype(id_dtype(dimension.cardinality)).itemsize for dimension in dimensions)
    num_bytes = sum(int(array.nbytes) for arrays in encoded for array in arrays)
    return int(ids) * records.num_records + num_bytes


def _placed(parts: Sequence[Records]) -> list[Cuboid]:
    cuboids: list[Cuboid] = []
    start = 0
    for part in parts:
        cuboids.append(Cuboid(part.kept, start, start + part.num_records))
        start += part.num_records
    return cuboids


def _encoded(bound: BoundQuery, parts: Sequence[Records]) -> dict[str, list["Array | pa.Array"]]:
    """Return the arrays of each aggregate over the records of all cuboids."""
    encoded: dict[str, list[Array | pa.Array]] = {}
    for number, call in enumerate(bound.aggregates):
        pieces = [call.aggregate.encode(part.partials[number]) for part in parts]
        encoded[to_text(call.call)] = [_joined(arrays) for arrays in zip(*pieces, strict=True)]
    return encoded


def _joined(arrays: Sequence["Array | pa.Array"]) -> "Array | pa.Array":
    if all(isinstance(array, np.ndarray) for array in arrays):
        return np.concatenate(arrays)
    return pa.concat_arrays(list(arrays))

"""Building of a segment's star-trees: the engine groups rows, then groups are merged into fewer ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.clock import Clock
from gamay.functions.aggregate.distinct.coding import CODES_MAX
from gamay.functions.aggregate.totals.numeric import Numeric
from gamay.functions.aggregate_spi import Partial
from gamay.functions.expression import Column, Expression
from gamay.functions.text import to_text
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.answer.response import arrow_array
from gamay.query.bind.aggregates import BoundAggregate
from gamay.query.bind.binder import BoundQuery
from gamay.query.groupby.numbering import HashedNumbering
from gamay.query.groupby.segment import aggregate_segment, group_segment
from gamay.query.groupby.table import GroupTable
from gamay.query.pool import WorkPool
from gamay.query.startree.definition import TreeDefinition, tree_definitions
from gamay.query.startree.lattice import Kept, LatticeLimits, grow
from gamay.query.view.matches import AllDocs, DocList
from gamay.query.view.read import segment_reader
from gamay.query.view.virtual import QuerySegment
from gamay.segment.encode.dictionary import sort_distinct
from gamay.segment.encode.storage_form import Stored, from_arrow
from gamay.segment.read.reader import ImmutableSegment, open_segment
from gamay.segment.star_tree_file import Cuboid, Dimension, TreeContent, id_dtype, write_star_trees

# the sample size to estimate the number of combinations of dimensions
_SAMPLED = 1 << 17
# An estimate is roughly a lower bound: a cuboid is not computed if this fraction of it is already too much.
_ESTIMATE_TRUST = 0.7


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


def add_star_trees(folder: Path, schema: Schema, config: TableConfig, clock: Clock) -> None:
    """Build a table's star-trees in the folder of a segment that has none, on the caller's thread.

    Raises InvalidConfigError for an invalid tree.
    """
    if not (config.indexing.star_tree_configs or config.indexing.enable_default_star_tree):
        return
    segment = open_segment(folder, verify=False)
    try:
        definitions = list(tree_definitions(schema, config, segment.info.columns))
        contents = [_build(segment, definition, WorkPool(1), clock) for definition in definitions]
        if contents:
            write_star_trees(folder, segment.info.crc, contents)
    finally:
        segment.close()


def _build(segment: ImmutableSegment, definition: TreeDefinition, pool: WorkPool, clock: Clock) -> TreeContent:
    begun_s = clock.monotonic_s()
    cuboids = _Cuboids(QuerySegment(segment, definition.bound.fields, ""), definition.bound, pool)
    unstarred = sum(1 << position for position in definition.unstarred)
    most_bytes = int(segment.size_bytes * definition.config["maxSizeRatio"])
    limits = LatticeLimits(definition.leaf_records, segment.num_docs, most_bytes)
    chosen = grow(len(cuboids.dimensions), unstarred, limits, cuboids.reduce, cuboids.num_bytes, cuboids.forget)
    kept = [cuboids.records[mask] for mask in chosen]
    took_ms = round((clock.monotonic_s() - begun_s) * 1000)
    ids = [part.ids for part in kept]
    arrays = _encoded(definition.bound, kept, cuboids.has_nan)
    return TreeContent(definition.config, cuboids.dimensions, _placed(kept), ids, arrays, took_ms)


class _Cuboids:
    """The cuboids of one tree computed so far, by their dimensions."""

    def __init__(self, view: QuerySegment, bound: BoundQuery, pool: WorkPool) -> None:
        self._view = view
        self._bound = bound
        self._pool = pool
        self.dimensions = [
            self._dimension(row, data_type) for row, (data_type, _) in zip(bound.rows, bound.row_types, strict=True)
        ]
        self._cardinalities = [dimension.cardinality for dimension in self.dimensions]
        self.records: dict[Kept, Records] = {}

    def _dimension(self, row: Expression, data_type: DataType) -> Dimension:
        text = to_text(row)
        dictionary = self._view.column(text).dictionary if isinstance(row, Column) else None
        if dictionary is not None:
            return Dimension(text, data_type, len(dictionary))
        table = group_segment((row,), (), self._every_doc, segment_reader(self._view), self._pool)
        values, _ = sort_distinct([_stored(table.keys[0])], data_type)
        return Dimension(text, data_type, len(values), values)

    @property
    def _every_doc(self) -> AllDocs:
        return AllDocs(0, self._view.num_docs)

    def _ids(self, place: int, key: Operand) -> Array:
        """Return the dictionary ids of a dimension's values."""
        dimension = self.dimensions[place]
        if dimension.values is None:
            assert isinstance(key, EncodedVector)
            return key.ids.astype(np.int32)
        _, (_, ids) = sort_distinct([dimension.values, _stored(key)], dimension.data_type)
        return ids

    @cached_property
    def _sample(self) -> list[Array]:
        """The ids of each dimension in a sample of the rows."""
        num_docs = self._view.num_docs
        docs = np.arange(0, num_docs, max(1, num_docs // _SAMPLED), dtype=np.int32)
        read = segment_reader(self._view)(DocList(docs))
        return [self._ids(place, read(row)) for place, row in enumerate(self._bound.rows)]

    def reduce(self, parent: Kept | None, kept: Kept, most: int) -> int | None:
        """Compute a cuboid; see `grow`."""
        places = tuple(place for place in range(len(self.dimensions)) if kept >> place & 1)
        found = self._of_rows(places, most) if parent is None else self._of_records(self.records[parent], places, most)
        if found is None:
            return None
        self.records[kept] = found
        return found.num_records

    def num_bytes(self, kept: Kept) -> int:
        """Return the size of a cuboid in a file."""
        records = self.records[kept]
        calls = zip(self._bound.aggregates, records.partials, strict=True)
        arrays = [array for call, partial in calls for array in call.aggregate.encode(partial)]
        widths = [np.dtype(id_dtype(self._cardinalities[place])).itemsize for place in records.kept]
        return int(sum(widths)) * records.num_records + sum(int(array.nbytes) for array in arrays)

    def forget(self, kept: Kept) -> None:
        """Release a cuboid."""
        del self.records[kept]

    def has_nan(self, call: BoundAggregate) -> bool:
        """Whether an aggregate consists of bounds, and its values include NaN."""
        aggregate = call.aggregate
        if not isinstance(aggregate, Numeric) or aggregate.argument_type not in (DataType.FLOAT, DataType.DOUBLE):
            return False
        (partial,) = aggregate_segment((call,), self._every_doc, segment_reader(self._view), self._pool)
        return any(bounds is not None and np.isnan(bounds).any() for bounds in (partial.lows, partial.highs))

    def _of_rows(self, places: tuple[int, ...], most: int) -> Records | None:
        if self._estimate([self._sample[place] for place in places], places, self._view.num_docs) > most:
            return None
        rows = [self._bound.rows[place] for place in places]
        reader = segment_reader(self._view)
        aggregates = self._bound.aggregates
        if rows:
            table = group_segment(rows, aggregates, self._every_doc, reader, self._pool)
        else:
            table = GroupTable((), aggregate_segment(aggregates, self._every_doc, reader, self._pool), 1)
        if table.num_groups > most:
            return None
        ids = [self._ids(place, key) for place, key in zip(places, table.keys, strict=True)]
        order = np.lexsort(ids[::-1]) if ids else np.zeros(1, np.int64)
        partials = [call.aggregate.select(part, order) for call, part in zip(aggregates, table.partials, strict=True)]
        return Records(places, tuple(part[order] for part in ids), tuple(partials), table.num_groups)

    def _of_records(self, source: Records, places: tuple[int, ...], most: int) -> Records | None:
        ids = [source.ids[source.kept.index(place)] for place in places]
        step = source.num_records // _SAMPLED
        if step > 1 and self._estimate([part[::step] for part in ids], places, source.num_records) > most:
            return None
        numbers, codes = _groups(ids, [self._cardinalities[place] for place in places], source.num_records, most)
        if numbers is None:
            return None
        size = len(codes[0]) if codes else 1
        partials = [
            call.aggregate.merge([partial], [numbers], size)
            for call, partial in zip(self._bound.aggregates, source.partials, strict=True)
        ]
        return Records(places, tuple(codes), tuple(partials), size)

    def _estimate(self, sample: Sequence[Array], places: Sequence[int], num_rows: int) -> float:
        """Return the approximate minimum number of combinations of ids, by a sample of the rows.

        A. Chao, Nonparametric estimation of the number of classes in a population (1984): the more of the combinations in a
        sample occur only once, the more there are that are not in the sample.
        """
        cardinalities = [self._cardinalities[place] for place in places]
        if not places or prod(cardinalities) <= len(sample[0]):
            return 0.0
        numbering = HashedNumbering(cardinalities, CODES_MAX)
        counts = np.bincount(numbering.number(sample))
        once, twice = int(np.count_nonzero(counts == 1)), int(np.count_nonzero(counts == 2))
        return min(len(counts) + once * once / (2 * max(twice, 1)), float(num_rows)) * _ESTIMATE_TRUST


def _stored(operand: Operand) -> Stored:
    """Return values in stored form."""
    vector = operand.decode() if isinstance(operand, EncodedVector) else operand
    assert isinstance(vector, Vector)
    return from_arrow(arrow_array(vector), vector.type)


def _groups(
    ids: Sequence[Array], cardinalities: Sequence[int], num_rows: int, most: int
) -> tuple[Array | None, Sequence[Array]]:
    """Return the group of each row, int32, and the ids of each group, ascending; None if there are more than `most`
    groups."""
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


def _placed(parts: Sequence[Records]) -> list[Cuboid]:
    cuboids: list[Cuboid] = []
    start = 0
    for part in parts:
        cuboids.append(Cuboid(part.kept, start, start + part.num_records))
        start += part.num_records
    return cuboids


def _encoded(
    bound: BoundQuery, parts: Sequence[Records], has_nan: Callable[[BoundAggregate], bool]
) -> dict[str, list["Array | pa.Array"]]:
    """Return the arrays of each aggregate over the records of all cuboids.

    Bounds of values that may be NaN are left out, as groups ignore NaN but queries without groups must not.
    """
    encoded: dict[str, list[Array | pa.Array]] = {}
    for number, call in enumerate(bound.aggregates):
        if has_nan(call):
            encoded[to_text(call.call)] = []
            continue
        pieces = [call.aggregate.encode(part.partials[number]) for part in parts]
        encoded[to_text(call.call)] = [_joined(arrays) for arrays in zip(*pieces, strict=True)]
    return encoded


def _joined(arrays: Sequence["Array | pa.Array"]) -> "Array | pa.Array":
    if all(isinstance(array, np.ndarray) for array in arrays):
        return np.concatenate(arrays)
    return pa.concat_arrays(list(arrays))

"""An immutable view of a consuming segment at one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from pyroaring import BitMap

from gamay.base.errors import nearest
from gamay.functions.vector import take
from gamay.model.index.timestamp_index import MILLIS_SUFFIX, TimestampColumn
from gamay.model.types import DataType
from gamay.segment.encode.forward import AlignedIds, IdReader
from gamay.segment.encode.metadata import TIMESTAMP_COLUMNS, timestamps_to_json
from gamay.segment.encode.raw import PlainFixed, RawReader
from gamay.segment.encode.storage_form import Stored, fixed_dtype
from gamay.segment.mutable.column import ColumnState
from gamay.segment.mutable.dictionary import ArrivalDictionary
from gamay.segment.mutable.inverted import ViewPostings
from gamay.segment.read.rows import ColumnRows
from gamay.segment.spi import INVERTED, NULLS, ColumnStats, Ids, IndexKey, SecondaryIndex, T
from gamay.segment.zones import Zones


class ViewColumn(ColumnRows):
    """Implements `segment.spi.Column`."""

    def __init__(self, state: ColumnState, indexes: Sequence[SecondaryIndex] = ()) -> None:
        spec = state.plan.spec
        self.indexes = indexes
        self.name = spec.name
        self.data_type = spec.data_type
        self.single_value = spec.single_value
        self.num_docs = state.num_docs
        self.state = state

    @cached_property
    def millis(self) -> "ViewColumn":
        """Return a dictionary-encoded TIMESTAMP column as LONG, with the same rows under another name."""
        plan, dictionary = self.state.plan, self.dictionary
        assert dictionary is not None
        spec = replace(plan.spec, name=self.name + MILLIS_SUFFIX, data_type=DataType.LONG)
        return ViewColumn(replace(self.state, plan=replace(plan, spec=spec), dictionary=dictionary.of_type(DataType.LONG)))

    @property
    def whole(self) -> object:
        """What all views of the column have in common: that which is told of its nulls."""
        return self.state.nulls

    @property
    def dictionary(self) -> ArrivalDictionary | None:
        return self.state.dictionary

    def index(self, key: IndexKey[T]) -> T | None:
        if key is INVERTED:
            return key.of(self._postings)
        return key.of(self.null_docs) if key is NULLS else None

    @cached_property
    def _postings(self) -> ViewPostings | None:
        state = self.state
        if state.postings is None or state.ids is None or state.dictionary is None:
            return None
        offsets = None if self.single_value else self._offsets
        return ViewPostings(state.postings, state.ids[: state.num_values], offsets, len(state.dictionary))

    @cached_property
    def zones(self) -> Zones | None:
        """The bounds of raw numbers by zone."""
        return None if self.state.zones is None else self.state.zones.of_first(self.num_docs)

    @cached_property
    def null_docs(self) -> BitMap | None:
        return self.state.nulls.docs(self.num_docs) if self.state.plan.keep_nulls and self.state.num_nulls else None

    @cached_property
    def stats(self) -> ColumnStats:
        state, running, dictionary = self.state, self.state.running, self.dictionary
        minimum, maximum = (running.minimum, running.maximum) if dictionary is None else dictionary.bounds
        return ColumnStats(
            cardinality=None if dictionary is None else len(dictionary),
            minimum=minimum,
            maximum=maximum,
            total=running.total,
            is_sorted=running.is_sorted,
            num_values=state.num_values,
            max_values_per_row=running.max_values_per_row,
            num_nulls=state.num_nulls,
            partition=None,
        )

    @cached_property
    def sorted_values(self) -> PlainFixed | None:
        """The raw values if they are fixed-width and ascend."""
        raw = self._raw if self.dictionary is None and self.stats.is_sorted else None
        return raw if isinstance(raw, PlainFixed) else None

    @cached_property
    def _ids(self) -> IdReader:
        if self.state.ids is None:
            raise ValueError(f"column '{self.name}' has no dictionary, so it has no ids")
        return AlignedIds(self.state.ids[: self.state.num_values])

    @cached_property
    def _raw(self) -> RawReader:
        if fixed_dtype(self.data_type) is not None:
            return PlainFixed(self.state.values)
        return _Texts(self.state.values)

    @cached_property
    def _offsets(self) -> Ids:
        if self.state.offsets is None:
            raise ValueError(f"column '{self.name}' is single-value, so it has no offsets")
        return self.state.offsets[: self.num_docs + 1]


class _Texts:
    """Raw values of any width; implements `segment.raw.RawReader`."""

    def __init__(self, values: Stored) -> None:
        self._values = values

    def range(self, start: int, stop: int) -> Stored:
        return self._values[start:stop]

    def at(self, positions: Ids) -> Stored:
        return take(self._values, positions)


class SegmentView:
    """Implements `segment.spi.Segment`. Its metadata has the entries that virtual columns need, and the derived columns.

    indexes: by column, the secondary indexes, which may cover only the earlier rows.
    """

    def __init__(
        self,
        name: str,
        states: Sequence[ColumnState],
        num_docs: int,
        created_ms: int,
        timestamp_columns: Sequence[TimestampColumn] = (),
        indexes: Mapping[str, Sequence[SecondaryIndex]] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.num_docs = num_docs
        self.states = states
        self._created_ms = created_ms
        self._timestamp_columns = timestamp_columns
        self.indexes = indexes
        self._columns: dict[str, ViewColumn] = {}

    def with_indexes(self, indexes: Mapping[str, Sequence[SecondaryIndex]]) -> "SegmentView":
        """Return a view of the same rows with other indexes."""
        return SegmentView(self.name, self.states, self.num_docs, self._created_ms, self._timestamp_columns, indexes)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(state.plan.spec.name for state in self.states)

    @cached_property
    def metadata(self) -> Mapping[str, Any]:
        derived = {TIMESTAMP_COLUMNS: timestamps_to_json(self._timestamp_columns)}
        own = {"name": self.name, "numDocs": self.num_docs, "creationTimeMs": self._created_ms}
        return {**own, **derived} if self._timestamp_columns else own

    def column(self, name: str) -> ViewColumn:
        """Return a column; raises KeyError when the segment does not have it."""
        column = self._columns.get(name)
        if column is None:
            state = next((state for state in self.states if state.plan.spec.name == name), None)
            if state is None:
                raise KeyError(f"segment '{self.name}' has no column '{name}'.{nearest(name, self.column_names)}")
            column = self._columns.setdefault(name, ViewColumn(state, self.indexes.get(name, ())))
        return column

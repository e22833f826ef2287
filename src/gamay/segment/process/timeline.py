"""The times of rows: selection of rows in a window, and rounding."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import InvalidConfigError
from gamay.functions.scalar.time.dates import rescale
from gamay.functions.scalar.time.epochs import printed, to_millis
from gamay.functions.vector import Vector, take
from gamay.model.schema.datetime_format import DateTimeFormat, DateTimeKind
from gamay.model.schema.schema import FieldSpec
from gamay.segment.encode.storage_form import Stored, concat_stored, empty_stored, fixed_dtype, from_arrow, to_values
from gamay.segment.read.reader import ImmutableSegment
from gamay.segment.spi import DocIds
from gamay.segment.write.row_subset import KeptRows


class Timeline:
    """The time column of a table. spec: of the column; raises InvalidConfigError if it has no time format."""

    def __init__(self, spec: FieldSpec) -> None:
        if spec.format is None:
            raise InvalidConfigError(f"the time column '{spec.name}' has no format, so its rows have no time")
        self.spec = spec
        self._format: DateTimeFormat = spec.format

    def rows_within(self, segment: ImmutableSegment, docs: DocIds, window: tuple[int, int]) -> DocIds:
        """Return those of `docs` whose time is in a window of milliseconds, first included, second not."""
        info = segment.info
        if info.start_time_ms is not None and info.end_time_ms is not None:
            if window[0] <= info.start_time_ms and info.end_time_ms < window[1]:
                return docs
            if info.end_time_ms < window[0] or info.start_time_ms >= window[1]:
                return docs[:0]
        millis = self._by_doc(segment, docs)
        return docs[(millis >= window[0]) & (millis < window[1])]

    def millis(self, parts: Sequence[KeptRows]) -> Array:
        """Return the times of rows in milliseconds: int64."""
        found = [self._by_doc(part.segment, part.docs) for part in parts]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def rounded(self, parts: Sequence[KeptRows], round_ms: int) -> Stored:
        """Return the times of rows, rounded down to multiples of `round_ms`, in stored form."""
        values = [self._stored(part.segment, part.docs, round_ms) for part in parts]
        return concat_stored(values) if values else empty_stored(self.spec.data_type)

    def _by_doc(self, segment: ImmutableSegment, docs: DocIds) -> Array:
        column = segment.column(self.spec.name).with_forward()
        stored, _ = column.stored_at(docs)
        if column.dictionary is None:
            return self._to_millis(stored)
        return np.asarray(take(self._to_millis(column.dictionary.stored), stored))

    def _stored(self, segment: ImmutableSegment, docs: DocIds, round_ms: int) -> Stored:
        column = segment.column(self.spec.name).with_forward()
        stored, _ = column.stored_at(docs)
        if column.dictionary is None:
            return self._round(stored, round_ms)
        return take(self._round(column.dictionary.stored, round_ms), stored)

    def _to_millis(self, stored: Stored) -> Array:
        data_type = self.spec.data_type
        vector = Vector(data_type, to_values(stored, data_type))
        return np.asarray(to_millis(vector, self._format, len(vector)), np.int64)

    def _round(self, stored: Stored, round_ms: int) -> Stored:
        if not len(stored):
            return stored
        millis = self._to_millis(stored) // round_ms * round_ms
        data_type, kind = self.spec.data_type, self._format.kind
        if kind is DateTimeKind.SIMPLE_DATE_FORMAT:
            texts = printed(millis, self._format)
            if data_type.is_text:
                return from_arrow(texts, data_type)
            return texts.cast(pa.int64()).to_numpy().astype(fixed_dtype(data_type))
        if kind is DateTimeKind.EPOCH:
            millis = rescale(millis, 1_000_000, self._format.unit.value * self._format.size)
        if data_type.is_text:
            return pa.array(millis).cast(pa.string()).view(pa.binary())
        return np.asarray(millis).astype(fixed_dtype(data_type))

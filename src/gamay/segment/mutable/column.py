"""One column of a consuming segment, for its writer; readers use a `ColumnState`."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import arrow_scalar
from gamay.functions.vector import take
from gamay.model.types import DataType
from gamay.segment.encode.forward import id_dtype
from gamay.segment.encode.storage_form import Stored, binary_array, binary_buffers, fixed_dtype, from_arrow
from gamay.segment.mutable.buffers import BufferFolder, MemoryUse
from gamay.segment.mutable.dictionary import ArrivalDictionary, make_dictionary
from gamay.segment.mutable.inverted import ChainedPostings
from gamay.segment.mutable.nulls import NullBits
from gamay.segment.mutable.running import Running
from gamay.segment.mutable.sizing import ColumnSizing
from gamay.segment.mutable.zones import GrowingZones
from gamay.segment.spi import Ids
from gamay.segment.write.accumulate import without_nulls
from gamay.segment.write.column_writer import ColumnPlan

_VALUES_MAX = 2**31 - 1
# From this number of values on, and whenever it has doubled, check whether the dictionary is worthwhile.
FIRST_CHECK = 1 << 14
_NULL_CODE = np.uint32(0xFFFFFFFF)


class NullDocs(Protocol):
    """Source of the null docs of the first rows."""

    def docs(self, num_docs: int) -> BitMap: ...


@dataclass(frozen=True, slots=True)
class ColumnState:
    """An immutable snapshot of the first `num_docs` rows of a column, for readers.

    dictionary, ids: of a dictionary column; ids may be longer than num_values. values: of a raw column, exactly num_values.
    offsets: int32, at least num_docs + 1, of a multi-value column. postings, zones: inverted index and zone map, which may
    cover more rows; the view limits them to its own.
    """

    plan: ColumnPlan
    num_docs: int
    num_values: int
    dictionary: ArrivalDictionary | None
    ids: "Ids | None"
    values: Stored
    offsets: "Ids | None"
    nulls: NullDocs
    num_nulls: int
    running: Running
    postings: ChainedPostings | None
    zones: GrowingZones | None


class _Forward(Protocol):
    """Values of a column end to end, encoded or raw, with their inverted index and zone map."""

    postings: ChainedPostings | None
    zones: GrowingZones | None

    @property
    def num_values(self) -> int: ...
    @property
    def num_entries(self) -> int: ...
    @property
    def width(self) -> float: ...
    def append(self, values: Stored) -> None: ...
    def frozen(self) -> "tuple[ArrivalDictionary | None, Ids | None, Stored]": ...
    def memory(self) -> dict[str, MemoryUse]: ...


class MutableColumn:
    """The growing column, to which batches of rows are appended."""

    def __init__(
        self, plan: ColumnPlan, buffers: BufferFolder, rows: int, sizing: ColumnSizing, is_sort_key: bool, is_row_key: bool
    ) -> None:
        """Create the buffers for about `rows` rows of the average size in `sizing`.

        is_sort_key: the sealed rows will be sorted by the column; until then an inverted index replaces the sorted one.
        is_row_key: rows are merged by the ids of the column, so its dictionary is always kept.
        """
        spec = plan.spec
        self.plan = plan
        self._default = arrow_scalar(plan.default, spec.data_type)
        self._buffers = buffers
        self._expected = num_values = int(rows * sizing.values_per_row)
        self._forward: _Forward
        cardinality = min(num_values, sizing.cardinality)
        pays = is_row_key or num_values < FIRST_CHECK or plan.dictionary_pays(num_values, cardinality)
        if plan.config.dictionary and pays:
            inverted = plan.config.inverted or (is_sort_key and not plan.config.may_drop_dictionary)
            self._forward = _EncodedForward(spec.data_type, buffers, num_values, sizing, inverted)
        else:
            self._forward = self._raw_forward(sizing.width)
        self._next_check = _VALUES_MAX if is_row_key else FIRST_CHECK
        self._offsets = None if spec.single_value else buffers.array(np.int32, rows + 1)
        if self._offsets is not None:
            self._offsets.used = 1
        self._nulls = NullBits(buffers)
        self._running = Running.empty(spec.data_type, spec.single_value)
        self._num_docs = 0

    def follow(self, plan: ColumnPlan) -> None:
        """Apply a plan with another default to future rows; the rest of the plan must be unchanged."""
        self.plan = plan
        self._default = arrow_scalar(plan.default, plan.spec.data_type)

    @property
    def num_nulls(self) -> int:
        """The number of null rows."""
        return self._nulls.count

    def append(self, array: pa.Array) -> None:
        """Append rows: an array of the schema's type, nulls included.

        Raises InvalidConfigError if the column would exceed the range of 32-bit offsets, and DiskFullError.
        """
        spec = self.plan.spec
        if len(array) == 0:
            return
        present, lengths, nulls = without_nulls(array, spec.single_value, self._default)
        values = from_arrow(present, spec.data_type)
        if self._forward.num_values + len(values) > _VALUES_MAX:
            raise InvalidConfigError(
                f"column '{spec.name}' would have more than {_VALUES_MAX:,} values in one segment: make segments smaller"
            )
        first_value = self._forward.num_values
        self._forward.append(values)
        if self._offsets is not None and lengths is not None:
            self._offsets.append((np.cumsum(lengths, dtype=np.int64) + first_value).astype(np.int32))
        self._nulls.mark(nulls, self._num_docs)
        self._running = self._running.after(values, lengths, spec.data_type)
        self._num_docs += len(array)
        if self._forward.num_values >= self._next_check:
            self._next_check *= 2
            self._drop_useless_dictionary()

    @property
    def fullness(self) -> float:
        """The used fraction of the range of 32-bit offsets, in values or in bytes of texts: 0 to 1."""
        texts = 0 if self.plan.spec.data_type.is_fixed_width else self._forward.width * self._forward.num_entries
        return max(self._forward.num_values, texts) / _VALUES_MAX

    def encode(self, array: pa.Array) -> Ids:
        """Return a code for each value of an array of the schema's type, with a separate code for null: uint32.

        Adds new values to the dictionary, but does not append rows. Only for a column whose dictionary is always kept.
        """
        assert isinstance(self._forward, _EncodedForward)
        present, _, nulls = without_nulls(array, True, self._default)
        ids = self._forward.encode(from_arrow(present, self.plan.spec.data_type))
        return ids if nulls is None or not self.plan.keep_nulls else np.where(nulls, _NULL_CODE, ids)

    def _raw_forward(self, width: float) -> _Forward:
        if fixed_dtype(self.plan.spec.data_type) is not None:
            return _FixedForward(self.plan, self._buffers, self._expected)
        return _TextForward(self._buffers, self._expected, width)

    def _drop_useless_dictionary(self) -> None:
        """Switch to raw values if the sealed segment would not have a dictionary."""
        old = self._forward
        if not isinstance(old, _EncodedForward) or self.plan.dictionary_pays(old.num_values, old.num_entries):
            return
        dictionary, ids, _ = old.frozen()
        self._forward = self._raw_forward(old.width)
        self._forward.append(take(dictionary.stored, ids[: old.num_values]))
        old.remove()

    def state(self) -> ColumnState:
        """Return a snapshot of the present rows, for readers."""
        dictionary, ids, values = self._forward.frozen()
        return ColumnState(
            plan=self.plan,
            num_docs=self._num_docs,
            num_values=self._forward.num_values,
            dictionary=dictionary,
            ids=ids,
            values=values,
            offsets=None if self._offsets is None else self._offsets.readable,
            nulls=self._nulls,
            num_nulls=self._nulls.count,
            running=self._running,
            postings=self._forward.postings,
            zones=self._forward.zones,
        )

    @property
    def width(self) -> float:
        """Average bytes of a stored value: a dictionary entry or a raw value."""
        return self._forward.width

    def memory(self) -> dict[str, MemoryUse]:
        """Return the memory use of each part of the column: `dictionary`, `forward`, `inverted`, `null`."""
        parts = self._forward.memory()
        if self._offsets is not None:
            parts["forward"] = parts["forward"] + self._offsets.memory
        parts["null"] = self._nulls.memory()
        if self._forward.postings is not None:
            parts["inverted"] = self._forward.postings.memory()
        return {part: use for part, use in parts.items() if use.reserved}


class _EncodedForward:
    """Ids in the narrowest width for the dictionary; when it outgrows the width, they are copied to a wider array."""

    zones: GrowingZones | None = None

    def __init__(
        self, data_type: DataType, buffers: BufferFolder, num_values: int, sizing: ColumnSizing, inverted: bool
    ) -> None:
        self._buffers = buffers
        self._expected = num_values
        self._dictionary = make_dictionary(data_type, buffers, sizing.cardinality, sizing.width)
        # the final width according to the history: widening needs another file, and a copy of the ids
        self._ids = buffers.array(id_dtype(min(num_values, sizing.cardinality)), num_values)
        self.postings = ChainedPostings(buffers, num_values, sizing.cardinality) if inverted else None

    @property
    def num_entries(self) -> int:
        return len(self._dictionary)

    def encode(self, values: Stored) -> Ids:
        """Return the ids of values without appending these: uint32."""
        ids = np.empty(len(values), np.uint32)
        self._dictionary.encode(values, 0, _VALUES_MAX, ids)
        return ids

    @property
    def num_values(self) -> int:
        return self._ids.used

    @property
    def width(self) -> float:
        return self._dictionary.width

    def append(self, values: Stored) -> None:
        first, total = self.num_values, self.num_values + len(values)
        self._ids.reserve(total)
        position = 0
        if id_dtype(self.num_entries).itemsize > self._ids.dtype.itemsize:  # `encode` may have added entries
            self._widen(first, total, self.num_entries)
        while True:
            limit = 1 << min(31, 8 * self._ids.dtype.itemsize)
            position = self._dictionary.encode(values, position, limit, self._ids.array[first:total])
            if position == len(values):
                break
            self._widen(first + position, total, self.num_entries + 1)
        self._ids.used = total
        if self.postings is not None:
            self.postings.append(self._ids.array[first:total], len(self._dictionary))

    def _widen(self, used: int, needed: int, cardinality: int) -> None:
        old = self._ids
        self._ids = self._buffers.array(id_dtype(cardinality), max(self._expected, needed))
        self._ids.reserve(needed)
        self._ids.array[:used] = old.array[:used]
        old.remove()

    def remove(self) -> None:
        """Remove the files, after the values were converted to another form."""
        self._dictionary.remove()
        self._ids.remove()

    def frozen(self) -> tuple[ArrivalDictionary, Ids, Stored]:
        return self._dictionary.frozen(), self._ids.readable, None

    def memory(self) -> dict[str, MemoryUse]:
        return {"dictionary": self._dictionary.memory(), "forward": self._ids.memory}


class _FixedForward:
    """Raw values of fixed width."""

    postings: ChainedPostings | None = None

    def __init__(self, plan: ColumnPlan, buffers: BufferFolder, num_values: int) -> None:
        dtype = fixed_dtype(plan.spec.data_type)
        assert dtype is not None
        self._values = buffers.array(dtype, num_values)
        has_zones = plan.spec.single_value and plan.spec.data_type is not DataType.BOOLEAN
        self.zones = GrowingZones(dtype) if has_zones else None

    @property
    def num_values(self) -> int:
        return self._values.used

    @property
    def num_entries(self) -> int:
        return self._values.used

    @property
    def width(self) -> float:
        return float(self._values.dtype.itemsize)

    def append(self, values: Stored) -> None:
        if self.zones is not None:
            self.zones.append(values, self._values.used)
        self._values.append(values)

    def frozen(self) -> tuple[None, None, Stored]:
        return None, None, self._values.readable[: self._values.used]

    def memory(self) -> dict[str, MemoryUse]:
        return {"forward": self._values.memory}


class _TextForward:
    """Raw values of any width."""

    postings: ChainedPostings | None = None
    zones: GrowingZones | None = None

    def __init__(self, buffers: BufferFolder, num_values: int, width: float) -> None:
        self._offsets = buffers.array(np.int32, num_values + 1)
        self._offsets.used = 1
        self._data = buffers.array(np.uint8, int(num_values * width))

    @property
    def num_values(self) -> int:
        return self._offsets.used - 1

    @property
    def num_entries(self) -> int:
        return self._offsets.used - 1

    @property
    def width(self) -> float:
        return self._data.used / max(1, self.num_values)

    def append(self, values: Stored) -> None:
        offsets, data = binary_buffers(values)
        base = self._data.used
        if base + len(data) > _VALUES_MAX:
            raise InvalidConfigError(
                f"a column would have more than {_VALUES_MAX:,} bytes of values in one segment: make segments smaller"
            )
        self._data.append(data)
        self._offsets.append(offsets[1:] + np.int32(base))

    def frozen(self) -> tuple[None, None, Stored]:
        offsets = self._offsets.readable[: self._offsets.used]
        return None, None, binary_array(offsets, self._data.readable[: self._data.used])

    def memory(self) -> dict[str, MemoryUse]:
        return {"forward": self._offsets.memory + self._data.memory}

"""Dictionaries in order of arrival: those of the writer, and their snapshots for readers.

BIG_DECIMAL has two: of the forms as received (1.0, 1.00), and of the values, whose ids the rows have.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from gamay.base.errors import InvalidConfigError
from gamay.functions.expression import LiteralValue
from gamay.functions.vector import Vector, take
from gamay.kernels.hash import arrival
from gamay.model.types import DataType
from gamay.segment.encode.storage_form import Stored, binary_array, binary_buffers, fixed_dtype, from_python, to_values
from gamay.segment.encode.value_text import plain_form
from gamay.segment.mutable.buffers import BufferFolder, MemoryUse, reserved_bytes
from gamay.segment.mutable.running import greatest, least
from gamay.segment.spi import Ids
from gamay.segment.write.stats import value_bounds

_TEXT_BYTES_MAX = 2**31 - 1
# Least number of slots per entry, to keep probe sequences short.
_SLOTS_PER_ENTRY = 1.4
_SLOTS_MIN = 512


class Found(Protocol):
    """Lookup of a value in stored form among the entries of a snapshot; -1 if it is absent."""

    def __call__(self, value: Any, /) -> int: ...


class Bounds:
    """Cached least and greatest of the first entries, so that each reader only scans new entries."""

    def __init__(self, data_type: DataType) -> None:
        self._data_type = data_type
        self._known: tuple[int, LiteralValue, LiteralValue] = (0, None, None)

    def of(self, stored: Stored) -> tuple[LiteralValue, LiteralValue]:
        """Return the bounds of all entries in `stored`; None if there are none."""
        known, low, high = self._known
        if known > len(stored):
            known, low, high = 0, None, None
        if known < len(stored):
            new_low, new_high = value_bounds(stored[known:], self._data_type)
            low, high = least(low, new_low), greatest(high, new_high)
            self._known = (len(stored), low, high)
        return low, high


class ArrivalDictionary:
    """A snapshot of the first entries of a dictionary, for readers; implements `segment.spi.Dictionary`."""

    is_sorted = False

    def __init__(self, data_type: DataType, stored: Stored, find: Found, bounds: Bounds) -> None:
        self.data_type = data_type
        self.stored = stored
        self._find = find
        self._bounds = bounds

    def __len__(self) -> int:
        return len(self.stored)

    @cached_property
    def values(self) -> Vector:
        """All values, by id."""
        return Vector(self.data_type, to_values(self.stored, self.data_type), derived={})

    def of_type(self, data_type: DataType) -> "ArrivalDictionary":
        """Return the entries as those of another type with the same stored form."""
        return ArrivalDictionary(data_type, self.stored, self._find, self._bounds)

    @cached_property
    def bounds(self) -> tuple[LiteralValue, LiteralValue]:
        """The least and the greatest value; None if there are none."""
        return self._bounds.of(self.stored)

    def id_of(self, value: LiteralValue) -> int:
        """Return the id of a value of the column's type, or -1 when it does not occur."""
        return self._find(from_python(value, self.data_type))

    def ids_of(self, values: Sequence[LiteralValue]) -> Ids:
        """Return the distinct ids of the values that occur, ascending: int32 [k]."""
        found = {self.id_of(value) for value in values}
        return np.array(sorted(found - {-1}), np.int32)

    def id_range(
        self, lower: LiteralValue, upper: LiteralValue, lower_inclusive: bool, upper_inclusive: bool
    ) -> tuple[int, int]:
        """Raise TypeError: ids in order of arrival have no ranges of values."""
        raise TypeError("the dictionary is in order of arrival, so a range of values is not a range of ids")


class MutableDictionary(Protocol):
    """Entries with ids from 0; one writer."""

    def __len__(self) -> int: ...

    @property
    def width(self) -> float:
        """Average bytes of an entry."""
        ...

    def encode(self, values: Stored, start: int, limit: int, ids: Ids) -> int:
        """Write the ids of values[start:] into ids[start:], adding new entries.

        Returns the position where it stopped: at the value that would become entry `limit`, else the end.
        """
        ...

    def frozen(self) -> ArrivalDictionary:
        """Return a snapshot of the entries; the same object while there are no new ones."""
        ...

    def memory(self) -> MemoryUse:
        """Return the memory use of entries and hash table."""
        ...

    def remove(self) -> None:
        """Remove the files; snapshots stay valid."""
        ...


def _slots(entries: int) -> int:
    return max(_SLOTS_MIN, 1 << (int(entries * _SLOTS_PER_ENTRY) - 1).bit_length())


def _entries_max(slots: int) -> int:
    return int(slots / _SLOTS_PER_ENTRY)


def slots_after(entries: int, expected: int) -> int:
    """Return the slots of a `HashTable` created for `expected` entries that now has `entries`."""
    slots = _slots(expected)
    while _entries_max(slots) < entries:
        slots = _slots(_entries_max(slots) * 2)
    return slots


class HashTable:
    """Hash table of slots; replaced by a larger one, with all entries inserted again, when full. dtype: of the slots."""

    def __init__(self, buffers: BufferFolder, dtype: "np.dtype[Any]", expected: int) -> None:
        self._buffers = buffers
        self._dtype = dtype
        self._make(expected)

    def _make(self, entries: int) -> None:
        slots = _slots(entries)
        self._file = self._buffers.array(self._dtype, slots)
        self._file.reserve(slots)
        self._file.used = slots
        self.slots = self._file.array[:slots]
        self.entries_max = _entries_max(slots)

    def grow(self) -> None:
        """Allocate an empty table of twice the size; readers keep the former one."""
        old = self._file
        self._make(self.entries_max * 2)
        old.remove()

    @property
    def memory(self) -> MemoryUse:
        """The memory use of the slots."""
        return self._file.memory

    def remove(self) -> None:
        """Remove the file."""
        self._file.remove()


class NumberDictionary:
    """Entries of fixed width, compared by their bits."""

    def __init__(self, data_type: DataType, buffers: BufferFolder, expected: int) -> None:
        dtype = fixed_dtype(data_type)
        assert dtype is not None
        self._data_type = data_type
        self._bounds = Bounds(data_type)
        self._bits = np.dtype(f"i{dtype.itemsize}")
        self._entries = buffers.array(dtype, expected)
        self._table = HashTable(buffers, np.dtype(np.uint32), expected)
        self._frozen: ArrivalDictionary | None = None

    def __len__(self) -> int:
        return self._entries.used

    @property
    def width(self) -> float:
        return float(self._entries.dtype.itemsize)

    def encode(self, values: Stored, start: int, limit: int, ids: Ids) -> int:
        bits, entries = values.view(self._bits), self._entries
        while True:
            stop = min(limit, self._table.entries_max, entries.room)
            start, count = arrival.encode_numbers(
                bits, start, self._table.slots, entries.array.view(self._bits), entries.used, stop, ids
            )
            entries.used = count
            if start == len(bits) or count == limit:
                return int(start)
            if count == entries.room:
                entries.reserve(count + 1)
            if count == self._table.entries_max:
                self._table.grow()
                arrival.index_numbers(entries.array.view(self._bits), count, self._table.slots)

    def frozen(self) -> ArrivalDictionary:
        count = len(self)
        if self._frozen is None or len(self._frozen) != count:
            slots, entries = self._table.slots, self._entries.readable[:count]
            bits = entries.view(self._bits)

            def find(value: Any) -> int:
                wanted = np.array([value], entries.dtype)
                # a FLOAT is rounded like the column's values; -0.0 is stored as 0.0
                wanted = (wanted + 0 if wanted.dtype.kind == "f" else wanted).view(self._bits)
                return int(arrival.find_number(wanted[0], slots, bits, count))

            self._frozen = ArrivalDictionary(self._data_type, entries, find, self._bounds)
        return self._frozen

    def memory(self) -> MemoryUse:
        return self._entries.memory + self._table.memory

    def remove(self) -> None:
        self._entries.remove()
        self._table.remove()


class TextDictionary:
    """Entries of any width, compared byte by byte."""

    def __init__(self, data_type: DataType, buffers: BufferFolder, expected: int, width: float) -> None:
        self._data_type = data_type
        self._bounds = Bounds(data_type)
        self._offsets = buffers.array(np.int32, expected + 1)
        self._offsets.used = 1
        self._data = buffers.array(np.uint8, int(expected * width))
        self._table = HashTable(buffers, np.dtype(np.uint64), expected)
        self._frozen: ArrivalDictionary | None = None

    def __len__(self) -> int:
        return self._offsets.used - 1

    @property
    def width(self) -> float:
        return self._data.used / max(1, len(self))

    def encode(self, values: Stored, start: int, limit: int, ids: Ids) -> int:
        offsets, data = binary_buffers(values)
        while True:
            stop = min(limit, self._table.entries_max, self._offsets.room - 1)
            room = self._data.array[: self._data.room]
            start, count = arrival.encode_texts(
                data, offsets, start, self._table.slots, room, self._offsets.array, len(self), stop, ids
            )
            self._offsets.used = count + 1
            self._data.used = int(self._offsets.array[count])
            if start == len(offsets) - 1 or count == limit:
                return int(start)
            self._grow(int(offsets[start + 1] - offsets[start]))

    def _grow(self, size: int) -> None:
        """Grow the buffers that lack space for one more entry of `size` bytes."""
        count, end = len(self), self._data.used + size
        if end > _TEXT_BYTES_MAX:
            raise InvalidConfigError(
                f"a column's distinct values have more than {_TEXT_BYTES_MAX:,} bytes in one segment: make segments smaller"
            )
        self._offsets.reserve(count + 2)
        self._data.reserve(end)
        if count == self._table.entries_max:
            slots = self._table.slots
            self._table.grow()
            arrival.move_texts(slots, self._table.slots)

    def frozen(self) -> ArrivalDictionary:
        count = len(self)
        if self._frozen is None or len(self._frozen) != count:
            slots, offsets, data = self._table.slots, self._offsets.readable[: count + 1], self._data.readable

            def find(value: Any) -> int:
                return int(arrival.find_text(np.frombuffer(value, np.uint8), slots, data, offsets, count))

            stored = binary_array(offsets, data[: self._data.used])
            self._frozen = ArrivalDictionary(self._data_type, stored, find, self._bounds)
        return self._frozen

    def memory(self) -> MemoryUse:
        return self._offsets.memory + self._data.memory + self._table.memory

    def remove(self) -> None:
        self._offsets.remove()
        self._data.remove()
        self._table.remove()


class DecimalDictionary:
    """Entries compared as numbers; of the forms of a number, the one with the fewest digits is shown."""

    def __init__(self, buffers: BufferFolder, expected: int, width: float) -> None:
        self._forms = TextDictionary(DataType.BIG_DECIMAL, buffers, expected, width)
        self._numbers = TextDictionary(DataType.BIG_DECIMAL, buffers, expected, width)
        self._number_of_form = buffers.array(np.uint32, expected)
        # copied on write when a shorter form of a number arrives: readers keep the former array
        self._best_form = np.empty(0, np.int64)
        self._bounds = Bounds(DataType.BIG_DECIMAL)
        self._frozen: ArrivalDictionary | None = None

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def width(self) -> float:
        return self._forms.width

    def encode(self, values: Stored, start: int, limit: int, ids: Ids) -> int:
        forms = np.empty(len(values), np.uint32)
        self._forms.encode(values, 0, len(self._forms) + len(values), forms)
        known = self._number_of_form.used
        if len(self._forms) > known:
            self._add_forms(self._forms.frozen().stored[known:])
        numbers = self._number_of_form.array[forms]
        beyond = np.flatnonzero(numbers[start:] >= limit)
        stop = start + int(beyond[0]) if len(beyond) else len(values)
        ids[start:stop] = numbers[start:stop]
        return stop

    def _add_forms(self, new_forms: pa.BinaryArray) -> None:
        first_form, known = self._number_of_form.used, len(self._numbers)
        texts = [form.decode() for form in new_forms.to_pylist()]
        plain = pa.array([plain_form(text).encode() for text in texts], pa.binary())
        numbers = np.empty(len(texts), np.uint32)
        self._numbers.encode(plain, 0, known + len(texts), numbers)
        self._number_of_form.append(numbers)
        best = np.concatenate((self._best_form, np.full(len(self._numbers) - known, -1)))
        shown = self._forms.frozen().stored
        for form, number in enumerate(numbers.tolist(), first_form):
            if best[number] < 0 or _rank(shown[form]) < _rank(shown[int(best[number])]):
                best[number] = form
        self._best_form = best
        self._frozen = None

    def frozen(self) -> ArrivalDictionary:
        if self._frozen is None:
            numbers = self._numbers.frozen()

            def find(value: Any) -> int:
                return numbers.id_of(Decimal(plain_form(value.decode())))

            stored = take(self._forms.frozen().stored, self._best_form)
            self._frozen = ArrivalDictionary(DataType.BIG_DECIMAL, stored, find, self._bounds)
        return self._frozen

    def memory(self) -> MemoryUse:
        return self._forms.memory() + self._numbers.memory() + self._number_of_form.memory

    def remove(self) -> None:
        self._forms.remove()
        self._numbers.remove()
        self._number_of_form.remove()


def _rank(form: Any) -> tuple[int, bytes]:
    raw: bytes = form.as_py()
    return len(raw), raw


def dictionary_bytes(data_type: DataType, entries: int, width: float, expected: int, expected_width: float) -> int:
    """Return the bytes that a dictionary of `make_dictionary` reserves for `entries` of `width` bytes on average."""
    dtype, slots = fixed_dtype(data_type), slots_after(entries, expected)
    if dtype is not None:
        return reserved_bytes(entries, dtype.itemsize, expected) + reserved_bytes(slots, 4, slots)
    texts = (
        reserved_bytes(entries + 1, 4, expected + 1)
        + reserved_bytes(entries * width, 1, expected * expected_width)
        + reserved_bytes(slots, 8, slots)
    )
    # most numbers have one form
    return 2 * texts + reserved_bytes(entries, 4, expected) if data_type is DataType.BIG_DECIMAL else texts


def make_dictionary(data_type: DataType, buffers: BufferFolder, expected: int, width: float) -> MutableDictionary:
    """Return an empty dictionary for about `expected` entries of `width` bytes on average."""
    if data_type is DataType.BIG_DECIMAL:
        return DecimalDictionary(buffers, expected, width)
    if fixed_dtype(data_type) is None:
        return TextDictionary(data_type, buffers, expected, width)
    return NumberDictionary(data_type, buffers, expected)

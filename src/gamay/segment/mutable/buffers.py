"""Arrays that grow in place: mapped files, off the Python heap, for one writer and any number of readers.

Growing extends the file and maps it again: both mappings share the same pages, so nothing is copied, and readers' arrays
keep the older mapping alive. Blocks of the file are allocated before they are written, so a full disk is an error of the
append that needs more space, never a signal (SIGBUS) that ends the process. No file is kept open.
"""

import ctypes
import itertools
import math
import mmap
import os
import shutil
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gamay.segment.spi import Ids
from gamay.storage.files import full_disk_explained

# Space is reserved in steps of an eighth of the present size, and of at least this number of bytes.
_STEP_MIN = 32 << 10
_PAGE = mmap.PAGESIZE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of one or more buffers: those in use, and those reserved on disk and in memory."""

    used: int
    reserved: int

    def __add__(self, other: "MemoryUse") -> "MemoryUse":
        return MemoryUse(self.used + other.used, self.reserved + other.reserved)


class _Mapping:
    """A whole file, mapped shared and writable until nothing refers to it. (The `mmap` module keeps the file open.)"""

    def __init__(self, descriptor: int, size: int) -> None:
        address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
        if address == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, f"cannot map {size:,} bytes: {os.strerror(code)}")
        # not at exit: threads may still read then, and the system unmaps anyway
        weakref.finalize(self, _libc.munmap, address, size).atexit = False
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": (size,), "typestr": "|u1"}


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _with_room(needed: int, reserved: int) -> int:
    """Return the bytes to reserve when `needed` exceeds what is reserved."""
    return _pages(needed + max(_STEP_MIN, reserved >> 3))


def reserved_bytes(elements: float, itemsize: int, expected: float) -> int:
    """Return the bytes reserved by a `GrowingArray` created for `expected` elements that grew to `elements` in steps."""
    needed, mapped = math.ceil(elements) * itemsize, _pages(max(1, int(expected)) * itemsize)
    reserved = min(mapped, _with_room(itemsize, 0))
    while reserved < needed:
        least = reserved + itemsize
        reserved = _with_room(least, reserved)
        if least <= mapped:
            reserved = min(mapped, reserved)
        else:
            mapped = reserved
    return reserved


class GrowingArray:
    """A one-dimensional array in its own file.

    array: the elements, for the writer; readable: a read-only view of them, for readers. Both are replaced when the array
    grows; elements that were never written are zero.
    """

    def __init__(self, path: Path, dtype: "np.dtype[Any]", expected: int = 0) -> None:
        """Create the file; address space for `expected` elements is mapped now, disk blocks are allocated as needed."""
        self._path = path
        self.dtype = dtype
        self._reserved_bytes = 0
        self.used = 0
        path.touch(exist_ok=False)
        self._map(max(1, expected))
        self.reserve(1)

    def _map(self, elements: int) -> None:
        size = _pages(elements * self.dtype.itemsize)
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            os.ftruncate(descriptor, size)
            mapping = np.asarray(_Mapping(descriptor, size)).view(self.dtype)
        finally:
            os.close(descriptor)
        readable = mapping.view()
        readable.flags.writeable = False
        self.array: Ids = mapping
        self.readable: Ids = readable

    def reserve(self, elements: int) -> None:
        """Reserve space for `elements` elements in total; raises DiskFullError."""
        needed = elements * self.dtype.itemsize
        if needed <= self._reserved_bytes:
            return
        reserved = _with_room(needed, self._reserved_bytes)
        if reserved > self.array.nbytes:
            if needed > self.array.nbytes:
                self._map(reserved // self.dtype.itemsize)
            reserved = self.array.nbytes
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            with full_disk_explained(f"reserving {reserved:,} bytes for a consuming segment", self._path.parent):
                os.posix_fallocate(descriptor, 0, reserved)
        finally:
            os.close(descriptor)
        self._reserved_bytes = reserved

    def append(self, values: Ids) -> None:
        """Append values after the used elements."""
        end = self.used + len(values)
        self.reserve(end)
        self.array[self.used : end] = values
        self.used = end

    @property
    def room(self) -> int:
        """The number of elements that fit in the reserved space."""
        return self._reserved_bytes // self.dtype.itemsize

    @property
    def memory(self) -> MemoryUse:
        """The memory use of the array."""
        return MemoryUse(self.used * self.dtype.itemsize, self._reserved_bytes)

    def moved_to(self, folder: Path) -> None:
        """Record that the file has been moved to another folder."""
        self._path = folder / self._path.name

    def remove(self) -> None:
        """Remove the file; its pages exist while arrays refer to them."""
        self._path.unlink(missing_ok=True)


class BufferFolder:
    """Factory of the arrays of one segment, each in a file of the segment's folder."""

    def __init__(self, folder: Path, spare: "SpareBuffers | None" = None) -> None:
        """Create the folder, or take that of `spare`; files left by a crashed process are removed."""
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        self._spare: deque[tuple[ArrayShape, GrowingArray]] = deque()
        if spare is None:
            folder.mkdir(parents=True)
        else:
            self._spare = spare.move_to(folder)
        self._asked: list[ArrayShape] | None = []
        self._names = map(str, itertools.count(len(self._spare)))

    def array(self, dtype: Any, expected: int = 0) -> GrowingArray:
        """Return a new array for about `expected` elements."""
        shape = ArrayShape(np.dtype(dtype), expected)
        if self._asked is not None:
            self._asked.append(shape)
        if self._spare:
            made, array = self._spare.popleft()
            if made == shape:
                return array
            array.remove()
        return GrowingArray(self._folder / next(self._names), shape.dtype, expected)

    def shapes(self) -> "Sequence[ArrayShape]":
        """Return the shapes of the arrays requested so far, in order; unused spare arrays are removed."""
        asked, self._asked = self._asked or [], None
        while self._spare:
            self._spare.popleft()[1].remove()
        return asked


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Parameters of a new array."""

    dtype: "np.dtype[Any]"
    expected: int


class SpareBuffers:
    """Arrays created in advance for the likely needs of a new segment, since creating files takes time.

    shapes: those of a segment of the same table. folder: theirs until a segment takes them over or they are removed.
    """

    def __init__(self, folder: Path, shapes: "Sequence[ArrayShape]") -> None:
        """Create the arrays. Raises OSError and DiskFullError, leaving no files behind."""
        self._folder = folder
        folder.mkdir(parents=True)
        try:
            self._arrays = deque(
                (shape, GrowingArray(folder / str(number), shape.dtype, shape.expected))
                for number, shape in enumerate(shapes)
            )
        except BaseException:
            self.remove()
            raise

    def move_to(self, folder: Path) -> deque[tuple[ArrayShape, GrowingArray]]:
        """Return the arrays, moving their folder; none if that has been removed meanwhile, as with its table."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._folder.rename(folder)
        except FileNotFoundError:
            folder.mkdir()
            return deque()
        for _, array in self._arrays:
            array.moved_to(folder)
        arrays, self._arrays = self._arrays, deque()
        return arrays

    def remove(self) -> None:
        """Remove the arrays that were not taken over."""
        shutil.rmtree(self._folder, ignore_errors=True)

"""The star-trees of a segment, in two files beside its columns: byte layout, writer and checked reader.

    startree.json := UTF-8 JSON object with a checksum, as metadata.json
    startree.bin  := header buffer*, as columns.bin

A tree is a list of cuboids. A cuboid keeps some of the tree's dimensions and has one record for each combination of their
values that occurs, in ascending order; a record has the partials of the tree's aggregates over the rows of that
combination. The records of all cuboids are numbered consecutively:

    dimension.<d>    := u8|u16|u32 ids[records of the cuboids that keep dimension d]
    dictionary.<d>.… := the values of dimension d, unless it is a dictionary-encoded column of the segment
    aggregate.<a>.<i> := array i of `Aggregate.encode` over all records: of a NumPy dtype, or an Arrow IPC stream

The files are derived from the segment: they are not part of its CRC, and contain the CRC of the segment.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import CorruptSegmentError
from gamay.model.types import DataType
from gamay.segment.encode.dictionary import SortedDictionary, write_dictionary
from gamay.segment.encode.format import (
    FORMAT_VERSION,
    BufferFile,
    BufferMeta,
    BufferWriter,
    read_metadata_file,
    write_metadata_file,
)
from gamay.segment.encode.storage_form import Stored

TREES_FILE = "startree.json"
RECORDS_FILE = "startree.bin"
_ARROW = "arrow"


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of a tree.

    text: a column, or an expression in standard form. values: its values in stored form, ascending; None if it is a
    dictionary-encoded column of the segment.
    """

    text: str
    data_type: DataType
    cardinality: int
    values: Stored | None = None


@dataclass(frozen=True, slots=True)
class Cuboid:
    """The records [start, stop) of a tree. kept: the positions of the dimensions that they have, ascending."""

    kept: tuple[int, ...]
    start: int
    stop: int

    @property
    def num_records(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class TreeContent:
    """Content of one tree.

    config: the JSON form of its configuration. ids: by cuboid, the ids of each kept dimension.
    aggregates: by text, the arrays of all records. build_ms: the time to build it.
    """

    config: Mapping[str, Any]
    dimensions: Sequence[Dimension]
    cuboids: Sequence[Cuboid]
    ids: Sequence[Sequence[Array]]
    aggregates: Mapping[str, Sequence["Array | pa.Array"]]
    build_ms: int


def id_dtype(cardinality: int) -> Any:
    """Return the dtype that the ids of a dimension are stored with."""
    return np.uint8 if cardinality <= 1 << 8 else np.uint16 if cardinality <= 1 << 16 else np.uint32


def write_star_trees(folder: Path, segment_crc: int, trees: Sequence[TreeContent]) -> None:
    """Write both files; the folder has none yet. The caller publishes the folder."""
    with (folder / RECORDS_FILE).open("wb") as file:
        writer = BufferWriter(file)
        written = [_write_tree(writer, tree) for tree in trees]
    document = {"formatVersion": FORMAT_VERSION, "segmentCrc": segment_crc, "trees": written}
    write_metadata_file(folder, document, TREES_FILE)


def _write_tree(writer: BufferWriter, tree: TreeContent) -> dict[str, Any]:
    buffers: list[BufferMeta] = []
    for number, dimension in enumerate(tree.dimensions):
        dtype = id_dtype(dimension.cardinality)
        parts = [
            columns[cuboid.kept.index(number)].astype(dtype, copy=False)
            for cuboid, columns in zip(tree.cuboids, tree.ids, strict=True)
            if number in cuboid.kept
        ]
        buffers.append(writer.add(f"dimension.{number}", parts))
        if dimension.values is not None:
            buffers += [_renamed(part, f"dictionary.{number}.") for part in write_dictionary(writer, dimension.values)]
    dtypes: list[list[str]] = []
    for number, arrays in enumerate(tree.aggregates.values()):
        dtypes.append([])
        for position, array in enumerate(arrays):
            kind = f"aggregate.{number}.{position}"
            is_plain = isinstance(array, np.ndarray)
            buffers.append(writer.add(kind, [array if is_plain else _ipc_stream(array)]))
            dtypes[-1].append(array.dtype.str if is_plain else _ARROW)
    return {
        "config": dict(tree.config),
        "dimensions": [[d.text, d.data_type.value, d.cardinality, d.values is not None] for d in tree.dimensions],
        "cuboids": [[list(cuboid.kept), cuboid.num_records] for cuboid in tree.cuboids],
        "aggregates": [[text, kinds] for text, kinds in zip(tree.aggregates, dtypes, strict=True)],
        "buildMs": tree.build_ms,
        "buffers": [[buffer.kind, buffer.offset, buffer.size, buffer.crc] for buffer in buffers],
    }


def _renamed(buffer: BufferMeta, prefix: str) -> BufferMeta:
    return BufferMeta(prefix + buffer.kind, buffer.offset, buffer.size, buffer.crc)


def _ipc_stream(array: pa.Array) -> memoryview:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([array], names=["partials"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return memoryview(sink.getvalue())


class StoredTree:
    """One tree of an open file. build_ms: the time to build it; size_bytes: of its records."""

    def __init__(self, entry: Mapping[str, Any], file: BufferFile) -> None:
        self.config: Mapping[str, Any] = entry["config"]
        self.build_ms = int(entry["buildMs"])
        self.dimensions = tuple(
            Dimension(text, DataType(data_type), cardinality) for text, data_type, cardinality, _ in entry["dimensions"]
        )
        self._own_values = tuple(bool(own) for *_, own in entry["dimensions"])
        self.aggregates: Mapping[str, Sequence[str]] = dict(entry["aggregates"])
        self.cuboids = tuple(_numbered(entry["cuboids"]))
        self.buffers = {kind: BufferMeta(kind, offset, size, crc) for kind, offset, size, crc in entry["buffers"]}
        self._file = file

    @property
    def num_records(self) -> int:
        return self.cuboids[-1].stop if self.cuboids else 0

    @property
    def size_bytes(self) -> int:
        return sum(buffer.size for buffer in self.buffers.values())

    def check(self) -> None:
        """Verify the checksum and length of every buffer; raises CorruptSegmentError."""
        for buffer in self.buffers.values():
            self._file.check_buffer("star-tree", buffer)
        for number, dimension in enumerate(self.dimensions):
            ids = self._ids(number)
            wanted = sum(cuboid.num_records for cuboid in self.cuboids if number in cuboid.kept)
            if len(ids) != wanted or (wanted and int(ids.max()) >= dimension.cardinality):
                raise CorruptSegmentError(f"{self._file.path}: the ids of dimension '{dimension.text}' are damaged")
        for number, (text, kinds) in enumerate(self.aggregates.items()):
            for position in range(len(kinds)):
                if len(self._array(number, position)) != self.num_records:
                    raise CorruptSegmentError(f"{self._file.path}: the records of '{text}' are damaged")

    def ids(self, cuboid: Cuboid, dimension: int) -> Array:
        """Return the ids of a dimension that the cuboid keeps: [cuboid.num_records]."""
        start = sum(c.num_records for c in self.cuboids if dimension in c.kept and c.start < cuboid.start)
        return self._ids(dimension)[start : start + cuboid.num_records]

    def values(self, dimension: int) -> SortedDictionary | None:
        """Return the dictionary of a dimension that has its own."""
        if not self._own_values[dimension]:
            return None
        prefix = f"dictionary.{dimension}."
        own = {kind.removeprefix(prefix): buffer for kind, buffer in self.buffers.items() if kind.startswith(prefix)}
        return SortedDictionary.read(self._file, own, self.dimensions[dimension].data_type)

    @cached_property
    def arrays(self) -> Mapping[str, Sequence["Array | pa.Array"]]:
        """The arrays of each aggregate, by its text: [num_records] each."""
        return {
            text: [self._array(number, position) for position in range(len(kinds))]
            for number, (text, kinds) in enumerate(self.aggregates.items())
        }

    def _ids(self, dimension: int) -> Array:
        return self._file.array(self.buffers[f"dimension.{dimension}"], id_dtype(self.dimensions[dimension].cardinality))

    def _array(self, aggregate: int, position: int) -> "Array | pa.Array":
        kind = list(self.aggregates.values())[aggregate][position]
        buffer = self.buffers[f"aggregate.{aggregate}.{position}"]
        if kind != _ARROW:
            return self._file.array(buffer, np.dtype(kind))
        stream = pa.ipc.open_stream(pa.py_buffer(self._file.array(buffer, np.uint8)))
        return stream.read_all().column(0).combine_chunks()


def _numbered(entries: Sequence[tuple[Sequence[int], int]]) -> Iterator[Cuboid]:
    start = 0
    for kept, num_records in entries:
        yield Cuboid(tuple(kept), start, start + num_records)
        start += num_records


def has_star_trees(folder: Path) -> bool:
    """Whether a segment's folder has star-trees."""
    return (folder / TREES_FILE).exists()


def remove_star_trees(folder: Path) -> None:
    """Remove the star-trees of a segment's folder, if it has any."""
    for name in (TREES_FILE, RECORDS_FILE):
        (folder / name).unlink(missing_ok=True)


def read_star_trees(folder: Path, segment_crc: int, *, verify: bool = True) -> tuple[StoredTree, ...]:
    """Open the trees of a segment's folder; none if it has no such files.

    verify: verify the checksum of every buffer, which reads the whole file.
    Raises CorruptSegmentError for files that are damaged or belong to another segment.
    """
    if not has_star_trees(folder):
        return ()
    document = read_metadata_file(folder, TREES_FILE)
    file = BufferFile(folder / RECORDS_FILE)
    try:
        if document["segmentCrc"] != segment_crc:
            raise CorruptSegmentError(
                f"{folder / TREES_FILE} was made of a segment with CRC {document['segmentCrc']}; this one has {segment_crc}"
            )
        trees = tuple(StoredTree(entry, file) for entry in document["trees"])
        file.check_layout([("star-tree", buffer) for tree in trees for buffer in tree.buffers.values()])
        if verify:
            for tree in trees:
                tree.check()
    except (KeyError, TypeError, ValueError, IndexError, pa.ArrowInvalid) as reason:
        raise CorruptSegmentError(f"{folder / TREES_FILE} does not describe star-trees: {reason!r}") from None
    return trees

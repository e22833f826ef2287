"""Raw texts in small LZ4 blocks: all methods of reading, and damage."""

from pathlib import Path
from typing import Any

import lz4.block
import numpy as np
import pyarrow as pa
import pytest
from tests.naive import lz4 as naive

from gamay.base.errors import CorruptSegmentError
from gamay.kernels.encode.lz4 import SLACK, decode_blocks
from gamay.model.types import DataType
from gamay.segment.encode.format import BufferFile, BufferWriter
from gamay.segment.encode.raw import read_raw, write_raw
from gamay.segment.encode.raw_blocks import Blocked

# (letters, longest value)
KINDS = [(2, 1), (3, 20), (256, 20), (4, 300), (256, 5000), (1, 70_000)]


def written(path: Path, values: list[bytes], target_docs: int) -> Blocked:
    with path.open("wb") as file:
        buffers = write_raw(BufferWriter(file), pa.array(values, pa.binary()), "LZ4", target_docs, 1 << 20)
    reader = read_raw(BufferFile(path), {buffer.kind: buffer for buffer in buffers}, DataType.BYTES, "LZ4")
    assert isinstance(reader, Blocked)
    return reader


@pytest.mark.parametrize("target_docs", [1000, 7])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 40, 600])
def test_ranges_and_positions(tmp_path: Path, kind: tuple[int, int], count: int, target_docs: int) -> None:
    letters, longest = kind
    rng = np.random.default_rng(count)
    values = [rng.integers(0, letters, int(rng.integers(0, longest + 1)), np.uint8).tobytes() for _ in range(count)]
    reader = written(tmp_path / "columns.bin", values, target_docs)
    for _ in range(12):
        start, stop = sorted(rng.integers(0, count + 1, 2).tolist())
        assert reader.range(start, stop).to_pylist() == values[start:stop]
        positions = np.flatnonzero(rng.random(count) < rng.random() ** 3).astype(np.int32)
        assert reader.at(positions).to_pylist() == [values[i] for i in positions]
        lengths, chosen = reader.byte_lengths(start, stop), reader.byte_lengths_at(positions)
        assert lengths is not None or letters > 128
        assert lengths is None or lengths.tolist() == [len(value) for value in values[start:stop]]
        assert chosen is None or chosen.tolist() == [len(values[i]) for i in positions]


def test_one_long_value_among_short_ones(tmp_path: Path) -> None:
    values = [b"a", bytes(range(256)) * 900, b"", b"bc" * 5000, b"z"]
    reader = written(tmp_path / "columns.bin", values, 1000)
    for position, value in enumerate(values):
        assert reader.at(np.array([position])).to_pylist() == [value]
    assert reader.byte_lengths(0, 5) is None


@pytest.mark.parametrize("shared", [0, 1, 30, 9000])
@pytest.mark.parametrize("seed", range(100))
def test_damaged_blocks_are_found_or_give_other_bytes_but_nothing_else_is_written(seed: int, shared: int) -> None:
    rng = np.random.default_rng(seed)
    plain = rng.integers(97, 100, int(rng.integers(20, 3000)), np.uint8)
    sample = rng.integers(97, 100, shared, np.uint8).tobytes()
    if seed % 2:  # matches that begin in the dictionary and go on in the block
        sample += plain[: int(rng.integers(1, 40))].tobytes() * 2
        plain = np.concatenate((plain[: int(rng.integers(20, 60))], plain))
    scratch = np.frombuffer(sample + bytes(len(plain) + SLACK) + b"\7" * 64, np.uint8).copy()
    memory = scratch[:-64], len(sample)
    block = np.frombuffer(lz4.block.compress(plain.tobytes(), store_size=False, dict=sample), np.uint8).copy()
    out = np.full(len(plain) + 64, 7, np.uint8)
    ends = np.array([0, len(block)]), np.array([0, len(plain)])
    assert decode_blocks(block, *ends, *memory, 0, 1, out[:-64]) == -1
    assert out[: len(plain)].tobytes() == plain.tobytes() == naive.decode(block.tobytes(), sample)
    for place in rng.integers(0, len(block), 3):
        block[place] = rng.integers(0, 256)
    decode_blocks(block, *ends, *memory, 0, 1, out[:-64])
    assert (out[-64:] == 7).all()
    assert (scratch[-64:] == 7).all()


def test_what_values_have_in_common_is_stored_once(tmp_path: Path) -> None:
    """Blocks of five values each would not shrink by much alone."""
    values = [b"the same words in every one of them, followed by %d and nothing else" % i for i in range(20_000)]
    size = sum(map(len, values))
    with (tmp_path / "columns.bin").open("wb") as file:
        buffers = write_raw(BufferWriter(file), pa.array(values, pa.binary()), "LZ4", 1000, 1 << 20)
    assert {buffer.kind: buffer.size for buffer in buffers}["forward.blocks"] < size / 4
    assert written(tmp_path / "again.bin", values, 1000).range(0, 20_000).to_pylist() == values


def test_a_damaged_block_is_an_error(tmp_path: Path) -> None:
    reader: Any = written(tmp_path / "columns.bin", [b"some text"] * 50, 1000)
    reader._blocks = np.full(len(reader._blocks), 255, np.uint8)
    for read in (lambda: reader.range(0, 50), lambda: reader.at(np.array([3]))):
        with pytest.raises(CorruptSegmentError, match="block 0 of a column's values is not LZ4"):
            read()

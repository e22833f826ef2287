"""Segments with right checksums and a wrong structure are refused; what is opened can be read to the last value.

`GAMAY_SEGMENT_MUTANTS=100000` tries that many, other than those of the suite.
"""

import json
import math
import os
import random
import shutil
import zlib

import numpy as np
import pytest
from tests.segment.conftest import make_config, make_field, make_schema

from gamay.base.errors import CorruptSegmentError
from gamay.kernels.roaring import is_roaring
from gamay.model.types import DataType
from gamay.segment.format import canonical_json
from gamay.segment.index.bitmaps import serialise
from gamay.segment.reader import open_segment

COUNT = int(os.environ.get("GAMAY_SEGMENT_MUTANTS", "400"))
ROWS = 700
WRONG_FIELDS = [math.nan, -1, 0, 1, 7, 2**31, 2**40, 1.5, "", "x", None, True, [], {}, [1], {"a": 1}]
EXTREMES = {1: [0, 1, 127, 255], 2: [0, 1, 2**15, 2**16 - 1], 4: [0, 1, 2**31 - 1, 2**32 - 1], 8: [0, 1, 2**62, 2**64 - 1]}


@pytest.fixture(scope="module")
def healthy(kit):
    rng = random.Random(11)
    schema = make_schema(
        make_field("i", DataType.INT),
        make_field("s", DataType.STRING),
        make_field("mv", DataType.STRING, False),
        make_field("blocks", DataType.STRING),
        make_field("chunks", DataType.STRING),
        make_field("texts", DataType.STRING),
        make_field("doubles", DataType.DOUBLE),
        make_field("longs", DataType.LONG, False),
        make_field("flag", DataType.BOOLEAN),
        make_field("money", DataType.BIG_DECIMAL),
        make_field("id", DataType.UUID),
        make_field("sorted", DataType.LONG),
    )
    columns = {
        "i": [rng.choice([None, *range(50)]) for _ in range(ROWS)],
        "s": [f"é{rng.randrange(400)}" for _ in range(ROWS)],
        "mv": [[f"t{rng.randrange(9)}"] * rng.randrange(3) for _ in range(ROWS)],
        "blocks": [f"x{rng.randrange(1000)}" for _ in range(ROWS)],
        "chunks": [f"y{rng.randrange(1000)}" for _ in range(ROWS)],
        "texts": [f"z{rng.randrange(1000)}" for _ in range(ROWS)],
        "doubles": [rng.random() for _ in range(ROWS)],
        "longs": [[rng.randrange(10**12) for _ in range(rng.randrange(4))] for _ in range(ROWS)],
        "flag": [rng.random() < 0.5 for _ in range(ROWS)],
        "money": [f"{rng.randrange(500)}.25" for _ in range(ROWS)],
        "id": [rng.randbytes(16) for _ in range(ROWS)],
        "sorted": [n // 3 for n in range(ROWS)],
    }
    codecs = {"blocks": "LZ4", "chunks": "ZSTANDARD", "texts": "PASS_THROUGH", "doubles": "PASS_THROUGH", "longs": "LZ4"}
    config = make_config(
        [{"name": name, "encodingType": "RAW", "compressionCodec": codec} for name, codec in codecs.items()],
        invertedIndexColumns=["i", "s", "mv", "flag"],
        rangeIndexColumns=["i", "doubles"],
        bloomFilterColumns=["s", "i"],
    )
    return kit.build(schema, config, columns)


def leaves(node, path=()):
    if path:
        yield path
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from leaves(child, (*path, key))


def seal(folder, document, data):
    """Write a segment with the checksums that belong to its content."""
    for column in document["columns"] if isinstance(document["columns"], list) else ():
        for buffer in column["buffers"] if isinstance(column, dict) and isinstance(column.get("buffers"), list) else ():
            if isinstance(buffer, list) and len(buffer) == 4 and all(type(n) is int and n >= 0 for n in buffer[1:3]):
                buffer[3] = zlib.crc32(data[buffer[1] : buffer[1] + buffer[2]])
    document["crc"] = zlib.crc32(canonical_json([document["numDocs"], document["columns"]]))
    (folder / "columns.bin").write_bytes(data)
    sealed = {**document, "checksum": zlib.crc32(canonical_json(document))}
    (folder / "metadata.json").write_text(json.dumps(sealed))


def mutate(rng, document, data):
    """Change one field of the metadata, or one number of a buffer."""
    if rng.random() < 0.4:
        *above, last = rng.choice([path for path in leaves(document) if path[0] not in ("crc", "formatVersion")])
        node = document
        for key in above:
            node = node[key]
        node[last] = rng.choice([*WRONG_FIELDS, *([node[last] + 1, node[last] * 2] if type(node[last]) is int else [])])
        return f"{[*above, last]} = {node[last]!r}"
    buffers = [(column["name"], *buffer[:3]) for column in document["columns"] for buffer in column["buffers"] if buffer[2]]
    name, kind, offset, size = rng.choice(buffers)
    width = rng.choice([w for w in EXTREMES if w <= size])
    place = offset + rng.randrange(size // width) * width
    value = rng.choice(
        [*EXTREMES[width], int.from_bytes(data[place : place + width], "little") ^ 1 << rng.randrange(8 * width)]
    )
    data[place : place + width] = value.to_bytes(width, "little")
    return f"{name} {kind} at {place - offset} of {size}: {value} in {width} bytes"


def read_all(folder):
    segment = open_segment(folder)
    docs = np.arange(0, segment.num_docs, 7, dtype=np.int32)
    for name in segment.column_names:
        column = segment.column(name)
        for vector in (column.values(0, segment.num_docs), column.values_at(docs)):
            (vector.values.tolist if isinstance(vector.values, np.ndarray) else vector.values.to_pylist)()
        if column.dictionary is not None:
            entries = column.dictionary.values.values
            for value in entries[: len(entries)].tolist()[:20]:
                assert column.dictionary.id_of(value) >= 0
        if column.inverted_index is not None:
            for dict_id in range(len(column.dictionary)):
                assert all(doc < segment.num_docs for doc in column.inverted_index.docs(dict_id))
        if column.range_index is not None:
            assert column.range_index.docs_between(column.stats.minimum, column.stats.maximum, True, True) is not None
        if column.null_docs is not None:
            assert max(column.null_docs, default=0) < segment.num_docs
    segment.close()


def test_mutants_are_refused_or_can_be_read(healthy, tmp_path):
    text, data = (healthy / "metadata.json").read_text(), (healthy / "columns.bin").read_bytes()
    folder = shutil.copytree(healthy, tmp_path / "mutant")
    refused = 0
    for seed in range(COUNT):
        rng, document, changed = random.Random(seed), json.loads(text), bytearray(data)
        document.pop("checksum")
        what = mutate(rng, document, changed)
        seal(folder, document, bytes(changed))
        try:
            read_all(folder)
        except (CorruptSegmentError, UnicodeDecodeError):  # compressed texts are looked at when they are shown
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {what}") from error
    assert refused > COUNT // 3
    seal(folder, {key: value for key, value in json.loads(text).items() if key != "checksum"}, data)
    read_all(folder)


@pytest.mark.parametrize("docs", [[], [0], [5, 9], range(5000), range(0, 200_000, 3), [*range(70_000), 140_000, 400_000]])
def test_bitmaps_are_those_that_the_library_writes(docs):
    raw = np.frombuffer(serialise(np.array(docs, np.uint32)), np.uint8)
    bound = max(docs, default=-1) + 1
    assert is_roaring(raw, bound, len(docs))
    assert not is_roaring(raw, bound, len(docs) + 1)
    assert not is_roaring(raw[:-1], bound, len(docs))
    assert not docs or not is_roaring(raw, bound - 1, len(docs))
    rng = random.Random(len(docs))
    for _ in range(200):
        damaged = raw.copy()
        damaged[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        is_roaring(damaged, bound, len(docs))  # reads no byte beyond the end, whatever it says

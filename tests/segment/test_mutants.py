"""Segments with valid checksums and an invalid structure are refused; those that open can be read completely.

`GAMAY_SEGMENT_MUTANTS=100000` tries that many others than the suite does.
"""

import json
import os
import random
import re
import shutil

import numpy as np
import pytest
from benchmarks.attack.segments import content_of, read_all, write_mutant, write_sealed
from tests.segment.conftest import make_config, make_field, make_schema

from gamay.base.errors import CorruptSegmentError
from gamay.kernels.sketch.roaring import is_roaring
from gamay.model.types import DataType
from gamay.segment.index.bitmaps import serialise

COUNT = int(os.environ.get("GAMAY_SEGMENT_MUTANTS", "400"))
ROWS = 700


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


def test_mutants_are_refused_or_can_be_read(healthy, tmp_path):
    content = content_of(healthy)
    folder = shutil.copytree(healthy, tmp_path / "mutant")
    refused = 0
    for seed in range(COUNT):
        what = write_mutant(folder, content, random.Random(seed))
        try:
            read_all(folder)
        except (CorruptSegmentError, UnicodeDecodeError):  # compressed texts are looked at when they are shown
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {what}") from error
    assert refused > COUNT // 3
    document = {key: value for key, value in json.loads(content[0]).items() if key != "checksum"}
    write_sealed(folder, document, content[1])
    read_all(folder)


def test_decimals_that_do_not_ascend_are_refused(healthy, tmp_path):
    metadata, buffers = content_of(healthy)
    folder = shutil.copytree(healthy, tmp_path / "mutant")
    swapped = re.sub(rb"(\d{3}\.25)(\d{3}\.25)", rb"\2\1", buffers, count=1)
    assert swapped != buffers
    write_sealed(folder, {key: value for key, value in json.loads(metadata).items() if key != "checksum"}, swapped)
    with pytest.raises(CorruptSegmentError, match="values do not ascend"):
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
        is_roaring(damaged, bound, len(docs))  # reads no byte beyond the end, whatever its contents

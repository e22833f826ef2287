"""A damaged segment is never opened, wherever the damage is."""

import json
import random
import shutil

import pytest

from gamay.base.errors import CorruptSegmentError
from gamay.model.types import DataType
from gamay.segment.encode.metadata import read_metadata
from gamay.segment.read.reader import open_segment


@pytest.fixture(scope="module")
def healthy(kit):
    rng = random.Random(3)
    n = 300
    schema = kit.schema(
        kit.field("i", DataType.INT),
        kit.field("s", DataType.STRING),
        kit.field("mv", DataType.STRING, False),
        kit.field("raw", DataType.STRING),
        kit.field("plain", DataType.DOUBLE),
        kit.field("sorted", DataType.LONG),
    )
    columns = {
        "i": [rng.choice([None, *range(50)]) for _ in range(n)],
        "s": [f"é{rng.randrange(100)}" for _ in range(n)],
        "mv": [[f"t{rng.randrange(9)}"] * rng.randrange(3) for _ in range(n)],
        "raw": [f"x{rng.randrange(1000)}" for _ in range(n)],
        "plain": [rng.random() for _ in range(n)],
        "sorted": list(range(n)),
    }
    config = kit.config(
        [
            {"name": "plain", "encodingType": "RAW", "compressionCodec": "PASS_THROUGH"},
            {"name": "raw", "encodingType": "RAW", "compressionCodec": "ZSTANDARD"},
        ],
        invertedIndexColumns=["i", "mv"],
        rangeIndexColumns=["i", "plain"],
        bloomFilterColumns=["s"],
    )
    return kit.build(schema, config, columns)


@pytest.fixture
def segment(healthy, tmp_path):
    return shutil.copytree(healthy, tmp_path / "s")


def json_or_none(path):
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        return None


def flip(path, position, bit):
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def test_every_buffer_of_every_column_is_checked(segment):
    file = segment / "columns.bin"
    for column in read_metadata(segment).columns.values():
        for buffer in column.buffers.values():
            if not buffer.size:
                continue
            flip(file, buffer.offset + buffer.size // 2, 5)
            place = (
                rf"{file}: buffer '{buffer.kind}' of column '{column.name}' at bytes \d+ to \d+ has CRC \w+; expected \w+"
            )
            with pytest.raises(CorruptSegmentError, match=place):
                open_segment(segment)
            flip(file, buffer.offset + buffer.size // 2, 5)
    open_segment(segment).close()


@pytest.mark.parametrize("name", ["columns.bin", "metadata.json"])
def test_no_flipped_bit_goes_unseen(segment, name):
    rng = random.Random(name)
    file = segment / name
    healthy = json.loads((segment / "metadata.json").read_bytes())
    for _ in range(400):
        position, bit = rng.randrange(file.stat().st_size), rng.randrange(8)
        flip(file, position, bit)
        # Between the tokens of JSON one blank is as good as another.
        if name != "metadata.json" or json_or_none(file) != healthy:
            with pytest.raises(CorruptSegmentError, match=str(segment)):
                open_segment(segment)
        flip(file, position, bit)


@pytest.mark.parametrize("name", ["columns.bin", "metadata.json"])
def test_no_truncation_goes_unseen(segment, name):
    file = segment / name
    data = file.read_bytes()
    rng = random.Random(name)
    for size in [0, 1, 7, 8, 11, 12, 63, 64, 65, len(data) - 2, *(rng.randrange(len(data)) for _ in range(50))]:
        file.write_bytes(data[:size])
        with pytest.raises(CorruptSegmentError):
            open_segment(segment, verify=False)
    file.write_bytes(data + bytes(64))
    with pytest.raises(CorruptSegmentError):
        open_segment(segment, verify=False)


@pytest.mark.parametrize("name", ["columns.bin", "metadata.json"])
def test_a_missing_file_is_named(segment, name):
    (segment / name).unlink()
    with pytest.raises(CorruptSegmentError, match=rf"{name} is missing"):
        open_segment(segment)


@pytest.mark.parametrize("content", [b"PK\x03\x04" + bytes(5000), b"\0" * 64, b"PAR1", b"GAMAYSEG", b""])
def test_a_foreign_columns_file_is_refused(segment, content):
    (segment / "columns.bin").write_bytes(content)
    with pytest.raises(CorruptSegmentError, match=r"is not a segment file|damaged or truncated|is empty"):
        open_segment(segment)


@pytest.mark.parametrize("content", [b"[]", b"{}", b"null", b"\xff\xfe", b'{"formatVersion": 1}', b'"x"'])
def test_a_foreign_metadata_file_is_refused(segment, content):
    (segment / "metadata.json").write_bytes(content)
    with pytest.raises(CorruptSegmentError):
        open_segment(segment)


def test_another_format_version_is_named(segment):
    document = json.loads((segment / "metadata.json").read_bytes())
    (segment / "metadata.json").write_text(json.dumps({**document, "formatVersion": 99}))
    with pytest.raises(CorruptSegmentError, match=r"format version 99; this release reads versions 1 to 4"):
        open_segment(segment)
    (segment / "metadata.json").write_text(json.dumps(document))
    flip(segment / "columns.bin", 8, 3)
    with pytest.raises(CorruptSegmentError, match=r"format version 12; this release reads versions 1 to 4"):
        open_segment(segment)


def test_the_columns_of_another_segment_are_refused(kit, segment):
    other = kit.build(kit.schema(kit.field("i", DataType.INT)), kit.config(), {"i": [1]})
    shutil.copy(other / "columns.bin", segment / "columns.bin")
    with pytest.raises(CorruptSegmentError, match="not this segment's file"):
        open_segment(segment)


def test_a_document_of_another_shape_with_a_good_checksum_is_refused(segment):
    from gamay.segment.encode.format import write_metadata_file

    write_metadata_file(segment, {"formatVersion": 1, "columns": []})
    with pytest.raises(CorruptSegmentError, match="not the metadata of a segment"):
        open_segment(segment)

"""Raw numbers in frame of reference: exact round trips; sums and comparisons equal those of the values."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gamay.base.errors import CorruptSegmentError
from gamay.functions.frame import Frame, FramedVector
from gamay.model.types import DataType, FieldRole
from gamay.segment.describe import describe
from gamay.segment.encode.format import COLUMNS_FILE, BufferFile
from gamay.segment.encode.frames import WIDTHS, FrameMeta, find_framing
from gamay.segment.read.reader import open_segment
from gamay.segment.verify.structure import check_column

BITS = {DataType.INT: 32, DataType.LONG: 64, DataType.TIMESTAMP: 64}
DTYPES = {DataType.INT: np.int32, DataType.LONG: np.int64, DataType.TIMESTAMP: np.int64, DataType.DOUBLE: np.float64}


def frame_of(values, data_type):
    """Return the frame that would be written of values, as it would be read; or None."""
    framing = find_framing(values, data_type)
    if framing is None:
        return None
    low = (framing.codes % (1 << 8 * framing.low_bytes)).astype(f"u{framing.low_bytes}")
    high = (framing.codes >> 8 * framing.low_bytes).astype(f"u{framing.high_bytes or 1}")
    frame = Frame(data_type, low, high if framing.high_bytes else high[:0], *astuple(framing.meta))
    return FramedVector(frame, framing.patch_rows, values[framing.patch_rows])


@st.composite
def whole_numbers(draw):
    data_type = draw(st.sampled_from(list(BITS)))
    bits = BITS[data_type]
    span = draw(st.integers(0, bits))
    base = draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 2**span)) if span < bits else -(2 ** (bits - 1))
    codes = draw(st.lists(st.integers(0, 2**span - 1), min_size=1, max_size=30))
    return data_type, np.array([base + code for code in codes], DTYPES[data_type])


@given(whole_numbers())
def test_whole_numbers_come_back(given_):
    data_type, values = given_
    framed = frame_of(values, data_type)
    span = int(values.max()) - int(values.min())
    room = {8 * width for _, low, high in WIDTHS for width in [low + high] if width + 2 <= values.itemsize}
    assert (framed is not None) == any(span < 1 << bits for bits in room)
    if framed is not None:
        assert framed.values.dtype == values.dtype
        assert framed.values.tolist() == values.tolist()
        assert framed.total() == sum(values.tolist())
        assert (framed.frame.least(), framed.frame.greatest()) == (values.min(), values.max())


@given(st.lists(st.floats(width=64), min_size=1, max_size=20))
@example([0.0, -0.0])
@example([float("nan"), 1.0])
@example([float("inf"), 1.0])
@example([5e-324])
@example([2.0**53])
@example([0.1 + 0.2])
def test_doubles_that_are_no_decimals_have_no_frame_or_come_back(numbers):
    values = np.array(numbers)
    framed = frame_of(values, DataType.DOUBLE)
    if framed is not None:
        assert framed.values.view(np.int64).tolist() == values.view(np.int64).tolist()


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=30), st.integers(0, 6), st.booleans())
def test_decimals_come_back(numbers, exponent, divides):
    values = np.array([float(f"{number}e-{exponent}") if divides else number * 10.0**-exponent for number in numbers])
    framed = frame_of(values, DataType.DOUBLE)
    assert framed is not None
    assert framed.values.view(np.int64).tolist() == values.view(np.int64).tolist()
    assert framed.total() == sum(numbers) / 10**exponent
    mask = np.array([number % 2 == 0 for number in numbers])
    kept = framed.total_kept(mask.view(np.uint8), int(mask.sum()))
    assert kept == sum(number for number in numbers if number % 2 == 0) / 10**exponent


@pytest.mark.parametrize(
    ("data_type", "patches"),
    [(DataType.DOUBLE, [float("nan"), float("-inf"), -0.0, 1 / 3]), (DataType.LONG, [-(2**63)]), (DataType.INT, [-(2**31)])],
)
def test_what_has_no_code_is_patched(data_type, patches):
    rng = np.random.default_rng(1)
    values = rng.integers(-999, 999, 640).astype(DTYPES[data_type])
    if data_type is DataType.DOUBLE:
        values = values / 100
    places = np.sort(rng.choice(640, 9, replace=False))
    values[places] = [patches[i % len(patches)] for i in range(9)]
    framed = frame_of(values, data_type)
    assert framed is not None
    assert framed.patch_rows.tolist() == places.tolist()
    rows = np.unique(np.append(places[:4], [0, 7, 639])).astype(np.int32)
    mask = rng.random(640) < 0.5
    kept = framed.kept(mask, lambda array: array[mask])
    cut = framed.cut(int(places[2]), int(places[7]))
    expected = values[places[2] : places[7]]
    for found, wanted in ((framed, values), (framed.at(rows), values[rows]), (kept, values[mask]), (cut, expected)):
        assert found.values.view(np.uint8).tolist() == wanted.view(np.uint8).tolist()
        assert np.isclose(float(found.total()), float(sum(wanted.tolist())), rtol=1e-15, equal_nan=True)
    kept_total = framed.total_kept(mask.view(np.uint8), int(mask.sum()))
    assert np.isclose(float(kept_total), float(sum(values[mask].tolist())), rtol=1e-15, equal_nan=True)


def test_a_column_with_too_many_values_without_a_code_has_no_frame():
    values = np.arange(640) / 100
    values[::32] = np.nan
    assert frame_of(values, DataType.DOUBLE) is None


@pytest.mark.parametrize("bits", [8, 16, 24, 32, 40, 48])
def test_codes_in_a_range_are_marked(bits):
    rng = np.random.default_rng(bits)
    values = np.append(rng.integers(0, 1 << bits, 200), [0, (1 << bits) - 1]) - 77
    framed = frame_of(values, DataType.LONG)
    assert framed is not None
    assert framed.frame.bits == bits
    for value in [*values[:20].tolist(), -77, -78, (1 << bits) - 78, (1 << bits) - 77]:
        first = framed.frame.first_code(lambda found, bound=value: found >= bound)
        assert framed.frame.mark(first, 1 << bits).tolist() == (values >= value).tolist()
        assert framed.frame.mark(0, first).tolist() == (values < value).tolist()


def framed(kit, values, name="s", **config):
    """Return a segment with a DOUBLE metric `m` and a LONG `k`, both without dictionary."""
    schema = kit.schema(kit.field("m", DataType.DOUBLE, role=FieldRole.METRIC), kit.field("k", DataType.LONG))
    columns = {"m": values, "k": [10**12 + i * 37_001 % 100_000 for i in range(len(values))]}
    return kit.build(schema, kit.config(noDictionaryColumns=["m", "k"], **config), columns, name=name), columns


def test_a_segment_has_frames_and_says_why(kit):
    path, columns = framed(kit, [round(i * 7 % 1000 * 0.01, 2) for i in range(500)])
    segment = open_segment(path)
    assert segment.info.columns["m"].frame.exponent == 2
    text = describe(path)
    assert "raw (0 + 16 bits) / 100" in text
    assert "raw 1,000,000,000,000 + 24 bits" in text
    assert "5 bytes" not in text
    assert "2 bytes a value instead of 8" in text
    for name, values in columns.items():
        column = segment.column(name)
        vector = column.values(3, 400)
        assert isinstance(vector, FramedVector)
        assert kit.plain(vector) == values[3:400]
        assert kit.plain(column.values_at(np.array([5, 7, 499], np.int32))) == [values[5], values[7], values[499]]


def test_a_declared_codec_wins(kit):
    path, columns = framed(kit, [float(i % 50) for i in range(500)], noDictionaryConfig={"m": "PASS_THROUGH", "k": "LZ4"})
    segment = open_segment(path)
    assert [segment.info.columns[name].codec for name in columns] == ["PASS_THROUGH", "LZ4"]


def test_damaged_frames_are_refused(kit):
    path, _ = framed(kit, [i * 7 % 1000 * 0.5 for i in range(500)])
    segment = open_segment(path)
    meta, file = segment.info.columns["k"], BufferFile(path / COLUMNS_FILE)
    check_column(meta, file, 500)
    low, high = (meta.buffers[kind] for kind in ("forward.low", "forward.high"))
    for damaged in (
        replace(meta, frame=FrameMeta(2**63 - 1, 0)),
        replace(meta, frame=FrameMeta(0, 2)),
        replace(meta, frame=FrameMeta(0, divides=True)),
        replace(meta, codec="LZ4"),
        replace(meta, data_type=DataType.FLOAT),
        replace(meta, buffers={**meta.buffers, "forward.low": replace(low, size=low.size - 2)}),
        replace(meta, buffers={**meta.buffers, "forward.high": replace(high, size=high.size * 2)}),
        replace(meta, buffers={kind: buffer for kind, buffer in meta.buffers.items() if kind != "forward.low"}),
    ):
        with pytest.raises(CorruptSegmentError):
            check_column(damaged, file, 500)
    path, _ = framed(kit, [i * 7 % 1000 * 0.5 + (i in (100, 200)) / 3 for i in range(500)], name="patched")
    meta, file = open_segment(path).info.columns["m"], BufferFile(path / COLUMNS_FILE)
    check_column(meta, file, 500)
    with pytest.raises(CorruptSegmentError, match="values from"):
        check_column(replace(meta, frame=FrameMeta(2**53, 1)), file, 500)
    rows, patches = (meta.buffers[kind] for kind in ("forward.patch_rows", "forward.patches"))
    two_codes = replace(meta.buffers["forward.low"], size=8)
    for found, problem in ((replace(rows, size=4), "4 bytes"), (patches, "16 bytes"), (two_codes, "ascend below 500")):
        with pytest.raises(CorruptSegmentError, match=problem):
            check_column(replace(meta, buffers={**meta.buffers, "forward.patch_rows": found}), file, 500)

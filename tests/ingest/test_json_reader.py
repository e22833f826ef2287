"""JSON files: lines, concatenated objects, arrays; broken records; exact values."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError, RecordError
from gamay.ingest.read import json as json_reader
from gamay.ingest.read import json_stream
from gamay.ingest.read.readers import open_reader


@pytest.fixture
def read(tmp_path):
    def read(data, continue_on_error=True):
        path = tmp_path / "data.json"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        reader = open_reader(str(path), "json", continue_on_error=continue_on_error)
        rows = [row for batch in reader for row in batch.to_pylist()]
        return rows, [e.position for e in reader.errors], [reader.position(i) for i in range(len(rows))]

    return read


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "b": "x"}\n{"a": 2, "b": null}\n',
        '{"a": 1, "b": "x"}\n\n{"a": 2, "b": null}',
        '{"a": 1, "b": "x"}{"a": 2, "b": null}',
        '{\n "a": 1,\n "b": "x"\n}\n{"a": 2, "b": null}\n',
        '[{"a": 1, "b": "x"}, {"a": 2, "b": null}]',
        '\ufeff [\n{"a": 1, "b": "x"},\n{"a": 2, "b": null}\n]\n',
        gzip.compress(b'{"a": 1, "b": "x"}\n{"a": 2}\n', mtime=0),
    ],
)
def test_layouts(read, text):
    rows, errors, _ = read(text)
    assert rows == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert errors == []


@pytest.mark.parametrize("text", ["", "\n\n", "[]", " [ ] "])
def test_nothing_to_read(read, text):
    assert read(text) == ([], [], [])


def test_values_stay_as_they_were_written(read):
    rows, _, _ = read('{"d": "2024-01-01 00:00:00", "big": 1152921504606846977, "x": [1, 2], "f": 0.5}\n')
    assert rows == [{"d": "2024-01-01 00:00:00", "big": 2**60 + 1, "x": [1, 2], "f": 0.5}]
    rows, _, _ = read('{"big": 1152921504606846977}\n{"big": 0.5}\n')
    assert [r["big"] for r in rows] == ["1152921504606846977", "0.5"]
    rows, _, _ = read('{"o": {"k": [1, {"z": null}]}}\n{"o": {"other": true}}\n')
    assert [r["o"] for r in rows] == ['{"k":[1,{"z":null}]}', '{"other":true}']
    rows, _, _ = read('{"m": 1}\n{"m": "x"}\n{"m": true}\n')
    assert [r["m"] for r in rows] == ["1", "x", "true"]


def test_bad_lines_are_left_out_and_named(read):
    rows, errors, positions = read('{"a": 1}\n{broken}\n\n[5]\n{"a": 2}\n{"a": "\n{"a": 3}\n')
    assert [r["a"] for r in rows] == [1, 2, 3]
    assert errors == ["line 2", "line 4", "line 6"]
    assert positions == ["line 1", "line 5", "line 7"]
    assert read(b'{"a": "\xff"}\n{"a": "\xc3\xa9"}\n')[:2] == ([{"a": "é"}], ["line 1"])


def test_bad_objects_of_other_layouts(read):
    rows, errors, positions = read('{\n"a": 1\n}\n{"a":\n{"a": 2}\n{"a": 3}\n{"a": "x')
    assert [r["a"] for r in rows] == [1, 2, 3]
    assert errors == ["line 4", "line 7"]
    assert positions == ["line 1", "line 5", "line 6"]
    rows, errors, _ = read('[{"a": 1}, 7, {"a": 2}]')
    assert [r["a"] for r in rows] == [1, 2]
    assert errors == ["line 1"]


def test_the_first_bad_record_stops_unless_told_otherwise(read):
    with pytest.raises(RecordError, match=r"data\.json, line 2: not a JSON object"):
        read('{"a": 1}\n{broken}\n', continue_on_error=False)


def test_blocks_and_batches(read, monkeypatch):
    monkeypatch.setattr(json_reader, "BLOCK_BYTES", 300)
    monkeypatch.setattr(json_reader, "BATCH_ROWS", 7)
    lines = [json.dumps({"i": i, "t": "x" * (i % 50)}) for i in range(500)]
    lines[100] = "{"
    rows, errors, positions = read("\n".join(lines))
    assert [r["i"] for r in rows] == [i for i in range(500) if i != 100]
    assert errors == ["line 101"]
    assert positions[400] == "line 402"


def test_objects_longer_than_a_block(read, monkeypatch):
    monkeypatch.setattr(json_stream, "_BLOCK_BYTES", 16)
    objects = [{"i": i, "t": "é" * 50} for i in range(20)]
    assert read(json.dumps(objects, indent=1, ensure_ascii=False))[0] == objects


def test_unknown_keys_are_refused():
    with pytest.raises(InvalidConfigError, match="unknown key 'header'"):
        open_reader("x.json", "json", {"header": "a"})


@pytest.mark.parametrize("layout", ["{}\n{}\n", "[{}, {}]"])
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30 + 1])
def test_integers_beyond_64_bits_keep_their_digits(read, layout, number):
    rows, _, _ = read(layout.format(json.dumps({"a": number, "o": {"b": number}}), '{"a": null, "o": null}'))
    assert (rows[0]["a"], json.loads(rows[0]["o"])) == (str(number), {"b": number})


scalars = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(st.characters(codec="utf-8"), max_size=6)
records = st.lists(st.dictionaries(st.sampled_from("abc"), scalars, min_size=1), max_size=12)


@settings(max_examples=150, deadline=None)
@given(records, st.sampled_from(["lines", "array", "pretty"]))
def test_round_trip(tmp_path_factory, objects, layout):
    """Every value is read back: as itself, or as its JSON text where a column has values of several types."""
    path = tmp_path_factory.mktemp("json") / "data.json"
    match layout:
        case "lines":
            path.write_text("".join(json.dumps(o) + "\n" for o in objects))
        case "array":
            path.write_text(json.dumps(objects))
        case _:
            path.write_text("\n".join(json.dumps(o, indent=2) for o in objects))
    rows = [row for batch in open_reader(str(path), "json") for row in batch.to_pylist()]
    assert len(rows) == len(objects)
    for row, written in zip(rows, objects, strict=True):
        for name, value in written.items():
            text = json.dumps(value, ensure_ascii=False)
            assert row[name] == value or row[name] == text or (isinstance(value, str) and row[name] == value)


LISTS = st.lists(st.none() | st.integers(-9, 9), max_size=3) | st.none()
TEXT_LISTS = st.lists(st.none() | st.sampled_from("ab"), max_size=3) | st.none()


@settings(max_examples=150, deadline=None)
@given(st.lists(LISTS, max_size=5) | st.lists(TEXT_LISTS, max_size=5))
def test_lists_keep_their_nulls(tmp_path_factory, lists):
    """Arrow's reader drops values of a list that begins with null."""
    path = tmp_path_factory.mktemp("json") / "data.json"
    path.write_text("".join(json.dumps({"k": 1, "l": one}) + "\n" for one in lists))
    batches = list(open_reader(str(path), "json"))
    for batch in batches:
        batch.validate(full=True)
    assert [row["l"] for batch in batches for row in batch.to_pylist()] == lists


def test_a_name_of_a_field_that_is_no_text_is_damage_of_its_line(read):
    rows, errors, _ = read(b'{"a": 1}\n{"\xf8": 2}\n{"a": 3}\n')
    assert [row["a"] for row in rows] == [1, 3]
    assert errors == ["line 2"]

"""CSV files: named formats, headers, spaces, broken records, and a round trip of random contents."""

import csv
import gzip
import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError, NotFoundError, RecordError
from gamay.ingest.read import csv as csv_reader
from gamay.ingest.read.readers import open_reader


@pytest.fixture
def read(tmp_path):
    def read(data, config=None, continue_on_error=True):
        path = tmp_path / "data.csv"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        reader = open_reader(str(path), "csv", config, continue_on_error=continue_on_error)
        rows = [tuple(row.values()) for batch in reader for row in batch.to_pylist()]
        return rows, [(e.position, e.reason) for e in reader.errors], [reader.position(i) for i in range(len(rows))]

    return read


@pytest.mark.parametrize(
    ("config", "text", "expected"),
    [
        ({}, "a,b\n1,2\n", [("1", "2")]),
        ({"fileFormat": "EXCEL"}, 'a,b\n"x,y",2\n', [("x,y", "2")]),
        ({"fileFormat": "RFC4180"}, 'a,b\r\n"say ""hi""",2\r\n', [('say "hi"', "2")]),
        ({"fileFormat": "TDF"}, "a\tb\n1,5\t2\n", [("1,5", "2")]),
        ({"fileFormat": "TDF", "delimiter": ","}, "a,b\n1\t5,2\n", [("1\t5", "2")]),
        ({"fileFormat": "mysql"}, "a\tb\nx\\ty\t\\N\n", [("x\ty", None)]),
        ({"fileFormat": "MYSQL"}, "a\tb\n1\tx\\\ny\n", [("1", "x\ny")]),
        ({"fileFormat": "Informix_Unload"}, "a|b\n1\\|2|3\n", [("1|2", "3")]),
        ({"fileFormat": "ORACLE"}, 'a,b\n\\N,"x\\"y"\n', [(None, 'x"y')]),
        ({"fileFormat": "POSTGRESQL_TEXT"}, "a\tb\n\\N\tx\n", [(None, "x")]),
        ({"fileFormat": "MONGODB_TSV"}, 'a\tb\n"x""y"\t2\n', [('x"y', "2")]),
        ({"delimiter": "\\t"}, "a\tb\n1\t2\n", [("1", "2")]),
        ({"header": "a,b"}, "1,2\n3,4\n", [("1", "2"), ("3", "4")]),
        ({"header": "a,b", "skipHeader": True}, "x,y\n3,4\n", [("3", "4")]),
        ({"header": "a;b", "delimiter": ";"}, "1;2\n", [("1", "2")]),
        ({"quoteCharacter": "'"}, "a,b\n'x,y',2\n", [("x,y", "2")]),
        ({"quoteMode": "NONE"}, 'a,b\n"x,2\n', [('"x', "2")]),
        ({"commentMarker": "#"}, 'a,b\n# no,record\n"x\n#y",2\n', [("x\n#y", "2")]),
        ({"nullStringValue": "NA"}, 'a,b\nNA,2\n"NA",NAB\n', [(None, "2"), (None, "NAB")]),
        ({}, 'a,b\n,""\n', [(None, None)]),
        ({}, "a,b\n 1 ,\t2\n", [("1", "2")]),
        ({}, 'a,b\n " 1 " , 2\n', [(" 1 ", "2")]),
        ({"ignoreSurroundingSpaces": False}, "a,b\n 1 ,2 \n", [(" 1 ", "2 ")]),
        ({"recordSeparator": ";"}, "a,b;1,2;3,4;\n", [("1", "2"), ("3", "4")]),
        ({}, "\ufeffa,b\n1,2\n", [("1", "2")]),
        ({}, "a,b\n\n1,2\n\n\n", [("1", "2")]),
        ({}, "a,b\n1,2", [("1", "2")]),
        ({}, "a,b\n", []),
        ({}, "", []),
        ({}, "a\nÄ€😀\n", [("Ä€😀",)]),
    ],
)
def test_formats(read, config, text, expected):
    assert read(text, config)[:2] == (expected, [])


def test_bad_records_are_left_out_and_named(read):
    rows, errors, positions = read('a,b\n1,2\n3\n"x\ny",4\n5,6,7\n8,9\n')
    assert rows == [("1", "2"), ("x\ny", "4"), ("8", "9")]
    assert [e[0] for e in errors] == ["record 2", "record 4"]
    assert "1 values where the header has 2" in errors[0][1]
    assert positions == ["record 1", "record 3", "record 5"]


def test_a_quote_that_is_never_closed_costs_one_line(read):
    rows, errors, positions = read('a,b\n1,2\n3,"4\n5,6\n7,8\n')
    assert rows == [("1", "2"), ("5", "6"), ("7", "8")]
    assert errors == [("line 3", "a quote that is never closed")]
    assert positions == ["record 1", "line 4", "line 5"]


def test_invalid_utf8_costs_one_line(read):
    rows, errors, _ = read(b"a,b\n1,2\n\xff,3\n4,5\n")
    assert rows == [("1", "2"), ("4", "5")]
    assert errors[0][0] == "line 3"


@pytest.mark.parametrize("bad", [b"3,4,\xff", b"3,\xff,4", b"\xe9"])
@pytest.mark.parametrize("rest", [b"\n5,6\n", b"\n"])
def test_invalid_utf8_in_a_row_of_wrong_length_is_told_as_others_are(read, bad, rest):
    rows, errors, _ = read(b"a,b\n1,2\n" + bad + rest)
    assert rows == [("1", "2"), ("5", "6")][: 1 + (len(rest) > 1)]
    ((position, reason),) = errors
    assert (position, reason.startswith("not valid UTF-8: ")) == ("line 3", True)


def test_a_file_that_ends_within_a_character(read):
    rows, errors, _ = read(b"a,b\n1,2\n3,4,\xc3")
    assert (rows, errors[0][0], len(errors)) == ([("1", "2")], "line 3", 1)


def test_characters_that_blocks_split(read, monkeypatch):
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 64)
    expected = [(f"{'é€😀'[: n % 4]}{n}", "x" * (n % 5)) for n in range(500)]
    rows, errors, positions = read("a,b\n" + "".join(f"{a},{b}\n" for a, b in expected))
    assert (rows, errors) == ([(a, b or None) for a, b in expected], [])
    assert positions[-1] == "record 500"  # the columnar parser has read them


def test_the_first_bad_record_stops_unless_told_otherwise(read):
    with pytest.raises(RecordError, match=r"data\.csv, record 2: 1 values where the header has 2"):
        read("a,b\n1,2\n3\n", continue_on_error=False)
    with pytest.raises(RecordError):
        read("a,b\n3\n", {"stopOnError": True})


EXTRA = 'a,b\n1,2\n3,4,"x,y"\n5\n6,7,\n8,9\n'


@pytest.mark.parametrize("exact", [{}, {"commentMarker": "#"}])
def test_values_beyond_the_header_are_refused_or_ignored(read, exact):
    refused = r"(record 2|line 3): 3 values where the header has 2: .*; with 'ignoreExtraValues' in the reader config"
    with pytest.raises(RecordError, match=refused):
        read(EXTRA, exact, continue_on_error=False)
    rows, errors, _ = read(EXTRA, exact)
    assert (rows, len(errors)) == ([("1", "2"), ("8", "9")], 3)
    assert ["ignoreExtraValues" in reason for _, reason in errors] == [True, False, True]
    rows, errors, positions = read(EXTRA, {**exact, "ignoreExtraValues": "true"})
    assert rows == [("1", "2"), ("3", "4"), ("6", "7"), ("8", "9")]
    assert [reason for _, reason in errors] == ["1 values where the header has 2: ['5']"]
    assert positions[1:] == ["line 3", "line 5", "line 6"]
    with pytest.raises(RecordError, match="1 values where the header has 2"):
        read(EXTRA, {**exact, "ignoreExtraValues": "true"}, continue_on_error=False)


def test_extra_values_after_many_blocks(read, monkeypatch):
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 512)
    lines = [f"{i},{i * i}" + (",more,and more" if i in (300, 500) else "") for i in range(600)]
    text = "\n".join(["a,b", *lines[:100], "short", *lines[100:]])
    rows, errors, _ = read(text, {"ignoreExtraValues": True})
    assert rows == [(str(i), str(i * i)) for i in range(600)]
    assert len(errors) == 1


def test_many_blocks_keep_positions(read, monkeypatch):
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 4096)
    lines = [f"{i},value{i}" for i in range(5000)]
    for bad in (10, 2500, 4999):
        lines[bad] = "bad"
    rows, errors, positions = read("a,b\n" + "\n".join(lines))
    assert len(rows) == 4997
    assert [e[0] for e in errors] == ["record 11", "record 2501", "record 5000"]
    assert positions[rows.index(("4000", "value4000"))] == "record 4001"


def test_a_record_longer_than_a_block(read, monkeypatch):
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 1024)
    long = "x" * 5000
    rows, errors, _ = read(f'a,b\n1,2\n{long},"{long}\n{long}"\n3,4\n')
    assert rows == [("1", "2"), (long, f"{long}\n{long}"), ("3", "4")]
    assert not errors


def test_exact_parsing_starts_where_columnar_parsing_ended(read, monkeypatch):
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 2048)
    text = (
        "a,b\n" + "".join(f"{i},x\n" for i in range(2000)) + '2000," y "\n' + "".join(f"{i},x\n" for i in range(2001, 3000))
    )
    rows, errors, _ = read(text)
    assert [int(r[0]) for r in rows] == list(range(3000))
    assert rows[2000][1] == " y "
    assert not errors


def test_gzip_is_recognised_by_its_bytes(read):
    assert read(gzip.compress(b"a,b\n1,2\n"))[0] == [("1", "2")]
    assert read(gzip.compress(b"a,b\n1,2\n") + gzip.compress(b'3," 4 "\n'))[0] == [("1", "2"), ("3", " 4 ")]


def test_a_truncated_gzip_file_is_an_error(read):
    data = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (i * 7919, i) for i in range(50_000)))
    with pytest.raises(RecordError, match="cannot be read beyond"):
        read(data[: len(data) // 2])


def test_dates_of_the_older_config(read):
    config = {"dateFormat": "mm-dd-yyyy", "dateColumns": ["d"]}
    rows, errors, _ = read("a,d\n1,01-31-2024\n2,31-01-2024\n3,\n", config)
    assert rows == [("1", 1706659200000), ("2", None), ("3", None)]
    assert errors[0][0] == "record 2"
    with pytest.raises(InvalidConfigError, match="no column 'x' of dateColumns"):
        read("a,d\n1,2\n", {"dateColumns": "x"})


@pytest.mark.parametrize(
    ("config", "text", "message"),
    [
        ({"delimeter": ","}, "a\n", "unknown key 'delimeter'.* Did you mean 'delimiter'"),
        ({"fileFormat": "EXCELL"}, "a\n", "Did you mean 'EXCEL'"),
        ({"delimiter": "||"}, "a\n", "must be one ASCII character"),
        ({"delimiter": "\\u00zz"}, "a\n", "must be one ASCII character"),
        ({"skipHeader": "maybe"}, "a\n", "must be true or false"),
        ({}, "a;b\n1;2,3\n", "does not contain the delimiter"),
        ({}, "a,b,a\n1,2,3\n", "the column 'a' twice"),
        ({}, "a,,c\n1,2,3\n", "a column without a name"),
    ],
)
def test_mistakes_in_config_and_header(read, config, text, message):
    with pytest.raises(InvalidConfigError, match=message):
        read(text, config)


def test_missing_file(tmp_path):
    with pytest.raises(NotFoundError, match="does not exist"):
        list(open_reader(str(tmp_path / "nothing.csv"), "csv"))
    with pytest.raises(InvalidConfigError, match="Did you mean 'csv'"):
        open_reader("x", "cvs")


cells = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=8)
rows_of_cells = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=0, max_size=20)
)


@settings(max_examples=150, deadline=None)
@given(rows_of_cells, st.sampled_from([{}, {"commentMarker": "\x01"}]))
def test_round_trip(tmp_path_factory, rows, exact):
    """Whatever Python's csv module writes is read back, by the columnar and by the exact parser."""
    width = len(rows[0]) if rows else 1
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([[f"c{i}" for i in range(width)], *rows])
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    path.write_text(out.getvalue(), newline="")
    batches = list(open_reader(str(path), "csv", {"ignoreSurroundingSpaces": False, **exact}))
    read = [list(row.values()) for row in pa.Table.from_batches(batches).to_pylist()] if batches else []
    assert read == [[cell or None for cell in row] for row in rows]


spaced = st.text(st.sampled_from(' \tab,"\n'), max_size=6)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(spaced, spaced), max_size=8), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_both_parsers_see_the_same_spaces(tmp_path_factory, rows, quoting):
    """Spaces around values go and those within quotes stay, whichever parser reads the file."""
    out = io.StringIO(newline="")
    csv.writer(out, quoting=quoting, lineterminator="\n").writerows([("c0", "c1"), *rows])
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    path.write_text(out.getvalue(), newline="")
    columnar, exact = (list(open_reader(str(path), "csv", config)) for config in ({}, {"commentMarker": "\x01"}))
    assert [row for batch in columnar for row in batch.to_pylist()] == [r for batch in exact for r in batch.to_pylist()]

"""Parts of a file together give the rows of the whole file, wherever it is split."""

import csv
import gzip
import io

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import RecordError
from gamay.ingest.read.readers import has_record_lines, open_reader, split

ROWS = [{"n": n, "text": f"täxt {n}" * (1 + n % 3)} for n in range(200)]
TABLE = pa.Table.from_pylist(ROWS)


def as_csv(rows):
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, ["n", "text"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def as_avro():
    out = io.BytesIO()
    fields = [{"name": "n", "type": "long"}, {"name": "text", "type": "string"}]
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, ROWS, codec="deflate", sync_interval=300)
    return out.getvalue()


def as_parquet():
    out = io.BytesIO()
    pq.write_table(TABLE, out, row_group_size=17)
    return out.getvalue()


FILES = {
    "csv": as_csv(ROWS), "json": b"\xef\xbb\xbf" + b"\n".join(map(orjson.dumps, ROWS)), "avro": as_avro(),
    "parquet": as_parquet(),
}  # fmt: skip


def rows_of(path, data_format, part=None):
    batches = open_reader(str(path), data_format, part=part)
    return [(int(row["n"]), row["text"]) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("data_format", FILES)
def test_parts_give_the_rows_of_the_file(tmp_path, data_format):
    path = tmp_path / f"f.{data_format}"
    path.write_bytes(FILES[data_format])
    size = len(FILES[data_format])
    for bytes_max in (7, 100, 1_000, size - 1, size):
        parts = split(str(path), data_format, {}, size, bytes_max)
        assert len(parts) > 1 or bytes_max == size
        assert all(has_record_lines(str(path), data_format, {}, part) for part in parts)
        found = [row for part in parts for row in rows_of(path, data_format, part)]
        assert found == [(row["n"], row["text"]) for row in ROWS]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text('a", \n\r', max_size=6), min_size=1, max_size=12), st.integers(1, 40), st.sampled_from(["csv", "raw"])
)
def test_csv_is_split_only_where_lines_are_records(tmp_path_factory, texts, bytes_max, how):
    rows = [{"n": n, "text": text} for n, text in enumerate(texts)]
    data = as_csv(rows) if how == "csv" else b"n,text\n" + "\n".join(f"{n},{text}" for n, text in enumerate(texts)).encode()
    path = tmp_path_factory.mktemp("csv") / "f.csv"
    path.write_bytes(data)

    def read(part=None):
        reader = open_reader(str(path), "csv", continue_on_error=True, part=part)
        return [row for batch in reader for row in batch.to_pylist()], reader.num_errors

    parts = split(str(path), "csv", {}, len(data), bytes_max)
    if all(has_record_lines(str(path), "csv", {}, part) for part in parts):
        found = [read(part) for part in parts]
        assert ([row for rows, _ in found for row in rows], sum(errors for _, errors in found)) == read()


def test_quoted_line_ends_are_found(tmp_path):
    path = tmp_path / "f.csv"
    path.write_bytes(as_csv([{"n": n, "text": "a\nb" if n == 90 else 'say ""x, y""'} for n in range(100)]))
    parts = split(str(path), "csv", {}, path.stat().st_size, 500)
    assert [has_record_lines(str(path), "csv", {}, part) for part in parts].count(False) >= 1


def test_what_cannot_be_split_is_one_part(tmp_path):
    zipped, pretty, semi = tmp_path / "a.csv.gz", tmp_path / "a.json", tmp_path / "b.csv"
    zipped.write_bytes(gzip.compress(FILES["csv"], 0))
    pretty.write_bytes(orjson.dumps(ROWS, option=orjson.OPT_INDENT_2))
    semi.write_bytes(FILES["csv"])
    for path, data_format, config in ((zipped, "csv", {}), (pretty, "json", {}), (semi, "csv", {"escapeCharacter": "\\"})):
        assert len(split(str(path), data_format, config, path.stat().st_size, 100)) == 1


def test_errors_tell_the_part(tmp_path):
    path = tmp_path / "f.json"
    path.write_bytes(b'{"n": 1}\n' * 20 + b"{x}\n")
    part = split(str(path), "json", {}, path.stat().st_size, 100)[-1]
    with pytest.raises(RecordError, match=rf"f.json, from byte {part.start} on, line 10: not a JSON object"):
        list(open_reader(str(path), "json", part=part))

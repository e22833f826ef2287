"""Answers in every output format, and parsed again."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.shell.answer import Answer
from gamay.shell.formats.cells import format_column
from gamay.shell.formats.table import line_text, table_text
from gamay.shell.formats.write import Screen, _csv, format_of_file, text_of

ALL = "SELECT city, fare, rides, tags, day, started FROM trips ORDER BY day, fare LIMIT 10"


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([1944, 25526, None], "LONG", ["1,944", "25,526", "NULL"]),
        ([2013, 5], "INT", ["2013", "5"]),
        ([27873450.0, 1.0], "DOUBLE", ["27,873,450", "1"]),
        ([0.00123, 0.5], "DOUBLE", ["0.00123", "0.5"]),
        (["NaN", 2.5], "DOUBLE", ["NaN", "2.50"]),
        ([float("nan"), 2.5], "DOUBLE", ["NaN", "2.50"]),
        (
            ["2013-01-01 10:00:00.0", "2013-01-01 10:00:00.25"],
            "TIMESTAMP",
            ["2013-01-01 10:00:00", "2013-01-01 10:00:00.25"],
        ),
        (["a\nb", None], "STRING", ["a\\nb", "NULL"]),
        ([["a", "b"], []], "STRING_ARRAY", ['["a", "b"]', "[]"]),
        ([True, False], "BOOLEAN", ["true", "false"]),
        ([{"a": "é"}, {}, None], "MAP", ['{"a": "é"}', "{}", "NULL"]),
        ([b"\x01\xff"], "BYTES", ["01ff"]),
    ],
)
def test_columns(values: list[Any], kind: str, texts: list[str]) -> None:
    assert format_column(values, kind) == texts


def test_a_pipe_gets_plain_text() -> None:
    text = table_text(["city", "n"], ["STRING", "LONG"], [["Oslo", 12], ["Malmö", 10_000]], width=None)
    assert text == "city        n\n-----  ------\nOslo       12\nMalmö  10,000"
    assert table_text(["n"], ["LONG"], [], width=None) == "n\n-"
    assert table_text([], [], [], width=None) == ""


def test_boxes_fit_the_terminal_and_show_nulls_apart() -> None:
    rows = [("word " * 20, None), ("NULL", 5)]
    text = table_text(["text", "n"], ["STRING", "LONG"], rows, width=40, color=True)
    assert "\x1b[2;3mNULL\x1b[0m" in text  # the null, and not the text
    assert text.count("\x1b[2;3m") == 1
    plain = table_text(["text", "n"], ["STRING", "LONG"], rows, width=40)
    assert max(map(len, plain.splitlines())) <= 40


def test_auto_is_lines_where_a_table_is_too_wide(answer: Callable[..., Answer]) -> None:
    wide = answer(("a" * 30, "b" * 30), ("INT", "STRING"), [(1, "x")])
    assert text_of(wide, "auto", Screen(50)) == line_text(wide.columns, wide.types, [(1, "x")])
    assert text_of(wide, "auto", Screen(100)).startswith("╭")
    assert text_of(wide, "line").splitlines() == ["--- row 1", f"{'a' * 30}: 1", f"{'b' * 30}: x"]


def test_dates_are_shown_where_the_schema_says_so(sql: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = sql(
        "SELECT day AS d, t.started, MAX(day) FROM trips t WHERE day = 20240502 AND fare > 1 GROUP BY day, started"
    )
    assert out.splitlines()[2].split() == ["2024-05-02", "2024-05-01", "09:30:00.5", "2024-05-02"]
    _, out, _ = sql("SELECT day + 1, day AS rides FROM trips LIMIT 1")
    assert out.splitlines()[2].split() == ["20,240,502", "2024-05-01"]
    assert sql("SELECT day FROM trips LIMIT 1", output="csv")[1] == "day\n20240501\n"  # programs get the value


def test_csv_and_json_can_be_read_back(sql: Callable[..., tuple[int, str, str]], folder: Path) -> None:
    _, out, _ = sql(ALL, output="csv")
    read = list(csv.reader(io.StringIO(out)))
    assert read[0] == ["city", "fare", "rides", "tags", "day", "started"]
    assert read[1] == ["Oslo", "12.5", "1", '["rain", "night"]', "20240501", "2024-05-01 08:30:00"]
    table = pa_csv.read_csv(
        io.BytesIO(out.encode()),
        convert_options=pa_csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
    )
    assert table.column("fare").to_pylist() == [12.5, None, 7.0, 3.25] or table.column("fare").null_count == 1
    assert table.column("city").null_count == 1
    documents = json.loads(sql(ALL, output="json")[1])
    assert documents == [json.loads(line) for line in sql(ALL, output="jsonl")[1].splitlines()]
    assert documents[0]["tags"] == ["rain", "night"]
    assert [one["city"] for one in documents].count(None) == 1


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_hold_the_types(sql: Callable[..., tuple[int, str, str]], tmp_path: Path, form: str) -> None:
    path = tmp_path / f"out.{form}"
    assert sql(ALL, output_file=path)[:2] == (0, "")
    table = pq.read_table(path) if form == "parquet" else pa.ipc.open_file(path).read_all()
    assert table.schema.field("started").type == pa.timestamp("ms")
    assert table.schema.field("rides").type == pa.int64()
    assert table.column("tags").to_pylist()[0] == ["rain", "night"]
    if form == "parquet":
        assert duckdb.sql(f"SELECT SUM(rides), COUNT(city) FROM '{path}'").fetchall() == [(20004, 3)]
    assert list(tmp_path.glob(".*")) == []


def test_a_binary_file_holds_one_answer(sql: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    status, _, err = sql("SELECT 1; SELECT 2", output_file=path)
    assert status == 1
    assert "holds one answer" in err
    assert not path.exists()


def test_names_that_occur_twice_are_kept(sql: Callable[..., tuple[int, str, str]]) -> None:
    assert json.loads(sql("SELECT city, city FROM trips LIMIT 1", output="json")[1]) == [{"city": "Oslo", "city_1": "Oslo"}]


def test_markdown(answer: Callable[..., Answer]) -> None:
    made = answer(("a|b", "n"), ("STRING", "LONG"), [("x|y\nz", 10_000), (None, 1)])
    assert text_of(made, "markdown").splitlines() == [
        "| a\\|b | n |", "| --- | ---: |", "| x\\|y\\\\nz | 10000 |", "| NULL | 1 |",
    ]  # fmt: skip


@given(st.lists(st.tuples(st.none() | st.text(alphabet="a,\"'\n\r é;", max_size=6), st.none() | st.integers()), min_size=1))
def test_csv_tells_nulls_from_empty_texts(rows: list[tuple[Any, ...]]) -> None:
    text = _csv(["s", "n"], ["STRING", "LONG"], rows)
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read[1:] == [["" if v is None else str(v) for v in row] for row in rows]
    for (value, _), line in zip(rows, text.split("\n")[1:], strict=False):
        if value in (None, ""):
            assert line.startswith('""') == (value == "")
            continue
        break


def test_the_form_follows_from_the_name_of_a_file() -> None:
    assert format_of_file(Path("x.md")) == "markdown"
    assert format_of_file(Path("x.PARQUET")) == "parquet"
    assert format_of_file(Path("x.txt")) is None

"""How numbers and times are printed."""

import csv
import io
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import gamay
from gamay.cli import output
from gamay.cli.run import _starting, run_query
from gamay.embedded.warming import Warming


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([1944, 25526, None], "LONG", ["1,944", "25,526", "null"]),
        ([2013, 5], "INT", ["2013", "5"]),
        ([27873450.0, 1.0], "DOUBLE", ["27,873,450", "1"]),
        ([0.00123, 0.5], "DOUBLE", ["0.00123", "0.5"]),
        (["NaN", 2.5], "DOUBLE", ["NaN", "2.50"]),
        (
            ["2013-01-01 10:00:00.0", "2013-01-01 10:00:00.25"],
            "TIMESTAMP",
            ["2013-01-01 10:00:00", "2013-01-01 10:00:00.25"],
        ),
        (["a\nb", None], "STRING", ["a\\nb", "null"]),
        ([["a", "b"], []], "STRING_ARRAY", ['["a", "b"]', "[]"]),
        ([True, False], "BOOLEAN", ["True", "False"]),
        ([{"a": "é"}, {}, None], "MAP", ['{"a": "é"}', "{}", "null"]),
    ],
)
def test_columns(values, kind, texts):
    assert output.format_column(values, kind) == texts


def test_a_pipe_gets_plain_text(capsys):
    output.print_answer(["city", "n"], ["STRING", "LONG"], [["Oslo", 12], ["Malmö", 10_000]])
    assert capsys.readouterr().out == "city        n\n-----  ------\nOslo       12\nMalmö  10,000\n"


def test_csv_and_json_keep_values(capsys):
    output.print_answer(["m"], ["MAP"], [[{"a": 1}]], "csv")
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [["m"], ['{"a": 1}']]
    columns, types, rows = ["city", "n"], ["STRING", "LONG"], [["a,b", 10_000], ["", 1]]
    output.print_answer(columns, types, rows, "csv")
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [columns, ["a,b", "10000"], ["", "1"]]
    output.print_answer(columns, types, rows, "json")
    assert json.loads(capsys.readouterr().out) == [{"city": "a,b", "n": 10_000}, {"city": "", "n": 1}]


@pytest.mark.parametrize("format_name", ["table", "json", "csv"])
def test_a_query_says_what_its_answer_lacks(tmp_path, capsys, format_name):
    """Beside rows for a program, on standard error."""
    with gamay.connect(tmp_path) as db:
        db.create_table("t", pa.table({"n": [1, 2, 3]}))
    for limit, note in ((2, "The answer is partial: groups beyond numGroupsLimit are left out.\n"), (9, "")):
        run_query(f"SET numGroupsLimit = {limit}; SELECT n, COUNT(*) FROM t GROUP BY n", "", tmp_path, format_name)
        shown = capsys.readouterr()
        assert note in (shown.out if format_name == "table" else shown.err)
        assert ("partial" in shown.out + shown.err) == bool(note)


def test_no_rows_and_no_columns(capsys):
    output.print_answer(["n"], ["LONG"], [])
    output.print_answer([], [], [])
    assert capsys.readouterr().out == "n\n-\n"


def test_a_start_says_what_it_is_doing(monkeypatch: pytest.MonkeyPatch) -> None:
    warming, told = Warming(), list[str]()

    def compile_slowly(*, tell: Callable[[int, int], None], **_: Any) -> float:
        for done in range(4):
            tell(done, 3)
            told.append(_starting(SimpleNamespace(compiled=warming.progress), 4.2))  # type: ignore[arg-type]
        return 1.0

    monkeypatch.setattr("gamay.server.warmup.warm_up", compile_slowly)
    warming._compile()
    assert [text.partition(" kinds")[0] for text in told[:3]] == [
        f"compiling kernels for 4 s: {done} of 3" for done in range(3)
    ]
    assert told[3:] == ["loading segments"]
    assert warming.done

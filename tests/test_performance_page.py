"""The tables of docs/performance.md are those written by the benchmarks."""

import argparse
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest
from benchmarks.report import PAGE, Report, Shape, arguments_of, tables_of, without_tables

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def shapes() -> dict[str, Shape]:
    found = {}
    for path in BENCHMARKS.rglob("*.py"):
        if re.search(r"^SHAPES = ", path.read_text(), re.MULTILINE):
            name = ".".join(path.relative_to(BENCHMARKS).with_suffix("").parts)
            declared = import_module(f"benchmarks.{name}").SHAPES
            assert {table.partition(":")[0] for table in declared} == {name}
            found |= declared
    return found


def test_each_table_has_the_shape_that_its_benchmark_declares() -> None:
    page, declared = dict(tables_of(PAGE.read_text())), shapes()
    assert page.keys() == declared.keys()
    for name, (headings, rule, *rows) in page.items():
        assert tuple(headings) == declared[name].headings, name
        assert len(rule) == len(headings), name
        assert tuple(row[0] for row in rows) == declared[name].cases, name
        assert {len(row) for row in rows} == {len(headings)}, name


def test_every_table_is_written_by_a_benchmark() -> None:
    sections = re.split(r"^##+ ", without_tables(PAGE.read_text()), flags=re.MULTILINE)
    assert [text.partition("\n")[0] for text in sections if re.search(r"^\| ?:?---", text, re.MULTILINE)] == []


def test_a_benchmark_writes_its_table_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(
        "before\n<!-- table: a: x -->\nold\n<!-- end of table -->\nafter\n<!-- table: a -->\n<!-- end of table -->\n"
    )
    report = Report("a", Shape(("what", "ms"), ("one", "two"), ("longest",)))
    report.add("two", "2.0", "9")
    with pytest.raises(ValueError, match="'one' was not measured"):
        report.write(page)
    report.add("one", "1.0", "8")
    report.write(page)
    assert page.read_text() == (
        "before\n<!-- table: a: x -->\nold\n<!-- end of table -->\nafter\n<!-- table: a -->\n"
        "| what | ms |\n| --- | ---: |\n| one | 1.0 |\n| two | 2.0 |\n<!-- end of table -->\n"
    )
    with pytest.raises(ValueError, match="no row 'three' of 2 cells"):
        report.add("three", "1", "1")
    with pytest.raises(ValueError, match="no row 'one' of 1 cells"):
        report.add("one", "1")
    with pytest.raises(ValueError, match="has no line '<!-- table: b -->'"):
        Report("b", Shape(("what",), ("one",)), {"one": ()}).write(page)


@pytest.mark.parametrize(("given", "writes"), [([], False), (["--write-docs"], True), (["--rows=5"], False)])
def test_the_page_is_written_when_told(monkeypatch: pytest.MonkeyPatch, given: list[str], writes: bool) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", *given])
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10)
    assert arguments_of(parser).write_docs is writes


def test_numbers_of_other_sizes_are_not_written(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", "--rows=5", "--write-docs"])
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10)
    with pytest.raises(SystemExit):
        arguments_of(parser)
    assert "goes with no other option" in capsys.readouterr().err

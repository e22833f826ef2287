"""The magics in an IPython shell: connections, parameters, results, completion, errors."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("IPython", reason="magics need IPython: pip install ipython")

from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import gamay
from gamay.base.errors import InvalidConfigError
from gamay.client.plot import Chart, choose, plot
from gamay.client.results import ResultSet
from gamay.embedded import EmbeddedCluster
from gamay.notebook.cell import Cell, bind_parameters, read_cell
from gamay.notebook.completion import sql_parts

ROWS = {"city": ["Oslo", "Lima", "O'Fallon"], "n": [1, 2, 3]}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    for name in ("GAMAY_URL", "GAMAY_PROFILE", "GAMAY_USER", "GAMAY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    made = InteractiveShell()
    made.history_manager.enabled = False
    made.run_line_magic("load_ext", "gamay")
    with gamay.connect(tmp_path / "data", threads=1) as db:
        db.create_table("t", ROWS)
        made.user_ns["db"] = db
        yield made


Run = Callable[[str], Any]


@pytest.fixture
def run(shell: InteractiveShell) -> Run:
    """Return a function that runs a cell and returns its result."""

    def run_cell(text: str) -> Any:
        return shell.run_cell(text).result

    return run_cell


def test_the_only_database_is_asked(run: Run, shell: InteractiveShell) -> None:
    assert run("%sql SELECT SUM(n) FROM t").rows() == [(6.0,)]
    run("%%sql kept <<\nSELECT city\nFROM t\nWHERE n = 2")
    assert shell.user_ns["kept"].rows() == [("Lima",)]
    assert run("x = %sql SELECT COUNT(*) FROM t\nx.rows()") == [(3,)]
    assert run("%sql SET useMultistageEngine = true; SELECT 1 AS a; SELECT 2 AS b").rows() == [(2,)]


def test_places(run: Run, shell: InteractiveShell, tmp_path: Path) -> None:
    with gamay.connect(tmp_path / "other", threads=1) as other:
        other.create_table("u", {"a": [5]})
        assert run("%sql ./other SELECT a FROM u").rows() == [(5,)]
        assert run("%sql SELECT a FROM u").rows() == [(5,)]  # remembered
        assert run("%sql db SELECT COUNT(*) FROM t").rows() == [(3,)]
        shell.user_ns["second"] = other
        assert run("%%sql second r <<\nSELECT a FROM u") is None
        assert shell.user_ns["r"].rows() == [(5,)]
    with EmbeddedCluster(tmp_path / "cluster", 0, 0, 0, threads=1, warm_up=False) as cluster:
        assert run(f"%sql {cluster.controller_url} SELECT 1 AS one").rows() == [(1,)]
        assert isinstance(run("%sql SELECT 2 AS two"), ResultSet)


def test_variables_are_parameters_and_never_sql(run: Run, shell: InteractiveShell) -> None:
    shell.user_ns.update(cities=["Oslo", "O'Fallon"], evil="x' OR 1 = 1 --", least=2)
    assert run("%sql SELECT COUNT(*) FROM t WHERE city IN (:cities)").rows() == [(2,)]
    assert run("%sql SELECT COUNT(*) FROM t WHERE city = :evil OR city = {{evil + evil}}").rows() == [(0,)]
    assert run("%%sql\nSELECT '{{least}}' AS kept, :least AS filled, {{least * 2}} AS made FROM t LIMIT 1").rows() == [
        ("{{least}}", 2, 4)
    ]


def test_data_frames_stand_in_from(run: Run) -> None:
    run("import pandas as pd; frame = pd.DataFrame({'city': ['Oslo'], 'country': ['Norway']})")
    assert run("%sql SELECT f.country FROM t JOIN frame f ON t.city = f.city").rows() == [("Norway",)]


def test_errors_are_told_without_a_trace(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    for text, told in (
        ("%sql SELECT cty FROM t", "SELECT cty FROM t\n         ^^^"),
        ("%sql SELECT city FROM t WHERE n = :leest", ":leest is not a variable of this notebook"),
        ("%sql SELECT city FROM t WHERE n = ?", "written :name or {{expression}}"),
        ("%sql http://ann:pw@h SELECT 1", "a password in a URL"),
        ("%sql @prod SELECT 1", "there is no profile 'prod'"),
        ("%sql http://127.0.0.1:1 SELECT 1", "got no answer"),
    ):
        done = shell.run_cell(text)
        assert not done.success
        seen = capsys.readouterr()
        assert told in seen.err + seen.out
        assert "Traceback" not in seen.err + seen.out


def test_completion_in_cells(shell: InteractiveShell) -> None:
    def offered(text: str, position: int) -> list[str]:
        with provisionalcompleter():
            return [text[: one.start] + one.text + text[one.end :] for one in shell.Completer.completions(text, position)]

    assert offered("%sql SELECT ci FROM t", 14)[0] == "%sql SELECT city FROM t"
    assert offered("%%sql\nSELECT city FROM ", 23)[0] == "%%sql\nSELECT city FROM t"
    assert sql_parts("print(1)", 0, 5) is None
    assert sql_parts("%%sql", 0, 3) is None


def test_cells_are_read() -> None:
    def is_place(word: str) -> bool:
        return word in ("db", "./data")

    assert read_cell("", "SELECT 1", is_place) == Cell(None, None, "SELECT 1")
    assert read_cell("db", "\nSELECT 1", is_place) == Cell("db", None, "SELECT 1")
    assert read_cell("'./data' r << ", "SELECT 1", is_place) == Cell("./data", "r", "SELECT 1")
    assert read_cell("r << @prod SELECT 1", "", is_place) == Cell("@prod", "r", "SELECT 1")
    assert read_cell("SELECT a << 1", "", is_place).sql == "SELECT a << 1"
    assert bind_parameters("SELECT 1", {}, eval) == ("SELECT 1", None)
    assert bind_parameters("SELECT {{1 + 1}} -- {{x}}", {}, eval) == ("SELECT :expression_0 -- {{x}}", {"expression_0": 2})


@pytest.mark.parametrize(
    ("types", "rows", "chart"),
    [
        (["STRING", "LONG"], [("a", 1)], Chart("bar", "c0", ("c1",))),
        (["TIMESTAMP", "LONG", "DOUBLE"], [], Chart("line", "c0", ("c1", "c2"))),
        (["LONG", "TIMESTAMP"], [], Chart("line", "c1", ("c0",))),
        (["INT", "DOUBLE"], [(1, 1.0), (2, 1.0), (3, 1.0)], Chart("line", "c0", ("c1",))),
        (["INT", "DOUBLE"], [(2, 1.0), (1, 1.0), (3, 1.0)], Chart("scatter", "c0", ("c1",))),
        (["DOUBLE"], [(1.0,)], Chart("histogram", "c0", ())),
    ],
)
def test_charts_follow_from_types(types: list[str], rows: list[tuple[Any, ...]], chart: Chart) -> None:
    assert choose([f"c{i}" for i in range(len(types))], types, rows) == chart


def test_what_cannot_be_drawn_is_told() -> None:
    for arguments, message in (
        ({"kind": "pie"}, "a chart is one of"),
        ({"x": "cit"}, "Did you mean 'city'?"),
        ({"y": "city"}, "cannot be y"),
    ):
        with pytest.raises(InvalidConfigError, match=message.replace("?", r"\?")):
            choose(["city", "n"], ["STRING", "LONG"], [], **arguments)
    with pytest.raises(InvalidConfigError, match="needs a numeric column"):
        choose(["city"], ["STRING"], [])


def test_a_chart_has_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    result = ResultSet(["a.b", "n"], ["STRING", "LONG"], [["x", 1], ["y", 2]])
    document = plot(result).to_dict()
    assert document["mark"]["type"] == "bar"
    assert document["encoding"]["x"]["field"] == "a\\.b"
    assert document["data"]["values"] == [{"a.b": "x", "n": 1}, {"a.b": "y", "n": 2}]
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(InvalidConfigError, match=r"gamay\[notebook\]"):
        result.plot()


def test_results_show_their_types_and_what_they_cost(run: Run) -> None:
    shown = run("%sql SELECT city, n FROM t WHERE n > 1 LIMIT 5")._repr_html_()
    assert "string</span>" in shown
    assert "2 rows," in shown
    assert "2 of 3 rows scanned" in shown

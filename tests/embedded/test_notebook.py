"""gamay.connect as used in notebooks: cells that run twice, parameters, nulls, and data of all kinds."""

import datetime as dt
import decimal
import gc
import os
import signal
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.waiting import PATIENCE_S

import gamay
from gamay.embedded import Database

MANY = {"i": list(range(100)), "s": ["a", "b"] * 50}
ONE = {"dimensionFieldSpecs": [{"name": "k", "dataType": "INT"}]}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with gamay.connect(tmp_path_factory.mktemp("notebook") / "data", threads=1) as opened:
        opened.create_table("many", MANY)
        yield opened


def child(code: str, *, kill: bool = False) -> str:
    """Run a program to its end; `kill`: it ends by killing itself."""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert told.returncode == (-signal.SIGKILL if kill else 0), told.stderr
    return told.stdout.strip()


# -- connecting


def test_a_folder_is_shared_by_all_who_connect_to_it(tmp_path: Path) -> None:
    one = gamay.connect(tmp_path / "data", threads=1)
    one.create_table("t", {"a": [1]})
    (tmp_path / "link").symlink_to(tmp_path / "data")
    other = gamay.connect(str(tmp_path / "link"))
    assert other.sql("SELECT a FROM t").rows() == [(1,)]
    with pytest.raises(gamay.ConflictError, match="is open in this process with 1 threads"):
        gamay.connect(tmp_path / "data", threads=2)
    one.settings.null_handling = False
    assert other.settings.null_handling
    one.close()
    one.close()  # counts once
    assert "closed" in repr(one)
    with pytest.raises(gamay.ClosedError, match="is closed"):
        one.sql("SELECT a FROM t")
    other.append("t", {"a": [2]})
    other.close()
    assert (
        child(f"import gamay; print(gamay.connect({str(tmp_path / 'data')!r}).sql('SELECT SUM(a) FROM t')[0])") == "(3.0,)"
    )


def test_a_cell_that_runs_twice_keeps_nobody_out(tmp_path: Path) -> None:
    db = gamay.connect(tmp_path, threads=1)
    for _ in range(3):
        db = gamay.connect(tmp_path)  # those before are forgotten, not closed
    gc.collect()
    db.close()
    child(f"import gamay; gamay.connect({str(tmp_path)!r}, threads=1)")


def test_a_folder_that_was_made_anew_is_another_one(tmp_path: Path) -> None:
    data = tmp_path / "data"
    old = gamay.connect(data, threads=1)
    data.rename(tmp_path / "moved")
    with gamay.connect(data, threads=1) as new, gamay.connect(tmp_path / "moved") as moved:
        new.create_table("new", {"a": [1]})
        assert (old.tables(), moved.tables()) == ([], [])
    old.close()


def test_threads_may_connect_and_close_as_they_like(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                with gamay.connect(tmp_path, threads=1) as db:
                    db.create_table(f"t{number}", {"a": [turn]}, if_exists="replace")
                    assert db.sql(f"SELECT a FROM t{number}").rows() == [(turn,)]
        except BaseException as error:  # noqa: BLE001 - the test shows it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_fork_is_told_that_it_has_no_database(tmp_path: Path) -> None:
    code = f"""
import gamay, os
db, memory = gamay.connect({str(tmp_path)!r}, threads=1), gamay.connect(":memory:", threads=1)
db.create_table("t", {{"a": [1]}})
memory.create_table("t", {{"a": [2]}})
read, write = os.pipe()
child = os.fork()
if not child:
    for use in (db.tables, lambda: gamay.connect({str(tmp_path)!r})):
        try:
            use()
        except gamay.GamayError as error:
            os.write(write, f"{{type(error).__name__}}: {{error}}\\n".encode())
    raise SystemExit
os.waitpid(child, 0)
print(os.read(read, 10_000).decode(), db.sql("SELECT a FROM t")[0], memory.sql("SELECT a FROM t")[0])
"""
    told = child(code)
    assert "ClosedError" in told
    assert "is a fork" in told
    assert "InUseError" in told
    assert told.endswith("(1,) (2,)")


def left_in_memory(pid: str | int) -> list[Path]:
    from gamay.embedded.opened import _place_in_memory

    return list(_place_in_memory().glob(f"gamay-memory-{pid}-*"))


def test_what_is_in_memory_is_gone_at_the_end() -> None:
    before = len(left_in_memory(os.getpid()))
    with gamay.connect(":memory:", threads=1) as one, gamay.connect(":memory:", threads=1) as other:
        one.create_table("t", {"a": [1]})
        assert (one.tables(), other.tables()) == (["t"], [])
        assert len(left_in_memory(os.getpid())) == before + 2
        assert "in memory" in repr(one)
    with pytest.raises(gamay.ClosedError, match="its tables are gone"):
        one.tables()
    assert len(left_in_memory(os.getpid())) == before
    opened = "import gamay, os; db = gamay.connect(':memory:', threads=1); db.create_table('t', {'a': [1]})"
    assert left_in_memory(child(f"{opened}; print(os.getpid())")) == []
    killed = child(f"{opened}; print(os.getpid(), flush=True); os.kill(os.getpid(), 9)", kill=True)
    assert len(left_in_memory(killed)) == 1
    gamay.connect(":memory:", threads=1).close()
    assert left_in_memory(killed) == []


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("http://localhost:9000", r"gamay\.client\.Connection\.from_controller\('http://localhost:9000'\)"),
        ("https://broker", r"gamay\.client\.connect\('https://broker'\)"),
        ("s3://bucket/data", "is a URL"),
        ("", "empty"),
        (7, "a path, not int"),
    ],
)
def test_what_is_no_folder_is_told(path: Any, told: str) -> None:
    with pytest.raises(gamay.InvalidConfigError, match=told):
        gamay.connect(path)


# -- if_exists


def test_a_table_that_exists_fails_is_replaced_or_appended_to(tmp_path: Path) -> None:
    with gamay.connect(tmp_path, threads=1) as db:
        config = {"tableIndexConfig": {"invertedIndexColumns": ["s"]}}
        for expected in (1, 2, 3):
            db.create_table("t", {"a": [1], "s": ["x"]}, if_exists="append", config=config)
            assert db.sql("SELECT COUNT(*) FROM t").rows() == [(expected,)]
        with pytest.raises(gamay.ConflictError, match="if_exists='replace'"):
            db.create_table("t", {"a": [1]})
        for wrong in ({"config": {}}, {"schema": ONE}):
            with pytest.raises(gamay.InvalidConfigError, match="if_exists='append' does not change"):
                db.create_table("t", {"a": [1]}, if_exists="append", **wrong)  # type: ignore[arg-type]
        with pytest.raises(gamay.InvalidConfigError, match="Did you mean 'replace'"):
            db.create_table("t", {"a": [1]}, if_exists="replaced")  # type: ignore[arg-type]
        # other columns, and the type of one that stays
        db.create_table("t", {"a": ["text"], "b": [True]}, if_exists="replace")
        result = db.sql("SELECT * FROM t")
        assert (result.rows(), result.types) == ([("text", True)], ("STRING", "BOOLEAN"))
        assert list(db.segments("t").values()) == [1]
        db.append("t", {"a": ["more"], "b": [False]})
        db.create_table("t", schema=ONE, if_exists="replace")
        assert db.sql("SELECT * FROM t").rows() == []
        db.create_table("t", {"k": [1, 2]}, if_exists="replace")
        for bad in ({"k": [1, 2], "": [1, 2]}, {"k": [1]}):
            with pytest.raises(gamay.InvalidConfigError):
                db.create_table("t", bad, if_exists="replace", config={"tableIndexConfig": {"invertedIndexColumns": ["zz"]}})
        assert db.sql("SELECT k FROM t ORDER BY k").rows() == [(1,), (2,)]
    with gamay.connect(tmp_path, threads=1) as db:
        assert db.sql("SELECT k FROM t ORDER BY k").rows() == [(1,), (2,)]
        assert db.sql("SELECT k FROM t").stats.num_segments_queried == 1


def test_readers_see_the_old_rows_or_the_new_ones(tmp_path: Path) -> None:
    with gamay.connect(tmp_path, threads=1) as db:
        db.create_table("t", {"n": [0] * 10, "old": [0] * 10})
        seen: list[Any] = []
        over = threading.Event()

        def read() -> None:
            while not over.is_set():
                try:
                    seen.append(db.sql("SELECT COUNT(*), MIN(n), MAX(n) FROM t").rows()[0])
                    seen.append(db.sql("SELECT n FROM t ORDER BY n LIMIT 100").rows())
                except Exception as error:  # noqa: BLE001 - the test shows it
                    seen.append(error)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for number in range(1, 15):
            rows = {"n": [number] * (10 + number), **({"extra": ["x"] * (10 + number)} if number % 2 else {})}
            db.create_table("t", rows, if_exists="replace")
            assert db.sql("SELECT COUNT(*), MAX(n) FROM t").rows() == [(10 + number, number)]
        over.set()
        for reader in readers:
            reader.join()
        totals = [one for one in seen if isinstance(one, tuple)]
        assert [one for one in totals if one[0] != 10 + one[2] or one[1] != one[2]] == []
        rows_seen = [one for one in seen if isinstance(one, list)]
        assert [one for one in rows_seen if not one or set(one) != {(len(one) - 10,)}] == []
        assert len(totals) + len(rows_seen) == len(seen), [one for one in seen if isinstance(one, Exception)][:3]


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("gamay.controller.segments.segments.SegmentManager.add_all", "old"),
        ("gamay.embedded.core.LocalCluster.wait_until_loaded", "old"),
        ("gamay.cluster.records.registry.Registry.put_table_config", "old"),
        ("gamay.embedded.replacing.finish_replacements", "new"),
    ],
)
def test_a_replacement_whose_process_dies_is_done_or_not(tmp_path: Path, moment: str, expected: str) -> None:
    with gamay.connect(tmp_path, threads=1) as db:
        db.create_table("t", {"state": ["old"] * 3})
    owner, _, name = moment.rpartition(".")
    code = f"""
import gamay, importlib, os
db = gamay.connect({str(tmp_path)!r}, threads=1)
import gamay.embedded.replacing
parts = {owner!r}.split(".")
module = importlib.import_module(".".join(p for p in parts if p[0].islower()))
owner = getattr(module, parts[-1]) if parts[-1][0].isupper() else module
setattr(owner, {name!r}, lambda *_, **__: os.kill(os.getpid(), 9))
db.create_table("t", {{"state": ["new"] * 5, "more": [1] * 5}}, if_exists="replace")
"""
    child(code, kill=True)
    with gamay.connect(tmp_path, threads=1) as db:
        rows = db.sql("SELECT state FROM t LIMIT 100").rows()
        assert rows == [("old",)] * 3 if expected == "old" else [("new",)] * 5
        assert ("more" in db.schema("t")) is (expected == "new")
        assert sum(db.segments("t").values()) == len(rows)
        assert db._cluster.registry.segment_names("t_OFFLINE") == list(db.segments("t"))
        assert db._cluster.registry.get_lineage("t_OFFLINE").entries == {}
        assert len(list((tmp_path / "deepstore").rglob("metadata.json"))) <= 1


# -- queries


def test_null_is_unknown_unless_switched_off(db: Database) -> None:
    db.create_table("gaps", {"a": [10, None, 3], "s": ["x", None, "y"]}, if_exists="replace")
    asked = "SELECT AVG(a), COUNT(a), COUNT(*), MIN(a) FROM gaps"
    assert db.sql(asked).rows() == [(6.5, 2, 3, 3.0)]
    assert db.sql("SELECT SUM(a) FROM gaps WHERE a < 5").rows() == [(3.0,)]
    assert db.sql("SELECT s FROM gaps WHERE s <> 'x'").rows() == [("y",)]
    assert db.sql("SELECT SUM(a) FROM gaps WHERE a > 50").rows() == [(None,)]
    assert db.sql(asked, enableNullHandling=False).rows() == [(13 / 3, 3, 3, 0.0)]
    assert db.sql(f"SET enableNullHandling=false; {asked}").rows() == [(13 / 3, 3, 3, 0.0)]
    other = gamay.connect(db._folder.path)
    other.settings.null_handling = False
    assert other.sql(asked).rows() == [(13 / 3, 3, 3, 0.0)]
    assert other.sql(asked, enableNullHandling="true").rows() == db.sql(asked).rows() == [(6.5, 2, 3, 3.0)]
    other.close()
    for name, value in (("null_handlin", False), ("null_handling", 1)):
        with pytest.raises(gamay.InvalidConfigError, match="null_handling"):
            setattr(db.settings, name, value)


def test_parameters(db: Database) -> None:
    def count(text: str, params: Any) -> int:
        (number,) = db.sql(f"SELECT COUNT(*) FROM many WHERE {text}", params)[0]
        return int(number)

    assert count("s = ? AND i < ?", ["a", 10]) == 5
    assert count("s = ? AND i IN (?)", ("a", [1, 2, 3, 4])) == 2
    assert count("s = :s AND i > :low AND ':s' <> '?' -- :none ?", {"s": "a", "low": 49, "more": 1}) == 25
    assert count("s = %(s)s", {"s": "b"}) == 50
    assert count("s = ?", ["' OR 1 = 1 --"]) == 0
    assert count("s = :s", {"s": "a' OR 'a' = 'a"}) == 0
    assert len(db.sql("SELECT i FROM many ORDER BY i LIMIT ?", [3])) == 3


@pytest.mark.parametrize(
    ("text", "params", "told"),
    [
        ("s = ?", [], "1 placeholders, but 0 parameters"),
        ("s = ? AND s = ?", ["a"], "2 placeholders, but 1 parameters"),
        ("s = :city", {"citi": "a"}, "parameter :city is not given. Did you mean 'citi'"),
        ("s = :city", ["a"], r"names its parameters \(:city\): give a mapping"),
        ("s = ?", {"s": "a"}, r"numbers its parameters \(\?\): give a list"),
        ("s = 'a'", {"s": "a"}, "has no placeholders such as :s"),
        ("s = ?", "a", "a mapping or a list, not str"),
        ("s = ?", [object()], "type object has no literal"),
        ("s = ?", None, r"Give the values of \? as in db\.sql\(text, \[…\]\)"),
        ("s = :a OR s = :b", None, r"Give the values of :a, :b as in db\.sql\(text, \{…\}\)"),
    ],
)
def test_parameters_that_do_not_fit_are_told(db: Database, text: str, params: Any, told: str) -> None:
    with pytest.raises(gamay.QueryError, match=told):
        db.sql(f"SELECT COUNT(*) FROM many WHERE {text}", params)


SQL_VALUES = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"]))
    | st.floats(allow_nan=False)
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(SQL_VALUES, min_size=1, max_size=4))
def test_parameters_come_back_as_themselves(db: Database, values: list[Any]) -> None:
    marks = ", ".join(f"? AS c{n}" for n in range(len(values)))
    names = ", ".join(f":v{n} AS c{n}" for n in range(len(values)))
    named = {f"v{n}": value for n, value in enumerate(values)}
    expected = [tuple(values)]
    assert db.sql(f"SELECT {marks} FROM many LIMIT 1", values).rows() == expected
    assert db.sql(f"SELECT {names} FROM many LIMIT 1", named).rows() == expected


def test_options_are_known_and_act(db: Database) -> None:
    with pytest.raises(gamay.InvalidConfigError, match=r"no query option 'timeoutMS'\. Did you mean 'timeoutMs'"):
        db.sql("SELECT i FROM many", timeoutMS=3)
    with pytest.raises(gamay.QueryError, match="timeoutMs must be a whole number greater than 0"):
        db.sql("SELECT i FROM many", timeoutMs=0)
    assert db.sql("SELECT s, COUNT(*) FROM many GROUP BY s", numGroupsLimit=1).partial
    assert db.sql("SELECT i FROM many", dropResults=True).rows() == []
    assert db.sql("SELECT i FROM many LIMIT 1", timeoutMs=60_000).warnings == ()


def test_options_without_effect_are_warned_of(db: Database) -> None:
    sentence = "The query option 'useSpools' has no effect"
    with pytest.warns(UserWarning, match=sentence) as caught:
        result = db.sql("SELECT i FROM many LIMIT 1", useSpools=False)
    assert (result.warnings, result.partial, len(result)) == ((sentence,), False, 1)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "text",
    ["SELECT i FROM many", "SELECT i FROM many ORDER BY i", "SELECT i, COUNT(*) FROM many GROUP BY i",
     "SELECT DISTINCT i FROM many"],
)  # fmt: skip
def test_rows_that_the_default_limit_leaves_out_are_told(db: Database, text: str) -> None:
    for _ in range(3):  # the third is answered at once
        result = db.sql(text)
        assert (len(result), result.has_more) == (10, True)
        assert str(result).splitlines()[-1] == "LIMIT 10 by default; there is more."
        assert "LIMIT 10 by default; there is more." in result._repr_html_()
        whole = db.sql(text.replace("FROM many", "FROM many WHERE i < 10"))
        assert (len(whole), whole.has_more, "LIMIT" in repr(whole)) == (10, False, False)
        limited = db.sql(f"{text} LIMIT 10")
        assert (len(limited), limited.has_more) == (10, False)
        assert limited.rows() == result.rows() or "ORDER" not in text


def test_results_are_taken_on(db: Database) -> None:
    result = db.sql("SELECT i, s FROM many ORDER BY i LIMIT 3")
    assert result["s"] == ["a", "b", "a"]
    assert (result[0], result[-1], result[1:]) == ((0, "a"), (2, "a"), [(1, "b"), (2, "a")])
    with pytest.raises(KeyError, match="There are: i, s"):
        result["nothing"]
    with pytest.raises(IndexError):
        result[3]
    assert (
        pa.table(result).to_pydict()
        == pl.DataFrame(result).to_dict(as_series=False)
        == {"i": [0, 1, 2], "s": ["a", "b", "a"]}
    )
    assert duckdb.sql("SELECT SUM(i) FROM result").fetchall() == [(3,)]
    arrays = result.to_numpy()
    assert (arrays["i"].dtype, arrays["i"].tolist(), arrays["s"].tolist()) == (np.dtype("int64"), [0, 1, 2], ["a", "b", "a"])
    db.create_table("copied", result, if_exists="replace")
    assert db.sql("SELECT * FROM copied ORDER BY i").rows() == result.rows()
    db.create_table("gaps", {"n": [1, None], "d": [dt.date(2024, 1, 2), None], "b": [True, None]}, if_exists="replace")
    arrays = db.sql("SELECT n, d, b, n AS n FROM gaps").to_numpy()
    assert arrays["n"].tolist() == [1, None]
    assert np.ma.is_masked(arrays["n"])
    assert np.isnat(arrays["d"]).tolist() == [False, True]
    assert arrays["b"].tolist() == [True, None]
    assert "n_1" in arrays


# -- data


STRUCTURED = np.array([(1, 2.5, "x"), (2, 3.5, "ü")], dtype=[("a", "i4"), ("b", "f8"), ("c", "U4")])
KINDS: list[Callable[[], Any]] = [
    lambda: {"a": [1, 2], "b": [2.5, 3.5], "c": ["x", "ü"]},
    lambda: {"a": np.array([1, 2]), "b": pd.Series([2.5, 3.5]), "c": pl.Series(["x", "ü"])},
    lambda: {"a": pa.array([1, 2]), "b": pa.chunked_array([[2.5], [3.5]]), "c": ("x", "ü")},
    lambda: [{"a": 1, "c": "x", "b": 2.5}, {"c": "ü", "b": 3.5, "a": 2}],
    lambda: STRUCTURED,
    lambda: STRUCTURED.view(np.recarray),
    lambda: duckdb.sql("SELECT * FROM (VALUES (1, 2.5::DOUBLE, 'x'), (2, 3.5::DOUBLE, 'ü')) t(a, b, c)"),
    lambda: pd.DataFrame({"a": [1, 2], "b": [2.5, 3.5], "c": pd.Categorical(["x", "ü"])}),
]


@pytest.mark.parametrize("make", KINDS)
def test_data_of_all_kinds(db: Database, make: Callable[[], Any]) -> None:
    db.create_table("kinds", make(), if_exists="replace")
    db.append("kinds", make())
    assert db.sql("SELECT a, b, c FROM kinds ORDER BY a").rows() == [(1, 2.5, "x")] * 2 + [(2, 3.5, "ü")] * 2


def test_dicts_may_lack_keys_and_arrays_may_be_masked(db: Database) -> None:
    db.create_table("kinds", [{"a": 1}, {"b": "x"}], if_exists="replace")
    assert db.sql("SELECT a, b FROM kinds WHERE a IS NULL OR b IS NULL ORDER BY a").rows() == [(1, None), (None, "x")]
    masked = np.ma.MaskedArray([1, 2, 3], mask=[0, 1, 0])
    db.create_table("kinds", {"n": masked, "t": np.array(["2024-01-02", "NaT", "NaT"], "M8[D]")}, if_exists="replace")
    assert db.sql("SELECT COUNT(n), SUM(n), COUNT(t) FROM kinds").rows() == [(2, 4.0, 1)]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "an empty dict"),
        ({"a": [1], "b": [1, 2]}, r"not equally long \(a: 1, b: 2\)"),
        ({"a": "text"}, "'a' is of type str"),
        ({1: [1]}, "the names of columns are texts"),
        ({"a": [1, "x"]}, r"column 'a' \(list\) has no type"),
        ([(1, 2)], "a list of tuple, which has no names of columns"),
        (np.zeros((2, 2)), "without named fields"),
        (pd.Series([1]), r"to_frame\(\)"),
        (pl.Series([1]), r"to_frame\(\)"),
        (pd.DataFrame({"d": pd.to_timedelta([1], "s")}), r"total_seconds"),
        (pl.DataFrame({"d": [dt.timedelta(1)]}), r"total_seconds"),
        (pd.DataFrame({"d": pd.period_range("2024-01", periods=1, freq="M")}), r"to_timestamp"),
        (pd.DataFrame({"d": pd.interval_range(0, 1)}), "two columns"),
        (pd.DataFrame({"d": [1, "x"]}), r"column 'd' \(object\)"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' occurs twice"),
        (pa.table([[1], [2]], names=["a", "a"]), "'a' occurs twice"),
    ],
)
def test_data_that_no_table_can_have_is_told(db: Database, data: Any, told: str) -> None:
    with pytest.raises(gamay.InvalidConfigError, match=told):
        db.create_table("bad", data)
    assert "bad" not in db.tables()


def test_durations_are_not_appended_as_numbers(db: Database) -> None:
    with pytest.raises(gamay.InvalidConfigError, match="total_seconds"):
        db.append("many", pd.DataFrame({"i": pd.to_timedelta([1], "s")}))


def test_what_is_left_out_is_told(db: Database, tmp_path: Path) -> None:
    db.create_table("kept", {"city": ["Oslo"], "n": [1]}, if_exists="replace")
    with pytest.warns(
        UserWarning, match=r"table 'kept' has no column citi, .*The table has city, n. Did you mean 'city'"
    ) as told:
        db.append("kept", {"citi": ["x"], "n": [1]})
    assert told[0].filename == __file__
    (tmp_path / "rows.csv").write_text("city,n,x,y\nLima,1,2,3\n")
    with pytest.warns(UserWarning, match="has no columns x, y"):
        db.append("kept", tmp_path / "rows.csv")
    indexed = pd.DataFrame({"n": [1]}, index=pd.Index(["Oslo"], name="city"))
    with pytest.warns(UserWarning, match=r"index \(city\) .* reset_index\(\) makes it a column"):
        db.append("kept", indexed)
    with pytest.warns(UserWarning, match=r"index \(of datetime64"):
        db.append("kept", pd.DataFrame({"n": [1]}, index=pd.date_range("2024-01-01", periods=1)))
    with pytest.warns(UserWarning, match="cut to milliseconds"):
        db.create_table("times", {"t": np.array(["2024-01-01T00:00:00.000001"], "M8[us]")}, if_exists="replace")
    db.append("kept", pd.DataFrame({"n": [1, 2, 3]})[lambda frame: frame.n > 1])  # numbers of rows are no data
    with pytest.warns(UserWarning, match="longer than the maxLength"):
        db.create_table(
            "short",
            {"s": ["x" * 600]},
            schema={"dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}]},
            if_exists="replace",
        )
    db.create_table("long", {"s": ["x" * 600]}, if_exists="replace")
    assert len(db.sql("SELECT s FROM long")["s"][0]) == 600


def test_headers_with_spaces_become_columns(db: Database, tmp_path: Path) -> None:
    """Of all types, in each form of data, and when rows are appended by the one name or the other."""
    (tmp_path / "orders.csv").write_text("Order ID,Unit  price,Day placed\n1,2.5,2024-01-02\n2,,2024-01-03\n")
    with pytest.warns(UserWarning, match=r"\"Order ID\" is 'Order_ID', \"Unit  price\" is 'Unit_price'"):
        db.create_table("orders", tmp_path / "orders.csv", if_exists="replace")
    db.append("orders", tmp_path / "orders.csv")
    db.append("orders", {"Order ID": [3], "Unit  price": [4.0], "Day placed": [dt.datetime(2024, 2, 1)]})
    db.append("orders", {"Order_ID": [4], "Unit_price": [8.0]})
    assert db.sql("SELECT COUNT(*), SUM(Order_ID), SUM(Unit_price) FROM orders").rows() == [(6, 13.0, 17.0)]
    assert db.sql("SELECT COUNT(*) FROM orders WHERE Day_placed >= '2024-02-01'").rows() == [(1,)]
    kinds = {
        "u": pa.array([2**63, None], pa.uint64()), "d": [dt.date(2024, 1, 2), None], "l": [[1, 2], []], "b": [b"\x00", None],
        "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())), "s": [{"a": 1}, None], "t": ["x", None],
    }  # fmt: skip
    with warnings.catch_warnings(action="ignore"):
        db.create_table("spaced", pa.table({f"{name} x": values for name, values in kinds.items()}), if_exists="replace")
    db.create_table("plain", pa.table({f"{name}_x": values for name, values in kinds.items()}), if_exists="replace")
    spaced, plain = (db.sql(f"SET enableNullHandling = true; SELECT * FROM {name}") for name in ("spaced", "plain"))
    assert (spaced.columns, spaced.rows()) == (plain.columns, plain.rows())


NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([NOON], ("TIMESTAMP", "TIMESTAMP")),
        ([NOON.date()], ("TIMESTAMP", "TIMESTAMP")),
        ([1714564800000, None], ("LONG", "1:MILLISECONDS:EPOCH")),
        ([1714564800], ("LONG", "1:SECONDS:EPOCH")),
        ([1714564800000000], ("LONG", "1:MICROSECONDS:EPOCH")),
        ([1714564800000000000], ("LONG", "1:NANOSECONDS:EPOCH")),
        ([19844], ("LONG", "1:DAYS:EPOCH")),
        ([476268], ("LONG", "1:HOURS:EPOCH")),
        ([28576080], ("LONG", "1:MINUTES:EPOCH")),
        ([20240501, 20231231], ("LONG", "SIMPLE_DATE_FORMAT|yyyyMMdd")),
        ([2024, 1999], ("LONG", "SIMPLE_DATE_FORMAT|yyyy")),
        (["2024-05-01"], ("TIMESTAMP", "TIMESTAMP")),
        (["2024-05-01 12:00:00.5"], ("TIMESTAMP", "TIMESTAMP")),
        (["2024-05-01T12:00:00Z", "2024-05-01T12:00:00+02:00"], ("TIMESTAMP", "TIMESTAMP")),
        (["20240501"], ("STRING", "SIMPLE_DATE_FORMAT|yyyyMMdd")),
        ([5], None),
        ([1.5], None),
        (["soon"], None),
        ([[1714564800000]], None),
    ],
)
@pytest.mark.filterwarnings("ignore:the time column")
def test_time_columns_are_inferred(
    db: Database, tmp_path: Path, values: list[Any], expected: tuple[str, str] | None
) -> None:
    config = {"segmentsConfig": {"timeColumnName": "t"}}
    data = {"t": values, "n": list(range(len(values)))}
    if expected is None:
        with pytest.raises(gamay.InvalidConfigError, match=r"column 't' .* are not times in 1971 to 2071"):
            db.create_table("timed", data, config=config, if_exists="replace")
        return
    pl.DataFrame({name: list(map(str, column)) if column is values and isinstance(values[0], dt.date) else column
                  for name, column in data.items()}).write_csv(tmp_path / "rows.csv")  # fmt: skip
    for given_data in (data, pa.table(data).to_reader(), tmp_path / "rows.csv"):
        db.create_table("timed", given_data, config=config, if_exists="replace")
        field = db.schema("timed").field("t")
        is_text = given_data is not data and isinstance(given_data, Path) and expected[0] == "STRING"
        assert is_text or (field.data_type.value, field.format.text if field.format else "") == expected
        assert db.sql("SELECT COUNT(*) FROM timed").rows() == [(len(values),)]


def test_what_is_inferred_of_times_is_said(db: Database) -> None:
    config = {"segmentsConfig": {"timeColumnName": "t"}}
    with pytest.warns(UserWarning, match="time column 't' is taken for LONG of the format 1:SECONDS:EPOCH"):
        db.create_table("timed", {"t": [1714564800]}, config=config, if_exists="replace")
    with pytest.raises(gamay.InvalidConfigError, match=r"'tt' is not a column of the data\. Did you mean 't'"):
        db.create_table(
            "timed", {"t": [1714564800]}, config={"segmentsConfig": {"timeColumnName": "tt"}}, if_exists="replace"
        )


# values that a column of the type gives back as they are
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "unsigned": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "double": (pa.float64(), st.floats(allow_nan=False).map(lambda x: x + 0.0)),
    "flag": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(20, 4), st.decimals(-(10**15), 10**15, places=4)),
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=600)),
    "bytes": (pa.binary(), st.binary(max_size=600)),
    "day": (pa.date32(), st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))),
    "moment": (pa.timestamp("ms", "Europe/Oslo"), st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)).map(
        lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000, tzinfo=dt.UTC))),
    "uuid": (pa.uuid(), st.uuids()),
    "longs": (pa.list_(pa.int64()), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3)),
    "texts": (pa.list_(pa.string()), st.lists(st.sampled_from(["a", "ü", ""]), min_size=1, max_size=3)),
}  # fmt: skip


def stored(value: Any) -> Any:
    """Return a value after a round trip."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    return decimal.Decimal(value) if isinstance(value, int) and value >= 2**63 else value


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_values_of_all_types_come_back(db: Database, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), unique=True, min_size=1, max_size=4))
    count = data.draw(st.integers(1, 4))
    columns = {}
    for name in names:
        kind, values = COLUMNS[name]
        drawn = data.draw(st.lists(st.none() | values, min_size=count, max_size=count))
        storage = [one.bytes if isinstance(one, uuid.UUID) else one for one in drawn]
        array = pa.array(storage, kind.storage_type) if isinstance(kind, pa.UuidType) else pa.array(storage, kind)
        columns[name] = (drawn, pa.ExtensionArray.from_storage(kind, array) if isinstance(kind, pa.UuidType) else array)
    table = pa.table({"row": list(range(count)), **{name: array for name, (_, array) in columns.items()}})
    db.create_table("typed", table, if_exists="replace")
    result = db.sql(f'SELECT {", ".join(names)} FROM typed ORDER BY "row"')
    for name, (drawn, _) in columns.items():
        assert result[name] == [stored(value) for value in drawn]
    # the same through whatever an answer can be made
    assert pl.DataFrame(result).height == len(result.to_pandas()) == result.to_arrow().num_rows == count
    db.create_table("again", result, if_exists="replace")
    again = db.sql(f"SELECT {', '.join(names)} FROM again LIMIT 10")
    for name in names:
        assert name == "uuid" or sorted(map(repr, again[name])) == sorted(map(repr, result[name]))  # in Arrow that is binary


def test_all_that_users_import_is_in_the_package() -> None:
    for name in gamay.__all__:
        assert getattr(gamay, name) is not None
        assert name in dir(gamay)
    assert issubclass(gamay.QueryError, gamay.GamayError)
    loaded = child("import sys, gamay; gamay.QueryError; print(sorted(m for m in sys.modules if m.startswith('gamay')))")
    assert loaded == "['gamay', 'gamay.base', 'gamay.base.errors']"
    with pytest.raises(AttributeError):
        gamay.nothing  # noqa: B018

"""Statements from the command line, files and standard input; their output and exit status."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from gamay.embedded import EmbeddedCluster
from gamay.shell.main import Request, run
from gamay.shell.profiles import Profile

Sql = Callable[..., tuple[int, str, str]]


def test_statements_are_answered_one_after_another(sql: Sql, tmp_path: Path) -> None:
    script = tmp_path / "q.sql"
    script.write_text(
        "-- the first; one\nSELECT ';' AS x FROM trips LIMIT 1;\n.mode csv\nSELECT COUNT(*) FROM trips", "utf-8"
    )
    status, out, err = sql(files=[script])
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[2] == ";"
    assert lines[-2:] == ["count(*)", "4"]


def test_standard_input_is_read(sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT COUNT(*) AS n FROM trips;"))
    assert sql(output="csv") == (0, "n\n4\n", "")


def test_an_error_says_where_and_ends_the_run(sql: Sql, tmp_path: Path) -> None:
    script = tmp_path / "q.sql"
    script.write_text("SELECT 1;\nSELECT cty FROM trips;\nSELECT 2", "utf-8")
    status, out, err = sql(files=[script], output="csv")
    assert status == 1
    assert out.splitlines()[1:] == ["1"]
    assert err == (
        f"{script}:2: Error: Unknown columnName 'cty' found in the query. Did you mean 'city'?\n"
        "line 1, column 8:\n  SELECT cty FROM trips\n         ^^^\n"
    )
    status, out, _ = sql(files=[script], output="csv", stops=False)
    assert (status, out.splitlines()[3:]) == (1, ["2"])


def test_parameters(sql: Sql) -> None:
    query = "SELECT COUNT(*) AS n FROM trips WHERE city IN (:cities) AND fare > :least"
    assert sql(query, params=['cities=["Oslo", "Lima"]', "least=5"], output="csv")[1] == "n\n2\n"
    assert sql("SELECT COUNT(*) AS n FROM trips WHERE city = ?", params=["x' OR 1=1 --"], output="csv")[1] == "n\n0\n"
    two = "SELECT COUNT(*) AS n FROM trips WHERE city = ?; SELECT COUNT(*) AS n FROM trips WHERE fare > ?"
    assert sql(two, params=["Oslo", "5"], output="csv")[1] == "n\n2\nn\n2\n"
    status, _, err = sql("SELECT 1", params=["a=1"])
    assert (status, "no statement has :a" in err) == (2, True)
    assert sql("SELECT 1", params=["a=1", "2"])[0] == 2
    assert sql("SELECT COUNT(*) FROM trips WHERE city = :a", params=["b=1"])[0] == 1


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_what_an_answer_lacks_is_said(sql: Sql, form: str) -> None:
    """On standard error, as programs read rows on standard output."""
    query = "SELECT day, COUNT(*) FROM trips GROUP BY day"
    for limit, note in ((2, "The answer is partial: groups beyond numGroupsLimit are left out.\n"), (9, "")):
        _, out, err = sql(f"SET numGroupsLimit = {limit}; {query}", output=form)
        assert note in (out if form == "table" else err)
        assert ("partial" in out + err) == bool(note)


def test_wrong_use_is_told_apart_from_wrong_statements(sql: Sql, tmp_path: Path) -> None:
    for wrong, message in (
        ({"output": "tabel"}, "Did you mean 'table'?"),
        ({"place": str(tmp_path / "nowhere")}, "there is no such folder"),
        ({"place": "http://ann:secret@localhost:1"}, "a password in a URL"),
        ({"place": "@prod"}, "there is no profile 'prod'"),
        ({"files": [tmp_path / "none.sql"]}, "cannot be read"),
        ({"place": "ftp://x"}, "is not the address of a cluster"),
    ):
        status, out, err = sql("SELECT 1", **wrong)
        assert (status, out) == (2, "")
        assert message in err
        assert "secret" not in err
    status, _, err = sql("SELECT 1", place="http://127.0.0.1:1")
    assert status == 1
    assert "got no answer" in err


def test_a_cluster_is_asked_by_any_of_its_addresses(sql: Sql, cluster: EmbeddedCluster) -> None:
    for url in (cluster.controller_url, cluster.broker_url, cluster.broker_url.removeprefix("http://")):
        status, out, _ = sql("SELECT COUNT(*) AS n, MAX(day) AS d FROM trips", place=url)
        assert (status, out.splitlines()[2].split()) == (0, ["4", "2024-05-03"])


def test_a_folder_in_use_is_asked_through_its_cluster(cluster: EmbeddedCluster, cluster_folder: Path) -> None:
    """In another process, as this one shares the folder."""
    request = f"Request(place={str(cluster_folder)!r}, texts=['SELECT COUNT(*) FROM trips'])"
    code = f"from gamay.shell.main import *; exit(run({request}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert told.returncode == 0, told.stderr
    assert "is in use by process" in told.stderr
    assert f"its broker at {cluster.broker_url} is asked" in told.stderr
    assert told.stdout.splitlines()[2].strip() == "4"


def test_profiles(sql: Sql, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: EmbeddedCluster) -> None:
    config = tmp_path / "config" / "gamay" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'default = "local"\n[profiles.local]\npath = "{folder}"\n[profiles.far]\nurl = "{cluster.controller_url}"\n',
        "utf-8",
    )
    count = "SELECT COUNT(*) AS n FROM trips"
    assert sql(count, place=None, output="csv")[1] == "n\n4\n"
    assert sql("SELECT COUNT(*) AS n FROM numbers", place="@far", output="csv")[1] == "n\n20000\n"
    monkeypatch.setenv("GAMAY_URL", cluster.broker_url)
    assert sql("SELECT COUNT(*) AS n FROM numbers", place=None, output="csv")[1] == "n\n20000\n"
    for text, message in (
        ("[profiles.x]\nurl = 'http://a'\npassword = 'p'", "passwords are not kept in files"),
        ("[profiles.x]\nurk = 'http://a'", "Did you mean 'url'?"),
        ("[profiles.x]\nuser = 'a'", "either url"),
        ("[profiles.x", "cannot be read"),
        ("[profiles.x]\nurl = 'http://a'\ntoken = 't'", "chmod 600"),
        ("default = 'y'", "none of the profiles"),
        ("[profiles.x]\nurl = 'http://a'\ntimeout_s = 'y'", "must be a number of seconds"),
    ):
        config.write_text(text, "utf-8")
        config.chmod(0o644)
        status, _, err = sql("SELECT 1", place="@x")
        assert (status, message in err) == (2, True), err


def test_a_pipe_gets_arrow(folder: Path) -> None:
    import pyarrow as pa

    command = [sys.executable, "-m", "gamay.cli", "sql", str(folder), "-c", "SELECT city FROM trips", "--output", "arrow"]
    told = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
    assert pa.ipc.open_stream(told.stdout).read_all().num_rows == 4
    command = [
        sys.executable,
        "-m",
        "gamay.cli",
        "query",
        "SELECT cty FROM trips",
        "--data-dir",
        str(folder),
        "--format",
        "json",
    ]
    told = subprocess.run(command, capture_output=True, timeout=PATIENCE_S)
    assert (told.returncode, told.stdout) == (1, b"")
    assert b"^^^" in told.stderr


def test_a_password_comes_from_the_environment_or_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from gamay.shell.profiles import ShellConfig
    from gamay.shell.target import find_target

    asked: list[str] = []

    def ask(text: str) -> str:
        asked.append(text)
        return "typed"

    nothing = ShellConfig({})
    found = find_target("http://ann@h:9000", None, Profile(), nothing, {}, ask)
    assert (found.url, found.user, found.password) == ("http://h:9000", "ann", "typed")
    assert asked == ["Password of ann at http://h:9000: "]
    found = find_target("http://h", None, Profile(user="bob"), nothing, {"GAMAY_PASSWORD": "p"}, None)
    assert (found.user, found.password) == ("bob", "p")
    found = find_target("http://h", None, Profile(), nothing, {"GAMAY_TOKEN": "abc"}, None)
    assert found.token == "Bearer abc"
    assert "abc" not in repr(found)


def test_json_documents_stand_on_lines(sql: Sql) -> None:
    out = sql("SELECT 1 AS a; SELECT 2 AS a", output="json")[1]
    assert [json.loads(line) for line in out.splitlines()] == [[{"a": 1}], [{"a": 2}]]
    assert run(Request(place=":memory:", texts=["SELECT 1"])) == 0


def test_a_statement_that_cannot_be_ended_does_not_keep_the_process() -> None:
    """As one in native code, which Python's own end would take the interpreter from; this one keeps what it has."""
    code = (
        "import threading, time\nfrom gamay.cli.shell import run_sql\nfrom gamay.shell import asking, main\n"
        "def run(request):\n"
        "    threading.Thread(target=time.sleep, args=(3600,), name=asking._THREAD).start()\n"
        "    print('so far', end='')\n    return 130\n"
        "main.run = run\nrun_sql(None, None, ['SELECT 1'], None, None, None)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (told.returncode, told.stdout) == (130, "so far"), told.stderr

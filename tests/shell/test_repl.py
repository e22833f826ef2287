"""The interactive shell: with input from a pipe, and on a pseudo-terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from tests.waiting import PATIENCE_S

from gamay.embedded import EmbeddedCluster
from gamay.shell.prompt import ShellCompleter, make_prompt, open_history
from gamay.shell.repl import run_repl
from gamay.shell.session import Session, open_session
from gamay.shell.state import Shell
from gamay.shell.target import Target


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    opened = open_session(Target(path=str(folder)))
    yield opened
    opened.close()


Typed = Callable[..., tuple[str, str]]


@pytest.fixture
def typed(session: Session, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Typed:
    """Return a function that types keys into a shell and returns its output."""

    def feed(*keys: str) -> tuple[str, str]:
        with create_pipe_input() as keyboard:
            keyboard.send_text("".join(keys) + "\x04")
            prompt = make_prompt(session, open_history(tmp_path / "history"), input=keyboard, output=DummyOutput())
            run_repl(Shell(session, paged=True), prompt)
        return capsys.readouterr()

    return feed


def test_a_statement_goes_over_lines_until_its_end(typed: Typed) -> None:
    out, err = typed("SELECT COUNT(*) AS n\r", "FROM trips\r", "WHERE city = ';';\r", "SELECT 5 AS five;\r")
    assert out.count("\n0\n") == 1
    assert "five" in out
    assert err == ""


def test_history_is_kept_for_the_next_shell_and_for_its_user_alone(typed: Typed, tmp_path: Path) -> None:
    typed("SELECT 1234;\r")
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600
    out, _ = typed("\x1b[A\r")  # the key up
    assert "1,234" in out or "1234" in out


def test_commands(typed: Typed, tmp_path: Path) -> None:
    out, err = typed(".tables\r.schema trips\r.timer off\r.mode csv\rSELECT COUNT(*) AS n FROM trips;\r.mode\r")
    assert err == ""
    assert re.search(r"trips +6", out)
    assert re.search(r"day +INT \(SIMPLE_DATE_FORMAT\|yyyyMMdd\) +date time", out)
    assert "n\n4\ncsv; there are" in out
    path = tmp_path / "out.jsonl"
    out, err = typed(
        f".output {path}\rSELECT 1 AS a;\rSELECT 2 AS a;\r.output\r.explain SELECT city FROM trips WHERE fare > 5\r"
    )
    assert path.read_text() == '{"a": 1}\n{"a": 2}\n'
    assert "is written" in out
    assert re.search(r"BROKER_REDUCE.*\n└─ COMBINE_SELECT", out)
    script = tmp_path / "x.sql"
    script.write_text("SELECT 11 AS a;\nSELECT nope FROM trips;", "utf-8")
    out, err = typed(f".read {script}\r")
    assert "11" in out
    assert f"{script}:2: Error: Unknown columnName 'nope'" in err


def test_what_is_mistyped_is_told(typed: Typed) -> None:
    for line, told in (
        (".tabels", "Did you mean '.tables'?"),
        (".mode tabel", "Did you mean 'table'?"),
        (".schema trip", "Did you mean 'trips'?"),
        (".timer maybe", ".timer on"),
        (".chart", "no answer to draw yet"),
        (".mode parquet", "not for terminals"),
        (".read nowhere.sql", "cannot be read"),
        (".output /nowhere/x.csv", "cannot be written"),
        (".schema a b", "write .schema [TABLE]"),
        (".help 'x", ".help"),
    ):
        out, err = typed(f"{line}\r")
        assert told in err, (line, out, err)
    out, err = typed("SELECT fare FROM trips WHERE cty = 5;\rSELECT 7 AS seven;\r")
    assert err.endswith("WHERE cty = 5\n                               ^^^\n")
    assert "seven" in out
    out, _ = typed(".quit\rSELECT 1;\r")
    assert out == ""


def test_charts(typed: Typed) -> None:
    query = "SELECT city, SUM(fare) AS fares FROM trips WHERE city IS NOT NULL GROUP BY city ORDER BY fares DESC;\r"
    out, _ = typed(query, ".chart\r.chart line city fares\r.chart bar city cty\r")
    assert re.search(r"fares by city\nOslo 12\.50 █+\nLima +7\.00 █+", out)
    assert "└──" in out
    daily = "SELECT day, COUNT(*) AS n FROM trips GROUP BY day ORDER BY day;\r"
    out, _ = typed(daily, ".chart\r")
    assert "2024-05-01" in out
    assert any(0x2800 < ord(c) < 0x2900 for c in out)  # a line, for days are in order


def test_completion_in_the_shell(session: Session) -> None:
    def offered(before: str, behind: str = "") -> list[str]:
        document = Document(before + behind, len(before))
        return [one.text for one in ShellCompleter(session).get_completions(document, CompleteEvent())]

    assert offered(".sc") == [".schema"]
    assert offered(".schema tr") == ["trips"]
    assert offered(".mode js") == ["json", "jsonl"]
    assert offered("SELECT fa", " FROM trips")[0] == "fare"
    assert "DATETRUNC(" in [text.upper() for text in offered("SELECT datetr", " FROM trips")]


class Terminal:
    """A pseudo-terminal with `gamay sql` in it."""

    def __init__(self, *arguments: str) -> None:
        self.parent, child = pty.openpty()
        command = [sys.executable, "-m", "gamay.cli", "sql", *arguments]
        environment = {**os.environ, "TERM": "xterm", "PAGER": "cat", "COLUMNS": "100", "LINES": "40"}
        self.process = subprocess.Popen(
            command, stdin=child, stdout=child, stderr=child, env=environment, start_new_session=True,
            preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(child)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.parent, text.encode())

    def wait_for(self, pattern: str, seconds: float = 30) -> str:
        """Return all that was printed until something like that was; forget it."""
        until = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < until, f"{pattern!r} not in {self.seen!r}"
            if select.select([self.parent], [], [], 0.2)[0]:
                try:
                    data = os.read(self.parent, 65536).decode(errors="replace")
                except OSError:
                    data = ""
                assert data, f"{pattern!r} not in {self.seen!r}, and it has ended"
                if "\x1b[6n" in data:  # prompt_toolkit asks where the cursor is
                    self.type("\x1b[1;1R")
                self.seen += data
        before, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return before

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self.parent)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which jobs in the background of a script ignore, and hand on


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield start
    for one in opened:
        one.end()


SLOW = "SELECT COUNT(*) FROM numbers a JOIN numbers b ON a.n < b.n JOIN numbers c ON b.n < c.n;"


def test_ctrl_c_cancels_on_the_broker_and_ctrl_d_leaves(cluster: EmbeddedCluster, terminal: Callable[..., Terminal]) -> None:
    import httpx

    shell = terminal(cluster.broker_url, "--timeout-s", "60")
    shell.wait_for("gamay>")
    shell.type(f"SET maxRowsInJoin = 1000000000; {SLOW}\r")
    shell.wait_for("Ctrl-C cancels")
    assert len(httpx.get(f"{cluster.broker_url}/queries").json()) == 1
    shell.type("\x03")
    shell.wait_for("Cancelled")
    shell.wait_for("gamay>")
    assert httpx.get(f"{cluster.broker_url}/queries").json() == {}
    shell.type("SELECT 41 + 1 AS answer;\r")
    shell.wait_for("42")
    shell.wait_for("gamay>")
    shell.type("half")
    shell.wait_for("half")
    shell.type("\x03")
    shell.wait_for("gamay>")
    time.sleep(0.2)  # until the terminal is in the prompt's hands
    shell.type("\x04")
    assert shell.process.wait(timeout=PATIENCE_S) == 0


def test_ctrl_c_ends_a_script(folder: Path, terminal: Callable[..., Terminal]) -> None:
    options = "SET maxRowsInJoin = 1000000000; SET timeoutMs = 60000"
    shell = terminal(str(folder), "-c", f"{options}; {SLOW} SELECT 1")
    shell.wait_for("Ctrl-C cancels")
    shell.type("\x03")
    shell.wait_for("Cancelled")
    assert shell.process.wait(timeout=PATIENCE_S) == 130

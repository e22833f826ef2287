"""The dot commands, which the shell handles itself."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gamay.base.errors import GamayError, InvalidConfigError, NotFoundError, nearest
from gamay.shell.chart import KINDS, chart_text
from gamay.shell.formats.table import table_text
from gamay.shell.formats.write import BINARY, FORMATS, check_format, format_of_file
from gamay.shell.output import FileOutput, screen_of, show
from gamay.shell.parameters import ParameterFeed
from gamay.shell.state import Shell
from gamay.shell.statements import split

_SWITCH = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class Command:
    """One command. usage: its arguments; help: its description; run: executes it with its arguments.

    rest: whether the rest of the line is a single argument, such as a statement.
    """

    name: str
    usage: str
    help: str
    run: Callable[[Shell, Sequence[str]], None]
    arguments_max: int = 1
    rest: bool = False


class Leave(Exception):  # noqa: N818 - a user's request, not an error
    """Request to end the shell."""


def run_command(shell: Shell, line: str) -> bool:
    """Run a line that begins with a dot; print any error to standard error; return whether it succeeded.

    Raises Leave.
    """
    name, _, rest = line.strip().rstrip(";").partition(" ")
    command = COMMANDS.get(name.lower())
    try:
        if command is None:
            known = nearest(name, COMMANDS) or " .help lists them"
            raise InvalidConfigError(f"there is no command {name}.{known}")
        command.run(shell, _arguments(command, rest.strip()))
    except (GamayError, OSError) as error:
        shell.tell(error)
        return False
    return True


def run_text(shell: Shell, text: str, where: str = "", params: ParameterFeed | None = None, *, stops: bool = True) -> bool:
    """Run the statements and commands of a text; return whether all succeeded. stops: stop at the first failure.

    where: the name of the text in messages. Raises Leave, and KeyboardInterrupt when a statement was cancelled.
    """
    fine = True
    for statement in split(text):
        if statement.is_command:
            fine &= run_command(shell, statement.text)
        else:
            share = None if params is None else params.take(statement.text)
            fine &= shell.run(statement, share, f"{where}:{statement.line}" if where else "")
        if not fine and stops:
            break
    return fine


def _arguments(command: Command, rest: str) -> list[str]:
    if command.rest:
        return [rest] if rest else []
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise InvalidConfigError(f"{command.name}: {error}") from error
    if len(words) > command.arguments_max:
        raise InvalidConfigError(f"write {command.name} {command.usage}".rstrip())
    return words


def _tables(shell: Shell, _: Sequence[str]) -> None:
    catalog = shell.session.catalog(fresh=True)
    rows = [(name, len(columns)) for name, columns in catalog.tables.items()]
    if rows:
        _print(["table", "columns"], ["STRING", "INT"], rows)
    else:
        print("There is no table yet. Files can be queried directly: SELECT * FROM 'rows.csv' LIMIT 5;")


def _schema(shell: Shell, words: Sequence[str]) -> None:
    catalog = shell.session.catalog(fresh=True)
    names = [_known_table(shell, words[0])] if words else list(catalog.tables)
    for name in names:
        if not words:
            print(name)
        rows = [(c.name, c.shown_type, c.role.lower().replace("_", " ")) for c in catalog.columns(name)]
        _print(["column", "type", "role"], ["STRING"] * 3, rows)


def _known_table(shell: Shell, given: str) -> str:
    catalog = shell.session.catalog()
    name = catalog.name(given) or catalog.name(given.strip('"'))
    if name is None:
        known = list(catalog.tables)
        hint = nearest(given, known) or (f" There are: {', '.join(known)}" if known else " There is no table yet")
        raise NotFoundError(f"there is no table '{given}'.{hint}")
    return name


def _print(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    import sys

    screen = screen_of(sys.stdout)
    print(table_text(columns, types, rows, width=screen.width, color=screen.color))


def _mode(shell: Shell, words: Sequence[str]) -> None:
    if not words:
        print(f"{shell.mode}; there are: {', '.join(FORMATS)}")
        return
    form = check_format(words[0].lower(), ".mode")
    if form in BINARY:
        raise InvalidConfigError(f"{form} is not for terminals: .output FILE.{form} writes the next answer")
    shell.mode = form


def _output(shell: Shell, words: Sequence[str]) -> None:
    if shell.output is not None:
        shell.output.close()
        print(f"{shell.output.path} is written.")
        shell.output = None
    if not words:
        return
    path = Path(words[0]).expanduser()
    form = check_format(words[1], ".output FILE") if len(words) > 1 else format_of_file(path) or shell.mode
    shell.output = FileOutput(path, form)
    print(f"Answers go to {path} as {form}, until .output")


def _timer(shell: Shell, words: Sequence[str]) -> None:
    shell.timed = _switched(".timer", words, now=shell.timed)
    print(f"What answers cost is {'told' if shell.timed else 'not told'}.")


def _pager(shell: Shell, words: Sequence[str]) -> None:
    shell.paged = _switched(".pager", words, now=shell.paged)
    print(f"Long answers are {'shown page by page' if shell.paged else 'printed at once'}.")


def _switched(name: str, words: Sequence[str], *, now: bool) -> bool:
    if not words:
        return not now
    if words[0].lower() not in _SWITCH:
        raise InvalidConfigError(f"write {name} on, or {name} off")
    return _SWITCH[words[0].lower()]


def _read(shell: Shell, words: Sequence[str]) -> None:
    if not words:
        raise InvalidConfigError("write .read FILE")
    path = Path(words[0]).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not run_text(shell, text, str(path)):
        raise InvalidConfigError(f"{path} was not run to its end")


def _explain(shell: Shell, words: Sequence[str]) -> None:
    text = words[0] if words else (shell.last.sql if shell.last is not None else "")
    statements = split(text)
    if not statements:
        raise InvalidConfigError("write .explain SELECT …; alone it explains the last statement, and there is none")
    answer = shell.session.execute(f"EXPLAIN PLAN FOR {statements[0].text}", None, shell.options)
    print(explain_text(answer.columns, answer.result.rows()))


def explain_text(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a plan as a tree: each operator below the one that consumes its rows."""
    if list(columns) != ["Operator", "Operator_Id", "Parent_Id"]:
        return "\n".join(str(row[-1]) for row in rows)
    depths: dict[object, int] = {}
    lines = []
    for operator, number, parent in rows:
        depth = depths[number] = depths.get(parent, -1) + 1
        lines.append(f"{'   ' * (depth - 1)}{'└─ ' if depth else ''}{operator}")
    return "\n".join(lines)


def _chart(shell: Shell, words: Sequence[str]) -> None:
    import shutil

    if shell.last is None:
        raise InvalidConfigError("there is no answer to draw yet")
    kind = words[0].lower() if words and words[0].lower() in KINDS else None
    axes = [*(words[1:] if kind else words), None, None]
    print(chart_text(shell.last, kind, axes[0], axes[1], shutil.get_terminal_size().columns))


def _profile(shell: Shell, words: Sequence[str]) -> None:
    if not words:
        raise InvalidConfigError("write .profile TABLE")
    name = _known_table(shell, words[0])
    show(str(shell.session.source().profile(name)), paged=shell.paged)


def _help(shell: Shell, _: Sequence[str]) -> None:
    print("Statements end with ; and may go over several lines. SET name = value; holds for those after it.")
    width = max(len(f"{one.name} {one.usage}") for one in COMMANDS.values())
    for one in COMMANDS.values():
        print(f"  {f'{one.name} {one.usage}'.ljust(width)}  {one.help}")
    print("Ctrl-C cancels the statement that runs, Ctrl-D leaves.")


def _quit(shell: Shell, _: Sequence[str]) -> None:
    raise Leave


COMMANDS = {
    one.name: one
    for one in (
        Command(".tables", "", "the tables", _tables, 0),
        Command(".schema", "[TABLE]", "columns and their types", _schema),
        Command(".profile", "TABLE", "nulls, distinct values, ranges and common values of each column", _profile),
        Command(".mode", "[FORM]", f"how answers are shown: {', '.join(f for f in FORMATS if f not in BINARY)}", _mode),
        Command(".output", "[FILE [FORM]]", "write the answers that follow to a file; alone: end that", _output, 2),
        Command(".timer", "[on|off]", "whether to tell what answers cost", _timer),
        Command(".pager", "[on|off]", "whether long answers are shown page by page", _pager),
        Command(".read", "FILE", "run the statements of a file", _read),
        Command(".explain", "[STATEMENT]", "how a statement is answered; alone: the last one", _explain, rest=True),
        Command(".chart", "[bar|line] [X [Y]]", "draw the last answer", _chart, 3),
        Command(".help", "", "this", _help, 0),
        Command(".quit", "", "leave", _quit, 0),
        Command(".exit", "", "leave", _quit, 0),
    )
}

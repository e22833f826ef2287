"""Entry point of the commands `gamay sql` and `gamay query`: runs a shell or script, and returns the exit status."""

import getpass
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.shell.commands import Leave, run_text
from gamay.shell.formats.write import check_format, format_of_file
from gamay.shell.output import FileOutput
from gamay.shell.parameters import ParameterFeed, read_parameters
from gamay.shell.profiles import Profile, config_path, read_config
from gamay.shell.session import Session, open_session
from gamay.shell.state import Shell
from gamay.shell.target import Target, find_target

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Arguments of a command. place, profile, given: as for `find_target`; texts: statements; files: of statements, `-` is
    standard input; output: a format; stops: whether the first failing statement ends the run."""

    place: str | None = None
    profile: str | None = None
    given: Profile = field(default_factory=Profile)
    texts: Sequence[str] = ()
    files: Sequence[Path] = ()
    params: Sequence[str] = ()
    output: str | None = None
    output_file: Path | None = None
    stops: bool = True


def run(request: Request) -> int:
    """Run the given statements, or else an interactive shell; return the exit status.

    0: success; 1: a statement failed; 2: incorrect usage.
    """
    warnings.showwarning = _show_warning
    try:
        output = request.output and check_format(request.output)
        if output is None and request.output_file is not None:
            output = format_of_file(request.output_file)
        params = read_parameters(request.params)
        texts = _texts(request)
        session = open_session(_target(request), instead=lambda url: _target(replace(request, place=url, profile=None)))
    except (GamayError, OSError) as error:
        print(f"gamay: {error}", file=sys.stderr)
        return WRONG_USE if isinstance(error, InvalidConfigError) else FAILED
    try:
        if texts is None:
            return _interactive(session, output or "table")
        return _script(request, session, texts, ParameterFeed(params), output or "table")
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        session.close()


def _target(request: Request) -> Target:
    environment = os.environ
    config = read_config(config_path(environment))
    ask = _ask_password if _can_ask() else None
    return find_target(request.place, request.profile, request.given, config, environment, ask)


def _can_ask() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


def _ask_password(text: str) -> str:
    return getpass.getpass(text)


def _texts(request: Request) -> list[tuple[str, str]] | None:
    """Return the texts to run, each with its name in messages; None for an interactive shell."""
    found = [("", text) for text in request.texts]
    for path in request.files:
        found.append((str(path), sys.stdin.read() if str(path) == "-" else _text_of(path)))
    if not found and not sys.stdin.isatty():
        found.append(("stdin", sys.stdin.read()))
    return found or None


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidConfigError(f"{path} is no text in UTF-8: {error}") from error
    except OSError as error:
        raise InvalidConfigError(f"{path} cannot be read: {error.strerror}") from error


def _script(request: Request, session: Session, texts: Sequence[tuple[str, str]], params: ParameterFeed, output: str) -> int:
    shell = Shell(session, mode=output)
    fine = True
    try:
        if request.output_file is not None:
            shell.output = FileOutput(request.output_file, output)
        for where, text in texts:
            fine &= run_text(shell, text, where, params, stops=request.stops)
            if not fine and request.stops:
                return FAILED
        params.check_all_used()
    except Leave:
        pass
    except GamayError as error:
        print(f"gamay: {error}", file=sys.stderr)
        fine = False
        return WRONG_USE
    finally:
        if shell.output is not None:
            shell.output.close(keep=fine)
    return 0 if fine else FAILED


def _interactive(session: Session, output: str) -> int:
    import gamay
    from gamay.shell.prompt import history_path, make_prompt, open_history
    from gamay.shell.repl import run_repl

    print(f"gamay {gamay.__version__} on {session.name}. Statements end with ;  .help tells more, Ctrl-D leaves.")
    run_repl(Shell(session, mode=output, paged=True), make_prompt(session, open_history(history_path(os.environ))))
    return 0


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning about a statement, without the code location."""
    if issubclass(category, UserWarning):
        print(f"Note: {message}", file=sys.stderr)

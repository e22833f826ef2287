"""The magics `%sql` and `%%sql`."""

import os
import sys
from collections.abc import Mapping
from getpass import getpass
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.display import HTML, display

from gamay.base.errors import GamayError
from gamay.notebook.cell import bind_parameters, read_cell
from gamay.notebook.completion import completer_of
from gamay.shell.asking import CancelledByUser, ask
from gamay.shell.faults import fault_text
from gamay.shell.profiles import Profile, config_path, read_config
from gamay.shell.session import ClusterSession, EmbeddedSession, Session, open_session
from gamay.shell.statements import option_of, split
from gamay.shell.target import Target, find_target


def load(shell: InteractiveShell) -> None:
    """Register the magics and their completion."""
    made = SqlMagics(shell)
    shell.register_magics(made)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(completer_of(made.session))


@magics_class
class SqlMagics(Magics):
    """The SQL magics. The place that a cell names is also used by later cells."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._shell = shell
        self._sessions: dict[str, Session] = {}
        self._current: Session | None = None
        self._options: dict[str, Any] = {}

    @no_var_expand  # braces are parameters here
    @line_cell_magic
    def sql(self, line: str, cell: str | None = None) -> Any:
        """Run a statement: `%sql [PLACE] [NAME <<] STATEMENT`, or in `%%sql [PLACE] [NAME <<]` on the lines below.

        PLACE: a data folder, the URL of a controller or broker, @PROFILE of the config file, or a variable that holds a
        `Database` or `Connection`; it is kept for later cells. Alone it only connects. `:name` in a statement is a
        variable, `{{expression}}` any expression; both become literals. With a database in this process, a name that
        is not a table is a DataFrame of the notebook, or a file. The result is returned, or stored as NAME.
        """
        try:
            read = read_cell(line, cell or "", self._is_place)
            session = self._use(read.place) if read.place else self.session()
            result = self._run(session, read.sql)
        except CancelledByUser as ended:
            raise UsageError(str(ended)) from None
        except (GamayError, OSError) as error:
            raise UsageError(fault_text(error)) from None
        if read.name is None:
            return result
        self._shell.user_ns[read.name] = result
        return None

    def session(self) -> Session:
        """Return the current session: the last named one, or else the only database among the variables, or else the
        environment's."""
        if self._current is None:
            found = {name for name, value in self._variables().items() if _is_database(value) and not name.startswith("_")}
            self._current = self._use(found.pop()) if len(found) == 1 else self._open(None)
        return self._current

    def _run(self, session: Session, sql: str) -> Any:
        """Run the statements of a cell; return the result of the last one."""
        result = None
        for statement in split(sql):
            if (option := option_of(statement.text)) is not None:
                self._options[option[0]] = option[1]
                continue
            text, params = bind_parameters(statement.text, self._variables(), self._evaluate)
            try:
                answer = ask(session, text, params, self._options, _Progress())
            except GamayError as error:
                raise UsageError(fault_text(error, text)) from None
            for reason in (
                answer.reasons if isinstance(session, ClusterSession) else ()
            ):  # other sessions report it themselves
                sys.stderr.write(f"The answer is partial: {reason}.\n")
            result = answer.result
        return result

    def _variables(self) -> Mapping[str, Any]:
        return dict(self._shell.user_ns)

    def _evaluate(self, expression: str) -> Any:
        return self._shell.ev(expression)  # type: ignore[no-untyped-call]

    def _is_place(self, word: str) -> bool:
        if _is_database(self._shell.user_ns.get(word)):
            return True
        return any(sign in word for sign in "/\\.") and _is_folder(word)

    def _use(self, place: str) -> Session:
        """Return the session of a place, and make it the current one."""
        value = self._shell.user_ns.get(place)
        if _is_database(value):
            self._current = _session_of(value, place, self._variables)
        else:
            self._current = self._open(place)
        return self._current

    def _open(self, place: str | None) -> Session:
        target = _target(place)
        known = self._sessions.get(target.shown)
        if known is None:
            known = self._sessions[target.shown] = open_session(target, self._variables, _target)
        return known


def _target(place: str | None) -> Target:
    return find_target(place, None, Profile(), read_config(config_path(os.environ)), os.environ, getpass)


def _is_database(value: object) -> bool:
    module, name = type(value).__module__, type(value).__name__
    return (module, name) in (("gamay.embedded.database", "Database"), ("gamay.client.connection", "Connection"))


def _is_folder(word: str) -> bool:
    try:
        return Path(word).expanduser().is_dir()
    except OSError:
        return False


def _session_of(value: Any, name: str, variables: Any) -> Session:
    if type(value).__name__ == "Database":
        return EmbeddedSession(value, name, variables)
    return ClusterSession(value, name)


class _Progress:
    """A line below the cell with the running time of a statement, removed at the end."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, seconds: float) -> None:
        """Write the line."""
        text = HTML(  # type: ignore[no-untyped-call]
            f"<span style='opacity:.6'>{seconds:.0f} s … interrupt the kernel to cancel</span>"
        )
        if self._handle is None:
            self._handle = display(text, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(text)

    def end(self) -> None:
        """Remove the line."""
        if self._handle is not None:
            self._handle.update(HTML(""))  # type: ignore[no-untyped-call]

"""The state of a running shell: its session, display settings and last answer."""

import sys
from dataclasses import dataclass, field
from typing import Any

from gamay.shell.answer import Answer
from gamay.shell.asking import CancelledByUser, LineProgress, ask
from gamay.shell.faults import fault_text
from gamay.shell.formats.write import FOR_PEOPLE, text_of
from gamay.shell.output import FileOutput, screen_of, show, write_standard
from gamay.shell.session import Parameters, Session
from gamay.shell.statements import Statement, option_of


@dataclass(slots=True)
class Shell:
    """One shell. mode: the format of answers; output: a file to write them to instead of the terminal.

    options: set by `SET name = value`, for all later statements. paged: whether long answers go through a
    pager; timed: whether the cost of an answer is printed.
    """

    session: Session
    mode: str = "table"
    output: FileOutput | None = None
    timed: bool = True
    paged: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    last: Answer | None = None

    def run(self, statement: Statement, params: Parameters = None, where: str = "") -> bool:
        """Run a statement and show the answer, or an error on standard error; return whether it succeeded.

        where: file and line, for messages. Raises KeyboardInterrupt if Ctrl-C cancelled the statement.
        """
        try:
            if (option := option_of(statement.text)) is not None:
                self.options[option[0]] = option[1]
                return True
            progress = LineProgress() if sys.stderr.isatty() else None
            answer = ask(self.session, statement.text, params, self.options, progress)
            self._show(answer)
        except CancelledByUser as ended:
            print(ended, file=sys.stderr)
            raise KeyboardInterrupt from None
        except BrokenPipeError:
            raise  # the reader of the output has closed it
        except Exception as error:  # noqa: BLE001 - no error of a statement may end the shell
            self.tell(error, statement.text, where)
            return False
        self.last = answer
        return True

    def tell(self, error: BaseException, sql: str = "", where: str = "") -> None:
        """Print an error to standard error."""
        sys.stdout.flush()
        print(fault_text(error, sql, where, color=screen_of(sys.stderr).color), file=sys.stderr, flush=True)

    def _show(self, answer: Answer) -> None:
        if self.output is not None:
            self.output.write(answer)
        elif self.paged and self.mode in FOR_PEOPLE:
            if answer.columns:
                show(text_of(answer, self.mode, screen_of(sys.stdout)), paged=True)
        else:
            write_standard(answer, self.mode)
        # notes follow the rows in formats for people, and never mix with the output for programs
        for_people = self.output is None and self.mode in FOR_PEOPLE
        stream = sys.stdout if for_people else sys.stderr
        if self.timed and for_people and answer.columns:
            print(answer.summary, file=stream)
        for note in answer.notes if for_people else ():
            print(f"{note}.", file=stream)
        for reason in answer.reasons:
            print(f"The answer is partial: {reason}.", file=stream)

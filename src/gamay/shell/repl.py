"""The loop of the interactive shell: read, run, print, until Ctrl-D."""

import sys
from typing import TYPE_CHECKING

from gamay.shell.commands import Leave, run_text
from gamay.shell.state import Shell

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

PROMPT = "gamay> "


def run_repl(shell: Shell, prompt: "PromptSession[str]") -> None:
    """Read statements and run them until the input ends."""
    while True:
        try:
            text = prompt.prompt(PROMPT)
        except KeyboardInterrupt:
            continue  # discard the input
        except EOFError:
            break
        try:
            run_text(shell, text)
        except KeyboardInterrupt:
            print(file=sys.stderr)
        except Leave:
            break
    if shell.output is not None:
        shell.output.close()

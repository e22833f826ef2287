"""The prompt: completion, colours, history and keys, by prompt_toolkit."""

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from gamay.base.errors import GamayError
from gamay.shell.commands import COMMANDS
from gamay.shell.completion import complete
from gamay.shell.formats.write import BINARY, FORMATS
from gamay.shell.session import Session
from gamay.shell.statements import is_complete

_OF_TABLES = (".schema", ".profile")


class ShellCompleter(Completer):
    """Completion of dot commands and of statements, from the catalog of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the completions at the cursor; none if the catalog cannot be read."""
        before = document.text_before_cursor
        if before.startswith("."):
            yield from self._of_command(before)
            return
        try:
            catalog = self._session.catalog()
        except GamayError:
            return  # completion must not print; running the statement reports the error
        for one in complete(before, document.text_after_cursor, catalog, function_names()):
            yield Completion(one.text, -one.length, display=one.shown, display_meta=one.meta)

    def _of_command(self, before: str) -> Iterable[Completion]:
        name, space, rest = before.partition(" ")
        if not space:
            known: Iterable[str] = COMMANDS
            rest = name
        elif name in _OF_TABLES:
            try:
                known = self._session.catalog().tables
            except GamayError:
                return
        else:
            known = [form for form in FORMATS if form not in BINARY] if name == ".mode" else ()
        yield from (Completion(one, -len(rest)) for one in known if one.lower().startswith(rest.lower()))


@lru_cache(maxsize=1)
def function_names() -> list[str]:
    """Return the names of functions. The first call is slow, as it imports them all."""
    from gamay.functions import registry

    return registry.function_names()


def history_path(environment: Mapping[str, str]) -> Path:
    """Return the history file: GAMAY_HISTORY, or in XDG's state folder."""
    if given := environment.get("GAMAY_HISTORY"):
        return Path(given)
    return Path(environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "gamay" / "history"


def open_history(path: Path) -> History:
    """Return the history, readable by its owner only; an in-memory one if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def make_prompt(session: Session, history: History, **terminal: Any) -> "PromptSession[str]":
    """Return the prompt for statements. terminal: input and output of prompt_toolkit, if not the real ones."""
    return PromptSession(
        history=history,
        completer=ThreadedCompleter(ShellCompleter(session)),
        complete_while_typing=True,
        auto_suggest=AutoSuggestFromHistory(),
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        prompt_continuation=lambda width, line, wrapped: "".rjust(max(0, width - 2)) + "· ",
        key_bindings=_keys(),
        **terminal,
    )


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @Condition
    def is_whole() -> bool:
        text = get_app().current_buffer.text
        return text.lstrip().startswith(".") or is_complete(text)

    @keys.add("enter", filter=is_whole)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys

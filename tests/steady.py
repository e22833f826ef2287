"""Answers that must stay the same during a background operation."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def steady(ask: Callable[[], Any]) -> Iterator[None]:
    """Ask the same all the time; every answer must be the first one, and the last must be it, too."""
    expected, wrong, ended = ask(), [], threading.Event()

    def repeat() -> None:
        while not ended.wait(0.03):
            found = ask()
            if found != expected:
                wrong.append(found)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert wrong == []
    assert ask() == expected

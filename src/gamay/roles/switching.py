"""How long a thread of a role may keep the others of its process waiting."""

import sys

_INTERVAL_S = 0.0005


def switch_threads_often() -> None:
    """Let Python's threads take turns every half millisecond, not only every five.

    A commit, or a query, does many short things outside the interpreter, and after each it waits for its turn behind whoever
    decodes messages: with Python's default that alone made a commit several times longer. For processes that are a role, not
    for those that use Gamay as a library.
    """
    sys.setswitchinterval(_INTERVAL_S)

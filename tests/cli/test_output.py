"""The output of a process at start."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gamay.cli.run import _starting
from gamay.roles.warming import Warming


def test_a_start_says_what_it_is_doing(monkeypatch: pytest.MonkeyPatch) -> None:
    warming, told = Warming(), list[str]()

    def compile_slowly(*, tell: Callable[[int, int], None], **_: Any) -> float:
        for done in range(4):
            tell(done, 3)
            told.append(_starting(SimpleNamespace(compiled=warming.progress), 4.2))  # type: ignore[arg-type]
        return 1.0

    monkeypatch.setattr("gamay.server.warmup.queries.warm_up", compile_slowly)
    warming._compile()
    assert [text.partition(" kinds")[0] for text in told[:3]] == [
        f"compiling kernels for 4 s: {done} of 3" for done in range(3)
    ]
    assert told[3:] == ["loading segments"]
    assert warming.done

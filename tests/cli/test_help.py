"""What every command says of itself."""

from collections.abc import Iterator

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from gamay.cli.app import app


def commands(command: object, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the names of a command and of all below it."""
    yield names
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*names, name))


@pytest.mark.parametrize("names", list(commands(get_command(app))), ids=" ".join)
def test_every_command_explains_itself(names: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*names, "--help"])
    assert result.exception is None
    assert (result.exit_code, "Usage:" in result.output) == (0, True)


def test_brackets_are_shown_as_they_are() -> None:
    shown = " ".join(CliRunner().invoke(app, ["start", "server", "--help"]).output.split())
    assert "HOST:PORT[,HOST:PORT…][/PATH]" in shown

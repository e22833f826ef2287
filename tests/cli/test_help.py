"""The help text of every command."""

from collections.abc import Iterator

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from gamay.cli.app import app
from gamay.cli.pinot_commands import COMMANDS
from gamay.controller.api.rights import CONTROLLER_RIGHTS


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


@pytest.mark.parametrize("below", [(), ("admin",)], ids=["gamay", "gamay admin"])
def test_commands_of_pinot_are_told_what_takes_their_place(below: tuple[str, ...]) -> None:
    known = set(commands(get_command(app)))
    for name, instead in COMMANDS.items():
        result = CliRunner().invoke(app, [*below, name, "-tableConfigFile", "table.json"])
        said = " ".join(result.output.split())
        assert (result.exit_code, f"'{name}' is a command of Pinot" in said, f"`{instead}`" in said) == (2, True, True), said
        if instead.startswith("gamay "):
            assert tuple(instead.split()[1:]) in known, instead
        else:
            assert tuple(instead.split()) in CONTROLLER_RIGHTS, instead


def test_brackets_are_shown_as_they_are() -> None:
    shown = " ".join(CliRunner().invoke(app, ["start", "server", "--help"]).output.split())
    assert "HOST:PORT[,HOST:PORT…][/PATH]" in shown

"""Role processes as forks of a template that has imported their modules, so that a start skips seconds of imports."""

import multiprocessing
import os
import sys
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_ROLES = ("broker", "controller", "minion", "server")
FORKS = multiprocessing.get_context("forkserver")
"""The way to start processes that have imported what roles need."""
FORKS.set_forkserver_preload(["gamay.cli.run", *(f"gamay.roles.{role}_process" for role in _ROLES)])


def fork_role(arguments: list[str], log: Path) -> ForkServerProcess:
    """Run the `gamay` command with these arguments in a fork, with its output appended to a file.

    It ends with this process at the latest.
    """
    process = FORKS.Process(target=_run, args=(arguments, log, dict(os.environ)), daemon=True)
    process.start()
    return process


def _run(arguments: list[str], log: Path, environment: dict[str, str]) -> None:
    """Execute the command. environment: the caller's, as the template has that of the first start."""
    from gamay.cli import main

    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["gamay", *arguments]
    main()

"""`gamay sql` and `gamay query`: conversion of options to a request of the shell."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer


def run_sql(
    place: str | None,
    profile: str | None,
    texts: Sequence[str] | None,
    files: Sequence[Path] | None,
    params: Sequence[str] | None,
    output: str | None,
    output_file: Path | None = None,
    login: Mapping[str, Any] | None = None,
    *,
    stops: bool = True,
) -> None:
    """Run statements, or the interactive shell; exits with the status that `gamay.shell.main.run` returns.

    login: fields of `gamay.shell.profiles.Profile`.
    """
    from gamay.shell.asking import is_any_running
    from gamay.shell.main import Request, run
    from gamay.shell.profiles import Profile

    given = (login or {}).items()
    fields: dict[str, Any] = {name: str(value) if isinstance(value, Path) else value for name, value in given}
    status = run(
        Request(
            place=place,
            profile=profile,
            given=Profile(**fields),
            texts=texts or (),
            files=files or (),
            params=params or (),
            output=output,
            output_file=output_file,
            stops=stops,
        )
    )
    if is_any_running():  # a statement that Ctrl-C could not end: a normal exit would finalize the interpreter under it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    if status:
        raise typer.Exit(status)

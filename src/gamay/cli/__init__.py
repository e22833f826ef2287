"""The command line: arguments in, one call, result out; no logic of its own."""

import sys


def main() -> None:
    """Run the `gamay` command; errors that a user can cause end with one sentence and status 1."""
    from gamay.base.errors import GamayError
    from gamay.cli.app import app

    try:
        app(standalone_mode=True)
    except GamayError as error:
        print(f"gamay: {error}", file=sys.stderr)
        sys.exit(1)

"""The command line: arguments in, one call, result out; no logic of its own."""

import os
import sys


def main() -> None:
    """Run the `gamay` command; errors that a user can cause end with one sentence and status 1, Ctrl-C with 130."""
    from gamay.base.errors import GamayError
    from gamay.cli.app import app

    try:
        app(standalone_mode=True)
    except BrokenPipeError:
        # the reader closed the pipe, as in `gamay query … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (GamayError, OSError) as error:
        print(f"gamay: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)

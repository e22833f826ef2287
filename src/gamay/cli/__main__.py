"""`python -m gamay.cli` is the `gamay` command."""

from gamay.cli import main

main()

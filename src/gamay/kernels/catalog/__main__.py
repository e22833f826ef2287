"""Compile a part of the catalog: `python -m gamay.kernels.catalog PART PARTS`."""

import sys

from gamay.kernels.catalog.compiling import compile_part

if __name__ == "__main__":
    part, parts = map(int, sys.argv[1:])
    compile_part(part, parts, lambda problem: print(problem, file=sys.stderr))  # noqa: T201 - read by who runs it

"""Rewrite the catalog of kernels from what the tests have compiled.

    GAMAY_CACHE_DIR=/tmp/fresh python -m pytest tests --ignore tests/kernels --ignore tests/naive
    python tools/gen_signatures.py /tmp/fresh

Kernels that only other kernels call are left out: these are compiled with their callers.
"""

import pickle
import sys
from importlib import import_module
from pathlib import Path

from gamay.kernels.catalog.entries import FILE, Entry, write_entries
from gamay.kernels.catalog.types import text_of

KERNELS = FILE.parents[1]


def main() -> None:
    folders = [Path(argument) for argument in sys.argv[1:]]
    if len(folders) != 1 or not (folders[0] / "kernels").is_dir():
        raise SystemExit(f"Name the folder that was GAMAY_CACHE_DIR:\n{__doc__}")
    folder = folders[0]
    entries: set[Entry] = set()
    modules = {path.stem: ".".join(path.relative_to(KERNELS).with_suffix("").parts) for path in KERNELS.rglob("*.py")}
    for path in (folder / "kernels").rglob("*.nbi"):
        stem, _, name = path.name.partition("-")[0].rpartition(".")
        module = modules.get(stem)
        if module is None or not hasattr(import_module(f"gamay.kernels.{module}"), name):
            print(f"left out: {path.name}")
            continue
        with path.open("rb") as file:
            pickle.load(file)  # noqa: S301 - the version of Numba; this machine has written it
            _, overloads = pickle.loads(file.read())  # noqa: S301
        for arguments, *_ in overloads:
            texts = [text_of(kind) for kind in arguments]
            if None not in texts:
                entries.add(Entry(module, name, " ".join(map(str, texts))))
    write_entries(list(entries))
    print(f"{len(entries)} signatures of {len({(entry.module, entry.name) for entry in entries})} kernels")


if __name__ == "__main__":
    main()

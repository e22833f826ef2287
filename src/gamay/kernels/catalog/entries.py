"""The lines of the catalog, and the parts in which processes share them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from gamay.kernels.catalog.types import types_of
from gamay.kernels.raw_memory import has_features

FILE = Path(__file__).parent / "signatures.txt"
_PACKAGE = "gamay.kernels"


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A kernel, by the names of its module and of itself, and the types of its arguments as text."""

    module: str
    name: str
    types: str

    def compile(self) -> None:
        """Compile it, or load it where that was done, on processors that can run it; raises what `compile_part` catches."""
        dispatcher: Any = getattr(import_module(f"{_PACKAGE}.{self.module}"), self.name)
        if has_features(*getattr(dispatcher, "needs", ())):  # LLVM ends the process on instructions that there are not
            dispatcher.compile(types_of(self.types))


def read_entries(path: Path = FILE) -> list[Entry]:
    """Return the entries of a catalog."""
    return [Entry(*_split(line)) for line in path.read_text().splitlines()]


def write_entries(entries: Sequence[Entry], path: Path = FILE) -> None:
    """Write a catalog."""
    path.write_text("".join(f"{entry.module}.{entry.name}: {entry.types}".rstrip() + "\n" for entry in sorted(entries)))


def shared(entries: Sequence[Entry], parts: int) -> list[list[Entry]]:
    """Share entries among so many processes about evenly, those of a module together: they call each other."""
    by_module: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_module[entry.module].append(entry)
    shares: list[list[Entry]] = [[] for _ in range(parts)]
    for module in sorted(by_module.values(), key=len, reverse=True):
        min(shares, key=len).extend(module)
    return shares


def _split(line: str) -> tuple[str, str, str]:
    kernel, _, types = line.partition(":")
    module, _, name = kernel.rpartition(".")
    return module, name, types.strip()

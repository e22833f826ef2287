"""The `.test` files: SQL and its expected output.

A case is its kind, the SQL, a line `----`, and the output, up to a blank line. Lines that begin with # between cases are
comments. `--update` of pytest rewrites the output; review the difference.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

RULE = "----"


@dataclass(frozen=True)
class Case:
    """A case. line: the number of the line with its kind, from 1."""

    file: Path
    line: int
    kind: str
    sql: str
    expected: str

    @property
    def name(self) -> str:
        """Where it is, in few letters."""
        return f"{self.file.stem}:{self.line}"


def read_cases(file: Path, kinds: Collection[str]) -> list[Case]:
    """Return the cases of a file."""
    cases = []
    lines = file.read_text().splitlines()
    place = 0
    while place < len(lines):
        if lines[place] not in kinds:
            assert not lines[place] or lines[place].startswith("#"), f"{file.name}:{place + 1}: neither a case nor a comment"
            place += 1
            continue
        rule = lines.index(RULE, place)
        end = _end(lines, rule)
        sql, expected = "\n".join(lines[place + 1 : rule]), "\n".join(lines[rule + 1 : end])
        cases.append(Case(file, place + 1, lines[place], sql, expected))
        place = end
    return cases


def update(file: Path, kinds: Collection[str], outcome: Callable[[Case], tuple[str, str]]) -> None:
    """Rewrite a file. outcome: returns the kind of a case and its output."""
    lines = file.read_text().splitlines()
    for case in reversed(read_cases(file, kinds)):
        kind, shown = outcome(case)
        rule = lines.index(RULE, case.line - 1)
        lines[rule + 1 : _end(lines, rule)] = shown.splitlines()
        lines[case.line - 1] = kind
    file.write_text("\n".join(lines).rstrip("\n") + "\n")


def one_block(text: str) -> str:
    """Return a text without blank lines, which end a case: bars replace them."""
    return "\n".join(line.rstrip() or "|" for line in text.splitlines())


def _end(lines: list[str], rule: int) -> int:
    return next((place for place in range(rule, len(lines)) if not lines[place]), len(lines))

"""Tables that benchmarks print, and write into docs/performance.md between markers that name them.

A table of the page lies between `<!-- table: NAME -->` and `<!-- end of table -->`, where NAME is the benchmark's module
below `benchmarks`, with what the table is about behind a colon where it has several. Every such module lists the shapes of
its tables in `SHAPES`, so that a test can compare them with the page without a measurement.
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
_END = "<!-- end of table -->"
_TABLE = re.compile(r"<!-- table: (?P<name>[\w.: -]+?) -->\n(?P<text>.*?)" + re.escape(_END), re.DOTALL)


@dataclass(frozen=True)
class Shape:
    """The columns and rows of a table. printed: headings of further columns, which are printed but not on the page.

    The first column names the case; `texts` says how many columns on the left are no numbers.
    """

    headings: tuple[str, ...]
    cases: tuple[str, ...]
    printed: tuple[str, ...] = ()
    texts: int = 1


@dataclass
class Report:
    """The measurements, row by row in the order of the shape's cases."""

    name: str
    shape: Shape
    rows: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, case: str, *cells: str) -> None:
        """Add the other cells of a row. Raises ValueError for a case or a number of cells that the shape does not have."""
        width = len(self.shape.headings) + len(self.shape.printed) - 1
        if case not in self.shape.cases or len(cells) != width:
            raise ValueError(f"table {self.name} has no row '{case}' of {len(cells)} cells")
        self.rows[case] = cells

    def show(self) -> None:
        """Print the measurements."""
        table = Table(*self.shape.headings, *self.shape.printed)
        for case, cells in self.rows.items():
            table.add_row(case.replace("`", ""), *cells)
        Console(width=140).print(table)

    def markdown(self) -> str:
        """Return the table as shown on the page. Raises ValueError if a case was not measured."""
        if missing := [case for case in self.shape.cases if case not in self.rows]:
            raise ValueError(f"table {self.name} needs all of its rows; {missing[0]!r} was not measured")
        kinds = ["---" if number < self.shape.texts else "---:" for number in range(len(self.shape.headings))]
        cells = [(case, *self.rows[case][: len(self.shape.headings) - 1]) for case in self.shape.cases]
        return "".join(f"| {' | '.join(row)} |\n" for row in (self.shape.headings, kinds, *cells))

    def write(self, page: Path = PAGE) -> None:
        """Replace the table on the page. Raises ValueError if the page has no markers for it."""
        text, marker = page.read_text(), f"<!-- table: {self.name} -->\n"
        found = next((match for match in _TABLE.finditer(text) if match["name"] == self.name), None)
        if found is None:
            raise ValueError(f"{page.name} has no line '{marker.strip()}'")
        page.write_text(f"{text[: found.start()]}{marker}{self.markdown()}{_END}{text[found.end() :]}")

    def finish(self, *, writes: bool) -> None:
        """Print the measurements, and write them into the page if requested."""
        self.show()
        if writes:
            self.write()


def arguments_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line with the option `--write-docs`, which goes with no other: the page tells of the defaults."""
    parser.add_argument("--write-docs", action="store_true", help=f"write the numbers into docs/{PAGE.name}")
    arguments = parser.parse_args()
    others = {name: value for name, value in vars(arguments).items() if name != "write_docs"}
    if arguments.write_docs and any(value != parser.get_default(name) for name, value in others.items()):
        parser.error("--write-docs goes with no other option: the page tells of the default sizes")
    return arguments


def tables_of(page: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield name, and cells by row, of each table between markers; the first row has the headings, the second the rule."""
    for match in _TABLE.finditer(page):
        lines = [line for line in match["text"].splitlines() if line]
        yield match["name"], [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def without_tables(page: str) -> str:
    """Return the text of a page without the parts between markers."""
    return _TABLE.sub("", page)

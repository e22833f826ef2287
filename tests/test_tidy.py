"""Checks of the source tree: layers, sizes, leftovers, and whether documents still describe it."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "gamay"
MODULES = sorted(SOURCE.rglob("*.py"))
MODULE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
ROOM_MODULES_MAX = 25
LONG_FUNCTIONS: frozenset[str] = frozenset()  # longer than the limit; the list may only shrink


def package_of(path: Path) -> str:
    """Return the first-level package of a module, '' for gamay/__init__.py."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


def imported_packages(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the first-level gamay packages that a module imports, with the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module] if node.module != "gamay" else [f"gamay.{alias.name}" for alias in node.names]
        for name in names:
            if name.startswith("gamay."):
                yield name.split(".")[1], node.lineno


def allowed_imports() -> dict[str, set[str]]:
    """Read the table of packages in ARCHITECTURE.md: package -> packages it may import."""
    allowed: dict[str, set[str]] = {}
    for line in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 4 and cells[0].isdigit():
            for package in re.findall(r"`(\w+)`", cells[1]):
                allowed[package] = set(re.findall(r"`(\w+)`", cells[3]))
    return allowed


def test_each_package_imports_only_what_its_row_names() -> None:
    allowed = allowed_imports()
    packages = {package_of(path) for path in MODULES} - {""}
    assert packages <= allowed.keys(), f"packages without a row in ARCHITECTURE.md: {packages - allowed.keys()}"
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports gamay.{target}"
        for path in MODULES
        if (package := package_of(path)) and "any" not in allowed[package]
        for target, line in imported_packages(path)
        if target != package and target not in allowed[package] and target != "__version__"
    ]
    assert not wrong, "\n".join(wrong)


# the codecs of sketches group entries as aggregates do; `.importlinter` says the same of these imports
UPWARD = {("functions", "sketch", "aggregate")}


def rooms_of_packages() -> dict[str, list[str]]:
    """Read the table of rooms in ARCHITECTURE.md: package -> its rooms in their order."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Rooms")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.M)
    return {package: re.findall(r"`(\w+)`", re.sub(r"\([^()]*\)", "", cell)) for package, cell in rows}


def test_rooms_are_those_of_the_architecture_and_build_on_each_other_in_its_order() -> None:
    wrong = []
    for package, rooms in rooms_of_packages().items():
        there = {path.parent.name for path in (SOURCE / package).glob("*/__init__.py")}
        assert there == set(rooms), f"the rooms of {package}"
        for place, room in enumerate(rooms):
            for path in sorted((SOURCE / package / room).rglob("*.py")):
                for node in ast.parse(path.read_text(encoding="utf-8")).body:
                    parts = (node.module or "").split(".") if isinstance(node, ast.ImportFrom) else []
                    other = parts[2] if parts[:2] == ["gamay", package] and len(parts) > 2 else room
                    if other in rooms[place + 1 :] and (package, room, other) not in UPWARD:
                        wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} imports gamay.{package}.{other}")
    assert not wrong, "\n".join(wrong)


def test_no_room_holds_more_modules_than_a_reader_can_survey() -> None:
    sizes = Counter(path.parent.relative_to(ROOT) for path in MODULES if path.name != "__init__.py")
    assert {str(room): size for room, size in sizes.items() if size > ROOM_MODULES_MAX} == {}


def test_the_architecture_fits_on_three_screens_since_paths_can_be_guessed() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    first = lines[lines.index("| to change | open |") + 2 :]
    rows = next(count for count, line in enumerate(first) if not line.startswith("| "))
    assert 5 < rows <= 15
    assert len(lines) <= 200


def described() -> Iterator[tuple[Path, str]]:
    """Yield the texts that describe the present code: pages, and modules for their docstrings and comments."""
    pages = [path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md"]
    for path in [*pages, *sorted((ROOT / "docs").rglob("*.md")), *MODULES]:
        yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def without_diffs(text: str) -> str:
    """Return a text without its diffs, which name what does not exist yet."""
    return re.sub(r"^```diff\n.*?^```$", "", text, flags=re.M | re.S)


def test_every_path_in_docs_and_docstrings_exists() -> None:
    pattern = r"`((?:src|tests|docs|benchmarks|examples|tools|deploy|console|changelog\.d)/[\w./-]*)`"
    found = [(page, path) for page, text in described() for path in re.findall(pattern, without_diffs(text))]
    assert len(found) > 100
    assert [f"{page}: {path}" for page, path in found if not (ROOT / path).exists()] == []


def test_every_dotted_name_in_docs_and_docstrings_imports() -> None:
    named: dict[str, Path] = {}
    for page, text in described():
        named |= dict.fromkeys(re.findall(r"`(gamay(?:\.\w+)+)`", without_diffs(text)), page)
    assert len(named) > 200
    source = "".join(path.read_text(encoding="utf-8") for path in [*MODULES, ROOT / "pyproject.toml"])
    keys = set(re.findall(r"\"(gamay(?:\.\w+)+)\"", source))  # settings, loggers, metrics and groups of entry points
    keys |= {"gamay.rows", "gamay.SERVER_COMBINE", "gamay.SERVER_PRUNE"}  # made of names: attributes and spans of operators
    keys |= {f"{key}.file" for key in keys}
    assert [f"{page}: {name}" for name, page in named.items() if name not in keys and not is_defined(name)] == []


def is_defined(name: str) -> bool:
    """Whether a dotted name is that of a package or module, or of what one of them defines or imports."""
    parts = name.split(".")[1:]
    path, depth = SOURCE, 0
    while depth < len(parts) and (path / parts[depth]).is_dir():
        path, depth = path / parts[depth], depth + 1
    if depth < len(parts) and (path / f"{parts[depth]}.py").exists():
        path, depth = path / f"{parts[depth]}.py", depth + 1
    if depth == len(parts):
        return True
    source = (path / "__init__.py" if path.is_dir() else path).read_text(encoding="utf-8")
    last = parts[-1]
    defined = rf"^\s*(?:def|class|async def) {last}\b|^\s*\"?{last}\b\"?,?(?:\s*[:=]|$)|import .*\b{last}\b"
    return re.search(defined, source, re.M) is not None


# words that docs/vocabulary.md has others for
OTHER_WORDS = {
    r"rows? that (?:do(?:es)? not )?counts?\b|\bwhich rows? counts?\b|rows? do(?:es)? not count\b": "valid or invalid rows",
    r"\b(?:taken|taking) back\b": "rollback",
    r"\banswered at once\b": "fast path",
    r"\bmend(?:s|ed|ing)?\b": "repair",
}


def test_words_are_those_of_the_vocabulary() -> None:
    found = [
        f"{page}:{number}: '{match[0]}', not {instead!r}"
        for page, text in described()
        if page.name != "vocabulary.md"
        for number, line in enumerate(text.splitlines(), 1)
        for word, instead in OTHER_WORDS.items()
        if (match := re.search(word, line, re.I))
    ]
    assert not found, "\n".join(found)


def test_log_messages_have_an_argument_for_each_conversion() -> None:
    wrong = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("_log.", "self._log."))):
                continue
            message, *arguments = node.args or [None]
            if isinstance(message, ast.Constant) and isinstance(message.value, str):
                conversions = re.findall(r"%[-#0 +]*\d*(?:\.\d+)?[a-z]", message.value.replace("%%", ""))
                if len(conversions) != len(arguments):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {message.value}")
    assert wrong == []


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_modules_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MODULE_LINES_MAX, "a package in the making"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{path.relative_to(SOURCE)}:{node.name}"
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX or name in LONG_FUNCTIONS, f"{name} has {length} lines"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_modules_say_what_they_are_and_leave_nothing_behind(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "a module says in its docstring what it is about"
    left = re.findall(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b", text)
    assert not left
    assert str(ROOT) not in text, "a path of one machine"

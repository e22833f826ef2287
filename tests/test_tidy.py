"""The code as data: layers, sizes, leftovers, and whether the documents still describe it."""

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


def test_no_room_holds_more_modules_than_a_reader_can_survey() -> None:
    sizes = Counter(path.parent.relative_to(ROOT) for path in MODULES if path.name != "__init__.py")
    assert {str(room): size for room, size in sizes.items() if size > ROOM_MODULES_MAX} == {}


def test_every_path_in_the_architecture_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:src|tests|docs|benchmarks|examples|tools)/[\w./-]*)`", text)
    assert paths
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing


def test_every_dotted_name_in_the_architecture_imports() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = []
    for name in sorted(set(re.findall(r"`(gamay(?:\.\w+)+)`", text))):
        parts = name.split(".")[1:]
        path, depth = SOURCE, 0
        while depth < len(parts) and (path / parts[depth]).is_dir():
            path, depth = path / parts[depth], depth + 1
        if depth < len(parts) and (path / f"{parts[depth]}.py").exists():
            path, depth = path / f"{parts[depth]}.py", depth + 1
        source = (path / "__init__.py" if path.is_dir() else path).read_text(encoding="utf-8")
        if depth < len(parts) and not re.search(rf"^\s*(?:def|class|async def) {parts[-1]}\b|^{parts[-1]}\b", source, re.M):
            missing.append(name)
    assert not missing


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

"""User-defined functions: the package of the guide, as if installed, and broken packages."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gamay

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "functions.md"


def shown(language: str) -> str:
    """Return the only block of a language in the guide."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return str(block)


def install(site: Path, name: str, module: str, source: str) -> None:
    """Put a distribution with one module and one entry point where `sys.path` finds it."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[gamay.functions]\n{name} = {module}\n", encoding="utf-8")
    (site / f"{module}.py").write_text(source, encoding="utf-8")


def run(site: Path, script: str) -> str:
    """Run a script in a separate process, as the registry is filled once per process."""
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with the table `trips`, to be opened by another process."""
    import pyarrow as pa

    with gamay.connect(tmp_path / "data") as db:
        db.create_table(
            "trips",
            pa.table(
                {
                    "temperature": [0.0, 100.0, 30.0],
                    "driver": ["ann", "bob", "x"],
                    "km": [1.609344, 16.09344, 0.0],
                    "tags": [["a", "rainy"], [], ["é"]],
                    "plate": ["LI-99", "B-1", "nothing"],
                }
            ),
        )
    return tmp_path / "data"


OPEN = (
    "import gamay; from gamay.base.errors import QueryError; db = gamay.connect({!r}); db.settings.null_handling = False; "
)


def test_the_package_that_the_guide_shows(tmp_path: Path, data: Path) -> None:
    project = tomllib.loads(shown("toml"))
    ((_, module),) = project["project"]["entry-points"]["gamay.functions"].items()
    install(tmp_path / "site", project["project"]["name"], module, shown("python"))
    first, second = re.findall(r"^SELECT .*$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    printed = run(
        tmp_path / "site",
        OPEN.format(str(data))
        + f"""
print(db.sql({first + " ORDER BY temperature"!r}).rows())
print(sorted(db.sql({second!r}, enableNullHandling=True).rows(), key=str))
print(db.sql("SELECT mask('abcdef', 1), DISTANCE_IN('km', 2) FROM trips LIMIT 1").rows())
for call in ("distanceIn('feet', km)", "platePrefix(' ')", "mask(tags)"):
    try:
        db.sql("SELECT " + call + " FROM trips")
    except QueryError as error:
        print(error.code.code, error)
""",
    ).splitlines()
    assert printed[0] == (
        "[(32.0, 'an***', 'a***', 1.0, 5), (86.0, 'x***', 'x***', 0.0, 1), (212.0, 'bo***', 'b***', 10.0, 4)]"
    )
    assert printed[1] == "[('B', 1), (None, 1)]"
    assert printed[2] == "[('a***', 2.0)]"
    for line, part in zip(printed[3:], ("neither km nor mi", "no prefix", "single-value"), strict=True):
        assert line.startswith("700")
        assert part in line


def test_a_broken_package_disturbs_no_other(tmp_path: Path, data: Path) -> None:
    site = tmp_path / "site"
    good = "from gamay.functions.scalar import by_value\nfrom gamay.model.types import DataType\n" + (
        "by_value('{}', params=(DataType.STRING,), returns=DataType.INT)({})\n"
    )
    install(site, "broken", "broken_functions", "import nosuchmodule")
    install(site, "clash", "clashing_functions", good.format("soundex", "len"))
    install(site, "good", "good_functions", good.format("lengthOf", "len"))
    install(site, "wild", "wild_functions", good.format("wild", "lambda text: {}[text]") + good.format("texty", "str"))
    printed = run(
        site,
        OPEN.format(str(data))
        + """
print(db.sql("SELECT lengthOf(driver), soundex(driver) FROM trips ORDER BY driver LIMIT 1").rows())
for text in ("SELECT nosuch(km) FROM trips", "SELECT wild(driver) FROM trips", "SELECT texty(driver) FROM trips"):
    try:
        db.sql(text)
    except QueryError as error:
        print(error.code.code, error)
""",
    )
    assert "[(3, 'A500')]" in printed
    assert "700 Unknown function 'nosuch'." in printed
    assert "broken_functions (ModuleNotFoundError" in printed
    assert "clashing_functions (ValueError" in printed
    assert "Function 'wild' of ('" in printed
    assert "KeyError" in printed
    assert "Function 'texty': a result is not INT" in printed
    assert "Traceback" in printed  # the log contains the location

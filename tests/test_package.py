"""The wheel and its metadata: every extra is in `all`, data files are beside the code, and nothing else is included."""

import re
import tomllib
from pathlib import Path

from tools.wheel_readme import absolute

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_all_names_every_extra_but_the_tour() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.removeprefix("gamay[").removesuffix("]").split(","))
    assert named == extras.keys() - {"all", "quickstart", "protobuf"}  # flight brings protobuf
    assert set(extras["protobuf"]) == set(extras["flight"])


def test_pythons_are_those_that_it_needs() -> None:
    named = [name for name in PROJECT["classifiers"] if name.startswith("Programming Language :: Python :: 3.")]
    assert named[0].endswith(PROJECT["requires-python"].removeprefix(">="))


def test_what_the_code_reads_beside_itself_is_packed() -> None:
    package = ROOT / "src" / "gamay"
    for name in (
        "py.typed",
        "console/static/index.html",
        "kernels/catalog/signatures.txt",
        "ingest/json_schemas/schema.json",
    ):
        assert (package / name).is_file(), name


def test_links_of_the_readme_lead_somewhere_from_an_index() -> None:
    text = (ROOT / "README.md").read_text()
    base = "https://example.org/tree/v1"
    linked, plain = absolute(text, base), absolute(text, "")
    assert f"[the shell]({base}/docs/guide/shell.md)" in linked
    assert "see\n[the shell]" not in plain.lower()
    assert "the shell, notebooks, and those in" in plain
    for left, allowed in ((linked, ("https://", "http://", "#")), (plain, ("https://", "http://", "#"))):
        assert [target for target in re.findall(r"\]\(([^)]+)\)", left) if not target.startswith(allowed)] == []
    assert PROJECT["dynamic"] == ["readme", "urls"]
    assert absolute("![a](b.png) [c](#d) <http://e>", "") == "a [c](#d) <http://e>"

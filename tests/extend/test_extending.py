"""The diffs of docs/extend apply to the sources, and the additions work."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "extend").glob("*.md"))
FILES = {"aggregate": 1, "index-type": 3, "rest-call": 2, "scalar-function": 1, "task-type": 2}
"""How many files each page touches; an index type is a package of two and a line."""


def diffs(page: Path) -> list[str]:
    return re.findall(r"^```diff\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def test_each_page_touches_as_few_files_as_it_says() -> None:
    touched = {page.stem: sum(diff.count("\n+++ b/src/") for diff in diffs(page)) for page in PAGES if page.stem != "index"}
    assert touched == FILES


def test_what_the_pages_add_works(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    text = "".join(diff for page in PAGES for diff in diffs(page))
    # a folder within a work tree of git would make `git apply` leave paths out
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    apply = ["git", "apply", "-"]
    applied = subprocess.run(apply, cwd=tmp_path, input=text, env=environment, capture_output=True, text=True, check=False)
    assert applied.returncode == 0, applied.stderr
    worker = [sys.executable, str(Path(__file__).with_name("extended_worker.py")), str(tmp_path)]
    ran = subprocess.run(worker, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]


def test_an_index_type_of_another_package_is_found_by_its_entry_point(tmp_path: Path) -> None:
    (page,) = [path for path in PAGES if path.stem == "index-type"]
    (diff,) = diffs(page)
    module = diff.partition("index_type.py\n@@")[2].partition("\n")[2]
    lines = [line[1:] for line in module.splitlines() if line.startswith("+")]
    (tmp_path / "length_index.py").write_text("\n".join(lines) + "\n")
    facts = tmp_path / "length_index-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: length-index\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[gamay.index_types]\nlength = length_index:LENGTH\nbroken = nowhere:INDEX\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")])}
    script = f"from tests.extend.extended_worker import *; use_lengths(Path({str(tmp_path / 'db')!r}), 'broken')"
    worker = [sys.executable, "-c", script]
    ran = subprocess.run(worker, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]

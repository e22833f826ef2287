"""The diffs of docs/extend apply to the sources, and what they add works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

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
    ran = subprocess.run(worker, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]

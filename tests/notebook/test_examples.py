"""The notebooks of examples/ run from the first cell to the last."""

import importlib.util
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient", reason="notebooks are run by nbclient: pip install nbclient ipykernel")
pytest.importorskip("ipykernel", reason="notebooks need a kernel: pip install ipykernel")

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = importlib.util.spec_from_file_location("run_notebooks", ROOT / "tools" / "run_notebooks.py")
assert TOOL is not None
assert TOOL.loader is not None
tool = importlib.util.module_from_spec(TOOL)
TOOL.loader.exec_module(tool)


def test_there_are_three() -> None:
    assert [path.name[:2] for path in tool.NOTEBOOKS] == ["01", "02", "03"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path, "Future[Any]"]]:
    """Run all of them concurrently, as most of the time is spent starting kernels."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor() as threads:
        patch.setenv("PYTHONPATH", str(ROOT / "src"))
        yield {path: threads.submit(tool.run, path, tmp_path_factory.mktemp(path.stem)) for path in tool.NOTEBOOKS}


@pytest.mark.parametrize("path", tool.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, runs: dict[Path, "Future[Any]"]) -> None:
    notebook = runs[path].result()  # raises at the first cell that fails
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("text/html" in output.get("data", {}) for output in outputs)
    assert any("alt.Chart" in output.get("data", {}).get("text/plain", "") for output in outputs)


@pytest.mark.parametrize("path", tool.NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_kept_was_executed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert "/work/" not in text
    assert "/home/" not in text

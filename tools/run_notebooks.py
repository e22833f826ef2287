"""Run the notebooks of examples/notebooks and store their outputs in them: `python tools/run_notebooks.py`."""

import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def run(path: Path, folder: Path) -> Any:
    """Return a notebook with the outputs of a run in a folder. Raises nbclient's CellExecutionError."""
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=where).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # the times of this run
    return notebook


def main() -> None:
    """Run all of them, each in a separate folder."""
    os.environ.setdefault("PYTHONPATH", str(ROOT / "src"))
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(run(path, Path(folder)), path)
        print(f"ran {path.name}")


if __name__ == "__main__":
    main()

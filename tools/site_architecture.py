"""A hook of mkdocs: adds `ARCHITECTURE.md` of the project's root to the site as a page."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGE = Path(__file__).resolve().parents[1] / "ARCHITECTURE.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the files of the site with that page."""
    files.append(File.generated(config, "architecture.md", content=PAGE.read_text(encoding="utf-8")))
    return files

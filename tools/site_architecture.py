"""A hook of mkdocs: `ARCHITECTURE.md` of the project's root is a page of the site, too."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGE = Path(__file__).resolve().parents[1] / "ARCHITECTURE.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the files of the site with that page."""
    files.append(File.generated(config, "architecture.md", content=PAGE.read_text(encoding="utf-8")))
    return files

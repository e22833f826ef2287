"""The committed build of the console: up to date, small, and free of what the page's security policy forbids."""

import gzip
import re
from pathlib import Path

from tools import console_digest

from gamay.console import files

ROOT = Path(__file__).resolve().parents[2]
GZIPPED_MAX = 1_000_000


def test_the_build_is_of_these_sources() -> None:
    assert console_digest.current() == console_digest.noted(), "run console/build.sh, and commit what it changes"


def test_all_files_together_are_small_when_compressed() -> None:
    assets = [files.get_asset(name) for name in files.asset_names()]
    assert assets
    assert sum(len(asset.compressed or asset.content) for asset in assets if asset is not None) < GZIPPED_MAX


def test_there_are_no_source_maps_and_each_name_tells_of_its_content() -> None:
    for path in (ROOT / "src/gamay/console/static/assets").iterdir():
        assert path.suffix in (".js", ".css", ".svg"), path.name
        assert re.fullmatch(r"[\w.-]+-[\w-]{8}\.\w+", path.name), path.name


def test_a_compressed_file_is_the_file() -> None:
    for name in files.asset_names():
        asset = files.get_asset(name)
        assert asset is not None
        assert asset.compressed is not None
        assert gzip.decompress(asset.compressed) == asset.content


def test_other_names_are_no_files() -> None:
    for name in ("", "..", "../index.html", "index.html", "%2e%2e/index.html", "/etc/passwd", "\0"):
        assert files.get_asset(name) is None


def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "console/package-lock.json").read_text(encoding="utf-8")


def test_no_component_has_styles_in_attributes_which_the_policy_forbids() -> None:
    found = [
        path.name
        for path in (ROOT / "console/src").rglob("*.svelte")
        if re.search(r"\sstyle=[\"{]", path.read_text(encoding="utf-8"))
    ]
    assert not found, "write style:width={…} instead"

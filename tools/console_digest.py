"""Record the sources of the web console's build, or report whether the build matches today's sources.

python tools/console_digest.py            # tells whether the build is of these sources
python tools/console_digest.py --write    # console/build.sh does so after each build
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "console"
BUILD = ROOT / "src" / "gamay" / "console"
NOTE = BUILD / "build.json"
# what a build depends on, below console/; tests of the sources are no part of it
_FILES = ("index.html", "package.json", "package-lock.json", "vite.config.ts", "svelte.config.js", "tsconfig.json")


def digest_of(files: list[Path], root: Path) -> str:
    """Return the SHA-256 of the names and the contents of files."""
    found = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def current() -> dict[str, str]:
    """Return the digests of the sources and of the build."""
    below = [path for path in (SOURCES / "src").rglob("*") if path.is_file() and not path.name.endswith(".test.ts")]
    sources = [SOURCES / name for name in _FILES] + below
    built = [path for path in (BUILD / "static").rglob("*") if path.is_file()]
    return {"sources": digest_of(sources, SOURCES), "built": digest_of(built, BUILD)}


def noted() -> dict[str, str]:
    """Return the digests recorded by the last build."""
    found: dict[str, str] = json.loads(NOTE.read_text(encoding="utf-8")) if NOTE.exists() else {}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="note what the build was made of")
    if parser.parse_args().write:
        NOTE.write_text(json.dumps(current(), indent=2) + "\n", encoding="utf-8")
        return 0
    if current() != noted():
        print("the console's build is not of these sources: run console/build.sh, and commit what it changes")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

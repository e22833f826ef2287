"""The built files of the console, prepared for HTTP. Standard library only."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_STATIC = Path(__file__).resolve().parent / "static"
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}
_COMPACT = frozenset({".woff2"})
_NONCE = "__NONCE__"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. etag: in HTTP's form. compressed: by gzip, None if that saves nothing."""

    content_type: str
    etag: str
    content: bytes
    compressed: bytes | None


@cache
def asset_names() -> frozenset[str]:
    """Return the names of the files that pages load; they have no folders."""
    return frozenset(path.name for path in (_STATIC / "assets").iterdir() if path.suffix in _TYPES)


def get_asset(name: str) -> Asset | None:
    """Return a file by its name; None for another name, whatever characters it has."""
    return _asset(name) if name in asset_names() else None


def page(nonce: str) -> bytes:
    """Return the page as HTML, in UTF-8. nonce: allows the style sheets that its scripts create."""
    return _template().replace(_NONCE, nonce).encode()


@cache
def _asset(name: str) -> Asset:
    path = _STATIC / "assets" / name
    content = path.read_bytes()
    compressed = None if path.suffix in _COMPACT else gzip.compress(content, 9, mtime=0)
    return Asset(_TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"', content, compressed)


@cache
def _template() -> str:
    return (_STATIC / "index.html").read_text(encoding="utf-8")

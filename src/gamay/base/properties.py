"""Java's properties files."""

import re

from gamay.base.errors import InvalidConfigError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Read a Java properties file: `key=value`, `key: value`, `#` and `!` comments, lines continued with `\`.

    >>> parse_properties("# job\npath.to.input = /data\n")
    {'path.to.input': '/data'}
    """
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text)
    properties: dict[str, str] = {}
    for line in joined.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        found = re.match(r"((?:\\.|[^\\=:\s])+)\s*[=:]?\s*(.*)", stripped, re.DOTALL)
        if found is None:
            raise InvalidConfigError(f"the properties file has a line without a key: {stripped[:80]!r}")
        properties[_unescape(found[1])] = _unescape(found[2])
    return properties


def _unescape(text: str) -> str:
    def char(found: "re.Match[str]") -> str:
        return chr(int(found[1][1:], 16)) if len(found[1]) == 5 else _ESCAPES.get(found[1], found[1])

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", char, text)

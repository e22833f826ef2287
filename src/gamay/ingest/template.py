"""`${name}` in job specs, and Java's properties files."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from gamay.base.clock import Clock
from gamay.base.errors import InvalidConfigError, nearest

_PLACE = re.compile(r"(\\)?\$\{([^{}]*)\}")


def render(text: str, variables: Mapping[str, str]) -> str:
    r"""Replace `${name}`; `\${` stays as `${`, and so does the `${filePathPattern:\1}` of segment name templates.

    Raises InvalidConfigError for a name without a value.

    >>> render("in/${day}", {"day": "2024-05-01"})
    'in/2024-05-01'
    """

    def value(found: "re.Match[str]") -> str:
        if found[1] or found[2].startswith("filePathPattern:"):
            return f"${{{found[2]}}}"
        name = found[2].strip()
        if name not in variables:
            # the names known are not listed: the environment's are among them
            raise InvalidConfigError(
                f"the job spec uses ${{{name}}}, which has no value; give it as --value {name}=..., in the property file "
                f"or in the environment.{nearest(name, variables)}"
            )
        return variables[name]

    return _PLACE.sub(value, text)


def template_variables(
    values: Mapping[str, str], properties: Mapping[str, str], environment: Mapping[str, str], clock: Clock
) -> dict[str, str]:
    """Return what `${name}` stands for: given values first, then the environment, then the property file.

    `today` and `yesterday` (UTC, yyyy-MM-dd) are there unless something else has that name.
    """
    today = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    dates = {"today": f"{today:%Y-%m-%d}", "yesterday": f"{today - timedelta(days=1):%Y-%m-%d}"}
    return {**dates, **properties, **environment, **values}


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Read a Java properties file: `key=value`, `key: value`, `#` and `!` comments, lines that go on after `\`.

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

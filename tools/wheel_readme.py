"""A hook of hatchling: the README in the wheel's metadata, with absolute links.

    GAMAY_PROJECT_URL=https://example.org/gamay/blob/v0.1.0 pip wheel .

An index shows the README without the files beside it. With the address of a tree of files, links to them become absolute,
and the address is among the project's; without one, what is linked stays as text, and nothing leads nowhere.
"""

import os
import re
from pathlib import Path
from typing import Any

PROJECT_URL = "GAMAY_PROJECT_URL"

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|#")


def absolute(text: str, base: str) -> str:
    """Return Markdown with relative links resolved against a base, or replaced by their text if the base is empty."""

    def link(match: re.Match[str]) -> str:
        if _ABSOLUTE.match(match["target"]):
            return match[0]
        return f"{match['picture']}[{match['text']}]({base.rstrip('/')}/{match['target']})" if base else match["text"]

    return _LINK.sub(link, text)


def get_metadata_hook() -> Any:
    """Return the class that hatchling makes a hook of."""
    from hatchling.metadata.plugin.interface import MetadataHookInterface

    class ReadmeHook(MetadataHookInterface):
        """A metadata hook that fills in the README, and the addresses of the project."""

        def update(self, metadata: dict[str, Any]) -> None:
            base = os.environ.get(PROJECT_URL, "")
            text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
            metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, base)}
            metadata["urls"] = {"Source": base} if base else {}

    return ReadmeHook

"""The browser of the console's tests (Debian's Chromium, driven by Playwright), and the checks that every page must pass."""

import importlib.util
import json
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

_AXE = Path(__file__).resolve().parents[2] / "console/node_modules/axe-core/axe.min.js"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_WITHOUT_SANDBOX = ("--no-sandbox", "--disable-gpu")
PATIENCE_MS = 30_000  # a busy machine takes seconds for what is there at once elsewhere
_SERIOUS = ("serious", "critical")


def what_is_missing() -> str:
    """Return why there can be no browser, empty where there can."""
    if importlib.util.find_spec("playwright") is None:
        return "Python's package playwright is not installed"
    if _chromium() is None:
        return "there is no Chromium: apt-get install chromium, or name one in GAMAY_CHROMIUM"
    return ""


@contextmanager
def launched() -> "Iterator[Browser]":
    """Run a browser for the time of a `with`."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=list(_WITHOUT_SANDBOX))
        yield browser
        browser.close()


def rewrite(editor: "Locator", text: str) -> None:
    """Replace the text of an editor; clears it first.

    Where Chromium replaces coloured text it may keep the colour as a style of the new one, against the policy of the page.
    """
    editor.press("ControlOrMeta+a")
    editor.press("Delete")
    editor.fill(text)


@dataclass
class Watch:
    """The forbidden behaviour of a page. allowed: parts of messages that a test expects."""

    origin: str
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def attach(self, page: "Page") -> None:
        page.on("console", lambda message: message.type in ("error", "warning") and self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def check(self) -> None:
        """Fail for errors in the browser's console, and for requests to anywhere else."""
        said = [text for text in self.messages if not any(part in text for part in self.allowed)]
        assert not said, f"the browser's console has errors: {said}"
        others = [url for url in self.requests if not url.startswith((self.origin, "data:", "blob:"))]
        assert not others, "the page asked others than the controller"


def assert_accessible(page: "Page") -> None:
    """Fail for serious findings of axe-core on a page; warn if axe-core is missing and nothing was checked."""
    if not _AXE.exists():
        warnings.warn("accessibility was not checked, axe-core is not there: npm ci in console/", stacklevel=2)
        return
    page.evaluate(f"{_AXE.read_text(encoding='utf-8')}; 0")
    found: list[dict[str, Any]] = page.evaluate("axe.run(document).then(result => result.violations)")
    serious = [
        f"{violation['id']}: {json.dumps([node['html'] for node in violation['nodes']])[:400]}"
        for violation in found
        if violation["impact"] in _SERIOUS
    ]
    assert serious == [], serious


def _chromium() -> str | None:
    if given := os.environ.get("GAMAY_CHROMIUM"):
        return given
    return next((path for name in _NAMES if (path := shutil.which(name))), None)

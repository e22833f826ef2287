"""The web console's load time and size, and leaks during a long session.

    python -m benchmarks.console                 # first paint, bundle, a first answer
    python -m benchmarks.console --minutes 10    # and a session of generated clicks

A cluster of 100,000 rows is looked at in headless Chromium. Exits with 1 when first paint takes a second or more, the
bundle has a megabyte or more, a page has an error, or the session leaves something behind: it rests four times, and from the
first to the last of them neither objects nor nodes nor listeners may grow. The heap may somewhat, for a third of it is code
compiled so far, and more becomes hot.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.console.browser import Watch, launched
from tests.console.conftest import make_tables

from gamay.base.rng import new_rng
from gamay.console.files import asset_names, get_asset
from gamay.embedded import EmbeddedCluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAINT_MS, BUNDLE_BYTES = 1000, 1_000_000
VISITS, RESTS = 5, 4
_EDITOR = ".cm-content[aria-label=SQL]"
_REST_MS = 1000
_GOES, _ASKS = 0.2, 0.5  # shares of what a session does
_LEFT_ALONE = ("Download", "Delete", "Drop", "Disable", "Log out")
QUERIES = (
    "SELECT city, count(*), avg(price) FROM trips GROUP BY city",
    "SELECT * FROM trips LIMIT 20000",
    "SELECT dateTrunc('DAY', ts) AS day, sum(price) FROM trips GROUP BY 1 ORDER BY 1 LIMIT 200",
    "SELECT nothing FROM trips",
    "EXPLAIN PLAN FOR SELECT city FROM trips WHERE price > 10",
)


_TABLE_TABS = ("columns", "rows", "segments", "tasks", "queries", "advice", "rebalance", "config")
_CLUSTER_TABS = ("instances", "metrics", "queries", "recent", "logs", "users", "settings", "store")
ADDRESSES = (
    "query", "tables", "new-table", "cluster", "nothing",
    *(f"tables/trips/{tab}" for tab in _TABLE_TABS), "tables/pay", *(f"cluster/{tab}" for tab in _CLUSTER_TABS),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Left:
    """The memory the browser holds for a page: bytes of heap, JavaScript objects, DOM nodes shown or not, listeners."""

    heap: int
    objects: int
    nodes: int
    listeners: int

    def growth(self, later: "Left") -> str:
        """Return what grew until later; empty if nothing did."""
        limits = {"heap": 1.5, "objects": 1.1, "nodes": 1.1, "listeners": 1.1}
        grown = {name for name, limit in limits.items() if getattr(later, name) > limit * getattr(self, name)}
        return ", ".join(f"{name}: {getattr(self, name):,} became {getattr(later, name):,}" for name in sorted(grown))


def bundle_bytes() -> int:
    """Return the compressed size of all files of the console."""
    assets = [asset for name in asset_names() if (asset := get_asset(name)) is not None]
    return sum(len(asset.compressed or asset.content) for asset in assets)


def first_paint_ms(browser: "Browser", url: str) -> float:
    """Return the time until a new visitor's first paint."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(url)
    page.locator(".cm-line").first.wait_for()
    found: float = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    context.close()
    return found


class Session:
    """A user who clicks at random."""

    def __init__(self, browser: "Browser", url: str, rng: random.Random) -> None:
        self._context = browser.new_context(viewport={"width": 1280, "height": 800})
        self._rng = rng
        self.page: Page = self._context.new_page()
        self._devtools = self._context.new_cdp_session(self.page)
        self._devtools.send("Performance.enable")
        self.watch = Watch(url)
        self.watch.attach(self.page)
        self.page.goto(url)
        self.page.locator(".cm-line").first.wait_for()

    def left(self) -> Left:
        """Return the memory after garbage collection."""
        for _ in range(2):  # what the first frees may have held more
            self._devtools.send("HeapProfiler.collectGarbage")
        found = {one["name"]: int(one["value"]) for one in self._devtools.send("Performance.getMetrics")["metrics"]}
        return Left(found["JSHeapUsedSize"], self._num_objects(), found["Nodes"], found["JSEventListeners"])

    def _num_objects(self) -> int:
        root = self._devtools.send("Runtime.evaluate", {"expression": "Object.prototype"})["result"]["objectId"]
        every = self._devtools.send("Runtime.queryObjects", {"prototypeObjectId": root})["objects"]["objectId"]
        count = {"objectId": every, "functionDeclaration": "function () { return this.length }", "returnByValue": True}
        found = int(self._devtools.send("Runtime.callFunctionOn", count)["result"]["value"])
        for one in (every, root):
            self._devtools.send("Runtime.releaseObject", {"objectId": one})
        return found

    def ask(self, sql: str) -> None:
        """Run a query in the editor of the tab."""
        self.page.locator(_EDITOR).click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(sql)
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("Control+Enter")

    def visit(self, address: str) -> None:
        """Show a page without reloading the console."""
        self.page.evaluate("address => { location.hash = address }", f"#/{address}")

    def load_all(self, wait_ms: int = 500) -> None:
        """Load all code, which stays loaded. wait_ms: for each page and answer."""
        for address in (*ADDRESSES, "query"):
            self.visit(address)
            self.page.wait_for_timeout(wait_ms)
        self.page.locator(_EDITOR).wait_for()
        for sql in QUERIES:
            self.ask(sql)
            self.page.wait_for_timeout(wait_ms)
        self.ask(QUERIES[0])
        self.page.get_by_role("tab", name="Chart").click()
        self.page.locator("canvas").first.wait_for()
        self.page.get_by_role("button", name="Format").click()

    def step(self) -> None:
        """Take one random step: navigate, run a query, or click on a control that is not excluded."""
        chance = self._rng.random()
        if chance < _GOES:
            self.visit(self._rng.choice(ADDRESSES))
        elif chance < _ASKS and self.page.locator(_EDITOR).count():
            self.ask(self._rng.choice(QUERIES))
        else:
            targets = self.page.locator("main [role=tab], nav a, main button:not(:disabled), .grid")
            one = targets.nth(self._rng.randrange(max(1, targets.count())))
            if one.is_visible() and not any(word in (one.inner_text() or "") for word in _LEFT_ALONE):
                one.click(timeout=1000, force=True, no_wait_after=True)
        self.page.keyboard.press("Escape")
        self.page.wait_for_timeout(50)

    def close(self) -> None:
        """Close the page."""
        self._context.close()

    def errors(self) -> list[str]:
        """Return the messages of the browser's console, except for responses 404, which it shows as errors."""
        return [text for text in self.watch.messages if "404" not in text]

    def rest(self) -> None:
        """Return to an empty answer, then to an empty page, so that the memory can be compared."""
        self.visit("query")
        tabs = self.page.get_by_role("tablist", name="Queries").get_by_role("tab")
        tabs.first.wait_for()
        while tabs.count() > 1:  # each keeps its answer
            tabs.last.click()
            self.page.keyboard.press("Delete")
        self.ask("SELECT 1")
        self.page.wait_for_timeout(_REST_MS)
        self.visit("nothing")
        self.page.wait_for_timeout(_REST_MS)


def main() -> int:
    """Measure, print, and return whether everything is within its limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=0.0, help="length of a session of generated clicks")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_tables(Path(folder) / "data")
        with EmbeddedCluster(Path(folder) / "data", 0, 0, 0, warm_up=False) as cluster, launched() as browser:
            url = cluster.controller_url
            paint_ms = statistics.median(first_paint_ms(browser, url) for _ in range(VISITS))
            print(
                f"first paint {paint_ms:.0f} ms (median of {VISITS} new visitors), all files {bundle_bytes() / 1000:.0f} kB"
            )
            failed = paint_ms >= PAINT_MS or bundle_bytes() >= BUNDLE_BYTES
            if options.minutes:
                failed |= not clicked(Session(browser, url, new_rng(options.seed)), options.minutes)
    return int(failed)


def clicked(session: Session, minutes: float) -> bool:
    """Click for some minutes; return whether nothing leaked, and no error occurred."""
    session.load_all()
    session.rest()
    print("   steps    heap    objects   nodes  listeners")
    found, steps = [session.left()], 0
    for part in range(RESTS + 1):
        now = found[-1]
        print(f"{steps:>8} {now.heap / 1e6:>5.1f} MB {now.objects:>8,} {now.nodes:>8,} {now.listeners:>9}", flush=True)
        if part == RESTS:
            break
        until = time.monotonic() + 60 * minutes / RESTS
        while time.monotonic() < until:
            session.step()
            steps += 1
        session.rest()
        found.append(session.left())
    grown = found[1].growth(found[-1])
    errors = session.errors()
    print(f"{steps} steps in {minutes:g} min; {grown or 'nothing is left behind'}; {', '.join(errors) or 'no errors'}")
    return not errors and not grown


if __name__ == "__main__":
    sys.exit(main())

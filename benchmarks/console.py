"""How soon the web console is there, how large it is, and whether a long session leaves anything behind.

    python -m benchmarks.console                 # first paint, bundle, a first answer
    python -m benchmarks.console --minutes 10    # and a session of generated clicks

A cluster of 100,000 rows is looked at in headless Chromium. Exits with 1 when first paint takes a second or more, the
bundle has a megabyte or more, a page has an error, or the session's memory grows.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.console.browser import Watch, launched
from tests.console.conftest import make_tables

from gamay.base.rng import new_rng
from gamay.console.files import asset_names, get_asset
from gamay.embedded import EmbeddedCluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAINT_MS, BUNDLE_BYTES, GROWTH = 1000, 1_000_000, 1.5
VISITS = 5
_LEFT_ALONE = ("Download", "Delete", "Drop", "Disable", "Log out")
QUERIES = (
    "SELECT city, count(*), avg(price) FROM trips GROUP BY city",
    "SELECT * FROM trips LIMIT 20000",
    "SELECT dateTrunc('DAY', ts) AS day, sum(price) FROM trips GROUP BY 1 ORDER BY 1 LIMIT 200",
    "SELECT nothing FROM trips",
    "EXPLAIN PLAN FOR SELECT city FROM trips WHERE price > 10",
)


def bundle_bytes() -> int:
    """Return how much all files of the console have when they are compressed."""
    assets = [asset for name in asset_names() if (asset := get_asset(name)) is not None]
    return sum(len(asset.compressed or asset.content) for asset in assets)


def first_paint_ms(browser: "Browser", url: str) -> float:
    """Return when a new visitor sees the first of the page."""
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
        self.watch = Watch(url)
        self.watch.attach(self.page)
        self.page.goto(url)
        self.page.locator(".cm-line").first.wait_for()

    def heap_bytes(self) -> int:
        """Return what is left after the garbage is gone."""
        self._devtools.send("HeapProfiler.collectGarbage")
        found: dict[str, Any] = self._devtools.send("Runtime.getHeapUsage")
        return int(found["usedSize"])

    def ask(self, sql: str) -> None:
        """Run a query in the editor of the tab."""
        self.page.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(sql)
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("Control+Enter")

    def load_all(self) -> None:
        """Have all code loaded, which stays."""
        tabs = ("segments", "queries", "advice", "rebalance", "config")
        pages = (
            "tables",
            *(f"tables/trips/{tab}" for tab in tabs),
            "new-table",
            "cluster",
            "cluster/metrics",
            "cluster/logs",
        )
        for page in (*pages, "query"):
            self.page.goto(f"{self.watch.origin}/#/{page}")
            self.page.wait_for_timeout(500)
        for sql in QUERIES:
            self.ask(sql)
            self.page.wait_for_timeout(500)
        self.ask(QUERIES[0])
        self.page.get_by_role("tab", name="Chart").click()
        self.page.locator("canvas").first.wait_for()
        self.page.get_by_role("button", name="Format").click()

    def step(self) -> None:
        """Do one thing: ask, or click somewhere that leads nowhere else."""
        if self.page.locator(".cm-content").count() and self._rng.random() < 0.4:
            self.ask(self._rng.choice(QUERIES))
        else:
            targets = self.page.locator("main [role=tab], nav a, main button:not(:disabled), .grid")
            one = targets.nth(self._rng.randrange(max(1, targets.count())))
            if one.is_visible() and not any(word in (one.inner_text() or "") for word in _LEFT_ALONE):
                one.click(timeout=1000, force=True, no_wait_after=True)
        self.page.keyboard.press("Escape")
        self.page.wait_for_timeout(50)

    def rest(self) -> None:
        """Come back to one empty answer, so that what is left can be compared."""
        self.page.goto(self.watch.origin + "/#/query")
        tabs = self.page.get_by_role("tablist", name="Queries").get_by_role("tab")
        tabs.first.wait_for()
        while tabs.count() > 1:  # each keeps its answer
            tabs.last.click()
            self.page.keyboard.press("Delete")
        self.ask("SELECT 1")
        self.page.wait_for_timeout(1000)


def main() -> int:
    """Measure, print, and say whether all is within its limits."""
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
    """Click for some minutes; return whether nothing is left behind, and nothing went wrong."""
    session.load_all()
    session.rest()
    before, until, steps = session.heap_bytes(), time.monotonic() + 60 * minutes, 0
    while time.monotonic() < until:
        session.step()
        steps += 1
    session.rest()
    after = session.heap_bytes()
    errors = [text for text in session.watch.messages if "404" not in text]
    print(f"{steps} steps in {minutes:g} min, {', '.join(errors) or 'no errors'}")
    print(f"memory: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after")
    return not errors and after < before * GROWTH


if __name__ == "__main__":
    sys.exit(main())

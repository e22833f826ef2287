"""A browser per test file, clusters to display, and pages whose errors are recorded."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.console.browser import PATIENCE_MS, Watch, launched, what_is_missing
from tests.minion.conftest import Orders
from tests.waiting import eventually

import gamay
from gamay.embedded import EmbeddedCluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROWS = 100_000
FIRST_ID = 2**60  # which JavaScript's numbers cannot hold
T0 = 1_700_000_000_000
CITIES = ("Kyiv", "Lima", "Oslo", "Rome")
COMPACTION = "UpsertCompactionTask"
COMPACTION_SETTINGS = {"bufferTimePeriod": "0d", "invalidRecordsThresholdCount": "1", "schedule": "0 0 0 1 1 ?"}

OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Start one browser per file: while Playwright runs, no other code of the process can call `asyncio.run`."""
    if reason := what_is_missing():
        if os.environ.get("GAMAY_REQUIRE_CHROMIUM"):
            pytest.fail(f"GAMAY_REQUIRE_CHROMIUM is set, but {reason}")
        pytest.skip(f"no browser: {reason}")
    with launched() as found:
        yield found


def make_tables(folder: Path) -> None:
    """Make `trips`, with 100,000 rows of about 55 bytes as JSON, and the small `pay`."""
    numbers = np.arange(ROWS)
    trips = {
        "id": numbers + FIRST_ID,
        "city": np.array(CITIES)[numbers % 4],
        "price": (numbers * 7919 % 10_000) / 100,
        "ts": T0 + numbers * 60_000,
        "note": pa.array([None if n % 7 == 0 else f"n {n}" for n in numbers.tolist()]),
    }
    schema = {
        "schemaName": "trips",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "LONG"},
            {"name": "city", "dataType": "STRING"},
            {"name": "note", "dataType": "STRING"},
        ],
        "metricFieldSpecs": [{"name": "price", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
        ],
    }
    with gamay.connect(folder) as db:
        config = {"segmentsConfig": {"timeColumnName": "ts"}}
        db.create_table("trips", pa.table(trips), schema=schema, config=config)
        db.create_table("pay", pa.table({"n": [4, 5], "who": ["Ada", "Bo"]}))


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster without access control; used through `open_page`, which needs a browser first."""
    folder = tmp_path_factory.mktemp("console") / "data"
    make_tables(folder)
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as found:
        yield found


@pytest.fixture(scope="session")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orders]:
    """A table over a stream, with segments that compaction can shrink."""
    made = Orders(tmp_path_factory.mktemp("orders"), 1, 50, 1).start().create(**{COMPACTION: COMPACTION_SETTINGS})
    made.produce(300, keys=40)
    eventually(lambda: len(made.segments()) >= 4 and made.is_right())
    yield made
    made.stop()


@pytest.fixture
def watched(browser: "Browser") -> "Iterator[Callable[..., tuple[Page, Watch]]]":
    """Opens pages of a cluster, each as a new visitor; at the end all must have kept quiet, and to their controller."""
    opened: list[tuple[Any, Watch]] = []

    def open_page(url: str, path: str = "/", *, width: int = 1280, dark: bool = False) -> "tuple[Page, Watch]":
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.set_default_timeout(PATIENCE_MS)
        page, watch = context.new_page(), Watch(url)
        watch.attach(page)
        opened.append((context, watch))
        page.goto(f"{url}{path}")
        return page, watch

    yield open_page
    for context, _ in opened:
        context.close()
    for _, watch in opened:
        watch.check()


@pytest.fixture
def open_page(watched: "Callable[..., tuple[Page, Watch]]", console: EmbeddedCluster) -> OpenPage:
    """Return a function that opens pages of the cluster without access control: `open_page("#/tables", width=400)`."""
    return lambda address="", **options: watched(console.controller_url, f"/{address}", **options)[0]

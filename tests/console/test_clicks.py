"""A short session of generated clicks; `python -m benchmarks.console --minutes 10` is the long one."""

from typing import TYPE_CHECKING

from benchmarks.console import Session

from gamay.base.rng import new_rng
from gamay.embedded import EmbeddedCluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STEPS = 20
LEAK = """() => {
  const kept = (window.kept = [])
  addEventListener('hashchange', () => kept.push(...Array.from({ length: 5000 }, () => new Text('x'))))
}"""


def test_clicks_leave_no_errors_and_nothing_behind(browser: "Browser", console: EmbeddedCluster) -> None:
    session = Session(browser, console.controller_url, new_rng(3))
    session.load_all(wait_ms=100)
    found = []
    for visits in (2, 30):
        for _ in range(STEPS):
            session.step()
        for _ in range(visits):  # each shows rows, which are a few hundred objects
            session.visit("tables/trips/rows")
            session.page.get_by_role("grid").first.wait_for()
            session.visit("nothing")
        session.rest()
        found.append(session.left())
    assert session.errors() == []
    assert found[0].growth(found[1]) == ""
    session.page.evaluate(LEAK)  # is one seen?
    for address in ("tables", "cluster", "tables"):
        session.visit(address)
    session.rest()
    grown = found[0].growth(session.left())
    assert "nodes: " in grown
    assert "objects: " in grown
    session.close()

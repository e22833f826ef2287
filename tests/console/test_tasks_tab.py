"""The tasks tab of a table, in headless Chromium: schedules, past runs, and a manual run."""

from typing import Any

from playwright.sync_api import expect
from tests.console.browser import assert_accessible
from tests.console.conftest import COMPACTION as TYPE
from tests.console.conftest import COMPACTION_SETTINGS as SETTINGS
from tests.minion.conftest import Orders
from tests.waiting import eventually


def test_a_task_is_run_by_hand_and_forgotten(watched: Any, browser: Any, orders: Orders) -> None:
    assert orders.cluster is not None
    page, _ = watched(orders.cluster.controller_url, "/#/tables/orders/tasks")
    expect(page.get_by_role("table", name="Schedules").get_by_role("row").nth(1)).to_contain_text(SETTINGS["schedule"])
    expect(page.get_by_text("No task of the table has run")).to_be_visible()
    page.get_by_role("button", name=f"Run now: {TYPE}").click()
    expect(page.get_by_role("status").filter(has_text="is made, and runs")).to_be_visible()
    (job,) = orders.rest("GET", f"/tasks/{TYPE}/tasks")
    eventually(lambda: orders.rest("GET", f"/tasks/task/{job}/state") == "COMPLETED")
    page.get_by_role("button", name="Look again").click()
    run = page.get_by_role("table", name="Runs").get_by_role("row").nth(1)
    expect(run).to_contain_text("COMPLETED")
    run.locator("summary").press("Enter")
    expect(run.locator("li").first).to_contain_text("on Minion_")
    assert_accessible(page)
    page.get_by_role("button", name=f"Forget… {job}").click()
    expect(page.get_by_role("dialog")).to_contain_text(job)
    page.get_by_role("button", name="Forget it").click()
    expect(page.get_by_text("No task of the table has run")).to_be_visible()


def test_tasks_fit_a_small_dark_screen(watched: Any, browser: Any, orders: Orders) -> None:
    assert orders.cluster is not None
    page, _ = watched(orders.cluster.controller_url, "/#/tables/orders/tasks", width=400, dark=True)
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert_accessible(page)

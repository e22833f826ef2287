import sys
from pathlib import Path


def test_shot(open_page):
    for i, (a, w, d) in enumerate([("#/tables/trips/segments", 1280, False), ("#/tables/trips/segments", 400, True)]):
        p = open_page(a, width=w, dark=d)
        p.wait_for_timeout(1200)
        p.screenshot(path=f"/tmp/c24_{i}.png")

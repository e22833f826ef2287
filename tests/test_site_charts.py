"""Charts of the documentation site: drawn only from the results of benchmarks."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

from tools import site_charts

ROOT = Path(__file__).parents[1]


def drawn(html: str) -> ET.Element:
    (svg,) = re.findall(r"<svg.*</svg>", html)
    return ET.fromstring(svg)


def test_every_chart_of_a_page_is_known_and_a_missing_file_says_what_makes_it(tmp_path: Path) -> None:
    used = {
        name for page in (ROOT / "docs").rglob("*.md") for name in re.findall(r"<!-- chart: (\w+) -->", page.read_text())
    }
    assert used == site_charts._CHARTS.keys()
    for name in used:
        assert "was run before the site was built" in site_charts.chart(name, tmp_path)


def test_queries_are_drawn_by_how_much_longer_others_take(tmp_path: Path) -> None:
    records = [
        {"query": query, "system": system, "ratio": ratio}
        for query, ratios in {"a < b": (1, 0.5, 20), "c": (1, 2, 1000)}.items()
        for system, ratio in zip(("gamay", "duckdb", "chdb"), ratios, strict=True)
    ]
    (tmp_path / "bench.json").write_text(json.dumps(records))
    svg = drawn(site_charts.chart("bench", tmp_path))
    dots = {dot[0].text: float(dot.get("cx", "0")) for dot in svg.iter("circle") if len(dot)}
    assert list(dots) == ["a < b: chdb 20×", "a < b: duckdb 0.5×", "c: chdb 1000×", "c: duckdb 2×"]
    assert sorted(dots, key=lambda name: dots[name])[0] == "a < b: duckdb 0.5×"
    one = next(float(text.get("x", "0")) for text in svg.iter("text") if text.text == "1×")
    assert dots["a < b: duckdb 0.5×"] < one < dots["c: duckdb 2×"]


def test_numbers_become_bars_in_the_place_of_the_marker(tmp_path: Path) -> None:
    (tmp_path / "realtime.json").write_text(json.dumps({"freshness_p50_ms": 4, "freshness_p99_ms": 8, "rows": 9e9}))
    widths = [float(bar.get("width", "0")) for bar in drawn(site_charts.chart("realtime", tmp_path)).iter("rect")]
    assert len(widths) == 2
    assert widths[1] == 2 * widths[0]
    page = site_charts.on_page_markdown("before\n\n<!-- chart: newcomer -->\n\nafter")
    assert page.startswith("before\n\n")
    assert page.endswith("\n\nafter")
    assert "<!--" not in page

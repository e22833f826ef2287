"""A hook of mkdocs: draws charts of benchmark results at the build where pages have `<!-- chart: NAME -->`.

The numbers come from the files that benchmarks leave in `build/`; nothing is fetched, and pages need no script to show them.
A file that is not there leaves a line that says how to make it.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "build"

_MARKER = re.compile(r"^<!-- chart: (?P<name>\w+) -->$", re.MULTILINE)
_LABEL, _PLOT, _ROW, _HEAD = 260, 420, 17, 34
_COLOURS = ("#8a5fb0", "#2a86b8", "#c77f1a")  # each 3:1 against white and against dark grey


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page with its charts."""
    return _MARKER.sub(lambda match: chart(match["name"]), markdown)


def chart(name: str, folder: Path = FOLDER) -> str:
    """Return a chart as HTML, or a note on how to create it. Raises KeyError for an unknown name."""
    spec = _CHARTS[name]
    path = folder / f"{name}.json"
    if not path.exists():
        return f"*A chart is drawn here where `{spec[0]}` was run before the site was built.*"
    svg, text = spec[1](json.loads(path.read_text(encoding="utf-8")))
    return f"<figure>\n{svg}\n<figcaption>{escape(text)}</figcaption>\n</figure>"


def _ratios(records: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    """Draw the ratio of other systems' times to Gamay's for each query, on a logarithmic scale."""
    found: dict[str, dict[str, float]] = {}
    for record in records:
        found.setdefault(record["query"], {})[record["system"]] = record["ratio"]
    peers = sorted({system for ratios in found.values() for system in ratios} - {"gamay"})
    values = [ratio for ratios in found.values() for ratio in ratios.values()]
    low, high = math.floor(math.log10(min(values, default=1))), math.ceil(math.log10(max(values, default=1))) or 1

    def x(ratio: float) -> float:
        return _LABEL + _PLOT * (math.log10(ratio) - low) / (high - low)

    parts = [_line(x(10.0**power), len(found), f"{10.0**power:g}×") for power in range(low, high + 1)]
    parts += [_key(peer, number) for number, peer in enumerate(peers)]
    for row, (query, ratios) in enumerate(found.items()):
        y = _HEAD + _ROW * (row + 0.5)
        parts.append(_text(query, _LABEL - 8, y, "end"))
        dots = [
            f'<circle cx="{x(ratios[peer]):.1f}" cy="{y:.1f}" r="4" fill="{_COLOURS[number % 3]}">'
            f"<title>{escape(f'{query}: {peer} {ratios[peer]:g}×')}</title></circle>"
            for number, peer in enumerate(peers)
            if peer in ratios
        ]
        parts += dots
    label = f"How many times as long {' and '.join(peers)} take as Gamay, for {len(found)} queries"
    return _svg(parts, len(found), label), f"{label}: right of 1 Gamay is faster. The scale is logarithmic."


def _bars(rows: Sequence[tuple[str, float]], unit: str, label: str) -> tuple[str, str]:
    most = max((value for _, value in rows), default=1) or 1
    parts = []
    for row, (name, value) in enumerate(rows):
        y, width = _HEAD + _ROW * row, max(1.0, (_PLOT - 80) * value / most)
        parts.append(_text(name, _LABEL - 8, y + _ROW / 2, "end"))
        parts.append(f'<rect x="{_LABEL}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" fill="{_COLOURS[0]}"/>')
        parts.append(_text(f"{value:,.1f} {unit}", _LABEL + width + 6, y + _ROW / 2, "start"))
    return _svg(parts, len(rows), label), label + "."


def _freshness(results: Mapping[str, float]) -> tuple[str, str]:
    rows = [(name.removesuffix("_ms").replace("_", " "), value) for name, value in results.items() if name.endswith("_ms")]
    return _bars(rows, "ms", "How old rows are when queries see them, and pauses around commits")


def _newcomer(steps: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    return _bars([(step["name"], step["seconds"]) for step in steps], "s", "The path of a newcomer")


def _line(x: float, rows: int, text: str) -> str:
    bottom = _HEAD + _ROW * rows
    rule = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD}" y2="{bottom}" stroke="currentColor" stroke-opacity="0.25"/>'
    return rule + _text(text, x, _HEAD - 8, "middle")


def _key(name: str, number: int) -> str:
    x = 10 + 90 * number
    return f'<circle cx="{x}" cy="10" r="4" fill="{_COLOURS[number % 3]}"/>' + _text(name, x + 9, 10, "start")


def _text(text: str, x: float, y: float, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" dominant-baseline="central"'
    return f'<text {place} font-size="11" fill="currentColor">{escape(text)}</text>'


def _svg(parts: Iterable[str], rows: int, label: str) -> str:
    width, height = _LABEL + _PLOT + 30, _HEAD + _ROW * rows + 8
    inner = "".join(parts)
    return f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {height}" width="100%">{inner}</svg>'


# the file without its suffix -> what makes it, and how it is drawn
_CHARTS: Mapping[str, tuple[str, Callable[[Any], tuple[str, str]]]] = {
    "bench": ("make bench", _ratios),
    "realtime": ("python -m benchmarks.realtime", _freshness),
    "newcomer": ("python -m benchmarks.newcomer", _newcomer),
}

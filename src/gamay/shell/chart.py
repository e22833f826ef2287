"""Bar and line charts of answers in a terminal."""

import itertools
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest
from gamay.shell.answer import Answer
from gamay.shell.formats.cells import NUMBERS, cell, format_column

KINDS = ("bar", "line")
_BARS_MAX = 60
_HEIGHT = 12
_LABEL_MAX = 30
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a Braille character, by row and column


def chart_text(answer: Answer, kind: str | None, x: str | None, y: str | None, width: int) -> str:
    """Return a chart as lines. kind: bar or line, by default chosen by the type of x; x, y: columns, chosen unless given.

    Raises InvalidConfigError if there is nothing to draw.
    """
    x_place, y_place = _axes(answer, x, y)
    pairs = [
        (row[x_place], _number(value[y_place])) for row, value in zip(answer.shown_rows, answer.result.rows(), strict=True)
    ]
    kept = [(label, value) for label, value in pairs if value is not None]
    if not kept:
        raise InvalidConfigError("there are no rows to draw")
    kind = kind or ("line" if _is_ordered(answer, x_place) and len(kept) > 1 else "bar")
    title = f"{answer.columns[y_place]} by {answer.columns[x_place]}"
    labels = [cell(label) for label, _ in kept]
    values = [value for _, value in kept]
    lines = _lines(labels, values, width) if kind == "line" else _bars(labels, values, width)
    return "\n".join([title, *lines])


def _axes(answer: Answer, x: str | None, y: str | None) -> tuple[int, int]:
    numbers = [i for i, kind in enumerate(answer.types) if kind in NUMBERS]
    y_place = _place(answer, y) if y else next((i for i in reversed(numbers) if answer.columns[i] != x), None)
    if y_place is None:
        raise InvalidConfigError("a chart needs a numeric column; the last answer has none")
    if y_place not in numbers:
        raise InvalidConfigError(f"column '{y}' is not numeric but {answer.types[y_place]}, so it cannot be y")
    x_place = _place(answer, x) if x else next((i for i in range(len(answer.columns)) if i != y_place), None)
    if x_place is None:
        raise InvalidConfigError("a chart needs a column beside the numbers, such as SELECT city, COUNT(*) … GROUP BY city")
    return x_place, y_place


def _place(answer: Answer, name: str) -> int:
    if name not in answer.columns:
        hint = nearest(name, answer.columns) or f" There are: {', '.join(answer.columns)}"
        raise InvalidConfigError(f"the last answer has no column '{name}'.{hint}")
    return answer.columns.index(name)


def _is_ordered(answer: Answer, place: int) -> bool:
    """Whether a column of times or numbers is in ascending order."""
    values = [row[place] for row in answer.result.rows() if row[place] is not None]
    if not all(isinstance(value, datetime | int | float) and not isinstance(value, bool) for value in values):
        return False
    return len(values) > 2 and all(a <= b for a, b in itertools.pairwise(values))


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if number - number == 0 else None


def _bars(labels: Sequence[str], values: Sequence[float], width: int) -> list[str]:
    """Return a bar for each value, in eighths of a character; negative values extend to the left."""
    shown = list(zip(labels, values, format_column(list(values), "DOUBLE"), strict=True))[:_BARS_MAX]
    label_width = min(_LABEL_MAX, max(len(label) for label, _, _ in shown))
    value_width = max(len(text) for _, _, text in shown)
    room = max(10, width - label_width - value_width - 4)
    low, high = min(0.0, *values[:_BARS_MAX]), max(0.0, *values[:_BARS_MAX])
    scale = room / ((high - low) or 1.0)
    zero = -low * scale
    lines = []
    for label, value, text in shown:
        name = label if len(label) <= label_width else f"{label[: label_width - 1]}…"
        if value >= 0:
            eighths = round(value * scale * 8)
            bar = " " * round(zero) + "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
        else:
            start = round(zero + value * scale)
            bar = " " * start + "█" * max(1, round(zero) - start)
        lines.append(f"{name.ljust(label_width)} {text.rjust(value_width)} {bar}".rstrip())
    if len(values) > _BARS_MAX:
        lines.append(f"… {len(values) - _BARS_MAX:,} more")
    return lines


def _lines(labels: Sequence[str], values: Sequence[float], width: int) -> list[str]:
    """Return a line through the values, drawn with the dots of Braille characters."""
    low, high = min(values), max(values)
    marks = format_column([high, (high + low) / 2, low], "DOUBLE")
    margin = max(map(len, marks))
    columns = max(10, width - margin - 2)
    dots_x, dots_y = columns * 2, _HEIGHT * 4
    cells = [[0] * columns for _ in range(_HEIGHT)]
    points = [
        (round(i * (dots_x - 1) / max(1, len(values) - 1)), round((high - v) * (dots_y - 1) / ((high - low) or 1.0)))
        for i, v in enumerate(values)
    ]
    for (x0, y0), (x1, y1) in zip(points, points[1:] or points, strict=False):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            x, y = x0 + round((x1 - x0) * step / steps), y0 + round((y1 - y0) * step / steps)
            cells[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
    at = {0: marks[0], _HEIGHT // 2: marks[1], _HEIGHT - 1: marks[2]}
    drawn = [
        f"{at.get(i, '').rjust(margin)} │{''.join(chr(0x2800 + one) for one in row)}".rstrip("\u2800")
        for i, row in enumerate(cells)
    ]
    first, last = labels[0], labels[-1]
    axis = first + " " * max(1, columns - len(first) - len(last)) + last
    return [*drawn, f"{' ' * margin} └{'─' * columns}", f"{' ' * margin}  {axis}"]

"""Writers of answers to a stream or file in the requested format."""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gamay.base.errors import InvalidConfigError, nearest
from gamay.client.values import unique_names
from gamay.shell.answer import Answer
from gamay.shell.formats.cells import NUMBERS, cell, plain
from gamay.shell.formats.table import line_text, table_text, width_needed

FORMATS = ("table", "line", "auto", "csv", "json", "jsonl", "markdown", "parquet", "arrow")
"""`auto` is `table` if that fits the terminal, else `line`."""
FOR_PEOPLE = ("table", "line", "auto", "markdown")
BINARY = ("parquet", "arrow")
_BY_SUFFIX = {".md": "markdown", ".ndjson": "jsonl", ".feather": "arrow", ".ipc": "arrow"}


@dataclass(frozen=True, slots=True)
class Screen:
    """Capabilities of a terminal; width: None if the output is not a terminal."""

    width: int | None = None
    color: bool = False


def check_format(name: str, option: str = "--output") -> str:
    """Return the name of a format if it exists. Raises InvalidConfigError."""
    if name not in FORMATS:
        raise InvalidConfigError(f"{option} {name}: expected one of {', '.join(FORMATS)}.{nearest(name, FORMATS)}")
    return name


def format_of_file(path: Path) -> str | None:
    """Return the format for a file name's suffix, None if it is unknown."""
    suffix = path.suffix.lower()
    return _BY_SUFFIX.get(suffix) or (suffix[1:] if suffix[1:] in FORMATS else None)


def text_of(answer: Answer, form: str, screen: Screen = Screen()) -> str:
    """Return an answer in one of the text formats, without a trailing newline."""
    columns, types = answer.columns, answer.types
    if form == "auto":
        fits = screen.width is None or width_needed(columns, types, answer.shown_rows) <= screen.width
        form = "table" if fits else "line"
    if form == "table":
        return table_text(columns, types, answer.shown_rows, width=screen.width, color=screen.color)
    if form == "line":
        return line_text(columns, types, answer.shown_rows)
    return _TEXTS[form](columns, types, answer.shown_rows if form == "markdown" else answer.result.rows())


def bytes_of(answer: Answer, form: str, *, is_file: bool = True) -> bytes:
    """Return an answer as Parquet, or Arrow: the file format in files, the stream format elsewhere."""
    import pyarrow as pa

    table = answer.result.to_arrow()
    table = table.rename_columns(unique_names(table.column_names))
    sink = io.BytesIO()
    if form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, sink)
    else:
        with (pa.ipc.new_file if is_file else pa.ipc.new_stream)(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def write_to(stream: BinaryIO, answer: Answer, form: str, screen: Screen = Screen(), *, is_file: bool = True) -> None:
    """Write an answer to a stream of bytes."""
    if form in BINARY:
        stream.write(bytes_of(answer, form, is_file=is_file))
    elif text := text_of(answer, form, screen):
        stream.write(text.encode())
        stream.write(b"\n")


def _csv(columns: Sequence[str], _: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as CSV. A null is an empty field, an empty string is `""`, so readers can distinguish them."""
    return "\n".join(",".join(map(_csv_field, row)) for row in (columns, *rows)) if columns else ""


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
    if text and not any(c in text for c in '",\r\n') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def _json(columns: Sequence[str], _: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return json.dumps(_objects(columns, rows), ensure_ascii=False)


def _jsonl(columns: Sequence[str], _: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return "\n".join(json.dumps(one, ensure_ascii=False) for one in _objects(columns, rows))


def _objects(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    names = unique_names(columns)
    return [dict(zip(names, map(plain, row), strict=True)) for row in rows]


def _markdown(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not columns:
        return ""
    rules = ["---:" if kind in NUMBERS else "---" for kind in types]
    body = [[cell(value) for value in row] for row in rows]
    return "\n".join(f"| {' | '.join(_escaped(one) for one in row)} |" for row in (columns, rules, *body))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")


_TEXTS: dict[str, Callable[[Sequence[str], Sequence[str], Sequence[Sequence[Any]]], str]] = {
    "csv": _csv,
    "json": _json,
    "jsonl": _jsonl,
    "markdown": _markdown,
}

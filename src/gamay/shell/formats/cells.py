"""Values as text, in the columns of formats for people and in formats for programs."""

import json
import uuid
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from gamay.shell.dates import moment_text

SEPARATED_FROM = 10_000
"""Columns with a number of five or more digits have thousands separators; years and hours do not."""
NULL = "NULL"
NUMBERS = ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL")


def format_column(values: Sequence[Any], kind: str) -> list[str]:
    """Return the values of a column as text, all numbers in the same format. kind: the wire type.

    >>> format_column([1944, 25526, None], "LONG")
    ['1,944', '25,526', 'NULL']
    >>> format_column([2013, 2014], "INT")
    ['2013', '2014']
    >>> format_column([21.921, 3.0], "DOUBLE")
    ['21.92', '3.00']
    >>> format_column(["2013-01-01 10:00:00.0"], "TIMESTAMP")
    ['2013-01-01 10:00:00']
    """
    if kind in ("INT", "LONG", "FLOAT", "DOUBLE"):
        return _numbers(values)
    if kind == "TIMESTAMP":
        return [cell(value).removesuffix(".0") for value in values]
    return [cell(value) for value in values]


def _numbers(values: Sequence[Any]) -> list[str]:
    numbers = [v for v in values if isinstance(v, int | float) and abs(v) < float("inf")]
    largest = max(map(abs, numbers), default=0)
    separator = "," if largest >= SEPARATED_FROM else ""
    if all(float(v).is_integer() for v in numbers):
        form = f"{separator}.0f"
    elif largest >= 1:
        form = f"{separator}.2f"
    else:
        form = ".4g"
    texts = []
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool):
            texts.append(format(value, f"{separator}d"))
        else:
            texts.append(format(value, form) if isinstance(value, float) and value - value == 0 else cell(value))
    return texts


def cell(value: Any) -> str:
    """Return a value on one line."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=plain, ensure_ascii=False)
    return str(plain(value)).replace("\n", "\\n")


def plain(value: Any) -> Any:
    """Return a value for JSON and CSV: timestamps in UTC, bytes in hexadecimal digits, decimals with all their digits.

    NaN and infinities are strings, as in the answers of brokers.
    """
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, float) and value - value != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value

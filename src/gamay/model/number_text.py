"""The syntax of numbers in text, everywhere: in data, in defaults of columns, in queries."""

import re

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|NaN|[+-]?Infinity")


def number_text(text: str) -> str:
    """Return the text of a number without surrounding blanks, for int, float or Decimal to parse; raises ValueError.

    By themselves these would accept more: `1_000`, digits of any script, `inf`.

    >>> number_text(" 1.5e3 ")
    '1.5e3'
    """
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped) is None:
        raise ValueError(f"'{text}' is not a number")
    return stripped

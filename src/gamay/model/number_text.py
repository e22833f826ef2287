"""Which texts are numbers, everywhere: in data, in defaults of columns, in queries."""

import re

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|NaN|[+-]?Infinity")


def number_text(text: str) -> str:
    """Return the text of a number without blanks around it, for int, float or Decimal to read; raises ValueError.

    These would take more by themselves: `1_000`, digits of any script, `inf`.

    >>> number_text(" 1.5e3 ")
    '1.5e3'
    """
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped) is None:
        raise ValueError(f"'{text}' is not a number")
    return stripped

"""Single characters of a text: their codes and replacement, and Unicode's normal forms."""

import re
import string
import unicodedata
from typing import Any, Literal

import pyarrow.compute as pc

from gamay.functions.arguments import wrong
from gamay.functions.convert import by_distinct
from gamay.functions.scalar.define import by_value, const, each, scalar
from gamay.functions.scalar.text.strings import MAX_CHARACTERS
from gamay.model.types import DataType

STRING, INT, BOOLEAN = DataType.STRING, DataType.INT, DataType.BOOLEAN
_FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")


@by_value("codepoint", params=(STRING,), returns=INT)
def codepoint(text: str) -> int:
    """The code of the first character."""
    if not text:
        raise ValueError("an empty text has no first character")
    return ord(text[0])


@by_value("ascii", params=(STRING,), returns=INT)
def ascii_of(text: str) -> int:
    """The code of the first character, 0 for the empty text."""
    return ord(text[0]) if text else 0


@by_value("chr", params=(INT,), returns=STRING)
def chr_of(code: int) -> str:
    """The character of a code."""
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("it is not the code of a character")
    return chr(code)


@by_value("unistr", params=(STRING, STRING), returns=STRING, optional=1)
def unistr(text: str, escape: str = "\\") -> str:
    """The text with codes replaced by their characters, `\\0041` or `\\+01F600`; another escape character may be given.

    This is `U&'…' UESCAPE '…'` of SQL (ISO 9075-2, 5.3).
    """
    if len(escape) != 1 or escape in "+'\"" or escape in string.hexdigits or escape.isspace():
        raise ValueError(
            f"'{escape}' is not an escape character; it must be one character, but no hexadecimal digit, +, quote or blank"
        )
    sign = re.escape(escape)
    found = re.sub(rf"{sign}(?:({sign})|\+([0-9a-fA-F]{{6}})|([0-9a-fA-F]{{4}})|)", _character, text)
    try:
        return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le")  # surrogates, as in JSON, must come in pairs
    except UnicodeDecodeError:
        raise ValueError("it has a surrogate without its counterpart") from None


def _character(found: re.Match[str]) -> str:
    escape, six, four = found.groups()
    if escape is None and six is None and four is None:
        raise ValueError(f"{found[0]} must be followed by 4 hexadecimal digits, by + and 6 of them, or by itself")
    code = int(six or four or "0", 16)
    if code > 0x10FFFF:
        raise ValueError(f"there is no character with the code {six}")
    return str(escape or chr(code))


@by_value("space", params=(INT,), returns=STRING)
def space(count: int) -> str:
    """A text of `count` blanks."""
    if count > MAX_CHARACTERS:
        raise ValueError(f"the result is longer than {MAX_CHARACTERS} characters")
    return " " * count


@by_value("translate", params=(STRING, STRING, STRING), returns=STRING)
def translate(text: str, source: str, target: str) -> str:
    """Replace characters one by one; those without a counterpart are removed."""
    table: dict[int, str] = {}
    for i, character in enumerate(source):
        table.setdefault(ord(character), target[i : i + 1])
    return text.translate(table)


@by_value("overlay", params=(STRING, STRING, INT, INT), returns=STRING, optional=1)
def overlay(text: str, by: str, start: int, count: int | None = None) -> str:
    """Replace `count` characters (by default, the length of `by`) from `start`, which counts from 1, by `by`."""
    begin = min(max(start - 1, 0), len(text))
    end = min(begin + max(len(by) if count is None else count, 0), len(text))
    return text[:begin] + by + text[end:]


def _form(name: str) -> Literal["NFC", "NFD", "NFKC", "NFKD"]:
    known = next((form for form in _FORMS if form == name.upper()), None)
    if known is None:
        raise wrong("normalize", f"'{name}' is not one of {', '.join(_FORMS)}")
    return known


@scalar("normalize", params=(each(STRING), const(STRING, _form)), returns=STRING, optional=1)
def normalize(text: Any, form: str = "NFC") -> Any:
    """One of Unicode's normal forms: NFC, NFD, NFKC, NFKD."""
    known = _form(form)
    return by_distinct(text, lambda value: unicodedata.normalize(known, value), STRING)


@scalar("firstLine", params=(each(STRING),), returns=STRING)
def first_line(text: Any) -> Any:
    """The text before the first line feed or carriage return."""
    return pc.replace_substring_regex(text, r"(?s)[\r\n].*", "")


@scalar("isValidASCII", params=(each(STRING),), returns=BOOLEAN)
def is_valid_ascii(text: Any) -> Any:
    """Whether all characters have codes below 128."""
    return pc.string_is_ascii(text).to_numpy(zero_copy_only=False)

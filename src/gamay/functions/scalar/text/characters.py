"""Single characters of a text: their codes, replacing them, and Unicode's normal forms."""

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
    """Put characters in the place of their codes, `\\0041` or `\\+01F600`; another character may stand for the backslash.

    What `U&'…' UESCAPE '…'` means (ISO 9075-2, 5.3).
    """
    if len(escape) != 1 or escape in "+'\"" or escape in string.hexdigits or escape.isspace():
        raise ValueError(f"'{escape}' cannot stand before codes; one character that is no digit of them, + or quote can")
    sign = re.escape(escape)
    found = re.sub(rf"{sign}(?:({sign})|\+([0-9a-fA-F]{{6}})|([0-9a-fA-F]{{4}})|)", _character, text)
    try:
        return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le")  # codes of halves, as in JSON, come in pairs
    except UnicodeDecodeError:
        raise ValueError("it has the code of half a character without the other half") from None


def _character(found: re.Match[str]) -> str:
    escape, six, four = found.groups()
    if escape is None and six is None and four is None:
        raise ValueError(f"{found[0]} is followed by 4 hexadecimal digits, by + and 6 of them, or by itself")
    code = int(six or four or "0", 16)
    if code > 0x10FFFF:
        raise ValueError(f"there is no character of the code {six}")
    return str(escape or chr(code))


@by_value("space", params=(INT,), returns=STRING)
def space(count: int) -> str:
    """So many blanks."""
    if count > MAX_CHARACTERS:
        raise ValueError(f"the result is longer than {MAX_CHARACTERS} characters")
    return " " * count


@by_value("translate", params=(STRING, STRING, STRING), returns=STRING)
def translate(text: str, source: str, target: str) -> str:
    """Replace characters one by one; those without a counterpart vanish."""
    table: dict[int, str] = {}
    for i, character in enumerate(source):
        table.setdefault(ord(character), target[i : i + 1])
    return text.translate(table)


@by_value("overlay", params=(STRING, STRING, INT, INT), returns=STRING, optional=1)
def overlay(text: str, by: str, start: int, count: int | None = None) -> str:
    """Put `by` in the place of `count` characters (as many as it has) from `start`, which counts from 1."""
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
    """What stands before the first line feed or carriage return."""
    return pc.replace_substring_regex(text, r"(?s)[\r\n].*", "")


@scalar("isValidASCII", params=(each(STRING),), returns=BOOLEAN)
def is_valid_ascii(text: Any) -> Any:
    """Whether all characters have codes below 128."""
    return pc.string_is_ascii(text).to_numpy(zero_copy_only=False)

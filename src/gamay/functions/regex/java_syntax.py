r"""Translation of regular expressions from java.util.regex.Pattern's syntax to that of Python's `re` or RE2.

Most of the syntax is the same. Rewritten are quotes (`\Q…\E`), unions and intersections of classes (`[a-z&&[^b]]`),
properties (`\p{Lu}`, `\p{IsGreek}`), escapes of single characters, ends of the text, named groups and references to them,
and inline flags (`a(?i)b`). If the translation needs look-ahead, RE2 rejects it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.recently_used import remembered

_POSIX_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7F",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1F\x7F",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0B\f\r",
}
# binary Unicode properties, as sets in RE2's syntax
_BINARY_PROPERTIES = {
    "alphabetic": r"\p{L}\p{Nl}",
    "letter": r"\p{L}",
    "digit": r"\p{Nd}",
    "uppercase": r"\p{Lu}",
    "lowercase": r"\p{Ll}",
    "titlecase": r"\p{Lt}",
    "punctuation": r"\p{P}",
    "control": r"\p{Cc}",
    "whitespace": r"\t-\r\x85\p{Z}",
    "ideographic": r"\p{Han}",
}
_BLANKS = ((0x09, 0x09), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200A), (0x202F, 0x202F),
           (0x205F, 0x205F), (0x3000, 0x3000))  # fmt: skip
_VERTICAL_BLANKS = ((0x0A, 0x0D), (0x85, 0x85), (0x2028, 0x2029))
_LINE_ENDS = ((0x0A, 0x0A), (0x0D, 0x0D), (0x85, 0x85), (0x2028, 0x2029))
_HIGHEST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

_CODE = re.compile(
    r"\\(?:u(?P<high>[dD][89abAB]..)\\u(?P<low>[dD][c-fC-F]..)|u(?P<u>[0-9a-fA-F]{4})|x(?P<x>[0-9a-fA-F]{2})"
    r"|x\{(?P<long>[0-9a-fA-F]{1,6})\}|0(?P<octal>[0-3]?[0-7]{1,2})|c(?P<control>.)|(?P<escape>e))",
    re.ASCII,
)
_PROPERTY = re.compile(r"\\(?P<kind>[pP])(?:\{(?P<long>[^}]*)\}|(?P<short>[A-Z]))")
_SHORT = re.compile(r"\\(?P<kind>[hHvV])")
_FLAGS = re.compile(r"\(\?(?P<on>[idmsuxU]*)(?:-(?P<off>[idmsuxU]*))?(?P<end>[:)])")
_GROUP_NAME = re.compile(r"\(\?<(?=[A-Za-z])")
_REFERENCE = re.compile(r"\\k<(\w+)>")
_QUANTIFIER = re.compile(r"\{(?:\d+(?:,\d*)?|,\d+)\}")
_SPECIAL_IN_CLASS = frozenset(r"[]&~|^-\\")


@remembered()
def java_regex(pattern: str, *, for_re2: bool = False) -> str:
    """Translate a Java pattern to the syntax of Python's `re`, or of RE2 for conditions (where a match may extend further).

    Raises re.error for some invalid patterns; others fail when the result is compiled.

    >>> java_regex("[a-z&&[^b]]+(?<n>x)")
    '(?:(?=[a-z])[^b])+(?P<n>x)'
    """
    try:
        return "".join(_Reader(pattern, for_re2).parts())
    except RecursionError:
        raise re.error("classes are nested too deeply", pattern) from None


def has_unicode_flag(pattern: str) -> bool:
    """Return whether a pattern turns on `u` or `U` somewhere: Unicode case folding, and Unicode classes such as `\\w`."""
    return any({"u", "U"} & set(flags["on"]) for flags in _FLAGS.finditer(pattern))


@dataclass(frozen=True, slots=True)
class _Set:
    """A set of characters: members between brackets, and one-character expressions that brackets cannot hold."""

    members: str
    others: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        parts = [*([f"[{self.members}]"] if self.members else []), *self.others]
        return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})" if parts else "(?!)"

    def negated(self) -> "_Set":
        """Return the complement of the set."""
        if self.others or not self.members:
            return _Set("", (rf"(?:(?!{self.text})[\s\S])",))
        return _Set("", (f"[^{self.members}]",))


def _union(sets: "list[_Set]") -> _Set:
    return _Set("".join(one.members for one in sets), tuple(other for one in sets for other in one.others))


class _Reader:
    """Single-pass translator of a pattern."""

    def __init__(self, pattern: str, for_re2: bool) -> None:
        self._pattern = pattern
        self._at = 0
        self._for_re2 = for_re2
        # with the flag `m` somewhere, `$` is the end of a line, which all three engines treat alike
        self._has_lines = any("m" in flags["on"] for flags in _FLAGS.finditer(pattern))

    def parts(self) -> Iterator[str]:
        # inline flags that apply up to the end of each open group; `|` does not end them
        scopes: list[list[str]] = [[]]
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            flags = _FLAGS.match(self._pattern, self._at) if char == "(" else None
            if flags is not None:
                self._at = flags.end()
                opened = self._flags(flags)
                yield opened
                if flags["end"] == ")":
                    scopes[-1].append(opened)
                else:
                    scopes.append([])
                continue
            if char == "\\":
                yield self._escape()
                continue
            if char == "[":
                yield self._class().text
                continue
            self._at += 1
            if char == "(":
                scopes.append([])
                yield self._group()
            elif char == ")" and len(scopes) > 1:
                yield ")" * (len(scopes.pop()) + 1)
            elif char == "|":
                yield ")" * len(scopes[-1]) + "|" + "".join(scopes[-1])
            elif char == "$" and not self._has_lines:
                yield self._end()
            elif char == "{" and not _QUANTIFIER.match(self._pattern, self._at - 1):
                yield r"\{"  # the engine would accept more as quantifiers
            else:
                yield char
        yield ")" * len(scopes[-1])

    def _flags(self, flags: "re.Match[str]") -> str:
        """Return the start of a group with flags; `d` is dropped, and `u` stands for `U` as well."""
        on = "".join(dict.fromkeys(flags["on"].replace("d", "").replace("U", "u")))
        off = re.sub("[duU]", "", flags["off"] or "")
        return f"(?{on}{'-' if off else ''}{off}:"

    def _group(self) -> str:
        """Return the start of the group whose parenthesis was just read."""
        name = _GROUP_NAME.match(self._pattern, self._at - 1)
        if name is None:
            return "("
        self._at = name.end()
        return "(?P<"

    def _end(self) -> str:
        """Return the expression for the end of the text, or of its last line."""
        line_end = rf"(?:\r\n|[{self._ranges(_LINE_ENDS)}])?"
        return rf"{line_end}\z" if self._for_re2 else rf"(?={line_end}\Z)"

    # -- escapes

    def _escape(self) -> str:
        """Translate the escape at the current position, outside classes, and advance past it."""
        named = self._set_escape()
        if named is not None:
            return named.text
        reference = _REFERENCE.match(self._pattern, self._at)
        if reference is not None:
            self._at = reference.end()
            return f"(?P={reference[1]})"
        following = self._pattern[self._at + 1 : self._at + 2]
        if following == "Q":
            return re.escape(self._quoted())
        if following in ("z", "Z", "R"):
            self._at += 2
            if following == "R":
                return rf"(?:\r\n|[{self._ranges(_VERTICAL_BLANKS)}])"
            return self._end() if following == "Z" else r"\z" if self._for_re2 else r"\Z"
        return self._character_escape()

    def _quoted(self) -> str:
        r"""Return the text between `\Q` and `\E`, and advance past them."""
        end = self._pattern.find("\\E", self._at + 2)
        end = len(self._pattern) if end < 0 else end
        text, self._at = self._pattern[self._at + 2 : end], end + 2
        return text

    def _character_escape(self) -> str:
        """Translate an escape that is the same inside and outside classes."""
        code = _CODE.match(self._pattern, self._at)
        if code is None:
            escape = self._pattern[self._at : self._at + 2]
            self._at += 2
            return escape
        self._at = code.end()
        if code["high"]:
            pair = bytes.fromhex(code["high"] + code["low"])
            return self._character(ord(pair.decode("utf-16-be")))
        if code["escape"] or code["control"]:
            return self._character(0x1B if code["escape"] else ord(code["control"]) ^ 64)
        if code["octal"]:
            return self._character(int(code["octal"], 8))
        return self._character(int(code["u"] or code["x"] or code["long"], 16))

    def _character(self, code: int) -> str:
        """Return the expression of one character by its code."""
        if code > _HIGHEST:
            raise re.error("there is no such character", self._pattern, self._at)
        if code <= 0xFF:
            return f"\\x{code:02X}"
        return f"\\x{{{code:X}}}" if self._for_re2 else f"\\U{code:08X}"

    def _ranges(self, ranges: "tuple[tuple[int, int], ...]") -> str:
        """Return ranges of code points as members of a class."""
        return "".join(
            self._character(low) if low == high else f"{self._character(low)}-{self._character(high)}"
            for low, high in ranges
        )

    def _set_escape(self) -> _Set | None:
        """Return the set for the escape at the current position, and advance past it; None for other escapes."""
        named = _PROPERTY.match(self._pattern, self._at)
        if named is not None:
            self._at = named.end()
            known = _Set(self._property(named["short"] or named["long"]))
            return known.negated() if named["kind"] == "P" else known
        short = _SHORT.match(self._pattern, self._at)
        if short is None:
            return None
        self._at = short.end()
        known = _Set(self._ranges(_BLANKS if short["kind"] in "hH" else _VERTICAL_BLANKS))
        return known if short["kind"].islower() else known.negated()

    def _property(self, name: str) -> str:
        r"""Return the members of the class `\p{name}`."""
        if name in _POSIX_CLASSES:
            return _POSIX_CLASSES[name]
        plain = re.sub("^(?:Is|java)", "", name)
        key, _, value = plain.rpartition("=")
        binary = None if key else _BINARY_PROPERTIES.get(plain.lower().replace("_", ""))
        if binary is None:
            of_script = len(value) > 2
            binary = f"\\p{{{'_'.join(map(str.capitalize, value.split('_'))) if of_script else value}}}"
        if self._for_re2:
            return binary
        try:
            return self._ranges(_ranges_of(binary))
        except pa.ArrowInvalid:
            raise re.error(f"there is no property '{name}'", self._pattern, self._at) from None

    # -- classes

    def _class(self) -> _Set:
        """Translate the class that begins at the current position, and advance past it."""
        begin = self._at
        self._at += 1
        is_negated = self._pattern.startswith("^", self._at)
        self._at += is_negated
        operands: list[list[_Set]] = [[]]
        is_first = True
        while is_first or not self._pattern.startswith("]", self._at):
            if self._at >= len(self._pattern):
                raise re.error("unterminated character set", self._pattern, begin)
            if self._pattern.startswith("&&", self._at):
                self._at += 2
                operands.append([])
            elif self._pattern[self._at] == "[":
                operands[-1].append(self._class())
            else:
                operands[-1].append(self._set_escape() or _Set(self._members()))
            is_first = False
        self._at += 1
        sets = [_union(operand) for operand in operands if operand]
        whole = sets[0] if len(sets) == 1 else _intersection(sets)
        return whole.negated() if is_negated else whole

    def _members(self) -> str:
        """Return the character or range of a class at the current position, and advance past it."""
        if self._pattern.startswith("\\Q", self._at):
            return "".join(map(_escaped_in_class, self._quoted()))
        first = self._member()
        following = self._pattern[self._at + 1 : self._at + 2]
        if not self._pattern.startswith("-", self._at) or following in ("", "[", "]") or re.fullmatch(r"\\[dDsSwW]", first):
            return first
        self._at += 1
        return f"{first}-{self._member()}"

    def _member(self) -> str:
        if self._pattern[self._at] == "\\":
            return self._character_escape()
        char = self._pattern[self._at]
        self._at += 1
        return _escaped_in_class(char)


def _escaped_in_class(char: str) -> str:
    return f"\\{char}" if char in _SPECIAL_IN_CLASS else char


def _intersection(sets: "list[_Set]") -> _Set:
    ahead = "".join(f"(?={one.text})" for one in sets[:-1])
    return _Set("", (f"(?:{ahead}{sets[-1].text})",)) if sets else _Set("")


@remembered()
def _ranges_of(members: str) -> tuple[tuple[int, int], ...]:
    """Return the ranges of code points that a class of RE2 matches; raises ArrowInvalid if RE2 does not know it."""
    codes = np.delete(np.arange(_HIGHEST + 1, dtype=np.uint32), _SURROGATES)
    text = codes.astype("<u4").tobytes().decode("utf-32-le").encode()
    ends = np.cumsum(1 + (codes > 0x7F) + (codes > 0x7FF) + (codes > 0xFFFF), dtype=np.int32)  # of each one's UTF-8
    offsets = np.concatenate([np.zeros(1, np.int32), ends])
    characters = pa.StringArray.from_buffers(len(codes), pa.py_buffer(offsets), pa.py_buffer(text))
    found: Any = codes[np.asarray(pc.match_substring_regex(characters, f"[{members}]"))]
    runs = np.split(found, np.flatnonzero(np.diff(found) > 1) + 1)
    return tuple((int(run[0]), int(run[-1])) for run in runs if len(run))

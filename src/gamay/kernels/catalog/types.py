"""Types of kernels' arguments as text, and back.

    type := scalar | scalar '[' dimensions layout 'r'? ']' | '(' type (',' type)* ')'

scalar: Numba's name, as int64. layout: C, F or A (any strides). r: the array cannot be written to.
"""

import re
from typing import Any

from numba import types

_ARRAY = re.compile(r"(\w+)\[(\d+)([CFA])(r?)\]")


def text_of(kind: Any) -> str | None:
    """Return the text of a type of Numba; None for one that no argument from outside has, such as that of a literal."""
    if isinstance(kind, types.Literal):
        return None
    if isinstance(kind, types.Array):
        element = text_of(kind.dtype)
        return f"{element}[{kind.ndim}{kind.layout}{'' if kind.mutable else 'r'}]" if element and kind.aligned else None
    if isinstance(kind, types.BaseTuple):
        parts = [text_of(part) for part in kind.types]  # type: ignore[attr-defined]
        return None if None in parts or not parts else f"({','.join(map(str, parts))})"
    return str(kind) if isinstance(kind, types.Number | types.Boolean) else None


def types_of(text: str) -> tuple[Any, ...]:
    """Return the types of texts that stand between spaces; raises ValueError for what is none."""
    return tuple(_type_of(part) for part in text.split())


def _type_of(text: str) -> Any:
    if text.startswith("("):
        parts = [_type_of(part) for part in _parts(text[1:-1])]
        return types.BaseTuple.from_types(parts)  # type: ignore[no-untyped-call]
    array = _ARRAY.fullmatch(text)
    if array is None:
        return _scalar(text)
    element, dimensions, readonly = array[1], array[2], array[4]
    layout: Any = array[3]
    return types.Array(_scalar(element), int(dimensions), layout, readonly=bool(readonly))


def _scalar(name: str) -> Any:
    found = types.boolean if name == "bool" else getattr(types, name, None)
    if not isinstance(found, types.Number | types.Boolean):
        raise ValueError(f"{name!r} is no type of a kernel's argument")
    return found


def _parts(text: str) -> list[str]:
    """Cut at the commas that are not within parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts

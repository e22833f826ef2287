"""The texts between the % of a LIKE pattern, searched by a kernel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamay.functions.arrow import binary_buffers
from gamay.functions.vector import Values
from gamay.kernels.text.texts import match_parts

_CASE_BIT = 0x20


@dataclass(frozen=True, slots=True, eq=False)
class LikeParts:
    """The texts between the % of a LIKE pattern, as `gamay.kernels.text.texts.match_parts` takes them."""

    parts: Any
    ignored: Any
    bounds: Any
    is_begin_fixed: bool
    is_end_fixed: bool

    @staticmethod
    def of(texts: Sequence[str], is_begin_fixed: bool, is_end_fixed: bool, *, ignore_case: bool) -> "LikeParts":
        """Return non-empty parts in the kernel's form; in lower case if case is ignored."""
        parts = [text.encode() for text in texts]
        bounds = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=bounds[1:])
        joined = np.frombuffer(b"".join(parts), np.uint8)
        is_letter = (joined >= ord("a")) & (joined <= ord("z"))
        ignored = np.where(is_letter & ignore_case, _CASE_BIT, 0).astype(np.uint8)
        return LikeParts(joined, ignored, bounds, is_begin_fixed, is_end_fixed)

    def holds(self, values: Values) -> Any:
        """Return which texts contain the parts one after the other: bool [n]."""
        offsets, data = binary_buffers(values)
        found = np.empty(len(values), np.bool_)
        match_parts(data, offsets, self.parts, self.ignored, self.bounds, self.is_begin_fixed, self.is_end_fixed, found)
        return found

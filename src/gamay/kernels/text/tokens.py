"""Words of texts as numbers: those of text i are tokens[bounds[i]:bounds[i + 1]] (uint8, uint16 or uint32; int32)."""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def count_token(tokens: Array, bounds: Array, texts: Array, token: int, out: Array) -> None:
    """Set out[i] (int32) to how often text texts[i] (int64) has a word."""
    for i in range(len(texts)):
        text = texts[i]
        count = 0
        for k in range(bounds[text], bounds[text + 1]):
            count += np.int64(tokens[k]) == token
        out[i] = count


@kernel
def count_tokens(tokens: Array, bounds: Array, first: int, wanted: Array, out: Array) -> None:
    """Set out[i] (int32) to how many words of text first + i are flagged in `wanted`, bool [different words]."""
    for i in range(len(out)):
        text = first + i
        count = 0
        for k in range(bounds[text], bounds[text + 1]):
            count += wanted[tokens[k]]
        out[i] = count

"""Words of texts as numbers: those of text i are tokens[bounds[i]:bounds[i + 1]] (uint8, uint16 or uint32; int32)."""

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel


@kernel
def count_tokens(tokens: Array, bounds: Array, texts: Array, wanted: Array, out: Array) -> None:
    """Set out[i] (int32) to how many words of text texts[i] (int64) are flagged in `wanted`, bool [different words]."""
    for i in range(len(texts)):
        text = texts[i]
        count = 0
        for k in range(bounds[text], bounds[text + 1]):
            count += wanted[tokens[k]]
        out[i] = count

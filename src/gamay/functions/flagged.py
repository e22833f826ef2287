"""Selection of operand rows by flags, one for each row, without building a list of their positions."""

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.frame import FramedVector
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, take, take_rows
from gamay.kernels.rows.masks import compress


def flagged_values(values: Values, flags: Array, kept: int) -> Values:
    """Return the values whose flag (uint8) is 1, not 0; kept: the number of ones."""
    if not isinstance(values, np.ndarray) or values.dtype.hasobject:
        return take(values, np.flatnonzero(flags))
    out = np.empty(kept + 1, values.dtype)
    return out[: compress(values, flags, out)]


def flagged_rows(operand: Operand, flags: Array, kept: int) -> Operand:
    """Return the rows whose flag is 1, see `flagged_values`; a constant is returned unchanged."""
    if isinstance(operand, Scalar):
        return operand
    if operand.offsets is not None:
        return take_rows(operand, np.flatnonzero(flags))
    nulls = None if operand.nulls is None else flagged_values(operand.nulls, flags, kept)
    if isinstance(operand, EncodedVector):
        return EncodedVector(flagged_values(operand.ids, flags, kept), operand.dictionary, None, nulls)
    if isinstance(operand, FramedVector):
        framed = operand.kept(flags.view(np.bool_), lambda values: flagged_values(values, flags, kept))
        return framed.with_nulls(nulls)
    return Vector(operand.type, flagged_values(operand.values, flags, kept), None, nulls)

"""DISTINCTCOUNTHLLPLUS and DISTINCTCOUNTRAWHLLPLUS: HyperLogLog++ sketches.

    DISTINCTCOUNTHLLPLUS(x [, p = 14 [, sp = 0]])

`gamay.functions.sketch.hllplus` documents the format.
"""

from collections.abc import Sequence

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.sketch.registers import RegisterSketch, register_sketch
from gamay.functions.aggregate.totals.numeric import require_one_argument
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.hllplus import DEFAULT_PRECISION, HllPlusKind
from gamay.functions.sketch.parameters import Number, number_parameter
from gamay.model.table.sketch_limits import HLL_PLUS_PRECISION_RANGE, SPARSE_PRECISION_MAX
from gamay.model.types import DataType

PRECISION = Number(DEFAULT_PRECISION, HLL_PLUS_PRECISION_RANGE[0], HLL_PLUS_PRECISION_RANGE[-1])
SPARSE_PRECISION = Number(0, 0, SPARSE_PRECISION_MAX)


def hllplus_kind(call: Call, precision: int, sparse_precision: int) -> HllPlusKind:
    """Return the kind with these parameters; raises QueryError if sp is below p."""
    if sparse_precision and sparse_precision < precision:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"'{call.name}': sp must be 0 or at least p, not {sparse_precision} with p {precision}",
        )
    return HllPlusKind(precision, sparse_precision)


def _bind(call: Call, arg_types: Sequence[ValueType]) -> RegisterSketch:
    data_type, _ = require_one_argument(call, arg_types, 2)
    kind = hllplus_kind(call, number_parameter(call, 1, "p", PRECISION), number_parameter(call, 2, "sp", SPARSE_PRECISION))
    return register_sketch(kind, "raw" in call.name, data_type is DataType.BYTES, str(kind))


register_aggregate(["distinctCountHLLPlus", "distinctCountHLLPlusMV"], _bind)
register_aggregate(["distinctCountRawHLLPlus", "distinctCountRawHLLPlusMV"], _bind)

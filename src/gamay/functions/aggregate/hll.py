"""DISTINCTCOUNTHLL, DISTINCTCOUNTRAWHLL and FASTHLL: HyperLogLog sketches, bit for bit those that Pinot makes.

    DISTINCTCOUNTHLL(x [, log2m = 8])

The format is told in `gamay.functions.sketch.hll`. FASTHLL is the same by an old name; over STRING it merges serialised
sketches, in HEX or one character for each byte as old segments have them.
"""

from collections.abc import Sequence

from gamay.functions.aggregate.numeric import require_one_argument
from gamay.functions.aggregate.registers import RegisterSketch
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.hll import DEFAULT_LOG2M, LOG2M_RANGE, HllKind
from gamay.functions.sketch.parameters import Number, number_parameter, require_at_most
from gamay.model.types import DataType

_LOG2M = Number(DEFAULT_LOG2M, LOG2M_RANGE[0], LOG2M_RANGE[-1])


def _bind(call: Call, arg_types: Sequence[ValueType]) -> RegisterSketch:
    data_type, _ = require_one_argument(call, arg_types)
    require_at_most(call, 2)
    log2m = number_parameter(call, 1, "log2m", _LOG2M)
    return RegisterSketch(HllKind(log2m), "raw" in call.name, data_type is DataType.BYTES, f"hll {log2m}")


register_aggregate(["distinctCountHLL", "distinctCountHLLMV"], _bind)
register_aggregate(["distinctCountRawHLL", "distinctCountRawHLLMV"], _bind)

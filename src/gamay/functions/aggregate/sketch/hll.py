"""DISTINCTCOUNTHLL, DISTINCTCOUNTRAWHLL and FASTHLL: HyperLogLog sketches, bit for bit identical to Pinot's.

    DISTINCTCOUNTHLL(x [, log2m = 8])

`gamay.functions.sketch.hll` documents the format. Over BYTES, serialised sketches are merged; FASTHLL also merges them over
STRING, in hexadecimal or one character for each byte as in old segments.
"""

from collections.abc import Sequence

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.sketch.registers import RegisterSketch, register_sketch
from gamay.functions.aggregate.totals.numeric import require_one_argument
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.hll import DEFAULT_LOG2M, LOG2M_RANGE, HllKind
from gamay.functions.sketch.parameters import Number, number_parameter
from gamay.model.types import DataType

_LOG2M = Number(DEFAULT_LOG2M, LOG2M_RANGE[0], LOG2M_RANGE[-1])


def _bind(call: Call, arg_types: Sequence[ValueType]) -> RegisterSketch:
    data_type, _ = require_one_argument(call, arg_types, 1)
    log2m = number_parameter(call, 1, "log2m", _LOG2M)
    return register_sketch(HllKind(log2m), "raw" in call.name, data_type is DataType.BYTES, f"hll {log2m}")


def _bind_fast(call: Call, arg_types: Sequence[ValueType]) -> RegisterSketch:
    data_type, _ = require_one_argument(call, arg_types, 1)
    if not data_type.is_text and data_type is not DataType.BYTES:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Aggregate '{call.name}' merges serialised sketches in STRING or BYTES, not {data_type.value}; "
            "values are counted by DISTINCTCOUNTHLL",
        )
    log2m = number_parameter(call, 1, "log2m", _LOG2M)
    return register_sketch(HllKind(log2m), False, True, f"hll {log2m} of {data_type.value}")


register_aggregate(["distinctCountHLL", "distinctCountHLLMV"], _bind)
register_aggregate(["distinctCountRawHLL", "distinctCountRawHLLMV"], _bind)
register_aggregate(["fastHLL", "fastHLLMV"], _bind_fast)

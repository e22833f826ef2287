"""DISTINCTCOUNTULL and DISTINCTCOUNTRAWULL: UltraLogLog sketches.

    DISTINCTCOUNTULL(x [, p = 12])

`gamay.functions.sketch.ull` documents the format.
"""

from collections.abc import Sequence

from gamay.functions.aggregate.sketch.registers import RegisterSketch, register_sketch
from gamay.functions.aggregate.totals.numeric import require_one_argument
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.parameters import Number, number_parameter
from gamay.functions.sketch.ull import DEFAULT_PRECISION, PRECISION_RANGE, UllKind
from gamay.model.types import DataType

PRECISION = Number(DEFAULT_PRECISION, PRECISION_RANGE[0], PRECISION_RANGE[-1])


def _bind(call: Call, arg_types: Sequence[ValueType]) -> RegisterSketch:
    data_type, _ = require_one_argument(call, arg_types, 1)
    kind = UllKind(number_parameter(call, 1, "p", PRECISION))
    return register_sketch(kind, "raw" in call.name, data_type is DataType.BYTES, str(kind))


register_aggregate(["distinctCountULL", "distinctCountULLMV", "distinctCountRawULL", "distinctCountRawULLMV"], _bind)

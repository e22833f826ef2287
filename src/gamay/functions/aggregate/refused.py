"""TIMESERIESAGGREGATE: a part of Pinot's time-series queries; a call is refused with a hint what to write instead."""

from collections.abc import Sequence
from typing import NoReturn

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate


def _refuse(call: Call, arg_types: Sequence[ValueType]) -> NoReturn:
    raise QueryError(
        ErrorCode.QUERY_VALIDATION,
        "Aggregate 'timeSeriesAggregate': it is a part of time-series queries; write GROUP BY dateTrunc('HOUR', t), …",
    )


register_aggregate(["timeSeriesAggregate"], _refuse, arguments=lambda call: ())

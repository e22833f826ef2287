"""TIMESERIESAGGREGATE: a part of time-series queries in Pinot; the name is known, and a call says what to do instead."""

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

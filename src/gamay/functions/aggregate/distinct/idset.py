"""IDSET: the distinct values of each group as one text, which `inIdSet` and IN_SUBQUERY look values up in.

    IDSET(x [, 'sizeThresholdInBytes=8388608;expectedInsertions=5000000;fpp=0.03'])

`gamay.functions.sketch.idset` documents the format. Values are collected exactly and become a set at the end, so that the
text depends on the values only, not on how they were divided among segments.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.functions.aggregate.distinct.distinct import DistinctAggregate, of_values
from gamay.functions.aggregate.distinct.pairs import PairsPartial
from gamay.functions.aggregate.totals.numeric import require_one_argument
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType, register_aggregate
from gamay.functions.sketch.idset import Settings, build, to_text
from gamay.functions.sketch.parameters import Number, text_parameters
from gamay.functions.vector import EncodedVector, Vector, take
from gamay.model.types import DataType

_DEFAULT = Settings()
_SETTINGS = {
    "sizeThresholdInBytes": Number(_DEFAULT.threshold, 0, (1 << 31) - 1),
    "expectedInsertions": Number(_DEFAULT.insertions, 1, 100_000_000),
    "fpp": Number(_DEFAULT.fpp, 1e-9, 0.999),
}


def values_by_group(partial: PairsPartial) -> list[Vector]:
    """Return the values of each group."""
    values = partial.values.decode() if isinstance(partial.values, EncodedVector) else partial.values
    if partial.num_groups == 1:
        return [values]
    order = np.argsort(partial.groups, kind="stable")
    ends = np.cumsum(np.bincount(partial.groups, minlength=partial.num_groups))
    return [Vector(values.type, take(values.values, part)) for part in np.split(order, ends[:-1])] if len(ends) else []


def _id_sets(settings: Settings) -> Callable[[PairsPartial], Any]:
    def result(partial: PairsPartial) -> pa.Array:
        return pa.array([to_text(build(values, settings)) for values in values_by_group(partial)], pa.string())

    return result


def _bind(call: Call, arg_types: Sequence[ValueType]) -> DistinctAggregate:
    data_type, _ = require_one_argument(call, arg_types, 1)
    given = text_parameters(call, 1, _SETTINGS)
    settings = Settings(int(given["sizeThresholdInBytes"]), int(given["expectedInsertions"]), given["fpp"])
    return of_values(data_type, _id_sets(settings), DataType.STRING)


register_aggregate(["idSet", "idSetMV"], _bind)

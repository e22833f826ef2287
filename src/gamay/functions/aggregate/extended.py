"""The aggregate functions that few queries use, one module for each family; importing this module registers them all."""

import importlib

_FAMILIES: tuple[str, ...] = (
    "distinct.bitmap",
    "sketch.cpc",
    "sketch.frequent",
    "sketch.hllplus",
    "distinct.idset",
    "sketch.smart",
    "sketch.theta",
    "sketch.tuple_sketch",
    "sketch.ull",
    "totals.moments",
    "choose.chosen",
    "distinct.exact",
    "totals.histogram",
    "percentile.kll",
    "choose.collected",
    "totals.array_sums",
    "funnel.windows",
    "funnel.count",
    "refused",
)

for _family in _FAMILIES:
    importlib.import_module(f"gamay.functions.aggregate.{_family}")

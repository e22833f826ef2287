"""The aggregate functions that few queries use: one module for each family; importing this module registers them all."""

import importlib

_FAMILIES: tuple[str, ...] = (
    "bitmap",
    "cpc",
    "frequent",
    "hllplus",
    "idset",
    "smart",
    "theta",
    "tuple_sketch",
    "ull",
    "moments",
    "chosen",
    "exact",
    "histogram",
    "kll",
    "collected",
    "array_sums",
    "window_funnels",
    "funnel_count",
    "refused",
)

for _family in _FAMILIES:
    importlib.import_module(f"gamay.functions.aggregate.{_family}")

"""Scalar functions: one module for each family; importing the package registers them all."""

import importlib

_FAMILIES = (
    "arithmetic",
    "rounding",
    "bits",
    "comparison",
    "logic",
    "casting",
    "strings",
    "patterns",
    "dates",
    "epochs",
    "arrays",
    "json_path",
    "hashing",
)

for _family in _FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")

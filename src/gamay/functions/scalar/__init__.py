"""Scalar functions: one module for each family; importing the package registers those that most queries use.

Users' own functions need the decorators `scalar` and `by_value` and the parameter kinds from here.
"""

import importlib

from gamay.functions.scalar.define import ANY, by_value, const, each, fixed, lists, scalar

__all__ = ["ANY", "by_value", "const", "each", "fixed", "lists", "scalar"]

_FAMILIES = (
    "number.arithmetic",
    "number.rounding",
    "comparison",
    "logic",
    "casting",
    "text.strings",
    "text.patterns",
    "time.dates",
)

for _family in _FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")

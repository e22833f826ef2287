"""The scalar functions that many, but not most, queries use, by family; importing this module registers them."""

import importlib

_FAMILIES = ("array.arrays", "number.bits", "time.epochs", "hash.digests", "json.path")

for _family in _FAMILIES:
    importlib.import_module(f"gamay.functions.scalar.{_family}")

"""The scalar functions that few queries use: one module for each family; importing this module registers them all."""

import importlib

_FAMILIES: tuple[str, ...] = ("randomness", "idset", "hashes", "uuids", "addresses", "json_match")

for _family in _FAMILIES:
    importlib.import_module(f"gamay.functions.scalar.{_family}")

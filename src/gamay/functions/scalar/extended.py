"""The scalar functions that few queries use: one module for each family; importing this module registers them all."""

import importlib

_FAMILIES: tuple[str, ...] = (
    "randomness",
    "characters",
    "similarity",
    "ngrams",
    "codecs",
    "url",
    "hopping",
    "date_lists",
    "idset",
    "sketches",
    "hashes",
    "uuids",
    "addresses",
    "json_match",
    "json_values",
    "map_item",
    "text_match",
    "array_making",
    "array_sets",
    "geo",
    "geohash",
    "distances",
    "nearest",
    "clp",
    "diagnostics",
    "lookup",
    "joined",
    "refused",
)

for _family in _FAMILIES:
    importlib.import_module(f"gamay.functions.scalar.{_family}")

"""The scalar functions that few queries use, by family; importing this module registers them all."""

import importlib

_FAMILIES: tuple[str, ...] = (
    "number.randomness",
    "text.characters",
    "text.similarity",
    "text.ngrams",
    "text.codecs",
    "text.url",
    "time.hopping",
    "time.date_lists",
    "hash.idset",
    "hash.sketches",
    "hash.hashes",
    "text.uuids",
    "text.addresses",
    "json.match",
    "json.values",
    "json.map_item",
    "text.text_match",
    "text.text_score",
    "array.making",
    "array.sets",
    "geo.geometries",
    "geo.geohash",
    "array.distances",
    "array.nearest",
    "text.clp",
    "table.diagnostics",
    "table.lookup",
    "table.joined",
    "refused",
)

for _family in _FAMILIES:
    importlib.import_module(f"gamay.functions.scalar.{_family}")

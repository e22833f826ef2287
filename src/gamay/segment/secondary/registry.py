"""The secondary index types by kind. A new type is a module here, and a line in `_TYPES` and in `SECONDARY_KINDS`."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from gamay.segment.secondary.spi import IndexType

# imported when a table first has such an index: some bring large libraries
_TYPES = {
    "fst": "gamay.segment.secondary.fst:FST",
    "ifst": "gamay.segment.secondary.fst:IFST",
    "json": "gamay.segment.secondary.json_index.index:JSON",
    "h3": "gamay.segment.secondary.h3.index:H3",
    "text": "gamay.segment.secondary.text.index_type:TEXT",
    "vector": "gamay.segment.secondary.vector.index_type:VECTOR",
}


@cache
def index_type(kind: str) -> IndexType:
    """Return the type of a kind, one of `SECONDARY_KINDS`."""
    module, _, name = _TYPES[kind].partition(":")
    found: IndexType = getattr(import_module(module), name)
    return found


@cache
def missing_extra(kind: str) -> str | None:
    """Return the extra without which indexes of a kind cannot be built or asked; None when it is installed."""
    wanted = index_type(kind)
    return wanted.extra if wanted.needs is not None and find_spec(wanted.needs) is None else None

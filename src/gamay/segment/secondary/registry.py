"""The secondary index types by kind. A new type is a package here, and a line in `SECONDARY_TYPES`."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from gamay.model.index.kinds import SECONDARY_TYPES
from gamay.segment.secondary.spi import IndexType


@cache
def index_type(kind: str) -> IndexType:
    """Return the type of a kind, one of `SECONDARY_TYPES`."""
    module, _, name = SECONDARY_TYPES[kind].partition(":")
    found: IndexType = getattr(import_module(module), name)
    return found


@cache
def missing_extra(kind: str) -> str | None:
    """Return the extra without which indexes of a kind cannot be built or asked; None when it is installed."""
    wanted = index_type(kind)
    return wanted.extra if wanted.needs is not None and find_spec(wanted.needs) is None else None

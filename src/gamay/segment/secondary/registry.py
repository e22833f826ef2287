"""The secondary index types by kind.

A new type is a package here and a line in `gamay.model.index.kinds`, or a package elsewhere with an entry point.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from gamay.base.errors import InvalidConfigError
from gamay.model.index.kinds import INSTALLED_TYPES, SECONDARY_TYPES
from gamay.segment.secondary.spi import IndexType


@cache
def index_type(kind: str) -> IndexType:
    """Return the type of a kind, one of `SECONDARY_TYPES`. Raises InvalidConfigError if its module cannot be loaded."""
    path = SECONDARY_TYPES[kind]
    module, _, name = path.partition(":")
    try:
        found: IndexType = getattr(import_module(module), name)
    except Exception as error:
        if kind not in INSTALLED_TYPES:
            raise
        raise InvalidConfigError(f"the index type '{kind}' cannot be loaded from '{path}': {error!r}") from error
    return found


@cache
def missing_extra(kind: str) -> str | None:
    """Return the missing extra that is needed to build or query indexes of a kind; None if nothing is missing."""
    wanted = index_type(kind)
    return wanted.extra if wanted.needs is not None and find_spec(wanted.needs) is None else None

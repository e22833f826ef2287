"""A query whose template a server received before: the digest of the template, and the filter that the broker bound.

The digest fully identifies the template, so that nothing has to be agreed on: a server that does not have the template (any
more) reports that, and receives the complete query.

    filter = nil for every row | [leaf, …], all of which hold
    leaf   = [column, [value, …]] | [column, lower, upper, is lower inclusive, is upper inclusive]
"""

from hashlib import blake2b
from typing import Any

import msgspec

from gamay.base.errors import ErrorCode, QueryError
from gamay.query.bind.predicate import EVERYTHING, And, Filter, In, Range

_DIGEST_BYTES = 16


class KnownQuery(msgspec.Struct, array_like=True, frozen=True):
    """digest: of the template's bytes. filter: see above. as_text: whether the rows of the answer are wanted as JSON."""

    digest: bytes
    limit: int
    offset: int
    filter: Any
    as_text: bool = False


def digest_of(template: bytes) -> bytes:
    """Return the digest that identifies a template."""
    return blake2b(template, digest_size=_DIGEST_BYTES).digest()


def packed(filter_: Filter) -> Any:
    """Return a filter of a `PreparedFilter` in MessagePack form."""
    if filter_ is EVERYTHING:
        return None
    return [_packed(part) for part in filter_.parts] if isinstance(filter_, And) else [_packed(filter_)]


def _packed(leaf: Filter) -> list[Any]:
    if isinstance(leaf, In):
        return [leaf.column, leaf.values]
    assert isinstance(leaf, Range)
    return [leaf.column, leaf.lower, leaf.upper, leaf.lower_inclusive, leaf.upper_inclusive]


def unpacked(leaves: Any) -> Filter:
    """Return the filter that was packed. Raises QueryError 450 for invalid data."""
    if leaves is None:
        return EVERYTHING
    try:
        parts = tuple([In(leaf[0], tuple(leaf[1])) if len(leaf) == 2 else Range(*leaf) for leaf in leaves])
        return And(parts) if len(parts) > 1 else parts[0]
    except (TypeError, ValueError, IndexError) as error:
        raise QueryError(ErrorCode.INTERNAL, f"The broker sent an invalid filter: {error!r}") from error

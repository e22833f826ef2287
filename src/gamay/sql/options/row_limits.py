"""Row limits: the largest LIMIT of a query, and its default."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from gamay.base.errors import ErrorCode, QueryError
from gamay.model.cluster_settings import DEFAULT_QUERY_LIMIT, QUERY_LIMIT_OVERRIDE, QUERY_RESPONSE_LIMIT
from gamay.sql.query import Query

DEFAULT_LIMIT = 10
LIMIT_MAX = 2147483647


class RowLimits(NamedTuple):
    """Limits of LIMIT: a part of query shapes, so hashing must be fast.

    absent: the default LIMIT. most: the largest; a larger one is rejected, or reduced to it if `lowers`."""

    absent: int = DEFAULT_LIMIT
    most: int = LIMIT_MAX
    lowers: bool = False

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "RowLimits":
        """Return the limits of a cluster's settings."""
        absent = DEFAULT_QUERY_LIMIT.whole(settings)
        most = min(QUERY_RESPONSE_LIMIT.whole(settings), LIMIT_MAX)
        return cls(most if absent < 0 else min(absent, most), most, QUERY_LIMIT_OVERRIDE.flag(settings))

    def allowed(self, number: int, clause: str) -> int:
        """Return the number of rows for the number in `clause`; raises QueryError 700 if it is too large."""
        if number <= self.most:
            return number
        if self.lowers:
            return self.most
        raise limit_error(number, clause, self.most)


STANDARD_LIMITS = RowLimits()


def limit_error(number: object, clause: str, most: int) -> QueryError:
    """Return the error for a LIMIT that is too large."""
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Value for '{clause}' ({number}) exceeds maximum allowed value of {most}")


def with_limits(query: Query, limits: RowLimits) -> Query:
    """Apply limits to the LIMIT of a query. Raises QueryError 700."""
    limit = limits.allowed(query.limit, "LIMIT") if query.has_limit else limits.absent
    return query if limit == query.limit else replace(query, limit=limit)


def looking_ahead(query: Query, limits: RowLimits) -> Query:
    """Let a query without LIMIT read one extra row, to detect whether there are more."""
    is_plain = not query.has_limit and query.gapfill is None and not query.explain
    if not is_plain or query.limit != limits.absent or query.limit >= LIMIT_MAX:
        return query
    return replace(query, limit=query.limit + 1, looks_ahead=True)
